// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Book.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "collectives/transport/net/Tree.h"

namespace hpu::collectives::net {
namespace {

std::vector<int32_t> randomNodes(std::mt19937& random) {
  const int nodes = 2 + static_cast<int>(random() % 12), ranks = nodes + static_cast<int>(random() % 20);
  std::vector<int32_t> nodeOf;
  for (int rank = 0; rank < ranks; ++rank)
    nodeOf.push_back(rank < nodes ? rank : static_cast<int32_t>(random() % static_cast<unsigned>(nodes)));
  std::shuffle(nodeOf.begin(), nodeOf.end(), random);
  return nodeOf;
}

TEST(NetTree, ReachesEveryRankWhateverIsLost) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto nodeOf = randomNodes(random);
    const Tree tree(nodeOf);
    const int ranks = static_cast<int>(nodeOf.size());
    std::vector<uint8_t> lost(nodeOf.size());
    if (round % 2)
      for (auto& one : lost) one = random() % 3 == 0;
    int roots = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (lost[static_cast<size_t>(rank)]) continue;
      int at = rank, steps = 0;
      for (int parent = tree.parentOf(at, lost); parent >= 0; parent = tree.parentOf(at, lost)) {
        ASSERT_FALSE(lost[static_cast<size_t>(parent)]);
        ASSERT_TRUE(tree.nodeOf(parent) < tree.nodeOf(at) || (tree.nodeOf(parent) == tree.nodeOf(at) && parent < at));
        at = parent;
        ASSERT_LE(++steps, ranks);
      }
      roots += at == rank;
    }
    EXPECT_LE(roots, 1);
    if (round % 2) continue;
    EXPECT_EQ(roots, 1);
    // Who dials is who is waited for.
    for (int rank = 0; rank < ranks; ++rank)
      for (int32_t child : tree.childrenOf(rank)) EXPECT_EQ(tree.parentOf(child, lost), rank);
    size_t children = 0;
    for (int rank = 0; rank < ranks; ++rank) children += tree.childrenOf(rank).size();
    EXPECT_EQ(children + 1, nodeOf.size());
  }
}

/// Books joined by channels along a tree; frames are on their way for a while.
class World {
 public:
  explicit World(const std::vector<int32_t>& nodeOf) : tree_(nodeOf), lost_(nodeOf.size()) {
    for (size_t rank = 0; rank < nodeOf.size(); ++rank)
      books_.push_back(std::make_unique<Book>(static_cast<int>(rank), nodeOf));
    for (int rank = 0; rank < ranks(); ++rank) join(rank);
  }
  int ranks() const { return static_cast<int>(books_.size()); }
  Book& book(int rank) { return *books_[static_cast<size_t>(rank)]; }

  /// One end sends a frame, or one arrives; false: there is nothing to do.
  bool step(std::mt19937& random) {
    std::vector<std::pair<int, int>> able;
    for (auto& [ends, way] : ways_)
      if (!way.frames.empty() || book(ends.first).anythingFor(way.channel)) able.push_back(ends);
    if (able.empty()) return false;
    const auto ends = able[random() % able.size()];
    Way& way = ways_[ends];
    FrameWriter out;
    if ((way.frames.empty() || random() % 2) && book(ends.first).fill(way.channel, out)) {
      way.frames.emplace_back(out.bytes().begin(), out.bytes().end());
    } else if (!way.frames.empty()) {
      FrameReader in(way.frames.front(), FrameLimits{ranks(), tree_.nodes()});
      for (auto item = in.next(); item.ok() && item->has_value(); item = in.next()) {
        const Status status = book(ends.second).hear(ways_[{ends.second, ends.first}].channel, **item);
        EXPECT_TRUE(status.ok()) << status.message();
        ++items_;
      }
      way.frames.pop_front();
    }
    return true;
  }
  /// It is cut off; its neighbours join others.
  void lose(int rank) {
    std::set<int> orphans;
    for (auto it = ways_.begin(); it != ways_.end();) {
      const auto [from, to] = it->first;
      if (from != rank && to != rank) {
        ++it;
        continue;
      }
      book(from).detach(it->second.channel);
      if (from != rank) orphans.insert(from);
      it = ways_.erase(it);
    }
    lost_[static_cast<size_t>(rank)] = 1;
    for (int orphan : orphans) {
      book(orphan).end(rank, RankEnd::kGone, unavailable("lost"));
      join(orphan);
    }
  }
  bool isLost(int rank) const { return lost_[static_cast<size_t>(rank)] != 0; }
  const Tree& tree() const { return tree_; }
  int64_t items() const { return items_; }

 private:
  struct Way {
    Book::Channel channel;
    std::deque<std::vector<std::byte>> frames;
  };
  void join(int rank) {
    const int parent = tree_.parentOf(rank, lost_);
    if (parent < 0 || ways_.contains({rank, parent})) return;
    book(rank).attach(ways_[{rank, parent}].channel);
    book(parent).attach(ways_[{parent, rank}].channel);
  }
  const Tree tree_;
  std::vector<uint8_t> lost_;
  std::vector<std::unique_ptr<Book>> books_;
  std::map<std::pair<int, int>, Way> ways_;  // By the ends, from and to.
  int64_t items_ = 0;
};

TEST(NetBook, EverybodyHearsOfEverythingWhateverIsLost) {
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    const auto nodeOf = randomNodes(random);
    World world(nodeOf);
    std::vector<uint64_t> retired(nodeOf.size());
    uint64_t refused = 0;
    for (int i = 0; i < 4000; ++i) {
      const int rank = static_cast<int>(random() % nodeOf.size());
      if (round % 2 && i % 1500 == 1000) world.lose(rank);
      Book& book = world.book(rank);
      if (world.isLost(rank)) continue;
      if (random() % 3 == 0) {
        const uint64_t next = book.published() + 1;
        if (book.hasRoom(next)) {
          CallRecord record;
          record.sequence = next;
          record.count = static_cast<int64_t>(next) * 100 + rank;
          book.publish(record);
        } else {
          book.refused(next);
          ++refused;
        }
      }
      if (random() % 8 == 0) {
        // What all of the others have published.
        uint64_t least = book.published();
        for (int other = 0; other < world.ranks(); ++other) least = std::min(least, book.lastSequence(other));
        for (int other = 0; other < world.ranks(); ++other)
          for (uint64_t s = retired[static_cast<size_t>(rank)] + 1; s <= least; ++s) {
            auto record = book.record(other, s);
            if (world.tree().nodeOf(other) == world.tree().nodeOf(rank)) continue;
            ASSERT_TRUE(record.has_value()) << "record " << s << " of " << other;
            ASSERT_EQ(record->count, static_cast<int64_t>(s) * 100 + other);
          }
        book.retire(least);
        retired[static_cast<size_t>(rank)] = least;
      }
      for (unsigned steps = random() % 8; steps > 0; --steps) world.step(random);
    }
    const int last = static_cast<int>(random() % nodeOf.size());
    if (!world.isLost(last)) world.book(last).end(last, RankEnd::kAborted, dataLoss("the disk"));
    while (world.step(random)) {
    }
    for (int rank = 0; rank < world.ranks(); ++rank)
      for (int other = 0; other < world.ranks(); ++other) {
        if (world.isLost(rank) || rank == other) continue;
        const Book &book = world.book(rank), &truth = world.book(other);
        if (world.isLost(other)) {
          EXPECT_EQ(book.endOf(other), RankEnd::kGone);
          continue;
        }
        EXPECT_EQ(book.lastSequence(other), truth.lastSequence(other));
        EXPECT_EQ(book.endOf(other), other == last ? RankEnd::kAborted : RankEnd::kNone);
        if (other == last) {
          EXPECT_EQ(book.why(other).message(), "the disk");
        }
      }
    (void)refused;
  }
}

TEST(NetBook, ARecordGoesAlongEachLinkOnce) {
  std::vector<int32_t> nodeOf;
  for (int rank = 0; rank < 32; ++rank) nodeOf.push_back(rank / 4);
  World world(nodeOf);
  std::mt19937 random(3);
  while (world.step(random)) {
  }
  const int64_t before = world.items();
  for (uint64_t s = 1; s <= 10; ++s)
    for (int rank = 0; rank < world.ranks(); ++rank) {
      CallRecord record;
      record.sequence = s;
      world.book(rank).publish(record);
      world.book(rank).retire(s);
    }
  while (world.step(random)) {
  }
  // A tree of 32 has 31 links.
  EXPECT_EQ(world.items() - before, 10 * 32 * 31);
}

TEST(NetBook, WhatSkipsOthersIsRefused) {
  Book book(0, {0, 1});
  Book::Channel channel;
  book.attach(channel);
  CallRecord record;
  record.sequence = 2;
  EXPECT_EQ(book.hear(channel, RecordItem{1, 0, record}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(book.hear(channel, LeavingItem{}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(book.lastSequence(1), 0u);
}

}  // namespace
}  // namespace hpu::collectives::net
