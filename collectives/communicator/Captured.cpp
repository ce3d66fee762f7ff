// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Captured.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/capture.h"
#include "hpu/external_work.h"

namespace hpu::collectives {
namespace {

WorkMemory memoryOf(uint64_t address, const Access& access) {
  return {address, static_cast<int64_t>(access.end - access.begin)};
}

/// A collective, or the transfers of one communicator and stream.
class CapturedCall final : public RepeatableWork {
 public:
  explicit CapturedCall(const PlacedCall& placed)
      : state_(placed.call.state),
        name_(nameOf(placed.call)),
        beside_(placed.beside),
        isTransfer_(placed.call.isTransfer),
        problem_(placed.call.problem),
        arguments_(placed.call.arguments),
        transfers_(placed.call.transfers) {
    if (!isTransfer_)
      memory_ = {memoryOf(arguments_.input, placed.call.operandAccesses[0]),
                 memoryOf(arguments_.output, placed.call.operandAccesses[1])};
    for (const Transfer& transfer : transfers_)
      memory_.push_back({transfer.address, transfer.count * elementSize(transfer.type)});
  }

  std::string name() const override { return name_; }
  std::vector<WorkMemory> memory() const override { return memory_; }

  Status prepare(const Stream&) override {
    HPU_RETURN_IF_ERROR(state_->usable());
    if (isTransfer_) return okStatus();
    std::lock_guard lock(state_->enqueueMutex);
    return state_->choose(problem_).status();
  }

  Status enqueue(const Stream& stream, const std::vector<WorkMemory>& memory) override {
    StatusOr<Call> call = again(stream, memory);
    Status status = call.ok() ? enqueuePlaced({std::move(*call), beside_}) : call.status();
    // The others wait for this rank's part, which will not come.
    if (!status.ok() && state_->usable().ok())
      state_->fail(status.withContext("a replay of a captured graph could not enqueue it"));
    return status;
  }

 private:
  StatusOr<Call> again(const Stream& stream, const std::vector<WorkMemory>& memory) const {
    auto place = [&](uint64_t& address, size_t i) {
      if (memory[i].bytes > 0) address = memory[i].address;
    };
    if (!isTransfer_) {
      CollectiveArguments arguments = arguments_;
      place(arguments.input, 0);
      place(arguments.output, 1);
      return makeCollective(state_, arguments, stream);
    }
    std::vector<Transfer> transfers = transfers_;
    for (size_t i = 0; i < transfers.size(); ++i) place(transfers[i].address, i);
    return makeTransfers(state_, name_, std::move(transfers), stream);
  }

  const std::shared_ptr<CommunicatorState> state_;
  const std::string name_;
  const bool beside_, isTransfer_;
  const Problem problem_;
  const CollectiveArguments arguments_;
  const std::vector<Transfer> transfers_;
  std::vector<WorkMemory> memory_;  // As the constructor leaves it.
};

/// What fails the capture that it would be in.
class WrongCall final : public RepeatableWork {
 public:
  explicit WrongCall(Status why) : why_(std::move(why)) {}
  std::string name() const override { return "wrong call"; }
  Status prepare(const Stream&) override { return why_; }
  Status enqueue(const Stream&, const std::vector<WorkMemory>&) override { return why_; }

 private:
  const Status why_;
};

}  // namespace

void failCapture(const Stream& stream, const Status& why) {
  if (CaptureSession::of(stream) == 0) return;
  Stream captured = stream;
  captured.enqueueRepeatable(std::make_shared<WrongCall>(why)).ignore();
}

Status checkCaptures(const std::vector<Call>& calls) {
  std::map<const CommunicatorState*, uint64_t> captures;
  for (const Call& call : calls) {
    const uint64_t capture = CaptureSession::of(call.stream);
    if (captures.emplace(call.state.get(), capture).first->second == capture) continue;
    return inCall("a group", *call.state,
                  failedPrecondition("some of its calls are on streams of a capture, and others are not, or are in "
                                     "another one; make groups of their own of them"));
  }
  return okStatus();
}

Status captureCalls(std::vector<Call> calls) {
  std::vector<Stream> streams;
  for (const Call& call : calls) streams.push_back(call.stream);
  for (PlacedCall& placed : merged(std::move(calls))) {
    Status status = placed.call.stream.enqueueRepeatable(std::make_shared<CapturedCall>(placed));
    if (status.ok()) continue;
    status = inCall(nameOf(placed.call), *placed.call.state, status);
    for (const Stream& stream : streams) failCapture(stream, status);
    return status;
  }
  return okStatus();
}

}  // namespace hpu::collectives
