// SPDX-License-Identifier: Apache-2.0
#include "hpu/stream.h"

#include <string_view>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "runtime/device/DeviceState.h"
#include "runtime/event/EventState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/stream/StreamState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {

Status emptyHandle() {
  return failedPrecondition("the Stream handle is empty; Stream::create gives a valid one");
}

/// A range of a buffer that a stream's work is to touch.
Status checkRange(const StreamState& stream, const Buffer& buffer, int64_t offset, int64_t bytes,
                  std::string_view what) {
  if (!buffer.valid()) return invalidArgument(base::strCat(what, ": the buffer is empty"));
  if (buffer.state()->device() != stream.device())
    return invalidArgument(base::strCat(
        what, ": the buffer belongs to device ", buffer.state()->device()->info().index,
        ", and the stream to device ", stream.device()->info().index));
  int64_t size = buffer.size();
  if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset)
    return outOfRange(base::strCat(what, ": ", bytes, " bytes at offset ", offset,
                                   " do not lie in the buffer of ", size, " bytes"));
  return okStatus();
}

Status checkHost(const void* pointer, int64_t bytes, std::string_view what) {
  if (pointer || bytes == 0) return okStatus();
  return invalidArgument(base::strCat(what, ": the host address is null"));
}

uint64_t at(const Buffer& buffer, int64_t offset) {
  return buffer.address() + static_cast<uint64_t>(offset);
}

}  // namespace

Stream::Stream() = default;
Stream::~Stream() = default;

StatusOr<Stream> Stream::create(const Device& device, const StreamOptions& options) {
  trace::HostScope scope("Stream.create");
  if (!device.valid())
    return failedPrecondition("cannot create a stream: the Device handle is empty");
  Stream stream;
  HPU_ASSIGN(stream.state_, StreamState::create(device.state(), options));
  return stream;
}

Status Stream::copyToDevice(const Buffer& dst, const void* src, int64_t bytes, int64_t offset) {
  trace::HostScope scope("Stream.copyToDevice");
  scope.arg("bytes", bytes);
  if (!state_) return emptyHandle();
  HPU_RETURN_IF_ERROR(checkRange(*state_, dst, offset, bytes, "copyToDevice"));
  HPU_RETURN_IF_ERROR(checkHost(src, bytes, "copyToDevice"));
  return state_->submit(driver::CopyToDevice{at(dst, offset), src, bytes}, {}, {dst.state()})
      .status();
}

Status Stream::copyToHost(void* dst, const Buffer& src, int64_t bytes, int64_t offset) {
  trace::HostScope scope("Stream.copyToHost");
  scope.arg("bytes", bytes);
  if (!state_) return emptyHandle();
  HPU_RETURN_IF_ERROR(checkRange(*state_, src, offset, bytes, "copyToHost"));
  HPU_RETURN_IF_ERROR(checkHost(dst, bytes, "copyToHost"));
  return state_->submit(driver::CopyToHost{dst, at(src, offset), bytes}, {}, {src.state()})
      .status();
}

Status Stream::copyOnDevice(const Buffer& dst, int64_t dstOffset, const Buffer& src,
                            int64_t srcOffset, int64_t bytes) {
  trace::HostScope scope("Stream.copyOnDevice");
  scope.arg("bytes", bytes);
  if (!state_) return emptyHandle();
  HPU_RETURN_IF_ERROR(checkRange(*state_, dst, dstOffset, bytes, "copyOnDevice, destination"));
  HPU_RETURN_IF_ERROR(checkRange(*state_, src, srcOffset, bytes, "copyOnDevice, source"));
  return state_
      ->submit(driver::CopyOnDevice{at(dst, dstOffset), at(src, srcOffset), bytes}, {},
               {dst.state(), src.state()})
      .status();
}

Status Stream::fill(const Buffer& dst, uint8_t value, int64_t bytes, int64_t offset) {
  trace::HostScope scope("Stream.fill");
  scope.arg("bytes", bytes);
  if (!state_) return emptyHandle();
  HPU_RETURN_IF_ERROR(checkRange(*state_, dst, offset, bytes, "fill"));
  return state_->submit(driver::Fill{at(dst, offset), value, bytes}, {}, {dst.state()}).status();
}

Status Stream::record(const Event& event) {
  trace::HostScope scope("Stream.record");
  if (!state_) return emptyHandle();
  HPU_ASSIGN(std::shared_ptr<TicketHandle> ticket, state_->submit(driver::Marker{}, {}, {}));
  event.state()->set(std::move(ticket), state_);
  return okStatus();
}

Status Stream::wait(const Event& event) {
  trace::HostScope scope("Stream.wait");
  if (!state_) return emptyHandle();
  std::shared_ptr<TicketHandle> ticket = event.state()->ticket();
  if (!ticket) return okStatus();
  driver::WaitFor work{ticket->ticket(), nullptr};
  if (ticket->device() != state_->device()) work.other = ticket->device()->driver();
  return state_->submit(std::move(work), {}, {}).status();
}

StatusOr<bool> Stream::query() const {
  trace::HostScope scope("Stream.query");
  if (!state_) return emptyHandle();
  std::shared_ptr<TicketHandle> ticket = state_->last();
  if (!ticket) return true;
  if (!ticket->done()) return false;
  HPU_RETURN_IF_ERROR(ticket->observeEndNs().status());
  return true;
}

Status Stream::synchronize(int64_t deadlineMs) const {
  trace::HostScope scope("Stream.synchronize");
  if (!state_) return emptyHandle();
  return state_->synchronize(deadlineMs);
}

}  // namespace hpu
