// SPDX-License-Identifier: Apache-2.0
// Results that ranks compute together in each other's memory: the same as by schedules, without
// memory of the communicator's own, and within the host's budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/StatusMacros.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

/// A setting of the environment while it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }

 private:
  const char* const name_;
};

/// One all-reduce of values whose sum depends on the order; the result of rank 1, and what the
/// devices held more than the operands.
std::pair<std::vector<float>, int64_t> reduceOnce(int ranks, size_t count) {
  World world = World::make(ranks);
  std::vector<float> result;
  int64_t more = 0;
  world.all([&](int rank) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(1 + i % 1000) * (rank % 2 ? 1e-4F : 1e4F);
    Buffer in = world.put(rank, values), out = world.put(rank, std::vector<float>(count));
    const auto at = static_cast<size_t>(rank);
    const int64_t before = world.devices[at].memoryInfo().usedBytes;
    Status status = world.comms[at].allReduce(in.address(), out.address(), static_cast<int64_t>(count),
                                              ElementType::kF32, ReduceOp::kSum, world.streams[at]);
    if (!status.ok()) return status;
    if (rank == 1) more = world.devices[at].memoryInfo().usedBytes - before;
    status = world.streams[at].synchronize();
    if (rank == 1 && status.ok()) result = world.get<float>(rank, out, count);
    return status;
  });
  return {result, more};
}

TEST(Direct, GivesTheSumInRankOrderWithoutScratchMemory) {
  // In parts that several ranks do, with an uneven last one.
  constexpr size_t kCount = (1 << 20) + 77;
  auto [direct, more] = reduceOnce(4, kCount);
  EXPECT_EQ(more, 0);
  ASSERT_EQ(direct.size(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    float sum = 0;
    for (int rank = 0; rank < 4; ++rank) sum += static_cast<float>(1 + i % 1000) * (rank % 2 ? 1e-4F : 1e4F);
    ASSERT_EQ(direct[i], sum) << i;
  }
}

TEST(Direct, CanBeTurnedOff) {
  constexpr size_t kCount = 100001;
  auto direct = reduceOnce(3, kCount).first;
  Environment off("HPU_COMM_DIRECT", "0");
  auto [scheduled, more] = reduceOnce(3, kCount);
  EXPECT_GT(more, 0) << "its schedule has scratch";
  ASSERT_EQ(scheduled.size(), kCount);
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_NEAR(scheduled[i], direct[i], 1e-6 * direct[i]) << i;  // Its order may be another.
}

TEST(Direct, WhatTheHostHasNoMemoryForIsNotWritten) {
  for (const char* direct : {"1", "0"}) {
    SCOPED_TRACE(direct);
    Environment mode("HPU_COMM_DIRECT", direct);
    Environment budget("HPU_SIM_HOST_BYTES", "8M");
    World world = World::make(2, {.timeoutMs = 20000});
    constexpr int64_t kCount = 2 << 20;  // 8 MiB a rank, 16 in the output.
    std::vector<Status> results = world.each([&](int rank) {
      const auto at = static_cast<size_t>(rank);
      Buffer in = world.devices[at].allocate(kCount * 4).value();
      Buffer out = world.devices[at].allocate(2 * kCount * 4).value();
      Status status =
          world.comms[at].allGather(in.address(), out.address(), kCount, ElementType::kF32, world.streams[at]);
      return status.ok() ? world.streams[at].synchronize() : status;
    });
    bool told = false;
    for (const Status& status : results) {
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(status.message(), HasSubstr("HPU_SIM_HOST_BYTES")) << status.toString();
      told |= status.code() == StatusCode::kResourceExhausted;
    }
    EXPECT_TRUE(told);
  }
}

struct Outcome {
  std::vector<std::vector<int32_t>> data;   ///< By rank.
  std::vector<std::vector<int64_t>> times;  ///< By rank: of its events, in device time.
};

/// A long queue of collectives, each of which needs what the one before it gave, and between some
/// of them, on some ranks, other work, events or waits. The host's pace differs from run to run.
Outcome runProgram(uint32_t pace) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 16384;
  World world = World::make(kRanks, {.timeoutMs = 20000});
  Outcome outcome;
  outcome.data.resize(kRanks);
  outcome.times.resize(kRanks);
  world.all([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    std::mt19937 all(11), own(100 + static_cast<uint32_t>(rank)), host(pace + static_cast<uint32_t>(rank));
    Stream& stream = world.streams[at];
    Communicator& comm = world.comms[at];
    std::vector<int32_t> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int32_t>(i * 7 + at);
    Buffer data = world.put(rank, values);
    Buffer aside = world.devices[at].allocate(1 << 20).value();
    std::vector<Event> events;
    const uint64_t base = data.address();
    for (int i = 0; i < 300; ++i) {
      const int64_t count = int64_t{1} << all() % 13;  // Of a rank.
      const auto root = static_cast<int>(all() % kRanks);
      Status status;
      switch (all() % 4) {
        case 0:
          status = comm.allReduce(base, base, 4 * count, ElementType::kI32, ReduceOp::kSum, stream);
          break;
        case 1:
          status =
              comm.allGather(base + static_cast<uint64_t>(4 * count * rank), base, count, ElementType::kI32, stream);
          break;
        case 2:
          status = comm.reduceScatter(base, base + static_cast<uint64_t>(4 * count * rank), count, ElementType::kI32,
                                      ReduceOp::kMax, stream);
          break;
        default:
          status = comm.broadcast(base, base, count, ElementType::kI32, root, stream);
      }
      if (!status.ok()) return status;
      if (own() % 16 == 0) status = stream.fill(aside, 1, 1 + own() % (1 << 20));
      if (status.ok() && own() % 16 == 0) status = stream.record(events.emplace_back());
      if (status.ok() && own() % 64 == 0) status = stream.synchronize();
      if (!status.ok()) return status;
      if (host() % 32 == 0) std::this_thread::sleep_for(std::chrono::microseconds(host() % 500));
    }
    Status status = stream.record(events.emplace_back());
    if (status.ok()) status = stream.synchronize();
    if (!status.ok()) return status;
    for (const Event& event : events) outcome.times[at].push_back(event.deviceTimeNs().value());
    outcome.data[at] = world.get<int32_t>(rank, data, kCount);
    return okStatus();
  });
  return outcome;
}

TEST(Direct, AheadOfItsTurnChangesNeitherResultsNorDeviceTime) {
  Outcome expected;
  {
    Environment off("HPU_COMM_DIRECT", "0");
    expected = runProgram(0);
  }
  for (uint32_t pace = 1; pace <= 4; ++pace) {
    Outcome other = runProgram(1000 * pace);
    EXPECT_EQ(other.times, expected.times) << pace;
    EXPECT_TRUE(other.data == expected.data) << pace;
  }
}

/// Every rank enqueues so many additions to its value before it waits; rank 1 gives up after
/// `abortAt` of them (-1: does not). How its stream ended, by rank.
std::vector<Status> enqueueMany(World& world, int calls, int abortAt, const std::vector<Buffer>& data) {
  return world.each([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    const uint64_t address = data[at].address();
    for (int i = 0; i < calls; ++i) {
      if (rank == 1 && i == abortAt) HPU_RETURN_IF_ERROR(world.comms[at].abort("enough"));
      Status status =
          world.comms[at].allReduce(address, address, 16, ElementType::kI32, ReduceOp::kSum, world.streams[at]);
      // The calls after the end are refused; those before it end on the stream.
      if (!status.ok()) break;
    }
    return world.streams[at].synchronize(60000);
  });
}

TEST(Direct, ManyCallsEndOnceEachWhetherTheyAreDoneOrAborted) {
  constexpr int kCalls = 1000;
  for (int ranks : {2, 3, 5}) {
    for (int abortAt : {-1, 1, 200, 900}) {
      World world = World::make(ranks, {.timeoutMs = 60000});
      std::vector<Buffer> data;
      for (int rank = 0; rank < ranks; ++rank) data.push_back(world.put(rank, std::vector<int32_t>(16, 1)));
      const std::vector<Status> ended = enqueueMany(world, kCalls, abortAt, data);
      for (int rank = 0; rank < ranks; ++rank) {
        const Status& status = ended[static_cast<size_t>(rank)];
        if (abortAt < 0) {
          EXPECT_TRUE(status.ok()) << status.toString();
        } else if (rank != 1) {
          EXPECT_THAT(status.message(), testing::AllOf(HasSubstr("rank 1"), HasSubstr("enough")));
        }
        // The streams go on.
        EXPECT_EQ(world.get<int32_t>(rank, data[static_cast<size_t>(rank)], 16).size(), 16u);
      }
      if (abortAt >= 0) continue;
      uint32_t sum = 1;  // It wraps, as integers do.
      for (int i = 0; i < kCalls; ++i) sum *= static_cast<uint32_t>(ranks);
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(world.get<int32_t>(rank, data[static_cast<size_t>(rank)], 16),
                  std::vector<int32_t>(16, static_cast<int32_t>(sum)));
    }
  }
}

}  // namespace
}  // namespace hpu::collectives
