// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/DirectPlan.h"

#include <algorithm>

namespace hpu::collectives {
namespace {

// What a part reads and writes: enough that taking it costs little, and no more than what another
// rank can wait for. Below the first number one rank does all.
constexpr int64_t kLeastTraffic = 128 << 10, kMostTraffic = 1 << 20;
// Parts for each rank, so that who comes late finds some.
constexpr int64_t kPartsOfShare = 4;
// Parts begin at multiples of so many bytes: no line is written by two ranks at a time.
constexpr int64_t kPartAlignment = 1024;

std::vector<Flow> flowsOf(const Problem& p) {
  constexpr int32_t kAll = Flow::kAllRanks;
  std::vector<Flow> flows;
  auto forRanks = [&](auto&& flow) {
    for (int32_t rank = 0; rank < p.ranks; ++rank) flows.push_back(flow(rank, rank * p.count));
  };
  switch (p.collective) {
    case Collective::kAllReduce:
      return {{kAll, kAll, 0, 0}};
    case Collective::kReduce:
      return {{kAll, p.root, 0, 0}};
    case Collective::kBroadcast:
      return {{p.root, kAll, 0, 0}};
    case Collective::kPointToPoint:
      return {{p.root, p.destination, 0, 0}};
    case Collective::kReduceScatter:
      forRanks([](int32_t rank, int64_t at) { return Flow{kAll, rank, at, 0}; });
      return flows;
    case Collective::kAllGather:
      forRanks([](int32_t rank, int64_t at) { return Flow{rank, kAll, 0, at}; });
      return flows;
    case Collective::kGather:
      forRanks([&](int32_t rank, int64_t at) { return Flow{rank, p.root, 0, at}; });
      return flows;
    case Collective::kScatter:
      forRanks([&](int32_t rank, int64_t at) { return Flow{p.root, rank, at, 0}; });
      return flows;
    case Collective::kAllToAll:
      for (int32_t to = 0; to < p.ranks; ++to)
        forRanks([&](int32_t from, int64_t at) { return Flow{from, to, to * p.count, at}; });
      return flows;
    case Collective::kBarrier:
      break;
  }
  return {};
}

}  // namespace

DirectPlan::Part DirectPlan::part(int64_t index) const {
  Part part;
  const auto first = static_cast<size_t>(index / partsOfFlow * flowsOfPart);
  part.flows = std::span(flows).subspan(first, std::min(static_cast<size_t>(flowsOfPart), flows.size() - first));
  part.offset = index % partsOfFlow * partElements;
  part.count = std::min(partElements, count - part.offset);
  return part;
}

DirectPlan directPlan(const Problem& problem) {
  DirectPlan plan;
  plan.ranks = problem.ranks;
  if (problem.count <= 0) return plan;
  plan.flows = flowsOf(problem);
  if (plan.flows.empty()) return plan;
  plan.count = problem.count;
  auto memories = [&](int32_t rank) { return int64_t{rank == Flow::kAllRanks ? problem.ranks : 1}; };
  const Flow& flow = plan.flows[0];
  // Bytes that are moved for an element.
  const int64_t moved = (memories(flow.from) + memories(flow.to)) * problem.elementBytes;
  const auto flows = static_cast<int64_t>(plan.flows.size());
  plan.traffic = moved * plan.count * flows;
  const int64_t wanted =
      std::clamp(plan.count / (kPartsOfShare * problem.ranks) * flows, kLeastTraffic / moved, kMostTraffic / moved);
  const int64_t unit = std::max<int64_t>(kPartAlignment / problem.elementBytes, 1);
  plan.partElements = (std::max<int64_t>(wanted, 1) + unit - 1) / unit * unit;
  plan.partsOfFlow = (plan.count + plan.partElements - 1) / plan.partElements;
  if (plan.partsOfFlow == 1) plan.flowsOfPart = std::max<int64_t>(wanted / plan.count, 1);
  return plan;
}

}  // namespace hpu::collectives
