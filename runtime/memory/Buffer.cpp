// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/StatusMacros.h"
#include "hpu/memory.h"
#include "runtime/device/DeviceState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/HbmAllocator.h"

namespace hpu {

BufferState::BufferState(std::shared_ptr<DeviceState> device, uint64_t address, int64_t bytes)
    : device_(std::move(device)), address_(address), bytes_(bytes) {}

BufferState::~BufferState() {
  device_->memory().free(address_);
}

StatusOr<std::shared_ptr<BufferState>> BufferState::create(std::shared_ptr<DeviceState> device,
                                                           int64_t bytes,
                                                           const std::string& label) {
  HPU_ASSIGN(uint64_t address, device->memory().allocate(bytes, label));
  return std::make_shared<BufferState>(std::move(device), address, bytes);
}

int64_t BufferState::capacity() const {
  constexpr int64_t kAlignment = HbmAllocator::kAlignment;
  return (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
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
