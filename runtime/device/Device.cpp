// SPDX-License-Identifier: Apache-2.0
#include "hpu/device.h"

#include <utility>

#include "base/StatusMacros.h"
#include "runtime/device/DeviceState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {
Status emptyHandle() {
  return failedPrecondition("the Device handle is empty; Device::open gives a valid one");
}
}  // namespace

Device::Device() = default;
Device::Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}
Device::~Device() = default;

StatusOr<Device> Device::open(const DeviceOptions& options) {
  trace::HostScope scope("Device.open");
  HPU_ASSIGN(std::shared_ptr<DeviceState> state, DeviceState::open(options));
  return Device(std::move(state));
}

std::vector<std::string> Device::drivers() {
  std::vector<std::string> names;
  for (const driver::DriverEntry& entry : driver::registeredDrivers()) names.push_back(entry.name);
  return names;
}

const DeviceInfo& Device::info() const {
  static const DeviceInfo empty;
  return state_ ? state_->info() : empty;
}

StatusOr<Buffer> Device::allocate(int64_t bytes, const std::string& label) {
  trace::HostScope scope("Device.allocate");
  scope.arg("bytes", bytes);
  if (!state_) return emptyHandle();
  HPU_ASSIGN(std::shared_ptr<BufferState> buffer, BufferState::create(state_, bytes, label));
  return Buffer(std::move(buffer));
}

MemoryInfo Device::memoryInfo() const {
  return state_ ? state_->memory().info() : MemoryInfo();
}

DeviceCounters Device::counters() const {
  return state_ ? state_->driver()->counters() : DeviceCounters();
}

Status Device::synchronize(int64_t deadlineMs) {
  trace::HostScope scope("Device.synchronize");
  if (!state_) return emptyHandle();
  return state_->synchronize(deadlineMs);
}

}  // namespace hpu
