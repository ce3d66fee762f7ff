// SPDX-License-Identifier: Apache-2.0
// A peer that has crashed or is hostile may have written anything: it must not make us read or
// write where we should not.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ShmRank.h"
#include "collectives/transport/shm/Rings.h"
#include "collectives/transport/shm/Segment.h"

namespace hpu::collectives::shm {
namespace {

struct Lanes {
  std::shared_ptr<Segment> segment;
  std::unique_ptr<SendRing> send;
  std::unique_ptr<ReceiveRing> receive;
  RingHeader* header = nullptr;
  Descriptor* first = nullptr;

  Lanes() {
    node::Fd file;
    segment = Segment::create(2, file).value();
    send = std::make_unique<SendRing>(*segment, 0, 1, Lane::kReply);
    receive = std::make_unique<ReceiveRing>(*segment, 0, 1, Lane::kReply);
    std::byte* ring = segment->ring(0, 1, Lane::kReply);
    header = reinterpret_cast<RingHeader*>(ring);
    first = reinterpret_cast<Descriptor*>(ring + segment->geometry().descriptorsAt());
  }
  void sendText(const std::string& text) {
    ASSERT_TRUE(send->hasRoom(static_cast<int64_t>(text.size())));
    send->sendCopy(reinterpret_cast<const std::byte*>(text.data()), static_cast<int64_t>(text.size()), {});
  }
};

TEST(Rings, PassMessagesOfAllSizesThroughARingThatWraps) {
  Lanes lanes;
  const int64_t small = lanes.segment->geometry().smallBytes;
  std::mt19937 random(5);
  std::vector<std::string> waiting;
  uint64_t sent = 0, received = 0;
  while (received < 20000) {
    std::string text(random() % 3 ? random() % 100 : random() % static_cast<size_t>(small + 1),
                     static_cast<char>('a' + sent % 26));
    if (sent < 20000 && lanes.send->hasRoom(static_cast<int64_t>(text.size()))) {
      lanes.sendText(text);
      waiting.push_back(text);
      ++sent;
    } else {
      ASSERT_FALSE(waiting.empty()) << "an empty ring has room for any small message";
      auto message = lanes.receive->look(received);
      ASSERT_TRUE(message.has_value());
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(message->data), static_cast<size_t>(message->bytes)),
                waiting.front());
      waiting.erase(waiting.begin());
      lanes.receive->release();
      ++received;
    }
  }
  EXPECT_FALSE(lanes.send->broken());
  EXPECT_FALSE(lanes.receive->broken());
}

TEST(Rings, ABytesMoreThanTheRingAreNotTaken) {
  Lanes lanes;
  const Geometry& geometry = lanes.segment->geometry();
  std::string text(static_cast<size_t>(geometry.smallBytes), 'x');
  int64_t taken = 0;
  while (lanes.send->hasRoom(geometry.smallBytes)) {
    lanes.sendText(text);
    ++taken;
  }
  EXPECT_EQ(taken, geometry.ringBytes / geometry.smallBytes);
  // The receiver is told that room is waited for.
  EXPECT_TRUE(lanes.receive->release());
  EXPECT_FALSE(lanes.receive->release());
  EXPECT_TRUE(lanes.send->hasRoom(geometry.smallBytes));
}

TEST(Rings, DescriptorsThatPointOutsideEndTheLane) {
  struct Bad {
    uint64_t offset;
    int64_t bytes;
  };
  const Geometry geometry(2);
  const auto ring = static_cast<uint64_t>(geometry.ringBytes);
  for (Bad bad : {Bad{ring, 1}, Bad{ring - 1, 2}, Bad{UINT64_MAX, 1}, Bad{0, -1}, Bad{0, INT64_MIN}, Bad{0, INT64_MAX},
                  Bad{0, geometry.smallBytes + 1}, Bad{UINT64_MAX - 7, 16}}) {
    Lanes lanes;
    lanes.sendText("good");
    lanes.first->offset = bad.offset;
    lanes.first->bytes = bad.bytes;
    EXPECT_FALSE(lanes.receive->look(0).has_value()) << bad.offset << " " << bad.bytes;
    EXPECT_TRUE(lanes.receive->broken());
    EXPECT_FALSE(lanes.receive->release());
  }
}

TEST(Rings, CountsThatCannotBeEndTheLane) {
  for (uint64_t offered : {uint64_t{1000}, UINT64_MAX, uint64_t{1} << 63}) {
    Lanes lanes;
    lanes.header->offered = offered;
    EXPECT_FALSE(lanes.receive->look(0).has_value());
    EXPECT_TRUE(lanes.receive->broken()) << offered;
  }
  {
    // It takes back what it has offered.
    Lanes lanes;
    lanes.sendText("one");
    lanes.sendText("two");
    EXPECT_TRUE(lanes.receive->look(1).has_value());
    lanes.header->offered = 1;
    EXPECT_FALSE(lanes.receive->look(2).has_value());
    EXPECT_TRUE(lanes.receive->broken());
  }
  for (uint64_t released : {uint64_t{65}, UINT64_MAX}) {
    // The receiver releases what was never sent.
    Lanes lanes;
    while (lanes.send->hasRoom(0)) lanes.send->sendShared(0, 1, {});
    lanes.header->released = released;
    EXPECT_FALSE(lanes.send->hasRoom(0));
    EXPECT_TRUE(lanes.send->broken()) << released;
  }
}

TEST(ShmTransport, AMessageOutsideOfThePeersMemoryEndsThePeer) {
  auto devices = testing::openDevices(2);
  ASSERT_EQ(devices.size(), 2u);
  auto ranks = testing::createRanks(2, devices);
  ASSERT_TRUE(ranks[0].ok() && ranks[1].ok());
  Transport& sender = **ranks[0];
  Transport& receiver = **ranks[1];
  const int64_t bytes = sender.smallBytes() + 1;
  ASSERT_TRUE(sender.offer(1, Lane::kCollective, sender.local(kHbmBase, bytes), bytes, {}).ok());
  ASSERT_TRUE(receiver.arrived(0, Lane::kCollective, 0).has_value());
  EXPECT_TRUE(receiver.peerStatus(0).ok());
  // Another view of the ring, as a crashed peer may have left it: find the segment in this process.
  FILE* maps = std::fopen("/proc/self/maps", "r");
  ASSERT_NE(maps, nullptr);
  char line[512];
  uintptr_t begin = 0;
  while (std::fgets(line, sizeof line, maps))
    if (std::strstr(line, "hpu-communicator")) begin = std::strtoull(line, nullptr, 16);
  std::fclose(maps);
  ASSERT_NE(begin, 0u);
  const Geometry geometry(2);
  auto* descriptor = reinterpret_cast<Descriptor*>(begin + geometry.ringAt(0, 1, 0) + geometry.descriptorsAt());
  ASSERT_EQ(descriptor->bytes.load(), bytes);
  descriptor->offset = (uint64_t{16} << 20) - static_cast<uint64_t>(bytes) + 1;
  EXPECT_FALSE(receiver.arrived(0, Lane::kCollective, 0).has_value());
  EXPECT_EQ(receiver.peerStatus(0).code(), StatusCode::kDataLoss);
  EXPECT_NE(receiver.peerStatus(0).message().find("rank 0"), std::string::npos);
  // Other numbers than the rings' are taken for what they are.
  auto* block = reinterpret_cast<RankBlock*>(begin + geometry.blockAt(0));
  block->reasonBytes = 0xffffffff;
  block->reasonCode = 0xffffffff;
  block->state = 1;
  EXPECT_EQ(receiver.peerStatus(0).code(), StatusCode::kAborted);
  EXPECT_EQ(receiver.abortReason(0).code(), StatusCode::kAborted);
  block->state = 77;
  EXPECT_EQ(receiver.peerStatus(0).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace hpu::collectives::shm
