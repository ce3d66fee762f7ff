// SPDX-License-Identifier: Apache-2.0
// UnevenShares: how data is cut where nodes have different numbers of ranks, so that each node's ranks have equal
// shares of it: by the shares of every number of ranks at once, into *atoms* that no share of any node divides.
// The one thing to know: each atom belongs to exactly one rank of every node, so an atom's way between two nodes is one
// message between these two ranks, and every rail of a node carries as much as the others.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "collectives/scaleout/Plans.h"

namespace hpu::collectives {

/// Well formed, of the map's ranks, at least two nodes that differ in their numbers of ranks.
bool isUneven(const Problem& problem, const RankMap& map);

/// Places in a whole, as exact fractions.
class Fractions {
 public:
  Fractions() : all_{{0, 1}, {1, 1}} {}
  void add(int64_t numerator, int64_t denominator);
  /// 1 / parts, 2 / parts, ...
  void addParts(int64_t parts);
  int32_t atoms() const { return static_cast<int32_t>(all_.size()) - 1; }
  /// Which atom begins there; it was added before.
  int32_t at(int64_t numerator, int64_t denominator) const;
  /// Of `count` elements: boundaries, one more than atoms.
  std::vector<int64_t> cut(int64_t count) const;

 private:
  std::vector<std::pair<int64_t, int64_t>> all_;  // Reduced, ascending.
};

/// One block of data: chunk, atom, and within an atom a piece for each node.
struct UnevenShares {
  const RankMap* map = nullptr;
  Fractions fractions;
  CellGrid cells;
  std::vector<int32_t> weights;  ///< By node: of its pieces. 0: it has none.
  int32_t nodes = 0, atoms = 0;
  int64_t chunks = 0;

  int64_t cell(int64_t chunk, int32_t atom, int32_t node) const { return (chunk * atoms + atom) * nodes + node; }
  /// The atoms of a local rank of a node.
  int32_t firstAtom(int32_t node, int32_t local) const {
    return splits_[sizeOf(node)].first[static_cast<size_t>(local)];
  }
  /// The rank of a node that an atom belongs to.
  int32_t ownerOf(int32_t node, int32_t atom) const {
    return map->rankAt(node, splits_[sizeOf(node)].owner[static_cast<size_t>(atom)]);
  }
  int64_t elements(int64_t firstCell, int64_t lastCell) const {
    return cells.boundaries[static_cast<size_t>(lastCell)] - cells.boundaries[static_cast<size_t>(firstCell)];
  }

  /// `chunk`: boundaries of the chunks. `more`: adds fractions beside those of all nodes' shares.
  static UnevenShares create(const RankMap& map, const std::vector<int64_t>& chunk, std::vector<int32_t> weights,
                             const std::function<void(Fractions&)>& more = {});

 private:
  struct Split {
    std::vector<int32_t> first, owner;
  };
  std::vector<Split> splits_;  // By the number of ranks of a node.

  size_t sizeOf(int32_t node) const { return map->ranksOf(node).size(); }
};

/// Weights of the nodes' pieces of an all-reduce, so that no node's rails carry more than the least that the busiest
/// ones must: 1 + (N - 2) w of the data, in each direction, goes over the rails of a node that sums a part w of it.
std::vector<int32_t> allReduceWeights(const RankMap& map);

/// The distinct numbers of ranks of nodes, ascending.
std::vector<int64_t> nodeSizes(const RankMap& map);
/// The shares of all nodes' ranks in one block of data; and in one rank's block, of which nodes' ranks have shares.
Fractions sharesOfNodes(const RankMap& map);
Fractions sharesOfBlocks(const RankMap& map);

inline PeerName rankAway(const ProgramBuilder& b, int32_t rank) {
  return {PeerName::Form::kRankShift, rank - b.rank(), 0};
}

/// Cells of input or output, priced as what they are: each rank has a role of its own.
inline Part exactly(Part part) {
  part.largest = part.range.count;
  return part;
}
/// The first elements of a room, as many as another part has.
inline Part sizedLike(Part room, const Part& like) {
  room.range.count = room.largest = like.range.count;
  return room;
}

/// RailsUnevenRooted.cpp: broadcast and reduce of "rails-uneven".
std::unique_ptr<Plan> makeUnevenRooted(PlanSpec spec, int32_t chunks);

}  // namespace hpu::collectives
