// SPDX-License-Identifier: Apache-2.0
#include "hpu/device.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/Format.h"
#include "base/Grown.h"
#include "base/StatusMacros.h"
#include "hpu/node.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/device/DeviceState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {
/// A device that may be used: there is one, and it is this process's.
Status check(const std::shared_ptr<DeviceState>& device) {
  if (!device) return failedPrecondition("the Device handle is empty; Device::open gives a valid one");
  return device->checkProcess();
}
}  // namespace

Device::Device() = default;
Device::Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}
Device::~Device() = default;

StatusOr<Device> Device::open(const DeviceOptions& options, size_t optionsBytes) {
  trace::HostScope scope("Device.open");
  using O = DeviceOptions;
  HPU_ASSIGN(base::Grown<O> given,
             base::grown("DeviceOptions", options, optionsBytes, &O::driver, &O::index, &O::moduleId, &O::pciAddress,
                         &O::target, &O::hbmBytes, &O::threads, &O::wait));
  HPU_ASSIGN(std::shared_ptr<DeviceState> state, DeviceState::open(*given));
  return Device(std::move(state));
}

StatusOr<int> Device::count() {
  HPU_ASSIGN(node::NodeStatus node, node::query());
  return static_cast<int>(node.devices.size());
}

std::vector<std::string> Device::drivers() {
  std::vector<std::string> names;
  for (const driver::DriverEntry& entry : driver::registeredDrivers()) names.push_back(entry.name);
  return names;
}

const DeviceInfo& Device::info() const {
  static const auto* empty = new DeviceInfo;  // Never destroyed.
  return state_ ? state_->info() : *empty;
}

StatusOr<Buffer> Device::allocate(int64_t bytes, const std::string& label) {
  return allocate(bytes, AllocateOptions{label});
}

StatusOr<Buffer> Device::allocate(int64_t bytes, const AllocateOptions& options, size_t optionsBytes) {
  trace::HostScope scope("Device.allocate");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(CaptureState::refuseOnThisThread(
      *state_, "Device::allocate", "memory is no work of a stream, and a replay would not allocate it again"));
  HPU_ASSIGN(base::Grown<AllocateOptions> given,
             base::grown("AllocateOptions", options, optionsBytes, &AllocateOptions::label,
                         &AllocateOptions::requestedAddress, &AllocateOptions::wait));
  HPU_ASSIGN(std::shared_ptr<BufferState> buffer, BufferState::create(state_, bytes, *given, Visibility::kProgram));
  return Buffer(std::move(buffer));
}

StatusOr<Buffer> Device::find(uint64_t address) const {
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_ASSIGN(std::shared_ptr<BufferState> buffer, state_->memory().find(address));
  return Buffer(std::move(buffer));
}

StatusOr<int> Device::memoryFile(uint64_t address, int64_t bytes) const {
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_ASSIGN(std::shared_ptr<BufferState> buffer, state_->memory().find(address));
  auto offset = static_cast<int64_t>(address - buffer->address());
  if (bytes <= 0 || bytes > buffer->bytes() - offset)
    return outOfRange(base::strCat("the allocation at ", base::formatHex(buffer->address()), " has ", buffer->bytes(),
                                   " bytes, and ", bytes, " at offset ", offset, " are not all in it"));
  int file = state_->driver()->memoryFile();
  if (file < 0) return unimplemented("devices of the driver '" + info().driver + "' have no memory to map");
  int copy = ::fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return resourceExhausted(base::strCat("cannot copy a file descriptor: ", std::strerror(errno)));
  return copy;
}

StatusOr<HostMemory> Device::allocateHost(int64_t bytes, const std::string& label) {
  trace::HostScope scope("Device.allocateHost");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->host().allocate(bytes, label);
}

Status Device::freeHost(const void* data) {
  trace::HostScope scope("Device.freeHost");
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->host().free(data);
}

Status Device::mapHost(void* data, int64_t bytes, const std::string& label) {
  trace::HostScope scope("Device.mapHost");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->host().map(data, bytes, label);
}

Status Device::unmapHost(const void* data) {
  trace::HostScope scope("Device.unmapHost");
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->host().unmap(data);
}

StatusOr<HostMemory> Device::importHost(int fd, int64_t offset, int64_t bytes, const std::string& label) {
  trace::HostScope scope("Device.importHost");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->host().import(fd, offset, bytes, label);
}

StatusOr<Device::SharedFile> Device::exportHost(const void* data) const {
  trace::HostScope scope("Device.exportHost");
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_ASSIGN(HostRegistry::Exported shared, state_->host().share(data));
  return SharedFile{shared.fd, shared.offset, shared.bytes};
}

StatusOr<HostMemory> Device::findHost(const void* data) const {
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->host().find(data);
}

MemoryInfo Device::memoryInfo() const {
  return check(state_).ok() ? state_->memory().info() : MemoryInfo();
}

void Device::resetPeakMemory() {
  if (check(state_).ok()) state_->memory().resetPeaks();
}

Status Device::setMemoryHooks(MemoryHooks hooks) {
  HPU_RETURN_IF_ERROR(check(state_));
  state_->memory().setHooks(std::move(hooks));
  return okStatus();
}

Status Device::setHealthHook(std::function<void(const HealthEvent&)> hook) {
  HPU_RETURN_IF_ERROR(check(state_));
  state_->health().setHook(std::move(hook));
  return okStatus();
}

std::vector<MemoryHolder> Device::memoryHolders() const {
  return check(state_).ok() ? state_->memory().holders() : std::vector<MemoryHolder>();
}

DeviceCounters Device::counters() const {
  return check(state_).ok() ? state_->driver()->counters() : DeviceCounters();
}

Status Device::checkWrite(uint64_t address, int64_t bytes) const {
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->driver()->checkWrite(address, bytes);
}

uint64_t Device::workDone() const {
  return check(state_).ok() ? state_->driver()->workDone() : 0;
}

Status Device::synchronize(int64_t deadlineMs) {
  trace::HostScope scope("Device.synchronize");
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(
      CaptureState::refuseOnThisThread(*state_, "Device::synchronize", "captured work is not done, only recorded"));
  return state_->synchronize(deadlineMs);
}

Status Device::reset(int64_t deadlineMs) {
  trace::HostScope scope("Device.reset");
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_RETURN_IF_ERROR(CaptureState::refuseOnThisThread(
      *state_, "Device::reset", "it is no work of a stream, and a replay would not reset the device again"));
  return state_->reset(deadlineMs);
}

}  // namespace hpu
