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

std::optional<Limits> limitsOf(ElementType element, bool isFourBits) {
  switch (element) {
    case ElementType::kI8:
      return isFourBits ? Limits{-8, 7} : Limits{-128, 127};
    case ElementType::kU8:
      return isFourBits ? Limits{0, 15} : Limits{0, 255};
    case ElementType::kI16:
      return Limits{-32768, 32767};
    case ElementType::kU16:
      return Limits{0, 65535};
    default:
      return std::nullopt;
  }
}

/// Where scales and zero points apply: to all elements, to each index along `axis`, or to each block along it.
struct Granularity {
  int64_t axis = 0;
  int64_t block = 0;     ///< 0: none.
  int64_t blocks = 0;    ///< Along the axis; the last one may have fewer elements.
  bool isSplit = false;  ///< The operand has its axis as [blocks, block].
};

std::optional<Granularity> granularityOf(NodeContext& node, Value x) {
  RankedTensorType scale = node.inputType(1);
  if (!x || !scale) return std::nullopt;
  Granularity result;
  const int64_t rank = node.rank(x);
  result.block = node.integer("block_size", 0);
  if (result.block == 0) {
    if (scale.getRank() == 0 || (scale.hasStaticShape() && scale.getNumElements() == 1)) return result;
    if (scale.getRank() > 1) return node.invalid("scales of several dimensions need a block_size"), std::nullopt;
    std::optional<int64_t> axis = node.axis(node.integer("axis", 1), std::max<int64_t>(rank, 1));
    if (!axis) return std::nullopt;
    result.axis = *axis;
    return result;
  }
  if (result.block < 0) return node.invalid(strCat("block_size ", result.block, " is negative")), std::nullopt;
  std::optional<int64_t> axis = node.axis(node.integer("axis", 1), rank);
  if (!axis) return std::nullopt;
  result.axis = *axis;
  if (scale.getRank() != rank)
    return node.invalid(strCat("blocked scales have rank ", scale.getRank(), ", the operand ", rank)), std::nullopt;
  const ir::SymDim size = ir::symShape(node.typeOf(x))[result.axis];
  result.blocks = scale.getDimSize(result.axis);
  if (size.isFree() || mlir::ShapedType::isDynamic(result.blocks))
    return node.needsSize("the dimension that its blocks are of"), std::nullopt;
  if ((size.size + result.block - 1) / result.block != result.blocks)
    return node.invalid(strCat("dimension ", result.axis, " of ", size.size, " elements has ", result.blocks,
                               " scales for blocks of ", result.block)),
           std::nullopt;
  result.isSplit = size.size % result.block == 0;
  return result;
}

/// The operand with a dimension for its blocks, if they are all whole.
Value split(NodeContext& node, Value x, const Granularity& how) {
  if (!x || !how.isSplit) return x;
  ir::SymShape shape = ir::symShape(node.typeOf(x));
  shape[how.axis] = {how.blocks};
  shape.insert(shape.begin() + how.axis + 1, ir::SymDim{how.block});
  return node.reshape(x, shape);
}

/// The other way round: `result` in the shape of `x`.
Value joined(NodeContext& node, Value result, Value x, const Granularity& how) {
  return result && how.isSplit ? node.reshape(result, ir::symShape(node.typeOf(x))) : result;
}

/// A scale or zero point that broadcasts to what split() gives.
Value parameter(NodeContext& node, size_t index, Value x, const Granularity& how) {
  Value v = node.input(index);
  if (!v || node.rank(v) == 0) return v;
  if (how.block == 0) {
    if (node.typeOf(v).getNumElements() == 1) return node.reshape(v, Ints());
    Ints shape(node.rank(x) - how.axis, 1);
    shape[0] = node.typeOf(v).getDimSize(0);
    return node.reshape(v, shape);
  }
  ir::SymShape shape = ir::symShape(node.typeOf(v));
  shape.insert(shape.begin() + how.axis + 1, ir::SymDim{1});
  v = node.reshape(v, shape);
  if (how.isSplit) return v;
  // Each as often as its block has elements.
  shape[how.axis + 1] = {how.block};
  v = node.expand(v, shape);
  shape.erase(shape.begin() + how.axis + 1);
  shape[how.axis] = {how.blocks * how.block};
  return node.sliceDim(node.reshape(v, shape), how.axis, 0, ir::symShape(node.typeOf(x))[how.axis].size);
}

bool isFp8(ElementType element) {
  return element == ElementType::kF8E4M3 || element == ElementType::kF8E5M2;
}

/// The type that an attribute names; what is not given is kInvalid, and what we lack a failure.
std::optional<ElementType> namedType(NodeContext& node, bool& isFourBits) {
  const auto code = static_cast<int32_t>(node.integer("output_dtype", 0));
  isFourBits = importer::isFourBits(code);
  const ElementType element = elementOfOnnxType(code);
  if (code != 0 && element == ElementType::kInvalid)
    return node.unsupported("results of type " + onnxTypeName(code)), std::nullopt;
  return element;
}

/// In f32, or in f64 if there is any.
mlir::Type realType(NodeContext& node, llvm::ArrayRef<Value> operands) {
  for (Value v : operands)
    if (v && node.elementOf(v).isF64()) return node.builder().getF64Type();
  return node.builder().getF32Type();
}

void convertQuantize(NodeContext& node) {
  Value x = node.input(0), scale = node.input(1);
  std::optional<Granularity> how = granularityOf(node, x);
  bool isFourBits = false;
  std::optional<ElementType> named = namedType(node, isFourBits);
  if (!how || !named) return;
  ElementType to = *named == ElementType::kInvalid ? ElementType::kU8 : *named;
  if (node.has(2) && node.inputType(2)) {
    to = ir::elementType(node.inputType(2).getElementType());
    isFourBits = node.isFourBits(2);
  }
  std::optional<Limits> limits = limitsOf(to, isFourBits);
  if (!limits && !isFp8(to)) return node.unsupported(strCat("quantisation to ", elementTypeName(to)));
  if (isFp8(to) && node.integer("saturate", 1) == 0)
    return node.unsupported("quantisation to an 8-bit float without saturation");
  const mlir::Type real = realType(node, {x, scale}), type = ir::mlirElementType(node.context(), to);
  Value steps = node.op("div", {node.cast(split(node, x, *how), real), node.cast(parameter(node, 1, x, *how), real)});
  Value zero = node.has(2) ? node.cast(parameter(node, 2, x, *how), real) : Value();
  if (isFp8(to)) {
    if (zero) steps = node.op("add", {steps, zero});
    return node.setOutput(0, joined(node, node.cast(steps, type), x, *how));
  }
  steps = node.op("round", steps);
  if (zero) steps = node.op("add", {steps, zero});
  Value inside = node.op("clip", steps, {{"min", limits->low}, {"max", limits->high}});
  node.setOutput(0, joined(node, node.cast(inside, type), x, *how));
  if (isFourBits) node.setFourBits(0);
}

void convertDequantize(NodeContext& node) {
  Value x = node.input(0);
  std::optional<Granularity> how = granularityOf(node, x);
  bool isFourBits = false;
  std::optional<ElementType> named = namedType(node, isFourBits);
  if (!how || !named) return;
  Value scale = parameter(node, 1, x, *how);
  if (!scale) return;
  const mlir::Type real = realType(node, {scale});
  const mlir::Type to =
      *named == ElementType::kInvalid ? node.elementOf(scale) : ir::mlirElementType(node.context(), *named);
  Value steps = split(node, x, *how), zero = node.has(2) ? parameter(node, 2, x, *how) : Value();
  if (!node.isFloat(x) && zero && node.elementOf(x).getIntOrFloatBitWidth() >= 32) {
    steps = node.cast(node.op("sub", {steps, zero}), real);  // Not every one of them is a float.
  } else {
    steps = node.cast(steps, real);
    if (zero) steps = node.op("sub", {steps, node.cast(zero, real)});
  }
  Value result = node.op("mul", {steps, node.cast(scale, real)});
  node.setOutput(0, joined(node, node.cast(result, to), x, *how));
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
    {"QuantizeLinear", 10, kNewestOpset, convertQuantize, "",
     "to 4, 8 and 16 bits and fp8 (with saturation); one scale, one a channel, or one a block"},
    {"DequantizeLinear", 10, kNewestOpset, convertDequantize, "",
     "of integers to 32 bits and fp8; one scale, one a channel, or one a block"},
    {"DynamicQuantizeLinear", 11, kNewestOpset, convertDynamicQuantize, "",
     "a range beyond f32 has the scale infinity, as in ONNX Runtime"},
};

}  // namespace

llvm::ArrayRef<OpRow> quantizationRows() {
  return kRows;
}

}  // namespace hpu::importer
