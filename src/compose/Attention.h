// SPDX-License-Identifier: Apache-2.0
// Attention and what is around it in Transformers that runtimes fuse, as formulas.
// Here q is [B, H, S, D], k [B, H, T, D] and v [B, H, T, Dv]; floats of one type.
#pragma once

#include "compose/Emitter.h"

namespace hpu::compose {

struct AttentionOptions {
  double scale = 0;               ///< Of the products; 0: one by the root of D.
  double softcap = 0;             ///< Not 0: products are softcap * tanh(product / softcap).
  bool isCausal = false;          ///< Row i sees the columns up to i + T - S.
  bool isZeroWhereBlind = false;  ///< A row whose bias is minus infinity everywhere has weights of 0, not NaN.
};

/// softmax(scale q k^T + bias) v, [B, H, S, Dv]. `bias` broadcasts over [B, H, S, T]; it may be null.
Value attention(Emitter& c, Value q, Value k, Value v, Value bias, const AttentionOptions& options);

/// The same with what is on the way, f32: the scaled products, after the softcap, with the bias, and their softmax.
struct AttentionSteps {
  Value products, capped, biased, weights, result;
};
AttentionSteps attentionSteps(Emitter& c, Value q, Value k, Value v, Value bias, const AttentionOptions& options);
/// Heads of keys and values that several heads of the query share, once for each of these.
Value sharedHeads(Emitter& c, Value x, int64_t heads);

/// [B, S, H * D] as [B, H, S, D], and back.
Value splitHeads(Emitter& c, Value x, int64_t heads);
Value joinHeads(Emitter& c, Value x);

/// Rotary positions: x [B, H, S, D] of which the first `width` elements are turned, by cosines and sines
/// [B or 1, 1, S, width / 2]. `isInterleaved`: pairs are neighbours, else halves.
Value rotated(Emitter& c, Value x, Value cosines, Value sines, int64_t width, bool isInterleaved);

/// (x - mean) * rsqrt(variance + epsilon) * gamma + beta over the last dim, in f32; beta may be null.
struct Normalized {
  Value result, mean, inverseDeviation;  ///< f32; the statistics with a last dim of 1.
};
Normalized normalized(Emitter& c, Value x, Value gamma, Value beta, double epsilon);
/// x * rsqrt(mean(x^2) + epsilon) * gamma; no mean.
Normalized rootMeanSquareNormalized(Emitter& c, Value x, Value gamma, double epsilon);

}  // namespace hpu::compose
