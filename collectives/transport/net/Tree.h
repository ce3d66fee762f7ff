// SPDX-License-Identifier: Apache-2.0
// Tree: along which links of few ranks everything reaches all of them.
// The one thing to know: a rank's parent has a lower node, or the same node and a lower rank: whatever ranks fall out,
// and whoever knows of it, there are no circles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hpu::collectives::net {

class Tree {
 public:
  /// By rank; node numbers from 0 without gaps.
  explicit Tree(const std::vector<int32_t>& nodeOf);
  int nodes() const { return static_cast<int>(members_.size()); }
  const std::vector<int32_t>& members(int node) const { return members_[static_cast<size_t>(node)]; }
  int nodeOf(int rank) const { return nodeOf_[static_cast<size_t>(rank)]; }

  /// Whom `rank` dials: the first rank of its node; of a first rank, that of the node above ((i-1)/4 of node i). Ranks
  /// that are `lost` are passed over, and so are nodes without others. -1: it is the root.
  int parentOf(int rank, const std::vector<uint8_t>& lost) const;
  /// Who dials `rank` when none is lost.
  std::vector<int32_t> childrenOf(int rank) const;

 private:
  int firstOf(int node, const std::vector<uint8_t>& lost) const;
  const std::vector<int32_t> nodeOf_;
  std::vector<std::vector<int32_t>> members_;
};

}  // namespace hpu::collectives::net
