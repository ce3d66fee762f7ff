// SPDX-License-Identifier: Apache-2.0
// DeviceMemory: the allocator of an open device, shared by all threads.
// The one thing to know: an allocation that does not fit waits for the work that is enqueued, whose
// end may free what it needs, before it fails; no longer than that work goes on, since the caller may be
// who it stands still for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/device.h"
#include "hpu/status.h"
#include "runtime/driver/Driver.h"
#include "runtime/memory/HbmAllocator.h"
#include "runtime/memory/MemoryCheck.h"

namespace hpu {

class BufferState;
class MemoryPoolState;

/// Any thread may call anything.
class DeviceMemory {
 public:
  /// Reads HPU_MEMORY_CHECK and HPU_MEMORY_QUARANTINE.
  explicit DeviceMemory(driver::DriverDevice& driver);

  /// Takes what the device's pools do not use before anything else. Unless the options say otherwise waits for enqueued
  /// work as long as it runs, and for kPatience more when all of it stands behind external work (or a wait) that does
  /// not advance; asks the program's hook after that. Errors: as HbmAllocator::allocate and, with a requested address,
  /// allocateAt. Without `askHook` the program's hook is not asked when memory is full.
  StatusOr<uint64_t> allocate(int64_t bytes, const AllocateOptions& options, bool askHook = true);
  /// A pool that gives up what it does not use when memory is full.
  void addPool(const std::shared_ptr<MemoryPoolState>& pool);
  /// Around a reset of the device, which drops the waits that the order of what was freed to pools rests on.
  void resetBegins() noexcept {
    ++resetting_;
    ++resets_;
  }
  void resetEnds() noexcept {
    ++resets_;
    --resetting_;
  }
  bool isResetting() const { return resetting_ > 0; }
  /// Counts beginnings and ends of resets.
  uint64_t resets() const { return resets_; }
  /// `bytes` as asked for.
  void free(uint64_t address, int64_t bytes, int64_t capacity);
  MemoryInfo info() const;
  void resetPeaks();
  void setHooks(MemoryHooks hooks);
  std::vector<MemoryHolder> holders() const;

  /// From now on the program's buffer is found by the addresses in it, until hide(), which its end
  /// calls.
  void show(const std::shared_ptr<BufferState>& buffer, const std::string& label);
  void hide(uint64_t address);
  /// The shown buffer that contains the address. Errors: kNotFound.
  StatusOr<std::shared_ptr<BufferState>> find(uint64_t address) const;
  /// The same with room for `bytes` from there. Errors: also kOutOfRange. `what` begins the
  /// message.
  StatusOr<std::shared_ptr<BufferState>> find(uint64_t address, int64_t bytes, std::string_view what) const;
  /// Wrong accesses are to be errors of the stream (HPU_MEMORY_CHECK).
  bool checks() const { return check_ != nullptr; }

  /// Work was enqueued that may hold buffers, or was done and has released them.
  void workBegins() { workInFlight_.fetch_add(1); }
  void workEnded();

  static constexpr std::chrono::milliseconds kPatience{2000};
  /// Freed bytes that stay with the host's pages, for reuse without page faults. Beyond it all free
  /// blocks go back to the host.
  static constexpr int64_t kKeptBytes = 256 << 20;
  /// Of the program's hook for memory that is full.
  static constexpr int kMostHookAttempts = 64;

 private:
  StatusOr<uint64_t> allocateOrWait(int64_t bytes, const AllocateOptions& options);
  std::shared_ptr<const MemoryHooks> hooks() const;
  StatusOr<uint64_t> tryAllocate(int64_t bytes, const std::string& label, uint64_t requested);
  bool trimPools(std::unique_lock<std::mutex>& lock);
  void freeNow(uint64_t address);
  void giveBack();
  bool shownWithin(uint64_t address, int64_t bytes) const;

  driver::DriverDevice& driver_;
  std::atomic<int64_t> workInFlight_{0};
  std::atomic<int> waiting_{0};  ///< Threads in allocate that wait for work to end.
  std::atomic<int> resetting_{0};
  std::atomic<uint64_t> resets_{0};

  mutable std::mutex mutex_;  // Guards everything below.
  std::condition_variable changed_;
  HbmAllocator allocator_;
  struct Shown {
    std::weak_ptr<BufferState> buffer;
    uint64_t end = 0;  ///< Behind its capacity.
  };
  std::map<uint64_t, Shown> shown_;  ///< By address.
  std::vector<std::weak_ptr<MemoryPoolState>> pools_;
  std::unique_ptr<MemoryCheck> check_;        ///< The pointer itself never changes.
  std::shared_ptr<const MemoryHooks> hooks_;  ///< Null: none.
  uint64_t changes_ = 0;                      ///< Counts frees, and ends of work that a thread waits for.
  int64_t freedBytes_ = 0;                    ///< Since the last giveBack.
};

}  // namespace hpu
