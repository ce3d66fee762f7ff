// SPDX-License-Identifier: Apache-2.0
// A per-channel constant scale behind a convolution or matmul goes into its constant weights, and
// constant offsets behind it become one bias. Weights are multiplied in double and rounded once to
// f32.
#include <cmath>
#include <utility>

#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

/// Largest magnitude, of the finite numbers.
double largestOf(ArrayRef<float> values) {
  double largest = 0;
  for (float v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(static_cast<double>(v)));
  return largest;
}

/// Whether numbers that f16 has become ones that it has not: beyond its range, or none above its smallest normal
/// number. Single small numbers may become denormal: beside the largest ones they do not count.
bool leavesF16(ArrayRef<float> before, ArrayRef<float> after) {
  constexpr double kLargest = 65504, kSmallest = 1.0 / 16384;
  const double from = largestOf(before), to = largestOf(after);
  return to > kLargest || (to > 0 && to < kSmallest && from >= kSmallest);
}

/// Whether a number becomes one that f32 (and bf16, which has the same exponents) does not hold: a finite one
/// infinite or NaN, or a normal one denormal or 0, although its factor is not 0.
bool leavesF32(float before, float factor, float after) {
  if (std::isfinite(before) && !std::isfinite(after)) return true;
  return std::isnormal(before) && factor != 0 && !std::isnormal(after);
}

/// An MME-like op whose result channels are scaled by scaling its weights.
struct Weighted {
  Operation* op = nullptr;
  OpOperand* weights = nullptr;
  int64_t channel = 0;   ///< Dim of the result.
  int64_t channels = 0;  ///< Its size.
};
std::optional<Weighted> weighted(Operation* op) {
  if (!op || !op->hasOneUse()) return std::nullopt;
  if (!isa<Conv2dOp, ConvTranspose2dOp, MatMulOp>(op)) return std::nullopt;
  // Integers would not stay integers.
  if (cast<HpuOp>(op).getNarrowing() == Narrowing::Exact) return std::nullopt;
  RankedTensorType result = tensorOf(op->getResult(0));
  int64_t channel = isa<MatMulOp>(op) ? result.getRank() - 1 : 1;
  if (result.isDynamicDim(channel)) return std::nullopt;
  return Weighted{op, &op->getOpOperand(1), channel, result.getDimSize(channel)};
}

/// The weights with channel c of the result multiplied by scale[c]; null when they are not
/// constant, or when the type that they will be stored in does not hold them.
Value scaleWeights(OpBuilder& builder, Location loc, const Weighted& target, ArrayRef<float> scale,
                   ElementType element) {
  Value weights = target.weights->get();
  auto transpose = weights.getDefiningOp<TransposeOp>();
  Value stored = transpose ? transpose.getX() : weights;
  std::optional<std::vector<float>> values = floatsOf(stored);
  if (!values) return {};
  RankedTensorType type = tensorOf(stored);
  int64_t rank = type.getRank(), groups = 1;
  // The dim of the weights that runs over the result's channels; conv_transpose2d has them by
  // group.
  int64_t dim = isa<MatMulOp>(target.op) ? rank - 1 : 0;
  if (auto conv = dyn_cast<ConvTranspose2dOp>(target.op)) {
    groups = conv.getGroups();
    dim = 1;
  }
  if (transpose) {
    if (!isa<MatMulOp>(target.op)) return {};
    dim = transpose.getPerm()[dim];
  }
  int64_t inner = 1, extent = type.getDimSize(dim);
  for (int64_t d = dim + 1; d < rank; ++d) inner *= type.getDimSize(d);
  int64_t inputsPerGroup = groups > 1 ? type.getDimSize(0) / groups : 0;
  std::vector<float> before = *values;
  for (int64_t i = 0; i < static_cast<int64_t>(values->size()); ++i) {
    int64_t channel = i / inner % extent;
    if (groups > 1) channel += i / (inner * extent) / inputsPerGroup * extent;
    (*values)[i] = static_cast<float>(static_cast<double>((*values)[i]) * scale[channel]);
    if (leavesF32(before[i], scale[channel], (*values)[i])) return {};
  }
  if (element == ElementType::kF16 && leavesF16(before, *values)) return {};
  Value scaled = makeFloats(builder, loc, type.getShape(), *values);
  if (transpose) scaled = TransposeOp::create(builder, loc, scaled, transpose.getPerm());
  return scaled;
}

/// The constant beside the other operand of a commutative op, and that operand.
struct Split {
  Value variable, constant;
};
std::optional<Split> splitConstant(Operation* op) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  if (constantOf(rhs) && !constantOf(lhs)) return Split{lhs, rhs};
  if (constantOf(lhs) && !constantOf(rhs)) return Split{rhs, lhs};
  return std::nullopt;
}

/// conv(x, w) * s, (conv(x, w) + b) * s, and divisions by s.
template <typename Root>
struct ScaleIntoWeights : OpRewritePattern<Root> {
  ScaleIntoWeights(MLIRContext* context, ElementType stored) : OpRewritePattern<Root>(context), stored_(stored) {}
  LogicalResult matchAndRewrite(Root op, PatternRewriter& rewriter) const override {
    constexpr bool kDivides = std::is_same_v<Root, DivOp>;
    std::optional<Split> split = splitConstant(op);
    if (!split || (kDivides && split->constant != op.getRhs()))
      return rewriter.notifyMatchFailure(op, "no constant factor");
    if (op.getType() != split->variable.getType()) return rewriter.notifyMatchFailure(op, "the factor broadcasts");
    auto add = split->variable.template getDefiningOp<AddOp>();
    std::optional<Split> bias = add && add->hasOneUse() ? splitConstant(add) : std::nullopt;
    if (bias && add.getType() != bias->variable.getType()) bias.reset();
    std::optional<Weighted> target = weighted((bias ? bias->variable : split->variable).getDefiningOp());
    if (!target) return rewriter.notifyMatchFailure(op, "no convolution or matmul that only this scales");
    int64_t rank = tensorOf(op.getResult()).getRank();
    auto scale = perChannel(split->constant, rank, target->channel, target->channels);
    if (!scale) return rewriter.notifyMatchFailure(op, "the factor is not one number a channel");
    std::optional<std::vector<float>> offset;
    if (bias) {
      offset = perChannel(bias->constant, rank, target->channel, target->channels);
      if (!offset) return rewriter.notifyMatchFailure(op, "the bias is not one number a channel");
    }
    if (kDivides) {
      for (float& s : *scale) {
        s = static_cast<float>(1.0 / s);
        if (!std::isnormal(s)) return rewriter.notifyMatchFailure(op, "a divisor has no reciprocal");
      }
    }
    for (size_t c = 0; offset && c < offset->size(); ++c) {
      const float before =
          std::exchange((*offset)[c], static_cast<float>(static_cast<double>((*offset)[c]) * (*scale)[c]));
      if (leavesF32(before, (*scale)[c], (*offset)[c]))
        return rewriter.notifyMatchFailure(op, "the bias would leave the range");
    }
    Location loc = fusedLoc(rewriter, {target->op, add, op});
    rewriter.setInsertionPoint(target->op);
    Value weights = scaleWeights(rewriter, target->weights->get().getLoc(), *target, *scale, stored_);
    if (!weights)
      return rewriter.notifyMatchFailure(op, "the weights are not an f32 constant, or would leave the range");
    rewriter.setInsertionPoint(op);
    IRMapping mapping;
    mapping.map(target->weights->get(), weights);
    Operation* scaled = rewriter.clone(*target->op, mapping);
    scaled->setLoc(offset ? fusedLoc(rewriter, {target->op, op}) : loc);
    Value result = scaled->getResult(0);
    if (offset) {
      SmallVector<int64_t> shape = channelShape(rank, target->channel, target->channels);
      Value constant = makeFloats(rewriter, bias->constant.getLoc(), shape, *offset);
      result = AddOp::create(rewriter, fusedLoc(rewriter, {add, op}), result, constant);
    }
    rewriter.replaceOp(op, result);
    return success();
  }
  ElementType stored_;
};

/// (conv(x, w) + a) + b with constants: one bias.
struct MergeBiases : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter& rewriter) const override {
    std::optional<Split> outer = splitConstant(op);
    auto below = outer ? outer->variable.getDefiningOp<AddOp>() : AddOp();
    std::optional<Split> inner = below && below->hasOneUse() ? splitConstant(below) : std::nullopt;
    std::optional<Weighted> target = inner ? weighted(inner->variable.getDefiningOp()) : std::nullopt;
    if (!target || op.getType() != inner->variable.getType())
      return rewriter.notifyMatchFailure(op, "not a second bias behind a convolution or matmul");
    int64_t rank = tensorOf(op).getRank();
    auto a = perChannel(inner->constant, rank, target->channel, target->channels);
    auto b = perChannel(outer->constant, rank, target->channel, target->channels);
    if (!a || !b) return rewriter.notifyMatchFailure(op, "a bias is not one number a channel");
    for (size_t c = 0; c < a->size(); ++c) {
      const bool finite = std::isfinite((*a)[c]) && std::isfinite((*b)[c]);
      (*a)[c] = static_cast<float>(static_cast<double>((*a)[c]) + static_cast<double>((*b)[c]));
      if (finite && !std::isfinite((*a)[c]))
        return rewriter.notifyMatchFailure(op, "the sum of the biases leaves the range");
    }
    Location loc = fusedLoc(rewriter, {below, op});
    SmallVector<int64_t> shape = channelShape(rank, target->channel, target->channels);
    Value bias = makeFloats(rewriter, loc, shape, *a);
    rewriter.replaceOp(op, AddOp::create(rewriter, loc, inner->variable, bias).getResult());
    return success();
  }
};

/// conv(x, w) - c with a constant: one form for offsets.
struct SubtractToAdd : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op, PatternRewriter& rewriter) const override {
    std::optional<std::vector<float>> values = floatsOf(op.getRhs());
    if (!values || constantOf(op.getLhs()) ||
        !isa_and_present<Conv2dOp, ConvTranspose2dOp, MatMulOp, AddOp>(op.getLhs().getDefiningOp()))
      return rewriter.notifyMatchFailure(op, "not an offset behind a convolution or matmul");
    for (float& v : *values) v = -v;
    Value negated = makeFloats(rewriter, op.getLoc(), tensorOf(op.getRhs()).getShape(), *values);
    rewriter.replaceOpWithNewOp<AddOp>(op, op.getLhs(), negated);
    return success();
  }
};

}  // namespace

void populateScaleIntoWeightsPatterns(RewritePatternSet& patterns, ElementType stored) {
  patterns.add<ScaleIntoWeights<MulOp>, ScaleIntoWeights<DivOp>>(patterns.getContext(), stored);
  patterns.add<MergeBiases, SubtractToAdd>(patterns.getContext());
}

}  // namespace hpu::normalize
