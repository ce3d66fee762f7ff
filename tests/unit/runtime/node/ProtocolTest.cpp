// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/Protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/un.h>

#include <random>

namespace hpu::node {
namespace {

DeviceStatus sample() {
  DeviceStatus status;
  status.index = 3;
  status.target = Target::kGaudi3;
  status.clockProfile = "sustained";
  status.owner = {4711, "python3", 123456789012, 5};
  status.peers = {{4712, "rank1", 0, 0}, {4713, "rank2", 0, 0}};
  status.totalBytes = int64_t{128} << 30;
  status.usedBytes = 123456789012;
  status.peakBytes = 223456789012;
  for (int e = 0; e < kNumEngines; ++e) status.counters.busyNs[e] = 1000 + e;
  status.counters.deviceNs = 77;
  status.counters.launches = 8;
  status.counters.commands = 9;
  status.counters.h2dBytes = 10;
  status.counters.d2hBytes = 11;
  for (int link = 0; link < kLinks; ++link)
    status.links[link] = {{link, 2, 3, 4, 5 + link}, {6, 7 + link, 8, 9, int64_t{10} << link}};
  status.railUsers = 2;
  for (int i = 0; i < kNumNetworkCounters; ++i) status.network[i] = static_cast<uint64_t>(200 + i);
  status.acquiredAtNs = 1700000000000000001;
  status.updatedAtNs = 1700000000000000002;
  status.queuedWork = 12;
  for (int f = 0; f < kNumFaults; ++f) status.faults[f] = static_cast<uint64_t>(100 + f);
  status.lost = true;
  status.lastError = "launch: it failed";
  return status;
}

TEST(NodeProtocol, StatusComesBackAsItWasSent) {
  DeviceStatus sent = sample();
  DeviceStatus got = decodeStatus(encodeStatus(sent)).value();
  EXPECT_EQ(got.index, 3);
  EXPECT_EQ(got.target, Target::kGaudi3);
  EXPECT_EQ(got.clockProfile, "sustained");
  EXPECT_EQ(got.owner.pid, 4711);
  EXPECT_EQ(got.owner.name, "python3");
  EXPECT_EQ(got.owner.usedBytes, 123456789012);
  EXPECT_EQ(got.owner.streams, 5);
  ASSERT_EQ(got.peers.size(), 2u);
  EXPECT_EQ(got.peers[1].pid, 4713);
  EXPECT_EQ(got.peers[1].name, "rank2");
  EXPECT_EQ(got.totalBytes, sent.totalBytes);
  EXPECT_EQ(got.usedBytes, sent.usedBytes);
  EXPECT_EQ(got.peakBytes, sent.peakBytes);
  for (int e = 0; e < kNumEngines; ++e) EXPECT_EQ(got.counters.busyNs[e], 1000 + e);
  EXPECT_EQ(got.counters.deviceNs, 77);
  EXPECT_EQ(got.counters.launches, 8);
  EXPECT_EQ(got.counters.commands, 9);
  EXPECT_EQ(got.counters.h2dBytes, 10);
  EXPECT_EQ(got.counters.d2hBytes, 11);
  for (int link = 0; link < kLinks; ++link) EXPECT_EQ(got.links[link], sent.links[link]) << link;
  EXPECT_EQ(got.railUsers, 2);
  for (int i = 0; i < kNumNetworkCounters; ++i) EXPECT_EQ(got.network[i], static_cast<uint64_t>(200 + i));
  EXPECT_EQ(got.acquiredAtNs, sent.acquiredAtNs);
  EXPECT_EQ(got.updatedAtNs, sent.updatedAtNs);
  EXPECT_EQ(got.queuedWork, 12);
  for (int f = 0; f < kNumFaults; ++f) EXPECT_EQ(got.faults[f], static_cast<uint64_t>(100 + f));
  EXPECT_TRUE(got.lost);
  EXPECT_EQ(got.lastError, "launch: it failed");
}

TEST(NodeProtocol, FailureOfTheOwnerIsTheCallersFailure) {
  std::string reply = encodeFailure(failedPrecondition("not now"));
  EXPECT_EQ(decodeDone(reply).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(decodeStatus(reply).status().message(), "not now");
  EXPECT_EQ(decodeMemory(reply).status().message(), "not now");
  EXPECT_TRUE(decodeDone(encodeDone()).ok());
}

TEST(NodeProtocol, BrokenRepliesAreErrorsAndNeverMore) {
  std::string good = encodeStatus(sample());
  for (size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_FALSE(decodeStatus(std::string_view(good).substr(0, cut)).ok()) << cut;
  EXPECT_EQ(decodeStatus("nonsense").status().code(), StatusCode::kDataLoss);
  std::string newer = good;
  newer[4] = static_cast<char>(newer[4] + 1);
  EXPECT_THAT(decodeStatus(newer).status().message(), ::testing::HasSubstr("one version"));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    (void)decodeStatus(bad);
    (void)decodeMemory(bad);
  }
}

TEST(NodeProtocol, NamesFitIntoASocketAddress) {
  std::string longest(64, 'n');
  std::string name = socketName(longest, 7);
  EXPECT_THAT(name, ::testing::EndsWith(longest + "/7"));
  sockaddr_un address;
  EXPECT_LE(socketAddress(name, address), sizeof address);
  EXPECT_EQ(address.sun_path[0], '\0');
  EXPECT_EQ(std::string(address.sun_path + 1, name.size()), name);
  EXPECT_LT(name.size() + 1 + 10, sizeof address.sun_path) << "a user id may have ten digits";
}

}  // namespace
}  // namespace hpu::node
