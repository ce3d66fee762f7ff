// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Tree.h"

#include <algorithm>

namespace hpu::collectives::net {

Tree::Tree(const std::vector<int32_t>& nodeOf) : nodeOf_(nodeOf) {
  for (size_t rank = 0; rank < nodeOf.size(); ++rank) {
    const auto node = static_cast<size_t>(nodeOf[rank]);
    if (members_.size() <= node) members_.resize(node + 1);
    members_[node].push_back(static_cast<int32_t>(rank));
  }
}

int Tree::firstOf(int node, const std::vector<uint8_t>& lost) const {
  for (int32_t rank : members(node))
    if (!lost[static_cast<size_t>(rank)]) return rank;
  return -1;
}

int Tree::parentOf(int rank, const std::vector<uint8_t>& lost) const {
  const int node = nodeOf(rank);
  const int first = firstOf(node, lost);
  if (first >= 0 && first < rank) return first;
  for (int above = node; above > 0;) {
    above = (above - 1) / 4;
    if (const int head = firstOf(above, lost); head >= 0) return head;
  }
  for (int other = 0; other < node; ++other)
    if (const int head = firstOf(other, lost); head >= 0) return head;
  return -1;
}

std::vector<int32_t> Tree::childrenOf(int rank) const {
  const int node = nodeOf(rank);
  std::vector<int32_t> children;
  if (members(node).front() != rank) return children;
  children.assign(members(node).begin() + 1, members(node).end());
  for (int below = 4 * node + 1; below <= 4 * node + 4 && below < nodes(); ++below)
    children.push_back(members(below).front());
  return children;
}

}  // namespace hpu::collectives::net
