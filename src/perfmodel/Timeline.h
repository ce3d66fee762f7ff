// SPDX-License-Identifier: Apache-2.0
// The device clock: a discrete-event simulation of command queues on engines that share HBM and
// SRAM bandwidth. The one thing to know: time is integer picoseconds and the result depends only on
// the input, so two runs give identical bytes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "perfmodel/EngineCost.h"
#include "perfmodel/SramUse.h"
#include "recipe/Recipe.h"

namespace hpu::perfmodel {

struct TimedCommand {
  Cost cost;
  std::vector<recipe::Wait> waits;
  uint32_t signal = recipe::kNone;
};

/// The costs of commands of ops that have a number for what they are (recipe::Op::content), for one target and clock:
/// most ops of an instance of a recipe are those of others. Any thread may call.
class CostMemo {
 public:
  /// Calls compute(), with the lock held, for what is not known. `tileBytes`: what SramUse says of the op. `command`:
  /// of the op's, in order.
  template <typename Compute>
  Cost get(uint64_t content, int64_t tileBytes, uint32_t command, Compute&& compute) {
    std::lock_guard lock(mutex_);
    if (known_.size() > kMost) known_.clear();
    std::vector<Cost>& costs = known_[{content, tileBytes}];
    if (command < costs.size()) return costs[command];
    const Cost cost = compute();
    if (command == costs.size()) costs.push_back(cost);
    return cost;
  }

 private:
  static constexpr size_t kMost = 4096;
  std::mutex mutex_;
  std::map<std::pair<uint64_t, int64_t>, std::vector<Cost>> known_;  // Guarded by mutex_.
};

/// One engine's in-order queue. `engine` names the physical resource: queues of the same engine, of
/// one or several launches, exclude each other command by command. Among the queues whose next
/// command may run, an engine takes the one that could first, then the higher priority, the lower
/// launch and queue index.
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
  /// Predecessor in the queue done and engine free: waits counted from here are sync. So the spans
  /// [ready, end] of an engine do not overlap, and what lies between them is an engine without
  /// work.
  Picoseconds ready = 0;
  Picoseconds start = 0, end = 0;
  std::array<Picoseconds, kNumTerms> terms{};  ///< Sum = end - ready.
};

struct TimelineResult {
  /// intervals[launch][queue][command].
  std::vector<std::vector<std::vector<Interval>>> intervals;
  /// First command's start and last command's end; earliestStart for a launch without commands.
  std::vector<Picoseconds> launchStart, launchEnd;
  Picoseconds busy[kNumEngines] = {};        ///< Sum of end - start.
  Picoseconds engineFree[kNumEngines] = {};  ///< End of the engine's last command.
  Picoseconds end = 0;
};

/// Runs the launches together. `engineFree`, when given, is an array of kNumEngines times before
/// which the engines are taken (by work simulated earlier). Costs O(commands). Errors: kInternal, naming launch, queue,
/// command and signal, when the queues deadlock (verified recipes cannot) or a wait names a signal that the launch does
/// not have; kOutOfRange when time overflows.
StatusOr<TimelineResult> simulate(const arch::TargetDesc&, const arch::ClockProfile&,
                                  const std::vector<TimedLaunch>& launches, const Picoseconds* engineFree = nullptr);

/// No schedule of these queues can be shorter: the busiest engine's compute time, or all HBM or
/// SRAM traffic at full bandwidth, whichever is most.
Picoseconds lowerBound(const arch::TargetDesc&, const std::vector<TimedQueue>& queues);

/// The queues of a program with the cost of each command.
std::vector<TimedQueue> timedQueues(const recipe::Program& program, const arch::TargetDesc&, const arch::ClockProfile&,
                                    CostMemo* memo = nullptr);
/// The cost of one command, with its bytes split between HBM and SRAM by its operands' sections.
/// Counted are the unique bytes of the slice's box of each operand, in whole cache lines (256-byte
/// accesses on the TPC); docs/performance-model.md has the rules for operands that are reused
/// within a command or across slices. The program must be verified. `use`: of the program; null: all SRAM sections are
/// in use all the time.
Cost commandCost(const recipe::Program& program, const recipe::Command& command, const arch::TargetDesc&,
                 const arch::ClockProfile&, const SramUse* use = nullptr);
/// The same with `op` in place of the command's op in the program: what would it cost if ...
Cost commandCost(const recipe::Program& program, const recipe::Op& op, const recipe::Command& command,
                 const arch::TargetDesc&, const arch::ClockProfile&, const SramUse* use = nullptr);
/// The GEMM that an MME command is priced as: that of the packed product where `op` is packed.
GemmShape mmeShape(const recipe::Op& op, const recipe::Command& command);

}  // namespace hpu::perfmodel
