// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "World.h"
#include "collectives/algorithms/Registry.h"

namespace hpu::collectives {
namespace {

using testing::Call;
using testing::Outcome;
using testing::World;

constexpr Collective kCollectives[] = {Collective::kAllReduce,   Collective::kReduceScatter, Collective::kAllGather,
                                       Collective::kAllToAll,    Collective::kBroadcast,     Collective::kReduce,
                                       Collective::kGather,      Collective::kScatter,       Collective::kBarrier,
                                       Collective::kPointToPoint};

TEST(ExecutorCollectives, EveryAlgorithmGivesTheRightValuesInAndOutOfPlace) {
  std::mt19937_64 random(1);
  for (int ranks : {1, 2, 3, 4, 5, 8, 9}) {
    World world(ranks);
    for (Collective collective : kCollectives) {
      for (const Algorithm& algorithm : algorithms()) {
        for (int64_t count : {0, 1, 7, 1000}) {
          Call call;
          call.collective = collective;
          call.algorithm = algorithm.name;
          call.count = collective == Collective::kBarrier ? 0 : count;
          call.root = ranks - 1;
          call.slices = count == 1000 ? 3 : 1;
          call.type = count == 7 ? ElementType::kBF16 : ElementType::kF32;
          if (!algorithm.accepts(world.problem(call))) continue;
          for (bool inPlace : {false, true}) {
            call.inPlace = inPlace;
            ASSERT_NO_FATAL_FAILURE(world.runAndCheck(call, random));
          }
        }
      }
    }
  }
}

TEST(ExecutorCollectives, EveryTypeAndOperationMatchesTheOracleBitByBit) {
  std::mt19937_64 random(2);
  World world(4);
  for (ElementType type : {ElementType::kI8, ElementType::kU8, ElementType::kI32, ElementType::kU32, ElementType::kI64,
                           ElementType::kU64, ElementType::kF16, ElementType::kF32, ElementType::kF64,
                           ElementType::kBF16, ElementType::kF8E4M3, ElementType::kF8E4M3Ieee, ElementType::kF8E5M2}) {
    for (int op = 0; op < 5; ++op) {
      for (const char* algorithm : {"mesh", "mesh-one-shot"}) {
        Call call;
        call.type = type;
        call.op = static_cast<ReduceOp>(op);
        call.count = 1003;
        call.slices = 2;
        call.algorithm = algorithm;
        call.exact = false;  // Any bits, NaN and infinity too: rank order is the contract.
        call.inPlace = op % 2 == 1;
        ASSERT_NO_FATAL_FAILURE(world.runAndCheck(call, random));
        call.exact = true;
        call.algorithm = "ring";
        ASSERT_NO_FATAL_FAILURE(world.runAndCheck(call, random));
      }
    }
  }
}

TEST(ExecutorCollectives, EachRanksScaleIsItsOwn) {
  std::mt19937_64 random(3);
  World world(3);
  for (const char* algorithm : {"mesh", "ring", "tree"}) {
    Call call;
    call.count = 500;
    call.scaled = true;
    call.algorithm = algorithm;
    auto problem = world.problem(call);
    if (!findAlgorithm(algorithm, problem).ok()) continue;
    ASSERT_NO_FATAL_FAILURE(world.runAndCheck(call, random));
  }
}

TEST(ExecutorCollectives, LanesWithRoomForOneMessageAreEnough) {
  std::mt19937_64 random(4);
  LocalOptions options;
  options.laneMessages = 1;
  options.records = 1;
  options.smallBytes = 64;
  for (int ranks : {2, 5, 8}) {
    World world(ranks, options);
    for (Collective collective : kCollectives) {
      for (const Algorithm& algorithm : algorithms()) {
        Call call;
        call.collective = collective;
        call.algorithm = algorithm.name;
        call.count = collective == Collective::kBarrier ? 0 : 777;
        call.slices = 4;
        if (!algorithm.accepts(world.problem(call))) continue;
        ASSERT_NO_FATAL_FAILURE(world.runAndCheck(call, random));
      }
    }
  }
}

TEST(ExecutorCollectives, ThreadsAsRanksWithRandomDelaysRunHundredsOfThem) {
  constexpr int kRanks = 5, kOperations = 300;
  LocalOptions options;
  options.laneMessages = 3;
  options.records = 2;
  World world(kRanks, options);
  // Data are checked at the end: each all-reduce is in place on what the one before left.
  const int64_t count = 301;
  std::vector<Call> calls;
  std::mt19937_64 random(5);
  for (int i = 0; i < kOperations; ++i) {
    Call call;
    call.type = ElementType::kI32;
    call.count = count;
    call.inPlace = true;
    call.slices = 1 + static_cast<int>(random() % 3);
    const char* names[] = {"mesh", "mesh-one-shot", "ring"};
    call.algorithm = names[random() % 3];
    calls.push_back(call);
    (void)world.schedule(call);
  }
  std::vector<uint32_t> sums(static_cast<size_t>(count));
  std::vector<std::vector<CollectiveOperation>> operations(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    for (const Call& call : calls) operations[static_cast<size_t>(r)].push_back(world.operation(r, call));
    auto* data = world.rank(r).at(operations[static_cast<size_t>(r)][0].input);
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<uint32_t>(random());
      std::memcpy(data + 4 * i, &value, 4);
      sums[static_cast<size_t>(i)] += value;
    }
  }
  // The first makes all equal to the sum, each later one multiplies by the ranks.
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      std::mt19937_64 mine(static_cast<uint64_t>(r));
      for (auto& operation : operations[static_cast<size_t>(r)]) {
        if (mine() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(mine() % 500));
        Outcome outcome;
        world.rank(r).executor->begin(operation, outcome.done());
        if (mine() % 2) {
          world.rank(r).executor->help(std::chrono::steady_clock::now() + std::chrono::seconds(20),
                                       [&] { return outcome.arrived(); });
        }
        OperationResult result = outcome.wait();
        ASSERT_TRUE(result.status.ok()) << result.status.toString();
        ASSERT_EQ(outcome.times(), 1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  uint32_t factor = 1;
  for (int i = 1; i < kOperations; ++i) factor *= kRanks;
  for (int r = 0; r < kRanks; ++r) {
    const auto* data = world.rank(r).at(operations[static_cast<size_t>(r)][0].output);
    for (int64_t i = 0; i < count; ++i) {
      uint32_t got;
      std::memcpy(&got, data + 4 * i, 4);
      ASSERT_EQ(got, sums[static_cast<size_t>(i)] * factor) << "rank " << r << " element " << i;
    }
  }
}

TEST(ExecutorCollectives, BegunFromTheEndOfTheOneBeforeTheyNeedNoDeepStack) {
  constexpr int kOperations = 20000;
  World world(1);
  Call call;
  call.count = 4;
  call.inPlace = true;
  int done = 0;
  Outcome last;
  std::function<void(OperationResult)> next = [&](OperationResult result) {
    ASSERT_TRUE(result.status.ok()) << result.status.toString();
    if (++done == kOperations) return last.done()(result);
    world.rank(0).executor->begin(world.operation(0, call), next);
  };
  world.rank(0).executor->begin(world.operation(0, call), next);
  EXPECT_TRUE(last.wait().status.ok());
  EXPECT_EQ(done, kOperations);
}

TEST(ExecutorCollectives, ManyMayBeBegunAtOnceAndRunInTheirOrder) {
  World world(3);
  Call call;
  call.type = ElementType::kI64;
  call.count = 10;
  call.inPlace = true;
  call.algorithm = "ring";
  std::vector<Outcome> outcomes;
  for (int r = 0; r < 3; ++r) {
    CollectiveOperation first = world.operation(r, call);
    const int64_t one = 1;
    for (int i = 0; i < 10; ++i) std::memcpy(world.rank(r).at(first.input) + 8 * i, &one, 8);
    world.rank(r).executor->begin(first, outcomes.emplace_back().done());
    for (int k = 1; k < 30; ++k) {
      world.rank(r).executor->begin(world.operation(r, call), outcomes.emplace_back().done());
    }
  }
  for (Outcome& outcome : outcomes) ASSERT_TRUE(outcome.wait().status.ok());
  int64_t want = 1, got;
  for (int k = 0; k < 30; ++k) want *= 3;
  world.rank(0).sequence = 0;
  std::memcpy(&got, world.rank(0).at(world.operation(0, call).output), 8);
  EXPECT_EQ(got, want);
}

TEST(ExecutorCollectives, WhatIsKeptAliveIsLetGoBeforeTheEndIsTold) {
  World world(1);
  Call call;
  call.count = 1;
  auto token = std::make_shared<int>(1);
  std::weak_ptr<int> weak = token;
  CollectiveOperation operation = world.operation(0, call);
  operation.keepAlive[0] = std::move(token);
  bool gone = false;
  world.rank(0).executor->begin(std::move(operation), [&](OperationResult) { gone = weak.expired(); });
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace hpu::collectives
