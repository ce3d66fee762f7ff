// SPDX-License-Identifier: Apache-2.0
// LaunchParts: the device time of a launch whose program has parts.
// The one thing to know: iterations are placed one after another, each as a launch of its own, so engines do not work
// on two of them at a time; what decides about them takes a fixed time of the device's control processor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/FunctionRef.h"
#include "runtime/driver/clock/EngineTimeline.h"
#include "runtime/driver/clock/LaunchTimeline.h"

namespace hpu::driver {

using Wide = __int128;  // Products of two 64-bit numbers fit.
/// No more than perfmodel::kLongestCommand: what loops that may run for ever take, where that is not known.
inline int64_t atMost(Wide value) {
  return value < Wide{perfmodel::kLongestCommand} ? static_cast<int64_t>(value) : perfmodel::kLongestCommand;
}

/// One iteration of a part that was placed.
struct PartRun {
  const PartTimeline& part;
  std::string path;                            ///< "part 2 [5]/part 0 [1]".
  Picoseconds ready = 0, start = 0, end = 0;   ///< Absolute.
  const LaunchPlacement* placement = nullptr;  ///< Null: of iterations that were placed as one (kMostPlacedParts).
};

/// A launch of parts has so many iterations placed one by one; what loops have beyond it is placed as if the device had
/// nothing else to do.
inline constexpr uint64_t kMostPlacedParts = uint64_t{1} << 16;

struct PartsPlacement {
  LaunchPlacement whole;
  Picoseconds busy[kNumEngines] = {};
  int64_t commands = 0;
};

/// As placeLaunch. `iterations`: as LaunchOutcome's; null: parts run as often as they can. `placed` is called for each
/// iteration, in order.
PartsPlacement placeParts(const LaunchTimeline& timeline, Picoseconds ready, EngineTimeline* engines,
                          const std::vector<uint64_t>* iterations, base::FunctionRef<void(const PartRun&)> placed);

}  // namespace hpu::driver
