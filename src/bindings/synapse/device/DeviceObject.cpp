// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/device/DeviceObject.h"

#include "base/Format.h"

namespace hpu::synapse {

void DeviceObject::keep(hpu::Buffer buffer) {
  uint64_t address = buffer.address();
  std::lock_guard lock(mutex_);
  buffers_.insert_or_assign(address, std::move(buffer));
}

Result DeviceObject::free(uint64_t address) {
  hpu::Buffer gone;  // Ends outside the lock.
  std::lock_guard lock(mutex_);
  auto after = buffers_.upper_bound(address);
  if (after == buffers_.begin()) return badArgument("device address " + base::formatHex(address) + " is not allocated");
  auto found = std::prev(after);
  if (found->first == address) {
    gone = std::move(found->second);
    buffers_.erase(found);
    return {};
  }
  const hpu::Buffer& before = found->second;
  uint64_t inside = address - before.address();
  if (inside < static_cast<uint64_t>(before.size()))
    return badArgument(base::strCat("device address ", base::formatHex(address), " is ", inside,
                                    " bytes inside the allocation at ", base::formatHex(before.address()),
                                    "; free that address"));
  return badArgument("device address " + base::formatHex(address) + " is not allocated");
}

void DeviceObject::freeAll() {
  std::map<uint64_t, hpu::Buffer> gone;
  std::lock_guard lock(mutex_);
  gone.swap(buffers_);
}

}  // namespace hpu::synapse
