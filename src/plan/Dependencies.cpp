// SPDX-License-Identifier: Apache-2.0
#include "plan/Dependencies.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace hpu::plan {

void ConflictFinder::Records::add(const recipe::MemoryBox& box, uint32_t command) {
  levels_[std::bit_width(box.end - box.begin)].emplace(box.begin, Record{box, command});
}

void ConflictFinder::Records::conflicts(const recipe::MemoryBox& box, std::vector<uint32_t>& before) const {
  for (unsigned level = 0; level < kLevels; ++level) {
    const auto& records = levels_[level];
    if (records.empty()) continue;
    // No span of the level is longer.
    const uint64_t longest = level == kLevels - 1 ? UINT64_MAX : (uint64_t{1} << level) - 1;
    auto record = records.lower_bound(box.begin > longest ? box.begin - longest : 0);
    for (; record != records.end() && record->first < box.end; ++record) {
      const auto& [other, command] = record->second;
      if (box.begin >= other.end) continue;
      if (!before.empty() && before.back() == command) continue;
      if (!disjoint(other, box)) before.push_back(command);
    }
  }
}

void ConflictFinder::Records::dropCovered(const recipe::MemoryBox& box, uint32_t command) {
  const unsigned own = std::bit_width(box.end - box.begin);
  // A dense box covers what lies in it; of a strided one only equals are known to be covered.
  for (unsigned level = box.dense() ? 0 : own; level <= own; ++level) {
    auto& records = levels_[level];
    const uint64_t last = box.dense() ? box.end : box.begin + 1;
    for (auto record = records.lower_bound(box.begin); record != records.end() && record->first < last;) {
      const auto& [other, writer] = record->second;
      const bool covered = box.dense() ? other.end <= box.end : other == box;
      record = covered && writer != command ? records.erase(record) : std::next(record);
    }
  }
}

std::vector<uint32_t> ConflictFinder::add(uint32_t command, const std::vector<recipe::Access>& accesses) {
  std::vector<uint32_t> before;
  for (const recipe::Access& access : accesses) {
    if (access.box.section >= touched_.size()) continue;
    const Touched& touched = touched_[access.box.section];
    touched.writes.conflicts(access.box, before);
    if (access.write) touched.reads.conflicts(access.box, before);
  }
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  for (const recipe::Access& access : accesses) remember(command, access);
  return before;
}

void ConflictFinder::remember(uint32_t command, const recipe::Access& access) {
  const recipe::MemoryBox& box = access.box;
  if (box.section >= touched_.size()) touched_.resize(box.section + 1);
  Touched& touched = touched_[box.section];
  // A later access that conflicts with a record which this write covers conflicts with this write, too, which is behind
  // it.
  if (access.write) {
    touched.reads.dropCovered(box, command);
    touched.writes.dropCovered(box, command);
  }
  (access.write ? touched.writes : touched.reads).add(box, command);
}

std::vector<recipe::Wait> WaitPlacer::issue(unsigned queue, const Clock& needed) {
  Clock known = clocks_[queue].empty() ? Clock(queues_, 0) : clocks_[queue].back();
  std::vector<recipe::Wait> waits;
  for (unsigned other = 0; other < queues_; ++other) {
    if (other == queue || needed[other] <= known[other]) continue;
    waits.push_back({other, needed[other]});
  }
  // A wait also brings what the awaited command knew; that may make another wait superfluous.
  std::vector<recipe::Wait> minimal;
  for (const recipe::Wait& wait : waits) {
    bool implied = std::any_of(waits.begin(), waits.end(), [&](const recipe::Wait& other) {
      return other.signal != wait.signal && clocks_[other.signal][other.value - 1][wait.signal] >= wait.value;
    });
    if (!implied) minimal.push_back(wait);
  }
  for (const recipe::Wait& wait : minimal) {
    const Clock& theirs = clocks_[wait.signal][wait.value - 1];
    for (unsigned other = 0; other < queues_; ++other) known[other] = std::max(known[other], theirs[other]);
  }
  known[queue] = static_cast<uint32_t>(clocks_[queue].size()) + 1;
  clocks_[queue].push_back(known);
  return minimal;
}

}  // namespace hpu::plan
