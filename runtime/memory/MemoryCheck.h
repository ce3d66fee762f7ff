// SPDX-License-Identifier: Apache-2.0
// MemoryCheck: what the device-memory checker (HPU_MEMORY_CHECK) remembers: who had which memory
// and when, and the freed blocks that it keeps from being used again. The one thing to know: it is
// plain bookkeeping without a lock; DeviceMemory has the lock, and no MemoryCheck at all when the
// setting is off.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "runtime/memory/HbmAllocator.h"

namespace hpu {

/// Not thread-safe.
class MemoryCheck {
 public:
  using Block = HbmAllocator::Block;

  explicit MemoryCheck(int64_t quarantineLimit);

  /// The program has, or no longer has, an allocation. Called on its thread, which the history
  /// names.
  void allocated(uint64_t address, int64_t bytes, const std::string& label);
  void freed(uint64_t address);

  /// What is wrong with an access to `bytes` at `address` that do not lie in one live allocation:
  /// kNotFound (freed, or never allocated) or kOutOfRange, with the history of the allocation that
  /// was meant. `what` begins the message.
  Status explain(uint64_t address, int64_t bytes, std::string_view what) const;

  /// Keeps a freed block; returns the blocks that have waited long enough, oldest first.
  std::vector<Block> quarantine(Block block);
  /// All of them, because memory is short.
  std::vector<Block> release();
  int64_t quarantinedBytes() const { return quarantinedBytes_; }

  /// Freed allocations that are remembered.
  static constexpr size_t kHistory = 4096;
  /// An address so far behind an allocation or less is taken for an overrun of it.
  static constexpr uint64_t kOverrun = 4096;

 private:
  using Clock = std::chrono::steady_clock;
  struct Moment {
    Clock::time_point time;
    int64_t thread = 0;
  };
  struct Record {
    uint64_t address = 0;
    int64_t bytes = 0;
    std::string label;
    uint64_t number = 0;  ///< Of the device's allocations, from 1.
    Moment allocated, freed;
  };
  static Moment now();
  std::string text(const Moment& moment) const;
  std::string text(const Record& record) const;

  const int64_t quarantineLimit_;
  const Clock::time_point opened_ = Clock::now();
  uint64_t count_ = 0;
  std::map<uint64_t, Record> live_;  ///< By address.
  std::deque<Record> dead_;          ///< The last ones freed, oldest first.
  std::deque<Block> quarantine_;     ///< Oldest first.
  int64_t quarantinedBytes_ = 0;
};

}  // namespace hpu
