// SPDX-License-Identifier: Apache-2.0
// Timing: what a schedule costs on the links and engines of a node, from when each rank arrives to
// when it is done. The one thing to know: one function serves the tuner, the prediction and the
// device clock; it is integer picoseconds, and every rank that calls it with the same arrivals gets
// the same answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/schedule/Schedule.h"
#include "collectives/topology/LinkModel.h"

namespace hpu::collectives {

struct StepTime {
  int64_t startPs = 0, endPs = 0;
};

struct ScheduleTiming {
  std::vector<int64_t> endPs;      ///< By rank.
  std::vector<StepTime> steps;     ///< By step, when asked for.
  std::vector<int64_t> linkBytes;  ///< Sent, by rank.
};

/// `arrivalPs` has one entry a rank. Cost: n log n in steps; results for equal arrivals are worth
/// caching.
ScheduleTiming timeSchedule(const Schedule& schedule, const LinkModel& links,
                            std::span<const int64_t> arrivalPs, bool wantSteps = false);
/// Of the whole operation when all arrive at once: the prediction.
int64_t predictPs(const Schedule& schedule, const LinkModel& links);
/// The least time that the links allow, whatever the algorithm: bytes that must cross the busiest
/// rank's links over their rate.
int64_t lowerBoundPs(const Problem& problem, const LinkModel& links);

}  // namespace hpu::collectives
