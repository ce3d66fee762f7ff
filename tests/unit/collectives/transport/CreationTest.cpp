// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ShmRank.h"

namespace hpu::collectives {
namespace {

TEST(ShmCreation, OneRankNeedsNobody) {
  auto devices = testing::openDevices(1);
  auto ranks = testing::createRanks(1, devices);
  ASSERT_TRUE(ranks[0].ok()) << ranks[0].status().message();
  Transport& alone = **ranks[0];
  CallRecord record;
  for (record.sequence = 1; record.sequence < 100; ++record.sequence) {
    EXPECT_TRUE(alone.publish(record));
    alone.retire(record.sequence);
  }
  EXPECT_EQ(alone.lastSequence(0), 99u);
  EXPECT_TRUE(alone.peerStatus(0).ok());
}

TEST(ShmCreation, SixtyFourRanksShareEightDevices) {
  auto devices = testing::openDevices(8);
  ASSERT_EQ(devices.size(), 8u);
  auto ranks = testing::createRanks(64, devices);
  for (const auto& rank : ranks) ASSERT_TRUE(rank.ok()) << rank.status().message();
  // A message from each to each; all in one thread, which no transport minds.
  for (int from = 0; from < 64; ++from)
    for (int to = 0; to < 64; ++to) {
      if (to == from) continue;
      MessageTag tag;
      tag.sequence = static_cast<uint64_t>(from * 64 + to);
      auto offered = (*ranks[static_cast<size_t>(from)])->offer(to, Lane::kCollective, nullptr, 0, tag);
      ASSERT_TRUE(offered.ok());
      EXPECT_EQ(*offered, Offered::kCopied);
    }
  for (int from = 0; from < 64; ++from)
    for (int to = 0; to < 64; ++to) {
      if (to == from) continue;
      auto arrived = (*ranks[static_cast<size_t>(to)])->arrived(from, Lane::kCollective, 0);
      ASSERT_TRUE(arrived.has_value());
      EXPECT_EQ(arrived->tag.sequence, static_cast<uint64_t>(from * 64 + to));
    }
}

TEST(ShmCreation, RanksWithoutMemoryHaveSmallMessages) {
  auto ranks = testing::createRanks(2, {});
  ASSERT_TRUE(ranks[0].ok()) << ranks[0].status().message();
  Transport& sender = **ranks[0];
  EXPECT_EQ(sender.local(kHbmBase, 1), nullptr);
  std::vector<std::byte> data(static_cast<size_t>(sender.smallBytes() + 1), std::byte{3});
  auto offered = sender.offer(1, Lane::kReply, data.data(), sender.smallBytes(), {});
  ASSERT_TRUE(offered.ok());
  EXPECT_EQ(sender.offer(1, Lane::kReply, data.data(), sender.smallBytes() + 1, {}).status().code(),
            StatusCode::kInvalidArgument);
  auto arrived = (*ranks[1])->arrived(0, Lane::kReply, 0);
  ASSERT_TRUE(arrived.has_value());
  EXPECT_EQ(arrived->bytes, sender.smallBytes());
  EXPECT_EQ(arrived->data[sender.smallBytes() - 1], std::byte{3});
}

/// Every rank fails with this code, and the others name the rank.
void expectAllFail(const std::vector<StatusOr<std::shared_ptr<Transport>>>& ranks, size_t culprit, StatusCode code,
                   const std::string& part) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    ASSERT_FALSE(ranks[r].ok()) << r;
    EXPECT_EQ(ranks[r].status().code(), code) << ranks[r].status().toString();
    EXPECT_NE(ranks[r].status().message().find(part), std::string::npos) << ranks[r].status().message();
    if (r != culprit) {
      EXPECT_NE(ranks[r].status().message().find("rank " + std::to_string(culprit)), std::string::npos)
          << ranks[r].status().message();
    }
  }
}

TEST(ShmCreation, WhatOneRankLacksFailsAllWithItsName) {
  auto devices = testing::openDevices(2);
  ASSERT_EQ(devices.size(), 2u);
  for (size_t culprit : {size_t{0}, size_t{2}}) {
    auto ranks = testing::createRanks(3, devices, [&](ShmOptions& options) {
      if (static_cast<size_t>(options.rank) == culprit) options.deviceIndex = 5;
    });
    expectAllFail(ranks, culprit, StatusCode::kFailedPrecondition, "device 5");
    auto noSuch = testing::createRanks(3, devices, [&](ShmOptions& options) {
      if (static_cast<size_t>(options.rank) == culprit) options.deviceIndex = 99;
    });
    expectAllFail(noSuch, culprit, StatusCode::kNotFound, "device 99");
  }
  // And then it works.
  for (const auto& rank : testing::createRanks(3, devices)) EXPECT_TRUE(rank.ok());
}

TEST(ShmCreation, AnExchangeThatFailsIsTheError) {
  auto ranks = testing::createRanks(1, {}, [](ShmOptions& options) {
    options.allGather = [](const std::string& phase, const std::string&) -> StatusOr<std::vector<std::string>> {
      return deadlineExceeded("nobody came to " + phase);
    };
  });
  EXPECT_EQ(ranks[0].status().code(), StatusCode::kDeadlineExceeded);
  // One that brings something else than cards, or not as many as there are ranks.
  for (std::vector<std::string> texts :
       {std::vector<std::string>{}, {""}, {"a", "b"}, {std::string(160, 'x')}, {"!"}, {"!99 odd"}}) {
    auto odd = testing::createRanks(1, {}, [&](ShmOptions& options) {
      options.allGather = [&](const std::string&, const std::string&) -> StatusOr<std::vector<std::string>> {
        return texts;
      };
    });
    EXPECT_FALSE(odd[0].ok());
    EXPECT_FALSE(odd[0].status().message().empty() && texts != std::vector<std::string>{"!"});
  }
}

TEST(ShmCreation, RefusesWhatIsNoRank) {
  for (auto [rank, count] : {std::pair{-1, 2}, {2, 2}, {0, 0}, {0, -1}, {0, kMaxShmRanks + 1}}) {
    ShmOptions options;
    options.rank = rank;
    options.ranks = count;
    options.allGather = [](const std::string&, const std::string&) -> StatusOr<std::vector<std::string>> {
      return internalError("must not be called");
    };
    EXPECT_EQ(createShmTransport(options).status().code(), StatusCode::kInvalidArgument) << rank << " of " << count;
  }
  EXPECT_EQ(createShmTransport({}).status().code(), StatusCode::kInvalidArgument);
}

TEST(ShmCreation, CommunicatorsSideBySideDoNotMeet) {
  auto devices = testing::openDevices(2);
  auto one = testing::createRanks(2, devices), two = testing::createRanks(2, devices);
  ASSERT_TRUE(one[0].ok() && two[0].ok());
  std::byte byte{1};
  ASSERT_TRUE((*one[0])->offer(1, Lane::kCollective, &byte, 1, {}).ok());
  EXPECT_TRUE((*one[1])->arrived(0, Lane::kCollective, 0).has_value());
  EXPECT_FALSE((*two[1])->arrived(0, Lane::kCollective, 0).has_value());
  (*one[0])->abort(internalError("only this one"));
  EXPECT_FALSE((*one[1])->peerStatus(0).ok());
  EXPECT_TRUE((*two[1])->peerStatus(0).ok());
}

TEST(ShmTransport, AsksNoProgressSourceThatWasTakenAway) {
  auto ranks = testing::createRanks(2, {});
  ASSERT_TRUE(ranks[0].ok());
  for (int i = 0; i < 200; ++i) {
    auto asked = std::make_unique<std::atomic<uint64_t>>(0);
    (*ranks[0])->setProgressSource([counter = asked.get()] { return ++*counter; });
    if (i % 20 == 0)
      while (*asked == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (*ranks[0])->setProgressSource({});
    asked.reset();  // A source that is asked now would be a use after free.
  }
}

}  // namespace
}  // namespace hpu::collectives
