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
struct LaunchTimeline;

/// A part of a program: what one iteration takes, and how many there are.
struct PartTimeline {
  std::shared_ptr<const recipe::Program> program;
  std::shared_ptr<const LaunchTimeline> timeline;
  uint64_t trips = 1;
  bool hasCount = false, hasCondition = false;
  bool isAwaited = false;  ///< Data decides how many iterations run, and the device says so when they have.

  /// What decides takes, of `iterations` (perfmodel::kPartDecision).
  Picoseconds decisions(uint64_t iterations) const;
};

/// Of a program with parts there are no queues and intervals of its own; start, end and the sums are those of the
/// iterations that it has in any case: of awaited parts none, of others as many as there can be.
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

  std::vector<PartTimeline> parts;
  bool isAwaited = false;              ///< Some part is, or one of its parts.
  std::vector<uint32_t> writingParts;  ///< By output: the last part that writes it (recipe::lastWritingParts).
  std::vector<Picoseconds> partEnds;   ///< By part, as `end`.

  /// When an output is written, absolute; a launch's start for one that nothing writes.
  Picoseconds outputEnd(size_t output, const LaunchPlacement& placement) const;

  /// Errors: as perfmodel::simulate. `costs`: null, or what perfmodel::timedQueues takes. `saysIterations`: the device
  /// says how often parts have run (LaunchOutcome); else they are taken to run as often as they can.
  static StatusOr<std::shared_ptr<const LaunchTimeline>> create(const recipe::Program& program,
                                                                const arch::TargetDesc& target,
                                                                const arch::ClockProfile& clock,
                                                                perfmodel::CostMemo* costs = nullptr,
                                                                bool saysIterations = false);
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
  std::vector<Picoseconds> partEnds;  ///< Of a program with parts: when each is over; absolute.
  const QueueIntervals& intervals(const LaunchTimeline& timeline) const { return moved ? *moved : timeline.intervals; }
};

/// Places a launch that may start at `ready` on `engines` (kNumEngines of them) and reserves its
/// times.
LaunchPlacement placeLaunch(const LaunchTimeline& timeline, Picoseconds ready, EngineTimeline* engines);

}  // namespace hpu::driver
