// SPDX-License-Identifier: Apache-2.0
// Copies between devices (Stream::copyFromDevice) and collectives share the links between the devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "arch/LinkTiming.h"
#include "collectives/topology/LinkModel.h"
#include "hpu/collectives.h"
#include "hpu/event.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

TEST(CopyFromDevice, AndCollectivesMeanTheSameLink) {
  for (Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
    const LinkModel& model = linkModel(target);
    const arch::LinkTiming timing = arch::linkTiming(target);
    EXPECT_EQ(timing.startPs, model.startPs);
    EXPECT_EQ(timing.messagePs, model.messagePs);
    for (int64_t bytes : {0, 1, 8192, 8193, 1 << 20, 12345678}) EXPECT_EQ(timing.busyPs(bytes), model.linkPs(bytes));
  }
}

/// Device time on rank 1 from before a transfer from rank 0 and `copies` copies of the same bytes over the same link
/// until all of it is done.
int64_t togetherNs(World& world, int64_t floats, int copies, bool copyFirst) {
  const int64_t bytes = floats * 4;
  std::vector<Buffer> buffers;
  for (int rank = 0; rank < 2; ++rank) {
    buffers.push_back(world.devices[static_cast<size_t>(rank)].allocate(bytes).value());
    EXPECT_TRUE(world.streams[static_cast<size_t>(rank)].synchronize().ok());
  }
  Buffer target = world.devices[1].allocate(bytes).value();
  Stream side = Stream::create(world.devices[1]).value();
  Event start, end, copied, aligned;
  // Both devices begin at one time.
  Stream &first = world.streams[0], &second = world.streams[1];
  EXPECT_TRUE(first.record(aligned).ok());
  EXPECT_TRUE(second.wait(aligned).ok());
  EXPECT_TRUE(second.record(start).ok());
  EXPECT_TRUE(first.wait(start).ok());
  EXPECT_TRUE(side.wait(start).ok());
  const auto copy = [&] {
    for (int i = 0; i < copies; ++i) EXPECT_TRUE(side.copyFromDevice(target, 0, buffers[0], 0, bytes).ok());
  };
  if (copyFirst) copy();
  world.all([&](int rank) {
    Stream& stream = world.streams[static_cast<size_t>(rank)];
    return rank == 0 ? world.comms[0].send(buffers[0].address(), floats, ElementType::kF32, 1, stream)
                     : world.comms[1].receive(buffers[1].address(), floats, ElementType::kF32, 0, stream);
  });
  if (!copyFirst) copy();
  EXPECT_TRUE(side.record(copied).ok());
  EXPECT_TRUE(second.wait(copied).ok());
  EXPECT_TRUE(second.record(end).ok());
  EXPECT_TRUE(second.synchronize().ok());
  EXPECT_TRUE(first.synchronize().ok());
  return end.elapsedNsSince(start).value();
}

TEST(CopyFromDevice, AndATransferOverTheSameLinkTakeTheSumOfBoth) {
  World world = World::make(2);
  constexpr int64_t kFloats = 1 << 20;
  const LinkModel& model = linkModel(Target::kGaudi2);
  const int64_t linkNs = model.linkPs(kFloats * 4) / 1000;
  const int64_t around = (model.startPs + model.messagePs) / 1000;
  EXPECT_NEAR(static_cast<double>(togetherNs(world, kFloats, 0, false)), static_cast<double>(linkNs + around), 10);
  for (bool copyFirst : {false, true})
    EXPECT_NEAR(static_cast<double>(togetherNs(world, kFloats, 1, copyFirst)), static_cast<double>(2 * linkNs + around),
                10)
        << copyFirst;
}

TEST(CopyFromDevice, AndAnAllReduceNeverExceedTheLinkTogether) {
  World world = World::make(2);
  constexpr int64_t kFloats = 1 << 20;
  std::vector<Buffer> buffers;
  for (int rank = 0; rank < 2; ++rank)
    buffers.push_back(
        world.put(rank, std::vector<float>(static_cast<size_t>(kFloats), 1.0f + static_cast<float>(rank))));
  Buffer target = world.devices[1].allocate(kFloats * 4).value(), source = world.put(0, std::vector<float>(kFloats, 5));
  Stream side = Stream::create(world.devices[1]).value();
  Event aligned, start, copied, end;
  EXPECT_TRUE(world.streams[0].record(aligned).ok());
  EXPECT_TRUE(world.streams[1].wait(aligned).ok());
  EXPECT_TRUE(world.streams[1].record(start).ok());
  EXPECT_TRUE(world.streams[0].wait(start).ok());
  EXPECT_TRUE(side.wait(start).ok());
  EXPECT_TRUE(side.copyFromDevice(target, 0, source, 0, kFloats * 4).ok());
  world.all([&](int rank) {
    const Buffer& mine = buffers[static_cast<size_t>(rank)];
    return world.comms[static_cast<size_t>(rank)].allReduce(mine.address(), mine.address(), kFloats, ElementType::kF32,
                                                            ReduceOp::kSum, world.streams[static_cast<size_t>(rank)]);
  });
  EXPECT_TRUE(side.record(copied).ok());
  EXPECT_TRUE(world.streams[1].wait(copied).ok());
  EXPECT_TRUE(world.streams[1].record(end).ok());
  EXPECT_TRUE(world.streams[1].synchronize().ok());
  EXPECT_TRUE(world.streams[0].synchronize().ok());
  // Over the link from 0 to 1: the copy's 4 MiB, and of the all-reduce at least as much (each rank needs the other's).
  const double leastNs = 2.0 * static_cast<double>(kFloats) * 4 / linkModel(Target::kGaudi2).linkBytesPerNs;
  EXPECT_GE(static_cast<double>(end.elapsedNsSince(start).value()), leastNs);
  EXPECT_EQ(world.get<float>(1, buffers[1], 3), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(world.get<float>(1, target, 3), (std::vector<float>{5, 5, 5}));
}

}  // namespace
}  // namespace hpu::collectives
