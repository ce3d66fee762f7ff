// SPDX-License-Identifier: Apache-2.0
// Row ops: softmax, normalisations, reductions and products that the MME does not have, as sequences of reductions and
// lane-wise ops.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/PlanBuilder.h"

namespace hpu::kernels {
using namespace ir;
namespace {

/// The iteration dims that `axes` of a value under `map` are, as a mask; false when one is not a
/// dim.
bool dimsOfAxes(PlanBuilder& b, const IndexMap& map, llvm::ArrayRef<SymInt> shape, llvm::ArrayRef<int64_t> axes,
                uint32_t& mask) {
  mask = 0;
  for (int64_t axis : axes) {
    if (shape[axis] == 1) continue;
    int dim = b.pureDim(map[axis]);
    if (dim < 0) return false;
    mask |= 1u << dim;
  }
  return true;
}

SymInt elementsOf(const Node& node, llvm::ArrayRef<int64_t> axes) {
  SymInt count = 1;
  for (int64_t axis : axes) count *= node.shape[axis];
  return count;
}

/// The mean of `count` numbers from their sum, in the type of all maths of a row op. Divided, so that the mean of equal
/// numbers is that number: a product with 1 / count often is not.
int meanOf(PlanBuilder& b, int sum, const SymInt& count, ElementType real) {
  return b.lane(kind<DivOp>(), {sum, b.size(count, real)}, real);
}

struct Row {
  uint32_t dims = 0;
  bool ok = false;
};
Row rowOf(PlanBuilder& b, const Node& node, const IndexMap& map, llvm::ArrayRef<int64_t> axes) {
  Row row;
  if (!isFloatType(node.type)) {
    b.fail(node, "not defined for " + std::string(elementTypeName(node.type)));
  } else if (!dimsOfAxes(b, map, node.shape, axes, row.dims)) {
    b.fail(node, "its row is not a dimension of the kernel's index space");
  } else {
    row.ok = true;
  }
  return row;
}

int lowerSoftmax(PlanBuilder& b, const Node& node, const IndexMap& map) {
  Row row = rowOf(b, node, map, {node.intAttr("axis")});
  int x = b.lower(node.operands[0], map);
  if (!row.ok) return x;
  const ElementType real = computedAs(node.type);
  int maximum = b.reduce(ReduceKind::Max, x, row.dims, real);
  // The maximum is a rounded number: a product less it, not rounded, may be far above 0, where exp is infinite.
  int shifted = b.lane(kind<SubOfRounded>(), {x, maximum}, real);
  int e = b.lane(kind<ExpOrZero>(), {shifted}, real);
  int sum = b.reduce(ReduceKind::Sum, e, row.dims, real);
  if (node.is<LogSoftmaxOp>()) return b.lane(kind<SubOp>(), {shifted, b.lane(kind<LogOp>(), {sum}, real)}, real);
  return b.lane(kind<MulOp>(), {e, b.lane(kind<ReciprocalOp>(), {sum}, real)}, real);
}

/// (x - mean) / sqrt(variance + epsilon) over the dims of `row`; not centred, of x itself.
int normalised(PlanBuilder& b, const Node& node, int x, Row row, const SymInt& count) {
  const ElementType real = computedAs(node.type);
  int centred = x;
  if (node.intAttr("centred", 1) != 0) {
    int mean = meanOf(b, b.reduce(ReduceKind::Sum, x, row.dims, real), count, real);
    centred = b.lane(kind<SubOp>(), {x, mean}, real);
  }
  int squares = b.reduce(ReduceKind::Sum, b.lane(kind<MulOp>(), {centred, centred}, real), row.dims, real);
  int variance = meanOf(b, squares, count, real);
  int shifted = b.lane(kind<AddOp>(), {variance, b.constant(node.floatAttr("epsilon"), real)}, real);
  return b.lane(kind<MulOp>(), {centred, b.lane(kind<RsqrtOp>(), {shifted}, real)}, real);
}

int lowerLayerNorm(PlanBuilder& b, const Node& node, const IndexMap& map) {
  llvm::SmallVector<int64_t, 4> axes;
  for (int64_t d = node.intAttr("axis"); d < static_cast<int64_t>(node.shape.size()); ++d) axes.push_back(d);
  Row row = rowOf(b, node, map, axes);
  int x = b.lower(node.operands[0], map);
  if (!row.ok) return x;
  const ElementType real = computedAs(node.type);
  int y = normalised(b, node, x, row, elementsOf(node, axes));
  int scale = b.lower(node.operands[1], b.broadcastMap(map, b.node(node.operands[1]).shape));
  y = b.lane(kind<MulOp>(), {y, scale}, real);
  if (node.operands.size() < 3) return y;
  int bias = b.lower(node.operands[2], b.broadcastMap(map, b.node(node.operands[2]).shape));
  return b.lane(kind<AddOp>(), {y, bias}, real);
}

int lowerInstanceNorm(PlanBuilder& b, const Node& node, const IndexMap& map) {
  llvm::SmallVector<int64_t, 4> axes;
  for (int64_t d = 2; d < static_cast<int64_t>(node.shape.size()); ++d) axes.push_back(d);
  Row row = rowOf(b, node, map, axes);
  int x = b.lower(node.operands[0], map);
  if (!row.ok) return x;
  const ElementType real = computedAs(node.type);
  IndexMap channel = {map[1]};
  int y = normalised(b, node, x, row, elementsOf(node, axes));
  y = b.lane(kind<MulOp>(), {y, b.lower(node.operands[1], channel)}, real);
  return b.lane(kind<AddOp>(), {y, b.lower(node.operands[2], channel)}, real);
}

int lowerBatchNorm(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const ElementType real = computedAs(node.type);
  if (!isFloatType(node.type)) return b.fail(node, "not defined for " + std::string(elementTypeName(node.type)));
  IndexMap channel = {map[1]};
  int values[4];
  for (int i = 0; i < 4; ++i) values[i] = b.lower(node.operands[1 + i], channel);
  auto [scale, bias, mean, variance] = values;
  int shifted = b.lane(kind<AddOp>(), {variance, b.constant(node.floatAttr("epsilon"), real)}, real);
  int factor = b.lane(kind<MulOp>(), {scale, b.lane(kind<RsqrtOp>(), {shifted}, real)}, real);
  int centred = b.lane(kind<SubOp>(), {b.lower(node.operands[0], map), mean}, real);
  return b.lane(kind<AddOp>(), {b.lane(kind<MulOp>(), {centred, factor}, real), bias}, real);
}

int lowerReduce(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node& x = b.node(node.operands[0]);
  bool isArgMax = node.is<ArgMaxOp>();
  llvm::SmallVector<int64_t, 4> axes(node.intsAttr(isArgMax ? "axis" : "axes"));
  bool keepdims = node.intAttr("keepdims", 1) != 0;
  if (x.type == ElementType::kBool) return b.fail(node, "not defined for bool");

  auto rank = static_cast<int64_t>(x.shape.size());
  IndexMap operandMap(rank);
  uint32_t mask = 0;
  for (int64_t d = 0, next = 0; d < rank; ++d) {
    bool reduced = llvm::is_contained(axes, d);
    if (!reduced) operandMap[d] = map[next];
    if (!reduced || keepdims) ++next;
  }
  for (int64_t axis : axes) {
    if (x.shape[axis] == 1) continue;
    // A row of the index space itself, when the result is broadcast back over it ...
    int64_t aligned = b.rankOfIndexSpace() - rank + axis;
    bool share = keepdims && aligned >= 0 && b.dim(aligned).size == x.shape[axis];
    for (const Affine& a : operandMap) share &= !share || a.coef[aligned] == 0;
    // ... otherwise a dim of its own.
    int dim = share ? static_cast<int>(aligned)
                    : b.reductionDim("axis" + std::to_string(rank - axis) + "of" + x.shape[axis].text(), x.shape[axis]);
    operandMap[axis].coef[dim] = 1;
    mask |= 1u << dim;
  }
  int value = b.lower(node.operands[0], operandMap);
  if (isArgMax) return b.reduce(ReduceKind::ArgMax, value, mask, ElementType::kI64);
  bool isFloat = isFloatType(node.type);
  // Narrow floats are f32 inside a kernel, so sums of bf16 are f32 sums.
  ElementType type = isFloat ? computedAs(x.type) : node.type;
  if (node.is<ReduceMaxOp>()) return b.reduce(ReduceKind::Max, value, mask, type);
  if (node.is<ReduceMinOp>()) return b.reduce(ReduceKind::Min, value, mask, type);
  if (node.is<ReduceProdOp>()) return b.reduce(ReduceKind::Prod, value, mask, type);
  if (node.is<ReduceSumOp>()) return b.reduce(ReduceKind::Sum, value, mask, type);
  const SymInt count = elementsOf(x, axes);
  if (isFloat) return meanOf(b, b.reduce(ReduceKind::Sum, value, mask, type), count, type);
  // A sum of narrower integers may leave their type although the mean does not.
  ElementType wide = type == ElementType::kU64 ? type : ElementType::kI64;
  if (type != wide) value = b.lane(kind<CastOp>(), {value}, wide);
  int mean = b.lane(kind<DivOp>(), {b.reduce(ReduceKind::Sum, value, mask, wide), b.size(count, wide)}, wide);
  return type == wide ? mean : b.lane(kind<CastOp>(), {mean}, type);
}

/// Products that the MME does not have: their terms are summed up along a dim of their own.
int lowerMatMul(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node &lhs = b.node(node.operands[0]), &rhs = b.node(node.operands[1]);
  for (int operand : node.operands)
    if (b.node(operand).kind == Node::Kind::Op)
      return b.fail(node, "its operands must be those of the kernel, since each element is read several times");
  if (node.type == ElementType::kBool || lhs.type != node.type) return b.fail(node, "not defined for its types");
  const SymInt& depth = lhs.shape.back();
  const int dim =
      b.reductionDim("depth" + depth.text() + "of" + std::to_string(reinterpret_cast<uintptr_t>(&node)), depth);
  // Both operands have the result's leading dims, broadcast.
  auto operandMap = [&](llvm::ArrayRef<SymInt> shape, size_t summed) {
    IndexMap result = b.broadcastMap(map, shape);
    result[summed] = Affine();
    if (depth != 1) result[summed].coef[dim] = 1;
    return result;
  };
  const size_t rows = lhs.shape.size(), columns = rhs.shape.size();
  const int a = b.lower(node.operands[0], operandMap(lhs.shape, rows - 1));
  const int c = b.lower(node.operands[1], operandMap(rhs.shape, columns - 2));
  const ElementType type = computedAs(node.type);
  return b.reduce(ReduceKind::Sum, b.lane(kind<MulOp>(), {a, c}, type), 1u << dim, type);
}

}  // namespace

llvm::ArrayRef<OpLowering> rowLowerings() {
  static const OpLowering table[] = {
      {kind<SoftmaxOp>(), lowerSoftmax},     {kind<LogSoftmaxOp>(), lowerSoftmax},
      {kind<LayerNormOp>(), lowerLayerNorm}, {kind<InstanceNormOp>(), lowerInstanceNorm},
      {kind<BatchNormOp>(), lowerBatchNorm}, {kind<ReduceSumOp>(), lowerReduce},
      {kind<ReduceMeanOp>(), lowerReduce},   {kind<ReduceMaxOp>(), lowerReduce},
      {kind<ReduceMinOp>(), lowerReduce},    {kind<ReduceProdOp>(), lowerReduce},
      {kind<ArgMaxOp>(), lowerReduce},       {kind<MatMulOp>(), lowerMatMul},
  };
  return table;
}

}  // namespace hpu::kernels
