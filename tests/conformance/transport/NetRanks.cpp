// SPDX-License-Identifier: Apache-2.0
#include "NetRanks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "Threads.h"
#include "base/StatusMacros.h"
#include "collectives/transport/local/LocalTransport.h"
#include "collectives/transport/local/MemoryNetwork.h"
#include "collectives/transport/net/NetTransport.h"
#include "collectives/transport/net/RailNetwork.h"
#include "collectives/transport/net/RoceNetwork.h"
#include "collectives/transport/net/TcpNetwork.h"

namespace hpu::testing {
namespace {
using namespace collectives;

/// A node's ranks, on threads.
struct Node {
  std::vector<int32_t> members;
  std::shared_ptr<LocalGroup> group;
};

using MakeNetwork = std::function<StatusOr<std::shared_ptr<net::Network>>()>;
/// As if the process of that rank had been killed.
using Kill = std::function<void(Rank& rank, const net::Network& network)>;

void run(const Case& which, Layout layout, const MakeNetwork& makeNetwork, const Kill& kill);

}  // namespace

std::vector<int32_t> nodesOf(int ranks, Layout layout) {
  std::vector<int32_t> nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool last = rank == ranks - 1;
    nodes.push_back(layout == Layout::kOneANode ? rank : layout == Layout::kTwoANode ? rank % ((ranks + 1) / 2) : last);
  }
  return nodes;
}

StatusOr<std::shared_ptr<net::Network>> loopback(Wire wire) {
  Address address;
  const uint8_t ip[] = {127, 0, 0, 1};
  std::copy(std::begin(ip), std::end(ip), address.ip);
  if (wire == Wire::kTcp) return net::tcpNetwork(address);
  if (wire == Wire::kTcpRails) {
    Address other = address;
    other.ip[3] = 2;
    HPU_ASSIGN(auto first, net::tcpNetwork(address));
    HPU_ASSIGN(auto second, net::tcpNetwork(other));
    return net::railNetwork({first, second});
  }
  net::RoceOptions options;
  if (wire == Wire::kLossyRoce) options.faults = {.seed = 5, .drop = 0.01, .duplicate = 0.01, .corrupt = 0.01};
  return net::roceNetwork(address, options);
}

void runNetMemory(const Case& which, Layout layout, int rails) {
  auto wires = MemoryWires::create();
  if (rails == 1)
    return run(
        which, layout, [&] { return wires->join(); },
        [&](Rank&, const net::Network& network) { wires->kill(network); });
  std::mutex mutex;
  std::map<const net::Network*, std::vector<std::shared_ptr<net::Network>>> parts;
  const auto make = [&]() -> StatusOr<std::shared_ptr<net::Network>> {
    std::vector<std::shared_ptr<net::Network>> networks;
    for (int rail = 0; rail < rails; ++rail) networks.push_back(wires->join());
    HPU_ASSIGN(auto network, net::railNetwork(networks));
    std::lock_guard lock(mutex);
    parts[network.get()] = std::move(networks);
    return network;
  };
  run(which, layout, make, [&](Rank&, const net::Network& network) {
    std::lock_guard lock(mutex);
    for (const auto& part : parts[&network]) wires->kill(*part);
  });
}

void runNetThreads(const Case& which, Layout layout, Wire wire) {
  // A thread cannot be killed; one that leaves is not there any more, either.
  run(which, layout, [&] { return loopback(wire); }, [](Rank& rank, const net::Network&) { rank.transport.reset(); });
}

namespace {

void run(const Case& which, Layout layout, const MakeNetwork& makeNetwork, const Kill& kill) {
  const std::vector<int32_t> nodeOf = nodesOf(which.ranks, layout);
  std::vector<std::vector<std::byte>> bytes(static_cast<size_t>(which.ranks), std::vector<std::byte>(kMemoryBytes));
  std::vector<Node> nodes(static_cast<size_t>(*std::max_element(nodeOf.begin(), nodeOf.end())) + 1);
  std::vector<int> places;
  for (int rank = 0; rank < which.ranks; ++rank) {
    Node& node = nodes[static_cast<size_t>(nodeOf[static_cast<size_t>(rank)])];
    places.push_back(static_cast<int>(node.members.size()));
    node.members.push_back(rank);
  }
  for (Node& node : nodes) {
    std::vector<LocalMemory> memories;
    for (int32_t rank : node.members)
      memories.push_back({bytes[static_cast<size_t>(rank)].data(), 0x1000, kMemoryBytes});
    LocalOptions options;
    options.names = node.members;
    node.group = LocalGroup::create(memories, options);
  }
  ThreadGather gather(which.ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < which.ranks; ++r)
    threads.emplace_back([&, r] {
      const Node& node = nodes[static_cast<size_t>(nodeOf[static_cast<size_t>(r)])];
      NetOptions options;
      options.identity = which.name;
      options.rank = r;
      options.ranks = which.ranks;
      options.nodeOf = nodeOf;
      options.node = node.group->transport(places[static_cast<size_t>(r)]);
      auto network = makeNetwork();
      ASSERT_TRUE(network.ok()) << network.status().message();
      options.network = *network;
      options.timeoutMs = std::chrono::milliseconds(kPatience).count();
      options.silenceMs = options.timeoutMs;
      options.allGather = [&, r](const std::string&, const std::string& mine) { return gather(r, mine); };
      auto transport = createNetTransport(options);
      ASSERT_TRUE(transport.ok()) << transport.status().message();
      Rank rank;
      rank.transport = std::move(*transport);
      rank.address = 0x1000;
      rank.bytes = kMemoryBytes;
      rank.gather = [&, r](const std::string& mine) { return gather(r, mine); };
      rank.die = [&, r] {
        node.group->kill(places[static_cast<size_t>(r)]);
        kill(rank, **network);
      };
      options.node.reset();
      which.run(rank);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

}  // namespace hpu::testing
