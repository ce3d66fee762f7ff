// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/DeviceMemory.h"

#include <iterator>

#include "base/Deadline.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/StatusMacros.h"
#include "runtime/memory/BufferState.h"

namespace hpu {

DeviceMemory::DeviceMemory(driver::DriverDevice& driver)
    : driver_(driver), allocator_(driver.memory().base, driver.memory().bytes) {}

StatusOr<uint64_t> DeviceMemory::allocate(int64_t bytes, const std::string& label,
                                          uint64_t requested) {
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(-1));
  std::unique_lock lock(mutex_);
  while (true) {
    auto address = requested == 0 ? allocator_.allocate(bytes, label)
                                  : allocator_.allocateAt(requested, bytes, label);
    // Memory that is full or taken may be free when the work that holds it is done.
    if (address.ok() || (address.status().code() != StatusCode::kResourceExhausted &&
                         address.status().code() != StatusCode::kAlreadyExists))
      return address;
    if (requested != 0 && shownWithin(requested, bytes)) return address;
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

void DeviceMemory::show(const std::shared_ptr<BufferState>& buffer) {
  std::lock_guard lock(mutex_);
  uint64_t end = buffer->address() + static_cast<uint64_t>(buffer->capacity());
  shown_.insert_or_assign(buffer->address(), Shown{buffer, end});
}

void DeviceMemory::hide(uint64_t address) {
  std::lock_guard lock(mutex_);
  shown_.erase(address);
}

/// Does the program hold memory in the range, which no work will free?
bool DeviceMemory::shownWithin(uint64_t address, int64_t bytes) const {
  auto next = shown_.lower_bound(address + static_cast<uint64_t>(bytes));
  return next != shown_.begin() && std::prev(next)->second.end > address;
}

StatusOr<std::shared_ptr<BufferState>> DeviceMemory::find(uint64_t address) const {
  return find(address, 0, "find");
}

StatusOr<std::shared_ptr<BufferState>> DeviceMemory::find(uint64_t address, int64_t bytes,
                                                          std::string_view what) const {
  std::shared_ptr<BufferState> buffer;  // Let go after the lock: it may be the last handle.
  std::lock_guard lock(mutex_);
  auto next = shown_.upper_bound(address);
  if (next != shown_.begin()) buffer = std::prev(next)->second.buffer.lock();
  const uint64_t offset = buffer ? address - buffer->address() : 0;
  if (!buffer || offset >= static_cast<uint64_t>(buffer->bytes()))
    return notFound(base::strCat(what, ": no allocation of device ", driver_.info().index,
                                 " contains ", base::formatHex(address),
                                 allocator_.describeBelow(address)));
  if (bytes < 0 || bytes > buffer->bytes() - static_cast<int64_t>(offset))
    return outOfRange(base::strCat(what, ": ", bytes, " bytes at ", base::formatHex(address),
                                   " do not lie in one allocation",
                                   allocator_.describeBelow(address)));
  return buffer;
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
