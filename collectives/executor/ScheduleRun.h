// SPDX-License-Identifier: Apache-2.0
// ScheduleRun: one collective as its schedule says: the plan's steps as they become ready, over any
// transport.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/executor/CollectiveRun.h"
#include "collectives/executor/Lowering.h"

namespace hpu::collectives {

/// Messages of the collective lane so far, by peer: what the next operation's begin with.
struct LaneCounts {
  std::vector<uint64_t> sent, received;
};

class ScheduleRun final : public CollectiveRun {
 public:
  ScheduleRun(Peers& peers, LaneCounts& counts, CollectiveOperation& operation, std::shared_ptr<const RankPlan> plan);
  Status start() override;
  Status push(Pace& pace, bool& moved, bool& paused) override;
  bool done() const override {
    return stepsLeft_ == 0 && recordsLeft_ == 0 && peers_.transport().delivered(mine_.sequence);
  }
  void finish() override;
  ChangesNeeded changesNeeded() override;
  void abandon() override { operation_.keepAlive = {}; }

 private:
  struct PeerState {
    /// Positions in the plan's lists of sends and receives.
    size_t offered = 0, unreleased = 0, expected = 0, arrived = 0, releasing = 0;
  };
  Status pushPeer(int peer, bool& moved);
  Status offerSends(int peer, bool& moved);
  void expectReceives(int peer);
  Status takeArrived(int peer, bool& moved);
  bool runCompute(int32_t index, Pace& pace);
  bool runReduce(const PlanStep& step, Pace& pace);
  bool scalesKnown(const PlanStep& step) const;
  void stepDone(int32_t index);
  void makeReady(int32_t index);
  void readDone(const Operand& source);
  void messageDone(int32_t receive);
  const std::byte* sourceData(const Operand& source) const;
  std::byte* dstData(const Operand& dst) const;
  bool waitsFor(int peer) const override;
  std::string waitText(int peer) const override;

  LaneCounts& counts_;
  const std::shared_ptr<const RankPlan> plan_;
  bool published_ = false, stream_ = false;
  std::byte* buffers_[4] = {};
  size_t stepsLeft_ = 0;
  std::vector<PeerState> peerStates_;
  // By step of the plan.
  struct StepState {
    int32_t waits = 0;
    int32_t readers = 0;                 ///< Of an alias: not done yet.
    bool ready = false;                  ///< Of sends and receives: nothing but their turn is missing.
    bool finished = false;               ///< Of receives: the message is not needed any more.
    bool copied = false;                 ///< Of sends.
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
