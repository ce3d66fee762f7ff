// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "hpu/memory.h"
#include "runtime/device/DeviceState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/HbmAllocator.h"
#include "runtime/memory/MemoryPoolState.h"

namespace hpu {

Allocation::Allocation(std::shared_ptr<DeviceState> device, uint64_t address, int64_t bytes,
                       std::shared_ptr<MemoryPoolState> pool)
    : device_(std::move(device)), pool_(std::move(pool)), address_(address), bytes_(bytes) {}

Allocation::~Allocation() {
  if (pool_)
    pool_->useEnded(address_);
  else
    device_->memory().free(address_, bytes_, capacity());
}

int64_t Allocation::capacity() const {
  constexpr int64_t kAlignment = HbmAllocator::kAlignment;
  return (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
}

BufferState::BufferState(std::shared_ptr<Allocation> allocation, Visibility visibility)
    : allocation_(std::move(allocation)), visibility_(visibility), offset_(0), bytes_(allocation_->bytes()) {}

BufferState::BufferState(std::shared_ptr<BufferState> whole, int64_t offset, int64_t bytes)
    : whole_(std::move(whole)),
      allocation_(whole_->allocation()),
      visibility_(Visibility::kInternal),  // Its addresses find the whole.
      offset_(offset),
      bytes_(bytes) {}

BufferState::~BufferState() {
  if (whole_) return;
  if (visibility_ == Visibility::kProgram) device()->memory().hide(address());
  // Last: from now on the pool may give the memory to another buffer.
  if (const auto& pool = allocation_->pool()) pool->handlesGone(address());
}

int64_t BufferState::capacity() const {
  return offset_ + bytes_ == allocation_->bytes() ? allocation_->capacity() - offset_ : bytes_;
}

StatusOr<std::shared_ptr<BufferState>> BufferState::create(std::shared_ptr<DeviceState> device, int64_t bytes,
                                                           const AllocateOptions& options, Visibility visibility) {
  HPU_RETURN_IF_ERROR(device->checkProcess());
  DeviceMemory& memory = device->memory();
  StatusOr<uint64_t> allocated = memory.allocate(bytes, options);
  if (!allocated.ok()) {
    if (allocated.status().code() == StatusCode::kResourceExhausted)
      device->health().tell(HealthEvent::Kind::kOutOfMemory, options.label, allocated.status());
    return allocated.status();
  }
  const uint64_t address = *allocated;
  auto buffer = base::makeProcessOwned<BufferState>(
      base::makeProcessOwned<Allocation>(std::move(device), address, bytes), visibility);
  if (visibility == Visibility::kProgram) memory.show(buffer, options.label);
  return buffer;
}

Buffer::Buffer() = default;
Buffer::Buffer(std::shared_ptr<BufferState> state) : state_(std::move(state)) {}
Buffer::~Buffer() = default;
Buffer::Buffer(const Buffer&) = default;
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(const Buffer&) = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
uint64_t Buffer::address() const {
  return state_ ? state_->address() : 0;
}
int64_t Buffer::size() const {
  return state_ ? state_->bytes() : 0;
}

StatusOr<Buffer> Buffer::slice(int64_t offset, int64_t bytes) const {
  if (!state_) return failedPrecondition("Buffer::slice: the buffer is empty; Device::allocate gives a valid one");
  HPU_RETURN_IF_ERROR(state_->device()->checkProcess());
  if (offset < 0 || bytes < 0 || offset > size() || bytes > size() - offset)
    return outOfRange(base::strCat("Buffer::slice: ", bytes, " bytes at offset ", offset,
                                   " do not lie in the buffer of ", size(), " bytes"));
  const std::shared_ptr<BufferState>& whole = state_->whole() ? state_->whole() : state_;
  const auto before = static_cast<int64_t>(state_->address() - whole->address());
  return Buffer(base::makeProcessOwned<BufferState>(whole, before + offset, bytes));
}

std::shared_ptr<const void> Buffer::keepAlive() const {
  if (!state_) return nullptr;
  return state_->allocation();
}

StatusOr<void*> Buffer::hostView() const {
  if (!state_) return failedPrecondition("Buffer::hostView: the buffer is empty; Device::allocate gives a valid one");
  HPU_RETURN_IF_ERROR(state_->device()->checkProcess());
  return state_->device()->driver()->hostView(address(), size());
}

}  // namespace hpu
