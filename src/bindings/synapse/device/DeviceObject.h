// SPDX-License-Identifier: Apache-2.0
// DeviceObject: what libSynapse keeps of a device that this process has acquired.
// The one thing to know: it owns the memory that synDeviceMalloc gave, until synDeviceFree or the release.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "bindings/synapse/api/Result.h"
#include "bindings/synapse/device/AddressOrder.h"
#include "bindings/synapse/device/DeviceFile.h"
#include "bindings/synapse/device/HostMappings.h"
#include "habanalabs/synapse_api.h"
#include "hpu/device.h"
#include "hpu/memory.h"

namespace hpu::synapse {

/// Any thread may call anything.
class DeviceObject {
 public:
  DeviceObject(synDeviceId id, hpu::Device device, bool ordersByAddress)
      : id_(id), device_(std::move(device)), order_(ordersByAddress) {}

  synDeviceId id() const { return id_; }
  const hpu::Device& device() const { return device_; }
  /// What synDeviceInfo calls fd: an open descriptor, or the id when the process had none left.
  uint32_t descriptor() const { return file_.descriptor() < 0 ? id_ : static_cast<uint32_t>(file_.descriptor()); }
  HostMappings& mappings() { return mappings_; }
  AddressOrder& order() { return order_; }

  /// Keeps `buffer` until free() of its address.
  void keep(hpu::Buffer buffer);
  /// Errors: synInvalidArgument, saying what the address is instead of the start of an allocation.
  Result free(uint64_t address);
  void freeAll();
  /// Counts up, for those who spread streams over queues.
  uint64_t nextAffinity() { return affinities_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const synDeviceId id_;
  const hpu::Device device_;
  const DeviceFile file_;
  HostMappings mappings_;
  AddressOrder order_;
  std::atomic<uint64_t> affinities_{0};
  std::mutex mutex_;                         // Guards buffers_.
  std::map<uint64_t, hpu::Buffer> buffers_;  ///< By address.
};

}  // namespace hpu::synapse
