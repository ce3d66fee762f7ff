// SPDX-License-Identifier: Apache-2.0
// Patterns on ops that only move or rename elements: identities go, stacked ones become one, and a
// gather of known consecutive indices becomes a slice, which costs nothing.
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "compiler/normalize/ViewFacts.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {

bool isIdentityView(Operation* op) {
  if (!isa<ReshapeOp, TransposeOp, SliceOp, ExpandOp, CastOp, BitcastOp, PadOp, ConcatOp>(op)) return false;
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  if (from != to) return false;
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return llvm::equal(transpose.getPerm(), llvm::seq<int64_t>(0, from.getRank()));
  if (auto concat = dyn_cast<ConcatOp>(op)) return concat.getInputs().size() == 1;
  if (isa<CastOp, BitcastOp>(op)) return true;
  if (auto slice = dyn_cast<SliceOp>(op))
    if (!llvm::all_of(slice.getStarts(), [](int64_t v) { return v == 0; }) ||
        !llvm::all_of(slice.getSteps(), [](int64_t v) { return v == 1; }))
      return false;
  // Equal types with free dims: the sizes are the same only when each free dim has a name.
  return llvm::all_of(symShape(from), [](const SymDim& dim) { return !dim.isFree() || dim.symbol; });
}

bool isStackedView(Operation* op) {
  Operation* below = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr;
  return below && ((isa<TransposeOp>(op) && isa<TransposeOp>(below)) || (isa<ReshapeOp>(op) && isa<ReshapeOp>(below)) ||
                   (isa<ExpandOp>(op) && isa<ExpandOp>(below)));
}

namespace {

struct DropIdentityView : RewritePattern {
  explicit DropIdentityView(MLIRContext* context) : RewritePattern(MatchAnyOpTypeTag(), 2, context) {}
  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    if (!isIdentityView(op)) return rewriter.notifyMatchFailure(op, "changes its operand");
    rewriter.replaceOp(op, op->getOperand(0));
    return success();
  }
};

struct MergeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter& rewriter) const override {
    auto below = op.getX().getDefiningOp<TransposeOp>();
    if (!below) return rewriter.notifyMatchFailure(op, "no transpose below");
    SmallVector<int64_t> perm;
    for (int64_t p : op.getPerm()) perm.push_back(below.getPerm()[p]);
    Location loc = fusedLoc(rewriter, {below, op});
    rewriter.replaceOp(op, TransposeOp::create(rewriter, loc, below.getX(), perm).getResult());
    return success();
  }
};

struct MergeBitcasts : OpRewritePattern<BitcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BitcastOp op, PatternRewriter& rewriter) const override {
    auto below = op.getX().getDefiningOp<BitcastOp>();
    if (!below) return rewriter.notifyMatchFailure(op, "no bitcast below");
    Location loc = fusedLoc(rewriter, {below, op});
    rewriter.replaceOp(op, BitcastOp::create(rewriter, loc, below.getX(), op.getTo()).getResult());
    return success();
  }
};

struct MergeReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter& rewriter) const override {
    auto below = op.getX().getDefiningOp<ReshapeOp>();
    if (!below) return rewriter.notifyMatchFailure(op, "no reshape below");
    Location loc = fusedLoc(rewriter, {below, op});
    auto merged = ReshapeOp::create(rewriter, loc, below.getX(), op.getShape(), op.getSymbolsAttr());
    rewriter.replaceOp(op, merged.getResult());
    return success();
  }
};

struct MergeExpands : OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ExpandOp op, PatternRewriter& rewriter) const override {
    auto below = op.getX().getDefiningOp<ExpandOp>();
    if (!below) return rewriter.notifyMatchFailure(op, "no expand below");
    Location loc = fusedLoc(rewriter, {below, op});
    auto merged = ExpandOp::create(rewriter, loc, below.getX(), op.getShape(), op.getSymbolsAttr());
    rewriter.replaceOp(op, merged.getResult());
    return success();
  }
};

/// A reshape of a constant is the same bytes with another type.
struct ReshapeConstant : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter& rewriter) const override {
    ConstantOp constant = constantOf(op.getX());
    if (!constant || !op.getType().hasStaticShape()) return rewriter.notifyMatchFailure(op, "not a constant");
    ElementsAttr value = reshapeConstant(constant.getValue(), op.getType());
    if (!value) return rewriter.notifyMatchFailure(op, "unknown kind of constant");
    rewriter.replaceOpWithNewOp<ConstantOp>(op, op.getType(), value);
    return success();
  }
};

/// Elementwise ops broadcast by themselves; an expand that does not shape their result is not
/// needed.
struct DropExpandBeforeElementwise : RewritePattern {
  explicit DropExpandBeforeElementwise(MLIRContext* context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    auto hpuOp = dyn_cast<HpuOp>(op);
    if (!hpuOp || !hpuOp.isElementwise() || isa<BatchNormOp>(op) || op->getNumOperands() < 2)
      return rewriter.notifyMatchFailure(op, "not an elementwise op of several operands");
    SymShape result = symShape(tensorOf(op->getResult(0)));
    for (OpOperand& operand : op->getOpOperands()) {
      auto expand = operand.get().getDefiningOp<ExpandOp>();
      if (!expand) continue;
      std::optional<SymShape> shape = symShape(tensorOf(expand.getX()));
      for (OpOperand& other : op->getOpOperands())
        if (shape && &other != &operand) shape = broadcastShapes(*shape, symShape(tensorOf(other.get())));
      if (!shape || shape->size() != result.size() || !llvm::equal(*shape, result)) continue;
      rewriter.modifyOpInPlace(op, [&] { operand.set(expand.getX()); });
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no expand that could go");
  }
};

struct MergeSlices : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter& rewriter) const override {
    auto below = op.getX().getDefiningOp<SliceOp>();
    if (!below || !tensorOf(op).hasStaticShape()) return rewriter.notifyMatchFailure(op, "no slice below");
    if (op.getStartSymbols() || below.getStartSymbols())
      return rewriter.notifyMatchFailure(op, "where it begins is not known yet");
    SmallVector<int64_t> starts, steps;
    for (auto [d, start] : llvm::enumerate(op.getStarts())) {
      starts.push_back(below.getStarts()[d] + start * below.getSteps()[d]);
      steps.push_back(op.getSteps()[d] * below.getSteps()[d]);
    }
    Location loc = fusedLoc(rewriter, {below, op});
    rewriter.replaceOp(op, SliceOp::create(rewriter, loc, below.getX(), starts, op.getSizes(), steps, ArrayAttr(),
                                           sizeNames(tensorOf(op)))
                               .getResult());
    return success();
  }
};

struct GatherToSlice : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter& rewriter) const override {
    RankedTensorType x = tensorOf(op.getX());
    std::optional<SmallVector<int64_t>> indices = integersOf(op.getIndices());
    int64_t axis = op.getAxis();
    if (!indices || indices->empty() || !x.hasStaticShape())
      return rewriter.notifyMatchFailure(op, "indices are not a small constant");
    int64_t extent = x.getDimSize(axis);
    const SymDim along = symShape(x)[axis];
    const bool fromEnd = indices->front() < 0;
    // Counted from both ends of a size that is given late, they have no step.
    if (along.isNamed() && llvm::any_of(*indices, [&](int64_t index) { return (index < 0) != fromEnd; }))
      return rewriter.notifyMatchFailure(op, "indices count from both ends");
    for (int64_t& index : *indices) {
      if (index < 0) index += extent;
      if (index < 0 || index >= extent) return rewriter.notifyMatchFailure(op, "an index is outside the tensor");
    }
    int64_t step = indices->size() > 1 ? (*indices)[1] - (*indices)[0] : 1;
    for (size_t i = 1; i < indices->size(); ++i)
      if ((*indices)[i] - (*indices)[i - 1] != step) return rewriter.notifyMatchFailure(op, "indices have no step");
    if (step <= 0) return rewriter.notifyMatchFailure(op, "indices do not ascend");
    SmallVector<int64_t> starts(x.getRank(), 0), sizes(x.getShape()), steps(x.getRank(), 1);
    starts[axis] = indices->front();
    sizes[axis] = static_cast<int64_t>(indices->size());
    steps[axis] = step;
    ArrayAttr startNames;
    if (along.isNamed() && fromEnd) {
      const std::optional<shape::DimExpr> first = exprOf(along)->minus(extent - starts[axis]);
      if (!first) return rewriter.notifyMatchFailure(op, "where it begins has no expression");
      SmallVector<Attribute> names(x.getRank(), rewriter.getStringAttr(""));
      names[axis] = rewriter.getStringAttr(first->text());
      startNames = rewriter.getArrayAttr(names);
    }
    SmallVector<Attribute> names(x.getRank(), rewriter.getStringAttr(""));
    ArrayAttr sizeSymbols = sizeNames(x);
    if (sizeSymbols) {
      names.assign(sizeSymbols.begin(), sizeSymbols.end());
      names[axis] = rewriter.getStringAttr("");
      sizeSymbols = rewriter.getArrayAttr(names);
    }
    Value slice = SliceOp::create(rewriter, op.getLoc(), op.getX(), starts, sizes, steps, startNames, sizeSymbols);
    if (tensorOf(slice) != tensorOf(op))
      slice = ReshapeOp::create(rewriter, op.getLoc(), slice, tensorOf(op).getShape(), ArrayAttr());
    rewriter.replaceOp(op, slice);
    return success();
  }
};

}  // namespace

void populateSimplifyViewPatterns(RewritePatternSet& patterns) {
  patterns.add<DropIdentityView, MergeTransposes, MergeBitcasts, MergeReshapes, MergeExpands, ReshapeConstant,
               DropExpandBeforeElementwise, MergeSlices, GatherToSlice>(patterns.getContext());
}

}  // namespace hpu::normalize
