// SPDX-License-Identifier: Apache-2.0
// Work: operations of a communicator as work of a stream: transfers that go on together, or collectives
// that were enqueued directly behind each other.
// The one thing to know: its turn may come on any thread; it begins when all earlier operations of
// the communicator have begun, and is complete when the executor has said so of each of its operations
// and nothing can be added any more, with the device time that follows from when every rank arrived.
// Collectives directly behind others on their stream are handed to the executor ahead of their turn.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
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

 protected:
  /// Has one operation. One that may grow is complete only after seal().
  OperationWork(std::shared_ptr<CommunicatorState> state, std::string name, bool mayGrow);

  /// Hands over to the executor what there is, with `arrivalPs` as this rank's arrival; or, when it
  /// follows another one, as the earliest that it may be. Throws std::bad_alloc: nothing was handed over.
  virtual void begin(CommunicatorState& state, int64_t arrivalPs, bool follows) = 0;
  /// Instead of begin(): lets go of the operations, and says how many they were.
  virtual int64_t drop() = 0;

  /// From now on: its arrival is the end of `before`, but not before `earliestPs`.
  void follow(int64_t earliestPs) {
    follows_ = true;
    arrivalPs_.store(earliestPs, std::memory_order_relaxed);
  }
  bool directlyBehind(const OperationWork& before) const {
    return !of_.owner_before(before.of_) && !before.of_.owner_before(of_) && order_ == before.order_ + 1;
  }
  /// One more operation of it carries that: counted when all of them have ended well. Under mutex_.
  void carries(const std::shared_ptr<const OperationPorts>& ports);
  /// One more operation of it is in progress. Under mutex_.
  void oneMore(const std::shared_ptr<CommunicatorState>& state);
  /// One more operation will be; false: it takes on none.
  bool countOneMore();
  /// So many of its operations are over, at `endPs`.
  void ended(int64_t operations, const Status& status, int64_t endPs, std::vector<ExternalSpan> spans = {});
  /// No operation will be added.
  void seal();
  int64_t arrivalPs() const { return arrivalPs_.load(std::memory_order_relaxed); }
  /// Null while none of its operations is in progress.
  std::shared_ptr<CommunicatorState> state() const;
  /// Peers write here too: it is this rank that knows what its host has.
  Status checkWrite(const CommunicatorState& state, uint64_t address, int64_t bytes) const;
  /// "all-reduce of the communicator 'comm 1' (rank 0 of 2)" before a failure.
  Status inContext(const CommunicatorState& state, const Status& status, const char* what = "") const;

  mutable std::mutex mutex_;  // Guards what a derived class says, and what is said below.
  /// With self_: as long as operations are in progress. Guarded by mutex_.
  std::shared_ptr<CommunicatorState> state_;

 private:
  void arriveAtGate() noexcept;
  void beginInOrder() noexcept;
  void dropRest(CommunicatorState& state, const Status& why);
  void leave(int64_t reasons);
  void complete();
  void addCarried();

  const int countingDevice_;
  const std::weak_ptr<CommunicatorState> of_;
  const std::string name_;
  uint64_t order_ = 0;
  bool follows_ = false;                // From when it is enqueued.
  std::atomic<int64_t> arrivalPs_ = 0;  // See begin().
  Gate::Place place_;                   // Until it arrives there.
  // Of start() and enqueued() the later one goes to the gate.
  std::atomic<bool> started_{false}, enqueued_{false};
  std::atomic<bool> atGate_{false}, begun_{false}, finished_{false}, failed_{false}, sealed_{false};
  // Its turn, its operations, and that more may come: with the last of them gone it is complete.
  std::atomic<int64_t> reasons_;
  std::shared_ptr<ExternalTurn> turn_;
  // The same, for who goes to the gate and asks for the arrival; not of one that follows.
  std::shared_ptr<ExternalTurn> arriving_;

  // Guarded by mutex_.
  std::shared_ptr<OperationWork> self_;
  int64_t inProgress_ = 0;
  Status failure_;  // The first one.
  // Mostly operations are alike: so many carry what `same_` says, those before them `carried_`.
  std::shared_ptr<const OperationPorts> same_;
  int64_t numSame_ = 0;
  node::LinkTraffic carried_[node::kLinks];
  int64_t endPs_ = 0;
  std::vector<ExternalSpan> spans_;
};

class CollectiveWork final : public OperationWork {
 public:
  /// What Stream::extend may add to, when the collective is run by SharedWork.
  CollectiveWork(const std::shared_ptr<CommunicatorState>& state, const CommunicatorState::Chosen& chosen,
                 CollectiveOperation operation);
  /// After Stream::extend: this is the one that was added, what was chosen for it and its output. added() follows,
  /// without the locks.
  void add(const std::shared_ptr<CommunicatorState>& state, const CommunicatorState::Chosen& chosen, uint64_t output,
           DescribeOperation describe) noexcept;
  void added(CommunicatorState& state);

  void behind(const ExternalWork& before, int64_t earliestPs) override;
  ExternalPorts ports() const override { return *ports_; }
  void portsReserved(std::vector<int64_t> readyPs) override;
  bool extendable() const override { return direct_; }
  bool extended() override { return countOneMore(); }
  void sealed() override { seal(); }

 protected:
  void begin(CommunicatorState& state, int64_t arrivalPs, bool follows) override;
  int64_t drop() override;

 private:
  void give(CommunicatorState& state, const Problem& problem, uint64_t output, DescribeOperation describe);
  void done(OperationResult& result);

  const size_t rank_;
  const bool direct_;
  // Of the first one.
  const std::shared_ptr<const Choice> choice_;
  const std::shared_ptr<const OperationPorts> ports_;
  enum class Stage : uint8_t { kKept, kGiven, kDropped };
  // Guarded by mutex_.
  Stage stage_ = Stage::kKept;
  std::vector<CollectiveOperation> kept_;
  std::atomic<int64_t> refused_ = 0;  // Of those that were added, too late or without memory; read without it, too.
  Status refusal_;
  bool grown_ = false;
  uint64_t lastOutput_ = 0;  // Of the operation that was given last.
  int64_t lastOutputBytes_ = 0;
};

class TransferWork final : public OperationWork {
 public:
  explicit TransferWork(const Call& call);
  /// "send to 3", "4 sends and receives".
  static std::string nameOf(const Call& call);
  ExternalPorts ports() const override { return *ports_; }
  void portsReserved(std::vector<int64_t> readyPs) override { portsReadyPs_ = std::move(readyPs); }

 protected:
  void begin(CommunicatorState& state, int64_t arrivalPs, bool follows) override;
  int64_t drop() override;

 private:
  void done(OperationResult& result);

  std::vector<Transfer> transfers_;
  std::vector<Access> accesses_;
  std::shared_ptr<std::vector<std::shared_ptr<const void>>> memory_;
  const std::shared_ptr<const OperationPorts> ports_;
  std::vector<int64_t> portsReadyPs_;  // From when it is enqueued.
};

}  // namespace hpu::collectives
