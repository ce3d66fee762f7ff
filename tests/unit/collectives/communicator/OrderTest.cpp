// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/communicator/Gate.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

TEST(Gate, BeginsInOrderWhicheverComesFirst) {
  Gate gate;
  std::vector<int> begun;
  auto arrive = [&](uint64_t order, std::function<void()> begin) {
    Gate::Place place;
    place.push_back({order, std::move(begin), nullptr});
    gate.arrive(std::move(place));
  };
  arrive(2, [&] { begun.push_back(2); });
  arrive(1, [&] { begun.push_back(1); });
  EXPECT_TRUE(begun.empty());
  arrive(0, [&] {
    begun.push_back(0);
    arrive(3, [&] { begun.push_back(3); });  // From within one.
    EXPECT_EQ(begun.size(), 1u);
  });
  EXPECT_EQ(begun, (std::vector<int>{0, 1, 2, 3}));
}

/// The order of one device whose streams are numbered, as their communicators are.
struct DeviceOrder {
  Device device = World::openDevices(1)[0];
  std::vector<Stream> streams;
  AddressOrder order;
  using List = AddressOrder::Operations;

  explicit DeviceOrder(int count) {
    for (int i = 0; i < count; ++i) streams.push_back(Stream::create(device).value());
  }
  std::shared_ptr<Enqueued> add(int stream, uint64_t begin, uint64_t end, bool write) {
    auto operation = std::make_shared<Enqueued>(streams[static_cast<size_t>(stream)], static_cast<uint64_t>(stream));
    const Access access{begin, end, write};
    order.add({&access, 1}, operation);
    return operation;
  }
  List conflicts(int stream, uint64_t begin, uint64_t end, bool write, uint64_t communicator = UINT64_MAX) {
    const Access access{begin, end, write};
    return order.conflicts({&access, 1}, streams[static_cast<size_t>(stream)], communicator);
  }
};

TEST(AddressOrder, FindsTheLastOverlapOfEachOtherStream) {
  DeviceOrder on(3);
  using List = DeviceOrder::List;
  on.add(0, 100, 200, true);
  auto later = on.add(0, 150, 250, true);
  on.add(0, 400, 500, true);
  auto reader = on.add(1, 180, 190, false);
  EXPECT_EQ(on.conflicts(0, 150, 160, false), List{});       // Its own stream; reads only.
  EXPECT_EQ(on.conflicts(1, 150, 160, false), List{later});  // The last one covers the first.
  EXPECT_EQ(on.conflicts(2, 250, 400, true), List{});        // Between them.
  EXPECT_EQ(on.conflicts(2, 185, 186, false), List{later});  // Two reads are no conflict.
  EXPECT_EQ(on.conflicts(2, 185, 186, true).size(), 2u);
  EXPECT_EQ(on.conflicts(0, 185, 186, true), List{reader});
  EXPECT_TRUE(on.conflicts(2, 185, 186, false, 0).empty());  // Of the same communicator.
}

TEST(AddressOrder, KnowsEachAddressHoweverManyOperationsThereWere) {
  DeviceOrder on(2);
  for (uint64_t i = 0; i < 2000; ++i) {
    on.add(0, 20 * i, 20 * i + 10, i % 2 == 0);
    EXPECT_TRUE(on.conflicts(1, 20 * i + 10, 20 * i + 20, true).empty());
    EXPECT_EQ(on.conflicts(1, 20 * i + 9, 20 * i + 20, true).size(), 1u);
  }
  EXPECT_TRUE(on.conflicts(1, 10, 20, true).empty());
  EXPECT_EQ(on.conflicts(1, 0, 1, true).size(), 1u);
}

// The definition: every operation so far is looked at. A write has waited for what was there,
// as Enqueue.cpp does it, so it is enough to find those by which all others are reached.
TEST(AddressOrder, WaitsReachEveryOverlapOfRandomOperations) {
  constexpr int kStreams = 5, kOperations = 600;
  DeviceOrder on(kStreams);
  struct Past {
    Access access;
    int stream = 0;
    std::vector<bool> after;  ///< By operation: it comes after that one.
  };
  std::vector<Past> past;
  std::vector<std::shared_ptr<Enqueued>> operations;
  std::vector<int> last(kStreams, -1);
  uint64_t random = 12345;
  auto draw = [&](uint64_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % below;
  };
  for (int i = 0; i < kOperations; ++i) {
    const uint64_t begin = draw(1000);
    Past now{{begin, begin + 1 + draw(60), draw(2) == 0}, static_cast<int>(draw(kStreams)), {}};
    now.after.resize(kOperations);
    auto comesAfter = [&](int other) {
      now.after[static_cast<size_t>(other)] = true;
      for (size_t k = 0; k < past.size(); ++k)
        if (past[static_cast<size_t>(other)].after[k]) now.after[k] = true;
    };
    const int before = last[static_cast<size_t>(now.stream)];
    if (before >= 0) comesAfter(before);
    for (const auto& one : on.conflicts(now.stream, now.access.begin, now.access.end, now.access.write)) {
      const auto at = static_cast<size_t>(std::find(operations.begin(), operations.end(), one) - operations.begin());
      ASSERT_LT(at, past.size());
      const Access& theirs = past[at].access;  // Each of them is a conflict itself.
      EXPECT_TRUE((theirs.write || now.access.write) && theirs.begin < now.access.end && now.access.begin < theirs.end);
      comesAfter(static_cast<int>(at));
    }
    for (size_t k = 0; k < past.size(); ++k) {
      const Access& theirs = past[k].access;
      if ((theirs.write || now.access.write) && theirs.begin < now.access.end && now.access.begin < theirs.end) {
        EXPECT_TRUE(now.after[k]) << i << " does not come after " << k;
      }
    }
    operations.push_back(on.add(now.stream, now.access.begin, now.access.end, now.access.write));
    last[static_cast<size_t>(now.stream)] = i;
    past.push_back(std::move(now));
  }
}

TEST(AddressOrder, ForgetsWhatTheProgramHasSeenTheEndOf) {
  World world = World::make(1);
  Buffer buffer = world.devices[0].allocate(64 * 1024).value();
  auto order = AddressOrder::of(world.devices[0]);
  for (uint64_t i = 0; i < 1000; ++i) {
    Stream stream = Stream::create(world.devices[0]).value();
    const uint64_t address = buffer.address() + i * 64;
    ASSERT_TRUE(world.comms[0].allReduce(address, address, 1 + i % 16, ElementType::kF32, ReduceOp::kSum, stream).ok());
    ASSERT_TRUE(stream.synchronize().ok());
  }
  EXPECT_LE(order->ranges(), 128u);
}

/// Two communicators of the same two devices, each with a stream and with memory of its own, the ranges of
/// both in turn.
struct TwoCommunicators {
  static constexpr int kRanks = 2;
  static constexpr int64_t kCount = 1024;
  World first;
  std::vector<Communicator> second;
  std::vector<Stream> streams;
  std::vector<Buffer> buffers[4];  // By rank.

  TwoCommunicators() {
    CommunicatorOptions options;
    options.timeoutMs = 3000;
    first = World::make(kRanks, options);
    second = Communicator::createAll(first.devices, options).value();
    for (Device& device : first.devices) {
      streams.push_back(Stream::create(device).value());
      for (auto& list : buffers) list.push_back(device.allocate(kCount * 4).value());
    }
  }
  Status enqueueFirst(int rank) {
    auto at = static_cast<size_t>(rank);
    return first.comms[at].allReduce(buffers[0][at].address(), buffers[2][at].address(), kCount, ElementType::kF32,
                                     ReduceOp::kSum, first.streams[at]);
  }
  Status enqueueSecond(int rank) {
    auto at = static_cast<size_t>(rank);
    return second[at].allReduce(buffers[1][at].address(), buffers[3][at].address(), kCount, ElementType::kF32,
                                ReduceOp::kSum, streams[at]);
  }
};

TEST(CommunicatorOrder, ThoseOnMemoryOfTheirOwnMayBeIssuedInAnyOrder) {
  TwoCommunicators world;
  world.first.all([&](int rank) -> Status {
    constexpr int kOperations = 100;
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < kOperations; ++i) {
        Status status = half == rank ? world.enqueueFirst(rank) : world.enqueueSecond(rank);
        if (!status.ok()) return status;
      }
    Status one = world.first.streams[static_cast<size_t>(rank)].synchronize();
    Status other = world.streams[static_cast<size_t>(rank)].synchronize();
    return one.ok() ? other : one;
  });
}

TEST(CommunicatorOrder, OneOnMemoryOfItsOwnTakesTheDeviceTimeThatItTakesAlone) {
  auto elapsed = [](int operationsOfTheOther) {
    TwoCommunicators world;
    std::vector<int64_t> times(TwoCommunicators::kRanks);
    world.first.all([&](int rank) -> Status {
      auto at = static_cast<size_t>(rank);
      for (int i = 0; i < operationsOfTheOther; ++i)
        if (Status status = world.enqueueFirst(rank); !status.ok()) return status;
      Event begin, end;
      world.streams[at].record(begin).ignore();
      for (int i = 0; i < 50; ++i)
        if (Status status = world.enqueueSecond(rank); !status.ok()) return status;
      world.streams[at].record(end).ignore();
      if (Status status = world.streams[at].synchronize(); !status.ok()) return status;
      times[at] = end.elapsedNsSince(begin).value();
      return world.first.streams[at].synchronize();
    });
    return times;
  };
  // The links are shared: the very end of the other's last message may be in the way, its 400 operations are not.
  const std::vector<int64_t> beside = elapsed(400), alone = elapsed(0);
  for (size_t rank = 0; rank < alone.size(); ++rank) {
    EXPECT_GE(beside[rank], alone[rank]);
    EXPECT_LE(beside[rank], alone[rank] + alone[rank] / 100);
  }
}

TEST(CommunicatorOrder, LetsStreamsGoThatTheProgramHasLetGo) {
  World world = World::make(1);
  Buffer buffer = world.devices[0].allocate(4096).value();
  std::vector<std::weak_ptr<StreamState>> gone;
  for (int i = 0; i < 10; ++i) {
    Stream stream = Stream::create(world.devices[0]).value();
    ASSERT_TRUE(world.comms[0]
                    .allReduce(buffer.address(), buffer.address(), 1024, ElementType::kF32, ReduceOp::kSum, stream)
                    .ok());
    ASSERT_TRUE(stream.synchronize().ok());
    gone.push_back(stream.state());
  }
  for (const auto& stream : gone) EXPECT_TRUE(stream.expired());
}

}  // namespace
}  // namespace hpu::collectives
