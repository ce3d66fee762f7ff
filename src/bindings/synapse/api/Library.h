// SPDX-License-Identifier: Apache-2.0
// Library: the state of libSynapse in this process: whether it is up, its devices, streams and events.
// The one thing to know: it lives as long as the process; synDestroy empties it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "bindings/synapse/api/Handles.h"
#include "bindings/synapse/api/Result.h"
#include "bindings/synapse/device/DeviceObject.h"
#include "habanalabs/synapse_api.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"

namespace hpu::synapse {

struct StreamObject {
  std::shared_ptr<DeviceObject> device;
  hpu::Stream stream;
  std::atomic<uint64_t> affinity{0};
};

/// An event; one that was given to synEventMapTensor also stands for a tensor of a recipe.
struct EventObject {
  std::shared_ptr<DeviceObject> device;
  hpu::Event event;
  bool collectsTime = false;
  std::atomic<bool> recorded{false};
  /// Guards mappedRecipe and mappedTensor: the recipe's own number (0: not mapped) and the tensor's id in it.
  std::mutex mutex;
  uint64_t mappedRecipe = 0, mappedTensor = 0;
};

/// As many as a process may have at a time: a program that leaks them learns of it before the host has no memory left.
inline constexpr size_t kMaxStreams = 1024, kMaxEvents = size_t{1} << 18;

Handles<StreamObject, synStreamHandle>& streams();
Handles<EventObject, synEventHandle>& events();

/// Any thread may call anything.
class Library {
 public:
  static Library& get();

  /// synSuccess between synInitialize and synDestroy; synUninitialized; synSynapseTerminated.
  synStatus state() const noexcept { return state_.load(std::memory_order_acquire); }
  Result initialize();
  /// Waits for the devices' work, no longer than HPU_WAIT_TIMEOUT_MS for all of them; meanwhile the library counts as
  /// uninitialized, and may be initialized again.
  Result destroy();
  /// Fails what is queued and releases the devices; state() is synSynapseTerminated then.
  void terminate();

  /// The device that a caller's id means: while the process holds one device, that one, whatever the id (programs pass
  /// their rank, or a number that they were told by something else); else the one that synDeviceAcquire* gave this id
  /// to. Null when there is none; missingDevice() names the id and those that are valid.
  std::shared_ptr<DeviceObject> findDevice(synDeviceId id) const;
  Result missingDevice(synDeviceId id) const;
  /// Whether it is still acquired. A function that has made an object of a device looks once more when the object can
  /// be found by a release: else the device may be gone and the object would hold it.
  bool owns(const std::shared_ptr<DeviceObject>& device) const { return findDevice(device->id()) == device; }
  std::vector<std::shared_ptr<DeviceObject>> devices() const;
  Result acquire(const DeviceOptions& options, synDeviceId* id);
  /// What the calling thread acquired last, as long as it is; else null.
  std::shared_ptr<DeviceObject> deviceOfThread() const;
  /// Waits for its work first; a failure of the work is logged, and the device released all the same.
  Result release(synDeviceId id);

  /// `hook` is called with each device that is released, while its memory is still there: whoever keeps objects of
  /// a device (executables, say) lets go of them.
  void addReleaseHook(std::function<void(const DeviceObject&)> hook);

 private:
  Library() = default;
  static void childAfterFork() noexcept;
  void releaseObjects(const std::shared_ptr<DeviceObject>& device);
  /// Under lifeMutex_, without waiting: the devices, of which nobody knows any more.
  std::vector<std::shared_ptr<DeviceObject>> releaseAll();

  std::atomic<synStatus> state_{synUninitialized};
  std::mutex lifeMutex_;                                // Held while objects come and go, never during a wait for work.
  mutable std::shared_mutex mutex_;                     // Guards the two below.
  std::vector<std::shared_ptr<DeviceObject>> devices_;  ///< By synDeviceId; null: free.
  std::vector<std::function<void(const DeviceObject&)>> releaseHooks_;
  bool hooked_ = false;  ///< childAfterFork is registered; guarded by lifeMutex_.
};

}  // namespace hpu::synapse

/// `SYN_FIND_DEVICE(device, deviceId)`: a std::shared_ptr<DeviceObject>, or the body's end.
#define SYN_FIND_DEVICE(name, id)                            \
  auto name = ::hpu::synapse::Library::get().findDevice(id); \
  if (!name) return ::hpu::synapse::Library::get().missingDevice(id)
