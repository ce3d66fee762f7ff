// SPDX-License-Identifier: Apache-2.0
// Work: an operation of a communicator as work of a stream.
// The one thing to know: its turn may come on any thread; it begins when all earlier operations of
// the communicator have begun, and is complete when the executor says so, with the device time
// that follows from when every rank arrived.
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
  OperationWork(const Call& call, std::string name, std::vector<Buffer> buffers);
  /// When it is enqueued: its place among the communicator's operations.
  void setOrder(uint64_t order) { order_ = order; }

  std::string name() const override { return name_; }
  void start(std::shared_ptr<ExternalTurn> turn) override;
  void skipped(const Status& why) override;
  void cancel(const Status& why) override;
  void help(std::chrono::steady_clock::time_point until) override;
  uint64_t progress() const override;

 protected:
  /// Hands the operation over to the executor.
  virtual void begin(OperationCommon common) = 0;
  /// What the executor says at the end.
  void done(OperationResult result);
  /// When this rank is done, by the arrivals of all; and what to show in traces.
  virtual int64_t endPs(const OperationResult& result, std::vector<ExternalSpan>* spans) const = 0;
  int64_t arrivalPs() const { return arrivalPs_; }
  CommunicatorState& state() const { return *state_; }

 private:
  void complete(const Status& status, int64_t endPs, std::vector<ExternalSpan> spans);
  Status checkWrites() const;

  const std::shared_ptr<CommunicatorState> state_;
  const std::string name_;
  uint64_t order_ = 0;
  std::shared_ptr<std::vector<Buffer>> buffers_;
  const std::vector<Access> accesses_;
  std::shared_ptr<ExternalTurn> turn_;
  int64_t arrivalPs_ = 0;
  std::atomic<bool> begun_{false}, finished_{false};
};

class CollectiveWork final : public OperationWork {
 public:
  CollectiveWork(const Call& call, std::shared_ptr<const Choice> choice, const Scratch& scratch);
  void setSequence(uint64_t sequence) { operation_.sequence = sequence; }

 protected:
  void begin(OperationCommon common) override;
  int64_t endPs(const OperationResult& result, std::vector<ExternalSpan>* spans) const override;

 private:
  const std::shared_ptr<const Choice> choice_;
  CollectiveOperation operation_;
};

class TransferWork final : public OperationWork {
 public:
  explicit TransferWork(const Call& call);

 protected:
  void begin(OperationCommon common) override;
  int64_t endPs(const OperationResult& result, std::vector<ExternalSpan>* spans) const override;

 private:
  std::vector<Transfer> transfers_;
};

}  // namespace hpu::collectives
