// SPDX-License-Identifier: Apache-2.0
// The pass hpu-move-reshapes: reshapes that merge dims sink, reshapes that split leading dims rise. They meet and
// vanish, or end where they cost nothing.
//
// A merge sinks for one of two reasons: strides cannot express it where it stands, so it would be a copy; or it stands
// between an op and one that could run in the same unit with it. Only for the second reason does a split rise (strides
// always express it). Merges only sink and splits only rise, so the pass ends.
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Views.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "compiler/normalize/SplitOp.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

ArrayRef<int64_t> shapeOf(Value value) {
  return tensorOf(value).getShape();
}

/// Follows ops that would be computed behind a product, in its unit, up to that product.
bool followsProduct(Value value) {
  for (Operation* op = value.getDefiningOp(); op && value.hasOneUse(); op = value.getDefiningOp()) {
    if (isa<MatMulOp>(op)) return true;
    if (!isPointwise(op) && !isRowOp(op)) return false;
    auto full = llvm::find_if(op->getOperands(), [&](Value v) { return shapeOf(v) == shapeOf(value); });
    if (full == op->operand_end()) return false;
    value = *full;
  }
  return false;
}

/// The value as a window of what its views start from. Results are row-major but for a product that is transposed at
/// once: the phase layout writes it in the order of the transposed one.
std::optional<StridedView> windowOf(Value value) {
  SmallVector<Operation*> views;
  for (Operation* def = value.getDefiningOp(); def; def = value.getDefiningOp()) {
    auto op = dyn_cast<HpuOp>(def);
    if (!op || !op.isView()) break;
    views.push_back(def);
    value = def->getOperand(0);
  }
  if (!tensorOf(value).hasStaticShape()) return std::nullopt;
  std::optional<StridedView> view = baseView(value);
  if (!views.empty() && followsProduct(value))
    if (auto transpose = dyn_cast<TransposeOp>(views.back());
        transpose && transpose.getPerm().back() == tensorOf(value).getRank() - 1)
      view->strides = denseStrides(withOrder(tensorOf(value), transpose.getPerm()));
  for (Operation* op : llvm::reverse(views))
    if (!view || !tensorOf(op->getResult(0)).hasStaticShape() || !(view = applyView(op, *view))) return std::nullopt;
  return view;
}

bool isCopy(ReshapeOp op) {
  std::optional<StridedView> view = windowOf(op.getX());
  return view && !applyView(op, *view);
}

/// How the dims of a reshape's result are split when it sinks below an op; nullopt when it has no reason to. `joins`:
/// that op could run in one unit with what the reshape reads.
std::optional<DimGroups> mergeThatSinks(ReshapeOp op, bool joins) {
  if (!op || !tensorOf(op.getX()).hasStaticShape() || !tensorOf(op).hasStaticShape()) return std::nullopt;
  std::optional<DimGroups> merge = splitOf(shapeOf(op), shapeOf(op.getX()));
  if (merge && joins && op->hasOneUse() && op.getX().hasOneUse() && isDeviceOp(op.getX().getDefiningOp())) return merge;
  if (!merge) merge = refinementOf(shapeOf(op.getX()), shapeOf(op));
  return merge && isCopy(op) ? merge : std::nullopt;
}

/// op(merge(x), ...) -> merge(op(x, split(...))).
struct SinkMerge : RewritePattern {
  explicit SinkMerge(MLIRContext* context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    const bool joins = isPointwise(op) || isRowOp(op);
    if (!joins && !isa<MatMulOp>(op)) return rewriter.notifyMatchFailure(op, "nothing sinks below it");
    for (OpOperand& operand : op->getOpOperands()) {
      auto reshape = operand.get().getDefiningOp<ReshapeOp>();
      if (isRowOp(op) && operand.getOperandNumber() != 0) break;
      std::optional<DimGroups> groups = mergeThatSinks(reshape, joins);
      if (!groups || !(groups = groupsOfResult(operand, *groups)) || !canSplit(op, *groups)) continue;
      // Another operand's split must not come between a product and what could be computed behind it.
      if (llvm::any_of(op->getOperands(), [&](Value other) { return other != operand.get() && followsProduct(other); }))
        continue;
      Value result = splitOp(rewriter, op, *groups, reshape.getLoc());
      rewriter.replaceOp(
          op,
          ReshapeOp::create(rewriter, reshape.getLoc(), result, shapeOf(op->getResult(0)), ArrayAttr()).getResult());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no operand is a merge with a reason to sink");
  }

 private:
  /// From the dims of an operand to those of the result.
  static std::optional<DimGroups> groupsOfResult(OpOperand& operand, const DimGroups& groups) {
    Operation* op = operand.getOwner();
    ArrayRef<int64_t> result = shapeOf(op->getResult(0)), own = shapeOf(operand.get());
    if (!isa<MatMulOp>(op)) return own == result ? std::optional(groups) : std::nullopt;
    // The rows of a left operand and the batch dims of either are the result's; what is summed over stays one dim.
    const size_t rank = own.size(), shared = operand.getOperandNumber() == 0 ? rank - 1 : rank - 2;
    if (rank != result.size() || own.take_front(shared) != result.take_front(shared)) return std::nullopt;
    DimGroups out;
    for (size_t d = 0; d < rank; ++d) {
      if (d >= shared && !groups.single(d)) return std::nullopt;
      const auto first = static_cast<int64_t>(out.shape.size());
      if (d >= shared)
        out.shape.push_back(result[d]);
      else
        llvm::append_range(out.shape, ArrayRef(groups.shape).slice(groups.runs[d].first, groups.runs[d].count));
      out.runs.push_back({first, static_cast<int64_t>(out.shape.size()) - first});
    }
    return out;
  }
};

/// transpose(merge(x)) -> merge(transpose(x)): groups of dims move as a whole.
struct SinkMergeBelowTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter& rewriter) const override {
    auto reshape = op.getX().getDefiningOp<ReshapeOp>();
    // Merged with another reshape behind the transpose, it may vanish.
    const bool meets = op->hasOneUse() && isa<ReshapeOp>(*op->user_begin());
    std::optional<DimGroups> groups = mergeThatSinks(reshape, meets);
    if (!groups || groups->shape.size() > kMaxDims)
      return rewriter.notifyMatchFailure(op, "no merge with a reason to sink");
    SmallVector<int64_t> perm;
    for (int64_t dim : op.getPerm())
      for (int64_t i = 0; i < groups->runs[dim].count; ++i) perm.push_back(groups->runs[dim].first + i);
    Value x = reshape.getX();
    if (shapeOf(x) != ArrayRef(groups->shape))
      x = ReshapeOp::create(rewriter, reshape.getLoc(), x, groups->shape, ArrayAttr());
    Value transposed = TransposeOp::create(rewriter, op.getLoc(), x, perm);
    rewriter.replaceOp(op,
                       ReshapeOp::create(rewriter, reshape.getLoc(), transposed, shapeOf(op), ArrayAttr()).getResult());
    return success();
  }
};

/// split(op(x, ...)) -> op(split(x), ...) where something computes on the split shape.
struct RaiseSplit : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter& rewriter) const override {
    Operation* above = op.getX().getDefiningOp();
    if (!isDeviceOp(above) || !op.getX().hasOneUse()) return rewriter.notifyMatchFailure(op, "no op to rise above");
    if (!tensorOf(op).hasStaticShape() || !tensorOf(op.getX()).hasStaticShape())
      return rewriter.notifyMatchFailure(op, "a dim is free");
    std::optional<DimGroups> groups = splitOf(shapeOf(op.getX()), shapeOf(op));
    auto matmul = dyn_cast<MatMulOp>(above);
    if (!groups || !groups->single(groups->runs.size() - 1) || !canSplit(above, *groups) ||
        (matmul && tensorOf(matmul.getRhs()).getRank() != 2))
      return rewriter.notifyMatchFailure(op, "not a split of leading dims that the op above it allows");
    auto computes = [&](Operation* user) {
      return isRowOp(user) ? user->getOperand(0) == op.getResult()
                           : isPointwise(user) && shapeOf(user->getResult(0)) == shapeOf(op);
    };
    if (llvm::none_of(op->getUsers(), computes))
      return rewriter.notifyMatchFailure(op, "nothing that computes on the split shape could join the op above");
    rewriter.setInsertionPoint(above);
    rewriter.replaceOp(op, splitOp(rewriter, above, *groups, op.getLoc()));
    return success();
  }
};

}  // namespace

void populateMoveReshapePatterns(RewritePatternSet& patterns) {
  patterns.add<SinkMerge, SinkMergeBelowTranspose, RaiseSplit>(patterns.getContext());
}

}  // namespace hpu::normalize
