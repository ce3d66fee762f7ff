// SPDX-License-Identifier: Apache-2.0
// Where the device time of a simulated program goes: by engine, along the critical path, and by op.
// The one thing to know: everything adds up exactly: an engine's terms and idle time, and likewise the critical
// path's, are the device time in picoseconds.
#pragma once

#include <array>
#include <vector>

#include "perfmodel/Timeline.h"

namespace hpu::perfmodel {

using Terms = std::array<Picoseconds, kNumTerms>;

struct EngineBreakdown {
  int64_t commands = 0;
  Picoseconds busy = 0;  ///< Sum of end - start.
  Terms terms{};         ///< kSync: waiting with work in the queue.
  Picoseconds idle = 0;  ///< No work left in (or yet come to) the queues: device time less all terms.
  Bytes bytes;
};
struct OpBreakdown {
  uint32_t op = 0;  ///< Index into Program::ops.
  int64_t commands = 0;
  Picoseconds busy = 0;
  Terms terms{};
  Bytes bytes;
  Picoseconds critical = 0;  ///< Of it on the critical path.
};
struct Breakdown {
  Picoseconds deviceTime = 0;
  std::array<EngineBreakdown, kNumEngines> engines;
  /// The critical path's terms by engine; kSync is 0 everywhere.
  std::array<Terms, kNumEngines> critical{};
  Picoseconds criticalGaps = 0;
  std::vector<OpBreakdown> ops;  ///< Most time on the critical path first, then most busy time.
};

/// `timeline` is of one launch of `queues`, which are `program`'s (timedQueues).
Breakdown breakDown(const recipe::Program& program, const std::vector<TimedQueue>& queues,
                    const TimelineResult& timeline);

}  // namespace hpu::perfmodel
