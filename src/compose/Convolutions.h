// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients, 2-D and 3-D, as the dialect's 2-D ones.
// Here X is [N, D, H, W, C], W is [Q, R, S, C/groups, K], Y is [N, D', H', W', K]; 2-D ones have D = Q = 1. Depth taps
// become channels (forward, dX) or one product each (dW), so every sum over taps stays inside of one MME op.
#pragma once

#include <array>
#include <cstdint>

#include "compose/Emitter.h"

namespace hpu::compose {

/// Parameters by dim: 0 depth, 1 height, 2 width.
struct ConvWindow {
  std::array<int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, before{}, after{};
  int64_t groups = 1;
  int64_t span(size_t d) const { return dilation[d] * (kernel[d] - 1) + 1; }
};

/// Y, of sizes `y`.
Value convolve(Emitter& c, Value x, Value w, const ConvWindow& conv, const Shape& y);
/// dX, of sizes `x`: a transposed convolution of dY. Along the depth dY is spread by the stride and its taps become
/// channels.
Value convolutionDataGradient(Emitter& c, Value dy, Value w, const ConvWindow& conv, const Shape& x);
/// hpu.conv_transpose2d of x [N, C, H, W] and w [C, K/groups, R, S], with its attributes. Where no MME has the type
/// (f64) it is a convolution of x spread by the strides, with the weights turned around.
Value convolveTransposed(Emitter& c, Value x, Value w, const std::array<int64_t, 2>& strides,
                         const std::array<int64_t, 2>& dilations, const std::array<int64_t, 4>& pads,
                         const std::array<int64_t, 2>& outputPadding, int64_t groups);
/// dW, of sizes `w`: a convolution of X with dY in the role of the weights; batch and depth are what it sums over.
Value convolutionWeightGradient(Emitter& c, Value dy, Value x, const ConvWindow& conv, const Shape& w);

}  // namespace hpu::compose
