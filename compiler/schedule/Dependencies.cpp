// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/Dependencies.h"

#include <algorithm>

namespace hpu::schedule {

DependencyTracker::DependencyTracker(unsigned queues) : queues_(queues), clocks_(queues) {}

std::vector<recipe::Wait> DependencyTracker::issue(unsigned queue, const std::vector<Access>& accesses) {
  // What the command's queue knows already, and what it has to know.
  Clock known = clocks_[queue].empty() ? Clock(queues_, 0) : clocks_[queue].back();
  Clock needed(queues_, 0);
  for (const Access& access : accesses) {
    if (access.section >= records_.size()) continue;
    for (const Record& record : records_[access.section])
      if ((record.write || access.write) && record.from < access.to && access.from < record.to)
        needed[record.queue] = std::max(needed[record.queue], record.count);
  }
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
  known[queue] = clocks_[queue].size() + 1;
  clocks_[queue].push_back(known);
  for (const Access& access : accesses) remember(access, queue, known[queue]);
  return minimal;
}

void DependencyTracker::remember(const Access& access, unsigned queue, uint32_t count) {
  if (access.section >= records_.size()) records_.resize(access.section + 1);
  std::vector<Record>& records = records_[access.section];
  // Whoever conflicts with a record that this write covers also conflicts with this write, which is behind it.
  if (access.write)
    std::erase_if(records, [&](const Record& r) { return access.from <= r.from && r.to <= access.to; });
  else
    std::erase_if(records, [&](const Record& r) {
      return !r.write && r.queue == queue && access.from <= r.from && r.to <= access.to;
    });
  records.push_back({access.from, access.to, queue, count, access.write});
}

}  // namespace hpu::schedule
