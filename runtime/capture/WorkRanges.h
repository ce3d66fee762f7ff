// SPDX-License-Identifier: Apache-2.0
// The memory that captured work uses: its ranges, and what keeps each of them alive.
// The one thing to know: what keeps memory alive is listed apart from what keeps anything else alive, so that memory
// which nothing uses any more after a rebind is let go.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/FunctionRef.h"
#include "hpu/external_work.h"
#include "runtime/driver/Driver.h"

namespace hpu {

class DeviceState;
class Instance;

/// What a captured operation keeps alive.
struct KeptOwner {
  std::shared_ptr<const void> owner;
  uint64_t address = 0;  ///< Of the memory that it is, on the device or the host.
  int64_t bytes = 0;     ///< 0: it is none, or none that could be told.
  bool host = false;
};

/// A range that an operation uses: its address, which may be changed, and its bytes.
using WorkRange = base::FunctionRef<void(uint64_t& address, int64_t bytes)>;

/// `instance` is what a launch runs; null: `work` is none.
void forEachDeviceRange(driver::Work& work, const Instance* instance, WorkRange range);
void forEachDeviceRange(std::vector<WorkMemory>& memory, WorkRange range);
enum class HostSide : uint8_t { kSource, kDestination };
void forEachHostRange(driver::Work& work, HostSide side, WorkRange range);

bool rangesMeet(uint64_t a, int64_t aBytes, uint64_t b, int64_t bBytes);

/// Owners that were found to be memory, by their pointers.
using KnownMemory = std::unordered_map<const void*, KeptOwner>;
/// Finds out which of `owners` are memory that `work` uses, for itself and for later work of the same
/// capture. Takes the locks of the device's memory and of its host memory.
std::vector<KeptOwner> tellMemory(DeviceState& device, driver::Work& work, const Instance* instance,
                                  driver::Owners owners, KnownMemory& known);
/// Drops the memory that neither `work` nor `memory` is.
void dropUnused(driver::Work& work, const Instance* instance, std::vector<WorkMemory>& memory,
                std::vector<KeptOwner>& owners);

}  // namespace hpu
