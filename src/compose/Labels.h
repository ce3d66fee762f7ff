// SPDX-License-Identifier: Apache-2.0
// Integer labels against logits or log probabilities: the negative log likelihood and its gradient.
#pragma once

#include <cstdint>

#include "compose/Emitter.h"

namespace hpu::compose {

struct LabelHits {
  Value hit;      ///< Where the class is the target's and not ignored, in the logits' sizes, i1.
  Value weights;  ///< Of each target (0 if ignored), f32, with a class dim of 1.
};
/// `shape`: of the logits, classes along `classDim`; as many targets as it has elements otherwise. `weight`: of each
/// class, or null.
LabelHits labelHits(Emitter& c, Value target, const Shape& shape, int64_t classDim, Value weight, int64_t ignored);

}  // namespace hpu::compose
