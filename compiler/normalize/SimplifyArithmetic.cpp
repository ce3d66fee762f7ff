// SPDX-License-Identifier: Apache-2.0
// Patterns on elementwise arithmetic: neutral operands go, pow and div by constants become
// multiplications where the result is the same number (of a cube: one rounding away).
#include <cmath>

#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

bool isFloat(Value value) {
  return isa<FloatType>(tensorOf(value).getElementType());
}

/// Replaces `op` by `kept` when their types are the same (a broadcast constant may have shaped the
/// result).
LogicalResult replaceByOperand(Operation* op, Value kept, PatternRewriter& rewriter) {
  if (op->getResult(0).getType() != kept.getType()) return rewriter.notifyMatchFailure(op, "the operand is broadcast");
  rewriter.replaceOp(op, kept);
  return success();
}

/// x + 0, x - 0, x * 1, x / 1.
template <typename Op, bool kCommutes>
struct DropNeutralOperand : OpRewritePattern<Op> {
  DropNeutralOperand(MLIRContext* context, double neutral) : OpRewritePattern<Op>(context), neutral_(neutral) {}
  LogicalResult matchAndRewrite(Op op, PatternRewriter& rewriter) const override {
    if (splatOf(op.getRhs()) == neutral_) return replaceByOperand(op, op.getLhs(), rewriter);
    if (kCommutes && splatOf(op.getLhs()) == neutral_) return replaceByOperand(op, op.getRhs(), rewriter);
    return rewriter.notifyMatchFailure(op, "no neutral operand");
  }
  double neutral_;
};

/// pow with a small integral exponent. x*x and 1/x are at least as exact as a power function.
struct ExpandPow : OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PowOp op, PatternRewriter& rewriter) const override {
    std::optional<double> exponent = splatOf(op.getRhs());
    if (!exponent || !isFloat(op.getLhs()) || op.getType() != op.getLhs().getType())
      return rewriter.notifyMatchFailure(op, "the exponent is not one constant number");
    Value x = op.getLhs();
    if (*exponent == 1) {
      rewriter.replaceOp(op, x);
    } else if (*exponent == 2) {
      rewriter.replaceOpWithNewOp<MulOp>(op, x, x);
    } else if (*exponent == 3) {
      Value square = MulOp::create(rewriter, op.getLoc(), x, x);
      rewriter.replaceOpWithNewOp<MulOp>(op, square, x);
    } else if (*exponent == -1) {
      rewriter.replaceOpWithNewOp<ReciprocalOp>(op, x);
    } else {
      return rewriter.notifyMatchFailure(op, "no cheaper form");
    }
    return success();
  }
};

/// x / c is x * (1 / c) where c is a power of two. Of other divisors the product may be the next number: a rounding
/// behind it, as of QuantizeLinear, would take the next step. Kernels divide by constants for less (kUniformDivision).
struct DivideByConstant : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter& rewriter) const override {
    std::optional<double> divisor = splatOf(op.getRhs());
    if (!divisor || !isFloat(op.getRhs())) return rewriter.notifyMatchFailure(op, "the divisor is not one constant");
    int exponent = 0;
    double fraction = std::frexp(*divisor, &exponent);
    if (std::abs(fraction) != 0.5) return rewriter.notifyMatchFailure(op, "the divisor is no power of two");
    // The reciprocal must be a normal f32 (and f16) number.
    if (std::abs(exponent) > 14) return rewriter.notifyMatchFailure(op, "the divisor's reciprocal may be out of range");
    Value factor = makeSplat(rewriter, op.getLoc(), tensorOf(op.getRhs()), 1 / *divisor);
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getLhs(), factor);
    return success();
  }
};

/// 1 / x.
struct DivideOneBy : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter& rewriter) const override {
    if (splatOf(op.getLhs()) != 1.0 || !isFloat(op.getRhs()) || op.getType() != op.getRhs().getType())
      return rewriter.notifyMatchFailure(op, "the dividend is not one");
    rewriter.replaceOpWithNewOp<ReciprocalOp>(op, op.getRhs());
    return success();
  }
};

/// 1 / sqrt(x).
struct ReciprocalOfSqrt : OpRewritePattern<ReciprocalOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReciprocalOp op, PatternRewriter& rewriter) const override {
    auto root = op.getX().getDefiningOp<SqrtOp>();
    if (!root) return rewriter.notifyMatchFailure(op, "not of a square root");
    Location loc = fusedLoc(rewriter, {root, op});
    rewriter.replaceOp(op, RsqrtOp::create(rewriter, loc, root.getX()).getResult());
    return success();
  }
};

/// f(f(x)) = f(x) for relu, abs, floor, ceil, round, sign; -(-x) and not(not x) are x.
struct DropRepeated : RewritePattern {
  explicit DropRepeated(MLIRContext* context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    Operation* below = op->getNumOperands() == 1 ? op->getOperand(0).getDefiningOp() : nullptr;
    if (!below || below->getName() != op->getName()) return rewriter.notifyMatchFailure(op, "not repeated");
    if (isa<ReluOp, AbsOp, FloorOp, CeilOp, RoundOp, SignOp>(op))
      rewriter.replaceOp(op, op->getOperand(0));
    else if (isa<NegOp, NotOp>(op))
      rewriter.replaceOp(op, below->getOperand(0));
    else
      return rewriter.notifyMatchFailure(op, "repeating it changes the value");
    return success();
  }
};

/// where with a condition that is the same everywhere.
struct DecideWhere : OpRewritePattern<WhereOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(WhereOp op, PatternRewriter& rewriter) const override {
    std::optional<double> condition = splatOf(op.getCondition());
    if (!condition) return rewriter.notifyMatchFailure(op, "the condition is not one constant");
    return replaceByOperand(op, *condition != 0 ? op.getA() : op.getB(), rewriter);
  }
};

}  // namespace

void populateSimplifyArithmeticPatterns(RewritePatternSet& patterns) {
  MLIRContext* context = patterns.getContext();
  patterns.add<DropNeutralOperand<AddOp, true>>(context, 0.0);
  patterns.add<DropNeutralOperand<SubOp, false>>(context, 0.0);
  patterns.add<DropNeutralOperand<MulOp, true>>(context, 1.0);
  patterns.add<DropNeutralOperand<DivOp, false>>(context, 1.0);
  patterns.add<ExpandPow, DivideByConstant, DivideOneBy, ReciprocalOfSqrt, DropRepeated, DecideWhere>(context);
}

}  // namespace hpu::normalize
