// SPDX-License-Identifier: Apache-2.0
// Every collective among threads as ranks, against sequential arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "collectives/reduction/Reduction.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

using Values = std::vector<int32_t>;

int32_t valueOf(int rank, int64_t i) {
  return static_cast<int32_t>((rank + 1) * 1000 + i * 7 % 911);
}
Values inputOf(int rank, int64_t count) {
  Values values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = valueOf(rank, i);
  return values;
}
int32_t combined(ReduceOp op, int ranks, int64_t i) {
  int64_t result = valueOf(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    int64_t value = valueOf(rank, i);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += value;
        break;
      case ReduceOp::kProd:
        result = static_cast<int32_t>(static_cast<uint32_t>(result) * static_cast<uint32_t>(value));
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
    }
  }
  if (op == ReduceOp::kAverage) result /= ranks;
  return static_cast<int32_t>(result);
}

constexpr auto kI32 = ElementType::kI32;

class Collectives : public testing::TestWithParam<int> {
 protected:
  static const std::vector<int64_t>& counts() {
    static const std::vector<int64_t> list = {0, 1, 5, 1024, 70001};
    return list;
  }
};

TEST_P(Collectives, AllReduceAndReduce) {
  const int n = GetParam();
  World world = World::make(n);
  for (int64_t count : counts())
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage}) {
      const int root = n - 1;
      world.all([&](int rank) -> Status {
        auto at = static_cast<size_t>(rank);
        Stream& stream = world.streams[at];
        Buffer in = world.put(rank, inputOf(rank, count)), out = world.put(rank, Values(in.size()));
        Buffer both = world.put(rank, inputOf(rank, count));
        Buffer reduced = world.put(rank, Values(in.size(), -1));
        Communicator comm = world.comms[at];
        for (Status status :
             {comm.allReduce(in.address(), out.address(), count, kI32, op, stream),
              comm.allReduce(both.address(), both.address(), count, kI32, op, stream),
              comm.reduce(in.address(), rank == root ? reduced.address() : 0, count, kI32, op, root, stream),
              stream.synchronize()})
          if (!status.ok()) return status;
        Values got = world.get<int32_t>(rank, out, static_cast<size_t>(count));
        Values inPlace = world.get<int32_t>(rank, both, static_cast<size_t>(count));
        Values atRoot = world.get<int32_t>(rank, reduced, static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) {
          auto k = static_cast<size_t>(i);
          int32_t want = combined(op, n, i);
          if (got[k] != want || inPlace[k] != want || atRoot[k] != (rank == root ? want : -1))
            return internalError("element " + std::to_string(i) + " of " + std::to_string(count));
        }
        return okStatus();
      });
    }
}

TEST_P(Collectives, ReduceScatterAndAllGather) {
  const int n = GetParam();
  World world = World::make(n);
  for (int64_t count : counts())
    world.all([&](int rank) -> Status {
      auto at = static_cast<size_t>(rank);
      Stream& stream = world.streams[at];
      Communicator comm = world.comms[at];
      auto part = static_cast<uint64_t>(rank * count * 4);
      Buffer in = world.put(rank, inputOf(rank, count * n)), out = world.put(rank, inputOf(0, count));
      Buffer both = world.put(rank, inputOf(rank, count * n));
      Buffer one = world.put(rank, inputOf(rank, count)), all = world.put(rank, inputOf(0, count * n));
      Values mine(static_cast<size_t>(count * n), -1);
      for (int64_t i = 0; i < count; ++i) mine[static_cast<size_t>(rank * count + i)] = valueOf(rank, i);
      Buffer gathered = world.put(rank, mine);
      for (Status status :
           {comm.reduceScatter(in.address(), out.address(), count, kI32, ReduceOp::kSum, stream),
            comm.reduceScatter(both.address(), both.address() + part, count, kI32, ReduceOp::kSum, stream),
            comm.allGather(one.address(), all.address(), count, kI32, stream),
            comm.allGather(gathered.address() + part, gathered.address(), count, kI32, stream), stream.synchronize()})
        if (!status.ok()) return status;
      Values scattered = world.get<int32_t>(rank, out, static_cast<size_t>(count));
      Values inPlace = world.get<int32_t>(rank, both, static_cast<size_t>(count * n));
      Values a = world.get<int32_t>(rank, all, static_cast<size_t>(count * n));
      Values b = world.get<int32_t>(rank, gathered, static_cast<size_t>(count * n));
      for (int64_t i = 0; i < count; ++i) {
        int32_t want = combined(ReduceOp::kSum, n, rank * count + i);
        if (scattered[static_cast<size_t>(i)] != want || inPlace[static_cast<size_t>(rank * count + i)] != want)
          return internalError("reduce-scatter " + std::to_string(i));
        for (int other = 0; other < n; ++other) {
          auto k = static_cast<size_t>(other * count + i);
          if (a[k] != valueOf(other, i) || b[k] != valueOf(other, i))
            return internalError("all-gather " + std::to_string(k));
        }
      }
      return okStatus();
    });
}

TEST_P(Collectives, RootedMovesAndAllToAll) {
  const int n = GetParam();
  World world = World::make(n);
  for (int64_t count : counts())
    for (int root : {0, n - 1})
      world.all([&](int rank) -> Status {
        auto at = static_cast<size_t>(rank);
        Stream& stream = world.streams[at];
        Communicator comm = world.comms[at];
        auto size = static_cast<size_t>(count);
        bool isRoot = rank == root;
        Buffer in = world.put(rank, inputOf(rank, count * n)), b = world.put(rank, inputOf(99, count));
        Buffer g = world.put(rank, inputOf(99, count * n)), s = world.put(rank, inputOf(99, count));
        Buffer a = world.put(rank, inputOf(99, count * n)), r = world.put(rank, inputOf(99, count));
        int to = (root + 1) % n;
        for (Status status :
             {comm.broadcast(isRoot ? in.address() : 0, b.address(), count, kI32, root, stream),
              comm.gather(in.address(), isRoot ? g.address() : 0, count, kI32, root, stream),
              comm.scatter(isRoot ? in.address() : 0, s.address(), count, kI32, root, stream),
              comm.allToAll(in.address(), a.address(), count, kI32, stream), comm.barrier(stream),
              comm.relay(isRoot ? in.address() : 0, rank == to ? r.address() : 0, count, kI32, root, to, stream),
              stream.synchronize()})
          if (!status.ok()) return status;
        Values broadcast = world.get<int32_t>(rank, b, size),
               gathered = world.get<int32_t>(rank, g, size * static_cast<size_t>(n));
        Values scattered = world.get<int32_t>(rank, s, size),
               exchanged = world.get<int32_t>(rank, a, size * static_cast<size_t>(n));
        Values relayed = world.get<int32_t>(rank, r, size);
        for (int64_t i = 0; i < count; ++i) {
          auto k = static_cast<size_t>(i);
          if (broadcast[k] != valueOf(root, i)) return internalError("broadcast");
          if (scattered[k] != valueOf(root, rank * count + i)) return internalError("scatter");
          if (rank == to && relayed[k] != valueOf(root, i)) return internalError("relay");
          for (int other = 0; other < n; ++other) {
            auto m = static_cast<size_t>(other * count + i);
            if (isRoot && gathered[m] != valueOf(other, i)) return internalError("gather");
            if (exchanged[m] != valueOf(other, rank * count + i)) return internalError("all-to-all");
          }
        }
        return okStatus();
      });
}

TEST_P(Collectives, EveryRankHasTheSameDeviceTime) {
  const int n = GetParam();
  World world = World::make(n);
  std::vector<int64_t> took(static_cast<size_t>(n));
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Stream& stream = world.streams[at];
    Buffer data = world.put(rank, inputOf(rank, 100000));
    Event before, after;
    for (Status status :
         {world.comms[at].barrier(stream), stream.record(before),
          world.comms[at].allReduce(data.address(), data.address(), 100000, kI32, ReduceOp::kSum, stream),
          stream.record(after), stream.synchronize()})
      if (!status.ok()) return status;
    auto ns = after.elapsedNsSince(before);
    if (!ns.ok()) return ns.status();
    took[at] = *ns;
    return okStatus();
  });
  int64_t predicted = world.comms[0].predict(Operation::kAllReduce, 100000, kI32)->predictedNs;
  // A barrier's end differs by what its last messages take.
  for (int64_t ns : took) {
    EXPECT_GT(ns, 0);
    EXPECT_NEAR(static_cast<double>(ns), static_cast<double>(predicted), static_cast<double>(predicted) / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 8));

TEST(ScaledReduction, MultipliesEachContribution) {
  World world = World::make(3);
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Stream& stream = world.streams[at];
    Buffer data = world.put(rank, std::vector<float>(7, 2.0f));
    double scale = rank == 0 ? 0.5 : rank == 1 ? 2 : -1;
    for (Status status : {world.comms[at].allReduceScaled(data.address(), data.address(), 7, ElementType::kF32,
                                                          ReduceOp::kSum, scale, stream),
                          stream.synchronize()})
      if (!status.ok()) return status;
    return world.get<float>(rank, data, 7) == std::vector<float>(7, 3.0f) ? okStatus() : internalError("value");
  });
}

}  // namespace
}  // namespace hpu::collectives
