// SPDX-License-Identifier: Apache-2.0
// ONNX normalisations.
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Normalizations.h"

namespace hpu::importer {
namespace {

using base::strCat;
using interp::Tensor;
using ir::SymDim;
using ir::SymShape;
using mlir::ShapedType;
using shape::DimExpr;

Ints range(int64_t begin, int64_t end) {
  Ints values;
  for (int64_t i = begin; i < end; ++i) values.push_back(i);
  return values;
}

/// The float type that `stash_type` names (f32 unless it is given); nullopt for what is no float, which is then
/// reported.
std::optional<mlir::Type> stashType(NodeContext& node) {
  const int64_t code = node.integer("stash_type", 1);
  const ElementType type = elementOfOnnxType(static_cast<int32_t>(code));
  switch (type) {
    case ElementType::kF32:
    case ElementType::kF16:
    case ElementType::kBF16:
      return ir::mlirElementType(node.context(), type);
    default:
      return node.unsupported(strCat("stash_type ", code, " (f32, f16 and bf16 are)")), std::nullopt;
  }
}

Value meanOver(NodeContext& node, Value x, const Ints& axes) {
  return node.op("reduce_mean", x, {{"axes", axes}, {"keepdims", true}});
}

/// With the moments of the batch: the result, and what becomes of the running ones.
void convertBatchNormTraining(NodeContext& node) {
  std::vector<Value> operands;
  for (size_t i = 0; i < 5; ++i) {
    operands.push_back(node.input(i));
    if (!operands.back()) return;
    if (!node.isFloat(operands.back())) return node.invalid("its operands must be of floats");
  }
  for (size_t i = 1; i < 5 && node.rank(operands[0]) >= 2; ++i)
    if (node.rank(operands[i]) == 1 && !node.sameSize(operands[0], 1, operands[i], 0)) return;
  const double epsilon = node.number("epsilon", 1e-5), momentum = node.number("momentum", 0.9);
  composed(node, operands, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) -> std::vector<hpu::Value> {
    const hpu::ElementType type = e.element(in[0]), kept = e.element(in[3]), keptVariance = e.element(in[4]);
    const hpu::ElementType wide = type == ElementType::kF64 ? type : ElementType::kF32;
    const int64_t rank = e.rank(in[0]);
    if (rank < 2) return {e.fail("needs an input of rank 2 or more")};
    const Shape own = {e.dim(in[0], 1)};
    Shape along(static_cast<size_t>(rank), 1);
    along[1] = own[0];
    hpu::Value x = e.cast(in[0], wide);
    const compose::Moments m = compose::momentsOf(e, x, compose::allBut(rank, {1}), epsilon);
    auto broadcast = [&](hpu::Value v) { return e.reshape(e.cast(v, wide), along); };
    hpu::Value y = compose::normalised(e, x, m.mean, m.istd, broadcast(in[1]), broadcast(in[2]));
    auto moved = [&](hpu::Value running, hpu::Value now) {
      return e.add(e.mul(e.cast(running, wide), momentum), e.mul(e.reshape(now, own), 1 - momentum));
    };
    return {e.cast(y, type), e.cast(moved(in[3], m.mean), kept), e.cast(moved(in[4], m.variance), keptVariance)};
  });
}

void convertBatchNorm(NodeContext& node) {
  if (node.opset() >= 14 && node.integer("training_mode", 0)) return convertBatchNormTraining(node);
  if (node.opset() < 9 && node.integer("spatial", 1) == 0) return node.unsupported("spatial = 0");
  for (size_t i = 1; i < node.numOutputs(); ++i)
    if (node.wants(i)) return node.unsupported(strCat("output ", i, " (training)"));
  llvm::SmallVector<Value> operands;
  for (size_t i = 0; i < 5; ++i) operands.push_back(node.input(i));
  for (Value& v : operands) {
    if (!v) return;
    v = node.cast(v, node.elementOf(operands[0]));
  }
  if (node.rank(operands[0]) < 2) return node.invalid("needs an input of rank 2 or more");
  node.setOutput(0, node.op("batch_norm", operands, {{"epsilon", node.number("epsilon", 1e-5)}}));
}

void convertInstanceNorm(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  if (node.rank(x) < 3) return node.invalid("needs a spatial dimension");
  node.setOutput(
      0, node.op("instance_norm", {x, node.input(1), node.input(2)}, {{"epsilon", node.number("epsilon", 1e-5)}}));
}

/// `v` without leading dims of 1 beyond `rank`; broadcasting would add them again.
Value withoutLeadingOnes(NodeContext& node, Value v, int64_t rank) {
  SymShape shape = ir::symShape(node.typeOf(v));
  size_t extra = 0;
  while (static_cast<int64_t>(shape.size() - extra) > rank && !shape[extra].isFree() && shape[extra].size == 1) ++extra;
  return node.reshape(v, llvm::ArrayRef(shape).drop_front(extra));
}

void convertLayerNorm(NodeContext& node) {
  Value x = node.input(0), scale = node.input(1), bias = node.has(2) ? node.input(2) : Value();
  if (!x || !scale || (node.has(2) && !bias)) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(x));
  if (!axis) return;
  std::optional<mlir::Type> stash = stashType(node);
  if (!stash) return;
  double epsilon = node.number("epsilon", 1e-5);
  const int64_t normalised = node.rank(x) - *axis;
  const SymShape shape = ir::symShape(node.typeOf(x));
  for (Value v : {scale, bias}) {
    if (!v) continue;
    std::optional<SymShape> joined = ir::broadcastShapes(ir::symShape(node.typeOf(v)), shape);
    bool fits = joined && joined->size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = shape[d].isFree() || (*joined)[d].size == shape[d].size;
    if (!fits)
      return node.invalid(strCat("its scale or bias, ", ir::typeToString(node.typeOf(v)), ", does not broadcast to ",
                                 ir::typeToString(node.typeOf(x))));
  }
  scale = withoutLeadingOnes(node, scale, normalised);
  if (bias) bias = withoutLeadingOnes(node, bias, normalised);
  if (!scale || (node.has(2) && !bias)) return;
  llvm::SmallVector<Value> operands = {x, scale};
  // One that differs between rows is applied to the rows when they are normalised.
  const bool apart = node.rank(scale) > normalised || (bias && node.rank(bias) > normalised);
  if (apart)
    operands[1] = node.expand(node.scalarLike(x, 1), llvm::ArrayRef(shape).drop_front(*axis));
  else if (bias)
    operands.push_back(bias);
  Value result = node.op("layer_norm", operands, {{"axis", *axis}, {"epsilon", epsilon}});
  if (apart) result = node.op("mul", {result, scale});
  if (apart && bias) result = node.op("add", {result, bias});
  node.setOutput(0, result);
  if (!node.wants(1) && !node.wants(2)) return;
  Ints axes = range(*axis, node.rank(x));
  Value wide = node.widened(x);
  Value mean = meanOver(node, wide, axes), centred = node.op("sub", {wide, mean});
  Value variance = meanOver(node, node.op("mul", {centred, centred}), axes);
  Value deviation = node.op("rsqrt", node.op("add", {variance, node.scalarLike(variance, epsilon)}));
  node.setOutput(1, node.cast(mean, *stash));
  node.setOutput(2, node.cast(deviation, *stash));
}

void convertRmsNorm(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(x));
  if (!axis) return;
  if (!stashType(node)) return;
  // The statistics are f32, which every stash type fits.
  Value wide = node.widened(x), scale = node.input(1);
  if (!scale) return;
  Value mean = meanOver(node, node.op("mul", {wide, wide}), range(*axis, node.rank(x)));
  Value factor = node.op("rsqrt", node.op("add", {mean, node.scalarLike(mean, node.number("epsilon", 1e-5))}));
  // The result has the type of the scale, to which the normalised numbers are rounded first.
  Value normal = node.cast(node.op("mul", {wide, factor}), node.elementOf(scale));
  node.setOutput(0, node.op("mul", {normal, scale}));
  if (node.wants(1)) node.setOutput(1, factor);
}

void convertGroupNorm(NodeContext& node) {
  Value x = node.input(0), scale = node.input(1), bias = node.input(2);
  if (!x || !scale || !bias) return;
  SymShape shape = ir::symShape(node.typeOf(x));
  int64_t rank = node.rank(x), groups = node.integer("num_groups", 0);
  if (rank < 3) return node.invalid("needs a spatial dimension");
  if (shape[1].isFree()) return node.needsSize("dimension 1, the channels");
  int64_t channels = shape[1].size;
  if (groups < 1 || channels % groups) return node.invalid(strCat(channels, " channels in ", groups, " groups"));
  auto sizes = NodeContext::dims(node.typeOf(x));
  sizes[0] = DimExpr(1);
  std::optional<DimExpr> all = NodeContext::product(sizes);
  std::optional<DimExpr> length = all ? all->dividedBy(DimExpr(groups)) : std::nullopt;
  if (!length) return node.needsSize("the spatial dimensions");
  mlir::Type element = node.elementOf(x);
  Value ones = node.expand(node.scalar(element, 1), llvm::ArrayRef<SymDim>{{groups}});
  Value zeros = node.expand(node.scalar(element, 0), llvm::ArrayRef<SymDim>{{groups}});
  Value grouped = node.reshape(x, llvm::ArrayRef<SymDim>{shape[0], {groups}, node.symDim(length)});
  Value normal = node.reshape(
      node.op("instance_norm", {grouped, ones, zeros}, {{"epsilon", node.number("epsilon", 1e-5)}}), shape);
  // Scale and bias: one a group before opset 21, one a channel since.
  auto channelwise = [&](Value v) {
    if (v && node.opset() < 21 && node.typeOf(v).getDimSize(0) == groups)
      v = node.expand(node.reshape(v, {groups, 1}), llvm::ArrayRef<SymDim>{{groups}, {channels / groups}});
    Ints target(rank - 1, 1);
    target[0] = channels;
    return node.reshape(v, target);
  };
  node.setOutput(0, node.op("add", {node.op("mul", {normal, channelwise(scale)}), channelwise(bias)}));
}

void convertMeanVariance(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<Ints> axes = node.axes(node.integers("axes", {0, 2, 3}), node.rank(x));
  if (!axes) return;
  Value wide = node.widened(x), centred = node.op("sub", {wide, meanOver(node, wide, *axes)});
  Value deviation = node.op("sqrt", meanOver(node, node.op("mul", {centred, centred}), *axes));
  Value normal = node.op("div", {centred, node.op("add", {deviation, node.scalarLike(deviation, 1e-9)})});
  node.setOutput(0, node.cast(normal, node.elementOf(x)));
}

void convertLpNorm(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(x));
  int64_t p = node.integer("p", 2);
  if (!axis) return;
  if (!node.isFloat(x)) return node.invalid("needs float elements");
  if (p != 1 && p != 2) return node.invalid(strCat("p = ", p));
  Value wide = node.widened(x), power = p == 1 ? node.op("abs", wide) : node.op("mul", {wide, wide});
  Value sum = node.op("reduce_sum", power, {{"axes", Ints{*axis}}, {"keepdims", true}});
  // Zeros stay zeros.
  Value norm = p == 1 ? sum : node.op("sqrt", sum);
  Value isZero = node.op("equal", {norm, node.scalarLike(norm, 0)});
  Value normal = node.op("div", {wide, node.op("where", {isZero, node.scalarLike(norm, 1), norm})});
  node.setOutput(0, node.cast(normal, node.elementOf(x)));
}

void convertLrn(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  int64_t size = node.integer("size", 0);
  if (node.rank(x) != 4 || size < 1) return node.unsupported("other than rank 4 and a positive size");
  SymShape shape = ir::symShape(node.typeOf(x));
  auto sizes = NodeContext::dims(node.typeOf(x));
  std::optional<DimExpr> plane = NodeContext::product({sizes[2], sizes[3]});
  if (!plane) return node.needsSize("the spatial dimensions");
  // The mean of squares over `size` channels is a pooling with the channels as height.
  Value wide = node.widened(x);
  Value squares =
      node.reshape(node.op("mul", {wide, wide}), llvm::ArrayRef<SymDim>{shape[0], {1}, shape[1], node.symDim(plane)});
  Ints pads = {(size - 1) / 2, 0, size / 2, 0};
  Value mean = node.op("avg_pool2d", squares,
                       {{"kernel", Ints{size, 1}},
                        {"strides", Ints{1, 1}},
                        {"dilations", Ints{1, 1}},
                        {"pads", pads},
                        {"count_include_pad", true}});
  Value scaled = node.op("mul", {node.reshape(mean, shape), node.scalarLike(wide, node.number("alpha", 1e-4))});
  Value base = node.op("add", {scaled, node.scalarLike(wide, node.number("bias", 1.0))});
  Value normal = node.op("div", {wide, node.op("pow", {base, node.scalarLike(wide, node.number("beta", 0.75))})});
  node.setOutput(0, node.cast(normal, node.elementOf(x)));
}

constexpr OpRow kRows[] = {
    {"BatchNormalization", 6, kNewestOpset, convertBatchNorm, "", "training: from opset 14 on"},
    {"InstanceNormalization", 6, kNewestOpset, convertInstanceNorm},
    {"LayerNormalization", 17, kNewestOpset, convertLayerNorm},
    {"RMSNormalization", 23, kNewestOpset, convertRmsNorm},
    {"SimplifiedLayerNormalization", 1, kNewestOpset, convertRmsNorm, "", "ONNX Runtime's own, in ONNX's domain"},
    {"GroupNormalization", 18, kNewestOpset, convertGroupNorm},
    {"MeanVarianceNormalization", 9, kNewestOpset, convertMeanVariance},
    {"LpNormalization", 1, kNewestOpset, convertLpNorm},
    {"LRN", 1, kNewestOpset, convertLrn, "", "rank 4"},
};

}  // namespace

llvm::ArrayRef<OpRow> normalizationRows() {
  return kRows;
}

}  // namespace hpu::importer
