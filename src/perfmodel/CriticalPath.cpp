// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/CriticalPath.h"

#include <algorithm>

namespace hpu::perfmodel {

std::vector<uint32_t> criticalPath(const std::vector<PathSlice>& slices) {
  std::vector<uint32_t> byEnd;
  byEnd.reserve(slices.size());
  for (uint32_t i = 0; i < slices.size(); ++i)
    if (slices[i].end > slices[i].start) byEnd.push_back(i);
  std::stable_sort(byEnd.begin(), byEnd.end(), [&](uint32_t a, uint32_t b) { return slices[a].end < slices[b].end; });
  std::vector<uint32_t> path;
  // `last` is one past the slices that end early enough.
  for (size_t last = byEnd.size(); last > 0;) {
    Picoseconds end = slices[byEnd[last - 1]].end;
    size_t first = last;
    while (first > 0 && slices[byEnd[first - 1]].end == end) --first;
    uint32_t best = byEnd[first];
    auto rank = [&](uint32_t i) {
      bool sameEngine = !path.empty() && slices[i].engine == slices[path.back()].engine;
      return std::pair(sameEngine, slices[i].end - slices[i].start);
    };
    for (size_t at = first + 1; at < last; ++at)
      if (rank(byEnd[at]) > rank(best)) best = byEnd[at];
    path.push_back(best);
    Picoseconds start = slices[best].start;
    last = static_cast<size_t>(std::upper_bound(byEnd.begin(), byEnd.begin() + static_cast<ptrdiff_t>(first), start,
                                                [&](Picoseconds time, uint32_t i) { return time < slices[i].end; }) -
                               byEnd.begin());
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace hpu::perfmodel
