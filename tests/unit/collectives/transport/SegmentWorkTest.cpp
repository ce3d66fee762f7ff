// SPDX-License-Identifier: Apache-2.0
// Parts are taken once each, by whomever; memory that a rank may yet write into is kept.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/transport/shm/SegmentWork.h"

namespace hpu::collectives::shm {
namespace {

struct Ranks {
  std::shared_ptr<Segment> segment;
  std::vector<std::unique_ptr<SegmentWork>> works;
  explicit Ranks(int ranks) {
    node::Fd file;
    segment = Segment::create(ranks, file).value();
    for (int rank = 0; rank < ranks; ++rank)
      works.push_back(std::make_unique<SegmentWork>(
          segment, rank, std::vector<std::shared_ptr<node::PeerMemory>>(static_cast<size_t>(ranks))));
  }
  SegmentWork& operator[](int rank) { return *works[static_cast<size_t>(rank)]; }
};

TEST(SharedWork, EachPartIsTakenOnceAndAllSeeThatItIsDone) {
  constexpr int kRanks = 4, kParts = 1000;
  constexpr uint64_t kSequence = 3;
  Ranks ranks(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) ranks[rank].clear(kSequence);
  std::vector<std::atomic<int>> taken(kRanks * kParts);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int visited = 0; visited < kRanks;) {
        const int share = (rank + visited) % kRanks;
        const uint32_t part = ranks[rank].take(share, kSequence);
        if (part < kParts) ++taken[static_cast<size_t>(share) * kParts + part];
        ranks[rank].finish(share, kSequence, part < kParts);
        if (part >= kParts) ++visited;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& times : taken) ASSERT_EQ(times, 1);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(ranks[0].finished(rank, kSequence), kParts);
    EXPECT_FALSE(ranks[0].works(rank, kSequence));
  }
  // The counters of a later operation at the same place begin anew.
  ranks[1].clear(kSequence + kRecords);
  EXPECT_EQ(ranks[0].take(1, kSequence + kRecords), 0u);
}

TEST(SharedWork, MemoryIsKeptWhileARankIsWithinAPart) {
  Ranks ranks(2);
  for (int rank = 0; rank < 2; ++rank) ranks[rank].clear(1);
  auto memory = std::make_shared<int>(0);
  std::weak_ptr<int> watch = memory;
  ranks[1].take(0, 1);  // And is stopped there.
  ranks[0].keepWhileWorking(1, std::move(memory));
  letGoOfKept();
  EXPECT_FALSE(watch.expired()) << "rank 1 may still write into it";
  ranks[1].finish(0, 1, true);
  letGoOfKept();
  EXPECT_TRUE(watch.expired());

  memory = std::make_shared<int>(0);
  watch = memory;
  ranks[1].take(0, 1);
  ranks[0].keepWhileWorking(1, std::move(memory));
  EXPECT_FALSE(watch.expired());
  ranks.segment->end(1, RankState::kDead);
  letGoOfKept();
  EXPECT_TRUE(watch.expired()) << "a dead rank writes no more";
}

TEST(SharedWork, NobodyIsPresentWhoHasGivenUp) {
  Ranks ranks(3);
  EXPECT_TRUE(ranks[0].allPresent());
  ranks.segment->end(2, RankState::kAborted);
  EXPECT_FALSE(ranks[0].allPresent());
  EXPECT_GE(ranks[0].cpus(), 1);
}

}  // namespace
}  // namespace hpu::collectives::shm
