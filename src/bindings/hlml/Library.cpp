// SPDX-License-Identifier: Apache-2.0
#include "bindings/hlml/Library.h"

#include <ctime>
#include <utility>

#include "base/AtFork.h"
#include "base/CopyText.h"

namespace hpu::hlml {
namespace {

// Readings of one device that follow each other faster share their window.
constexpr int64_t kLeastWindowNs = 100'000'000;

// A handle is generation | mark | index, so that one of an earlier initialisation is known as such.
constexpr uintptr_t kMark = 0x80;

}  // namespace

int64_t monotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

hlml_return_t checkInitialized() {
  return Library::get().generation() ? HLML_SUCCESS : HLML_ERROR_UNINITIALIZED;
}

hlml_return_t codeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return HLML_SUCCESS;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return HLML_ERROR_INVALID_ARGUMENT;
    case StatusCode::kNotFound:
      return HLML_ERROR_NOT_FOUND;
    case StatusCode::kFailedPrecondition:
      return HLML_ERROR_NO_DATA;
    case StatusCode::kDeadlineExceeded:
      return HLML_ERROR_TIMEOUT;
    case StatusCode::kUnimplemented:
    case StatusCode::kPermissionDenied:
      return HLML_ERROR_NOT_SUPPORTED;
    case StatusCode::kResourceExhausted:
      return HLML_ERROR_MEMORY;
    default:
      return HLML_ERROR_UNKNOWN;
  }
}

hlml_return_t copyText(std::string_view text, char* to, unsigned int length) {
  if (!to) return HLML_ERROR_INVALID_ARGUMENT;
  return base::copyText(text, to, length) ? HLML_SUCCESS : HLML_ERROR_INSUFFICIENT_SIZE;
}

Library::Library() {
  access_.all = [] { return node::query(); };
  access_.one = [](int index) { return node::query(index); };
  access_.inject = [](int index, node::Fault fault, int count) { return node::inject(index, fault, count); };
  access_.nowNs = monotonicNs;
  // A forked child finds the lock free, whatever a monitor's thread was doing. Nothing else is locked under it.
  static constexpr base::ForkHandlers kHandlers = {[] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                                                   [] { get().mutex_.unlock(); }};
  base::atFork(base::ForkRank::kMonitor, kHandlers);
}

Library& Library::get() {
  // Never destroyed: a monitor's thread may still be asking while the process ends.
  static Library* library = new Library;
  return *library;
}

void Library::setNodeAccess(NodeAccess access) {
  std::lock_guard lock(mutex_);
  access_ = std::move(access);
}

NodeAccess Library::access() const {
  std::lock_guard lock(mutex_);
  return access_;
}

hlml_return_t Library::initialize() {
  if (generation()) return HLML_ERROR_ALREADY_INITIALIZED;
  StatusOr<node::NodeStatus> status = access().all();
  if (!status.ok()) return HLML_ERROR_DRIVER_NOT_LOADED;
  std::lock_guard lock(mutex_);
  if (initialized_) return HLML_ERROR_ALREADY_INITIALIZED;
  ++generation_;
  initialized_ = true;
  devices_ = 0;
  for (node::DeviceStatus& device : status->devices) {
    if (devices_ == node::kDevices) break;
    samples_[devices_++] = {device, std::move(device), access_.nowNs()};
  }
  return HLML_SUCCESS;
}

hlml_return_t Library::shutdown() {
  std::lock_guard lock(mutex_);
  if (!initialized_) return HLML_ERROR_UNINITIALIZED;
  initialized_ = false;
  return HLML_SUCCESS;
}

uint64_t Library::generation() const {
  std::lock_guard lock(mutex_);
  return initialized_ ? generation_ : 0;
}

hlml_return_t Library::nodeStatus(node::NodeStatus& status) const {
  HLML_RETURN_IF_ERROR(checkInitialized());
  StatusOr<node::NodeStatus> now = access().all();
  if (!now.ok()) return codeOf(now.status());
  status = *std::move(now);
  return HLML_SUCCESS;
}

hlml_device_t Library::handleOf(int index) const {
  std::lock_guard lock(mutex_);
  return reinterpret_cast<hlml_device_t>(generation_ << 8 | kMark | static_cast<uintptr_t>(index));
}

hlml_return_t Library::indexOf(hlml_device_t device, int& index) const {
  std::lock_guard lock(mutex_);
  if (!initialized_) return HLML_ERROR_UNINITIALIZED;
  auto value = reinterpret_cast<uintptr_t>(device);
  auto low = value & 0xff;
  if (value >> 8 != generation_ || low < kMark || low - kMark >= static_cast<uintptr_t>(devices_))
    return HLML_ERROR_INVALID_ARGUMENT;
  index = static_cast<int>(low - kMark);
  return HLML_SUCCESS;
}

hlml_return_t Library::deviceStatus(hlml_device_t device, node::DeviceStatus& status) const {
  int index = 0;
  HLML_RETURN_IF_ERROR(indexOf(device, index));
  StatusOr<node::DeviceStatus> now = access().one(index);
  if (!now.ok()) return codeOf(now.status());
  status = *std::move(now);
  return HLML_SUCCESS;
}

hlml_return_t Library::aliveStatus(hlml_device_t device, node::DeviceStatus& status) const {
  HLML_RETURN_IF_ERROR(deviceStatus(device, status));
  if (status.lost) return HLML_ERROR_AIP_IS_LOST;
  // An owner that is stopped and never answered: nothing is known of the device but the owner.
  if (status.owner.pid != 0 && status.updatedAtNs == 0) return HLML_ERROR_NO_DATA;
  return HLML_SUCCESS;
}

hlml_return_t Library::readings(hlml_device_t device, telemetry::Readings& readings) {
  node::DeviceStatus now;
  HLML_RETURN_IF_ERROR(aliveStatus(device, now));
  int index = 0;
  HLML_RETURN_IF_ERROR(indexOf(device, index));
  std::lock_guard lock(mutex_);
  Samples& samples = samples_[index];
  int64_t atNs = access_.nowNs();
  if (atNs - samples.latestAtNs >= kLeastWindowNs) {
    samples.base = std::move(samples.latest);
    samples.latest = now;
    samples.latestAtNs = atNs;
  }
  readings = telemetry::read(samples.base, now);
  return HLML_SUCCESS;
}

hlml_return_t Library::inject(hlml_device_t device, node::Fault fault) const {
  int index = 0;
  HLML_RETURN_IF_ERROR(indexOf(device, index));
  return codeOf(access().inject(index, fault, 1));
}

}  // namespace hpu::hlml
