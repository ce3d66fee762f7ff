// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/PortTimes.h"

#include <algorithm>
#include <vector>

namespace hpu::collectives {

void setLinks(const Placement& placement, base::FunctionRef<const PortTimes*(size_t rank)> portsOf,
              std::span<const int64_t> arrivalPs, int64_t startPs, LinkState& state) {
  state.freePs.clear();
  for (std::vector<int64_t>& rails : state.railFreePs) rails.clear();
  const size_t ranks = arrivalPs.size();
  const int64_t first = *std::min_element(arrivalPs.begin(), arrivalPs.end()) + startPs;
  bool linksLate = false;
  std::array<bool, 2> railsLate{};
  for (size_t rank = 0; rank < ranks; ++rank) {
    const PortTimes* times = portsOf(rank);
    if (!times) continue;
    for (size_t way = 0; way < 2; ++way) {
      const auto& own = (*times)[way];
      linksLate |= *std::max_element(own.begin(), own.begin() + kRailPort) > first;
      railsLate[way] |= own[kRailPort] > first;
    }
  }
  // A rail may be shared with ranks that arrive earlier: its timer knows which.
  for (size_t way = 0; way < 2; ++way) {
    if (!railsLate[way]) continue;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const PortTimes* times = portsOf(rank);
      const int64_t free = times ? (*times)[way][kRailPort] : 0;
      state.railFreePs[way].push_back(free > first ? free : 0);
    }
  }
  if (!linksLate) return;
  bool any = false;
  state.freePs.resize(ranks * ranks);
  for (size_t from = 0; from < ranks; ++from) {
    const PortTimes* sender = portsOf(from);
    for (size_t to = 0; to < ranks; ++to) {
      if (placement.node[from] != placement.node[to]) continue;
      const PortTimes* receiver = portsOf(to);
      const int64_t free = std::max(sender ? (*sender)[0][static_cast<size_t>(placement.device[to])] : 0,
                                    receiver ? (*receiver)[1][static_cast<size_t>(placement.device[from])] : 0);
      if (free <= std::max(arrivalPs[from], arrivalPs[to]) + startPs) continue;
      state.freePs[from * ranks + to] = free;
      any = true;
    }
  }
  if (!any) state.freePs.clear();
}

}  // namespace hpu::collectives
