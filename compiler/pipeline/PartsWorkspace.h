// SPDX-License-Identifier: Apache-2.0
// PartsWorkspace: where in the workspace of a program of parts values lie that parts hand on.
//
//   uint32_t region = workspace.add(bytes);
//   workspace.touch(region, part);             // For each part that reads or writes it ...
//   uint64_t all = workspace.place();          // ... and when all are there:
//   uint64_t offset = workspace.offsetOf(region);
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "llvm/ADT/STLExtras.h"
#include "recipe/Recipe.h"

namespace hpu::pipeline {

/// The workspace of a holder: *regions*, each for the parts from the first to the last that touch it; regions that no
/// part touches together may share bytes.
class PartsWorkspace {
 public:
  uint32_t add(uint64_t bytes) {
    regions_.push_back({(bytes + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment});
    return static_cast<uint32_t>(regions_.size() - 1);
  }
  void touch(uint32_t region, uint32_t part) {
    regions_[region].first = std::min(regions_[region].first, part);
    regions_[region].last = std::max(regions_[region].last, part);
  }
  /// Gives each its place: large ones first, each at the lowest bytes that are left. Returned: bytes of all.
  uint64_t place() {
    std::vector<uint32_t> order(regions_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return regions_[a].bytes > regions_[b].bytes; });
    uint64_t all = 0;
    std::vector<uint32_t> placed;  // By offset.
    for (uint32_t i : order) {
      Region& own = regions_[i];
      for (uint32_t other : placed) {
        const Region& taken = regions_[other];
        const bool together = taken.first <= own.last && own.first <= taken.last;
        if (!together || taken.offset + taken.bytes <= own.offset) continue;
        if (own.offset + own.bytes <= taken.offset) break;
        own.offset = taken.offset + taken.bytes;
      }
      placed.insert(
          llvm::upper_bound(placed, i, [&](uint32_t a, uint32_t b) { return regions_[a].offset < regions_[b].offset; }),
          i);
      all = std::max(all, own.offset + own.bytes);
    }
    return all;
  }
  /// It has regions, which may be empty.
  bool isUsed() const { return !regions_.empty(); }
  uint64_t offsetOf(uint32_t region) const { return regions_[region].offset; }

 private:
  struct Region {
    uint64_t bytes = 0;
    uint32_t first = recipe::kNone, last = 0;
    uint64_t offset = 0;
  };
  std::vector<Region> regions_;
};

}  // namespace hpu::pipeline
