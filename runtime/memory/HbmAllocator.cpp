// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/HbmAllocator.h"

#include <algorithm>
#include <iterator>

#include "base/Format.h"

namespace hpu {
namespace {
constexpr size_t kHoldersInErrors = 5;
}

HbmAllocator::HbmAllocator(uint64_t base, int64_t bytes) {
  constexpr uint64_t kMask = kAlignment - 1;
  uint64_t first = (base + kMask) & ~kMask;
  uint64_t last = (base + static_cast<uint64_t>(std::max<int64_t>(bytes, 0))) & ~kMask;
  if (last > first) {
    total_ = static_cast<int64_t>(last - first);
    addFree(first, total_);
  }
}

void HbmAllocator::addFree(uint64_t address, int64_t bytes) {
  freeByAddress_.emplace(address, bytes);
  freeBySize_.emplace(bytes, address);
}

void HbmAllocator::removeFree(std::map<uint64_t, int64_t>::iterator block) {
  freeBySize_.erase({block->second, block->first});
  freeByAddress_.erase(block);
}

StatusOr<uint64_t> HbmAllocator::allocate(int64_t bytes, const std::string& label) {
  if (bytes <= 0)
    return invalidArgument(
        base::strCat("cannot allocate ", bytes, " bytes of HBM; the size must be positive"));
  if (bytes > total_) return outOfMemory(bytes, label);
  int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto best = freeBySize_.lower_bound({rounded, 0});
  if (best == freeBySize_.end()) return outOfMemory(bytes, label);
  auto block = freeByAddress_.find(best->second);
  uint64_t address = block->first;
  int64_t rest = block->second - rounded;
  removeFree(block);
  if (rest > 0) addFree(address + static_cast<uint64_t>(rounded), rest);
  held_.emplace(address, Holding{rounded, label});
  used_ += rounded;
  peak_ = std::max(peak_, used_);
  return address;
}

int64_t HbmAllocator::free(uint64_t address) {
  auto holding = held_.find(address);
  if (holding == held_.end()) return 0;
  int64_t freed = holding->second.bytes, bytes = freed;
  held_.erase(holding);
  used_ -= freed;
  auto next = freeByAddress_.lower_bound(address);
  if (next != freeByAddress_.end() && next->first == address + static_cast<uint64_t>(bytes)) {
    bytes += next->second;
    removeFree(next);
  }
  next = freeByAddress_.lower_bound(address);
  if (next != freeByAddress_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + static_cast<uint64_t>(previous->second) == address) {
      address = previous->first;
      bytes += previous->second;
      removeFree(previous);
    }
  }
  addFree(address, bytes);
  return freed;
}

MemoryInfo HbmAllocator::info() const {
  MemoryInfo info;
  info.totalBytes = total_;
  info.usedBytes = used_;
  info.peakBytes = peak_;
  info.largestFreeBytes = freeBySize_.empty() ? 0 : freeBySize_.rbegin()->first;
  info.allocations = static_cast<int64_t>(held_.size());
  return info;
}

std::vector<HbmAllocator::Block> HbmAllocator::freeBlocks() const {
  std::vector<Block> blocks;
  blocks.reserve(freeByAddress_.size());
  for (const auto& [address, bytes] : freeByAddress_) blocks.push_back({address, bytes});
  return blocks;
}

std::vector<std::pair<std::string, int64_t>> HbmAllocator::largestHolders(size_t count) const {
  std::map<std::string, int64_t> sums;
  for (const auto& [address, holding] : held_)
    sums[holding.label.empty() ? "(no label)" : holding.label] += holding.bytes;
  std::vector<std::pair<std::string, int64_t>> holders(sums.begin(), sums.end());
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (holders.size() > count) holders.resize(count);
  return holders;
}

Status HbmAllocator::outOfMemory(int64_t bytes, const std::string& label) const {
  MemoryInfo now = info();
  int64_t free = now.totalBytes - now.usedBytes;
  std::string text =
      base::strCat("out of HBM: ", base::formatBytes(bytes), " for ",
                   label.empty() ? "a buffer" : base::strCat("'", label, "'"), " asked, ",
                   base::formatBytes(free), " of ", base::formatBytes(now.totalBytes), " free");
  if (bytes <= free)
    text += base::strCat(", the largest free block has ", base::formatBytes(now.largestFreeBytes),
                         " (fragmentation)");
  text += "; largest holders: ";
  bool first = true;
  for (const auto& [name, held] : largestHolders(kHoldersInErrors)) {
    text += base::strCat(first ? "" : ", ", name, " ", base::formatBytes(held));
    first = false;
  }
  if (first) text += "none";
  return resourceExhausted(std::move(text));
}

}  // namespace hpu
