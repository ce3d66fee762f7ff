// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Ports.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "collectives/scaleout/Program.h"

namespace hpu::collectives {
namespace {

/// Three nodes of three ranks; the last one is slow, and under another leaf.
struct Nodes {
  std::shared_ptr<const Cluster> cluster;
  Placement placement;
  std::vector<int32_t> places;

  explicit Nodes(bool standard = false) {
    Cluster made;
    made.fabric = standardFabric(Target::kGaudi3, 3);
    if (!standard) {
      made.fabric.nodesPerLeaf = 2;
      made.fabric.exceptions = {{.node = 2, .rate = 0.5, .railsDown = {}, .devices = {}}};
    }
    std::vector<Place> where;
    std::vector<int32_t> devices, nodes;
    for (int32_t n = 0; n < 3; ++n)
      for (const int32_t d : {1, 4, 6}) {
        where.push_back({n, d});
        devices.push_back(d);
        nodes.push_back(n);
      }
    made.map = RankMap::create(made.fabric, where).value();
    cluster = std::make_shared<const Cluster>(std::move(made));
    placement = Placement(devices, nodes);
  }
  RankLinks of(int rank) const { return {rank, placement, cluster->fabric.mesh, cluster.get()}; }
};

TEST(Ports, PeersOfOtherNodesTakeTheRail) {
  const Nodes n;
  EXPECT_EQ(portOf(n.of(0), 1, true), 2u * 4);
  EXPECT_EQ(portOf(n.of(0), 1, false), 2u * 4 + 1);
  EXPECT_EQ(portOf(n.of(0), 4, true), 2u * kRailPort);
  EXPECT_EQ(portOf(n.of(0), 7, false), 2u * kRailPort + 1);
  EXPECT_EQ(portOf(n.of(4), 3, true), 2u * 1);
  const RankLinks alone{0, n.placement, n.cluster->fabric.mesh, nullptr};
  EXPECT_EQ(wayOf(alone, 1, true, 100), std::nullopt);
  EXPECT_EQ(busyPs(alone, 1, true, 100), n.cluster->fabric.mesh.linkPs(100));
}

TEST(Ports, MessagesAreNamedWithTheRailThatTheyTake) {
  const Nodes n;  // Of device slots 1, 4 and 6 with a rail each.
  EXPECT_EQ(messageName(n.of(0), true, 2), "send to 2");
  EXPECT_EQ(messageName(n.of(0), true, 5), "send to 5, rail 1");
  EXPECT_EQ(messageName(n.of(1), false, 3), "recv from 3, rail 4");
  EXPECT_EQ(messageName(n.of(8), true, 0), "send to 0, rail 6");
  // A rail that is down: its devices take the next one. Rails that devices share.
  Cluster other = *n.cluster;
  other.fabric.exceptions = {{.node = 0, .railsDown = {1}, .devices = {}}};
  EXPECT_EQ(messageName({0, n.placement, other.fabric.mesh, &other}, true, 5), "send to 5, rail 2");
  other.fabric.exceptions = {};
  other.fabric.rails = 4;
  EXPECT_EQ(messageName({2, n.placement, other.fabric.mesh, &other}, true, 5), "send to 5, rail 3");
  EXPECT_EQ(messageName({0, n.placement, other.fabric.mesh, nullptr}, true, 2), "send to 2");
}

TEST(Ports, OfACollectiveAllMessagesToOtherNodesAreOneUse) {
  const Nodes n;
  Problem p{Collective::kAllGather, 9, 4096};
  const auto& algorithms = planAlgorithms();
  const auto rails =
      std::find_if(algorithms.begin(), algorithms.end(), [](const auto& a) { return a.name == "rails"; });
  const std::shared_ptr<const Plan> plan = rails->make(p, n.cluster->map, {2});
  const auto timer = makePlanClock(plan, n.cluster).value();
  for (const int rank : {0, 4, 8}) {
    const ExternalPorts ports = portsOf(*timer, n.of(rank));
    int rail = 0;
    int64_t expected = 0;
    for (const RankUse::Link& link : timer->use(rank)->links)
      if (link.send && !n.placement.sameNode(rank, link.peer)) expected += link.busyPs;
    for (const ExternalPorts::Use& use : ports.uses) {
      if (use.port != 2u * kRailPort) continue;
      ++rail;
      EXPECT_EQ(use.busyPs, expected);
    }
    EXPECT_EQ(rail, 1);
    EXPECT_EQ(ports.leastPs, timer->use(rank)->leastPs);
    EXPECT_LE(ports.tailPs, n.cluster->fabric.railMessagePs);
  }
}

// One message between any two ranks ends when the plan of it does.
TEST(Ports, ATransferTakesWhatAPlanOfItTakes) {
  for (const bool standard : {true, false}) {
    const Nodes n(standard);
    for (int from = 0; from < 9; ++from)
      for (int to = 0; to < 9; ++to) {
        if (from == to) continue;
        for (const int64_t count : {0, 1, 3000, 1 << 20}) {
          Problem p{Collective::kPointToPoint, 9, count};
          p.root = from;
          p.destination = to;
          const auto& algorithms = planAlgorithms();
          const auto pairwise =
              std::find_if(algorithms.begin(), algorithms.end(), [](const auto& a) { return a.name == "pairwise"; });
          const auto plan = pairwise->make(p, n.cluster->map, {1});
          if (count == 0) continue;  // No message.
          std::vector<int64_t> arrivals(9, 0);
          arrivals[static_cast<size_t>(from)] = 5'000'000;
          const std::vector<int64_t> ends = timePlan(*plan, n.cluster->fabric, arrivals).value().endPs;
          const auto legOf = [&](int rank, int peer) {
            return TransferLeg{peer,
                               rank == from,
                               arrivals[static_cast<size_t>(peer)],
                               count * 4,
                               0,
                               wayOf(n.of(rank), peer, rank == from, count * 4)};
          };
          const TransferLeg sent = legOf(from, to), received = legOf(to, from);
          EXPECT_EQ(transfersEndPs(n.cluster->fabric.mesh, from, 5'000'000, {&sent, 1}), ends[from]);
          EXPECT_EQ(transfersEndPs(n.cluster->fabric.mesh, to, 0, {&received, 1}), ends[to]);
        }
      }
  }
}

// A scatter by sends: what goes to other nodes leaves by the root's rail, one behind another.
TEST(Ports, TransfersToManyRanksTakeWhatAScatterTakes) {
  const Nodes n(true);
  Problem p{Collective::kScatter, 9, 50'000};
  p.root = 4;
  const auto& algorithms = planAlgorithms();
  const auto pairwise =
      std::find_if(algorithms.begin(), algorithms.end(), [](const auto& a) { return a.name == "pairwise"; });
  const auto plan = pairwise->make(p, n.cluster->map, {1});
  const std::vector<int64_t> ends = timePlan(*plan, n.cluster->fabric).value().endPs;
  std::vector<TransferLeg> legs;
  for (int shift = 0; shift < 9; ++shift) {
    const int peer = (4 + shift) % 9;
    legs.push_back({peer, true, 0, 200'000, 0, peer == 4 ? std::nullopt : wayOf(n.of(4), peer, true, 200'000)});
  }
  EXPECT_EQ(transfersEndPs(n.cluster->fabric.mesh, 4, 0, legs), ends[4]);
  // Its device reserves the rail for all of them.
  std::vector<Transfer> transfers;
  for (const TransferLeg& leg : legs) {
    Transfer transfer;
    transfer.peer = leg.peer;
    transfer.send = true;
    transfer.count = 50'000;
    transfer.type = ElementType::kF32;
    transfers.push_back(transfer);
  }
  const ExternalPorts ports = portsOf(transfers, n.of(4));
  ASSERT_EQ(ports.uses.size(), 3u);
  for (const ExternalPorts::Use& use : ports.uses) {
    const Fabric& fabric = n.cluster->fabric;
    EXPECT_EQ(use.busyPs, use.port == 2u * kRailPort ? 6 * fabric.railPs(200'000) : fabric.mesh.linkPs(200'000));
  }
}

}  // namespace
}  // namespace hpu::collectives
