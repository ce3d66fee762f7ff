// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "World.h"

namespace hpu::collectives {
namespace {

using testing::Call;
using testing::Outcome;
using testing::World;

Transfer send(World& world, int from, int to, int64_t offset, int64_t count, ElementType type = ElementType::kI32) {
  return {true, to, world.rank(from).base + static_cast<uint64_t>(offset), count, type};
}
Transfer receive(World& world, int at, int from, int64_t offset, int64_t count, ElementType type = ElementType::kI32) {
  return {false, from, world.rank(at).base + static_cast<uint64_t>(offset), count, type};
}
Outcome begin(World& world, int rank, std::vector<Transfer> transfers, int64_t arrivalPs = 0,
              int64_t timeoutMs = 20000) {
  TransferOperation operation;
  operation.transfers = std::move(transfers);
  operation.arrivalPs = arrivalPs;
  operation.timeoutMs = timeoutMs;
  Outcome outcome;
  world.rank(rank).executor->begin(std::move(operation), outcome.done());
  return outcome;
}
void fillBytes(World& world, int rank, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (auto& byte : world.rank(rank).memory) byte = static_cast<std::byte>(random());
}
void expectSame(World& world, int a, int64_t offsetA, int b, int64_t offsetB, int64_t bytes) {
  EXPECT_EQ(std::memcmp(world.rank(a).memory.data() + offsetA, world.rank(b).memory.data() + offsetB,
                        static_cast<size_t>(bytes)),
            0);
}

TEST(ExecutorTransfers, BothSidesLearnTheOthersArrivalWhoeverComesFirst) {
  for (int64_t count : {0, 5, 50000}) {
    for (bool receiverFirst : {false, true}) {
      World world(2);
      fillBytes(world, 0, 1);
      Outcome sent, received;
      if (!receiverFirst) sent = begin(world, 0, {send(world, 0, 1, 4, count)}, 111);
      received = begin(world, 1, {receive(world, 1, 0, 300000, count)}, 222);
      if (receiverFirst) sent = begin(world, 0, {send(world, 0, 1, 4, count)}, 111);
      OperationResult atSender = sent.wait(), atReceiver = received.wait();
      ASSERT_TRUE(atSender.status.ok()) << atSender.status.toString();
      ASSERT_TRUE(atReceiver.status.ok()) << atReceiver.status.toString();
      ASSERT_EQ(atSender.peers.size(), 1u);
      EXPECT_EQ(atSender.peers[0].arrivalPs, 222);
      EXPECT_EQ(atSender.peers[0].bytes, 4 * count);
      EXPECT_TRUE(atSender.peers[0].send);
      EXPECT_EQ(atReceiver.peers[0].arrivalPs, 111);
      EXPECT_EQ(atReceiver.peers[0].peer, 0);
      expectSame(world, 0, 4, 1, 300000, 4 * count);
    }
  }
}

TEST(ExecutorTransfers, AGroupThatSendsBeforeItReceivesDoesNotWaitForItself) {
  constexpr int kRanks = 5;
  constexpr int64_t kCount = 3000;
  LocalOptions options;
  options.laneMessages = 1;
  World world(kRanks, options);
  for (int r = 0; r < kRanks; ++r) fillBytes(world, r, static_cast<uint64_t>(r));
  std::vector<Outcome> outcomes;
  for (int r = 0; r < kRanks; ++r) {
    std::vector<Transfer> transfers;
    for (int p = 0; p < kRanks; ++p) {  // To itself too.
      for (int k = 0; k < 3; ++k) {
        transfers.push_back(send(world, r, p, 4 * kCount * (3 * p + k), kCount));
        transfers.push_back(receive(world, r, p, 500000 + 4 * kCount * (3 * p + k), kCount));
      }
    }
    outcomes.push_back(begin(world, r, transfers, 1000 + r));
  }
  for (int r = 0; r < kRanks; ++r) {
    OperationResult result = outcomes[static_cast<size_t>(r)].wait();
    ASSERT_TRUE(result.status.ok()) << result.status.toString();
    for (const auto& peer : result.peers) EXPECT_EQ(peer.arrivalPs, 1000 + peer.peer);
    for (int p = 0; p < kRanks; ++p) {
      expectSame(world, p, 4 * kCount * 3 * r, r, 500000 + 4 * kCount * 3 * p, 3 * 4 * kCount);
    }
  }
}

TEST(ExecutorTransfers, OperationsOfAPairMeetInTheirOrderBesideCollectives) {
  World world(2);
  fillBytes(world, 0, 3);
  std::vector<Outcome> outcomes;
  Call call;
  call.count = 100;
  call.algorithm = "ring";
  // The second half of memory, where no collective of this size reaches.
  const int64_t from = 600000, to = 800000;
  for (int k = 0; k < 40; ++k) {
    outcomes.push_back(begin(world, 1, {receive(world, 1, 0, to + 4000 * k, 10 + k)}));
  }
  for (int k = 0; k < 40; ++k) {
    if (k % 8 == 0) {
      for (int r = 0; r < 2; ++r) {
        world.rank(r).executor->begin(world.operation(r, call), outcomes.emplace_back().done());
      }
    }
    outcomes.push_back(begin(world, 0, {send(world, 0, 1, from + 400 * k, 10 + k)}));
  }
  for (Outcome& outcome : outcomes) {
    OperationResult result = outcome.wait();
    ASSERT_TRUE(result.status.ok()) << result.status.toString();
  }
  for (int k = 0; k < 40; ++k) {
    expectSame(world, 0, from + 400 * k, 1, to + 4000 * k, 4 * (10 + k));
  }
}

TEST(ExecutorTransfers, ASendToOneselfMeetsAReceiveOfAnotherOperation) {
  World world(2);
  fillBytes(world, 0, 4);
  Outcome sent = begin(world, 0, {send(world, 0, 0, 0, 1000)}, 5);
  EXPECT_FALSE(sent.arrived());
  Outcome received = begin(world, 0, {receive(world, 0, 0, 100000, 1000)}, 6);
  EXPECT_EQ(sent.wait().peers[0].arrivalPs, 6);
  EXPECT_EQ(received.wait().peers[0].arrivalPs, 5);
  expectSame(world, 0, 0, 0, 100000, 4000);
}

TEST(ExecutorTransfers, BothSidesAreToldWhatDiffers) {
  struct {
    int64_t sent, received;
    ElementType type;
    const char* text;
  } const cases[] = {{10, 11, ElementType::kI32, "11 i32"},
                     {50000, 10, ElementType::kI32, "10 i32"},
                     {10, 10, ElementType::kF32, "10 f32"}};
  for (const auto& one : cases) {
    for (bool receiverFirst : {false, true}) {
      World world(3);
      Outcome sent, received;
      if (!receiverFirst) sent = begin(world, 0, {send(world, 0, 2, 0, one.sent)});
      received = begin(world, 2, {receive(world, 2, 0, 0, one.received, one.type)});
      if (receiverFirst) sent = begin(world, 0, {send(world, 0, 2, 0, one.sent)});
      for (const Status& status : {sent.wait().status, received.wait().status}) {
        EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.toString();
        EXPECT_NE(status.message().find(one.text), std::string::npos) << status.message();
      }
      EXPECT_NE(sent.wait().status.message().find("rank 2"), std::string::npos);
      EXPECT_NE(received.wait().status.message().find("rank 0"), std::string::npos);
      EXPECT_FALSE(world.rank(0).executor->health().ok());
    }
  }
}

TEST(ExecutorTransfers, BadAddressesAndPeersAreErrors) {
  for (int which = 0; which < 3; ++which) {
    World world(2);
    Transfer transfer = send(world, 0, 1, 0, 10);
    if (which == 0) transfer.peer = 2;
    if (which == 1) transfer.address = 1;
    if (which == 2) transfer.count = INT64_MAX;
    EXPECT_EQ(begin(world, 0, {transfer}).wait().status.code(), StatusCode::kInvalidArgument);
  }
}

TEST(ExecutorTransfers, APeerThatDoesNotComeIsNamed) {
  World world(2);
  Outcome sent = begin(world, 0, {send(world, 0, 1, 0, 10)}, 0, 150);
  Status status = sent.wait().status;
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.toString();
  EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
  // Its own later transfers fail with the same reason; the peer's are told.
  EXPECT_EQ(begin(world, 0, {send(world, 0, 1, 0, 10)}).wait().status.message(), status.message());
  Status peer = begin(world, 1, {receive(world, 1, 0, 0, 11)}).wait().status;
  EXPECT_FALSE(peer.ok());
}

TEST(ExecutorTransfers, WhatALostPeerSentBeforeStillArrives) {
  World world(2);
  fillBytes(world, 0, 9);
  Outcome received = begin(world, 1, {receive(world, 1, 0, 5000, 10)});
  Outcome sent = begin(world, 0, {send(world, 0, 1, 0, 10)});
  ASSERT_TRUE(sent.wait().status.ok());
  world.rank(0).executor.reset();
  world.rank(0).transport.reset();
  OperationResult result = received.wait();
  EXPECT_TRUE(result.status.ok()) << result.status.toString();
  expectSame(world, 0, 0, 1, 5000, 40);
}

}  // namespace
}  // namespace hpu::collectives
