// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "Suite.h"

namespace hpu::testing {
namespace {
using namespace collectives;
using Clock = std::chrono::steady_clock;

void waits(Rank& rank) {
  // A wait ends at its time, with the number it has seen unchanged.
  uint32_t seen = rank.t().changes();
  auto begin = Clock::now(), until = begin + std::chrono::milliseconds(30);
  while (rank.t().changes() == seen && Clock::now() < until) rank.t().waitForChange(seen, until);
  EXPECT_EQ(rank.t().changes(), seen);
  EXPECT_GE(Clock::now(), until);
  // One that is over already ends at once.
  rank.t().waitForChange(seen, Clock::now() - std::chrono::seconds(5));
  rank.barrier();
  // Each thing that a peer does is a change.
  auto awaitChange = [&](const char* what) {
    auto end = Clock::now() + kPatience;
    while (rank.t().changes() == seen && Clock::now() < end) rank.t().waitForChange(seen, end);
    EXPECT_NE(rank.t().changes(), seen) << what;
  };
  const int64_t large = rank.t().smallBytes() + 1;
  if (rank.rank() == 0) {
    awaitChange("an offer");
    EXPECT_TRUE(rank.t().arrived(1, Lane::kReply, 0).has_value());
    rank.t().release(1, Lane::kReply);
    seen = rank.t().changes();
    rank.barrier();
    awaitChange("a record");
    EXPECT_EQ(rank.t().lastSequence(1), 1u);
    auto offered = rank.t().offer(1, Lane::kReply, rank.memory(0, large), large, {});
    EXPECT_TRUE(offered.ok() && *offered == Offered::kShared);
    seen = rank.t().changes();
    rank.barrier();
    awaitChange("a release");
    EXPECT_EQ(rank.t().released(1, Lane::kReply), 1u);
  } else {
    std::byte byte{};
    EXPECT_TRUE(rank.t().offer(0, Lane::kReply, &byte, 1, {}).ok());
    rank.barrier();
    CallRecord record;
    record.sequence = 1;
    EXPECT_TRUE(rank.t().publish(record));
    rank.barrier();
    rank.await("a message", [&] { return rank.t().arrived(0, Lane::kReply, 0).has_value(); });
    rank.t().release(0, Lane::kReply);
  }
  rank.barrier();
}

void wakes(Rank& rank) {
  // A thread that sleeps is woken by another one of its rank, and however many there are.
  std::atomic<int> asleep{0}, awake{0};
  const uint32_t seen = rank.t().changes();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      ++asleep;
      auto end = Clock::now() + kPatience;
      while (rank.t().changes() == seen && Clock::now() < end) rank.t().waitForChange(seen, end);
      EXPECT_LT(Clock::now(), end);
      ++awake;
    });
  while (asleep < 3) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(awake, 0);
  rank.t().wake();
  for (std::thread& thread : threads) thread.join();
  rank.barrier();
}

void pingPong(Rank& rank) {
  // A lost wake-up would take until the end of patience: each message is waited for asleep.
  constexpr uint64_t kRounds = 1500;
  const int from = (rank.rank() + rank.ranks() - 1) % rank.ranks();
  const int to = (rank.rank() + 1) % rank.ranks();
  const int64_t large = rank.t().smallBytes() + 1;
  for (uint64_t i = 0; i < kRounds; ++i) {
    auto pass = [&] {
      MessageTag tag;
      tag.sequence = i;
      bool shared = i % 16 == 0;
      auto offered = rank.t().offer(to, Lane::kCollective, rank.memory(0, large), shared ? large : 8, tag);
      ASSERT_TRUE(offered.ok());
      ASSERT_EQ(*offered, shared ? Offered::kShared : Offered::kCopied);
      if (shared) rank.await("a release", [&] { return rank.t().released(to, Lane::kCollective) == i + 1; });
    };
    auto take = [&] {
      rank.await("the ball", [&] { return rank.t().arrived(from, Lane::kCollective, i).has_value(); });
      auto arrived = rank.t().arrived(from, Lane::kCollective, i);
      ASSERT_TRUE(arrived.has_value());
      EXPECT_EQ(arrived->tag.sequence, i);
      rank.t().release(from, Lane::kCollective);
    };
    if (rank.rank() == 0) pass();
    take();
    if (rank.rank() != 0) pass();
  }
  rank.barrier();
}

/// Threads of one rank that wait for different numbers of changes, and give up waiting now and
/// then.
void manyWaits(Rank& rank) {
  constexpr int kRounds = 100;
  constexpr uint32_t kRings = 12;
  for (int round = 0; round < kRounds; ++round) {
    const uint32_t start = rank.t().changes();
    rank.barrier();
    if (rank.rank() == 0) {
      std::byte byte{};
      for (uint32_t i = 0; i < kRings; ++i) {
        // What the other rank has released may still be on its way to this one.
        EXPECT_TRUE(rank.await("room", [&] {
          const auto offered = rank.t().offer(1, Lane::kCollective, &byte, 1, {});
          return !offered.ok() || *offered != Offered::kFull;
        }));
        if (i % 4 == static_cast<uint32_t>(round) % 4) std::this_thread::yield();
      }
    } else {
      std::vector<std::thread> threads;
      for (uint32_t enough : {kRings, kRings / 2, kRings - 1})
        threads.emplace_back([&rank, start, enough, round] {
          const auto end = Clock::now() + kPatience;
          for (uint32_t many; (many = rank.t().changes() - start) < enough;) {
            // One of them sleeps a little only, for less than it needs.
            const bool brief = enough == kRings && round % 2 && many < enough / 2;
            ASSERT_LT(Clock::now(), end) << "a wake-up was lost at " << many << " of " << enough;
            rank.t().waitForChange(start + many, brief ? Clock::now() + std::chrono::microseconds(20) : end,
                                   brief ? 1 : enough - many);
          }
        });
      for (std::thread& thread : threads) thread.join();
      for (uint32_t i = 0; i < kRings; ++i) rank.t().release(0, Lane::kCollective);
    }
    rank.barrier();
  }
}

}  // namespace

const std::vector<Case>& waitCases() {
  static const std::vector<Case> cases = {
      {"waits", 2, waits},       {"wakes", 2, wakes},      {"manyWaits", 2, manyWaits},
      {"pingPong", 2, pingPong}, {"ringOf4", 4, pingPong},
  };
  return cases;
}

}  // namespace hpu::testing
