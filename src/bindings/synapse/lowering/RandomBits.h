// SPDX-License-Identifier: Apache-2.0
// Random bits from a counter: Threefry-2x32 of 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3"). The one thing to know: bits depend on the seed and the element's position only, so they are the same on every
// device, in every tiling and on every run.
#pragma once

#include "bindings/synapse/lowering/Lowering.h"

namespace hpu::synapse {

struct RandomWords {
  Value first, second;  ///< u32, of the given shape.
};

/// Two words for each element of `shape`. `seed`: u32, one element. Streams of different `stream`s are independent.
RandomWords randomWords(NodeContext& c, const Shape& shape, Value seed, uint32_t stream = 0);

/// The seed as randomWords takes it: operand `input` if the node has it, else `otherwise`.
Value seedOf(NodeContext& c, size_t input, uint32_t otherwise);

/// [0, 1), f32, 24 bits.
Value uniformOf(NodeContext& c, Value words);

/// A mask that is true with probability `keep`.
Value keptMask(NodeContext& c, const Shape& shape, Value seed, double keep);

}  // namespace hpu::synapse
