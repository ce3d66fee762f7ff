// SPDX-License-Identifier: Apache-2.0
// MemoryTable: the memory that peers may reach, by key.
// The one thing to know: a packet touches memory only through find(), which is asked again for each packet; so nothing
// is touched once remove() has returned. Not thread-safe: it has the lock of the queue pairs that use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "hpu/status.h"

namespace hpu::roce {

struct Access {
  bool read = false, write = false, atomic = false;
};

class MemoryTable {
 public:
  /// `host` has the `bytes` that peers know as `address`; it lives until remove(). The key is
  /// random, so that keys which a peer has seen tell nothing of others. Errors: kInvalidArgument (no bytes, or
  /// addresses that wrap around), kUnavailable (the system has no random numbers).
  StatusOr<uint32_t> add(std::byte* host, uint64_t address, uint64_t bytes, Access access);
  /// False: there is no such key.
  bool remove(uint32_t key) { return regions_.erase(key) > 0; }
  /// Its memory is touched no more, but who writes there does not hear of it: what a peer was told that it may write
  /// and has begun is no mistake of its. The key is there until remove(). False: there is no such key.
  bool withdraw(uint32_t key);
  /// Null unless all of the bytes are in the key's memory and all of the access is allowed. nowhere(): they were, and
  /// the access is to do nothing.
  std::byte* find(uint32_t key, uint64_t address, uint64_t bytes, Access access) const;
  static std::byte* nowhere() { return &nowhere_; }
  size_t size() const { return regions_.size(); }

 private:
  struct Region {
    std::byte* host = nullptr;
    uint64_t address = 0, bytes = 0;
    Access access;
  };
  static inline std::byte nowhere_{};  // Only its address is used.
  std::unordered_map<uint32_t, Region> regions_;
  // Random numbers of the system, some at a time.
  std::array<uint32_t, 32> random_{};
  size_t unused_ = 0;
};

}  // namespace hpu::roce
