// SPDX-License-Identifier: Apache-2.0
// Colour refinement. Ranks begin with the colour of their role, arrival and ports; a round gives each rank the colour
// of its own and of its peers' colours in the order of its program's names; rounds go on until no colour splits. What
// is the same at every d-th node is looked at in the first d nodes only.
#include "collectives/scaleout/RankClasses.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/Format.h"

namespace hpu::collectives {
namespace {

using base::strCat;

// Of 64 bits: two different neighbourhoods among 8,192 ranks get one colour with a probability of about 2^-38.
uint64_t mixed(uint64_t hash, uint64_t value) {
  uint64_t x = hash * 0x9e3779b97f4a7c15ull ^ (value + 0x632be59bd9b4e019ull + (hash >> 29));
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

std::vector<int32_t> sortedForPorts(const RankPorts& ports, std::vector<int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end(), [&](int32_t a, int32_t b) {
    return std::tuple(ports.leafPlace[a], ports.railPlace[a], a) <
           std::tuple(ports.leafPlace[b], ports.railPlace[b], b);
  });
  return ranks;
}

// From when on the link is free.
uint64_t linkFree(const LinkState& links, int32_t ranks, int32_t from, int32_t to) {
  return static_cast<uint64_t>(
      links.freePs[static_cast<size_t>(from) * static_cast<size_t>(ranks) + static_cast<size_t>(to)]);
}

// What else a rank's links and rail carry: by the local numbers of its peers, so that nodes can be compared.
uint64_t withLinks(uint64_t colour, const RankMap& map, const LinkState& links, int32_t rank) {
  for (const std::vector<int64_t>& rails : links.railFreePs)
    if (!rails.empty()) colour = mixed(colour, static_cast<uint64_t>(rails[static_cast<size_t>(rank)]));
  if (links.freePs.empty()) return colour;
  const Position at = map.position(rank);
  for (const int32_t peer : map.ranksOf(at.node)) {
    const uint64_t out = linkFree(links, map.ranks(), rank, peer), in = linkFree(links, map.ranks(), peer, rank);
    if (out == 0 && in == 0) continue;
    colour = mixed(mixed(mixed(colour, static_cast<uint64_t>(map.position(peer).local)), out), in);
  }
  return colour;
}

std::vector<uint64_t> firstColours(const Plan& plan, const RankPorts& ports, std::span<const int64_t> arrivalPs,
                                   const LinkState& links) {
  const RankMap& map = plan.map();
  std::vector<int32_t> sharers(map.ranks(), 0);  // Of a rail, by its first rank.
  for (int32_t r = 0; r < map.ranks(); ++r) ++sharers[ports.railFirst[r]];
  std::vector<uint64_t> colour(map.ranks());
  for (int32_t r = 0; r < map.ranks(); ++r) {
    uint64_t c = mixed(1, static_cast<uint64_t>(plan.roleOf(r)));
    c = mixed(c, arrivalPs.empty() ? 0 : static_cast<uint64_t>(arrivalPs[r]));
    c = mixed(c, std::bit_cast<uint64_t>(ports.rate[r]));
    c = mixed(c, static_cast<uint64_t>(sharers[ports.railFirst[r]]) << 32 | static_cast<uint64_t>(ports.railPlace[r]));
    c = mixed(c, static_cast<uint64_t>(ports.leafPlace[r] + 1) << 1 | (ports.rail[r] >= 0 ? 1u : 0u));
    colour[r] = withLinks(c, map, links, r);
  }
  return colour;
}

// The least d such that going d nodes on changes nothing: then the nodes p, p + d, p + 2 d ... are alike. All nodes,
// unless names only shift (or only flip bits of the node's number), which commutes with going on by shifts (flips).
// Where leaves begin is part of the colours: their nodes' places.
int32_t periodOf(const RankMap& map, const RankPorts& ports, std::span<const RoleSteps> roles,
                 const std::vector<uint64_t>& colour) {
  const int32_t nodes = map.nodes(), perNode = map.ranksPerNode();
  if (perNode == 0) return nodes;
  bool shifts = false, flips = false;
  bool ordered = true;  // Shifts of ranks are shifts of nodes' and local numbers.
  for (int32_t p = 0; p < nodes && ordered; ++p)
    for (int32_t l = 0; l < perNode; ++l) ordered = ordered && map.rankAt(p, l) == p * perNode + l;
  for (const RoleSteps& role : roles) {
    if (role.uses(PeerName::Form::kRank)) return nodes;
    if (role.uses(PeerName::Form::kRankShift) && !ordered) return nodes;
    shifts = shifts || role.uses(PeerName::Form::kRankShift);
    for (const PeerName& name : role.names) {
      if (name.a == 0) continue;
      shifts = shifts || name.form == PeerName::Form::kGridShift;
      flips = flips || name.form == PeerName::Form::kNodeXor;
    }
  }
  if (flips && (shifts || !std::has_single_bit(static_cast<uint32_t>(nodes)))) return nodes;
  for (int32_t d = 1; d < nodes; ++d) {
    if (nodes % d != 0) continue;
    bool same = true;
    for (int32_t p = d; p < nodes && same; ++p) {
      for (int32_t l = 0; l < perNode && same; ++l) {
        const int32_t a = map.rankAt(p, l), b = map.rankAt(p % d, l);
        const int32_t leafA = ports.leafFirst[a], leafB = ports.leafFirst[b];
        same = colour[a] == colour[b] &&
               map.position(ports.railFirst[a]).local == map.position(ports.railFirst[b]).local &&
               map.position(leafA).local == map.position(leafB).local &&
               ports.leafPlace[leafA] == ports.leafPlace[leafB];
      }
    }
    if (same) return d;
  }
  return nodes;
}

// Ranks with one `first` are a group; gives the members of each, in the order in which the port prefers them.
class Groups {
 public:
  Groups(const std::vector<int32_t>& first, const std::vector<int32_t>& ordered, const std::vector<int32_t>& vertexOf) {
    std::vector<std::vector<int32_t>> members(first.size());
    for (int32_t rank : ordered) members[first[rank]].push_back(vertexOf[rank]);
    of_.assign(ordered.size(), -1);
    for (std::vector<int32_t>& group : members) {
      if (group.size() < 2) continue;
      for (int32_t vertex : group) of_[vertex] = static_cast<int32_t>(members_.size());
      members_.push_back(std::move(group));
    }
  }
  // By vertex.
  void mixInto(const std::vector<uint64_t>& colour, std::vector<uint64_t>& next) {
    std::vector<uint64_t> hash;
    for (const std::vector<int32_t>& group : members_) {
      uint64_t h = 7;
      for (int32_t vertex : group) h = mixed(h, colour[vertex]);
      hash.push_back(h);
    }
    for (size_t v = 0; v < next.size(); ++v)
      if (of_[v] >= 0) next[v] = mixed(next[v], hash[of_[v]]);
  }

 private:
  std::vector<std::vector<int32_t>> members_;
  std::vector<int32_t> of_;  // By vertex; -1: alone.
};

size_t distinct(std::vector<uint64_t> colours) {
  std::sort(colours.begin(), colours.end());
  return static_cast<size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
}

}  // namespace

RankPorts RankPorts::create(const Fabric& fabric, const RankMap& map) {
  RankPorts ports;
  const int32_t ranks = map.ranks(), nodes = map.nodes();
  for (auto* list : {&ports.rail, &ports.railPlace, &ports.leafPlace}) list->assign(ranks, 0);
  ports.railFirst.assign(ranks, -1);
  ports.leafFirst.assign(ranks, -1);
  ports.rate.assign(ranks, 1);
  const auto leafAt = [&](int32_t p) { return fabric.leafOf(map.place(map.rankAt(p, 0)).node); };
  ports.leaves = nodes > 1 && leafAt(0) != leafAt(nodes - 1);
  std::vector<int32_t> first(fabric.rails), count(fabric.rails), ofLeaf(fabric.rails, -1);
  for (int32_t p = 0, inLeaf = 0; p < nodes; ++p, ++inLeaf) {
    const int32_t node = map.place(map.rankAt(p, 0)).node;
    const double rate = fabric.rateOf(node);
    std::fill(first.begin(), first.end(), -1);
    std::fill(count.begin(), count.end(), 0);
    if (p > 0 && leafAt(p) != leafAt(p - 1)) {
      inLeaf = 0;
      std::fill(ofLeaf.begin(), ofLeaf.end(), -1);
    }
    for (int32_t rank : map.ranksOf(p)) {
      const int32_t rail = fabric.railOf(node, map.place(rank).device);
      ports.rail[rank] = rail;
      ports.rate[rank] = rate;
      ports.leafPlace[rank] = ports.leaves ? inLeaf : 0;
      ports.railFirst[rank] = ports.leafFirst[rank] = rank;
      if (rail < 0) continue;
      if (first[rail] < 0) first[rail] = rank;
      if (ofLeaf[rail] < 0) ofLeaf[rail] = rank;
      ports.railFirst[rank] = first[rail];
      ports.railPlace[rank] = count[rail]++;
      if (ports.leaves) ports.leafFirst[rank] = ofLeaf[rail];
    }
  }
  return ports;
}

RankClasses RankClasses::unfolded(const RankPorts& ports, int32_t ranks) {
  RankClasses result;
  std::vector<int32_t> all(ranks);
  for (int32_t r = 0; r < ranks; ++r) all[r] = r;
  result.classOf.resize(ranks);
  for (int32_t r : sortedForPorts(ports, std::move(all))) {
    result.classOf[r] = static_cast<int32_t>(result.classes.size());
    result.classes.push_back({r, 1});
  }
  return result;
}

StatusOr<RankClasses> RankClasses::folded(const Plan& plan, const Fabric& fabric, const RankPorts& ports,
                                          std::span<const RoleSteps> roles, std::span<const int64_t> arrivalPs,
                                          const LinkState& links) {
  const RankMap& map = plan.map();
  const std::vector<uint64_t> first = firstColours(plan, ports, arrivalPs, links);
  const int32_t period = periodOf(map, ports, roles, first);
  // The vertices of the graph: ranks of the first `period` nodes, which stand for those of the others.
  std::vector<int32_t> vertexOf(map.ranks()), rankOf;
  std::vector<int32_t> base(period);
  for (int32_t p = 0; p < map.nodes(); ++p) {
    if (p < period) base[p] = static_cast<int32_t>(rankOf.size());
    const std::span<const int32_t> locals = map.ranksOf(p);
    for (size_t l = 0; l < locals.size(); ++l) {
      vertexOf[locals[l]] = base[p % period] + static_cast<int32_t>(l);
      if (p < period) rankOf.push_back(locals[l]);
    }
  }
  const size_t vertices = rankOf.size();
  std::vector<uint64_t> colour(vertices), next(vertices);
  for (size_t v = 0; v < vertices; ++v) colour[v] = first[rankOf[v]];

  // The edges: each name's peer, with how the message goes and by which names the two call each other.
  std::vector<size_t> edgesFirst(vertices + 1, 0);
  for (size_t v = 0; v < vertices; ++v) edgesFirst[v + 1] = edgesFirst[v] + roles[plan.roleOf(rankOf[v])].names.size();
  std::vector<int32_t> to(edgesFirst[vertices]);
  std::vector<uint64_t> label(edgesFirst[vertices]);
  std::vector<int32_t> seenBy(map.ranks(), -1), seenAs(map.ranks(), -1), back;
  for (size_t v = 0; v < vertices; ++v) {
    const int32_t rank = rankOf[v];
    const RoleSteps& role = roles[plan.roleOf(rank)];
    for (size_t p = 0; p < role.names.size(); ++p) {
      const int32_t peer = resolveChecked(map, rank, role.names[p]);
      if (peer < 0 || peer == rank)
        return internalError(strCat("plan '", plan.algorithm(), "': rank ", rank, " has a message with ",
                                    peer < 0 ? "a rank that is not of the map" : "itself"));
      if (seenBy[peer] != static_cast<int32_t>(v)) {
        seenBy[peer] = static_cast<int32_t>(v);
        seenAs[peer] = static_cast<int32_t>(p);
      }
      uint64_t l =
          mixed(static_cast<uint64_t>(ports.way(fabric, map, rank, peer)), static_cast<uint64_t>(seenAs[peer]));
      roles[plan.roleOf(peer)].namesOf(map, peer, rank, back);
      for (int32_t name : back) l = mixed(l, static_cast<uint64_t>(name));
      if (!links.freePs.empty() && ports.way(fabric, map, rank, peer) == RankPorts::Way::kMesh) {
        const uint64_t free = linkFree(links, map.ranks(), rank, peer);
        if (free != 0) l = mixed(l, free);
      }
      to[edgesFirst[v] + p] = vertexOf[peer];
      label[edgesFirst[v] + p] = l;
    }
  }
  const std::vector<int32_t> ordered = sortedForPorts(ports, rankOf);
  Groups rails(ports.railFirst, ordered, vertexOf), leaves(ports.leafFirst, ordered, vertexOf);
  for (size_t colours = distinct(colour);;) {
    for (size_t v = 0; v < vertices; ++v) {
      uint64_t c = mixed(3, colour[v]);
      for (size_t e = edgesFirst[v]; e < edgesFirst[v + 1]; ++e) c = mixed(c, colour[to[e]] ^ label[e]);
      next[v] = c;
    }
    rails.mixInto(colour, next);
    leaves.mixInto(colour, next);
    const size_t now = distinct(next);
    if (now == colours) break;  // The old colours are stable.
    colours = now;
    colour.swap(next);
    if (colours == vertices) break;
  }

  RankClasses result;
  std::vector<std::pair<uint64_t, int32_t>> classOfColour;
  for (int32_t rank : ordered) classOfColour.emplace_back(colour[vertexOf[rank]], 0);
  std::sort(classOfColour.begin(), classOfColour.end());
  classOfColour.erase(std::unique(classOfColour.begin(), classOfColour.end()), classOfColour.end());
  for (auto& entry : classOfColour) entry.second = -1;
  const auto entryOf = [&](int32_t vertex) -> int32_t& {
    return std::lower_bound(classOfColour.begin(), classOfColour.end(), std::pair(colour[vertex], INT32_MIN))->second;
  };
  for (int32_t rank : ordered) {
    int32_t& entry = entryOf(vertexOf[rank]);
    if (entry >= 0) continue;
    entry = static_cast<int32_t>(result.classes.size());
    result.classes.push_back({rank, 0});
  }
  result.classOf.resize(map.ranks());
  for (int32_t rank = 0; rank < map.ranks(); ++rank) {
    result.classOf[rank] = entryOf(vertexOf[rank]);
    ++result.classes[result.classOf[rank]].size;
  }
  return result;
}

}  // namespace hpu::collectives
