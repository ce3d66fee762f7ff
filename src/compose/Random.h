// SPDX-License-Identifier: Apache-2.0
// Random bits from a counter: Threefry-2x32 of 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3"). The one thing to know: bits depend on the seed and the element's position only, so they are the same on every
// device, in every tiling and on every run.
#pragma once

#include <cstdint>

#include "compose/Emitter.h"

namespace hpu::compose {

struct RandomWords {
  Value first, second;  ///< u32, of the given shape.
};

/// A seed that is known: u32, rank 0.
Value seedNumber(Emitter& c, uint32_t seed);
/// Two words for each element of `shape`. `seed`: u32, one element. Streams of different `stream`s are independent.
RandomWords randomWords(Emitter& c, const Shape& shape, Value seed, uint32_t stream = 0);
/// [0, 1), f32, 24 bits.
Value uniformOf(Emitter& c, Value words);
/// Of mean 0 and deviation 1, f32.
Value normalOf(Emitter& c, const RandomWords& words);
/// A mask that is true with probability `keep`.
Value keptMask(Emitter& c, const Shape& shape, Value seed, double keep);
/// [rows, samples], i32: for each row of `logits` [rows, classes] (f32, of probabilities times any factor) classes that
/// are drawn independently.
Value drawClasses(Emitter& c, Value logits, int64_t samples, Value seed);

}  // namespace hpu::compose
