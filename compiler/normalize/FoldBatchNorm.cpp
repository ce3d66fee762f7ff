// SPDX-License-Identifier: Apache-2.0
// Inference batch norms with constant statistics become y = x * s + t; ScaleIntoWeights then takes
// s into the weights of the convolution before it.
#include <cmath>

#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

struct BatchNormToScaleAndOffset : OpRewritePattern<BatchNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BatchNormOp op, PatternRewriter& rewriter) const override {
    auto scale = floatsOf(op.getScale()), bias = floatsOf(op.getBias());
    auto mean = floatsOf(op.getMean()), variance = floatsOf(op.getVariance());
    if (!scale || !bias || !mean || !variance)
      return rewriter.notifyMatchFailure(op, "the statistics are not f32 constants");
    const double epsilon = op.getEpsilon().convertToDouble();
    std::vector<float> factor(scale->size()), offset(scale->size());
    bool finite = true;
    for (size_t c = 0; c < scale->size(); ++c) {
      factor[c] = static_cast<float>((*scale)[c] / std::sqrt(static_cast<double>((*variance)[c]) + epsilon));
      // With the rounded factor: what is subtracted then cancels against what is multiplied.
      offset[c] = static_cast<float>((*bias)[c] - static_cast<double>((*mean)[c]) * factor[c]);
      finite &= std::isfinite(factor[c]) && std::isfinite(offset[c]);
    }
    int64_t rank = cast<RankedTensorType>(op.getType()).getRank();
    SmallVector<int64_t> shape = channelShape(rank, 1, static_cast<int64_t>(factor.size()));
    Location loc = op.getLoc();
    Value x = op.getX();
    // An infinite factor times a mean of 0 is no offset: as the definition says, the mean goes first.
    if (!finite) {
      x = SubOp::create(rewriter, loc, x, makeFloats(rewriter, loc, shape, *mean));
      offset = *bias;
    }
    Value scaled = MulOp::create(rewriter, loc, x, makeFloats(rewriter, loc, shape, factor));
    rewriter.replaceOpWithNewOp<AddOp>(op, scaled, makeFloats(rewriter, loc, shape, offset));
    return success();
  }
};

}  // namespace

void populateBatchNormPatterns(RewritePatternSet& patterns) {
  patterns.add<BatchNormToScaleAndOffset>(patterns.getContext());
}

}  // namespace hpu::normalize
