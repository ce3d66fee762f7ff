// SPDX-License-Identifier: Apache-2.0
// ONNX quantisation, as the arithmetic that it stands for.
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using base::strCat;

struct Limits {
  double low, high;
};

std::optional<Limits> limitsOf(ElementType element) {
  switch (element) {
    case ElementType::kI8:
      return Limits{-128, 127};
    case ElementType::kU8:
      return Limits{0, 255};
    case ElementType::kI16:
      return Limits{-32768, 32767};
    case ElementType::kU16:
      return Limits{0, 65535};
    default:
      return std::nullopt;
  }
}

/// A scale or zero point that broadcasts along `axis` of a rank-`rank` tensor.
Value parameter(NodeContext& node, size_t index, int64_t rank, int64_t axis) {
  Value v = node.input(index);
  if (!v || node.rank(v) == 0) return v;
  if (node.rank(v) > 1) return node.unsupported("blocked scales"), Value();
  if (node.typeOf(v).getNumElements() == 1) return node.reshape(v, Ints());
  Ints shape(rank - axis, 1);
  shape[0] = node.typeOf(v).getDimSize(0);
  return node.reshape(v, shape);
}

std::optional<int64_t> quantisedAxis(NodeContext& node, Value x) {
  if (!x) return std::nullopt;
  if (node.integer("block_size", 0)) return node.unsupported("blocked scales"), std::nullopt;
  RankedTensorType scale = node.inputType(1);
  if (scale && scale.getRank() == 0) return 0;
  return node.axis(node.integer("axis", 1), std::max<int64_t>(node.rank(x), 1));
}

void convertQuantize(NodeContext& node) {
  Value x = node.input(0);
  std::optional<int64_t> axis = quantisedAxis(node, x);
  if (!axis) return;
  ElementType to = ElementType::kU8;
  if (node.hasAttribute("output_dtype") && node.integer("output_dtype", 0))
    to = elementOfOnnxType(static_cast<int32_t>(node.integer("output_dtype", 0)));
  if (node.has(2) && node.inputType(2)) to = ir::elementType(node.inputType(2).getElementType());
  std::optional<Limits> limits = limitsOf(to);
  if (!limits) return node.unsupported(strCat("quantisation to ", elementTypeName(to)));
  if (!node.isFloat(x)) return node.unsupported("integer input");
  mlir::Type real = node.elementOf(x);
  Value scale = node.cast(parameter(node, 1, node.rank(x), *axis), real);
  Value steps = node.op("round", node.op("div", {x, scale}));
  if (node.has(2)) steps = node.op("add", {steps, node.cast(parameter(node, 2, node.rank(x), *axis), real)});
  Value inside = node.op("clip", steps, {{"min", limits->low}, {"max", limits->high}});
  node.setOutput(0, node.cast(inside, ir::mlirElementType(node.context(), to)));
}

void convertDequantize(NodeContext& node) {
  Value x = node.input(0);
  std::optional<int64_t> axis = quantisedAxis(node, x);
  if (!axis) return;
  Value scale = parameter(node, 1, node.rank(x), *axis);
  if (!scale) return;
  mlir::Type real = node.elementOf(scale);
  Value steps = node.cast(x, real);
  if (node.has(2)) steps = node.op("sub", {steps, node.cast(parameter(node, 2, node.rank(x), *axis), real)});
  node.setOutput(0, node.op("mul", {steps, scale}));
}

void convertDynamicQuantize(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  Ints axes;
  for (int64_t d = 0; d < node.rank(x); ++d) axes.push_back(d);
  auto extreme = [&](llvm::StringRef op) {
    return axes.empty() ? x : node.op(op, x, {{"axes", axes}, {"keepdims", false}});
  };
  Value zero = node.scalarLike(x, 0);
  Value high = node.op("max", {extreme("reduce_max"), zero}), low = node.op("min", {extreme("reduce_min"), zero});
  // A range of nothing but zeros has the scale 1, as in ONNX Runtime.
  Value step = node.op("div", {node.op("sub", {high, low}), node.scalarLike(x, 255)});
  Value scale = node.op("where", {node.op("equal", {step, zero}), node.scalarLike(x, 1), step});
  Value start =
      node.op("clip", node.op("round", node.op("div", {node.op("neg", low), scale})), {{"min", 0.0}, {"max", 255.0}});
  Value steps = node.op("add", {node.op("round", node.op("div", {x, scale})), start});
  mlir::Type u8 = ir::mlirElementType(node.context(), ElementType::kU8);
  node.setOutput(0, node.cast(node.op("clip", steps, {{"min", 0.0}, {"max", 255.0}}), u8));
  node.setOutput(1, scale);
  node.setOutput(2, node.cast(start, u8));
}

constexpr OpRow kRows[] = {
    {"QuantizeLinear", 10, kNewestOpset, convertQuantize, "", "of floats to 8 and 16 bits, one scale or one a channel"},
    {"DequantizeLinear", 10, kNewestOpset, convertDequantize, "", "one scale or one a channel"},
    {"DynamicQuantizeLinear", 11, kNewestOpset, convertDynamicQuantize, "",
     "a range beyond f32 has the scale infinity, as in ONNX Runtime"},
};

}  // namespace

llvm::ArrayRef<OpRow> quantizationRows() {
  return kRows;
}

}  // namespace hpu::importer
