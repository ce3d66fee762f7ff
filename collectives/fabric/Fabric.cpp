// SPDX-License-Identifier: Apache-2.0
#include "collectives/fabric/Fabric.h"

#include <algorithm>
#include <cmath>

namespace hpu::collectives {

const NodeException* Fabric::exceptionOf(int32_t node) const {
  auto it = std::lower_bound(exceptions.begin(), exceptions.end(), node,
                             [](const NodeException& e, int32_t n) { return e.node < n; });
  return it != exceptions.end() && it->node == node ? &*it : nullptr;
}

double Fabric::rateOf(int32_t node) const {
  const NodeException* exception = exceptionOf(node);
  return exception ? exception->rate : 1;
}

int32_t Fabric::railOf(int32_t node, int32_t device) const {
  const int32_t own = device * rails / devicesPerNode;
  const NodeException* exception = exceptionOf(node);
  if (!exception) return own;
  for (int32_t shift = 0; shift < rails; ++shift) {
    const int32_t rail = (own + shift) % rails;
    const auto& down = exception->railsDown;
    if (std::find(down.begin(), down.end(), rail) == down.end()) return rail;
  }
  return -1;
}

int64_t Fabric::railPs(int64_t bytes) const {
  const int64_t packets = bytes > 0 ? (bytes + railPacketBytes - 1) / railPacketBytes : 1;
  const auto wire = static_cast<double>(bytes + packets * railPacketOverheadBytes + railMessageOverheadBytes);
  return railIssuePs + static_cast<int64_t>(std::ceil(wire / railBytesPerNs * 1000));
}

int64_t Fabric::uplinkBusyPs(int64_t bytes) const {
  if (nodesPerLeaf <= 0) return 0;
  const int64_t packets = bytes > 0 ? (bytes + railPacketBytes - 1) / railPacketBytes : 1;
  const auto wire = static_cast<double>(bytes + packets * railPacketOverheadBytes + railMessageOverheadBytes);
  return static_cast<int64_t>(std::ceil(wire / railBytesPerNs * 1000 * oversubscription / nodesPerLeaf));
}

double Fabric::railPayloadBytesPerNs() const {
  return railBytesPerNs * static_cast<double>(railPacketBytes) /
         static_cast<double>(railPacketBytes + railPacketOverheadBytes);
}

}  // namespace hpu::collectives
