// SPDX-License-Identifier: Apache-2.0
// Work: an operation of a communicator as work of a stream.
// The one thing to know: its turn may come on any thread; it begins when all earlier operations of
// the communicator have begun, and is complete when the executor says so, with the device time
// that follows from when every rank arrived. A collective directly behind another one on its stream
// is handed to the executor ahead of its turn.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator/Call.h"
#include "collectives/communicator/CommunicatorState.h"
#include "collectives/executor/Executor.h"
#include "collectives/tuner/Tuner.h"
#include "hpu/external_work.h"

namespace hpu::collectives {

class OperationWork : public ExternalWork, public std::enable_shared_from_this<OperationWork> {
 public:
  /// What the call keeps and accesses is moved.
  OperationWork(Call& call, std::string name);
  /// When it is enqueued: its place among the communicator's operations.
  void setOrder(uint64_t order) {
    order_ = order;
    place_.push_back({order, [this] { beginInOrder(); }, nullptr});
  }

  /// After it was enqueued, without locks: goes to the gate when it has its turn already, or may
  /// begin ahead of it.
  void enqueued() noexcept {
    enqueued_ = true;
    if (follows_ || started_) arriveAtGate();
  }

  std::string name() const override { return name_; }
  void start(std::shared_ptr<ExternalTurn> turn) override;
  bool startsInEnqueue() const override { return true; }
  void skipped(const Status& why) override;
  void cancel(const Status& why) override;
  void help(std::chrono::steady_clock::time_point until) override;
  uint64_t progress() const override;
  void portsReserved(std::vector<int64_t> readyPs) override { portsReadyPs_ = std::move(readyPs); }

 protected:
  /// By ExternalPorts::uses; empty when it uses none.
  const std::vector<int64_t>& portsReadyPs() const { return portsReadyPs_; }
  /// Hands the operation over to the executor, with `arrivalPs` as this rank's arrival; or, when it
  /// follows another one, as the earliest that it may be.
  virtual void begin(OperationCommon common, bool follows) = 0;
  /// From now on: its arrival is the end of `before`, but not before `earliestPs`.
  void follow(int64_t earliestPs) {
    follows_ = true;
    arrivalPs_.store(earliestPs, std::memory_order_relaxed);
  }
  bool directlyBehind(const OperationWork& before) const {
    return state_ == before.state_ && order_ == before.order_ + 1;
  }
  /// What the executor says at the end.
  void done(OperationResult result);
  /// When this rank is done, by the arrivals of all; and what to show in traces.
  virtual int64_t endPs(const OperationResult& result, std::vector<ExternalSpan>* spans) const = 0;
  int64_t arrivalPs() const { return arrivalPs_.load(std::memory_order_relaxed); }
  CommunicatorState& state() const { return *state_; }

 private:
  void arriveAtGate() noexcept;
  void beginInOrder() noexcept;
  void meet();
  void complete();
  Status checkWrites() const;

  const std::shared_ptr<CommunicatorState> state_;
  const std::string name_;
  uint64_t order_ = 0;
  std::shared_ptr<std::vector<Buffer>> buffers_;
  const std::vector<Access> accesses_;
  bool follows_ = false;                // From when it is enqueued.
  std::atomic<int64_t> arrivalPs_ = 0;  // See begin().
  Gate::Place place_;                   // Until it arrives there.
  // Of start() and enqueued() the later one goes to the gate.
  std::atomic<bool> started_{false}, enqueued_{false};
  std::atomic<bool> atGate_{false}, begun_{false}, finished_{false};
  // Its turn and its result come in any order; with the second it is complete.
  std::shared_ptr<ExternalTurn> turn_;
  // The same, for who goes to the gate and asks for the arrival; not of one that follows.
  std::shared_ptr<ExternalTurn> arriving_;
  OperationResult result_;
  std::vector<int64_t> portsReadyPs_;  // From when it is enqueued.
  std::atomic<int> met_{0};
};

class CollectiveWork final : public OperationWork {
 public:
  CollectiveWork(Call call, std::shared_ptr<const Choice> choice, const Scratch& scratch);
  void setSequence(uint64_t sequence) { operation_.sequence = sequence; }
  void behind(const ExternalWork& before, int64_t earliestPs) override;
  ExternalPorts ports() const override { return ports_; }

 protected:
  void begin(OperationCommon common, bool follows) override;
  int64_t endPs(const OperationResult& result, std::vector<ExternalSpan>* spans) const override;

 private:
  const std::shared_ptr<const Choice> choice_;
  CollectiveOperation operation_;
  ExternalPorts ports_;
};

class TransferWork final : public OperationWork {
 public:
  explicit TransferWork(Call call);
  ExternalPorts ports() const override { return ports_; }

 protected:
  void begin(OperationCommon common, bool follows) override;
  int64_t endPs(const OperationResult& result, std::vector<ExternalSpan>* spans) const override;

 private:
  std::vector<Transfer> transfers_;
  ExternalPorts ports_;
};

}  // namespace hpu::collectives
