// SPDX-License-Identifier: Apache-2.0
#include "compiler/normalize/SplitOp.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
bool isStatic(Value value) {
  return cast<RankedTensorType>(value.getType()).hasStaticShape();
}

/// `value` with another shape; a reshape of a reshape is one.
Value reshaped(PatternRewriter& rewriter, Location loc, Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape) return value;
  if (auto below = value.getDefiningOp<ReshapeOp>()) {
    value = below.getX();
    if (shapeOf(value) == shape) return value;
    loc = rewriter.getFusedLoc({below.getLoc(), loc});
  }
  return ReshapeOp::create(rewriter, loc, value, shape, ArrayAttr());
}

/// The finer sizes of `count` coarse dims of an operand, aligned with the coarse dims from `from` on; a broadcast dim
/// stays one, whatever the result's dim is split into.
void appendSplit(SmallVectorImpl<int64_t>& shape, ArrayRef<int64_t> sizes, const DimGroups& groups, int64_t from) {
  for (auto [d, size] : llvm::enumerate(sizes)) {
    const DimGroups::Run run = groups.runs[from + d];
    for (int64_t i = 0; i < run.count; ++i) shape.push_back(size == 1 ? 1 : groups.shape[run.first + i]);
  }
}

bool canSplitMatMul(MatMulOp op, const DimGroups& groups) {
  const size_t rank = groups.runs.size(), lhs = shapeOf(op.getLhs()).size(), rhs = shapeOf(op.getRhs()).size();
  // A matrix on the right is the same for all rows; otherwise rows belong to their batch.
  return groups.single(rank - 1) && lhs == rank && (rhs == 2 || groups.single(rank - 2));
}

}  // namespace

bool isDeviceOp(Operation* op) {
  auto hpuOp = dyn_cast_or_null<HpuOp>(op);
  return hpuOp && !hpuOp.isView() && !isa<ConstantOp>(op) && hpuOp.getEngine() != EngineKind::Dma;
}

bool isPointwise(Operation* op) {
  auto hpuOp = dyn_cast_or_null<HpuOp>(op);
  return hpuOp && hpuOp.isElementwise() && !isa<BatchNormOp>(op);
}

bool isRowOp(Operation* op) {
  return isa_and_present<SoftmaxOp, LogSoftmaxOp, LayerNormOp>(op);
}

bool canSplit(Operation* op, const DimGroups& groups) {
  if (groups.shape.size() > kMaxDims || op->getNumResults() != 1) return false;
  if (!llvm::all_of(op->getOperands(), isStatic) || !isStatic(op->getResult(0))) return false;
  if (shapeOf(op->getResult(0)).size() != groups.runs.size()) return false;
  if (isPointwise(op)) return true;
  if (auto matmul = dyn_cast<MatMulOp>(op)) return canSplitMatMul(matmul, groups);
  if (auto softmax = dyn_cast<SoftmaxOp>(op)) return groups.single(softmax.getAxis());
  if (auto softmax = dyn_cast<LogSoftmaxOp>(op)) return groups.single(softmax.getAxis());
  auto norm = dyn_cast<LayerNormOp>(op);
  if (!norm) return false;
  const size_t axis = norm.getAxis();
  for (size_t d = axis; d < groups.runs.size(); ++d)
    if (!groups.single(d)) return false;
  return llvm::all_of(norm->getOperands().drop_front(),
                      [&](Value value) { return shapeOf(value).size() <= groups.runs.size() - axis; });
}

Value splitOp(PatternRewriter& rewriter, Operation* op, const DimGroups& groups, Location loc) {
  const auto rank = static_cast<int64_t>(groups.runs.size());
  OperationState state(op->getLoc(), op->getName());
  state.addAttributes(op->getAttrs());
  for (OpOperand& operand : op->getOpOperands()) {
    ArrayRef<int64_t> sizes = shapeOf(operand.get());
    const auto own = static_cast<int64_t>(sizes.size());
    SmallVector<int64_t> shape;
    if (isa<MatMulOp>(op)) {
      const bool matrix = operand.getOperandNumber() == 1 && own == 2;
      // The rows of the left operand are split with the result's, its columns are what is summed over.
      const int64_t kept = matrix ? 2 : operand.getOperandNumber() == 1 ? 2 : 1;
      appendSplit(shape, sizes.drop_back(kept), groups, rank - own);
      llvm::append_range(shape, sizes.take_back(kept));
    } else if (isa<LayerNormOp>(op) && operand.getOperandNumber() != 0) {
      llvm::append_range(shape, sizes);
    } else {
      appendSplit(shape, sizes, groups, rank - own);
    }
    state.addOperands(reshaped(rewriter, loc, operand.get(), shape));
  }
  auto moveAxis = [&](auto row) {
    state.attributes.set(row.getAxisAttrName(), rewriter.getI64IntegerAttr(groups.runs[row.getAxis()].first));
  };
  if (auto row = dyn_cast<SoftmaxOp>(op)) moveAxis(row);
  if (auto row = dyn_cast<LogSoftmaxOp>(op)) moveAxis(row);
  if (auto row = dyn_cast<LayerNormOp>(op)) moveAxis(row);
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  state.addTypes(RankedTensorType::get(groups.shape, element));
  return rewriter.create(state)->getResult(0);
}

}  // namespace hpu::normalize
