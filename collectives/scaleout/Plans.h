// SPDX-License-Identifier: Apache-2.0
// The registered algorithms among nodes, one file each, and what several of them do.
// The one thing to know: an algorithm is a function that writes one rank's program; everything that is the same for all
// ranks (the grid of cells, sizes of the largest shares) is worked out once, when the plan is made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/scaleout/ProgramBuilder.h"

namespace hpu::collectives {

extern const PlanAlgorithm kRails, kRailsOneShot, kRailsTree, kRailsUneven, kPairwise, kHcl;

struct PlanSpec {
  Problem problem;
  const RankMap* map = nullptr;
  std::string_view algorithm;
  int32_t chunks = 1;
  CellGrid grid;
  int32_t roles = 1;
  std::function<int32_t(int32_t rank)> roleOf;  ///< Null: one role.
  std::function<void(ProgramBuilder&)> write;   ///< Not called when no data moves between ranks.
};
std::unique_ptr<Plan> makePlan(PlanSpec spec);

/// Well formed, of the map's ranks, at least two nodes with as many ranks each.
bool isUniform(const Problem& problem, const RankMap& map);
/// Ranks are numbered node by node, in the order of slots: blocks of a node's ranks are contiguous.
bool isNodeMajor(const RankMap& map);
/// Whether no data moves between ranks: no elements, one rank, a point-to-point to itself.
bool isTrivial(const Problem& problem);

/// `count` cut into pieces in proportion to the weights: boundaries, one more than weights.
std::vector<int64_t> cutByWeights(int64_t count, const std::vector<int32_t>& weights);
/// Largest difference of neighbours.
int64_t largestPiece(const std::vector<int64_t>& boundaries);
/// Weights of chunks that begin and end small, and grow so slowly that no phase waits for the one before it in the
/// pipeline.
std::vector<int32_t> rampedWeights(int32_t chunks);
/// Weights of which only the last ones get smaller.
std::vector<int32_t> taperedWeights(int32_t chunks);

/// Estimates.cpp: PlanAlgorithm::estimatePs of the algorithms.
int64_t estimateRailsPs(const Problem& problem, const RankMap& map, const Fabric& fabric, int32_t chunks);
int64_t estimateOneShotPs(const Problem& problem, const RankMap& map, const Fabric& fabric, int32_t chunks);
int64_t estimateTreePs(const Problem& problem, const RankMap& map, const Fabric& fabric, int32_t chunks);
int64_t estimateUnevenPs(const Problem& problem, const RankMap& map, const Fabric& fabric, int32_t chunks);
int64_t estimatePairwisePs(const Problem& problem, const RankMap& map, const Fabric& fabric, int32_t chunks);
int64_t estimateHclPs(const Problem& problem, const RankMap& map, const Fabric& fabric, int32_t chunks);

/// In-node and same-index peers.
inline PeerName local(int32_t shift) {
  return {PeerName::Form::kGridShift, 0, shift};
}
inline PeerName node(int32_t shift) {
  return {PeerName::Form::kGridShift, shift, 0};
}

}  // namespace hpu::collectives
