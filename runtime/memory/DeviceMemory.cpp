// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/DeviceMemory.h"

#include "base/Deadline.h"
#include "base/Log.h"
#include "base/StatusMacros.h"

namespace hpu {

DeviceMemory::DeviceMemory(driver::DriverDevice& driver)
    : driver_(driver), allocator_(driver.memory().base, driver.memory().bytes) {}

StatusOr<uint64_t> DeviceMemory::allocate(int64_t bytes, const std::string& label) {
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(-1));
  std::unique_lock lock(mutex_);
  while (true) {
    auto address = allocator_.allocate(bytes, label);
    if (address.ok() || address.status().code() != StatusCode::kResourceExhausted) return address;
    if (workInFlight_ == 0 || bytes > allocator_.info().totalBytes) return address;
    uint64_t seen = changes_;
    if (!changed_.wait_until(lock, deadline.time(), [&] { return changes_ != seen; }))
      return address;
  }
}

void DeviceMemory::free(uint64_t address) {
  std::lock_guard lock(mutex_);
  freedBytes_ += allocator_.free(address);
  if (freedBytes_ > kKeptBytes) giveBack();
  ++changes_;
  changed_.notify_all();
}

/// Under the lock: nobody may be given a block while its pages go.
void DeviceMemory::giveBack() {
  freedBytes_ = 0;
  for (const HbmAllocator::Block& block : allocator_.freeBlocks()) {
    Status status = driver_.discard(block.address, block.bytes);
    if (!status.ok()) HPU_LOG(kWarning, status.message());
  }
}

MemoryInfo DeviceMemory::info() const {
  std::lock_guard lock(mutex_);
  return allocator_.info();
}

void DeviceMemory::workBegins() {
  std::lock_guard lock(mutex_);
  ++workInFlight_;
}

void DeviceMemory::workEnded() {
  std::lock_guard lock(mutex_);
  --workInFlight_;
  ++changes_;
  changed_.notify_all();
}

}  // namespace hpu
