// SPDX-License-Identifier: Apache-2.0
// Results that ranks compute together in each other's memory: the same as by schedules, without
// memory of the communicator's own, and within the host's budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

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
    for (size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(1 + i % 1000) * (rank % 2 ? 1e-4F : 1e4F);
    Buffer in = world.put(rank, values), out = world.put(rank, std::vector<float>(count));
    const auto at = static_cast<size_t>(rank);
    const int64_t before = world.devices[at].memoryInfo().usedBytes;
    Status status = world.comms[at].allReduce(in.address(), out.address(),
                                              static_cast<int64_t>(count), ElementType::kF32,
                                              ReduceOp::kSum, world.streams[at]);
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
    for (int rank = 0; rank < 4; ++rank)
      sum += static_cast<float>(1 + i % 1000) * (rank % 2 ? 1e-4F : 1e4F);
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
      Status status = world.comms[at].allGather(in.address(), out.address(), kCount,
                                                ElementType::kF32, world.streams[at]);
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

}  // namespace
}  // namespace hpu::collectives
