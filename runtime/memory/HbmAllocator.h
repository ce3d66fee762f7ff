// SPDX-License-Identifier: Apache-2.0
// HbmAllocator: divides a range of device addresses; best fit with coalescing.
// The one thing to know: it is a pure planner without locks and without memory; DeviceMemory puts
// both around it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hpu/device.h"
#include "hpu/status.h"

namespace hpu {

/// Not thread-safe.
class HbmAllocator {
 public:
  /// Every address and block size is a multiple of this: one TPC vector access.
  static constexpr int64_t kAlignment = 256;

  /// Divides [base, base + bytes); base is rounded up and the end down to kAlignment.
  HbmAllocator(uint64_t base, int64_t bytes);

  /// The lowest of the smallest free blocks that fit `bytes` (> 0). Errors: kInvalidArgument;
  /// kResourceExhausted, whose message has the sizes and the largest holders by label.
  StatusOr<uint64_t> allocate(int64_t bytes, const std::string& label);
  /// Exactly at `address`, a multiple of kAlignment. Errors: kInvalidArgument, kOutOfRange (not
  /// this device's memory), kAlreadyExists (naming the holder of a part of it).
  StatusOr<uint64_t> allocateAt(uint64_t address, int64_t bytes, const std::string& label);
  /// Frees what allocate returned and gives the block's bytes; 0 when the address is not allocated.
  int64_t free(uint64_t address);

  MemoryInfo info() const;
  /// Peaks count from now on.
  void resetPeaks();

  struct Block {
    uint64_t address = 0;
    int64_t bytes = 0;
    bool operator==(const Block&) const = default;
  };
  /// In order of address; neighbours are never both in the list.
  std::vector<Block> freeBlocks() const;
  /// "; it lies in 'label', 40 bytes at 0x1000", "; the next below is ..." or nothing: for errors.
  std::string describeBelow(uint64_t address) const;
  bool holds(uint64_t address) const;
  /// Sums by label, the largest first. Of labels that hold nothing, kIdleLabels are remembered.
  std::vector<MemoryHolder> holders() const;
  static constexpr size_t kIdleLabels = 256;

 private:
  struct Use {
    int64_t bytes = 0, peak = 0, allocations = 0;
  };
  using Labels = std::unordered_map<std::string, Use>;
  struct Holding {
    int64_t bytes = 0, asked = 0;
    Labels::value_type* label = nullptr;  ///< Stays where it is as long as it has allocations.
  };
  void take(std::map<uint64_t, int64_t>::iterator block, uint64_t address, int64_t rounded, int64_t bytes,
            const std::string& label);
  std::string describe(uint64_t address, const Holding& holding) const;
  Status outOfMemory(int64_t bytes, const std::string& label) const;
  void addFree(uint64_t address, int64_t bytes);
  void removeFree(std::map<uint64_t, int64_t>::iterator block);

  uint64_t first_ = 0;  ///< Address.
  int64_t total_ = 0, used_ = 0, peak_ = 0;
  std::map<uint64_t, int64_t> freeByAddress_;
  std::set<std::pair<int64_t, uint64_t>> freeBySize_;
  std::map<uint64_t, Holding> held_;
  Labels labels_;
};

}  // namespace hpu
