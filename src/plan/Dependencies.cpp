// SPDX-License-Identifier: Apache-2.0
#include "plan/Dependencies.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace hpu::plan {

namespace {

/// The first entry that begins at `begin` or behind.
template <typename Entry>
typename std::vector<Entry>::const_iterator firstFrom(const std::vector<Entry>& entries, uint64_t begin) {
  return std::lower_bound(entries.begin(), entries.end(), begin,
                          [](const Entry& entry, uint64_t from) { return entry.begin < from; });
}

}  // namespace

void ConflictFinder::Records::add(const recipe::MemoryBox& box, uint32_t command) {
  uint32_t at;
  if (unused_.empty()) {
    at = static_cast<uint32_t>(records_.size());
    records_.push_back({box, command});
  } else {
    at = unused_.back();
    unused_.pop_back();
    records_[at] = {box, command};
  }
  const auto level = static_cast<unsigned>(std::bit_width(box.end - box.begin));
  std::vector<Entry>& entries = levels_[level];
  if (level > 0) filled_ |= uint64_t{1} << (level - 1);
  auto behind = std::upper_bound(entries.begin(), entries.end(), box.begin,
                                 [](uint64_t begin, const Entry& entry) { return begin < entry.begin; });
  entries.insert(behind, {box.begin, at});
}

void ConflictFinder::Records::conflicts(const recipe::MemoryBox& box, std::vector<uint32_t>& before,
                                        size_t first) const {
  if (records_.size() == unused_.size()) return;
  for (uint64_t rest = filled_; rest != 0; rest &= rest - 1) {
    const auto level = static_cast<unsigned>(std::countr_zero(rest)) + 1;
    const std::vector<Entry>& entries = levels_[level];
    // No span of the level is longer.
    const uint64_t longest = level == kLevels - 1 ? UINT64_MAX : (uint64_t{1} << level) - 1;
    for (auto entry = firstFrom(entries, box.begin > longest ? box.begin - longest : 0);
         entry != entries.end() && entry->begin < box.end; ++entry) {
      const auto& [other, command] = records_[entry->record];
      if (box.begin >= other.end) continue;
      if (before.size() > first && before.back() == command) continue;
      if (!disjoint(other, box)) before.push_back(command);
    }
  }
}

void ConflictFinder::Records::dropCovered(const recipe::MemoryBox& box, uint32_t command) {
  if (records_.size() == unused_.size()) return;
  const unsigned own = std::bit_width(box.end - box.begin);
  // A dense box covers what lies in it; of a strided one only equals are known to be covered.
  for (uint64_t rest = filled_; rest != 0; rest &= rest - 1) {
    const auto level = static_cast<unsigned>(std::countr_zero(rest)) + 1;
    if (level > own || (level < own && !box.dense())) continue;
    std::vector<Entry>& entries = levels_[level];
    const uint64_t last = box.dense() ? box.end : box.begin + 1;
    const auto first = firstFrom(entries, box.begin);
    auto kept = entries.begin() + (first - entries.cbegin()), entry = kept;
    for (; entry != entries.end() && entry->begin < last; ++entry) {
      const auto& [other, writer] = records_[entry->record];
      const bool covered = box.dense() ? other.end <= box.end : other == box;
      if (covered && writer != command)
        unused_.push_back(entry->record);
      else
        *kept++ = *entry;
    }
    entries.erase(kept, entry);
  }
}

std::vector<uint32_t> ConflictFinder::add(uint32_t command, const std::vector<recipe::Access>& accesses) {
  std::vector<uint32_t> before;
  add(command, accesses, before);
  return before;
}

void ConflictFinder::add(uint32_t command, const std::vector<recipe::Access>& accesses, std::vector<uint32_t>& before) {
  const size_t first = before.size();
  for (const recipe::Access& access : accesses) {
    if (access.box.section >= touched_.size()) continue;
    const Touched& touched = touched_[access.box.section];
    touched.writes.conflicts(access.box, before, first);
    if (access.write) touched.reads.conflicts(access.box, before, first);
  }
  const auto own = before.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(own, before.end());
  before.erase(std::unique(own, before.end()), before.end());
  for (const recipe::Access& access : accesses) remember(command, access);
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
  std::vector<uint32_t>& own = clocks_[queue];
  const size_t at = own.size();
  own.resize(at + queues_, 0);
  uint32_t* known = own.data() + at;
  if (at > 0) std::copy_n(known - queues_, queues_, known);
  std::vector<recipe::Wait> waits;
  for (unsigned other = 0; other < queues_; ++other) {
    if (other == queue || needed[other] <= known[other]) continue;
    waits.push_back({other, needed[other]});
  }
  // A wait also brings what the awaited command knew; that may make another wait superfluous.
  if (waits.size() > 1) {
    const std::vector<recipe::Wait> all = waits;
    std::erase_if(waits, [&](const recipe::Wait& wait) {
      return std::any_of(all.begin(), all.end(), [&](const recipe::Wait& other) {
        return other.signal != wait.signal && clock(other.signal, other.value)[wait.signal] >= wait.value;
      });
    });
  }
  for (const recipe::Wait& wait : waits) {
    const uint32_t* theirs = clock(wait.signal, wait.value);
    for (unsigned other = 0; other < queues_; ++other) known[other] = std::max(known[other], theirs[other]);
  }
  known[queue] = static_cast<uint32_t>(at / queues_) + 1;
  return waits;
}

}  // namespace hpu::plan
