// SPDX-License-Identifier: Apache-2.0
// lowerBoundPs for several nodes. Rails (uplinks) bound what leaves and enters a node (leaf), the mesh what its ranks
// exchange among themselves.
#include <algorithm>
#include <set>
#include <vector>

#include "collectives/scaleout/PlanTimer.h"
#include "collectives/schedule/Timing.h"

namespace hpu::collectives {
namespace {

// Ranks with a common way out: a node, or a leaf.
struct Group {
  double ranks = 0;
  double rate = 0;  // Bytes a nanosecond, each way.
  bool root = false, destination = false;
};

double bytesOf(const Problem& problem) {
  return static_cast<double>(problem.count) * problem.elementBytes;
}

// In nanoseconds: bytes that must enter or leave each group, whatever is done inside, over its rate.
double betweenNs(const Problem& problem, const std::vector<Group>& groups) {
  const double bytes = bytesOf(problem), count = static_cast<double>(groups.size());
  double ranks = 0, rates = 0, least = 0;
  for (const Group& group : groups) {
    ranks += group.ranks;
    rates += group.rate;
  }
  const auto takes = [&](const Group& group, double crossing) { least = std::max(least, crossing / group.rate); };
  for (const Group& group : groups) {
    const double own = group.ranks * bytes, others = (ranks - group.ranks) * bytes;
    switch (problem.collective) {
      case Collective::kAllReduce:
        // Every element of its sum has to leave it, and the result depends on others' sums. (And see below.)
        takes(group, bytes);
        break;
      case Collective::kReduceScatter:
      case Collective::kAllGather:
        // All-gather: the others' parts enter, its own leave. Reduce-scatter: the other way round.
        takes(group, std::max(own, others));
        break;
      case Collective::kAllToAll:
        takes(group, group.ranks * others);
        break;
      case Collective::kBroadcast:
      case Collective::kReduce:
        takes(group, bytes);  // Once out of the root's, once into each other (of a reduction: back).
        break;
      case Collective::kGather:
      case Collective::kScatter:
        takes(group, group.root ? others : own);
        break;
      case Collective::kPointToPoint:
        if (group.root != group.destination) takes(group, bytes);
        break;
      case Collective::kBarrier:
        break;
    }
  }
  // Of each element of a sum, all groups but one send theirs (or one with others' added) in any tree: (N - 1) S in all.
  // The result comes to all but one: as much again.
  if (problem.collective == Collective::kAllReduce) least = std::max(least, 2 * (count - 1) * bytes / rates);
  if (problem.collective == Collective::kReduceScatter || problem.collective == Collective::kAllGather)
    least = std::max(least, (count - 1) * ranks * bytes / rates);
  return least;
}

// Of a node of `local` ranks among `ranks`, whose mesh has a rate for each link and whose rails `rail` for each rank.
double withinNs(const Problem& problem, const Group& node, double link, double rail) {
  const double bytes = bytesOf(problem), ranks = problem.ranks, local = node.ranks;
  const double peers = local - 1;
  const double all = peers * link + rail;  // All ways out of one rank.
  const bool end = node.root || node.destination;
  double least = 0;
  switch (problem.collective) {
    case Collective::kAllReduce:
      // Each element is summed among the node's ranks, L - 1 messages, and comes back to L - 1: over L (L - 1) links.
      if (peers > 0) least = 2 * bytes / local / link;
      break;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      // The same once, for all ranks' parts.
      if (peers > 0) least = ranks * bytes / local / link;
      break;
    case Collective::kAllToAll:
      if (peers > 0) least = bytes / link;
      break;
    case Collective::kBroadcast:
    case Collective::kReduce:
      // All of it passes the root's links; elsewhere each element enters the node once, and goes over L - 1 of the
      // L (L - 1) links.
      if (peers > 0) least = bytes / (node.root ? peers : local) / link;
      break;
    case Collective::kGather:
    case Collective::kScatter:
      if (!node.root) break;
      // The neighbours' parts come by the mesh, all parts by all that the root has.
      if (peers > 0) least = bytes / link;
      least = std::max(least, (ranks - 1) * bytes / all);
      break;
    case Collective::kPointToPoint:
      if (end && problem.root != problem.destination)
        least = bytes / (node.root && node.destination ? peers * link : all);
      break;
    case Collective::kBarrier:
      break;
  }
  return least;
}

}  // namespace

int64_t lowerBoundPs(const Problem& problem, const RankMap& map, const Fabric& fabric) {
  if (problem.ranks < 2 || map.ranks() < 2) return 0;
  const auto rateOf = [&](int32_t p) { return fabric.rateOf(map.place(map.rankAt(p, 0)).node); };
  if (map.nodes() == 1) {
    LinkModel mesh = fabric.mesh;
    mesh.linkBytesPerNs *= rateOf(0);
    return lowerBoundPs(problem, mesh);
  }
  const auto mark = [&](Group& group, int32_t rank) {
    group.ranks += 1;
    group.root = group.root || rank == problem.root;
    group.destination = group.destination || rank == problem.destination;
  };
  std::vector<Group> nodes, leaves;
  double least = 0;
  int32_t lastLeaf = -1;
  const double uplinks = fabric.nodesPerLeaf > 0 ? fabric.railBytesPerNs * fabric.nodesPerLeaf / fabric.oversubscription
                                                 : 0;  // Of one rail.
  std::set<int32_t> railsOfLeaf;
  for (int32_t p = 0; p < map.nodes(); ++p) {
    const int32_t node = map.place(map.rankAt(p, 0)).node;
    if (leaves.empty() || fabric.leafOf(node) != lastLeaf) {
      leaves.emplace_back();
      railsOfLeaf.clear();
    }
    lastLeaf = fabric.leafOf(node);
    Group group;
    std::set<int32_t> rails;
    for (const int32_t rank : map.ranksOf(p)) {
      mark(group, rank);
      mark(leaves.back(), rank);
      const int32_t rail = fabric.railOf(node, map.place(rank).device);
      rails.insert(rail);
      railsOfLeaf.insert(rail);
    }
    const double rail = fabric.railBytesPerNs * rateOf(p);
    group.rate = rail * static_cast<double>(rails.size());
    leaves.back().rate = uplinks * static_cast<double>(railsOfLeaf.size());
    least = std::max(least, withinNs(problem, group, fabric.mesh.linkBytesPerNs * rateOf(p), rail));
    nodes.push_back(group);
  }
  least = std::max(least, betweenNs(problem, nodes));
  if (leaves.size() > 1) least = std::max(least, betweenNs(problem, leaves));
  return static_cast<int64_t>(least * 1000);
}

}  // namespace hpu::collectives
