// SPDX-License-Identifier: Apache-2.0
// RankMap: which rank is on which device of which node, and by which rail it leaves.
// The one thing to know: nodes and slots may have gaps, nodes may have different numbers of ranks, and ranks need not
// be in the order of nodes; algorithms ask for a rank's *position* among the communicator's nodes and ranks of its
// node.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/fabric/Fabric.h"
#include "hpu/status.h"

namespace hpu::collectives {

struct Place {
  int32_t node = 0, device = 0;  ///< Of the fabric.
  bool operator==(const Place&) const = default;
};

/// Where a rank stands in its communicator: the node's number among its nodes (by the fabric's number), the rank's
/// among the node's ranks (by slot).
struct Position {
  int32_t node = 0, local = 0;
  bool operator==(const Position&) const = default;
};

class RankMap {
 public:
  RankMap() = default;
  /// `places` by rank. Errors: kInvalidArgument (no ranks; a node or slot that the fabric does not have; two ranks on
  /// one device; a node whose rails are all down while there are others), naming the ranks.
  static StatusOr<RankMap> create(const Fabric& fabric, std::vector<Place> places);
  /// Ranks node by node, slot by slot: all devices of all nodes.
  static StatusOr<RankMap> all(const Fabric& fabric);

  int32_t ranks() const { return static_cast<int32_t>(places_.size()); }
  int32_t nodes() const { return static_cast<int32_t>(ofNode_.size()); }
  Place place(int32_t rank) const { return places_[static_cast<size_t>(rank)]; }
  Position position(int32_t rank) const { return positions_[static_cast<size_t>(rank)]; }
  /// The ranks of the node with that position, by local number.
  std::span<const int32_t> ranksOf(int32_t node) const { return ofNode_[static_cast<size_t>(node)]; }
  int32_t rankAt(int32_t node, int32_t local) const {
    return ofNode_[static_cast<size_t>(node)][static_cast<size_t>(local)];
  }
  /// Every node has as many ranks: then `ranksPerNode`, else 0.
  int32_t ranksPerNode() const { return perNode_; }

 private:
  std::vector<Place> places_;
  std::vector<Position> positions_;
  std::vector<std::vector<int32_t>> ofNode_;
  int32_t perNode_ = 0;
};

}  // namespace hpu::collectives
