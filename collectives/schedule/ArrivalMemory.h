// SPDX-License-Identifier: Apache-2.0
// ArrivalMemory: what a timer of operations has found for the last few patterns of arrival.
// The one thing to know: a pattern is what remains when the earliest arrival is taken off of all times, so operations
// whose ranks arrive alike, at whatever time, are simulated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "collectives/schedule/Timing.h"

namespace hpu::collectives {

/// Any thread may call.
class ArrivalMemory {
 public:
  /// When each rank is done, for a pattern that is not known: given times and ends count from the earliest arrival.
  using Simulate = std::function<std::vector<int64_t>(std::span<const int64_t> arrivalPs, const LinkState& links)>;
  /// Into `ends`, whose memory is used again. Ranks without an arrival arrive at 0.
  void endPs(size_t ranks, std::span<const int64_t> arrivalPs, const LinkState& links, std::vector<int64_t>& ends,
             const Simulate& simulate);

 private:
  static constexpr size_t kPatterns = 8;
  struct Pattern {
    std::vector<int64_t> arrivals, ends;
    std::vector<int32_t> devices;
    /// What is not free from the beginning: the number of the entry, rails behind links; and from when on it is.
    std::vector<std::pair<size_t, int64_t>> busy;
  };
  std::mutex mutex_;  // Guards what follows.
  std::vector<Pattern> patterns_;
  size_t oldest_ = 0;
};

}  // namespace hpu::collectives
