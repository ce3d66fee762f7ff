// SPDX-License-Identifier: Apache-2.0
// Small schedules written by hand, and a machine that runs any schedule on numbers in a random
// interleaving: what the check promises is tried on it.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/schedule/Schedule.h"

namespace hpu::collectives::test {

/// Adds a step and returns its index.
int32_t add(Schedule& schedule, Step step);
Step copyStep(int32_t rank, Range source, Range dst, std::vector<int32_t> after = {});
Step reduceStep(int32_t rank, std::vector<Range> sources, Range dst, std::vector<int32_t> after = {});
Step sendStep(int32_t rank, int32_t peer, Range source, std::vector<int32_t> after = {});
Step recvStep(int32_t rank, int32_t peer, Range dst, std::vector<int32_t> after = {});

/// Reduce-scatter among all, then all-gather; `count` any, cut into `slices`.
Schedule meshAllReduce(int32_t ranks, int64_t count, int32_t slices);
Schedule meshAllGather(int32_t ranks, int64_t count, int32_t slices);
/// Partial results go round once.
Schedule ringReduceScatter(int32_t ranks, int64_t count);
/// Each rank tells each other one, with empty messages.
Schedule meshBarrier(int32_t ranks);

struct RunOptions {
  uint64_t seed = 1;
  bool inPlace = false;
  /// Received scratch is read at its sender, whose send is done when its readers are.
  bool zeroCopy = false;
};
/// Empty, or what went wrong: "deadlock", or the first wrong element.
std::string runSchedule(const Schedule& schedule, const RunOptions& options);

}  // namespace hpu::collectives::test
