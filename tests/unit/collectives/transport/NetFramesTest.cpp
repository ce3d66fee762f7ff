// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace hpu::collectives::net {
namespace {

constexpr FrameLimits kLimits{100, 10};

std::vector<Item> itemsOfAllKinds(std::span<const std::byte> data) {
  MessageTag tag{1, -2, 3, 4, 0xfffffff0};
  CallRecord calm;
  calm.sequence = 7, calm.fingerprint = UINT64_MAX, calm.tableHash = 8, calm.count = -1, calm.arrivalPs = 1 << 30;
  calm.scale = -0.25, calm.input = 1, calm.output = 2, calm.root = -3, calm.destination = 99;
  calm.collective = 5, calm.type = 6, calm.op = 7, calm.direct = 1, calm.follows = 1;
  CallRecord busy = calm;
  busy.portsBusy = 1;
  for (int port = 0; port < kMostPorts; ++port) busy.portsPs[0][port] = port, busy.portsPs[1][port] = -port;
  return {MessageItem{Lane::kReply, 5, tag, data},
          AnnounceItem{Lane::kPointToPoint, 6, tag, int64_t{1} << 39},
          ReadyItem{Lane::kCollective, 7, 0, {UINT64_MAX, 9}},
          DataItem{Lane::kReply, 8, tag},
          DataItem{Lane::kReply, 9, tag, 0xE3069283},
          ReleasedItem{Lane::kReply, 9},
          WantItem{Lane::kReply, 10},
          LeavingItem{},
          RecordItem{99, 3, calm},
          RecordItem{0, 4, busy},
          RetiredItem{1, 11},
          RefusedItem{2, 12},
          EndItem{3, RankEnd::kAborted, StatusCode::kDataLoss, "the disk is on fire"},
          BeatItem{4, 13},
          StoppedItem{5, 14, true},
          AliveItem{9, 15}};
}

/// All items of a frame, written again.
std::vector<std::byte> again(std::span<const std::byte> frame, size_t& items, Status& status) {
  FrameReader in(frame, kLimits);
  FrameWriter out;
  items = 0;
  for (;;) {
    auto item = in.next();
    status = item.status();
    if (!item.ok() || !item->has_value()) break;
    EXPECT_TRUE(out.add(**item));
    ++items;
  }
  return {out.bytes().begin(), out.bytes().end()};
}

TEST(NetFrames, WhatIsReadIsWhatWasWritten) {
  std::vector<std::byte> data(3000, std::byte{0x5a});
  FrameWriter out;
  const auto items = itemsOfAllKinds(data);
  for (const Item& item : items) ASSERT_TRUE(out.add(item));
  size_t count = 0;
  Status status;
  const auto copy = again(out.bytes(), count, status);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(count, items.size());
  EXPECT_TRUE(std::equal(copy.begin(), copy.end(), out.bytes().begin(), out.bytes().end()));
  FrameReader in(out.bytes(), kLimits);
  auto first = in.next();
  ASSERT_TRUE(first.ok() && first->has_value());
  const auto& message = std::get<MessageItem>(**first);
  EXPECT_EQ(message.tag.arrivalPs, -2);
  EXPECT_EQ(message.data.size(), data.size());
}

TEST(NetFrames, CutOffAnywhereIsAnErrorOrFewerItems) {
  std::vector<std::byte> data(40, std::byte{1});
  for (const Item& item : itemsOfAllKinds(data)) {
    FrameWriter out;
    ASSERT_TRUE(out.add(item));
    for (size_t size = 1; size < out.bytes().size(); ++size) {
      size_t count = 0;
      Status status;
      (void)again(out.bytes().first(size), count, status);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << "kind " << item.index() << " cut at " << size;
      EXPECT_EQ(count, 0u);
    }
  }
}

TEST(NetFrames, RanksNodesLanesAndSizesAreOfTheCommunicator) {
  auto refuses = [](const Item& item) {
    FrameWriter out;
    EXPECT_TRUE(out.add(item));
    size_t count = 0;
    Status status;
    (void)again(out.bytes(), count, status);
    return status.code() == StatusCode::kInvalidArgument && !status.message().empty();
  };
  EXPECT_TRUE(refuses(RetiredItem{100, 1}));
  EXPECT_TRUE(refuses(RetiredItem{-1, 1}));
  EXPECT_TRUE(refuses(AliveItem{10, 1}));
  EXPECT_TRUE(refuses(ReleasedItem{static_cast<Lane>(3), 1}));
  EXPECT_TRUE(refuses(AnnounceItem{Lane::kReply, 1, {}, -1}));
  EXPECT_TRUE(refuses(AnnounceItem{Lane::kReply, 1, {}, INT64_MAX}));
  EXPECT_TRUE(refuses(EndItem{1, RankEnd::kNone, StatusCode::kOk, ""}));
  EXPECT_TRUE(refuses(EndItem{1, static_cast<RankEnd>(4), StatusCode::kOk, ""}));
  EXPECT_TRUE(refuses(EndItem{1, RankEnd::kGone, static_cast<StatusCode>(16), ""}));
  const std::byte unknown[] = {std::byte{200}, std::byte{0}};
  size_t count = 0;
  Status status;
  (void)again(unknown, count, status);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST(NetFrames, AFrameHoldsWhatFitsAndNothingOfTheRest) {
  std::vector<std::byte> data(static_cast<size_t>(kMostEagerBytes), std::byte{7});
  FrameWriter out;
  EXPECT_TRUE(out.add(MessageItem{Lane::kReply, 0, {}, data}));
  const size_t before = out.bytes().size();
  EXPECT_FALSE(out.add(MessageItem{Lane::kReply, 1, {}, data}));
  EXPECT_EQ(out.bytes().size(), before);
  // A long reason is cut, and fits alone.
  out.clear();
  EXPECT_TRUE(out.add(EndItem{1, RankEnd::kAborted, StatusCode::kAborted, std::string(100000, 'x')}));
  EXPECT_LE(out.bytes().size(), kMostFrameBytes);
}

TEST(NetFrames, CardsAndGreetingsOfAnotherVersionAreNamed) {
  NetCard card;
  card.pid = 123, card.node = 4, card.smallBytes = 4096;
  card.host = "a", card.address = "10.0.0.1", card.network = "tcp", card.door = std::string("\0secret", 7);
  std::string text = encodeNetCard(card);
  auto same = decodeNetCard(text);
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_EQ(same->pid, 123);
  EXPECT_EQ(same->door, card.door);
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(decodeNetCard(text.substr(0, size)).ok());
  card.version = kItemsVersion + 1;
  auto other = decodeNetCard(encodeNetCard(card));
  EXPECT_EQ(other.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(other.status().message().find(std::to_string(kItemsVersion + 1)), std::string::npos);

  text = encodeNetHello({3, 8, LinkUse::kTree});
  auto hello = decodeNetHello(text);
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->rank, 3);
  EXPECT_EQ(hello->use, LinkUse::kTree);
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(decodeNetHello(text.substr(0, size)).ok());
  EXPECT_FALSE(decodeNetHello(encodeNetHello({8, 8, LinkUse::kTree})).ok());
  EXPECT_FALSE(decodeNetHello(encodeNetHello({-1, 8, LinkUse::kTree})).ok());
  text[1] = 9;
  EXPECT_EQ(decodeNetHello(text).status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace hpu::collectives::net
