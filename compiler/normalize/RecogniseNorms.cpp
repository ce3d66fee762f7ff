// SPDX-License-Identifier: Apache-2.0
// Normalisations that exporters write as reductions and elementwise ops: layer_norm, softmax,
// log_softmax.
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

/// The first of the trailing dims that `axes` names; nullopt when they are not the trailing ones.
std::optional<int64_t> trailingAxis(ArrayRef<int64_t> axes, int64_t rank) {
  if (axes.empty()) return std::nullopt;
  SmallVector<int64_t> sorted(axes);
  llvm::sort(sorted);
  for (auto [i, axis] : llvm::enumerate(sorted))
    if (axis != rank - static_cast<int64_t>(sorted.size()) + static_cast<int64_t>(i)) return std::nullopt;
  return sorted.front();
}

/// A mean over trailing dims that keeps them.
ReduceMeanOp keptMean(Value value) {
  auto mean = value.getDefiningOp<ReduceMeanOp>();
  return mean && mean.getKeepdims() ? mean : ReduceMeanOp();
}

/// d when `value` is d * d or pow(d, 2).
Value squareRoot(Value value) {
  if (auto mul = value.getDefiningOp<MulOp>(); mul && mul.getLhs() == mul.getRhs()) return mul.getLhs();
  if (auto pow = value.getDefiningOp<PowOp>(); pow && splatOf(pow.getRhs()) == 2.0) return pow.getLhs();
  return {};
}

/// The numerator and the variance-plus-epsilon of d / sqrt(v), d * rsqrt(v), d *
/// reciprocal(sqrt(v)).
struct Quotient {
  Value numerator, radicand;
  SmallVector<Operation*> ops;
};
std::optional<Quotient> matchQuotient(Operation* op) {
  if (auto div = dyn_cast<DivOp>(op)) {
    auto root = div.getRhs().getDefiningOp<SqrtOp>();
    if (!root) return std::nullopt;
    return Quotient{div.getLhs(), root.getX(), {root}};
  }
  auto mul = dyn_cast<MulOp>(op);
  if (!mul) return std::nullopt;
  for (auto [d, inverse] : {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())}) {
    if (auto rsqrt = inverse.getDefiningOp<RsqrtOp>()) return Quotient{d, rsqrt.getX(), {rsqrt}};
    if (auto reciprocal = inverse.getDefiningOp<ReciprocalOp>())
      if (auto root = reciprocal.getX().getDefiningOp<SqrtOp>()) return Quotient{d, root.getX(), {root, reciprocal}};
  }
  return std::nullopt;
}

/// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon); scale and bias are taken in afterwards.
template <typename Root>
struct RecogniseLayerNorm : OpRewritePattern<Root> {
  using OpRewritePattern<Root>::OpRewritePattern;
  LogicalResult matchAndRewrite(Root op, PatternRewriter& rewriter) const override {
    std::optional<Quotient> quotient = matchQuotient(op);
    if (!quotient) return rewriter.notifyMatchFailure(op, "no division by a square root");
    auto centred = quotient->numerator.template getDefiningOp<SubOp>();
    auto addEpsilon = quotient->radicand.template getDefiningOp<AddOp>();
    if (!centred || !addEpsilon) return rewriter.notifyMatchFailure(op, "not (x - mean) over sqrt(v + epsilon)");
    Value variance = addEpsilon.getLhs();
    std::optional<double> epsilon = splatOf(addEpsilon.getRhs());
    if (!epsilon) {
      variance = addEpsilon.getRhs();
      epsilon = splatOf(addEpsilon.getLhs());
    }
    ReduceMeanOp mean = keptMean(centred.getRhs()), spread = keptMean(variance);
    if (!epsilon || !mean || !spread) return rewriter.notifyMatchFailure(op, "no mean or no epsilon");
    Value x = centred.getLhs(), squared = squareRoot(spread.getX());
    auto other = squared ? squared.template getDefiningOp<SubOp>() : SubOp();
    bool sameCentre =
        squared == centred.getResult() || (other && other.getLhs() == x && other.getRhs() == mean.getResult());
    if (mean.getX() != x || !sameCentre || mean.getAxes() != spread.getAxes())
      return rewriter.notifyMatchFailure(op, "the variance is of something else");
    RankedTensorType type = tensorOf(x);
    std::optional<int64_t> axis = trailingAxis(mean.getAxes(), type.getRank());
    ArrayRef<int64_t> normalised = axis ? type.getShape().drop_front(*axis) : ArrayRef<int64_t>();
    if (!axis || llvm::any_of(normalised, ShapedType::isDynamic) || op.getType() != x.getType())
      return rewriter.notifyMatchFailure(op, "the normalised dims are not the last ones or are free");
    SmallVector<Operation*> ops = {mean, centred, spread.getX().getDefiningOp(), spread, addEpsilon};
    llvm::append_range(ops, quotient->ops);
    ops.push_back(op);
    Location loc = fusedLoc(rewriter, ops);
    Value scale = makeSplat(rewriter, loc, RankedTensorType::get(normalised, type.getElementType()), 1);
    Value norm = LayerNormOp::create(rewriter, loc, x, scale, Value(), *axis, APFloat(*epsilon));
    rewriter.replaceOp(op, norm);
    return success();
  }
};

/// x / sqrt(mean(x^2) + epsilon): a norm that is not centred (RMSNorm).
template <typename Root>
struct RecogniseRmsNorm : OpRewritePattern<Root> {
  using OpRewritePattern<Root>::OpRewritePattern;
  LogicalResult matchAndRewrite(Root op, PatternRewriter& rewriter) const override {
    std::optional<Quotient> quotient = matchQuotient(op);
    auto addEpsilon = quotient ? quotient->radicand.template getDefiningOp<AddOp>() : AddOp();
    if (!addEpsilon) return rewriter.notifyMatchFailure(op, "no division by a square root of a sum with epsilon");
    Value x = quotient->numerator, meanSquare = addEpsilon.getLhs();
    std::optional<double> epsilon = splatOf(addEpsilon.getRhs());
    if (!epsilon) {
      meanSquare = addEpsilon.getRhs();
      epsilon = splatOf(addEpsilon.getLhs());
    }
    ReduceMeanOp mean = keptMean(meanSquare);
    if (!epsilon || !mean || squareRoot(mean.getX()) != x)
      return rewriter.notifyMatchFailure(op, "no mean of its squares, or no epsilon");
    RankedTensorType type = tensorOf(x);
    std::optional<int64_t> axis = trailingAxis(mean.getAxes(), type.getRank());
    ArrayRef<int64_t> normalised = axis ? type.getShape().drop_front(*axis) : ArrayRef<int64_t>();
    if (!axis || llvm::any_of(normalised, ShapedType::isDynamic) || op.getType() != x.getType() ||
        !isa<FloatType>(type.getElementType()))
      return rewriter.notifyMatchFailure(op, "the normalised dims are not the last ones or are free");
    SmallVector<Operation*> ops = {mean.getX().getDefiningOp(), mean, addEpsilon};
    llvm::append_range(ops, quotient->ops);
    ops.push_back(op);
    Location loc = fusedLoc(rewriter, ops);
    Value scale = makeSplat(rewriter, loc, RankedTensorType::get(normalised, type.getElementType()), 1);
    Value norm = LayerNormOp::create(rewriter, loc, x, scale, Value(), *axis, APFloat(*epsilon), /*centred=*/false);
    rewriter.replaceOp(op, norm);
    return success();
  }
};

/// The layer norm that only `op` uses, and the constant beside it, as a whole tensor over the
/// normalised dims.
struct NormAndConstant {
  LayerNormOp norm;
  Value constant;
};
std::optional<NormAndConstant> normAndConstant(Operation* op) {
  for (int i = 0; i < 2; ++i) {
    auto norm = op->getOperand(i).getDefiningOp<LayerNormOp>();
    Value constant = op->getOperand(1 - i);
    if (!norm || !norm->hasOneUse() || !constantOf(constant) || op->getResult(0).getType() != norm.getType()) continue;
    RankedTensorType type = tensorOf(constant);
    // Leading ones, as in [1, 1, C], are not dims of the normalised part; partly broadcast shapes
    // stay outside.
    ArrayRef<int64_t> sizes = type.getShape();
    int64_t wanted = tensorOf(norm).getRank() - static_cast<int64_t>(norm.getAxis());
    while (static_cast<int64_t>(sizes.size()) > wanted && sizes.front() == 1) sizes = sizes.drop_front();
    if (sizes == tensorOf(norm).getShape().drop_front(norm.getAxis())) return NormAndConstant{norm, constant};
  }
  return std::nullopt;
}

Value withShape(OpBuilder& builder, Location loc, Value constant, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, tensorOf(constant).getElementType());
  if (constant.getType() == type) return constant;
  return ConstantOp::create(builder, loc, type, reshapeConstant(constantOf(constant).getValue(), type));
}

struct TakeScaleIn : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter& rewriter) const override {
    std::optional<NormAndConstant> match = normAndConstant(op);
    if (!match || match->norm.getBias() || splatOf(match->norm.getScale()) != 1.0)
      return rewriter.notifyMatchFailure(op, "not the scale of a layer norm");
    LayerNormOp norm = match->norm;
    Location loc = fusedLoc(rewriter, {norm, op});
    Value scale = withShape(rewriter, loc, match->constant, tensorOf(norm).getShape().drop_front(norm.getAxis()));
    Value whole = LayerNormOp::create(rewriter, loc, norm.getX(), scale, Value(), norm.getAxis(), norm.getEpsilon(),
                                      norm.getCentred());
    rewriter.replaceOp(op, whole);
    return success();
  }
};

struct TakeBiasIn : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter& rewriter) const override {
    std::optional<NormAndConstant> match = normAndConstant(op);
    if (!match || match->norm.getBias()) return rewriter.notifyMatchFailure(op, "not the bias of a layer norm");
    LayerNormOp norm = match->norm;
    Location loc = fusedLoc(rewriter, {norm, op});
    Value bias = withShape(rewriter, loc, match->constant, tensorOf(norm).getShape().drop_front(norm.getAxis()));
    Value whole = LayerNormOp::create(rewriter, loc, norm.getX(), norm.getScale(), bias, norm.getAxis(),
                                      norm.getEpsilon(), norm.getCentred());
    rewriter.replaceOp(op, whole);
    return success();
  }
};

/// x - max(x) along one axis that is kept: the stable part of a softmax.
struct Shifted {
  Value x;
  int64_t axis;
  ReduceMaxOp max;
};
std::optional<Shifted> matchShifted(SubOp sub) {
  auto max = sub ? sub.getRhs().getDefiningOp<ReduceMaxOp>() : ReduceMaxOp();
  if (!max || max.getX() != sub.getLhs() || !max.getKeepdims() || max.getAxes().size() != 1) return std::nullopt;
  return Shifted{sub.getLhs(), max.getAxes()[0], max};
}
/// The sum of `value` along the axis, kept.
ReduceSumOp sumAlong(Value sum, Value value, int64_t axis) {
  auto reduce = sum.getDefiningOp<ReduceSumOp>();
  bool matches = reduce && reduce.getX() == value && reduce.getKeepdims() && reduce.getAxes() == ArrayRef(axis);
  return matches ? reduce : ReduceSumOp();
}

/// exp(x - max) / sum(exp(x - max)).
struct RecogniseSoftmax : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter& rewriter) const override {
    auto exp = op.getLhs().getDefiningOp<ExpOp>();
    SubOp sub = exp ? exp.getX().getDefiningOp<SubOp>() : SubOp();
    std::optional<Shifted> shifted = matchShifted(sub);
    if (!shifted) return rewriter.notifyMatchFailure(op, "the dividend is not exp(x - max)");
    ReduceSumOp sum = sumAlong(op.getRhs(), exp, shifted->axis);
    if (!sum) return rewriter.notifyMatchFailure(op, "the divisor is not the sum of the dividend");
    Location loc = fusedLoc(rewriter, {shifted->max, sub, exp, sum, op});
    rewriter.replaceOp(op, SoftmaxOp::create(rewriter, loc, shifted->x, shifted->axis).getResult());
    return success();
  }
};

/// (x - max) - log(sum(exp(x - max))).
struct RecogniseLogSoftmax : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op, PatternRewriter& rewriter) const override {
    SubOp sub = op.getLhs().getDefiningOp<SubOp>();
    std::optional<Shifted> shifted = matchShifted(sub);
    auto log = op.getRhs().getDefiningOp<LogOp>();
    if (!shifted || !log) return rewriter.notifyMatchFailure(op, "not (x - max) - log(...)");
    auto reduce = log.getX().getDefiningOp<ReduceSumOp>();
    auto exp = reduce ? reduce.getX().getDefiningOp<ExpOp>() : ExpOp();
    if (!exp || exp.getX() != sub.getResult() || !sumAlong(reduce, exp, shifted->axis))
      return rewriter.notifyMatchFailure(op, "not the logarithm of the sum of exp(x - max)");
    Location loc = fusedLoc(rewriter, {shifted->max, sub, exp, reduce, log, op});
    rewriter.replaceOp(op, LogSoftmaxOp::create(rewriter, loc, shifted->x, shifted->axis).getResult());
    return success();
  }
};

}  // namespace

void populateNormPatterns(RewritePatternSet& patterns) {
  // Ahead of the other: what is centred is x of a norm that is not.
  patterns.add<RecogniseLayerNorm<DivOp>, RecogniseLayerNorm<MulOp>>(patterns.getContext(), /*benefit=*/2);
  patterns.add<RecogniseRmsNorm<DivOp>, RecogniseRmsNorm<MulOp>>(patterns.getContext());
  patterns.add<TakeScaleIn, TakeBiasIn, RecogniseSoftmax, RecogniseLogSoftmax>(patterns.getContext());
}

}  // namespace hpu::normalize
