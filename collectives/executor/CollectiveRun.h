// SPDX-License-Identifier: Apache-2.0
// CollectiveRun: one collective in progress on this rank: publishes the call, compares the others',
// runs the plan's steps as they become ready.
// The one thing to know: it never waits; `push` does what can be done now. Used by one thread at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/executor/Executor.h"
#include "collectives/executor/Lowering.h"
#include "collectives/executor/Peers.h"

namespace hpu::collectives {

/// Messages of the collective lane so far, by peer: what the next operation's begin with.
struct LaneCounts {
  std::vector<uint64_t> sent, received;
};

/// Changes of peers that must come before anything can go on, and those that had better come
/// together when there are more ranks than cores.
struct ChangesNeeded {
  uint32_t least = 1, together = 1;
};
inline constexpr uint32_t kMostChanges = 1000;

class CollectiveRun {
 public:
  CollectiveRun(Peers& peers, LaneCounts& counts, CollectiveOperation operation,
                std::shared_ptr<const Plan> plan);
  /// Checks the operands, and that the call makes sense. Errors: kInvalidArgument.
  Status start();
  /// Does what can be done. Sets `moved` when anything was done, `paused` when `pace` said so and
  /// there is more to do at once. Errors: the operation's failure.
  Status push(Pace& pace, bool& moved, bool& paused);
  bool done() const { return stepsLeft_ == 0 && recordsLeft_ == 0; }
  /// Once, when done: counts the messages and retires the record.
  void finish();
  /// After a push that moved nothing: whether an awaited peer is gone or stands still for too long.
  /// `gone`: some is gone, and a push after this one must not find anything more. Errors:
  /// kUnavailable, kAborted, kDeadlineExceeded.
  Status checkPeers() const;

  /// After a push that moved nothing.
  ChangesNeeded changesNeeded();

  CollectiveOperation& operation() { return operation_; }
  const CallRecord& call() const { return mine_; }
  std::vector<int64_t> takeArrivals() { return std::move(arrivals_); }

 private:
  struct PeerState {
    bool known = false;
    double scale = 1;
    /// Positions in the plan's lists of sends and receives.
    size_t offered = 0, unreleased = 0, arrived = 0, releasing = 0;
  };
  Status readRecords(bool& moved);
  Status pushPeer(int peer, bool& moved);
  Status offerSends(int peer, bool& moved);
  Status takeArrived(int peer, bool& moved);
  bool runCompute(int32_t index, Pace& pace);
  bool runReduce(const PlanStep& step, Pace& pace);
  bool scalesKnown(const PlanStep& step) const;
  void stepDone(int32_t index);
  void makeReady(int32_t index);
  void readDone(const Operand& source);
  void messageDone(int32_t receive);
  int64_t elementBytes(BufferKind buffer) const;
  const std::byte* sourceData(const Operand& source) const;
  std::byte* dstData(const Operand& dst) const;
  bool waitsFor(int peer) const;
  std::string waitText(int peer) const;

  Peers& peers_;
  LaneCounts& counts_;
  CollectiveOperation operation_;
  const std::shared_ptr<const Plan> plan_;
  const CallRecord mine_;
  const Clock::time_point begun_;
  bool published_ = false, stream_ = false;
  std::byte* buffers_[4] = {};
  int recordsLeft_ = 0;
  size_t stepsLeft_ = 0;
  std::vector<PeerState> peerStates_;
  std::vector<int64_t> arrivals_;
  // By step of the plan.
  struct StepState {
    int32_t waits = 0;
    int32_t readers = 0;    ///< Of an alias: not done yet.
    bool ready = false;     ///< Of sends and receives: nothing but their turn is missing.
    bool finished = false;  ///< Of receives: the message is not needed any more.
    bool copied = false;    ///< Of sends.
    const std::byte* message = nullptr;  ///< Of receives that have arrived.
  };
  std::vector<StepState> states_;
  std::vector<int32_t> compute_;  ///< Copies, reductions and arrived receives, ready.
  size_t computeHead_ = 0;
  int64_t computeAt_ = 0;          ///< Bytes or elements of the head that are done.
  std::vector<int32_t> unscaled_;  ///< Reductions that wait for a contributor's record.
  std::vector<Source> reduceSources_;
  std::vector<uint32_t> needs_;  ///< By step: changes that it needs; 0 between uses.
};

}  // namespace hpu::collectives
