// SPDX-License-Identifier: Apache-2.0
// NetRanks: runs a case on the transport between nodes: on threads with links within the process, on threads over
// sockets, or (ShmRanks.h) in processes over sockets with shared memory within the nodes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "Suite.h"
#include "collectives/transport/net/NetTransport.h"

namespace hpu::testing {

/// Which ranks share a node.
enum class Layout {
  kOneANode,  ///< Every rank has a node of its own.
  kTwoANode,  ///< 0 and 2, 1 and 3: neighbours are of different nodes.
  kOneApart,  ///< The last rank, and all others.
};
std::vector<int32_t> nodesOf(int ranks, Layout layout);

/// `rails`: between any two ranks.
void runNetMemory(const Case& which, Layout layout, int rails = 1);

enum class Wire { kTcp, kTcpRails, kRoce, kLossyRoce };
/// A network of this machine.
StatusOr<std::shared_ptr<collectives::net::Network>> loopback(Wire wire);
void runNetThreads(const Case& which, Layout layout, Wire wire);

}  // namespace hpu::testing
