// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/ArrivalMemory.h"

#include <algorithm>
#include <array>

namespace hpu::collectives {

void ArrivalMemory::endPs(size_t ranks, std::span<const int64_t> arrivalPs, const LinkState& links,
                          std::vector<int64_t>& ends, const Simulate& simulate) {
  const auto arrivalOf = [&](size_t rank) { return rank < arrivalPs.size() ? arrivalPs[rank] : 0; };
  int64_t base = ranks == 0 ? 0 : arrivalOf(0);
  for (size_t rank = 1; rank < ranks; ++rank) base = std::min(base, arrivalOf(rank));
  const std::array<const std::vector<int64_t>*, 3> lists = {&links.freePs, &links.railFreePs[0], &links.railFreePs[1]};
  // Each that is not free from the beginning, in the order of their numbers; looking for a pattern allocates nothing.
  const auto forBusy = [&](auto&& f) {
    size_t number = 0;
    for (const std::vector<int64_t>* list : lists) {
      for (size_t i = 0; i < list->size(); ++i)
        if ((*list)[i] != 0) f(number + i, (*list)[i] - base);
      number += ranks * ranks;
    }
  };
  const auto isSame = [&](const Pattern& pattern) {
    for (size_t rank = 0; rank < ranks; ++rank)
      if (pattern.arrivals[rank] != arrivalOf(rank) - base) return false;
    if (pattern.devices != links.devices) return false;
    size_t same = 0;
    bool differs = false;
    forBusy([&](size_t number, int64_t free) {
      differs = differs || same >= pattern.busy.size() || pattern.busy[same] != std::pair(number, free);
      ++same;
    });
    return !differs && same == pattern.busy.size();
  };
  const auto give = [&](const std::vector<int64_t>& relative) {
    ends.clear();
    for (const int64_t end : relative) ends.push_back(end + base);
  };
  {
    std::lock_guard lock(mutex_);
    for (const Pattern& pattern : patterns_)
      if (isSame(pattern)) return give(pattern.ends);
  }
  Pattern found;
  for (size_t rank = 0; rank < ranks; ++rank) found.arrivals.push_back(arrivalOf(rank) - base);
  found.devices = links.devices;
  forBusy([&](size_t number, int64_t free) { found.busy.emplace_back(number, free); });
  LinkState relative = links;
  for (std::vector<int64_t>* list : {&relative.freePs, &relative.railFreePs[0], &relative.railFreePs[1]})
    for (int64_t& free : *list)
      if (free != 0) free -= base;
  found.ends = simulate(found.arrivals, relative);
  give(found.ends);
  std::lock_guard lock(mutex_);
  if (patterns_.size() < kPatterns) {
    patterns_.push_back(std::move(found));
  } else {
    patterns_[oldest_] = std::move(found);
    oldest_ = (oldest_ + 1) % kPatterns;
  }
}

}  // namespace hpu::collectives
