// SPDX-License-Identifier: Apache-2.0
// Products of quantised integers: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv. The MME multiplies
// floats, so the operands become floats less their zero points: sums below 2^24 are exact. The products say so
// (`exact`), so that no precision narrows them and no scale goes into their weights.
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using base::strCat;

/// Along which dimension of a product's operand (or result) a list of parameters runs.
enum class Along { kRows, kColumns, kChannels, kFilters };

/// A scale or zero point as f32 that broadcasts against a tensor of `rank`; null when it is not given.
Value parameter(NodeContext& node, size_t index, int64_t rank, Along along) {
  if (!node.has(index)) return {};
  Value v = node.input(index);
  if (!v) return {};
  v = node.cast(v, node.builder().getF32Type());
  if (node.rank(v) > 1) return v;  // As in NumPy already: [..., M, 1] or [..., 1, N].
  if (node.rank(v) == 0) return v;
  const int64_t count = node.typeOf(v).getNumElements();
  if (count == 1) return node.reshape(v, Ints());
  switch (along) {
    case Along::kRows:
      return node.reshape(v, Ints{count, 1});
    case Along::kColumns:
      return v;
    case Along::kChannels:
      break;
    case Along::kFilters:
      break;
  }
  Ints shape(along == Along::kFilters ? rank : rank - 1, 1);
  shape[0] = count;
  return node.reshape(v, shape);
}

bool isInteger8(NodeContext& node, Value v) {
  ElementType type = ir::elementType(node.elementOf(v));
  return type == ElementType::kI8 || type == ElementType::kU8;
}

/// Operand `index` less its zero point, in f32.
Value centred(NodeContext& node, size_t index, size_t zeroPoint, Along along) {
  Value v = node.input(index);
  if (!v) return {};
  if (!isInteger8(node, v))
    return node.unsupported(
               strCat("operands of type ", elementTypeName(ir::elementType(node.elementOf(v))), " (i8 and u8 are)")),
           Value();
  Value real = node.cast(v, node.builder().getF32Type());
  Value zero = parameter(node, zeroPoint, node.rank(v), along);
  return zero ? node.op("sub", {real, zero}) : real;
}

/// round(sum * scale) + zero point, in the type of the zero point (input `zeroPoint`).
void requantise(NodeContext& node, Value sum, Value scale, size_t zeroPoint) {
  RankedTensorType type = node.inputType(zeroPoint);
  if (!sum || !type) return;
  ElementType to = ir::elementType(type.getElementType());
  const bool isSigned = to == ElementType::kI8;
  if (!isSigned && to != ElementType::kU8) return node.unsupported(strCat("results of type ", elementTypeName(to)));
  Value steps = node.op("round", node.op("mul", {sum, scale}));
  steps = node.op("add", {steps, parameter(node, zeroPoint, node.rank(sum), Along::kColumns)});
  Value inside = node.op("clip", steps, {{"min", isSigned ? -128.0 : 0.0}, {"max", isSigned ? 127.0 : 255.0}});
  node.setOutput(0, node.cast(inside, type.getElementType()));
}

void convertMatMulInteger(NodeContext& node) {
  Value a = centred(node, 0, 2, Along::kRows), b = centred(node, 1, 3, Along::kColumns);
  if (!a || !b) return;
  if (node.rank(a) < 2 || node.rank(b) < 2) return node.unsupported("operands of rank 1");
  node.setOutput(0, node.cast(node.op("matmul", {a, b}, {{"exact", true}}), node.builder().getI32Type()));
}

void convertConvInteger(NodeContext& node) {
  Value x = centred(node, 0, 2, Along::kChannels), w = centred(node, 1, 3, Along::kFilters);
  node.setOutput(0, node.cast(convolve(node, x, w, true), node.builder().getI32Type()));
}

void convertQLinearMatMul(NodeContext& node) {
  Value a = centred(node, 0, 2, Along::kRows), b = centred(node, 3, 5, Along::kColumns);
  if (!a || !b) return;
  if (node.rank(a) < 2 || node.rank(b) < 2) return node.unsupported("operands of rank 1");
  Value product = node.op("matmul", {a, b}, {{"exact", true}});
  if (!product) return;
  int64_t rank = node.rank(product);
  Value scale = node.op("mul", {parameter(node, 1, rank, Along::kRows), parameter(node, 4, rank, Along::kColumns)});
  requantise(node, product, node.op("div", {scale, parameter(node, 6, rank, Along::kColumns)}), 7);
}

void convertQLinearConv(NodeContext& node) {
  Value x = centred(node, 0, 2, Along::kChannels), w = centred(node, 3, 5, Along::kFilters);
  Value sum = convolve(node, x, w, true);
  if (!sum) return;
  int64_t rank = node.rank(sum);
  // The bias is in units of both scales.
  if (node.has(8)) sum = node.op("add", {sum, parameter(node, 8, rank, Along::kChannels)});
  Value scale =
      node.op("mul", {parameter(node, 1, rank, Along::kChannels), parameter(node, 4, rank, Along::kChannels)});
  requantise(node, sum, node.op("div", {scale, parameter(node, 6, rank, Along::kChannels)}), 7);
}

constexpr const char* kLimits = "8-bit operands; computed in f32, exact while sums stay below 2^24";
constexpr OpRow kRows[] = {
    {"MatMulInteger", 10, kNewestOpset, convertMatMulInteger, "", kLimits},
    {"ConvInteger", 10, kNewestOpset, convertConvInteger, "", kLimits},
    {"QLinearMatMul", 10, kNewestOpset, convertQLinearMatMul, "", kLimits},
    {"QLinearConv", 10, kNewestOpset, convertQLinearConv, "", kLimits},
};

}  // namespace

llvm::ArrayRef<OpRow> integerProductRows() {
  return kRows;
}

}  // namespace hpu::importer
