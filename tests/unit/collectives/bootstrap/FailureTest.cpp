// SPDX-License-Identifier: Apache-2.0
// What ranks are told when others do not come, come wrongly, leave or die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "collectives/bootstrap/Bootstrap.h"
#include "tests/unit/collectives/bootstrap/NoDescriptors.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"

namespace hpu::collectives {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(BootstrapFailure, NamesRanksThatDoNotCome) {
  UniqueId id = createUniqueId().value();
  auto results = onRanks<Status>(6, [&](int rank) {
    if (rank == 2 || rank == 3 || rank == 5) return okStatus();
    return Bootstrap::join(id, rank, 6, {.timeoutMs = 200 + 30 * rank}).status();
  });
  for (int rank : {0, 1, 4}) {
    const Status& status = results[static_cast<size_t>(rank)];
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(status.message(), HasSubstr("ranks 2 to 3 have not come"));
    EXPECT_THAT(status.message(), HasSubstr("rank 5 has not come"));
  }
  // All gave up: one that comes now is told at once.
  auto late = Bootstrap::join(id, 2, 6, {.timeoutMs = 20000});
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.status().message(), HasSubstr("ranks 2 to 3 have not come"));
}

TEST(BootstrapFailure, SaysThatSomebodyDidNotKnowTheSecret) {
  const UniqueId id = createUniqueId().value();
  CoordinatorId wrong = decodeId(id).value();
  wrong.secret[3] ^= 1;
  for (int rank : {1, 2})
    EXPECT_THAT(Bootstrap::joinAt(wrong, rank, 3, {.timeoutMs = 60000}).status().message(),
                HasSubstr("does not know the communicator's secret"));
  const Status waited = Bootstrap::join(id, 0, 3, {.timeoutMs = 500}).status();
  EXPECT_EQ(waited.code(), StatusCode::kDeadlineExceeded) << waited.toString();
  EXPECT_THAT(waited.message(), HasSubstr("ranks 1 to 2 have not come; 2 connections, the last from "));
  EXPECT_THAT(waited.message(), HasSubstr(", did not know the secret (HPU_COMM_SECRET"));
}

TEST(BootstrapFailure, TheFirstDeadlineEndsTheWaitOfAll) {
  // Its process may end then, and be the coordinator's: nobody else could find out who was missing.
  UniqueId id = createUniqueId().value();
  auto begin = std::chrono::steady_clock::now();
  auto results = onRanks<Status>(4, [&](int rank) {
    if (rank == 2) return okStatus();
    return Bootstrap::join(id, rank, 4, {.timeoutMs = rank == 0 ? 300 : 60000}).status();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  for (int rank : {0, 1, 3}) {
    const Status& status = results[static_cast<size_t>(rank)];
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("rank 0 of 4 waited 300 ms"));
    EXPECT_THAT(status.message(), HasSubstr("1 did not: rank 2 has not come"));
  }
}

TEST(BootstrapFailure, AnInterruptEndsTheWaitOfAll) {
  UniqueId id = createUniqueId().value();
  auto interrupt = std::make_shared<Interrupt>();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    interrupt->raise(aborted("enough"));
    interrupt->raise(aborted("again"));
  });
  auto begin = std::chrono::steady_clock::now();
  auto results = onRanks<Status>(2, [&](int rank) {
    return Bootstrap::join(id, rank, 3, {.timeoutMs = 60000, .interrupt = rank == 1 ? interrupt : nullptr}).status();
  });
  other.join();
  for (const Status& status : results) {
    EXPECT_EQ(status.code(), StatusCode::kAborted) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("enough"));
  }
  // Also of one that comes later, and of one that begins later with it.
  EXPECT_THAT(Bootstrap::join(id, 2, 3, {.timeoutMs = 60000}).status().message(), HasSubstr("enough"));
  EXPECT_EQ(
      Bootstrap::join(createUniqueId().value(), 0, 2, {.timeoutMs = 60000, .interrupt = interrupt}).status().code(),
      StatusCode::kAborted);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(BootstrapFailure, AGroupThatAMemberGivesUpEndsBeforeItsFirstPhase) {
  // The root, an inner node, a leaf: of the tree of processes, or of one process.
  for (auto [giver, alone] :
       std::vector<std::pair<int, bool>>{{0, false}, {2, false}, {0, true}, {1, true}, {10, true}}) {
    auto all = joinAll(12, alone);
    std::vector<int> members(11);
    for (int i = 0; i < 11; ++i) members[static_cast<size_t>(i)] = i + 1;
    auto begin = std::chrono::steady_clock::now();
    auto results = onRanks<Status>(12, [&, giver = giver](int rank) {
      if (rank == 0) return okStatus();
      auto group = all[static_cast<size_t>(rank)]->subgroup("part", members);
      if (!group.ok()) return group.status();
      if (rank - 1 != giver) return (*group)->barrier("b", soon(60000));
      (*group)->abandon(invalidArgument("no table"));
      return okStatus();
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    for (int rank = 1; rank < 12; ++rank) {
      if (rank - 1 == giver) continue;
      const Status& status = results[static_cast<size_t>(rank)];
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << rank << ": " << status.toString();
      EXPECT_THAT(status.message(), HasSubstr("no table"));
    }
    // The ranks have other groups.
    auto after = onRanks<Status>(12, [&](int rank) { return all[static_cast<size_t>(rank)]->barrier("b", soon()); });
    for (const Status& status : after) EXPECT_TRUE(status.ok()) << status.toString();
  }
}

TEST(BootstrapFailure, AReasonComesBeforeTheLeavingOfWhoGaveIt) {
  // The giver has all its links, and is gone before the others come to their phase; rank 0 waits
  // for rank 1 first, for longer than it takes to see a link's end.
  // An inner node, one below it, a leaf; and any of one process.
  for (auto [giver, alone] : std::vector<std::pair<int, bool>>{{1, true}, {3, true}, {10, true}, {3, false}}) {
    for (bool beforeIts : {false, true}) {
      auto all = joinAll(11, alone);
      auto results = onRanks<Status>(11, [&, giver = giver](int rank) {
        std::shared_ptr<Bootstrap>& mine = all[static_cast<size_t>(rank)];
        Status first = mine->barrier("first", soon());
        if (!first.ok()) return first;
        if (rank == giver) {
          std::thread phase;
          if (beforeIts)  // Its value for the phase is on its way, too.
            phase = std::thread([&] { mine->barrier("second", soon(60000)).ignore(); });
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          mine->abandon(aborted("enough"));
          if (phase.joinable()) phase.join();
          mine = nullptr;
          return okStatus();
        }
        if (rank % 4 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1300));
        if (rank % 4 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        Status second = mine->barrier("second", soon(60000));
        return second.ok() ? mine->barrier("third", soon(60000)) : second;
      });
      for (int rank = 0; rank < 11; ++rank) {
        if (rank == giver) continue;
        const Status& status = results[static_cast<size_t>(rank)];
        EXPECT_EQ(status.code(), StatusCode::kAborted) << giver << ", " << rank << ": " << status.toString();
        EXPECT_THAT(status.message(), HasSubstr("enough"));
      }
    }
  }
}

TEST(BootstrapFailure, NamesRanksThatDoNotReachAPhase) {
  for (const bool alone : {false, true}) {
    auto all = joinAll(12, alone);
    auto results = onRanks<Status>(12, [&](int rank) {
      // One in the middle of the tree and one leaf.
      if (rank == 1 || rank == 11) return okStatus();
      return all[static_cast<size_t>(rank)]->barrier("cards", soon(300));
    });
    for (int rank : {0, 2, 5, 9, 10}) {
      const Status& status = results[static_cast<size_t>(rank)];
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.toString();
      EXPECT_THAT(status.message(), HasSubstr("'cards' of 12 ranks")) << rank;
      EXPECT_THAT(status.message(), HasSubstr("rank 1 (process")) << rank;
      EXPECT_THAT(status.message(), HasSubstr("rank 11 (process")) << rank;
    }
    // It stays so.
    EXPECT_EQ(all[0]->barrier("next", soon()).code(), StatusCode::kDeadlineExceeded);
    EXPECT_FALSE(all[11]->barrier("cards", soon(200)).ok());
  }
}

TEST(BootstrapFailure, OneRankTwiceIsAnErrorForAll) {
  UniqueId id = createUniqueId().value();
  auto results = onRanks<Status>(
      3, [&](int rank) { return Bootstrap::join(id, rank == 2 ? 1 : rank, 4, {.timeoutMs = 20000}).status(); });
  for (const Status& status : results) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("rank 1 was given twice"));
  }
  // Also for one that comes later.
  EXPECT_EQ(Bootstrap::join(id, 3, 4, {.timeoutMs = 20000}).status().code(), StatusCode::kInvalidArgument);
}

TEST(BootstrapFailure, OneRankTwiceAfterAllHaveComeHarmsOnlyItself) {
  UniqueId id = createUniqueId().value();
  auto all = onRanks<std::shared_ptr<Bootstrap>>(
      2, [&](int rank) { return Bootstrap::join(id, rank, 2, {.timeoutMs = 20000}).value(); });
  EXPECT_EQ(Bootstrap::join(id, 1, 2, {.timeoutMs = 20000}).status().code(), StatusCode::kInvalidArgument);
  auto results = onRanks<Status>(2, [&](int rank) { return all[static_cast<size_t>(rank)]->barrier("b", soon()); });
  EXPECT_TRUE(results[0].ok() && results[1].ok());
}

TEST(BootstrapFailure, DifferentSizesAreAnErrorForAll) {
  UniqueId id = createUniqueId().value();
  auto results = onRanks<Status>(
      2, [&](int rank) { return Bootstrap::join(id, rank, rank == 0 ? 3 : 4, {.timeoutMs = 20000}).status(); });
  for (const Status& status : results) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("ranks"));
  }
}

TEST(BootstrapFailure, DifferentPhasesAreAnErrorForAll) {
  for (const bool alone : {false, true}) {
    auto all = joinAll(4, alone);
    auto results = onRanks<Status>(
        4, [&](int rank) { return all[static_cast<size_t>(rank)]->barrier(rank == 2 ? "split" : "cards", soon()); });
    for (const Status& status : results) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.toString();
      EXPECT_THAT(status.message(), HasSubstr("rank 2 to 'split'"));
    }
  }
}

TEST(BootstrapFailure, ARankThatLeavesIsNotWaitedFor) {
  for (auto [leaves, alone] : std::vector<std::pair<int, bool>>{{1, true}, {1, false}, {0, false}}) {
    auto all = joinAll(3, alone);
    auto begin = std::chrono::steady_clock::now();
    auto results = onRanks<Status>(3, [&, leaves = leaves](int rank) {
      if (rank == leaves) {
        all[static_cast<size_t>(rank)] = nullptr;
        return okStatus();
      }
      return all[static_cast<size_t>(rank)]->barrier("cards", soon(60000));
    });
    for (int rank : {1 - leaves, 2}) {
      EXPECT_EQ(results[static_cast<size_t>(rank)].code(), StatusCode::kUnavailable);
      EXPECT_THAT(results[static_cast<size_t>(rank)].message(), HasSubstr("has left"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  }
}

TEST(BootstrapFailure, WhatWasDoneIsDoneWhoeverLeaves) {
  // Rank 0 has the tree's root and leaves as soon as it is done.
  for (int round = 0; round < 50; ++round) {
    UniqueId id = createUniqueId().value();
    auto results = onRanks<Status>(4, [&](int rank) {
      auto joined = Bootstrap::join(id, rank, 4, {.timeoutMs = 20000, .alone = round % 2 == 0});
      return joined.ok() ? (*joined)->barrier("only", soon()) : joined.status();
    });
    for (const Status& status : results) ASSERT_TRUE(status.ok()) << status.toString();
  }
}

TEST(BootstrapFailure, AnIdOfAnotherRunIsToldSo) {
  CoordinatorId id = decodeId(createUniqueId().value()).value();
  id.nonce ^= 1;
  auto joined = Bootstrap::join(encodeId(id), 0, 2, {.timeoutMs = 20000});
  EXPECT_EQ(joined.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(joined.status().message(), HasSubstr("another run"));
  UniqueId damaged;
  damaged.bytes[3] = 1;
  EXPECT_EQ(Bootstrap::join(damaged, 0, 2).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Bootstrap::join(encodeId(id), 2, 2).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Bootstrap::join(encodeId(id), 0, 0).status().code(), StatusCode::kInvalidArgument);
}

TEST(BootstrapFailure, TheCoordinatorsWantOfDescriptorsIsToldAtOnce) {
  UniqueId id = createUniqueId().value();
  CoordinatorId where = decodeId(id).value();
  // One that is accepted, and a socket of another that is not.
  auto begin = std::chrono::steady_clock::now();
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto joined = onRanks<Status>(2, [&](int rank) {
    if (rank == 0) return Bootstrap::join(id, 0, 2, {.timeoutMs = 60000}).status();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    NoDescriptors none;
    sockaddr_storage address{};
    socklen_t size = toSockaddr(where.address, address);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), size) != 0) return internalError("connect");
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return okStatus();
  });
  ::close(socket);
  EXPECT_TRUE(joined[1].ok()) << joined[1].toString();
  EXPECT_EQ(joined[0].code(), StatusCode::kResourceExhausted) << joined[0].toString();
  EXPECT_THAT(joined[0].message(), HasSubstr("cannot accept a rank: Too many open files"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(BootstrapFailure, AGroupsWantOfDescriptorsIsToldToAllAtOnce) {
  // Links among the ranks: one is connected and not accepted, or not even connected.
  for (int left : {0, 1, 2, 3, 5}) {
    auto all = joinAll(4, /*alone=*/true);
    auto begin = std::chrono::steady_clock::now();
    NoDescriptors few(left);
    auto results =
        onRanks<Status>(4, [&](int rank) { return all[static_cast<size_t>(rank)]->barrier("cards", soon(60000)); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << left;
    for (const Status& status : results) {
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << left << status.toString();
      EXPECT_THAT(status.message(), HasSubstr("Too many open files"));
    }
  }
}

#ifndef __SANITIZE_THREAD__  // A program with threads does not fork under TSan.
/// A process that is `rank` of `ranks`, does `body` and then sleeps until it is killed.
pid_t processRank(const std::function<void(int reply)>& body, int& readEnd) {
  int ends[2];
  if (::pipe(ends) != 0) abort();
  pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    body(ends[1]);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  readEnd = ends[0];
  return child;
}

void kill(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(BootstrapFailure, AKilledRankIsNoticed) {
  UniqueId id = createUniqueId().value();
  int pipe;
  pid_t child = processRank(
      [&](int reply) {
        auto joined = Bootstrap::join(id, 2, 3, {.timeoutMs = 20000});
        char ok = joined.ok() && (*joined)->barrier("first", soon()).ok();
        (void)!::write(reply, &ok, 1);
        for (;;) ::pause();
      },
      pipe);
  auto results = onRanks<Status>(2, [&](int rank) {
    auto joined = Bootstrap::join(id, rank, 3, {.timeoutMs = 20000});
    if (!joined.ok()) return joined.status();
    Status first = (*joined)->barrier("first", soon());
    if (!first.ok()) return first;
    char ok = 0;
    if (rank == 0) {
      EXPECT_EQ(::read(pipe, &ok, 1), 1);
      EXPECT_EQ(ok, 1);
      kill(child);
    }
    return (*joined)->barrier("second", soon(60000));
  });
  ::close(pipe);
  for (const Status& status : results) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("rank 2 (process " + std::to_string(child)));
    EXPECT_THAT(status.message(), HasSubstr("'second'"));
  }
}

TEST(BootstrapFailure, ARankKilledWhileOthersJoinIsNoticed) {
  UniqueId id = createUniqueId().value();
  int pipe;
  pid_t child = processRank([&](int) { Bootstrap::join(id, 1, 3, {.timeoutMs = 20000}).status().ignore(); }, pipe);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(child);
  });
  auto joined = Bootstrap::join(id, 0, 3, {.timeoutMs = 60000});
  killer.join();
  ::close(pipe);
  EXPECT_EQ(joined.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(joined.status().message(), HasSubstr("rank 1 (process"));
}

TEST(BootstrapFailure, TheReasonOfWhoGivesUpAndEndsAtOnceIsHeard) {
  // The coordinator is in its process, and the others have no links with it yet.
  for (bool inOrder : {false, true}) {  // exit(), _exit().
    for (int round = 0; round < 10; ++round) {
      int pipe;
      pid_t child = processRank(
          [&](int reply) {
            UniqueId id = createUniqueId().value();
            (void)!::write(reply, &id, sizeof id);
            auto joined = Bootstrap::join(id, 0, 4, {.timeoutMs = 20000});
            if (!joined.ok()) ::_exit(1);
            if (inOrder) {
              (*joined)->abandon(resourceExhausted("no table"));
              ::exit(0);
            }
            NoDescriptors none;
            (*joined)->barrier("cards", soon(60000)).ignore();
            ::_exit(0);
          },
          pipe);
      UniqueId id;
      ASSERT_EQ(::read(pipe, &id, sizeof id), static_cast<ssize_t>(sizeof id));
      ::close(pipe);
      auto results = onRanks<Status>(3, [&](int rank) {
        auto joined = Bootstrap::join(id, rank + 1, 4, {.timeoutMs = 60000});
        return joined.ok() ? (*joined)->barrier("cards", soon(60000)) : joined.status();
      });
      ::waitpid(child, nullptr, 0);
      for (const Status& status : results) {
        EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << inOrder << status.toString();
        EXPECT_THAT(status.message(), HasSubstr(inOrder ? "no table" : "Too many open files"));
      }
    }
  }
}

TEST(BootstrapFailure, TheCoordinatorsDeathIsAnError) {
  int pipe;
  pid_t child = processRank(
      [&](int reply) {
        UniqueId id = createUniqueId().value();
        (void)!::write(reply, &id, sizeof id);
        auto joined = Bootstrap::join(id, 0, 2, {.timeoutMs = 20000});
        for (;;) ::pause();
      },
      pipe);
  UniqueId id;
  ASSERT_EQ(::read(pipe, &id, sizeof id), static_cast<ssize_t>(sizeof id));
  ::close(pipe);
  auto joined = Bootstrap::join(id, 1, 2, {.timeoutMs = 20000});
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(child);
  });
  Status status = (*joined)->barrier("cards", soon(60000));
  killer.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
  EXPECT_THAT(status.message(), AnyOf(HasSubstr("lost the coordinator"), HasSubstr("rank 0")));
  EXPECT_EQ((*joined)->get("x", soon(60000)).status().code(), StatusCode::kUnavailable);
  auto late = Bootstrap::join(id, 0, 2, {.timeoutMs = 20000});
  EXPECT_EQ(late.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(late.status().message(), HasSubstr("cannot connect"));
}
TEST(BootstrapFailure, WithoutTheCoordinatorARankNamesThoseThatItWaitedFor) {
  // It dies, or stops. The root waits for a child; or the child for the root, which it has a link with or has not.
  for (const bool dies : {true, false}) {
    for (const int comes : {0, 1}) {
      for (const bool linked : {true, false}) {
        if (!dies && linked == (comes == 1)) continue;  // Each takes a few seconds.
        int pipe;
        pid_t child = processRank(
            [&](int reply) {
              UniqueId id = createUniqueId().value();
              (void)!::write(reply, &id, sizeof id);
            },
            pipe);
        UniqueId id;
        ASSERT_EQ(::read(pipe, &id, sizeof id), static_cast<ssize_t>(sizeof id));
        ::close(pipe);
        auto ranks = onRanks<std::shared_ptr<Bootstrap>>(2, [&](int rank) {
          auto joined = Bootstrap::join(id, rank, 2, {.timeoutMs = 30000, .alone = true});
          return joined.ok() ? *joined : nullptr;
        });
        ASSERT_TRUE(ranks[0] && ranks[1]);
        if (linked)
          onRanks<Status>(2, [&](int rank) { return ranks[static_cast<size_t>(rank)]->barrier("first", soon()); });
        Bootstrap& one = *ranks[static_cast<size_t>(comes)];
        if (!dies) ::kill(child, SIGSTOP);
        const uint64_t before = one.traffic().messages;
        Status status;
        std::thread waiting([&] { status = one.barrier("cards", soon(dies ? 60000 : 500)); });
        // It has said that it is there: from then on it waits for the other one.
        while (one.traffic().messages == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (dies) ::kill(child, SIGKILL);
        waiting.join();
        EXPECT_EQ(status.code(), dies ? StatusCode::kUnavailable : StatusCode::kDeadlineExceeded) << status.toString();
        EXPECT_THAT(status.message(), HasSubstr("'cards' of 2 ranks"));
        EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(comes) + " waited for rank " +
                                                std::to_string(1 - comes) + (linked ? " (process " : "")));
        kill(child);
      }
    }
  }
}
#endif

}  // namespace
}  // namespace hpu::collectives
