// SPDX-License-Identifier: Apache-2.0
#include "compose/Attention.h"

#include <cmath>
#include <limits>
#include <utility>

#include "compose/Indexing.h"

namespace hpu::compose {
namespace {

constexpr double kMasked = -1e30;  // Finite, so that a row without any element seen is no NaN.

}  // namespace

AttentionSteps attentionSteps(Emitter& c, Value q, Value k, Value v, Value bias, const AttentionOptions& options) {
  AttentionSteps steps;
  const ElementType type = c.element(q);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(c.dim(q, 3)));
  Value scores = c.mul(c.toF32(c.matmul(q, c.transpose(k, {0, 1, 3, 2}))), scale);
  steps.products = scores;
  if (options.softcap != 0) scores = c.mul(c.op("tanh", {c.div(scores, options.softcap)}), options.softcap);
  steps.capped = scores;
  Value biased, isBlind;
  if (bias.handle) {
    bias = c.toF32(bias);
    biased = c.add(scores, bias);
    if (options.isZeroWhereBlind) {
      // Blind rows go through the softmax without their bias: a NaN on the way would be the scale of fp8 operands.
      const double none = -std::numeric_limits<double>::infinity();
      Value most = c.reduceMax(bias, {c.rank(bias) - 1}, true);
      isBlind = c.op("equal", {most, c.scalarLike(most, none)});
      bias = c.where(isBlind, c.scalarLike(bias, 0), bias);
    }
    scores = c.add(scores, bias);
  }
  if (options.isCausal) {
    const int64_t rows = c.dim(q, 2), columns = c.dim(k, 2);
    Value row = c.add(c.cast(counter(c, rows, 0, 2), ElementType::kI32), static_cast<double>(columns - rows));
    Value isBefore = c.op("less_equal", {c.cast(counter(c, columns, 1, 2), ElementType::kI32), row});
    scores = c.where(isBefore, scores, c.scalarLike(scores, kMasked));
  }
  steps.biased = isBlind.handle ? biased : scores;
  steps.weights = c.op("softmax", {scores}, {{"axis", int64_t{3}}});
  steps.result = c.matmul(c.cast(steps.weights, type), v);
  if (isBlind.handle) {
    steps.weights = c.where(isBlind, c.scalarLike(steps.weights, 0), steps.weights);
    steps.result = c.where(isBlind, c.scalarLike(steps.result, 0), steps.result);
  }
  return steps;
}

Value attention(Emitter& c, Value q, Value k, Value v, Value bias, const AttentionOptions& options) {
  return attentionSteps(c, q, k, v, bias, options).result;
}

Value sharedHeads(Emitter& c, Value x, int64_t heads) {
  const Shape s = c.shape(x);
  if (!c.ok() || s[1] == heads) return x;
  if (s[1] < 1 || heads % s[1] != 0) return c.fail("heads of the query that are no multiple of those of the keys");
  return c.reshape(c.expand(insertDim(c, x, 2), {s[0], s[1], heads / s[1], s[2], s[3]}), {s[0], heads, s[2], s[3]});
}

Value splitHeads(Emitter& c, Value x, int64_t heads) {
  const Shape s = c.shape(x);
  if (!c.ok()) return {};
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0)
    return c.fail("a width that is no multiple of the number of heads");
  return c.transpose(c.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

Value joinHeads(Emitter& c, Value x) {
  const Shape s = c.shape(x);
  if (!c.ok()) return {};
  return c.reshape(c.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

Value rotated(Emitter& c, Value x, Value cosines, Value sines, int64_t width, bool isInterleaved) {
  const Shape s = c.shape(x);
  if (!c.ok()) return {};
  const int64_t half = width / 2;
  Value turned = c.sliceDim(x, 3, 0, width), first, second;
  if (isInterleaved) {
    turned = c.reshape(turned, {s[0], s[1], s[2], half, 2});
    first = removeDim(c, c.sliceDim(turned, 4, 0, 1), 4);
    second = removeDim(c, c.sliceDim(turned, 4, 1, 1), 4);
  } else {
    first = c.sliceDim(turned, 3, 0, half);
    second = c.sliceDim(turned, 3, half, half);
  }
  Value real = c.sub(c.mul(first, cosines), c.mul(second, sines));
  Value imaginary = c.add(c.mul(second, cosines), c.mul(first, sines));
  if (isInterleaved)
    turned = c.reshape(c.concat({insertDim(c, real, 4), insertDim(c, imaginary, 4)}, 4), {s[0], s[1], s[2], width});
  else
    turned = c.concat({real, imaginary}, 3);
  if (width == s[3]) return turned;
  return c.concat({turned, c.sliceDim(x, 3, width, s[3] - width)}, 3);
}

Normalized normalized(Emitter& c, Value x, Value gamma, Value beta, double epsilon) {
  x = c.toF32(x);
  const std::vector<int64_t> last = {c.rank(x) - 1};
  Normalized n;
  n.mean = c.reduceMean(x, last, true);
  Value centred = c.sub(x, n.mean);
  n.inverseDeviation = c.op("rsqrt", {c.add(c.reduceMean(c.mul(centred, centred), last, true), epsilon)});
  n.result = c.mul(c.mul(centred, n.inverseDeviation), c.toF32(gamma));
  if (beta.handle) n.result = c.add(n.result, c.toF32(beta));
  return n;
}

Normalized rootMeanSquareNormalized(Emitter& c, Value x, Value gamma, double epsilon) {
  x = c.toF32(x);
  Normalized n;
  n.inverseDeviation = c.op("rsqrt", {c.add(c.reduceMean(c.mul(x, x), {c.rank(x) - 1}, true), epsilon)});
  n.result = c.mul(c.mul(x, n.inverseDeviation), c.toF32(gamma));
  return n;
}

}  // namespace hpu::compose
