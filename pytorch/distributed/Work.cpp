// SPDX-License-Identifier: Apache-2.0
#include "pytorch/distributed/Work.h"

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>

#include "pytorch/distributed/Errors.h"
#include "pytorch/record/Capture.h"
#include "pytorch/record/Flush.h"

namespace hpu_torch {

WorkHCCL::WorkHCCL(int rank, c10d::OpType type, std::shared_ptr<Channel> channel, std::shared_ptr<Operation> operation)
    : c10d::Work(rank, type), channel_(std::move(channel)), operation_(std::move(operation)) {}

void WorkHCCL::throwIfFailed() const {
  hpu::StatusOr<bool> done = operation_->isDone();
  if (!done.ok()) channel_->raiseFailure(*operation_, done.status());
}

bool WorkHCCL::isCompleted() {
  hpu::StatusOr<bool> done = operation_->isDone();
  return !done.ok() || *done;
}

bool WorkHCCL::isSuccess() const {
  hpu::StatusOr<bool> done = operation_->isDone();
  return done.ok() && *done;
}

std::exception_ptr WorkHCCL::exception() const {
  try {
    throwIfFailed();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

int WorkHCCL::sourceRank() const {
  TORCH_CHECK(source >= 0, "only a receive has a source");
  return source;
}

void WorkHCCL::synchronize() {
  if (replayed) {
    const c10::DeviceIndex device = channel_->device().index;
    TORCH_CHECK(!holdsThread, "a barrier cannot be captured");
    // After the capture there is nothing to wait for: replays have waited.
    captureWork(device, {}, [channel = channel_, operation = replayed] {
      check(currentStream(channel->device()).wait((*operation)->end), "waiting for a collective");
    });
    return;
  }
  const hpu::Status launched = operation_->waitLaunched();
  if (!launched.ok()) channel_->raiseFailure(*operation_, launched);
  throwIfFailed();
  // What was recorded since the call need not wait for the collective: it is launched before.
  flush(channel_->device().index, "collective");
  check(currentStream(channel_->device()).wait(operation_->end), "waiting for a collective");
  copyToHost();
  if (holdsThread && !operation_->isCaptured()) {
    const hpu::Status status = operation_->end.synchronize(-1);
    if (!status.ok()) channel_->raiseFailure(*operation_, status);
  }
}

void WorkHCCL::copyToHost() {
  if (toHost.empty()) return;
  at::NoGradGuard noGrad;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  std::swap(pairs, toHost);
  for (auto& [host, device] : pairs) host.copy_(device);
}

bool WorkHCCL::wait(std::chrono::milliseconds timeout) {
  synchronize();
  if (timeout == kNoTimeout || replayed || operation_->isCaptured()) return true;
  const hpu::Status status = operation_->end.synchronize(timeout.count());
  if (!status.ok()) channel_->raiseFailure(*operation_, status);
  return true;
}

void WorkHCCL::abort() {
  TORCH_CHECK(false, "one collective cannot be aborted: destroy its process group");
}

c10::intrusive_ptr<c10::ivalue::Future> WorkHCCL::getFuture() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (future_) return future_;
  const c10::Device device(kHpu, channel_->device().index);
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         std::vector<c10::Device>{device});
  try {
    if (replayed) {
      synchronize();
    } else if (toHost.empty()) {
      const hpu::Status launched = operation_->waitLaunched();
      if (!launched.ok()) channel_->raiseFailure(*operation_, launched);
    } else {
      synchronize();
    }
    c10::StreamGuard guard(c10::Stream(c10::Stream::UNSAFE, device, channel_->stream()));
    future->markCompleted(c10::IValue(outputs));
  } catch (...) {
    future->setErrorIfNeeded(std::current_exception());
  }
  return future_ = future;
}

}  // namespace hpu_torch
