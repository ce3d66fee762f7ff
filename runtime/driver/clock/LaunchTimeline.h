// SPDX-License-Identifier: Apache-2.0
// LaunchTimeline: the intervals of one program's commands on idle engines, computed once a program.
// The one thing to know: a launch that finds its engines idle has exactly these intervals, shifted;
// one that does not is placed command by command into what the engines have free.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "perfmodel/Timeline.h"
#include "recipe/OutputWriters.h"
#include "recipe/Recipe.h"
#include "runtime/driver/clock/EngineTimeline.h"

namespace hpu::driver {

/// intervals[queue][command].
using QueueIntervals = std::vector<std::vector<perfmodel::Interval>>;

struct LaunchPlacement;

struct LaunchTimeline {
  std::vector<perfmodel::TimedQueue> queues;
  uint32_t numSignals = 0;
  QueueIntervals intervals;  ///< Of a launch at time 0 with the device to itself.
  Picoseconds start = 0, end = 0;
  std::vector<TimeSpan> taken[kNumEngines];  ///< Merged [start, end) of each engine's commands.
  Picoseconds busy[kNumEngines] = {};        ///< Sum of end - start of its commands.
  Picoseconds work = 0;                      ///< Of all commands, without what their start and waiting takes.
  int64_t commands = 0;
  /// By output of the program: the commands that write it last.
  std::vector<std::vector<recipe::CommandRef>> lastWriters;

  /// When an output is written, absolute; a launch's start for one that nothing writes.
  Picoseconds outputEnd(size_t output, const LaunchPlacement& placement) const;

  /// Errors: as perfmodel::simulate. `costs`: null, or what perfmodel::timedQueues takes.
  static StatusOr<std::shared_ptr<const LaunchTimeline>> create(const recipe::Program& program,
                                                                const arch::TargetDesc& target,
                                                                const arch::ClockProfile& clock,
                                                                perfmodel::CostMemo* costs = nullptr);
  /// From queues made by hand (tests).
  static StatusOr<std::shared_ptr<const LaunchTimeline>> create(std::vector<perfmodel::TimedQueue> queues,
                                                                uint32_t numSignals, const arch::TargetDesc& target,
                                                                const arch::ClockProfile& clock);
};

/// Where one launch went. `intervals` are relative to `offset`: the timeline's own when the engines
/// were idle, else `moved`.
struct LaunchPlacement {
  Picoseconds offset = 0;
  Picoseconds start = 0, end = 0;  ///< First command's start, last one's end; absolute.
  std::shared_ptr<const QueueIntervals> moved;
  const QueueIntervals& intervals(const LaunchTimeline& timeline) const { return moved ? *moved : timeline.intervals; }
};

/// Places a launch that may start at `ready` on `engines` (kNumEngines of them) and reserves its
/// times.
LaunchPlacement placeLaunch(const LaunchTimeline& timeline, Picoseconds ready, EngineTimeline* engines);

}  // namespace hpu::driver
