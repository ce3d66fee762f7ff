// SPDX-License-Identifier: Apache-2.0
// RankClasses: which ranks of a plan cannot be told apart, so that one of them stands for all of them.
// The one thing to know: ranks of a class have, step by step, peers of equal classes, whose matching steps have equal
// numbers; and no two ranks of a class use one port. So a simulation of one rank a class is that of all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/fabric/Fabric.h"
#include "collectives/scaleout/RoleSteps.h"
#include "collectives/schedule/Timing.h"

namespace hpu::collectives {

/// By which ports each rank of a map leaves its node. All by rank.
struct RankPorts {
  std::vector<int32_t> rail;       ///< -1: none.
  std::vector<int32_t> railFirst;  ///< The rank with the lowest slot of those that share the rail (perhaps itself).
  std::vector<int32_t> railPlace;  ///< Its place among them, by slot.
  std::vector<int32_t> leafFirst;  ///< Of those of the leaf with the same rail, by node, then slot.
  std::vector<int32_t> leafPlace;  ///< Its node's place in the leaf, among the map's nodes.
  std::vector<double> rate;        ///< Its node's.
  bool leaves = false;             ///< There are several, and so uplinks.

  static RankPorts create(const Fabric& fabric, const RankMap& map);
  /// How a message goes.
  enum class Way : uint8_t { kMesh, kLeaf, kAcross };
  Way way(const Fabric& fabric, const RankMap& map, int32_t from, int32_t to) const {
    const int32_t a = map.place(from).node, b = map.place(to).node;
    if (a == b) return Way::kMesh;
    return leaves && fabric.leafOf(a) != fabric.leafOf(b) ? Way::kAcross : Way::kLeaf;
  }
};

struct RankClasses {
  struct Class {
    int32_t rank = 0;  ///< The one that is simulated.
    int32_t size = 1;
  };
  /// Those that share a port are in the order in which it prefers them.
  std::vector<Class> classes;
  std::vector<int32_t> classOf;  ///< By rank.

  /// Every rank a class of its own.
  static RankClasses unfolded(const RankPorts& ports, int32_t ranks);
  /// As few as can be. Errors: kInternal (a peer that there is not).
  static StatusOr<RankClasses> folded(const Plan& plan, const Fabric& fabric, const RankPorts& ports,
                                      std::span<const RoleSteps> roles, std::span<const int64_t> arrivalPs,
                                      const LinkState& links);
};

}  // namespace hpu::collectives
