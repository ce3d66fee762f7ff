// SPDX-License-Identifier: Apache-2.0
#include "collectives/fabric/Fabric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hpu::collectives {
namespace {

constexpr Target kTargets[] = {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3};

TEST(Fabric, OfStandardNodesHasThePublishedRates) {
  const double rails[] = {37.5, 37.5, 75}, links[] = {12.5, 37.5, 75};
  for (size_t i = 0; i < 3; ++i) {
    const Fabric f = standardFabric(kTargets[i], 4);
    EXPECT_TRUE(checkFabric(f).ok()) << checkFabric(f).message();
    EXPECT_EQ(f.target, kTargets[i]);
    EXPECT_EQ(f.nodes, 4);
    EXPECT_EQ(f.devicesPerNode, 8);
    EXPECT_EQ(f.rails, 8);
    EXPECT_EQ(f.railBytesPerNs, rails[i]);
    EXPECT_EQ(f.mesh.linkBytesPerNs, links[i]);
    // 8192 bytes of payload of 8192 + 82 + 86: never above 98 % of the wire.
    EXPECT_DOUBLE_EQ(f.railPayloadBytesPerNs() / f.railBytesPerNs, 8192.0 / 8360);
    for (int32_t device = 0; device < 8; ++device) EXPECT_EQ(f.railOf(1, device), device);
    EXPECT_GT(f.railMessagePs, f.mesh.messagePs);
  }
}

TEST(Fabric, OfOneNodeIsTheNodesOwnModel) {
  for (Target target : kTargets) {
    const LinkModel &one = standardFabric(target, 1).mesh, &model = linkModel(target);
    for (int64_t bytes : {0, 1, 8193, 1 << 24}) {
      EXPECT_EQ(one.linkPs(bytes), model.linkPs(bytes));
      EXPECT_EQ(one.reducePs(bytes), model.reducePs(bytes));
      EXPECT_EQ(one.copyPs(bytes), model.copyPs(bytes));
    }
    EXPECT_EQ(one.startPs, model.startPs);
    EXPECT_EQ(one.messagePs, model.messagePs);
    // Rails take of the memory, too.
    EXPECT_LT(standardFabric(target, 2).mesh.copyBytesPerNs, model.copyBytesPerNs);
  }
}

TEST(Fabric, SharesRailsThatAreFewerThanDevices) {
  const Fabric f = uniformFabric(Target::kGaudi1, 2, 8, 12.5, 4, 12.5);
  for (int32_t device = 0; device < 8; ++device) EXPECT_EQ(f.railOf(0, device), device / 2);
}

TEST(Fabric, MovesDevicesOfARailThatIsDownToTheNext) {
  Fabric f = standardFabric(Target::kGaudi3, 4);
  f.exceptions = {{1, 1, {3, 7}, {}}, {3, 0.5, {0, 1, 2, 3, 4, 5, 6, 7}, {}}};
  ASSERT_TRUE(checkFabric(f).ok());
  EXPECT_EQ(f.railOf(1, 3), 4);
  EXPECT_EQ(f.railOf(1, 7), 0);
  EXPECT_EQ(f.railOf(1, 2), 2);
  EXPECT_EQ(f.railOf(2, 3), 3);
  EXPECT_EQ(f.railOf(3, 0), -1);
  EXPECT_EQ(f.rateOf(3), 0.5);
  EXPECT_EQ(f.rateOf(0), 1);
}

TEST(Fabric, CountsTheWireOfRailsAndLeaves) {
  Fabric f = standardFabric(Target::kGaudi3, 32);
  EXPECT_EQ(f.railPs(0), f.railIssuePs + static_cast<int64_t>(std::ceil((168 + 16) / 75.0 * 1000)));
  const int64_t gib = int64_t{1} << 30;
  const double wire = static_cast<double>(gib) * 8360 / 8192 + 16;
  EXPECT_NEAR(static_cast<double>(f.railPs(gib) - f.railIssuePs), wire / 75 * 1000, 1);
  f.nodesPerLeaf = 16;
  EXPECT_EQ(f.leafOf(15), 0);
  EXPECT_EQ(f.leafOf(16), 1);
}

TEST(Fabric, NamesEveryConstantOnceWithIntervalAndSource) {
  const Fabric f = standardFabric(Target::kGaudi2, 2);
  EXPECT_EQ(f.constants.size(), 10u);
  for (const ModelConstant& c : f.constants) {
    EXPECT_EQ(findConstant(f, c.name), &c);
    EXPECT_LE(c.low, c.value) << c.name;
    EXPECT_LE(c.value, c.high) << c.name;
    EXPECT_FALSE(c.source.empty()) << c.name;
    Fabric same = f;
    EXPECT_TRUE(setConstant(same, c).ok()) << c.name;
    EXPECT_EQ(same.railMessagePs, f.railMessagePs) << c.name;
    EXPECT_EQ(same.mesh.copyBytesPerNs, f.mesh.copyBytesPerNs) << c.name;
    EXPECT_EQ(same.railPacketOverheadBytes, f.railPacketOverheadBytes) << c.name;
  }
}

TEST(Fabric, SetsWhatFollowsFromAConstant) {
  Fabric f = standardFabric(Target::kGaudi2, 2);
  const auto set = [&](const char* name, double value) { return setConstant(f, {name, value, value, value, "here"}); };
  ASSERT_TRUE(set("message_us", 5).ok());
  EXPECT_EQ(f.mesh.messagePs, 5'000'000);
  EXPECT_EQ(f.railMessagePs, 5'600'000);
  ASSERT_TRUE(set("switch_us", 1).ok());
  EXPECT_EQ(f.railMessagePs, 6'000'000);
  EXPECT_EQ(f.uplinkPs, 2'000'000);
  ASSERT_TRUE(set("rail_nic_us", 15).ok());
  EXPECT_EQ(f.railMessagePs, 21'000'000);
  ASSERT_TRUE(set("packets_per_ack", 4).ok());
  EXPECT_EQ(f.mesh.packetOverheadBytes, 82 + 21);
  EXPECT_EQ(f.railPacketOverheadBytes, 82 + 21);
  ASSERT_TRUE(set("rail_issue_us", 0.5).ok());
  EXPECT_EQ(f.railIssuePs, 500'000);
  ASSERT_TRUE(set("copy_gb_per_s", 100).ok());
  EXPECT_EQ(f.mesh.copyBytesPerNs, 100);
  EXPECT_EQ(findConstant(f, "copy_gb_per_s")->source, "here");
  EXPECT_TRUE(checkFabric(f).ok());

  EXPECT_NE(set("mesage_us", 5).message().find("there are start_us, message_us"), std::string::npos);
  EXPECT_FALSE(set("message_us", -1).ok());
  EXPECT_FALSE(set("message_us", std::numeric_limits<double>::quiet_NaN()).ok());
  EXPECT_FALSE(set("packets_per_ack", 1.5).ok());
  EXPECT_FALSE(setConstant(f, {"start_us", 5, 1, 2, ""}).ok());
  EXPECT_EQ(f.mesh.messagePs, 5'000'000);
}

TEST(Fabric, AtTheBoundsOfItsNumbersHasTimesThatFit) {
  Fabric f = uniformFabric(Target::kGaudi1, 2, 2, kLeastLinkRate, 1, kLeastLinkRate);
  f.railPacketBytes = f.mesh.packetBytes = kLeastPacketBytes;
  f.railPacketOverheadBytes = f.mesh.packetOverheadBytes = kMostOverheadBytes;
  f.nodesPerLeaf = 1;
  f.oversubscription = kMostOversubscription;
  f.exceptions = {{0, kLeastNodeRate, {}, {}}};
  ASSERT_TRUE(checkFabric(f).ok()) << checkFabric(f).message();
  const int64_t bytes = int64_t{1} << 40;
  const double most = 9.2e18;
  EXPECT_LT(static_cast<double>(f.railPs(bytes)) / kLeastNodeRate, most);
  EXPECT_LT(static_cast<double>(f.mesh.linkPs(bytes)) / kLeastNodeRate, most);
}

TEST(Fabric, IsCheckedFieldByField) {
  const Fabric good = standardFabric(Target::kGaudi3, 4);
  const auto error = [&](auto change) {
    Fabric f = good;
    change(f);
    const Status status = checkFabric(f);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error([](Fabric& f) { f.nodes = 0; }), "'nodes' is 0, not from 1 to 1048576");
  EXPECT_EQ(error([](Fabric& f) { f.nodes = 200'000; }),
            "'nodes' x 'devices_per_node' are 1600000 devices; at most 1048576");
  EXPECT_EQ(error([](Fabric& f) { f.devicesPerNode = 65; }), "'devices_per_node' is 65, not from 1 to 64");
  EXPECT_EQ(error([](Fabric& f) { f.rails = 9; }), "'count of the rails' is 9, not from 1 to 8");
  EXPECT_NE(error([&](Fabric& f) { f.railBytesPerNs = nan; }), "");
  EXPECT_NE(error([&](Fabric& f) { f.railBytesPerNs = inf; }), "");
  EXPECT_NE(error([&](Fabric& f) { f.mesh.linkBytesPerNs = 0; }), "");
  EXPECT_NE(error([&](Fabric& f) { f.mesh.copyBytesPerNs = -5; }).find("leave copies nothing"), std::string::npos);
  EXPECT_NE(error([&](Fabric& f) { f.oversubscription = 2; }).find("no leaves"), std::string::npos);
  EXPECT_NE(error([&](Fabric& f) { f.nodesPerLeaf = 2, f.oversubscription = 0.5; }), "");
  EXPECT_NE(error([&](Fabric& f) { f.railMessagePs = -1; }), "");
  EXPECT_NE(error([&](Fabric& f) { f.railPacketBytes = 0; }), "");
  EXPECT_NE(error([&](Fabric& f) { f.mesh.target = Target::kGaudi1; }), "");
  EXPECT_EQ(error([&](Fabric& f) { f.exceptions = {{4, 1, {}, {}}}; }), "'exceptions', node 4: there are nodes 0 to 3");
  EXPECT_EQ(error([&](Fabric& f) { f.exceptions = {{1, 1, {}, {}}, {1, 1, {}, {}}}; }),
            "'exceptions', node 1: it comes after node 1: each node once, ascending");
  EXPECT_EQ(error([&](Fabric& f) { f.exceptions = {{1, 0, {}, {}}}; }),
            "'exceptions', node 1: 'rate' is 0, not from 0.01 to 1");
  EXPECT_EQ(error([&](Fabric& f) { f.exceptions = {{1, 1, {8}, {}}}; }),
            "'exceptions', node 1: 'rails_down' is 8, not from 0 to 7");
  EXPECT_EQ(error([&](Fabric& f) { f.exceptions = {{1, 1, {}, {2, 2}}}; }),
            "'exceptions', node 1: 'devices' names 2 after 2: each once, ascending");
  EXPECT_EQ(error([](Fabric&) {}), "");
}

}  // namespace
}  // namespace hpu::collectives
