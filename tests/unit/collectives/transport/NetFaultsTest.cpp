// SPDX-License-Identifier: Apache-2.0
// What the transport between nodes makes of ranks that die, leave, are silent or cannot be reached. The links are
// within the process.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "NetWorld.h"

namespace hpu::collectives {
namespace {

TEST(NetFaults, ARankThatIsKilledIsToldToAllAndTheOthersStillHearEachOther) {
  World world(nine());
  ASSERT_TRUE(world.start());
  world.kill(1);
  world.all[1].reset();
  expectEnd(world, 1, StatusCode::kUnavailable, "is gone");
  for (const auto& rank : world.all) {
    if (!rank) continue;
    EXPECT_TRUE(rank->gone(1));
    has(rank->describe(1), "node 1, gone)");
  }
  // 5 was below 1.
  ASSERT_TRUE(world.all[5]->publish(callOf(1)));
  for (int rank : {0, 2, 6, 8}) {
    Transport& t = *world.all[static_cast<size_t>(rank)];
    ASSERT_TRUE(await([&] { return t.record(5, 1).has_value(); })) << rank;
    EXPECT_EQ(t.record(5, 1)->count, 3);
    EXPECT_TRUE(t.peerStatus(5).ok());
  }
  world.all[6]->abort(dataLoss("the disk is on fire"));
  expectEnd(world, 6, StatusCode::kAborted, "the disk is on fire");
  EXPECT_EQ(world.all[8]->abortReason(6).code(), StatusCode::kDataLoss);
  EXPECT_EQ(world.all[8]->abortReason(6).message(), "the disk is on fire");
}

TEST(NetFaults, ARankThatHasLeftGoesOnPassingOnWhatOthersSay) {
  World world(nine());
  ASSERT_TRUE(world.start());
  world.all[1].reset();
  expectEnd(world, 1, StatusCode::kUnavailable, "has left");
  EXPECT_FALSE(world.all[7]->gone(1));
  ASSERT_TRUE(world.all[5]->publish(callOf(1)));
  for (int rank : {0, 2, 6, 8})
    ASSERT_TRUE(await([&] { return world.all[static_cast<size_t>(rank)]->record(5, 1).has_value(); })) << rank;
  // Its process ends, and it is still one that has left.
  world.kill(1);
  world.all[5]->abort(internalError("enough"));
  expectEnd(world, 5, StatusCode::kAborted, "enough");
  EXPECT_FALSE(world.all[7]->gone(1));
  for (int rank : {0, 2, 6, 8}) {
    EXPECT_TRUE(world.all[static_cast<size_t>(rank)]->peerStatus(7).ok());
  }
}

TEST(NetFaults, OtherRanksOfANodeGoOnWhenItsFirstOneIsKilled) {
  World world({0, 0, 0, 1, 1, 1});
  ASSERT_TRUE(world.start());
  world.kill(3);
  world.all[3].reset();
  expectEnd(world, 3, StatusCode::kUnavailable, "is gone");
  ASSERT_TRUE(world.all[5]->publish(callOf(1)));
  ASSERT_TRUE(world.all[2]->publish(callOf(1)));
  ASSERT_TRUE(await([&] { return world.all[1]->record(5, 1).has_value(); }));
  ASSERT_TRUE(await([&] { return world.all[5]->record(2, 1).has_value(); }));
  world.kill(0);
  world.all[0].reset();
  expectEnd(world, 0, StatusCode::kUnavailable, "is gone");
  ASSERT_TRUE(await([&] { return world.all[4]->publish(callOf(1)); }));
  ASSERT_TRUE(await([&] { return world.all[2]->record(4, 1).has_value(); }));
}

TEST(NetFaults, ANodeThatSaysNothingIsGone) {
  World world({0, 1, 1, 2});
  world.silenceMs = 2500;
  world.neverJudge = {1, 2};
  ASSERT_TRUE(world.start());
  world.freeze({1, 2});
  // First it is only late.
  ASSERT_TRUE(await([&] { return world.all[0]->describe(2).find("no word from its node for ") != std::string::npos; }));
  for (int rank : {0, 3})
    for (int silent : {1, 2}) {
      Transport& t = *world.all[static_cast<size_t>(rank)];
      ASSERT_TRUE(await([&] { return t.gone(silent); }));
      EXPECT_EQ(t.peerStatus(silent).code(), StatusCode::kUnavailable);
      has(t.peerStatus(silent).message(), "rank " + std::to_string(silent));
      // The first of the node speaks for it, and is judged first.
      has(t.peerStatus(silent).message(), silent == 1 ? "node 1) is gone: nothing was heard from it for "
                                                      : "node 1) is gone: nothing was heard from its node for ");
    }
  EXPECT_TRUE(world.all[0]->peerStatus(3).ok());
  EXPECT_TRUE(world.all[3]->peerStatus(0).ok());
  world.freeze({1, 2}, false);
}

/// One rank is frozen: all others name it, and nobody else, hear of each other, and go on doing so.
void freezeOne(std::vector<int32_t> nodeOf, int frozen) {
  World world(std::move(nodeOf));
  world.silenceMs = 2500;
  world.neverJudge = {frozen};
  ASSERT_TRUE(world.start());
  world.freeze({frozen});
  const auto at = Clock::now();
  std::vector<int> living;
  for (int rank = 0; rank < world.ranks(); ++rank)
    if (rank != frozen) living.push_back(rank);
  for (int rank : living) {
    Transport& t = *world.all[static_cast<size_t>(rank)];
    ASSERT_TRUE(await([&] { return t.gone(frozen); })) << rank;
    has(t.peerStatus(frozen).message(), "nothing was heard from it for ");
  }
  for (int rank : living) ASSERT_TRUE(await([&] { return world.all[static_cast<size_t>(rank)]->publish(callOf(1)); }));
  // Until those would be judged of whom only others tell.
  const auto until = at + std::chrono::milliseconds(2 * world.silenceMs + 1500);
  do {
    for (int rank : living)
      for (int other : living)
        ASSERT_TRUE(world.all[static_cast<size_t>(rank)]->peerStatus(other).ok())
            << rank << ": " << world.all[static_cast<size_t>(rank)]->peerStatus(other).message();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (Clock::now() < until);
  for (int rank : living)
    for (int other : living)
      if (rank != other) {
        EXPECT_TRUE(world.all[static_cast<size_t>(rank)]->record(other, 1).has_value())
            << rank << " has not heard what " << other << " calls";
      }
  world.freeze({frozen}, false);
}

TEST(NetFaults, AFrozenRootIsNamedAloneByThoseWhoHearOfEachOtherThroughIt) {
  freezeOne({0, 1, 2}, 0);
}

TEST(NetFaults, AFrozenRankInTheMiddleIsNamedAlone) {
  freezeOne(nine(), 1);
}

TEST(NetFaults, AFrozenFirstRankOfANodeIsNamedAloneAndTheOthersOfTheNodeGoOn) {
  freezeOne({0, 0, 0, 1, 1}, 0);
}

TEST(NetFaults, AFrozenRankThatIsNotTheFirstOfItsNodeIsNamedAloneByThoseOfItsNodeToo) {
  freezeOne({0, 0, 1, 1, 1}, 3);
}

TEST(NetFaults, AStoppedRankIsGivenUpByAllAndHearsOfIt) {
  World world({0, 0, 1, 1, 1});
  world.silenceMs = 2500;
  ASSERT_TRUE(world.start());
  world.group(4).stop(world.place(4));
  expectEnd(world, 4, StatusCode::kUnavailable, "is gone: nothing was heard from it for ");
  expectEnd(world, 4, StatusCode::kUnavailable, ": its process is stopped");
  for (int rank : {0, 1, 2, 3}) {
    EXPECT_TRUE(world.all[static_cast<size_t>(rank)]->gone(4));
    for (int other : {0, 1, 2, 3}) EXPECT_TRUE(world.all[static_cast<size_t>(rank)]->peerStatus(other).ok());
  }
  for (int other : {0, 1, 2, 3}) EXPECT_TRUE(await([&] { return world.all[4]->gone(other); })) << other;
}

TEST(NetFaults, StoppedRanksThatAreNoNeighboursOfThoseWhoGoOnAreGivenUp) {
  World world({0, 0, 0, 1});
  world.silenceMs = 2500;
  world.neverJudge = {0, 2};
  ASSERT_TRUE(world.start());
  for (int rank : {0, 2}) world.group(rank).stop(world.place(rank));
  world.freeze({0, 2});
  for (int rank : {1, 3})
    for (int stopped : {0, 2})
      EXPECT_TRUE(await([&] { return world.all[static_cast<size_t>(rank)]->gone(stopped); })) << rank << " " << stopped;
  EXPECT_TRUE(world.all[1]->peerStatus(3).ok());
  EXPECT_TRUE(world.all[3]->peerStatus(1).ok());
  world.freeze({0, 2}, false);
}

TEST(NetFaults, AStoppedRankIsNotGivenUpWithoutALimitNorWithinIt) {
  for (int64_t limit : {int64_t{0}, int64_t{60000}}) {
    World world({0, 0, 1, 1});
    world.silenceMs = limit;
    ASSERT_TRUE(world.start());
    world.group(3).stop(world.place(3));
    ASSERT_TRUE(await([&] { return world.all[0]->describe(3).find("stopped") != std::string::npos; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(3000));
    for (int rank : {0, 1, 2}) EXPECT_TRUE(world.all[static_cast<size_t>(rank)]->peerStatus(3).ok());
    world.group(3).stop(world.place(3), false);
    ASSERT_TRUE(await([&] { return world.all[0]->describe(3).find("stopped") == std::string::npos; }));
    world.all[3]->abort(internalError("enough"));
    expectEnd(world, 3, StatusCode::kAborted, "enough");
  }
}

TEST(NetFaults, ALinkThatIsCutIsTheEndOfItsRanksForEachOther) {
  World world({0, 1, 2});
  ASSERT_TRUE(world.start());
  std::byte byte{};
  // 1 and 2 are not neighbours in the tree.
  ASSERT_TRUE(world.all[1]->offer(2, Lane::kCollective, &byte, 1, {}).ok());
  ASSERT_TRUE(await([&] { return world.all[2]->arrived(1, Lane::kCollective, 0).has_value(); }));
  world.wires().cut(world.network(1), world.network(2));
  ASSERT_TRUE(await([&] { return world.all[1]->gone(2); }));
  ASSERT_TRUE(await([&] { return world.all[2]->gone(1); }));
  has(world.all[2]->peerStatus(1).message(), "the link was cut");
  EXPECT_EQ(world.all[1]->offer(2, Lane::kCollective, &byte, 1, {}).status().code(), StatusCode::kUnavailable);
  // What it said before is still there.
  EXPECT_TRUE(world.all[2]->arrived(1, Lane::kCollective, 0).has_value());
}

TEST(NetFaults, ARankThatIsStoppedIsSaidToBe) {
  World world({0, 0, 1, 1, 1});
  ASSERT_TRUE(world.start());
  world.group(4).stop(world.place(4));
  ASSERT_TRUE(await([&] { return world.all[1]->describe(4).find("node 1, stopped)") != std::string::npos; }));
  EXPECT_TRUE(world.all[0]->peerStatus(4).ok());
  world.group(4).stop(world.place(4), false);
  ASSERT_TRUE(await([&] { return world.all[1]->describe(4).find("stopped") == std::string::npos; }));
}

TEST(NetFaults, ErrorsOfRanksOfTheNodeNameThemAsTheCommunicatorDoes) {
  World world({0, 1, 0, 1});
  ASSERT_TRUE(world.start());
  world.all[3]->abort(internalError("enough"));
  expectEnd(world, 3, StatusCode::kAborted, "enough");
  has(world.all[1]->peerStatus(3).message(), "rank 3 gave up");
  has(world.all[0]->describe(2), "rank 2 (this process)");
  has(world.all[0]->describe(1), "rank 1 (process ");
  has(world.all[0]->describe(1), ", node 1)");
}

// ---- Creation ----

TEST(NetCreation, ALinkThatCannotBeMadeFailsForAllAndIsNamed) {
  World world({0, 1, 1, 2});
  world.timeoutMs = 500;
  world.wires().cut(world.network(3), world.network(0));
  for (const auto& made : world.create()) {
    EXPECT_EQ(made.status().code(), StatusCode::kUnavailable);
    has(made.status().message(), "no link to rank 0 (process ");
    has(made.status().message(), "nobody is at ");
  }
}

TEST(NetCreation, WhatOneRankDoesWrongFailsForAll) {
  World world({0, 1, 1});
  world.change = [](NetOptions& options) {
    if (options.rank == 2) options.nodeOf = {0, 0, 1};
  };
  for (const auto& made : world.create()) {
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    has(made.status().message(), "rank 2");
  }
}

TEST(NetCreation, ManyCommunicatorsOneAfterAnotherLeaveNothing) {
  for (int i = 0; i < 30; ++i) {
    World world({0, 1, 1, 2, 2, 2});
    ASSERT_TRUE(world.start());
    if (i % 2) world.all[static_cast<size_t>(i % 6)]->abort(internalError("enough"));
  }
}

// ---- Everything at once ----

/// Everybody sends to everybody at random, some expecting what comes, until a link is cut or a rank killed: what
/// arrives is right, and everybody ends.
TEST(NetFaults, RandomTrafficEndsForAllWhenALinkIsCut) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<int32_t> nodes = {0, 1, 1, 2, 3, 3};
    World world(nodes);
    ASSERT_TRUE(world.start());
    constexpr int64_t kSlot = 8 << 10;
    constexpr uint64_t kSlots = 8;  // Of each direction and peer.
    std::atomic<uint64_t> received{0};
    std::atomic<int> dead{-1};
    auto byteOf = [](int from, int to, uint64_t n, int64_t i) {
      return static_cast<std::byte>(n * 31 + static_cast<uint64_t>(from * 7 + to * 3) + static_cast<uint64_t>(i));
    };
    auto sizeOf = [](int from, uint64_t n) {
      return static_cast<int64_t>((n * 2654435761u + static_cast<uint64_t>(from)) % static_cast<uint64_t>(kSlot));
    };
    std::vector<std::thread> threads;
    for (int me = 0; me < world.ranks(); ++me)
      threads.emplace_back([&, me] {
        Transport& t = *world.all[static_cast<size_t>(me)];
        std::mt19937 random(seed * 100 + static_cast<unsigned>(me));
        std::vector<uint64_t> sent(static_cast<size_t>(world.ranks())), taken(sent), expected(sent);
        auto slot = [&](int peer, bool in, uint64_t n) {
          const auto place = (static_cast<uint64_t>(peer) * 2 + in) * kSlots + n % kSlots;
          return world.memory(me) + static_cast<int64_t>(place) * kSlot;
        };
        bool ended = false;
        const auto until = Clock::now() + kPatience;
        while (!ended && Clock::now() < until) {
          const uint32_t seen = t.changes();
          bool moved = false;
          for (int peer = 0; peer < world.ranks(); ++peer) {
            if (peer == me) continue;
            ended |= !t.peerStatus(peer).ok() || dead == me;
            const auto p = static_cast<size_t>(peer);
            if (sent[p] < t.released(peer, Lane::kCollective) + kSlots && random() % 2) {
              const int64_t bytes = sizeOf(me, sent[p]);
              std::byte* data = slot(peer, false, sent[p]);
              for (int64_t i = 0; i < bytes; ++i) data[i] = byteOf(me, peer, sent[p], i);
              auto offered = t.offer(peer, Lane::kCollective, data, bytes, {});
              if (offered.ok() && *offered != Offered::kFull) ++sent[p], moved = true;
            }
            // Some are expected, each before it is looked at.
            for (; expected[p] < taken[p] + kSlots; ++expected[p])
              if (random() % 3)
                t.expect(peer, Lane::kCollective, expected[p], slot(peer, true, expected[p]),
                         sizeOf(peer, expected[p]));
            while (auto message = t.arrived(peer, Lane::kCollective, taken[p])) {
              EXPECT_EQ(message->bytes, sizeOf(peer, taken[p]));
              // Ranks of a node read each other's memory in place, which is the other one's when it has given up.
              const bool moves = nodes[static_cast<size_t>(me)] != nodes[p];
              for (int64_t i = 0; moves && i < message->bytes; ++i)
                ASSERT_EQ(message->data[i], byteOf(peer, me, taken[p], i))
                    << "message " << taken[p] << " from " << peer;
              t.release(peer, Lane::kCollective);
              ++taken[p], ++received;
              moved = true;
            }
          }
          if (!moved && !ended) t.waitForChange(seen, Clock::now() + std::chrono::milliseconds(50), 1);
        }
        EXPECT_TRUE(ended);
        t.abort(internalError("heard of it"));
        // Its memory is its own now.
        std::fill_n(world.memory(me), kMemory, std::byte{});
      });
    ASSERT_TRUE(await([&] { return received > 300 + seed * 100; }));
    const int one = static_cast<int>(seed) % 3;
    if (seed % 3 == 2) {
      world.kill(one);
      dead = one;  // It does not hear of it.
    } else {
      world.wires().cut(world.network(one), world.network(one + 3));
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace hpu::collectives
