// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/Dependencies.h"

#include <algorithm>

namespace hpu::schedule {

void ConflictFinder::conflicts(const Records& records, const recipe::MemoryBox& box, std::vector<uint32_t>& before) {
  for (const Record& record : records) {
    if (record.box.begin >= box.end || box.begin >= record.box.end) continue;
    if (!before.empty() && before.back() == record.command) continue;
    if (!disjoint(record.box, box)) before.push_back(record.command);
  }
}

std::vector<uint32_t> ConflictFinder::add(uint32_t command, const std::vector<recipe::Access>& accesses) {
  std::vector<uint32_t> before;
  for (const recipe::Access& access : accesses) {
    if (access.box.section >= touched_.size()) continue;
    const Touched& touched = touched_[access.box.section];
    conflicts(touched.writes, access.box, before);
    if (access.write) conflicts(touched.reads, access.box, before);
  }
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  for (const recipe::Access& access : accesses) remember(command, access);
  return before;
}

void ConflictFinder::dropCovered(Records& records, const recipe::MemoryBox& box, uint32_t command) {
  std::erase_if(records, [&](const Record& r) {
    if (r.command == command) return false;
    return box.dense() ? box.begin <= r.box.begin && r.box.end <= box.end : box == r.box;
  });
}

void ConflictFinder::remember(uint32_t command, const recipe::Access& access) {
  const recipe::MemoryBox& box = access.box;
  if (box.section >= touched_.size()) touched_.resize(box.section + 1);
  Touched& touched = touched_[box.section];
  // A later access that conflicts with a record which this write covers conflicts with this write, too, which is behind
  // it.
  if (access.write) {
    dropCovered(touched.reads, box, command);
    dropCovered(touched.writes, box, command);
  }
  (access.write ? touched.writes : touched.reads).push_back({box, command});
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

}  // namespace hpu::schedule
