// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/DeviceMemory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/Deadline.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/ProgramCall.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "runtime/driver/Callback.h"
#include "runtime/driver/HostWindow.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/MemoryPoolState.h"

namespace hpu {
namespace {

// Between two looks whether enqueued work goes on.
constexpr std::chrono::milliseconds kLook{50};

/// Null when HPU_MEMORY_CHECK is off. Bad settings were reported when the device was opened.
std::unique_ptr<MemoryCheck> memoryCheck() {
  auto on = settings::getBool(Setting::HPU_MEMORY_CHECK);
  if (!on.ok() || !*on) return nullptr;
  auto limit = settings::getInt(Setting::HPU_MEMORY_QUARANTINE);
  return std::make_unique<MemoryCheck>(limit.ok() ? *limit : 0);
}

}  // namespace

DeviceMemory::DeviceMemory(driver::DriverDevice& driver)
    : driver_(driver), allocator_(driver.memory().base, driver.memory().bytes), check_(memoryCheck()) {}

/// Under the lock. Memory that the checker keeps is given up before an allocation fails.
StatusOr<uint64_t> DeviceMemory::tryAllocate(int64_t bytes, const std::string& label, uint64_t requested) {
  auto attempt = [&] {
    return requested == 0 ? allocator_.allocate(bytes, label) : allocator_.allocateAt(requested, bytes, label);
  };
  auto address = attempt();
  if (address.ok() || !check_ || check_->quarantinedBytes() == 0) return address;
  for (const MemoryCheck::Block& block : check_->release()) freeNow(block.address);
  return attempt();
}

std::shared_ptr<const MemoryHooks> DeviceMemory::hooks() const {
  std::lock_guard lock(mutex_);
  return hooks_;
}

void DeviceMemory::setHooks(MemoryHooks hooks) {
  const bool any = hooks.allocated || hooks.freed || hooks.outOfMemory;
  auto now = any ? std::make_shared<const MemoryHooks>(std::move(hooks)) : nullptr;
  std::lock_guard lock(mutex_);
  hooks_.swap(now);  // The old ones are destroyed after the lock.
}

void DeviceMemory::resetPeaks() {
  std::lock_guard lock(mutex_);
  allocator_.resetPeaks();
}

void DeviceMemory::addPool(const std::shared_ptr<MemoryPoolState>& pool) {
  std::lock_guard lock(mutex_);
  std::erase_if(pools_, [](const auto& entry) { return entry.expired(); });
  pools_.push_back(pool);
}

/// Under the lock, which it gives up meanwhile: pools give back what nothing uses; false when that was nothing.
bool DeviceMemory::trimPools(std::unique_lock<std::mutex>& lock) {
  if (pools_.empty()) return false;
  const auto known = pools_;
  lock.unlock();
  int64_t freed = 0;
  for (const auto& entry : known)
    if (auto pool = entry.lock()) freed += pool->trim(0);
  lock.lock();
  return freed > 0;
}

StatusOr<uint64_t> DeviceMemory::allocate(int64_t bytes, const AllocateOptions& options, bool askHook) {
  auto address = allocateOrWait(bytes, options);
  auto told = hooks();
  if (!told) return address;
  // What the hook allocates itself does not ask it again.
  static thread_local bool asking = false;
  for (int attempt = 0; askHook && !asking && attempt < kMostHookAttempts && told->outOfMemory && !address.ok();
       ++attempt) {
    if (address.status().code() != StatusCode::kResourceExhausted) break;
    asking = true;
    bool isFreed = false;
    base::callProgramOrLog("MemoryHooks::outOfMemory", [&] { isFreed = told->outOfMemory(bytes); });
    asking = false;
    if (!isFreed) break;
    address = allocateOrWait(bytes, options);
  }
  if (address.ok() && told->allocated)
    base::callProgramOrLog("MemoryHooks::allocated", [&] { told->allocated(*address, bytes, options.label); });
  return address;
}

StatusOr<uint64_t> DeviceMemory::allocateOrWait(int64_t bytes, const AllocateOptions& options) {
  const std::string& label = options.label;
  const uint64_t requested = options.requestedAddress;
  std::unique_lock lock(mutex_);
  auto address = tryAllocate(bytes, label, requested);
  // Memory that is full or taken may be free when the work that holds it is done.
  auto mayCome = [&] {
    if (address.ok() || bytes > allocator_.info().totalBytes) return false;
    return address.status().code() == StatusCode::kResourceExhausted ||
           (address.status().code() == StatusCode::kAlreadyExists && !shownWithin(requested, bytes));
  };
  while (mayCome() && trimPools(lock)) address = tryAllocate(bytes, label, requested);
  // Work that runs in this very thread frees nothing while the thread waits.
  const Callback callback = currentCallback();
  const bool mayWait = options.wait && (callback == Callback::kNone || callback == Callback::kFunction);
  if (!mayWait || !mayCome()) return address;
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(-1));
  using Clock = base::Deadline::Clock;
  Clock::time_point stands = Clock::now();  // Since when nothing was seen to go on.
  uint64_t steps = 0;
  bool gaveUp = false;
  ++waiting_;
  while (true) {
    // Once more, now that ends of work are told: some may have passed unnoticed.
    address = tryAllocate(bytes, label, requested);
    while (mayCome() && trimPools(lock)) address = tryAllocate(bytes, label, requested);
    if (!mayCome() || workInFlight_.load() == 0) break;
    const uint64_t seen = changes_;
    lock.unlock();  // What the driver asks may take locks of its own.
    const driver::DriverDevice::Motion motion = driver_.motion();
    lock.lock();
    if (motion.running || motion.steps != std::exchange(steps, motion.steps)) stands = Clock::now();
    gaveUp = Clock::now() - stands >= kPatience;
    if (gaveUp || deadline.expired()) break;
    changed_.wait_until(lock, std::min(deadline.time(), Clock::now() + kLook), [&] { return changes_ != seen; });
    if (changes_ != seen) stands = Clock::now();
  }
  --waiting_;
  if (address.ok() || !gaveUp) return address;
  return Status(address.status().code(),
                base::strCat(address.status().message(),
                             "; memory that enqueued work still holds was waited for in vain: the work stands behind "
                             "external work or a wait, and nothing has advanced for ",
                             kPatience.count(), " ms"));
}

void DeviceMemory::free(uint64_t address, int64_t bytes, int64_t capacity) {
  // Before: a program that keeps a list by addresses sees no address twice.
  if (auto told = hooks(); told && told->freed)
    base::callProgramOrLog("MemoryHooks::freed", [&] { told->freed(address, bytes); });
  if (!check_) {
    std::lock_guard lock(mutex_);
    freeNow(address);
    return;
  }
  // No other thread has the block yet, so no lock is needed.
  Status status = driver_.poison(address, capacity);
  if (!status.ok()) HPU_LOG(kWarning, status.message());
  std::lock_guard lock(mutex_);
  for (const MemoryCheck::Block& block : check_->quarantine({address, capacity})) freeNow(block.address);
  // Threads that wait for free memory may take what is kept.
  ++changes_;
  changed_.notify_all();
}

/// Under the lock.
void DeviceMemory::freeNow(uint64_t address) {
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

void DeviceMemory::show(const std::shared_ptr<BufferState>& buffer, const std::string& label) {
  uint64_t end = buffer->address() + static_cast<uint64_t>(buffer->capacity());
  std::lock_guard lock(mutex_);
  shown_.insert_or_assign(buffer->address(), Shown{buffer, end});
  if (check_) check_->allocated(buffer->address(), buffer->bytes(), label);
}

void DeviceMemory::hide(uint64_t address) {
  std::lock_guard lock(mutex_);
  shown_.erase(address);
  if (check_) check_->freed(address);
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
  if (driver::isInHost(address))
    return notFound(base::strCat(what, ": ", base::formatHex(address),
                                 " is a device address of host memory, which is no Buffer: inputs and outputs of "
                                 "launches, fills and copies on the device take it; here memory of Device::allocate is "
                                 "needed"));
  std::shared_ptr<BufferState> buffer;  // Let go after the lock: it may be the last handle.
  std::lock_guard lock(mutex_);
  auto next = shown_.upper_bound(address);
  if (next != shown_.begin()) buffer = std::prev(next)->second.buffer.lock();
  const uint64_t offset = buffer ? address - buffer->address() : 0;
  const bool inside = buffer && offset < static_cast<uint64_t>(buffer->bytes());
  if (inside && bytes >= 0 && bytes <= buffer->bytes() - static_cast<int64_t>(offset)) return buffer;
  if (check_) return check_->explain(address, bytes, what);
  if (!inside)
    return notFound(base::strCat(
        what, ": the program has no allocation on device ", driver_.info().index, " that contains ",
        base::formatHex(address), allocator_.describeBelow(address),
        allocator_.holds(address) ? ", which it has freed (enqueued work still uses it) or which is the runtime's own"
                                  : ""));
  return outOfRange(base::strCat(what, ": ", bytes, " bytes at ", base::formatHex(address),
                                 " go past the end of an allocation", allocator_.describeBelow(address)));
}

MemoryInfo DeviceMemory::info() const {
  std::lock_guard lock(mutex_);
  MemoryInfo info = allocator_.info();
  if (check_) info.quarantinedBytes = check_->quarantinedBytes();
  return info;
}

std::vector<MemoryHolder> DeviceMemory::holders() const {
  std::lock_guard lock(mutex_);
  return allocator_.holders();
}

void DeviceMemory::workEnded() {
  workInFlight_.fetch_sub(1);
  if (waiting_.load() == 0) return;
  std::lock_guard lock(mutex_);
  ++changes_;
  changed_.notify_all();
}

}  // namespace hpu
