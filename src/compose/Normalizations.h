// SPDX-License-Identifier: Apache-2.0
// What normalisations and their gradients are made of; f32.
#pragma once

#include <cstdint>
#include <vector>

#include "compose/Emitter.h"

namespace hpu::compose {

/// The dims of a rank that are not `kept`.
std::vector<int64_t> allBut(int64_t rank, const std::vector<int64_t>& kept);

struct Moments {
  Value mean, istd, variance;  ///< Of the reduced dims, which stay with size 1; the variance is the biased one.
};
Moments momentsOf(Emitter& c, Value x, const std::vector<int64_t>& axes, double epsilon);

/// (x - mean) * istd * gamma + beta, what there is of it.
Value normalised(Emitter& c, Value x, Value mean, Value istd, Value gamma, Value beta);

/// The gradient through (x - mean(x)) * istd(x), with the mean over `axes`: istd * (g - mean(g) - xHat * mean(g *
/// xHat)).
Value normBackward(Emitter& c, Value g, Value xHat, Value istd, const std::vector<int64_t>& axes, bool centred = true);

}  // namespace hpu::compose
