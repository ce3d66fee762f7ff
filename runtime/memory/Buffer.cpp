// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "hpu/memory.h"
#include "runtime/device/DeviceState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/HbmAllocator.h"

namespace hpu {

Allocation::Allocation(std::shared_ptr<DeviceState> device, uint64_t address, int64_t bytes)
    : device_(std::move(device)), address_(address), bytes_(bytes) {}

Allocation::~Allocation() {
  device_->memory().free(address_, capacity());
}

int64_t Allocation::capacity() const {
  constexpr int64_t kAlignment = HbmAllocator::kAlignment;
  return (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
}

BufferState::BufferState(std::shared_ptr<Allocation> allocation, Visibility visibility)
    : allocation_(std::move(allocation)), visibility_(visibility) {}

BufferState::~BufferState() {
  if (visibility_ == Visibility::kProgram) device()->memory().hide(address());
}

StatusOr<std::shared_ptr<BufferState>> BufferState::create(std::shared_ptr<DeviceState> device, int64_t bytes,
                                                           const AllocateOptions& options, Visibility visibility) {
  HPU_RETURN_IF_ERROR(device->checkProcess());
  DeviceMemory& memory = device->memory();
  HPU_ASSIGN(uint64_t address, memory.allocate(bytes, options.label, options.requestedAddress));
  auto buffer = base::makeProcessOwned<BufferState>(
      base::makeProcessOwned<Allocation>(std::move(device), address, bytes), visibility);
  if (visibility == Visibility::kProgram) memory.show(buffer, options.label);
  return buffer;
}

Buffer::Buffer() = default;
Buffer::Buffer(std::shared_ptr<BufferState> state) : state_(std::move(state)) {}
Buffer::~Buffer() = default;
uint64_t Buffer::address() const {
  return state_ ? state_->address() : 0;
}
int64_t Buffer::size() const {
  return state_ ? state_->bytes() : 0;
}

}  // namespace hpu
