// SPDX-License-Identifier: Apache-2.0
// MmeBlocking: how a contraction is cut into blocks for the caches and for the threads.
// The one thing to know: it depends on the shapes only, never on the number of threads, so results
// do not either.
#pragma once

#include <cstdint>

#include "runtime/driver/sim/functional/Contraction.h"

namespace hpu::sim {

/// What the consumers of C's blocks ask for.
struct BlockLimits {
  uint32_t wholeDims = 0;        ///< Bit d: a block spans all of C's dimension d.
  bool singleImage = false;      ///< A block lies in one step of z.
  bool preparedWeights = false;  ///< B is constant and packed once, before the first run.
};

/// Extents of a block; the last one of each direction may be smaller.
struct MmeBlocking {
  int64_t z = 1, y = 1, x = 1;
  int64_t panels = 1;  ///< Of kPackedN columns.
  /// Blocks that share panels follow each other (streamed weights pass once), else those that share
  /// pixels do.
  bool panelsOutside = false;
  /// Images make the rows of one kernel call, instead of the pixels of a row: there are more of them.
  bool alongZ = false;
};

/// Elements between the rows of panels that are packed at run time: fewer than kPackedN when there are fewer columns.
int64_t panelPitch(int64_t columns);

MmeBlocking chooseBlocking(const Contraction& contraction, const BlockLimits& limits);

}  // namespace hpu::sim
