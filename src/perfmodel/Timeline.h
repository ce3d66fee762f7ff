// SPDX-License-Identifier: Apache-2.0
// The device clock: a discrete-event simulation of command queues on engines that share HBM and SRAM
// bandwidth.
// The one thing to know: time is integer picoseconds and the result depends only on the input, so two
// runs give identical bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "perfmodel/EngineCost.h"
#include "recipe/Recipe.h"

namespace hpu::perfmodel {

struct TimedCommand {
  Cost cost;
  std::vector<recipe::Wait> waits;
  uint32_t signal = recipe::kNone;
};

/// One engine's in-order queue. `engine` names the physical resource: queues of the same engine, of one
/// or several launches, exclude each other command by command.
struct TimedQueue {
  Engine engine = Engine::kTpc;
  std::vector<TimedCommand> commands;
};

/// A launch of a program: its queues, its own signal counters, and when it may start.
struct TimedLaunch {
  const std::vector<TimedQueue>* queues = nullptr;
  uint32_t numSignals = 0;
  Picoseconds earliestStart = 0;
  int32_t priority = 0;
};

struct Interval {
  Picoseconds ready = 0;  ///< Predecessor in the queue done and engine free: waits counted from here are sync.
  Picoseconds start = 0, end = 0;
  std::array<Picoseconds, kNumTerms> terms{};  ///< Sum = end - ready.
};

struct TimelineResult {
  /// intervals[launch][queue][command].
  std::vector<std::vector<std::vector<Interval>>> intervals;
  std::vector<Picoseconds> launchStart, launchEnd;
  Picoseconds busy[kNumEngines] = {};
  Picoseconds end = 0;
};

/// Runs the launches together. Errors: kInternal when the queues deadlock (verified recipes cannot).
StatusOr<TimelineResult> simulate(const arch::TargetDesc&, const arch::ClockProfile&,
                                  const std::vector<TimedLaunch>& launches);

/// The queues of a program with the cost of each command.
std::vector<TimedQueue> timedQueues(const recipe::Program& program, const arch::TargetDesc&,
                                    const arch::ClockProfile&);
/// The cost of one command, with its bytes split between HBM and SRAM by its operands' sections.
Cost commandCost(const recipe::Program& program, const recipe::Command& command, const arch::TargetDesc&,
                 const arch::ClockProfile&);

}  // namespace hpu::perfmodel
