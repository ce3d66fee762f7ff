// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/api/Library.h"

#include <pthread.h>

#include <algorithm>

#include "base/Abandon.h"
#include "base/Deadline.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/PerThread.h"
#include "base/Settings.h"
#include "bindings/synapse/profiler/Profiler.h"
#include "hpu/node.h"

namespace hpu::synapse {
namespace {

struct ThreadsDevice {
  std::weak_ptr<DeviceObject> object;
};

/// Whether there is such a device that nobody owns. Opening one fails with the same code when all are owned and when
/// the host cannot give it memory.
bool isFree(const DeviceOptions& options) {
  if (options.index != kAnyDevice || options.moduleId >= 0 || !options.pciAddress.empty()) return true;
  node::Answer<node::NodeStatus> node = node::query();
  return node.ok() && std::any_of(node->devices.begin(), node->devices.end(),
                                  [](const node::DeviceStatus& device) { return device.owner.pid == 0; });
}

}  // namespace

// Tables and the library are never destroyed: threads may be in entry points while the process ends.
Handles<StreamObject, synStreamHandle>& streams() {
  static auto* table = new Handles<StreamObject, synStreamHandle>(HandleKind::kStream, kMaxStreams);
  return *table;
}
Handles<EventObject, synEventHandle>& events() {
  static auto* table = new Handles<EventObject, synEventHandle>(HandleKind::kEvent, kMaxEvents);
  return *table;
}
Library& Library::get() {
  static auto* library = new Library;
  return *library;
}

Result Library::initialize() {
  std::lock_guard life(lifeMutex_);
  synStatus state = state_.load(std::memory_order_acquire);
  if (state == synSynapseTerminated)
    return {synSynapseTerminated, "synDumpStateAndTerminate ended all work; call synDestroy first"};
  if (state == synSuccess) {
    StatusOr<bool> refuse = settings::getBool(Setting::HABANA_DISABLE_DOUBLE_SYN_INITIALIZE);
    if (!refuse.ok()) return refuse.status();
    if (*refuse) return {synAlreadyInitialized, "the library is initialized already"};
    return {};
  }
  if (Status status = settings::checkAll(); !status.ok()) return status;
  if (!hooked_ && pthread_atfork(nullptr, nullptr, childAfterFork) != 0)
    return {synOutOfHostMemory, "cannot register a fork handler"};
  hooked_ = true;
  state_.store(synSuccess, std::memory_order_release);
  return {};
}

/// The child has no devices and no objects. Those that there are belong to the parent: they stay as they are, and so do
/// locks that threads of the parent may have held.
void Library::childAfterFork() noexcept {
  Library& self = get();
  base::abandon(self.lifeMutex_);
  base::abandon(self.mutex_);
  base::abandon(self.devices_);
  HandleTable::abandonAll();
}

Result Library::destroy() {
  std::vector<std::shared_ptr<DeviceObject>> gone;
  {
    std::lock_guard life(lifeMutex_);
    if (state_.load(std::memory_order_acquire) == synUninitialized) {
      StatusOr<bool> refuse = settings::getBool(Setting::HABANA_DISABLE_DOUBLE_SYN_DESTROY);
      if (!refuse.ok()) return refuse.status();
      if (*refuse) return {synUninitialized, "the library is not initialized, or destroyed already"};
      return {};
    }
    state_.store(synUninitialized, std::memory_order_release);
    gone = releaseAll();
  }
  // Without the lock: the work may take long, and other threads' calls fail meanwhile or begin anew. What fails now is
  // in the log: there is no one left to tell.
  StatusOr<base::Deadline> deadline = base::Deadline::fromMs(-1);
  for (const std::shared_ptr<DeviceObject>& device : gone) {
    hpu::Device handle = device->device();
    handle.synchronize(deadline.ok() ? deadline->remainingMs() : -1).ignore();
  }
  return {};
}

void Library::terminate() {
  std::vector<std::shared_ptr<DeviceObject>> gone;
  {
    std::lock_guard life(lifeMutex_);
    state_.store(synSynapseTerminated, std::memory_order_release);
    gone = releaseAll();
  }
  for (const std::shared_ptr<DeviceObject>& device : gone) {
    hpu::Device handle = device->device();
    handle.reset().ignore();
  }
}

std::vector<std::shared_ptr<DeviceObject>> Library::releaseAll() {
  std::vector<std::shared_ptr<DeviceObject>> gone = devices();
  for (const std::shared_ptr<DeviceObject>& device : gone) releaseObjects(device);
  HandleTable::clearAll();
  Profiler::get().reset();
  return gone;
}

std::shared_ptr<DeviceObject> Library::findDevice(synDeviceId id) const {
  std::shared_lock lock(mutex_);
  if (id < devices_.size() && devices_[id]) return devices_[id];
  std::shared_ptr<DeviceObject> only;
  for (const std::shared_ptr<DeviceObject>& device : devices_) {
    if (device && only) return nullptr;
    if (device) only = device;
  }
  return only;
}

Result Library::missingDevice(synDeviceId id) const {
  std::string valid;
  for (const std::shared_ptr<DeviceObject>& device : devices())
    valid += (valid.empty() ? "" : ", ") + std::to_string(device->id());
  return badArgument(base::strCat("this process has not acquired a device ", id,
                                  valid.empty() ? "; acquire one first" : "; it has " + valid));
}

std::vector<std::shared_ptr<DeviceObject>> Library::devices() const {
  std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<DeviceObject>> live;
  for (const std::shared_ptr<DeviceObject>& device : devices_)
    if (device) live.push_back(device);
  return live;
}

Result Library::acquire(const DeviceOptions& options, synDeviceId* id) {
  StatusOr<bool> ordersByAddress = settings::getBool(Setting::HPU_SYNAPSE_ADDRESS_ORDER);
  if (!ordersByAddress.ok()) return ordersByAddress.status();
  // Waiting for a device may take a while: without the lock.
  StatusOr<Device> device = Device::open(options);
  if (!device.ok()) {
    switch (device.status().code()) {
      case StatusCode::kNotFound:
        return {synNoDeviceFound, device.status().message()};
      case StatusCode::kResourceExhausted:
        return {isFree(options) ? synOutOfHostMemory : synNoDeviceFound, device.status().message()};
      case StatusCode::kUnavailable:
        return {synDeviceAlreadyAcquired, device.status().message()};
      case StatusCode::kFailedPrecondition:
        return {synDeviceTypeMismatch, device.status().message()};
      default:
        return device.status();
    }
  }
  std::lock_guard life(lifeMutex_);
  if (state() != synSuccess) return {state(), "the library was shut down meanwhile"};
  std::unique_lock lock(mutex_);
  size_t slot = devices_.size();
  for (size_t i = devices_.size(); i-- > 0;) {
    if (!devices_[i])
      slot = i;
    else if (devices_[i]->device().info().index == device->info().index)
      return {synDeviceAlreadyAcquired, base::strCat("this process has acquired the device at ",
                                                     device->info().pciAddress, " already, as device ", i)};
  }
  if (slot == devices_.size()) devices_.emplace_back();
  devices_[slot] = std::make_shared<DeviceObject>(static_cast<synDeviceId>(slot), std::move(*device), *ordersByAddress);
  base::perThread<ThreadsDevice>().object = devices_[slot];
  *id = static_cast<synDeviceId>(slot);
  return {};
}

std::shared_ptr<DeviceObject> Library::deviceOfThread() const {
  std::shared_ptr<DeviceObject> device = base::perThread<ThreadsDevice>().object.lock();
  return device && owns(device) ? device : nullptr;
}

Result Library::release(synDeviceId id) {
  std::shared_ptr<DeviceObject> device = findDevice(id);
  if (!device) return missingDevice(id);
  hpu::Device handle = device->device();
  Status last = handle.synchronize();  // Without the lock: it may take long.
  std::lock_guard life(lifeMutex_);
  if (findDevice(id) != device) return missingDevice(id);
  releaseObjects(device);
  if (!last.ok())
    HPU_LOG(kWarning, base::strCat("work of device ", id, " had failed when it was released: ", last.message()));
  return {};
}

void Library::releaseObjects(const std::shared_ptr<DeviceObject>& device) {
  std::vector<std::function<void(const DeviceObject&)>> hooks;
  {
    std::unique_lock lock(mutex_);
    devices_[device->id()] = nullptr;
    hooks = releaseHooks_;
  }
  for (const auto& hook : hooks) hook(*device);
  streams().removeIf([&](const StreamObject& stream) { return stream.device == device; });
  events().removeIf([&](const EventObject& event) { return event.device == device; });
  device->freeAll();
}

void Library::addReleaseHook(std::function<void(const DeviceObject&)> hook) {
  std::unique_lock lock(mutex_);
  releaseHooks_.push_back(std::move(hook));
}

}  // namespace hpu::synapse
