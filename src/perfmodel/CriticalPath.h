// SPDX-License-Identifier: Apache-2.0
// The chain of slices that a timeline's length consists of: each starts when the one before it ends.
// The one thing to know: it is found from times alone, so a recorded trace will do; device time is integer
// picoseconds, and what releases a slice ends exactly when it starts.
#pragma once

#include <cstdint>
#include <vector>

#include "perfmodel/EngineCost.h"

namespace hpu::perfmodel {

struct PathSlice {
  uint32_t engine = 0;
  Picoseconds start = 0, end = 0;
};

/// Indices of the slices of the path, in the order of time; slices without duration are not on it. Between two
/// of them there may be a gap (nothing ended when the later one started: it was launched then). Among several that
/// end at the right time the one of the same engine is taken, then the longest, then the first. O(n log n).
std::vector<uint32_t> criticalPath(const std::vector<PathSlice>& slices);

}  // namespace hpu::perfmodel
