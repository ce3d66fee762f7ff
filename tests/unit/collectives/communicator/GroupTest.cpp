// SPDX-License-Identifier: Apache-2.0
// Sends and receives, groups, several streams and communicators, deep queues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/Format.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;
using Values = std::vector<int32_t>;
constexpr auto kI32 = ElementType::kI32;

Status firstError(std::initializer_list<Status> list) {
  for (const Status& status : list)
    if (!status.ok()) return status;
  return okStatus();
}

TEST(Transfers, AGroupWaitsForNothingButItsPeers) {
  for (int n : {1, 2, 5}) {
    World world = World::make(n);
    for (int64_t count : {0, 1, 300, 100000})
      world.all([&](int rank) -> Status {
        auto at = static_cast<size_t>(rank);
        Communicator comm = world.comms[at];
        Stream& stream = world.streams[at];
        auto size = static_cast<size_t>(count);
        Buffer mine = world.put(rank, Values(size, rank + 1)), got = world.put(rank, Values(size));
        Buffer self = world.put(rank, Values(size));
        int next = (rank + 1) % n, previous = (rank + n - 1) % n;
        // Nested, and in an order that would block one by one.
        Status status =
            firstError({groupStart(), comm.send(mine.address(), count, kI32, next, stream), groupStart(),
                        comm.receive(got.address(), count, kI32, previous, stream), groupEnd(),
                        comm.send(mine.address(), count, kI32, rank, stream),
                        comm.receive(self.address(), count, kI32, rank, stream), groupEnd(), stream.synchronize()});
        if (!status.ok()) return status;
        // Among one rank the ring is itself: in order, ring first.
        if (world.get<int32_t>(rank, got, size) != Values(size, previous + 1)) return internalError("ring");
        if (world.get<int32_t>(rank, self, size) != Values(size, rank + 1)) return internalError("self");
        return okStatus();
      });
  }
}

TEST(Transfers, OneByOneInOrder) {
  World world = World::make(2);
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Communicator comm = world.comms[at];
    Stream& stream = world.streams[at];
    for (int round = 0; round < 20; ++round) {
      Buffer data = world.put(rank, Values(50 + static_cast<size_t>(round), rank == 0 ? round : -1));
      Status status = rank == 0 ? comm.send(data.address(), 50 + round, kI32, 1, stream)
                                : comm.receive(data.address(), 50 + round, kI32, 0, stream);
      if (status.ok()) status = stream.synchronize();
      if (!status.ok()) return status;
      if (world.get<int32_t>(rank, data, 50)[49] != round) return internalError("order");
    }
    return okStatus();
  });
}

/// Device time from before `body` (once for each rank, on a thread) to the end of all that it enqueued on the
/// rank's own streams, by rank.
std::vector<int64_t> tookNs(World& world, std::vector<std::vector<Stream>>& streams,
                            const std::function<Status(int, std::vector<Stream>&)>& body) {
  std::vector<int64_t> took(world.comms.size());
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    std::vector<Stream>& mine = streams[at];
    // All of them begin when the last one is done with what was before.
    Event begin;
    for (Stream& stream : mine) {
      Event done;
      if (Status status = firstError({stream.record(done), mine[0].wait(done)}); !status.ok()) return status;
    }
    if (Status status = mine[0].record(begin); !status.ok()) return status;
    for (Stream& stream : mine)
      if (Status status = stream.wait(begin); !status.ok()) return status;
    if (Status status = body(rank, mine); !status.ok()) return status;
    for (Stream& stream : mine) {
      Event end;
      if (Status status = firstError({stream.record(end), stream.synchronize()}); !status.ok()) return status;
      auto ns = end.elapsedNsSince(begin);
      if (!ns.ok()) return ns.status();
      took[at] = std::max(took[at], *ns);
    }
    return okStatus();
  });
  return took;
}

std::vector<std::vector<Stream>> streamsOf(World& world, int each) {
  std::vector<std::vector<Stream>> streams;
  for (const Device& device : world.devices) {
    streams.emplace_back();
    for (int i = 0; i < each; ++i) streams.back().push_back(Stream::create(device).value());
  }
  return streams;
}

TEST(Ports, ALinkCarriesNoMoreThanItsRateWhateverUsesIt) {
  constexpr int kMany = 8;
  constexpr int64_t kCount = 1 << 20, kBytes = kCount * 4;
  World world = World::make(2, {}, 256 << 20);
  std::vector<std::vector<Communicator>> more;
  for (int i = 0; i < kMany; ++i) more.push_back(Communicator::createAll(world.devices).value());
  auto streams = streamsOf(world, kMany);
  std::vector<std::vector<Buffer>> buffers(2);
  for (int rank : {0, 1})
    for (int i = 0; i < kMany; ++i) buffers[static_cast<size_t>(rank)].push_back(world.put(rank, Values(kCount, i)));
  const Target target = world.devices[0].info().target;
  const double bytesPerNs = target == Target::kGaudi1 ? 12.5 : target == Target::kGaudi2 ? 37.5 : 75;
  const auto least = static_cast<int64_t>(kMany * static_cast<double>(kBytes) / bytesPerNs);
  auto transfer = [&](int rank, int i, Stream& stream, Communicator& comm) {
    const uint64_t address = buffers[static_cast<size_t>(rank)][static_cast<size_t>(i)].address();
    return rank == 0 ? comm.send(address, kCount, kI32, 1, stream) : comm.receive(address, kCount, kI32, 0, stream);
  };
  auto alone = tookNs(world, streams, [&](int rank, std::vector<Stream>& mine) {
    return transfer(rank, 0, mine[0], world.comms[static_cast<size_t>(rank)]);
  });
  auto grouped = tookNs(world, streams, [&](int rank, std::vector<Stream>& mine) {
    Status status = groupStart();
    for (int i = 0; i < kMany && status.ok(); ++i)
      status = transfer(rank, i, mine[static_cast<size_t>(i)], world.comms[static_cast<size_t>(rank)]);
    return status.ok() ? groupEnd() : status;
  });
  auto apart = tookNs(world, streams, [&](int rank, std::vector<Stream>& mine) {
    Status status;
    for (int i = 0; i < kMany && status.ok(); ++i)
      status = transfer(rank, i, mine[static_cast<size_t>(i)], more[static_cast<size_t>(i)][static_cast<size_t>(rank)]);
    return status;
  });
  // The receiver may take them on one stream.
  auto oneStream = tookNs(world, streams, [&](int rank, std::vector<Stream>& mine) {
    Status status = groupStart();
    for (int i = 0; i < kMany && status.ok(); ++i)
      status = transfer(rank, i, mine[rank == 0 ? static_cast<size_t>(i) : 0], world.comms[static_cast<size_t>(rank)]);
    return status.ok() ? groupEnd() : status;
  });
  // An all-reduce of two ranks moves its bytes both ways once.
  auto reduced = tookNs(world, streams, [&](int rank, std::vector<Stream>& mine) {
    Status status;
    for (int i = 0; i < kMany && status.ok(); ++i) {
      const uint64_t address = buffers[static_cast<size_t>(rank)][static_cast<size_t>(i)].address();
      status = more[static_cast<size_t>(i)][static_cast<size_t>(rank)].allReduce(
          address, address, kCount, kI32, ReduceOp::kSum, mine[static_cast<size_t>(i)]);
    }
    return status;
  });
  for (int rank : {0, 1}) {
    auto at = static_cast<size_t>(rank);
    for (const auto& took : {grouped, apart, oneStream, reduced}) {
      EXPECT_GE(took[at], least);
      EXPECT_LT(took[at], least * 11 / 10);  // Nor is it kept waiting: headers take 2 %.
    }
    EXPECT_LT(alone[at], least / kMany * 12 / 10);
  }
}

TEST(Ports, RanksOfOneDeviceShareItsLinks) {
  constexpr int64_t kCount = 1 << 18;
  // The device of each rank is one of two that no other run has used: the links of a device that was in use are free
  // when that is over, however new a stream is.
  auto took = [&](const std::vector<size_t>& of) {
    World world;
    const std::vector<Device> two = World::openDevices(2, 256 << 20);
    for (size_t device : of) world.devices.push_back(two[device]);
    world.comms = Communicator::createAll(world.devices).value();
    for (const Device& device : world.devices) world.streams.push_back(Stream::create(device).value());
    auto streams = streamsOf(world, 1);
    std::vector<Buffer> buffers;
    for (int rank = 0; rank < world.size(); ++rank)
      buffers.push_back(world.put(rank, Values(kCount * of.size(), rank)));
    return tookNs(world, streams, [&](int rank, std::vector<Stream>& mine) {
      auto at = static_cast<size_t>(rank);
      Buffer out = world.devices[at].allocate(static_cast<int64_t>(kCount * of.size() * 4)).value();
      return world.comms[at].allToAll(buffers[at].address(), out.address(), kCount, kI32, mine[0]);
    })[0];
  };
  // Of four ranks on two devices four pairs send each way over the one link.
  EXPECT_GE(took({0, 1, 0, 1}), 4 * took({0, 1}) * 9 / 10);
}

TEST(Ports, TimesDoNotDependOnHowFastTheHostIs) {
  constexpr size_t kMany = 3, kRounds = 6;
  constexpr int64_t kCount = 50000;
  std::vector<std::vector<int64_t>> first;
  for (int run = 0; run < 6; ++run) {
    World world = World::make(3);
    std::vector<std::vector<Communicator>> comms;
    for (size_t i = 0; i < kMany; ++i) comms.push_back(Communicator::createAll(world.devices).value());
    auto streams = streamsOf(world, kMany);
    std::vector<std::vector<int64_t>> ends(3);
    world.all([&](int rank) -> Status {
      auto at = static_cast<size_t>(rank);
      std::vector<Buffer> buffers;
      for (size_t i = 0; i < kMany; ++i) buffers.push_back(world.put(rank, Values(kCount, rank)));
      std::vector<Event> events;
      Event begin;
      if (Status status = streams[at][0].record(begin); !status.ok()) return status;
      for (size_t round = 0; round < kRounds; ++round) {
        for (size_t i = 0; i < kMany; ++i) {
          // One rank is slow to call, each time another one; and device work of each rank's own lies between.
          if (static_cast<int>((at + i + round) % 3) == run % 3 && run > 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
          Stream& stream = streams[at][i];
          Event end;
          Status status = firstError(
              {stream.fill(buffers[i], 0, 40000 * (rank + 1)),
               comms[i][at].allReduce(buffers[i].address(), buffers[i].address(), kCount, kI32, ReduceOp::kSum, stream),
               stream.record(end)});
          if (!status.ok()) return status;
          events.push_back(end);
        }
      }
      for (Stream& stream : streams[at])
        if (Status status = stream.synchronize(); !status.ok()) return status;
      for (const Event& event : events) ends[at].push_back(event.elapsedNsSince(begin).value());
      return okStatus();
    });
    if (run == 0)
      first = ends;
    else
      EXPECT_EQ(ends, first) << "run " << run;
  }
}

TEST(Transfers, AllToAllVariable) {
  const int n = 4;
  World world = World::make(n);
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    // Rank r sends r + p elements to p.
    std::vector<int64_t> sendCounts, sendAt, getCounts, getAt;
    int64_t sent = 0, got = 0;
    for (int peer = 0; peer < n; ++peer) {
      sendCounts.push_back((rank * 100 + peer) % 250);
      getCounts.push_back((peer * 100 + rank) % 250);
      sendAt.push_back(sent);
      getAt.push_back(got);
      sent += sendCounts.back();
      got += getCounts.back();
    }
    Values data(static_cast<size_t>(sent));
    for (size_t i = 0; i < data.size(); ++i) data[i] = rank * 10000 + static_cast<int32_t>(i);
    Buffer in = world.put(rank, data), out = world.put(rank, Values(static_cast<size_t>(got)));
    Stream& stream = world.streams[at];
    Status status = firstError(
        {world.comms[at].allToAllV(in.address(), sendCounts, sendAt, out.address(), getCounts, getAt, kI32, stream),
         stream.synchronize()});
    if (!status.ok()) return status;
    Values result = world.get<int32_t>(rank, out, static_cast<size_t>(got));
    for (int peer = 0; peer < n; ++peer) {
      int64_t offset = 0;
      for (int before = 0; before < rank; ++before) offset += (peer * 100 + before) % 250;
      for (int64_t i = 0; i < getCounts[static_cast<size_t>(peer)]; ++i)
        if (result[static_cast<size_t>(getAt[static_cast<size_t>(peer)] + i)] != peer * 10000 + offset + i)
          return internalError("from " + std::to_string(peer));
    }
    return okStatus();
  });
  EXPECT_EQ(world.comms[0].allToAllV(0, {1}, {0}, 0, {1}, {0}, kI32, world.streams[0]).code(),
            StatusCode::kInvalidArgument);
}

TEST(Transfers, AReceiveOverlapsNothingElse) {
  World world = World::make(2);
  Communicator comm = world.comms[0];
  Stream &stream = world.streams[0], other = Stream::create(world.devices[0]).value();
  Buffer data = world.put(0, Values(100));
  uint64_t a = data.address();
  auto group = [&](std::initializer_list<Status> calls) {
    for (const Status& status : calls) EXPECT_TRUE(status.ok()) << status.toString();
    return groupEnd();
  };
  auto both = [&](const Status& status, const std::string& first, const std::string& second) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::AllOf(HasSubstr(first), HasSubstr(second), HasSubstr("rank 0 of 2")));
  };
  // All-to-all-v in place: what comes for rank 0 lies where rank 0 sends from.
  both(comm.allToAllV(a, {40, 40}, {0, 40}, a, {40, 40}, {0, 40}, kI32, stream),
       "160 bytes at " + base::formatHex(a + 160) + " that it receives from rank 1",
       "160 bytes at " + base::formatHex(a + 160) + " that it sends to rank 1");
  // Two receives, partly.
  both(comm.allToAllV(a, {1, 1}, {90, 91}, a, {10, 10}, {0, 9}, kI32, stream),
       "40 bytes at " + base::formatHex(a + 36) + " that it receives from rank 1",
       "40 bytes at " + base::formatHex(a) + " that it receives from rank 0");
  // One buffer to send from and to receive into, on two streams, a collective in between; a small
  // range inside of a large one that began before.
  both(group({groupStart(), comm.send(a, 100, kI32, 1, stream), comm.send(a, 1, kI32, 1, stream), comm.barrier(stream),
              comm.receive(a + 200, 2, kI32, 1, other)}),
       "8 bytes at " + base::formatHex(a + 200) + " that it receives from rank 1",
       "400 bytes at " + base::formatHex(a) + " that it sends to rank 1");
  // To itself onto the same bytes is one thing, onto others or of another pair another one.
  both(group({groupStart(), comm.send(a, 10, kI32, 0, stream), comm.receive(a + 4, 10, kI32, 0, stream)}),
       "receives from rank 0", "sends to rank 0");
  both(group({groupStart(), comm.send(a, 10, kI32, 0, stream), comm.send(a + 40, 10, kI32, 0, stream),
              comm.receive(a + 40, 10, kI32, 0, stream), comm.receive(a, 10, kI32, 0, stream)}),
       "receives from rank 0", "sends to rank 0");
  // Nothing was enqueued.
  EXPECT_TRUE(stream.synchronize(5000).ok());
  // Neighbours, reads of the same bytes, and nothing at all are no overlaps.
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Communicator mine = world.comms[at];
    Buffer memory = world.put(rank, Values(30, rank + 1));
    uint64_t m = memory.address();
    Status status = mine.allToAllV(m, {10, 10}, {0, 0}, m, {10, 10}, {10, 20}, kI32, world.streams[at]);
    std::vector<int64_t> own = {rank == 0 ? 5 : 0, rank == 1 ? 5 : 0};
    if (status.ok()) status = mine.allToAllV(m, own, {0, 0}, m, own, {0, 0}, kI32, world.streams[at]);
    if (status.ok()) status = world.streams[at].synchronize();
    if (!status.ok()) return status;
    Values want(10, rank + 1);
    for (int peer : {1, 2}) want.insert(want.end(), 10, peer);
    return world.get<int32_t>(rank, memory, 30) == want ? okStatus() : internalError("values");
  });
}

TEST(Transfers, AllGatherVariableInPlace) {
  const int n = 4;
  World world = World::make(n);
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    // Rank r's part of the output has 1000 (r + 1) elements, and is its input.
    std::vector<int64_t> counts, offsets;
    Values want;
    for (int peer = 0; peer < n; ++peer) {
      counts.push_back(1000 * (peer + 1));
      offsets.push_back(static_cast<int64_t>(want.size()));
      want.insert(want.end(), static_cast<size_t>(counts.back()), 10 + peer);
    }
    Values data(want.size(), -1);
    std::fill_n(data.begin() + offsets[at], counts[at], 10 + rank);
    Buffer memory = world.put(rank, data);
    uint64_t mine = memory.address() + static_cast<uint64_t>(offsets[at] * 4);
    Status status = world.comms[at].allToAllV(mine, std::vector<int64_t>(n, counts[at]), std::vector<int64_t>(n, 0),
                                              memory.address(), counts, offsets, kI32, world.streams[at]);
    if (!status.ok()) return status;
    return world.get<int32_t>(rank, memory, want.size()) == want ? okStatus() : internalError("values");
  });
}

TEST(Group, AnErrorEnqueuesNothing) {
  World world = World::make(2);
  Buffer data = world.put(0, Values(10, 1));
  ASSERT_TRUE(groupStart().ok());
  EXPECT_TRUE(world.comms[0].send(data.address(), 10, kI32, 1, world.streams[0]).ok());
  EXPECT_EQ(world.comms[0].send(data.address(), 10, kI32, 2, world.streams[0]).code(), StatusCode::kInvalidArgument);
  Status end = groupEnd();
  EXPECT_EQ(end.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(end.message(), HasSubstr("peer 2"));
  EXPECT_THAT(end.message(), HasSubstr("nothing of the group"));
  // Nothing waits for rank 1.
  EXPECT_TRUE(world.streams[0].synchronize(5000).ok());
  EXPECT_EQ(groupEnd().code(), StatusCode::kFailedPrecondition);
  // The next group is a new one.
  EXPECT_TRUE(groupStart().ok());
  EXPECT_TRUE(groupEnd().ok());
}

TEST(Group, SeveralStreamsAndCommunicators) {
  World world = World::make(3);
  auto other = Communicator::createAll(world.devices).value();
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Stream one = world.streams[at], two = Stream::create(world.devices[at]).value();
    Communicator a = world.comms[at], b = other[at];
    Buffer x = world.put(rank, Values(1000, 1)), y = world.put(rank, Values(1000, 2));
    Buffer mine = world.put(rank, Values(7, rank)), got = world.put(rank, Values(7)), last = world.put(rank, Values(7));
    int next = (rank + 1) % 3, previous = (rank + 2) % 3;
    Status status = firstError(
        {groupStart(), a.allReduce(x.address(), x.address(), 1000, kI32, ReduceOp::kSum, one),
         b.allReduce(y.address(), y.address(), 1000, kI32, ReduceOp::kSum, two),
         // The receive comes first on one stream, the send on another.
         a.receive(got.address(), 7, kI32, previous, two), a.send(mine.address(), 7, kI32, next, one), groupEnd(),
         b.broadcast(got.address(), last.address(), 7, kI32, 0, two), one.synchronize(), two.synchronize()});
    if (!status.ok()) return status;
    if (world.get<int32_t>(rank, x, 1000)[999] != 3) return internalError("x");
    if (world.get<int32_t>(rank, y, 1000)[999] != 6) return internalError("y");
    if (world.get<int32_t>(rank, got, 7)[6] != previous) return internalError("got");
    if (world.get<int32_t>(rank, last, 7)[6] != 2) return internalError("last");
    return okStatus();
  });
}

TEST(Group, TransfersMayStandInDifferentPlacesOnEachRank) {
  CommunicatorOptions options;
  options.timeoutMs = 5000;
  World world = World::make(2, options);
  auto other = Communicator::createAll(world.devices, options).value();
  constexpr int64_t kCount = 100000;  // More than a message that waits for nobody.
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Communicator a = world.comms[at], b = other[at];
    Stream& stream = world.streams[at];
    Buffer sum = world.put(rank, Values(1000, 1)), most = world.put(rank, Values(1000, rank));
    Buffer one = world.put(rank, Values(kCount, rank == 0 ? 7 : 0)),
           two = world.put(rank, Values(kCount, rank == 0 ? 8 : 0));
    auto reduceA = [&] { return a.allReduce(sum.address(), sum.address(), 1000, kI32, ReduceOp::kSum, stream); };
    auto reduceB = [&] { return b.allReduce(most.address(), most.address(), 1000, kI32, ReduceOp::kMax, stream); };
    Status status = rank == 0 ? firstError({groupStart(), reduceA(), a.send(one.address(), kCount, kI32, 1, stream),
                                            reduceB(), b.send(two.address(), kCount, kI32, 1, stream), groupEnd()})
                              : firstError({groupStart(), b.receive(two.address(), kCount, kI32, 0, stream), reduceA(),
                                            reduceB(), a.receive(one.address(), kCount, kI32, 0, stream), groupEnd()});
    if (status.ok()) status = stream.synchronize();
    if (!status.ok()) return status;
    if (world.get<int32_t>(rank, sum, 1000) != Values(1000, 2)) return internalError("sum");
    if (world.get<int32_t>(rank, most, 1000) != Values(1000, 1)) return internalError("most");
    if (world.get<int32_t>(rank, one, kCount) != Values(kCount, 7)) return internalError("one");
    if (world.get<int32_t>(rank, two, kCount) != Values(kCount, 8)) return internalError("two");
    return okStatus();
  });
}

TEST(Streams, OperationsOfOneCommunicatorGoInOneOrder) {
  World world = World::make(4);
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    std::vector<Stream> streams = {world.streams[at], Stream::create(world.devices[at]).value(),
                                   Stream::create(world.devices[at]).value()};
    Buffer x = world.put(rank, Values(5000, 1));
    // Each reads what the one before wrote, on another stream, with nothing but the order of calls.
    for (int i = 0; i < 9; ++i) {
      // Ranks differ in which stream they take.
      Stream& stream = streams[static_cast<size_t>((i + rank) % 3)];
      Status status = world.comms[at].allReduce(x.address(), x.address(), 5000, kI32, ReduceOp::kSum, stream);
      if (!status.ok()) return status;
    }
    for (Stream& stream : streams)
      if (Status status = stream.synchronize(); !status.ok()) return status;
    int32_t want = 1;
    for (int i = 0; i < 9; ++i) want *= 4;
    return world.get<int32_t>(rank, x, 5000) == Values(5000, want) ? okStatus() : internalError("value");
  });
}

TEST(Streams, SharedAddressesOrderTwoCommunicators) {
  World world = World::make(2);
  auto other = Communicator::createAll(world.devices).value();
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Stream two = Stream::create(world.devices[at]).value();
    Buffer x = world.put(rank, Values(200000, 1));
    for (int i = 0; i < 6; ++i) {
      Communicator& comm = i % 2 ? other[at] : world.comms[at];
      Stream& stream = i % 2 ? two : world.streams[at];
      Status status = comm.allReduce(x.address(), x.address(), 200000, kI32, ReduceOp::kSum, stream);
      if (!status.ok()) return status;
    }
    if (Status status = firstError({world.streams[at].synchronize(), two.synchronize()}); !status.ok()) return status;
    return world.get<int32_t>(rank, x, 200000) == Values(200000, 64) ? okStatus() : internalError("value");
  });
}

TEST(Streams, ThousandsOfOperationsMayBeQueued) {
  World world = World::make(3);
  constexpr int kDepth = 3000;
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Buffer x = world.put(rank, Values(4, 1)), y = world.put(rank, Values(4, rank));
    Stream& stream = world.streams[at];
    for (int i = 0; i < kDepth; ++i) {
      Status status = i % 3 == 0 ? world.comms[at].allReduce(y.address(), y.address(), 4, kI32, ReduceOp::kMax, stream)
                                 : world.comms[at].allReduce(x.address(), x.address(), 4, kI32, ReduceOp::kSum, stream);
      if (!status.ok()) return status;
    }
    if (Status status = stream.synchronize(); !status.ok()) return status;
    uint32_t want = 1;
    for (int i = 0; i < kDepth; ++i)
      if (i % 3) want *= 3;
    if (world.get<int32_t>(rank, x, 4) != Values(4, static_cast<int32_t>(want))) return internalError("sum");
    return world.get<int32_t>(rank, y, 4) == Values(4, 2) ? okStatus() : internalError("max");
  });
}

}  // namespace
}  // namespace hpu::collectives
