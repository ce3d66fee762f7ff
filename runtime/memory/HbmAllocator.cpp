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
    first_ = first;
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
    return invalidArgument(base::strCat("cannot allocate ", bytes, " bytes of HBM; the size must be positive"));
  if (bytes > total_) return outOfMemory(bytes, label);
  int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto best = freeBySize_.lower_bound({rounded, 0});
  if (best == freeBySize_.end()) return outOfMemory(bytes, label);
  auto block = freeByAddress_.find(best->second);
  uint64_t address = block->first;
  take(block, address, rounded, bytes, label);
  return address;
}

/// Cuts `rounded` bytes at `address` out of a free block that contains them.
void HbmAllocator::take(std::map<uint64_t, int64_t>::iterator block, uint64_t address, int64_t rounded, int64_t bytes,
                        const std::string& label) {
  const uint64_t begin = block->first, end = begin + static_cast<uint64_t>(block->second);
  const uint64_t rest = address + static_cast<uint64_t>(rounded);
  removeFree(block);
  if (address > begin) addFree(begin, static_cast<int64_t>(address - begin));
  if (end > rest) addFree(rest, static_cast<int64_t>(end - rest));
  Labels::value_type& entry = *labels_.try_emplace(label).first;
  entry.second.bytes += rounded;
  entry.second.peak = std::max(entry.second.peak, entry.second.bytes);
  ++entry.second.allocations;
  held_.emplace(address, Holding{rounded, bytes, &entry});
  used_ += rounded;
  peak_ = std::max(peak_, used_);
}

StatusOr<uint64_t> HbmAllocator::allocateAt(uint64_t address, int64_t bytes, const std::string& label) {
  if (bytes <= 0)
    return invalidArgument(base::strCat("cannot allocate ", bytes, " bytes of HBM; the size must be positive"));
  if (address % kAlignment != 0)
    return invalidArgument(
        base::strCat("the requested address ", base::formatHex(address), " is no multiple of ", kAlignment));
  if (address < first_ || bytes > total_ || address - first_ > static_cast<uint64_t>(total_ - bytes))
    return outOfRange(base::strCat(bytes, " bytes at the requested address ", base::formatHex(address),
                                   " are outside of the device's memory, ", base::formatHex(first_), " to ",
                                   base::formatHex(first_ + static_cast<uint64_t>(total_))));
  int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t end = address + static_cast<uint64_t>(rounded);
  auto block = freeByAddress_.upper_bound(address);
  if (block != freeByAddress_.begin()) {
    --block;
    if (block->first + static_cast<uint64_t>(block->second) >= end) {
      take(block, address, rounded, bytes, label);
      return address;
    }
  }
  // Where no one free block covers the range, somebody holds a part of it.
  auto holder = std::prev(held_.lower_bound(end));
  return alreadyExists(base::strCat("cannot allocate ", bytes, " bytes at the requested address ",
                                    base::formatHex(address), ": a part of them is held by ",
                                    describe(holder->first, holder->second)));
}

std::string HbmAllocator::describe(uint64_t address, const Holding& holding) const {
  return base::strCat(
      holding.label->first.empty() ? "an allocation without a label" : base::strCat("'", holding.label->first, "'"),
      ", ", holding.asked, " bytes at ", base::formatHex(address));
}

bool HbmAllocator::holds(uint64_t address) const {
  auto next = held_.upper_bound(address);
  return next != held_.begin() &&
         address - std::prev(next)->first < static_cast<uint64_t>(std::prev(next)->second.asked);
}

std::string HbmAllocator::describeBelow(uint64_t address) const {
  auto next = held_.upper_bound(address);
  if (next == held_.begin()) return {};
  --next;
  std::string holder = describe(next->first, next->second);
  if (address - next->first < static_cast<uint64_t>(next->second.asked)) return base::strCat("; it lies in ", holder);
  return base::strCat("; the next below is ", holder);
}

int64_t HbmAllocator::free(uint64_t address) {
  auto holding = held_.find(address);
  if (holding == held_.end()) return 0;
  int64_t freed = holding->second.bytes, bytes = freed;
  Labels::value_type& label = *holding->second.label;
  label.second.bytes -= freed;
  if (--label.second.allocations == 0 && labels_.size() > kIdleLabels) labels_.erase(labels_.find(label.first));
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
  info.freeBlocks = static_cast<int64_t>(freeByAddress_.size());
  return info;
}

void HbmAllocator::resetPeaks() {
  peak_ = used_;
  for (auto& [label, use] : labels_) use.peak = use.bytes;
}

std::vector<HbmAllocator::Block> HbmAllocator::freeBlocks() const {
  std::vector<Block> blocks;
  blocks.reserve(freeByAddress_.size());
  for (const auto& [address, bytes] : freeByAddress_) blocks.push_back({address, bytes});
  return blocks;
}

std::vector<MemoryHolder> HbmAllocator::holders() const {
  std::vector<MemoryHolder> result;
  result.reserve(labels_.size());
  for (const auto& [label, use] : labels_) result.push_back({label, use.bytes, use.peak, use.allocations});
  std::sort(result.begin(), result.end(), [](const MemoryHolder& a, const MemoryHolder& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.label < b.label;
  });
  return result;
}

Status HbmAllocator::outOfMemory(int64_t bytes, const std::string& label) const {
  MemoryInfo now = info();
  int64_t free = now.totalBytes - now.usedBytes;
  std::string text = base::strCat("out of HBM: ", base::formatBytes(bytes), " for ",
                                  label.empty() ? "a buffer" : base::strCat("'", label, "'"), " asked, ",
                                  base::formatBytes(free), " of ", base::formatBytes(now.totalBytes), " free");
  if (bytes <= free)
    text += base::strCat(", the largest free block has ", base::formatBytes(now.largestFreeBytes), " (fragmentation)");
  text += "; largest holders: ";
  std::vector<MemoryHolder> largest = holders();
  if (largest.size() > kHoldersInErrors) largest.resize(kHoldersInErrors);
  bool first = true;
  for (const MemoryHolder& holder : largest) {
    if (holder.bytes == 0) break;
    text += base::strCat(first ? "" : ", ", holder.label.empty() ? "(no label)" : holder.label, " ",
                         base::formatBytes(holder.bytes));
    // Of a label that many share, the one that matters most.
    if (holder.allocations > 1) {
      const auto* largestOne = &*held_.begin();
      int64_t most = 0;
      for (const auto& entry : held_) {
        if (entry.second.label->first != holder.label || entry.second.bytes <= most) continue;
        largestOne = &entry;
        most = entry.second.bytes;
      }
      text += base::strCat(" in ", holder.allocations, " (the largest ", base::formatBytes(most), " at ",
                           base::formatHex(largestOne->first), ")");
    }
    first = false;
  }
  if (first) text += "none";
  return resourceExhausted(std::move(text));
}

}  // namespace hpu
