// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Capture.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <utility>

#include "pytorch/device/CachingAllocator.h"
#include "pytorch/device/Memory.h"
#include "pytorch/device/Runtime.h"
#include "pytorch/device/Streams.h"
#include "pytorch/record/Flush.h"
#include "pytorch/record/Recorder.h"

namespace hpu_torch {

void CapturedGraph::begin() {
  const c10::DeviceIndex device = currentDevice();
  open(device);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(state_ == State::kEmpty, state_ == State::kReady
                                             ? "this graph has captured already; reset() it first, or make another one"
                                             : "this graph is capturing");
    device_ = device;
    stream_ = currentStreamId(device);
  }
  beginCapture(device, stream_, shared_from_this());
  std::lock_guard<std::mutex> lock(mutex_);
  state_ = State::kCapturing;
}

void CapturedGraph::end() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(state_ == State::kCapturing, "capture_end without capture_begin");
  }
  try {
    endCapture(device_, this, /*flushes=*/true);
  } catch (...) {
    reset();
    throw;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  state_ = State::kReady;
}

void CapturedGraph::reset() noexcept {
  std::vector<Step> steps;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> kept;
  bool wasCapturing = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wasCapturing = state_ == State::kCapturing;
  }
  if (wasCapturing) endCapture(device_, this, /*flushes=*/false);
  // Memory ends without the lock, as its owners may call back.
  std::lock_guard<std::mutex> lock(mutex_);
  state_ = State::kEmpty;
  std::swap(steps, steps_);
  std::swap(kept, kept_);
  isKept_.clear();
  streams_.clear();
}

void CapturedGraph::replay() {
  // What was captured does not change until it is reset, which a replay in another thread must not be.
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(state_ == State::kReady, state_ == State::kEmpty ? "nothing was captured; there is nothing to replay"
                                                                 : "a graph cannot be replayed while it captures");
  }
  c10::OptionalDeviceGuard guard;
  if (device_ != currentDevice()) guard.reset_device(c10::Device(kHpu, device_));
  TORCH_CHECK(!isCapturing(device_), "a graph cannot be replayed on a stream that captures another one");
  OpenDevice& device = open(device_);
  const c10::StreamId id = currentStreamId(device_);
  flush(device_, "replay");
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (streams_.insert(id).second)
      for (const auto& storage : kept_)
        if (Block* block = blockOf(storage->data_ptr())) block->segment->owner->recordStream(block, id);
  }
  hpu::Stream& stream = device.streams->get(id);
  for (const Step& step : steps_) {
    if (!step.program) {
      step.work();
      continue;
    }
    ++runCounters().graphs;
    check(step.program->executable.launch(stream, step.arguments), "replaying a graph");
  }
}

bool CapturedGraph::isCaptured() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_ == State::kReady;
}
int64_t CapturedGraph::steps() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(steps_.size());
}
CapturedGraph::Memory CapturedGraph::memory() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Memory memory;
  for (const auto& storage : kept_)
    if (c10::raw::intrusive_ptr::use_count(storage.get()) == 1) memory.kept += static_cast<int64_t>(storage->nbytes());
  std::set<const Program*> programs;
  for (const Step& step : steps_)
    if (step.program && programs.insert(step.program.get()).second)
      memory.workspace += step.program->executable.workspaceBytes();
  return memory;
}

bool CapturedGraph::uses(const c10::StorageImpl* storage) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return isKept_.count(storage) > 0;
}

void CapturedGraph::keep(const c10::intrusive_ptr<c10::StorageImpl>& storage) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (storage && isKept_.insert(storage.get()).second) kept_.push_back(storage);
}
void CapturedGraph::addLaunch(std::shared_ptr<const Program> program, hpu::LaunchArguments arguments,
                              std::shared_ptr<void> numbers) {
  std::lock_guard<std::mutex> lock(mutex_);
  steps_.push_back({std::move(program), std::move(arguments), std::move(numbers), {}, {}});
}
void CapturedGraph::addWork(std::function<void()> work, std::vector<const c10::StorageImpl*> used) {
  std::lock_guard<std::mutex> lock(mutex_);
  steps_.push_back({nullptr, {}, nullptr, std::move(work), std::move(used)});
}
std::vector<CapturedGraph::Step> CapturedGraph::takeSteps() {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(state_ == State::kReady, "nothing was captured");
  return std::exchange(steps_, {});
}
std::vector<c10::intrusive_ptr<c10::StorageImpl>> CapturedGraph::takeMemory() {
  std::lock_guard<std::mutex> lock(mutex_);
  isKept_.clear();
  return std::exchange(kept_, {});
}

bool captureWork(c10::DeviceIndex device, const std::vector<c10::Storage>& storages, std::function<void()> work) {
  const std::shared_ptr<CapturedGraph> graph = capturingGraph(device);
  if (!graph) return false;
  flush(device, "host work");
  std::vector<const c10::StorageImpl*> used;
  for (const c10::Storage& storage : storages) {
    if (!storage) continue;
    graph->keep(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl()));
    used.push_back(storage.unsafeGetStorageImpl());
  }
  graph->addWork(std::move(work), std::move(used));
  return true;
}

bool isCapturing(c10::DeviceIndex device) noexcept {
  return capturingGraph(device) != nullptr;
}

}  // namespace hpu_torch
