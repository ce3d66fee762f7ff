// SPDX-License-Identifier: Apache-2.0
// Brings attentions into one form: matmul, then one scale, then an additive mask, then softmax, then matmul.
// Exporters scale either operand or both, divide, and mask with where.
#include <cmath>

#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

bool isView(Operation* op) {
  auto hpuOp = dyn_cast_or_null<HpuOp>(op);
  return hpuOp && hpuOp.isView();
}

/// Follows the only use of each value; the ops between scores and softmax keep the shape.
bool reachesSoftmax(Value value) {
  for (int depth = 0; depth < 8 && value.hasOneUse(); ++depth) {
    Operation* user = *value.user_begin();
    if (isa<SoftmaxOp>(user)) return true;
    if (!isView(user) && !isa<MulOp, DivOp, AddOp, SubOp, WhereOp, CastOp, MaxOp, ClipOp>(user)) return false;
    value = user->getResult(0);
  }
  return false;
}

/// The scale of x * s, s * x or x / s with one number s.
struct Scaled {
  Operation* op = nullptr;
  Value x;
  double factor = 1;
};
std::optional<Scaled> scaled(Value value) {
  Operation* op = value.getDefiningOp();
  if (!isa_and_present<MulOp, DivOp>(op) || !isa<FloatType>(tensorOf(value).getElementType())) return std::nullopt;
  Scaled result{op, op->getOperand(0), 1};
  std::optional<double> number = splatOf(op->getOperand(1));
  if (!number && isa<MulOp>(op)) {
    number = splatOf(op->getOperand(0));
    result.x = op->getOperand(1);
  }
  if (!number || result.x.getType() != value.getType()) return std::nullopt;
  result.factor = isa<DivOp>(op) ? 1 / *number : *number;
  if (!std::isnormal(result.factor)) return std::nullopt;
  return result;
}

/// The scale below `operand` and its views, each with one use.
std::optional<Scaled> scaleBelow(Value operand) {
  while (operand.hasOneUse()) {
    if (std::optional<Scaled> found = scaled(operand)) return found;
    Operation* view = operand.getDefiningOp();
    if (!isView(view)) return std::nullopt;
    operand = view->getOperand(0);
  }
  return std::nullopt;
}

/// softmax(... matmul(q * s, k * t) ...): the factors go behind the product, where the softmax's kernel
/// applies them in f32. Not when they keep the product within the range of f16, in which it is stored.
struct ScaleScores : OpRewritePattern<MatMulOp> {
  ScaleScores(MLIRContext* context, ElementType stored) : OpRewritePattern(context), stored_(stored) {}
  LogicalResult matchAndRewrite(MatMulOp op, PatternRewriter& rewriter) const override {
    std::optional<Scaled> lhs = scaleBelow(op.getLhs()), rhs = scaleBelow(op.getRhs());
    if (!lhs && !rhs) return rewriter.notifyMatchFailure(op, "no scaled operand");
    if (!reachesSoftmax(op.getResult())) return rewriter.notifyMatchFailure(op, "not the scores of a softmax");
    double factor = 1;
    SmallVector<Operation*> parts = {op};
    for (const std::optional<Scaled>& side : {lhs, rhs}) {
      if (!side) continue;
      factor *= side->factor;
      parts.push_back(side->op);
    }
    Type element = tensorOf(op.getResult()).getElementType();
    const bool isF16 = element.isF16() || (element.isF32() && stored_ == ElementType::kF16);
    if (isF16 && std::abs(factor) < 1)
      return rewriter.notifyMatchFailure(op, "without the scale the product may leave the range of f16");
    Location loc = fusedLoc(rewriter, parts);
    for (Operation* part : ArrayRef(parts).drop_front())
      rewriter.replaceOp(part, part == (lhs ? lhs->op : nullptr) ? lhs->x : rhs->x);
    rewriter.setInsertionPointAfter(op);
    auto type = RankedTensorType::get({}, tensorOf(op.getResult()).getElementType());
    auto scale = MulOp::create(rewriter, loc, op.getResult(), makeSplat(rewriter, loc, type, factor));
    rewriter.replaceAllUsesExcept(op.getResult(), scale.getResult(), scale);
    return success();
  }
  ElementType stored_;
};

/// scores / s and (scores * s) * t: one multiplication.
struct OneScale : RewritePattern {
  explicit OneScale(MLIRContext* context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    if (!isa<MulOp, DivOp>(op)) return rewriter.notifyMatchFailure(op, "no scale");
    std::optional<Scaled> outer = scaled(op->getResult(0));
    if (!outer) return rewriter.notifyMatchFailure(op, "no scale by one number");
    std::optional<Scaled> inner = outer->x.hasOneUse() ? scaled(outer->x) : std::nullopt;
    Value scores = inner ? inner->x : outer->x;
    if (!inner && isa<MulOp>(op)) return rewriter.notifyMatchFailure(op, "one multiplication already");
    if (!scores.getDefiningOp<MatMulOp>() || !scores.hasOneUse() || !reachesSoftmax(op->getResult(0)))
      return rewriter.notifyMatchFailure(op, "not the scores of a softmax");
    SmallVector<Operation*> parts = {op};
    if (inner) parts.push_back(inner->op);
    Location loc = fusedLoc(rewriter, parts);
    auto type = RankedTensorType::get({}, tensorOf(scores).getElementType());
    Value factor = makeSplat(rewriter, loc, type, outer->factor * (inner ? inner->factor : 1));
    rewriter.replaceOp(op, MulOp::create(rewriter, loc, scores, factor).getResult());
    return success();
  }
};

/// where(keep, scores, -inf) is scores + where(keep, 0, -inf). The mask is made once for all rows, heads and
/// layers that share it, so it must be smaller than the scores; numbers below -1e30 absorb any score.
struct AdditiveMask : OpRewritePattern<WhereOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(WhereOp op, PatternRewriter& rewriter) const override {
    constexpr double kAbsorbs = -1e30;
    std::optional<double> a = splatOf(op.getA()), b = splatOf(op.getB());
    const bool keepsA = b && *b <= kAbsorbs;
    if (!keepsA && !(a && *a <= kAbsorbs)) return rewriter.notifyMatchFailure(op, "no masking number");
    Value scores = keepsA ? op.getA() : op.getB();
    if (splatOf(scores) || scores.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "it masks no scores of its own shape");
    if (!reachesSoftmax(op.getResult())) return rewriter.notifyMatchFailure(op, "no softmax behind it");
    Value condition = op.getCondition();
    while (auto expand = condition.getDefiningOp<ExpandOp>()) condition = expand.getX();
    RankedTensorType type = tensorOf(condition), scoresType = tensorOf(scores);
    if (!type.hasStaticShape() || !scoresType.hasStaticShape() ||
        type.getNumElements() * 2 > scoresType.getNumElements())
      return rewriter.notifyMatchFailure(op, "the mask is as large as the scores");
    Type element = scoresType.getElementType();
    Value zero = makeSplat(rewriter, op.getLoc(), RankedTensorType::get({}, element), 0);
    Value low = makeSplat(rewriter, op.getLoc(), RankedTensorType::get({}, element), keepsA ? *b : *a);
    Value mask = WhereOp::create(rewriter, op.getLoc(), condition, keepsA ? zero : low, keepsA ? low : zero);
    rewriter.replaceOpWithNewOp<AddOp>(op, scores, mask);
    return success();
  }
};

}  // namespace

void populateAttentionPatterns(RewritePatternSet& patterns, ElementType stored) {
  patterns.add<ScaleScores>(patterns.getContext(), stored);
  patterns.add<OneScale, AdditiveMask>(patterns.getContext());
}

}  // namespace hpu::normalize
