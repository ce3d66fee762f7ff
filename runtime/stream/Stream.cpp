// SPDX-License-Identifier: Apache-2.0
#include "hpu/stream.h"
#include "base/HostMemory.h"

#include <new>
#include <string_view>
#include <utility>

#include "base/Format.h"
#include "base/Grown.h"
#include "base/StatusMacros.h"
#include "hpu/trace.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/WorkCalls.h"
#include "runtime/event/EventState.h"
#include "runtime/event/EventWatcher.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/MemoryPoolState.h"
#include "runtime/stream/HostCalls.h"
#include "runtime/stream/PeerCopy.h"
#include "runtime/stream/StreamState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {

using base::hostPointer;

/// A stream that may be used: there is one, and it is this process's.
Status check(const std::shared_ptr<StreamState>& stream) {
  if (!stream) return failedPrecondition("the Stream handle is empty; Stream::create gives a valid one");
  return stream->device()->checkProcess();
}

/// A range of a buffer, of any device.
Status checkInside(const Buffer& buffer, int64_t offset, int64_t bytes, std::string_view what) {
  if (!buffer.valid()) return invalidArgument(base::strCat(what, ": the buffer is empty"));
  int64_t size = buffer.size();
  if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset)
    return outOfRange(
        base::strCat(what, ": ", bytes, " bytes at offset ", offset, " do not lie in the buffer of ", size, " bytes"));
  return okStatus();
}

/// A range of a buffer that a stream's work is to touch.
Status checkRange(const StreamState& stream, const Buffer& buffer, int64_t offset, int64_t bytes,
                  std::string_view what) {
  if (buffer.valid() && buffer.state()->device() != stream.device())
    return invalidArgument(base::strCat(what, ": the buffer belongs to device ", buffer.state()->device()->info().index,
                                        ", and the stream to device ", stream.device()->info().index));
  return checkInside(buffer, offset, bytes, what);
}

Status checkHost(const void* pointer, int64_t bytes, std::string_view what) {
  if (bytes < 0) return outOfRange(base::strCat(what, ": ", bytes, " bytes"));
  if (pointer || bytes == 0) return okStatus();
  return invalidArgument(base::strCat(what, ": the host address is null"));
}

uint64_t at(const Buffer& buffer, int64_t offset) {
  return buffer.address() + static_cast<uint64_t>(offset);
}

using Owner = std::shared_ptr<const void>;

/// The owner of the host side of a copy; null when the device does not know the memory.
StatusOr<Owner> hostOwner(const StreamState& stream, const void* pointer, int64_t bytes, std::string_view what) {
  HPU_RETURN_IF_ERROR(checkHost(pointer, bytes, what));
  HPU_ASSIGN(Owner owner, stream.device()->host().use(pointer, bytes, what));
  return owner;
}

/// A range of device addresses that work touches.
struct Range {
  uint64_t address = 0;
  std::string_view what;  ///< Begins an error's message.
};

/// Enqueues work on ranges of `bytes` bytes that must be the program's. Empty ones may be anywhere,
/// and there is nothing to do.
Status submitRanges(StreamState& stream, driver::Work work, int64_t bytes, const Range& range, const Range* other,
                    Owner host) {
  if (bytes == 0) return okStatus();
  const DeviceState& device = *stream.device();
  // A copy between host and device has its host side already.
  auto own = [&](const Range& side) -> StatusOr<Owner> {
    const bool crosses =
        std::holds_alternative<driver::CopyToDevice>(work) || std::holds_alternative<driver::CopyToHost>(work);
    if (!crosses) return device.owner(side.address, bytes, side.what);
    HPU_ASSIGN(auto buffer, stream.device()->memory().find(side.address, bytes, side.what));
    return Owner(buffer->allocation());
  };
  auto first = own(range);
  if (!first.ok()) return stream.refuse(first.status(), {});
  if (other) {
    auto second = own(*other);
    if (!second.ok()) return stream.refuse(second.status(), {});
    host = std::move(*second);
  }
  return stream.submit(std::move(work), {}, std::move(*first), std::move(host)).status();
}

StatusOr<std::shared_ptr<TicketHandle>> enqueueExternal(const std::shared_ptr<StreamState>& stream,
                                                        std::shared_ptr<ExternalWork> work,
                                                        std::string_view call = "Stream::enqueue",
                                                        bool isReport = false) {
  if (!work) return invalidArgument("Stream::enqueue: the work is null");
  HPU_RETURN_IF_ERROR(stream->refuseInCapture(call, "it happens once, and a replay would not do it again"));
  HPU_ASSIGN(std::string label, driver::nameOf(*work));
  return stream->submit(driver::External{std::move(work), isReport}, std::move(label), nullptr, nullptr);
}

Status waitFor(const std::shared_ptr<StreamState>& stream, const Event& event, bool onlyOrder) {
  HPU_RETURN_IF_ERROR(check(stream));
  HPU_RETURN_IF_ERROR(event.state()->checkProcess());
  auto capture = stream->capture();
  Recorded now = event.state()->recorded();
  if (now.captured.set) {
    auto recorded = now.captured.capture.lock();
    if (!recorded || !recorded->active() || (capture && capture != recorded)) {
      constexpr std::string_view kWhy = "the event was recorded in another capture, or in one that has ended";
      if (capture) return capture->refuse("Stream::wait", kWhy);
      return failedPrecondition(base::strCat("Stream::wait: ", kWhy, "; record it again"));
    }
    return recorded->wait(stream, now.captured);
  }
  constexpr std::string_view kOutside = "the event was recorded outside of the capture";
  if (const std::shared_ptr<OpenedEvent>& opened = event.state()->opened()) {
    const uint64_t record = opened->latest();
    if (record == 0) return okStatus();
    if (capture) return capture->refuse("Stream::wait", kOutside);
    const auto outcome = opened->outcome(record);
    if (outcome && (outcome->ok() || onlyOrder)) return okStatus();
    return enqueueExternal(stream, openedEventWait(opened, record, onlyOrder), "Stream::wait").status();
  }
  if (!now.ticket) return okStatus();
  if (capture) return capture->refuse("Stream::wait", kOutside);
  return stream->waitFor(std::move(now.ticket), onlyOrder);
}

}  // namespace

Stream::Stream() = default;
Stream::~Stream() = default;

StatusOr<Stream> Stream::create(const Device& device, const StreamOptions& options, size_t optionsBytes) {
  trace::HostScope scope("Stream.create");
  if (!device.valid()) return failedPrecondition("cannot create a stream: the Device handle is empty");
  HPU_ASSIGN(base::Grown<StreamOptions> given,
             base::grown("StreamOptions", options, optionsBytes, &StreamOptions::name, &StreamOptions::priority));
  Stream stream;
  HPU_ASSIGN(stream.state_, StreamState::create(device.state(), *given));
  return stream;
}

Status Stream::copyToDevice(const Buffer& dst, const void* src, int64_t bytes, int64_t offset) {
  trace::HostScope scope("Stream.copyToDevice");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(checkRange(*state_, dst, offset, bytes, "copyToDevice"));
  HPU_ASSIGN(Owner host, hostOwner(*state_, src, bytes, "copyToDevice"));
  return state_
      ->submit(driver::CopyToDevice{at(dst, offset), src, bytes}, {}, dst.state()->allocation(), std::move(host))
      .status();
}

Status Stream::copyToHost(void* dst, const Buffer& src, int64_t bytes, int64_t offset) {
  trace::HostScope scope("Stream.copyToHost");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(checkRange(*state_, src, offset, bytes, "copyToHost"));
  HPU_ASSIGN(Owner host, hostOwner(*state_, dst, bytes, "copyToHost"));
  return state_->submit(driver::CopyToHost{dst, at(src, offset), bytes}, {}, src.state()->allocation(), std::move(host))
      .status();
}

Status Stream::copyOnDevice(const Buffer& dst, int64_t dstOffset, const Buffer& src, int64_t srcOffset, int64_t bytes) {
  trace::HostScope scope("Stream.copyOnDevice");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(checkRange(*state_, dst, dstOffset, bytes, "copyOnDevice, destination"));
  HPU_RETURN_IF_ERROR(checkRange(*state_, src, srcOffset, bytes, "copyOnDevice, source"));
  return state_
      ->submit(driver::CopyOnDevice{at(dst, dstOffset), at(src, srcOffset), bytes}, {}, dst.state()->allocation(),
               src.state()->allocation())
      .status();
}

Status Stream::fill(const Buffer& dst, uint8_t value, int64_t bytes, int64_t offset) {
  trace::HostScope scope("Stream.fill");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(checkRange(*state_, dst, offset, bytes, "fill"));
  return state_->submit(driver::Fill{at(dst, offset), value, bytes}, {}, dst.state()->allocation(), nullptr).status();
}

Status Stream::copyToDevice(uint64_t dst, const void* src, int64_t bytes) {
  trace::HostScope scope("Stream.copyToDevice");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_ASSIGN(Owner host, hostOwner(*state_, src, bytes, "copyToDevice"));
  return submitRanges(*state_, driver::CopyToDevice{dst, src, bytes}, bytes, {dst, "copyToDevice"}, nullptr,
                      std::move(host));
}

Status Stream::copyToHost(void* dst, uint64_t src, int64_t bytes) {
  trace::HostScope scope("Stream.copyToHost");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_ASSIGN(Owner host, hostOwner(*state_, dst, bytes, "copyToHost"));
  return submitRanges(*state_, driver::CopyToHost{dst, src, bytes}, bytes, {src, "copyToHost"}, nullptr,
                      std::move(host));
}

Status Stream::copyOnDevice(uint64_t dst, uint64_t src, int64_t bytes) {
  trace::HostScope scope("Stream.copyOnDevice");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  if (bytes < 0) return outOfRange(base::strCat("copyOnDevice: ", bytes, " bytes"));
  Range from{src, "copyOnDevice, source"};
  return submitRanges(*state_, driver::CopyOnDevice{dst, src, bytes}, bytes, {dst, "copyOnDevice, destination"}, &from,
                      nullptr);
}

Status Stream::fill(uint64_t dst, uint32_t pattern, int elementBytes, int64_t count) {
  trace::HostScope scope("Stream.fill");
  scope.arg("elements", count);
  HPU_RETURN_IF_ERROR(check(state_));
  if (elementBytes != 1 && elementBytes != 2 && elementBytes != 4)
    return invalidArgument(base::strCat("fill: a pattern has 1, 2 or 4 bytes, not ", elementBytes));
  if (count < 0 || count > INT64_MAX / elementBytes)
    return outOfRange(base::strCat("fill: ", count, " elements of ", elementBytes, " bytes"));
  const int64_t bytes = count * elementBytes;
  return submitRanges(*state_, driver::Fill{dst, pattern, bytes, elementBytes}, bytes, {dst, "fill"}, nullptr, nullptr);
}

Status Stream::copyMany(CopyDirection direction, const std::vector<CopyRange>& ranges) {
  trace::HostScope scope("Stream.copyMany");
  scope.arg("copies", static_cast<int64_t>(ranges.size()));
  HPU_RETURN_IF_ERROR(check(state_));
  if (direction != CopyDirection::kToDevice && direction != CopyDirection::kToHost &&
      direction != CopyDirection::kOnDevice)
    return invalidArgument(base::strCat("copyMany: ", static_cast<int>(direction), " is no direction"));
  // Neighbouring ranges mostly lie in the same memory.
  driver::Owners owners;
  auto own = [&](Owner owner) {
    auto last = owners.rbegin();
    bool known = last != owners.rend() && (*last == owner || (++last != owners.rend() && *last == owner));
    if (owner && !known) owners.push_back(std::move(owner));
  };
  driver::CopyMany work;
  work.direction = direction;
  work.ranges.reserve(ranges.size());
  const DeviceMemory& memory = state_->device()->memory();
  Status wrong;  // The first range that is not the program's.
  for (size_t i = 0; i < ranges.size(); ++i) {
    const CopyRange& range = ranges[i];
    auto where = [&] { return base::strCat("copy ", i); };
    auto device = [&](uint64_t address) {
      Status status;
      if (direction == CopyDirection::kOnDevice) {
        auto owner = state_->device()->owner(address, range.bytes, "copyMany");
        if (owner.ok()) return own(std::move(*owner));
        status = owner.status();
      } else {
        auto buffer = memory.find(address, range.bytes, "copyMany");
        if (buffer.ok()) return own((*buffer)->allocation());
        status = buffer.status();
      }
      if (wrong.ok()) wrong = status.withContext(where());
    };
    if (range.bytes < 0) return outOfRange(base::strCat(where(), ": copyMany: ", range.bytes, " bytes"));
    if (range.bytes == 0) continue;
    if (direction != CopyDirection::kOnDevice) {
      uint64_t address = direction == CopyDirection::kToHost ? range.dst : range.src;
      auto host = hostOwner(*state_, hostPointer(address), range.bytes, "copyMany");
      if (!host.ok()) return host.status().withContext(where());
      own(std::move(*host));
    }
    if (direction != CopyDirection::kToHost) device(range.dst);
    if (direction != CopyDirection::kToDevice) device(range.src);
    work.ranges.push_back(range);
  }
  if (!wrong.ok()) return state_->refuse(std::move(wrong), {});
  if (work.ranges.empty()) return okStatus();
  return state_->submit(std::move(work), {}, std::move(owners)).status();
}

Status Stream::copyFromDevice(const Buffer& dst, int64_t dstOffset, const Buffer& src, int64_t srcOffset,
                              int64_t bytes) try {
  trace::HostScope scope("Stream.copyFromDevice");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(checkRange(*state_, dst, dstOffset, bytes, "copyFromDevice, destination"));
  HPU_RETURN_IF_ERROR(checkInside(src, srcOffset, bytes, "copyFromDevice, source"));
  const std::shared_ptr<DeviceState>&here = state_->device(), &there = src.state()->device();
  if (here == there) return copyOnDevice(dst, dstOffset, src, srcOffset, bytes);
  HPU_RETURN_IF_ERROR(there->checkProcess());
  if (here->info().driver != there->info().driver)
    return unimplemented(base::strCat("copyFromDevice: the source is of driver '", there->info().driver,
                                      "' and the stream of driver '", here->info().driver,
                                      "': there is no link between the two; copy through host memory"));
  HPU_RETURN_IF_ERROR(state_->refuseInCapture(
      "Stream::copyFromDevice", "the other device is no part of the capture; copy before or after the replay"));
  if (bytes == 0) return okStatus();
  const PeerRange to{dst.state()->allocation(), at(dst, dstOffset)},
      from{src.state()->allocation(), at(src, srcOffset)};
  std::shared_ptr<ExternalWork> work = peerCopy(to, from, bytes);
  std::string label = work->name();
  return state_->submit(driver::External{std::move(work)}, std::move(label), to.memory, holdSource(from.memory))
      .status();
} catch (const std::bad_alloc&) {
  return resourceExhausted("out of host memory: the work was not enqueued");
}

StatusOr<Buffer> Stream::allocate(int64_t bytes) {
  trace::HostScope scope("Stream.allocate");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_ASSIGN(std::shared_ptr<MemoryPoolState> pool, state_->device()->defaultPool());
  HPU_ASSIGN(std::shared_ptr<BufferState> buffer, pool->allocate(bytes, state_));
  return Buffer(std::move(buffer));
}

Status Stream::free(Buffer buffer) {
  trace::HostScope scope("Stream.free");
  HPU_RETURN_IF_ERROR(check(state_));
  return freeToPool(std::move(buffer), state_, nullptr, "Stream::free");
}

Device Stream::device() const {
  return state_ ? Device(state_->device()) : Device();
}

Status Stream::enqueue(std::shared_ptr<ExternalWork> work) {
  trace::HostScope scope("Stream.enqueue");
  HPU_RETURN_IF_ERROR(check(state_));
  return enqueueExternal(state_, std::move(work)).status();
}

Status Stream::enqueue(std::shared_ptr<ExternalWork> work, const Event& end) {
  trace::HostScope scope("Stream.enqueue");
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(end.state()->checkRecordable("Stream::enqueue"));
  HPU_ASSIGN(std::shared_ptr<TicketHandle> ticket, enqueueExternal(state_, std::move(work)));
  end.state()->set(std::move(ticket), state_);
  return okStatus();
}

Status Stream::enqueueRepeatable(std::shared_ptr<RepeatableWork> work) {
  trace::HostScope scope("Stream.enqueueRepeatable");
  HPU_RETURN_IF_ERROR(check(state_));
  if (!work) return invalidArgument("Stream::enqueueRepeatable: the work is null");
  auto capture = state_->capture();
  if (capture) {
    if (Status wrong = driver::prepareWork(*work, *this); !wrong.ok()) return capture->fail(wrong);
  }
  StatusOr<std::vector<WorkMemory>> memory = driver::memoryOf(*work);
  if (!memory.ok()) return capture ? capture->fail(memory.status()) : memory.status();
  if (!capture) return driver::enqueueWork(*work, *this, *memory);
  return capture->addRepeatable(*state_, std::move(work), std::move(*memory));
}

Status Stream::callHost(std::function<Status()> function, const std::string& name) {
  trace::HostScope scope("Stream.callHost");
  HPU_RETURN_IF_ERROR(check(state_));
  if (!function) return invalidArgument("Stream::callHost: the function is empty");
  return enqueueExternal(state_, hostCall(state_->device()->hostCalls(), std::move(function), name), "Stream::callHost")
      .status();
}

Status Stream::onDone(std::function<void(const Status&)> told) {
  trace::HostScope scope("Stream.onDone");
  HPU_RETURN_IF_ERROR(check(state_));
  if (!told) return invalidArgument("Stream::onDone: the function is empty");
  return enqueueExternal(state_, completionCall(state_->device()->hostCalls(), std::move(told)), "Stream::onDone",
                         /*isReport=*/true)
      .status();
}

bool Stream::extend(const ExternalWork& work, const ExternalPorts& ports, std::vector<int64_t>& readyPs) const {
  return state_ && !trace::active() && state_->extend(work, ports, readyPs);
}

void Stream::seal() const {
  if (state_) state_->seal();
}

Status Stream::record(const Event& event) {
  trace::HostScope scope("Stream.record");
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(event.state()->checkRecordable("Stream::record"));
  if (auto capture = state_->capture()) {
    if (event.state()->shared()) return capture->refuse("Stream::record", kSharedInCapture);
    return capture->record(state_, *event.state());
  }
  HPU_ASSIGN(std::shared_ptr<TicketHandle> ticket, state_->submit(driver::Marker{}, {}, nullptr, nullptr));
  event.state()->set(std::move(ticket), state_);
  return okStatus();
}

Status Stream::wait(const Event& event) {
  trace::HostScope scope("Stream.wait");
  return waitFor(state_, event, /*onlyOrder=*/false);
}

Status Stream::waitInOrder(const Event& event) {
  trace::HostScope scope("Stream.waitInOrder");
  return waitFor(state_, event, /*onlyOrder=*/true);
}

StatusOr<bool> Stream::query() const {
  trace::HostScope scope("Stream.query");
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(state_->refuseInCapture("Stream::query", "captured work is not done, only recorded"));
  return state_->query();
}

Status Stream::error() const {
  trace::HostScope scope("Stream.error");
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->error(UINT64_MAX);
}

Status Stream::synchronize(int64_t deadlineMs) const {
  trace::HostScope scope("Stream.synchronize");
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(state_->refuseInCapture("Stream::synchronize", "captured work is not done, only recorded"));
  return state_->synchronize(deadlineMs, "Stream::synchronize");
}

}  // namespace hpu
