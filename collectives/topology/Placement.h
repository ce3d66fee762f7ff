// SPDX-License-Identifier: Apache-2.0
// Placement: which device of which node each rank of a communicator is on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace hpu::collectives {

struct Placement {
  std::vector<int32_t> device;  ///< By rank: of its node.
  std::vector<int32_t> node;    ///< By rank; numbered from 0 in the order of their lowest ranks.
  int32_t nodes = 1;
  bool sharesDevices = false;  ///< Two ranks are on one device.

  Placement() = default;
  Placement(std::vector<int32_t> devices, std::vector<int32_t> nodeOf)
      : device(std::move(devices)), node(std::move(nodeOf)) {
    std::set<std::pair<int32_t, int32_t>> seen;
    for (size_t rank = 0; rank < device.size(); ++rank) {
      nodes = node[rank] >= nodes ? node[rank] + 1 : nodes;
      sharesDevices |= !seen.insert({node[rank], device[rank]}).second;
    }
  }
  bool sameNode(int a, int b) const { return node[static_cast<size_t>(a)] == node[static_cast<size_t>(b)]; }
};

}  // namespace hpu::collectives
