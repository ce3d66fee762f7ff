// SPDX-License-Identifier: Apache-2.0
#include "collectives/topology/LinkModel.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "arch/NetworkDesc.h"
#include "arch/TargetDesc.h"

namespace hpu::collectives {
namespace {

constexpr Target kTargets[] = {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3};

TEST(NetworkDesc, HasThePublishedRates) {
  EXPECT_EQ(arch::networkDesc(Target::kGaudi1).bytesPerNsPerPeer(), 12.5);
  EXPECT_EQ(arch::networkDesc(Target::kGaudi2).bytesPerNsPerPeer(), 37.5);
  EXPECT_EQ(arch::networkDesc(Target::kGaudi3).bytesPerNsPerPeer(), 75);
  EXPECT_EQ(arch::networkDesc(Target::kGaudi1).scaleOutBytesPerNs(), 37.5);
  EXPECT_EQ(arch::networkDesc(Target::kGaudi2).scaleOutBytesPerNs(), 37.5);
  EXPECT_EQ(arch::networkDesc(Target::kGaudi3).scaleOutBytesPerNs(), 75);
  for (Target target : kTargets) {
    const arch::NetworkDesc& n = arch::networkDesc(target);
    EXPECT_EQ(n.target, target);
    EXPECT_EQ(n.portsPerPeer * (n.devices - 1) + n.scaleOutPorts, n.ports);
    EXPECT_EQ(n.packetHeaderBytes, 82);
  }
}

TEST(LinkModel, HasTheSameFittedConstantsForAllTargets) {
  const LinkModel& first = linkModel(Target::kGaudi1);
  for (Target target : kTargets) {
    const LinkModel& m = linkModel(target);
    EXPECT_EQ(m.target, target);
    EXPECT_EQ(m.packetOverheadBytes, first.packetOverheadBytes);
    EXPECT_EQ(m.startPs, first.startPs);
    EXPECT_EQ(m.messagePs, first.messagePs);
    EXPECT_EQ(m.messageIssuePs, first.messageIssuePs);
    EXPECT_EQ(m.stepPs, first.stepPs);
    EXPECT_EQ(m.payloadBytesPerNs() / m.linkBytesPerNs, first.payloadBytesPerNs() / first.linkBytesPerNs);
    // Reductions cannot be faster than the memory, and it can do what the links bring.
    EXPECT_LT(m.reduceBytesPerNs, arch::targetDesc(target).hbmBytesPerNs);
    EXPECT_GT(m.reduceBytesPerNs, 7 * m.linkBytesPerNs);
  }
}

TEST(LinkModel, TakesTheLinkForWholePackets) {
  const LinkModel& m = linkModel(Target::kGaudi3);
  auto wire = [&](int64_t bytes) {
    return static_cast<double>(m.linkPs(bytes) - m.messageIssuePs) / 1000 * m.linkBytesPerNs;
  };
  // Headers 82, an acknowledgement of 86 a packet, 16 more for the first one.
  EXPECT_NEAR(wire(0), 168 + 16, 0.1);
  EXPECT_NEAR(wire(1), 1 + 168 + 16, 0.1);
  EXPECT_NEAR(wire(8192), 8192 + 168 + 16, 0.1);
  EXPECT_NEAR(wire(8193), 8193 + 2 * 168 + 16, 0.1);
  int64_t large = int64_t{1} << 40;
  EXPECT_NEAR(wire(large) / static_cast<double>(large), 8360.0 / 8192, 1e-9);
  // Never shorter when cut.
  for (int64_t bytes : {1000, 100'000, 10'000'000}) EXPECT_GE(2 * m.linkPs(bytes / 2), m.linkPs(bytes));
}

TEST(LinkModel, OfAnotherMeshLeavesLinksAndRailsTheirPartOfTheMemory) {
  for (Target target : kTargets) {
    const LinkModel& standard = linkModel(target);
    const LinkModel same = meshModel(target, 8, standard.linkBytesPerNs, 0);
    EXPECT_EQ(same.copyBytesPerNs, standard.copyBytesPerNs);
    EXPECT_EQ(same.reduceBytesPerNs, standard.reduceBytesPerNs);
    EXPECT_EQ(same.linkPs(1 << 20), standard.linkPs(1 << 20));
    const LinkModel four = meshModel(target, 4, 2 * standard.linkBytesPerNs, 10);
    EXPECT_DOUBLE_EQ(four.copyBytesPerNs, standard.copyBytesPerNs + 2 * standard.linkBytesPerNs - 20);
  }
}

TEST(LinkModel, NamesAnIntervalAndASourceForEveryConstantOfOurs) {
  for (Target target : kTargets) {
    const LinkModel& m = linkModel(target);
    const std::vector<ModelConstant> constants = meshConstants(m);
    std::map<std::string, ModelConstant> byName;
    for (const ModelConstant& c : constants) {
      EXPECT_TRUE(byName.emplace(c.name, c).second) << c.name;
      EXPECT_LE(c.low, c.value) << c.name;
      EXPECT_LE(c.value, c.high) << c.name;
      EXPECT_GT(c.source.size(), 20u) << c.name;
    }
    EXPECT_EQ(byName["start_us"].value, static_cast<double>(m.startPs) / 1e6);
    EXPECT_EQ(byName["message_us"].value, static_cast<double>(m.messagePs) / 1e6);
    EXPECT_EQ(byName["message_issue_us"].value, static_cast<double>(m.messageIssuePs) / 1e6);
    EXPECT_EQ(byName["copy_start_us"].value, static_cast<double>(m.stepPs) / 1e6);
    EXPECT_EQ(byName["packets_per_ack"].value, 1);
    // Community figures of small operations (13 us for two ranks, 16 us for four) lie within what the model allows.
    EXPECT_GE(byName["start_us"].high + byName["message_us"].high, 16);
  }
}

}  // namespace
}  // namespace hpu::collectives
