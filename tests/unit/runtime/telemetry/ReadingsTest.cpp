// SPDX-License-Identifier: Apache-2.0
// Samples are made up; what they must read as is written out by hand from the model of docs/hpu-smi.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hpu/telemetry.h"

namespace hpu::telemetry {
namespace {

constexpr int kMme = static_cast<int>(Engine::kMme), kTpc = static_cast<int>(Engine::kTpc);

node::DeviceStatus sample(int64_t deviceNs, int64_t mmeNs, int64_t tpcNs) {
  node::DeviceStatus status;
  status.owner.pid = 77;
  status.acquiredAtNs = 1000;
  status.updatedAtNs = 5000;
  status.counters.deviceNs = deviceNs;
  status.counters.busyNs[kMme] = mmeNs;
  status.counters.busyNs[kTpc] = tpcNs;
  return status;
}

TEST(Readings, UtilizationIsTheBusiestEnginesShareOfTheSimulatedWindow) {
  node::DeviceStatus before = sample(1000, 900, 100), after = sample(3000, 1100, 1600);
  after.updatedAtNs = 9000;
  Readings readings = read(before, after);
  EXPECT_EQ(readings.deviceNs, 2000);
  EXPECT_EQ(readings.hostNs, 4000);
  EXPECT_DOUBLE_EQ(readings.engine[kMme], 0.1);
  EXPECT_DOUBLE_EQ(readings.engine[kTpc], 0.75);
  EXPECT_DOUBLE_EQ(readings.utilization, 0.75);
  EXPECT_FALSE(readings.sinceAcquired);
  // HL-225: 90 W idle, 600 W cap.
  EXPECT_DOUBLE_EQ(readings.watts, 90 + 510 * 0.75);
  EXPECT_NEAR(readings.celsius, 26 + 510 * 0.75 * 10 / 444, 1e-9);
}

TEST(Readings, AnIdleWindowShowsIdlePower) {
  node::DeviceStatus status = sample(1000, 900, 100);
  Readings readings = read(status, status);
  EXPECT_EQ(readings.utilization, 0);
  EXPECT_DOUBLE_EQ(readings.watts, 90);
  EXPECT_FALSE(readings.sinceAcquired);
}

TEST(Readings, QueuedWorkThatHasNoTimeYetShowsTheMeanSinceTheAcquisition) {
  node::DeviceStatus status = sample(1000, 900, 100);
  status.queuedWork = 3;
  Readings readings = read(status, status);
  EXPECT_TRUE(readings.sinceAcquired);
  EXPECT_DOUBLE_EQ(readings.utilization, 0.9);
  EXPECT_EQ(readings.hostNs, 4000);
}

TEST(Readings, ANewOwnerOrAResetStartsANewWindow) {
  node::DeviceStatus before = sample(1000, 900, 100), after = sample(2000, 1000, 100);
  after.owner.pid = 78;
  after.acquiredAtNs = 2000;
  Readings readings = read(before, after);
  EXPECT_TRUE(readings.sinceAcquired);
  EXPECT_EQ(readings.deviceNs, 2000);
  EXPECT_DOUBLE_EQ(readings.utilization, 0.5);
  readings = read(sample(1000, 900, 100), sample(400, 100, 0));  // The counters fell: a reset.
  EXPECT_TRUE(readings.sinceAcquired);
  EXPECT_DOUBLE_EQ(readings.utilization, 0.25);
}

TEST(Readings, AFreeDeviceIsIdle) {
  node::DeviceStatus free;
  free.target = Target::kGaudi3;
  Readings readings = read(sample(1000, 900, 100), free);
  EXPECT_FALSE(readings.sinceAcquired);
  EXPECT_EQ(readings.utilization, 0);
  EXPECT_EQ(readings.joules, 0);
  EXPECT_DOUBLE_EQ(readings.watts, 264);
}

TEST(Readings, EnergyFollowsTheMeanUtilizationSinceTheAcquisition) {
  // 2 simulated seconds, the MME busy for one: 2 x (90 + 510 / 2) J, whatever the window is.
  node::DeviceStatus after = sample(2'000'000'000, 1'000'000'000, 3);
  EXPECT_DOUBLE_EQ(read(after, after).joules, 690);
  EXPECT_DOUBLE_EQ(readSinceAcquired(after).joules, 690);
  EXPECT_TRUE(readSinceAcquired(after).sinceAcquired);
}

TEST(Readings, EnergyNeverFalls) {
  double last = 0;
  int64_t mme = 0, tpc = 0;
  for (int step = 1; step <= 100; ++step) {
    (step % 7 < 3 ? mme : tpc) += 600;
    double joules = readSinceAcquired(sample(step * 1000, mme, tpc)).joules;
    EXPECT_GT(joules, last);
    last = joules;
  }
}

TEST(Readings, ThroughputIsPerSimulatedSecond) {
  node::DeviceStatus before = sample(0, 0, 0), after = sample(1000, 0, 0);
  after.counters.h2dBytes = 5000;
  after.counters.d2hBytes = 20;
  Readings readings = read(before, after);
  EXPECT_DOUBLE_EQ(readings.receivedPerSecond, 5e9);
  EXPECT_DOUBLE_EQ(readings.sentPerSecond, 2e7);
}

TEST(Readings, ThrottlingComesFromInjectedHeatAndFromTheProfilesDerate) {
  node::DeviceStatus before = sample(0, 0, 0), after = sample(1000, 500, 0);
  EXPECT_FALSE(read(before, after).powerThrottled);
  EXPECT_FALSE(read(before, after).thermalThrottled);
  EXPECT_EQ(powerViolationNs(after), 0);
  after.faults[static_cast<int>(node::Fault::kThermal)] = 1;
  EXPECT_TRUE(read(before, after).thermalThrottled);
  before.target = after.target = Target::kGaudi3;  // Its sustained profile has a derate.
  EXPECT_TRUE(read(before, after).powerThrottled);
  EXPECT_EQ(powerViolationNs(after), 500);
  after.clockProfile = "datasheet";
  EXPECT_FALSE(read(before, after).powerThrottled);
}

TEST(Board, ClocksAreThoseOfTheProfile) {
  StatusOr<Clocks> clock = clocks(Target::kGaudi2);
  ASSERT_TRUE(clock.ok());
  EXPECT_EQ(clock->mme, 1650);  // What hl-smi shows on HL-225: soc 1650, tpc 1800.
  EXPECT_EQ(clock->tpc, 1800);
  clock = clocks(Target::kGaudi3, "sustained");
  EXPECT_EQ(clock->mme, 1296);
  EXPECT_EQ(clock->mmeMax, 1600);
  EXPECT_EQ(clocks(Target::kGaudi3, "datasheet")->mme, 1750);
  EXPECT_EQ(clocks(Target::kGaudi2, "warp").status().code(), StatusCode::kInvalidArgument);
}

TEST(Board, EveryPairOfDevicesHasTheSameNumberOfLinks) {
  EXPECT_EQ(board(Target::kGaudi1).linksPerPeer(), 1);
  EXPECT_EQ(board(Target::kGaudi2).linksPerPeer(), 3);
  EXPECT_EQ(board(Target::kGaudi3).linksPerPeer(), 3);
  for (Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
    const Board& facts = board(target);
    EXPECT_EQ(std::popcount(facts.portMask), facts.ports);
    EXPECT_EQ(std::popcount(facts.externalPortMask), 3);
    EXPECT_EQ(facts.externalPortMask & ~facts.portMask, 0u);
    EXPECT_LT(facts.idleWatts, facts.capWatts);
  }
}

TEST(Board, LinksAreUpInsideTheBoxUntilTheDeviceIsLost) {
  node::DeviceStatus status = sample(0, 0, 0);
  EXPECT_TRUE(linkUp(status, 0));
  EXPECT_FALSE(linkUp(status, 8));  // External.
  EXPECT_FALSE(linkUp(status, 24));
  EXPECT_FALSE(linkUp(status, -1));
  EXPECT_FALSE(linkUp(status, 64));
  status.lost = true;
  EXPECT_FALSE(linkUp(status, 0));
}

TEST(Ports, ExternalOnesAreUpWhileThereIsSomebodyToTalkToOtherNodes) {
  node::DeviceStatus status;
  status.railUsers = 1;
  EXPECT_TRUE(linkUp(status, 8));
  EXPECT_TRUE(linkUp(status, 0));
  EXPECT_FALSE(linkUp(status, 24));
  status.lost = true;
  EXPECT_FALSE(linkUp(status, 8));
}

TEST(Ports, EachPeerHasAsManyPortsAndBothEndsAgree) {
  for (Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
    const Board& facts = board(target);
    for (int device = 0; device < node::kDevices; ++device) {
      node::DeviceStatus status;
      status.index = device;
      status.target = target;
      std::vector<int> ports(node::kDevices, 0);
      for (int port = 0; port < facts.ports; ++port) {
        const int peer = portPeer(status, port);
        EXPECT_EQ(peer < 0, facts.isExternal(port));
        if (peer >= 0) ++ports[static_cast<size_t>(peer)];
      }
      for (int peer = 0; peer < node::kDevices; ++peer)
        EXPECT_EQ(ports[static_cast<size_t>(peer)], peer == device ? 0 : facts.linksPerPeer());
      EXPECT_EQ(portPeer(status, -1), -1);
      EXPECT_EQ(portPeer(status, 64), -1);
    }
  }
}

TEST(Ports, TogetherCarryWhatTheirLinkCarries) {
  node::DeviceStatus status;
  status.index = 2;
  for (int link = 0; link < node::kLinks; ++link) {
    const int64_t n = 1000 * (link + 1) + link;  // Not always a multiple of three.
    status.links[link] = {{n, 2 * n, 3 * n + 1, 4 * n + 2, 5000 * n}, {n + 1, n + 2, n + 3, n + 4, 7000 * n}};
  }
  for (int i = 0; i < node::kNumNetworkCounters; ++i) status.network[i] = 100 + static_cast<uint64_t>(i);
  std::map<std::pair<int, std::string>, int64_t> sums;  // By link.
  std::vector<std::string> names;
  for (int port = 0; port < 24; ++port) {
    const int link = board(status.target).isExternal(port) ? node::kRail : portPeer(status, port);
    std::vector<std::string> own;
    for (const PortCounter& counter : portCounters(status, port)) {
      own.emplace_back(counter.name);
      EXPECT_LT(counter.name.size(), 32u) << "libhlml's room for a name";
      sums[{link, own.back()}] += static_cast<int64_t>(counter.value);
    }
    if (names.empty()) names = own;
    EXPECT_EQ(own, names);
    EXPECT_EQ(std::set<std::string>(own.begin(), own.end()).size(), own.size());
  }
  for (int link = 0; link < node::kLinks; ++link) {
    if (link == status.index) continue;  // What leaves the device by no port.
    const node::LinkTraffic& traffic = status.links[link];
    EXPECT_EQ((sums[{link, "tx_bytes"}]), traffic.sent.bytes);
    EXPECT_EQ((sums[{link, "tx_payload_bytes"}]), traffic.sent.payloadBytes);
    EXPECT_EQ((sums[{link, "tx_packets"}]), traffic.sent.packets);
    EXPECT_EQ((sums[{link, "tx_messages"}]), traffic.sent.messages);
    EXPECT_EQ((sums[{link, "rx_bytes"}]), traffic.received.bytes);
    EXPECT_EQ((sums[{link, "tx_busy_ns"}]), 3 * traffic.sent.busyPs / 1000) << "three ports, busy together";
    EXPECT_EQ((sums[{link, "bad_icrc"}]), link == node::kRail ? 3 * 107 : 0);
  }
  EXPECT_EQ((sums[{status.index, "tx_bytes"}]), 0);
  EXPECT_TRUE(portCounters(status, 24).empty());
  EXPECT_TRUE(portCounters(status, -1).empty());
  EXPECT_EQ(networkCounterName(node::NetworkCounter::kOutOfOrder), "out_of_order");
  EXPECT_EQ(networkCounterName(static_cast<node::NetworkCounter>(node::kNumNetworkCounters)), "unknown");
}

TEST(Board, MacAddressesAreLocalAndDistinct) {
  std::set<std::array<uint8_t, 6>> seen;
  for (int device = 0; device < node::kDevices; ++device) {
    node::DeviceStatus status;
    status.uuid = "uuid-" + std::to_string(device);
    for (int port = 0; port < 24; ++port) {
      auto mac = macAddress(status, port);
      EXPECT_EQ(mac[0] & 3, 2);  // Locally administered, unicast.
      EXPECT_EQ(mac, macAddress(status, port));
      EXPECT_TRUE(seen.insert(mac).second);
    }
  }
}

}  // namespace
}  // namespace hpu::telemetry
