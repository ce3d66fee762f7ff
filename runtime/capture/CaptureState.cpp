// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture/CaptureState.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/PerThread.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/WorkCalls.h"
#include "runtime/event/EventState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/stream/StreamState.h"

namespace hpu {
namespace {

constexpr uint32_t kNone = driver::BatchItem::kNone;

/// Captures that this thread began; those that ended are dropped when the next begins.
struct Captures {
  std::vector<std::weak_ptr<CaptureState>> list;
};
std::vector<std::weak_ptr<CaptureState>>& capturesOfThread() {
  return base::perThread<Captures>().list;
}

std::string nameOf(const StreamState& stream) {
  return stream.name().empty() ? base::strCat("a stream without a name") : base::strCat("stream '", stream.name(), "'");
}

Status ended() {
  return failedPrecondition("the capture has ended");
}

uint64_t nextNumber() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// One mutex for each object, however many captures and instances have it.
std::shared_ptr<std::mutex> callsOf(const std::shared_ptr<RepeatableWork>& work) {
  using Weak = std::weak_ptr<RepeatableWork>;
  // Never destroyed: graphs may outlive statics.
  static auto* known = new std::map<Weak, std::weak_ptr<std::mutex>, std::owner_less<Weak>>;
  std::lock_guard lock(base::processMutex());
  std::erase_if(*known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<std::mutex>& slot = (*known)[work];
  std::shared_ptr<std::mutex> calls = slot.lock();
  if (!calls) slot = calls = std::make_shared<std::mutex>();
  return calls;
}

}  // namespace

CaptureState::CaptureState(std::shared_ptr<DeviceState> device)
    : number_(nextNumber()), work_(base::makeProcessOwned<CapturedWork>()) {
  work_->device = std::move(device);
}

StatusOr<std::shared_ptr<CaptureState>> CaptureState::begin(const std::shared_ptr<StreamState>& origin) {
  auto capture = base::makeProcessOwned<CaptureState>(origin->device());
  capture->streams_.push_back(origin);
  capture->last_.push_back(kNone);
  capture->work_->branches.push_back({origin->name(), origin->priority()});
  HPU_RETURN_IF_ERROR(origin->joinCapture(capture));
  std::erase_if(capturesOfThread(), [](const auto& entry) { return entry.expired(); });
  capturesOfThread().push_back(capture);
  return capture;
}

StatusOr<uint32_t> CaptureState::branchOf(const StreamState& stream) const {
  for (size_t b = 0; b < streams_.size(); ++b)
    if (streams_[b].get() == &stream) return static_cast<uint32_t>(b);
  return ended();
}

/// Under the lock.
StatusOr<uint32_t> CaptureState::append(uint32_t branch, CapturedWork::Operation operation) {
  if (work_->operations.size() >= kNone) return resourceExhausted("a capture cannot hold more operations");
  operation.branch = branch;
  last_[branch] = static_cast<uint32_t>(work_->operations.size());
  work_->operations.push_back(std::move(operation));
  return last_[branch];
}

StatusOr<uint32_t> CaptureState::add(const StreamState& stream, driver::Work work, std::string label, Owners owners,
                                     std::shared_ptr<ExecutableState> executable,
                                     std::shared_ptr<const Instance> instance) {
  std::lock_guard lock(mutex_);
  if (ended_) return ended();
  HPU_ASSIGN(uint32_t branch, branchOf(stream));
  CapturedWork::Operation operation;
  operation.work = std::move(work);
  operation.label = std::move(label);
  operation.owners = tellMemory(*work_->device, operation.work, instance.get(), std::move(owners), memory_);
  operation.executable = std::move(executable);
  operation.instance = std::move(instance);
  return append(branch, std::move(operation));
}

Status CaptureState::addRepeatable(const StreamState& stream, std::shared_ptr<RepeatableWork> work,
                                   std::vector<WorkMemory> memory) {
  CapturedWork::Operation operation;
  operation.work = driver::External{};
  StatusOr<std::string> name = driver::nameOf(*work);
  if (!name.ok()) return fail(name.status());
  operation.label = std::move(*name);
  for (const WorkMemory& range : memory) {
    if (range.bytes == 0) continue;
    if (range.bytes < 0) return fail(outOfRange(base::strCat(operation.label, ": memory of ", range.bytes, " bytes")));
    auto buffer = work_->device->memory().find(range.address, range.bytes, operation.label);
    if (!buffer.ok()) return fail(buffer.status());
    // The buffer, not only its memory: replays make calls that look for it by its address.
    const auto& allocation = (*buffer)->allocation();
    operation.owners.push_back({*buffer, allocation->address(), allocation->bytes(), false});
  }
  operation.calls = callsOf(work);
  operation.repeatable = std::move(work);
  operation.memory = std::move(memory);
  std::lock_guard lock(mutex_);
  if (ended_) return ended();
  HPU_ASSIGN(uint32_t branch, branchOf(stream));
  work_->repeats = true;
  return append(branch, std::move(operation)).status();
}

Status CaptureState::record(const std::shared_ptr<StreamState>& stream, EventState& event) {
  std::lock_guard lock(mutex_);
  if (ended_) return ended();
  HPU_ASSIGN(uint32_t branch, branchOf(*stream));
  // An operation of its own, though the one before it would do: ties between branches are broken in
  // device time as they are without the capture.
  CapturedWork::Operation marker;
  marker.work = driver::Marker{};
  HPU_RETURN_IF_ERROR(append(branch, std::move(marker)).status());
  event.setCaptured({weak_from_this(), last_[branch], kNone, true});
  return okStatus();
}

Status CaptureState::wait(const std::shared_ptr<StreamState>& stream, const CapturedPoint& point) {
  if (stream->device() != work_->device) {
    return refuse("Stream::wait", base::strCat(nameOf(*stream), " belongs to device ", stream->device()->info().index,
                                               ", and the capture to device ", work_->device->info().index,
                                               "; capture a graph for each device and order them with events"));
  }
  if (!stream->capture()) {
    HPU_RETURN_IF_ERROR(stream->joinCapture(shared_from_this()));
    std::lock_guard lock(mutex_);
    if (!ended_) {
      streams_.push_back(stream);
      last_.push_back(kNone);
      work_->branches.push_back({stream->name(), stream->priority()});
    }
  }
  bool over;
  {
    std::lock_guard lock(mutex_);
    over = ended_;
    if (!over) {
      HPU_ASSIGN(uint32_t branch, branchOf(*stream));
      // What is before it on its own branch is done anyway.
      if (work_->operations[point.operation].branch == branch) return okStatus();
      CapturedWork::Operation operation;
      operation.work = driver::WaitFor{};
      operation.waitOperation = point.operation;
      operation.waitSignal = point.signal;
      return append(branch, std::move(operation)).status();
    }
  }
  stream->leaveCapture(this);
  return ended();
}

Status CaptureState::orderBehindLast(const StreamState& stream, const std::shared_ptr<ExecutableState>& executable) {
  std::lock_guard lock(mutex_);
  if (ended_) return ended();
  auto it = lastUse_.find(executable.get());
  if (it == lastUse_.end()) {
    work_->ordered.push_back(executable);
    return okStatus();
  }
  HPU_ASSIGN(uint32_t branch, branchOf(stream));
  if (work_->operations[it->second].branch == branch) return okStatus();
  CapturedWork::Operation operation;
  operation.work = driver::WaitFor{};
  operation.waitOperation = it->second;
  return append(branch, std::move(operation)).status();
}

void CaptureState::used(const std::shared_ptr<ExecutableState>& executable, const StreamState& stream) {
  std::lock_guard lock(mutex_);
  if (auto branch = branchOf(stream); branch.ok()) lastUse_[executable.get()] = last_[*branch];
}

bool CaptureState::active() const {
  std::lock_guard lock(mutex_);
  return !ended_;
}

Status CaptureState::refuse(std::string_view call, std::string_view why) {
  return fail(
      failedPrecondition(base::strCat(call, " cannot be captured: ", why, "; call it before or after the capture")));
}

Status CaptureState::fail(const Status& why) {
  std::lock_guard lock(mutex_);
  if (refused_.ok()) refused_ = why;
  return why;
}

Status CaptureState::refuseOnThisThread(const DeviceState& device, std::string_view call, std::string_view why) {
  for (const auto& entry : capturesOfThread()) {
    std::shared_ptr<CaptureState> capture = entry.lock();
    if (!capture || capture->work_->device.get() != &device) continue;
    if (!capture->active()) continue;
    return capture->refuse(call, why);
  }
  return okStatus();
}

/// Everything must come before the last operation of branch 0: what follows a replay on its stream
/// follows all of it.
Status CaptureState::checkJoined() const {
  const auto& operations = work_->operations;
  std::vector<bool> reached(operations.size(), false);
  std::vector<uint32_t> before(operations.size(), kNone);
  std::vector<uint32_t> last(streams_.size(), kNone);
  for (uint32_t i = 0; i < operations.size(); ++i) {
    before[i] = last[operations[i].branch];
    last[operations[i].branch] = i;
  }
  if (!last.empty() && last[0] != kNone) reached[last[0]] = true;
  // Predecessors have lower indices.
  for (auto i = static_cast<uint32_t>(operations.size()); i-- > 0;) {
    if (!reached[i]) continue;
    if (before[i] != kNone) reached[before[i]] = true;
    if (operations[i].waitOperation != kNone) reached[operations[i].waitOperation] = true;
  }
  for (size_t b = 1; b < streams_.size(); ++b) {
    if (last[b] == kNone || reached[last[b]]) continue;
    return failedPrecondition(
        base::strCat(nameOf(*streams_[b]), " joined the capture, and ", nameOf(*streams_[0]),
                     ", on which it began, does not wait for its last work; record an event there and wait for "
                     "it before the end"));
  }
  return okStatus();
}

StatusOr<std::shared_ptr<const CapturedWork>> CaptureState::end() {
  std::vector<std::shared_ptr<StreamState>> streams;
  Status status;
  {
    std::lock_guard lock(mutex_);
    if (ended_) return ended();
    ended_ = true;
    // Replays lock them in this order.
    std::sort(work_->ordered.begin(), work_->ordered.end());
    status = refused_;
    if (status.ok()) status = checkJoined();
    streams.swap(streams_);
  }
  for (const auto& stream : streams) stream->leaveCapture(this);
  if (!status.ok()) return status;
  return std::shared_ptr<const CapturedWork>(work_);
}

}  // namespace hpu
