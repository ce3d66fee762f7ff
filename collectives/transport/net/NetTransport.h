// SPDX-License-Identifier: Apache-2.0
// NetTransport: the transport among ranks of several nodes: what goes to a rank of this node takes the node's own
// transport (shared memory), the rest takes links of a Network.
// The one thing to know: large messages go straight from the sender's device memory into where the receiver expects
// them (Transport::expect); small ones are copied, by credits. Records of calls, and who lives, spread along a tree of
// the nodes, so that every rank hears of every other one though each has few links.
//
//   NetOptions options{"training", rank, ranks, nodeOf, shm, network};
//   options.allGather = [&](const std::string& phase, const std::string& mine) {
//     return bootstrap->allGather(phase, mine, deadline);
//   };
//   HPU_ASSIGN(std::shared_ptr<Transport> transport, createNetTransport(options));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/Transport.h"
#include "collectives/transport/net/Network.h"

namespace hpu::collectives {

struct NetOptions {
  std::string identity;  ///< The communicator's name, for errors.
  int rank = 0, ranks = 1;
  /// By rank, the same on all: the number of its node, from 0. There are at least two.
  std::vector<int32_t> nodeOf;
  /// Of the ranks of this rank's node, in ascending order: this rank's place there is its rank of it.
  std::shared_ptr<Transport> node;
  std::shared_ptr<net::Network> network;
  Secret secret{};         ///< What the ranks prove to each other when they make links; the same on all.
  int64_t timeoutMs = -1;  ///< Of the creation, and of links that are made later; < 0: HPU_COMM_INIT_TIMEOUT_MS.
  /// Every rank's text, by rank; called with the same phases on every rank.
  std::function<StatusOr<std::vector<std::string>>(const std::string& phase, const std::string& mine)> allGather;
  /// After so long without a word from it a neighbour in the tree is taken for gone, and so is a rank of this node
  /// whose process has been stopped for so long; after twice that the ranks of a node that no neighbour tells of; 0:
  /// never.
  int64_t silenceMs = 5000;
  /// Messages to other nodes carry a CRC-32C of their bytes. The receiver looks at those that come with one.
  bool check = false;
};
/// Neighbours in the tree speak once a second at least.
inline constexpr int64_t kLeastSilenceMs = 2000;

/// Every rank calls it; the links of the tree are up when it returns, the others are made when they are needed.
/// Errors, on all ranks: kInvalidArgument, kDeadlineExceeded and kUnavailable (a rank could not be reached: names it
/// and its address), kUnimplemented (of another wire version), and those of allGather.
StatusOr<std::shared_ptr<Transport>> createNetTransport(const NetOptions& options);

}  // namespace hpu::collectives
