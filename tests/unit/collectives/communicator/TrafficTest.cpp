// SPDX-License-Identifier: Apache-2.0
// What the devices' links have counted is what the schedules say, by pair of devices, at both ends.
#include <gtest/gtest.h>
#include <time.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "collectives/communicator/CommunicatorState.h"
#include "collectives/communicator/Work.h"
#include "hpu/node.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

constexpr int kRanks = 8;
// Of a Gaudi 2's port: payload of a packet; preamble, gap, Ethernet, IPv4, UDP, BTH, ICRC, and an acknowledgement for
// each; RETH.
constexpr int64_t kPayload = 8192, kPacketOverhead = 82 + 86, kMessageOverhead = 16;
// Three ports of 100 Gbit/s.
constexpr double kBytesPerNs = 37.5;

int64_t realtimeNs() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

/// The node once every owner has answered.
node::NodeStatus answered() {
  node::NodeStatus status;
  const int64_t before = realtimeNs();
  for (int i = 0; i < 300; ++i) {
    status = node::query().value();
    bool all = true;
    for (int d = 0; d < kRanks; ++d) all &= status.devices[static_cast<size_t>(d)].updatedAtNs >= before;
    if (all) break;
  }
  return status;
}

/// By sender and receiver.
using Pairs = std::array<std::array<node::PortTraffic, kRanks>, kRanks>;

void addMessage(Pairs& pairs, int from, int to, int64_t bytes, int64_t times = 1) {
  node::PortTraffic& pair = pairs[static_cast<size_t>(from)][static_cast<size_t>(to)];
  const int64_t packets = bytes == 0 ? 1 : (bytes + kPayload - 1) / kPayload;
  const int64_t wire = bytes + packets * kPacketOverhead + kMessageOverhead;
  pair.messages += times;
  pair.packets += times * packets;
  pair.payloadBytes += times * bytes;
  pair.bytes += times * wire;
}

/// The messages of a schedule, so many times.
void addSchedule(Pairs& pairs, const Schedule& schedule, int64_t times) {
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kSend) continue;
    int64_t bytes = 0;
    for (const Range& range : step.sources)
      bytes += range.count *
               (range.buffer == BufferKind::kPartial ? schedule.problem.partialBytes : schedule.problem.elementBytes);
    addMessage(pairs, step.rank, step.peer, bytes, times);
  }
}

void expectPairs(const node::NodeStatus& status, const Pairs& expected) {
  for (size_t a = 0; a < kRanks; ++a) {
    for (size_t b = 0; b < kRanks; ++b) {
      const node::PortTraffic &sent = status.devices[a].links[b].sent, &received = status.devices[b].links[a].received;
      EXPECT_EQ(sent, received) << a << " to " << b;
      node::PortTraffic want = expected[a][b];
      // 10 ns to issue each message, and each message's time is rounded up.
      const double leastPs =
          static_cast<double>(want.messages) * 10000 + static_cast<double>(want.bytes) / kBytesPerNs * 1000;
      EXPECT_GE(sent.busyPs, static_cast<int64_t>(leastPs)) << a << " to " << b;
      EXPECT_LE(sent.busyPs, static_cast<int64_t>(leastPs) + want.messages + 1) << a << " to " << b;
      want.busyPs = sent.busyPs;
      EXPECT_EQ(sent, want) << a << " to " << b << ": " << sent.bytes << " bytes, " << want.bytes << " expected";
    }
    EXPECT_EQ(status.devices[a].links[node::kRail], node::LinkTraffic()) << "no other node";
    EXPECT_EQ(status.devices[a].railUsers, 0);
  }
}

TEST(Traffic, OfSchedulesIsCountedByPairAtBothEnds) {
  World world = World::make(kRanks);
  ASSERT_EQ(world.size(), kRanks);
  constexpr int64_t kMost = 500000;
  std::vector<Buffer> in, out;
  for (Device& device : world.devices) {
    in.push_back(device.allocate(kMost * 4 * kRanks).value());
    out.push_back(device.allocate(kMost * 4 * kRanks).value());
  }
  // Nothing yet, and that is no error.
  Pairs expected{};
  expectPairs(answered(), expected);

  struct Round {
    Collective collective;
    int64_t count;
    int times;
  };
  // Alone and in trains; small ones and large ones of more than a packet, and no multiple of one.
  for (const Round& round : {Round{Collective::kAllReduce, 1, 1}, Round{Collective::kAllReduce, 300001, 20},
                             Round{Collective::kAllGather, 4097, 3}, Round{Collective::kReduceScatter, 12345, 2},
                             Round{Collective::kAllToAll, 777, 1}, Round{Collective::kBroadcast, 100000, 5}}) {
    const node::NodeStatus before = answered();
    std::array<std::shared_ptr<const Choice>, kRanks> choices;
    world.all([&](int rank) -> Status {
      const auto at = static_cast<size_t>(rank);
      Communicator& comm = world.comms[at];
      Stream& stream = world.streams[at];
      const uint64_t from = in[at].address(), to = out[at].address();
      for (int i = 0; i < round.times; ++i) {
        Status status;
        switch (round.collective) {
          case Collective::kAllReduce:
            status = comm.allReduce(from, to, round.count, ElementType::kF32, ReduceOp::kSum, stream);
            break;
          case Collective::kAllGather:
            status = comm.allGather(from, to, round.count, ElementType::kF32, stream);
            break;
          case Collective::kReduceScatter:
            status = comm.reduceScatter(from, to, round.count, ElementType::kF32, ReduceOp::kSum, stream);
            break;
          case Collective::kAllToAll:
            status = comm.allToAll(from, to, round.count, ElementType::kF32, stream);
            break;
          default:
            status = comm.broadcast(from, to, round.count, ElementType::kF32, 3, stream);
        }
        if (!status.ok()) return status;
      }
      {
        CommunicatorState& state = *comm.state();
        std::lock_guard lock(state.enqueueMutex);
        choices[at] = state.repeated.chosen.choice;
      }
      return stream.synchronize();
    });
    ASSERT_TRUE(choices[0]);
    ASSERT_EQ(choices[0]->schedule->problem.collective, round.collective);
    addSchedule(expected, *choices[0]->schedule, round.times);
    const node::NodeStatus status = answered();
    expectPairs(status, expected);

    // Whatever the algorithm: what a rank is to have of others came to it.
    for (size_t rank = 0; rank < kRanks; ++rank) {
      int64_t came = 0;
      for (size_t peer = 0; peer < kRanks; ++peer)
        came += status.devices[rank].links[peer].received.payloadBytes -
                before.devices[rank].links[peer].received.payloadBytes;
      const int64_t bytes = round.count * 4 * round.times;
      if (round.collective == Collective::kAllGather || round.collective == Collective::kAllToAll) {
        EXPECT_GE(came, 7 * bytes);
      }
      if (round.collective == Collective::kBroadcast && rank != 3) {
        EXPECT_GE(came, bytes);
      }
    }
  }
}

TEST(Traffic, OfSendsAndReceivesIsTheirs) {
  World world = World::make(kRanks);
  ASSERT_EQ(world.size(), kRanks);
  constexpr int64_t kCount = 50001;
  std::vector<Buffer> in, out;
  for (Device& device : world.devices) {
    in.push_back(device.allocate(kCount).value());
    out.push_back(device.allocate(kCount).value());
  }
  world.all([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    if (Status status = groupStart(); !status.ok()) return status;
    if (rank < 2)
      world.comms[at].send(in[at].address(), kCount, ElementType::kU8, 7 - rank, world.streams[at]).ignore();
    if (rank > 5)
      world.comms[at].receive(out[at].address(), kCount, ElementType::kU8, 7 - rank, world.streams[at]).ignore();
    if (rank == 4) {  // To itself: no port.
      world.comms[at].send(in[at].address(), kCount, ElementType::kU8, 4, world.streams[at]).ignore();
      world.comms[at].receive(out[at].address(), kCount, ElementType::kU8, 4, world.streams[at]).ignore();
    }
    if (Status status = groupEnd(); !status.ok()) return status;
    return world.streams[at].synchronize();
  });
  Pairs expected{};
  addMessage(expected, 0, 7, kCount);
  addMessage(expected, 1, 6, kCount);
  expectPairs(answered(), expected);
}

TEST(Traffic, OfWhatHasFailedIsNotCounted) {
  World world = World::make(kRanks);
  ASSERT_EQ(world.size(), kRanks);
  Buffer in = world.devices[0].allocate(4096).value(), out = world.devices[0].allocate(4096).value();
  ASSERT_TRUE(world.comms[0]
                  .allReduce(in.address(), out.address(), 1024, ElementType::kF32, ReduceOp::kSum, world.streams[0])
                  .ok());
  world.comms[1].abort("a test").ignore();
  EXPECT_FALSE(world.streams[0].synchronize().ok());
  expectPairs(answered(), Pairs{});
}

}  // namespace
}  // namespace hpu::collectives
