// SPDX-License-Identifier: Apache-2.0
// Results of which each element along a dim is a sum of a few elements of the operand, at positions that are known when
// the graph is built: other sizes of images, borders, patches. A gather for each term, scattered sums on the way back.
#pragma once

#include <cstdint>
#include <vector>

#include "compose/Emitter.h"

namespace hpu::compose {

/// Elements of a result along a dim: each is a number in a constant.
constexpr int64_t kMostTerms = 1 << 16;

/// Term t of element o of a result: weights[t][o] times the operand's element positions[t][o].
struct AxisTerms {
  int64_t size = 0;  ///< Of the operand.
  std::vector<std::vector<int64_t>> positions;
  std::vector<std::vector<float>> weights;  ///< None: all are 1.
};

/// `x` is f32 where the terms have weights.
Value gatherTerms(Emitter& c, Value x, int64_t dim, const AxisTerms& terms);
/// The transpose, for gradients; f32.
Value scatterTerms(Emitter& c, Value g, int64_t dim, const AxisTerms& terms);

}  // namespace hpu::compose
