// SPDX-License-Identifier: Apache-2.0
// How ranks meet when one of them cannot: a creation that one declines or dies in, and shrinks,
// which need nothing of the communicator that they come from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "collectives/bootstrap/Address.h"
#include "tests/unit/collectives/bootstrap/RawRank.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<int32_t>;
constexpr auto kI32 = ElementType::kI32;

TEST(Meeting, ARankWithWrongSettingsTellsTheOthersAtOnce) {
  World world = World::make(3);
  auto begin = std::chrono::steady_clock::now();
  for (int wrong : {0, 1, 2}) {
    for (bool late : {false, true}) {
      UniqueId id = createUniqueId().value();
      std::vector<Status> results = world.each([&](int rank) -> Status {
        CommunicatorOptions options;
        options.initTimeoutMs = 60000;
        if (rank == wrong) options.tunerTable = "/nowhere";
        if (rank == wrong && late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return Communicator::create(id, rank, 3, world.devices[static_cast<size_t>(rank)], options).status();
      });
      for (int rank = 0; rank < 3; ++rank) {
        const Status& status = results[static_cast<size_t>(rank)];
        EXPECT_EQ(status.code(), results[static_cast<size_t>(wrong)].code()) << status.toString();
        EXPECT_THAT(status.message(), HasSubstr("/nowhere"));
        if (rank == wrong) continue;
        EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(wrong) + " of 3 does not take part"));
      }
    }
  }
  // A device that is none, and what a program finds itself.
  for (bool itself : {false, true}) {
    UniqueId id = createUniqueId().value();
    std::vector<Status> results = world.each([&](int rank) -> Status {
      if (rank == 1 && itself) return Communicator::decline(id, 1, 3, aborted("no such table"));
      return Communicator::create(id, rank, 3, rank == 1 ? Device() : world.devices[0], {.initTimeoutMs = 60000})
          .status();
    });
    for (int rank : {0, 2})
      EXPECT_THAT(results[static_cast<size_t>(rank)].message(),
                  AllOf(HasSubstr("rank 1 of 3 does not take part"),
                        HasSubstr(itself ? "no such table" : "a communicator needs a device")));
    EXPECT_EQ(results[1].ok(), itself) << results[1].toString();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_FALSE(Communicator::decline(createUniqueId().value(), 0, 2, okStatus()).ok());
  EXPECT_FALSE(Communicator::decline(UniqueId{{1}}, 0, 2, aborted("x")).ok());
}

TEST(Meeting, ARankOutOfRangeTellsTheOthersAtOnce) {
  World world = World::make(2);
  struct Case {
    int rank, ranks;
    const char* text;
  } const cases[] = {{2, 2, "rank 2 of 2: ranks count from 0"},
                     {-1, 2, "rank -1 of 2: ranks count from 0"},
                     {0, 0, "0 ranks: a communicator has 1 to"},
                     {1, 100000, "100000 ranks: a communicator has 1 to"}};
  auto begin = std::chrono::steady_clock::now();
  for (const Case& wrong : cases) {
    for (bool late : {false, true}) {
      UniqueId id = createUniqueId().value();
      std::vector<Status> results = world.each([&](int rank) -> Status {
        const bool odd = rank == 1;
        if (odd == late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return Communicator::create(id, odd ? wrong.rank : 0, odd ? wrong.ranks : 2, world.devices[0],
                                    {.initTimeoutMs = 60000})
            .status();
      });
      for (const Status& status : results) {
        EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.toString();
        EXPECT_THAT(status.message(), HasSubstr(wrong.text));
      }
      EXPECT_THAT(results[0].message(), HasSubstr("process " + std::to_string(::getpid())));
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50));
}

TEST(Meeting, APeersDeathDuringACreationIsNoCreationThatGoesOn) {
  std::vector<Device> devices = World::openDevices(1);
  UniqueId id = createUniqueId().value();
  CommunicatorOptions options;
  options.blocking = false;
  options.initTimeoutMs = 60000;
  Communicator comm = Communicator::create(id, 0, 2, devices[0], options).value();
  EXPECT_TRUE(comm.pending());
  EXPECT_EQ(comm.ready().code(), StatusCode::kUnavailable);
  // A peer comes, and its connection ends without a word.
  CoordinatorId where = decodeId(id).value();
  {
    RawRank peer(where);
    ASSERT_TRUE(peer.join({where.nonce, 1, 2, 4711, "away"}));
  }
  auto begin = std::chrono::steady_clock::now();
  while (comm.pending() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(comm.pending());
  // With the code that it has while it goes on.
  EXPECT_EQ(comm.ready().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(comm.asyncError().ok());
  EXPECT_FALSE(Communicator().pending());
}

/// One of `comm`'s ranks sums with the others.
Status sums(World& world, int rank, const Communicator& made, int32_t expected) {
  Communicator comm = made;
  auto at = static_cast<size_t>(rank);
  Buffer data = world.put(rank, Values(100, 1 << rank));
  Status status = comm.allReduce(data.address(), data.address(), 100, kI32, ReduceOp::kSum, world.streams[at]);
  if (status.ok()) status = world.streams[at].synchronize();
  if (!status.ok()) return status;
  return world.get<int32_t>(rank, data, 100) == Values(100, expected) ? okStatus() : internalError("sum");
}

TEST(Meeting, ShrinksNeedNothingOfTheOldCommunicator) {
  World world = World::make(5);
  // All of one communicator; each from the last; and with the old one dropped meanwhile.
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    if (rank == 0) {
      world.comms[0] = Communicator();
      return okStatus();
    }
    auto four = world.comms[at].shrink({0});
    if (!four.ok()) return four.status();
    if (Status status = sums(world, rank, *four, 2 + 4 + 8 + 16); !status.ok()) return status;
    if (rank == 1) return okStatus();
    auto three = four->shrink({0});
    if (!three.ok()) return three.status();
    four = Communicator();
    if (Status status = sums(world, rank, *three, 4 + 8 + 16); !status.ok()) return status;
    if (rank == 3) return okStatus();
    auto two = three->shrink({1});
    if (!two.ok()) return two.status();
    auto again = world.comms[at].shrink({0, 1, 3});
    if (!again.ok()) return again.status();
    world.comms[at] = Communicator();
    for (const Communicator& comm : {*two, *again})
      if (Status status = sums(world, rank, comm, 4 + 16); !status.ok()) return status;
    return two->finalize(30000);
  });
}

TEST(Meeting, ShrinksThatDifferAreAnErrorForAll) {
  World world = World::make(4);
  auto begin = std::chrono::steady_clock::now();
  for (bool size : {true, false}) {
    std::vector<Status> results = world.each([&](int rank) -> Status {
      if (rank == 3 && size) return invalidArgument("it is excluded by all");
      std::vector<int> excluded{3};
      if (rank == 2) excluded = size ? std::vector<int>{1, 3} : std::vector<int>{1};
      if (rank == 3) excluded = {2};
      return world.comms[static_cast<size_t>(rank)].shrink(excluded, {.initTimeoutMs = 60000}).status();
    });
    for (int rank = 0; rank < 4; ++rank) {
      const Status& status = results[static_cast<size_t>(rank)];
      // Three that fit each other have been and gone when the fourth comes.
      if (rank == 2 && !size && status.code() == StatusCode::kUnavailable) continue;
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << rank << status.toString();
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Meeting, AShrinkThatIsWaitedForInVainNamesTheOldRanks) {
  World world = World::make(6);
  std::vector<Status> results = world.each([&](int rank) -> Status {
    // Ranks 2 to 4 of the new one do not call.
    if (rank != 0 && rank != 2) return okStatus();
    return world.comms[static_cast<size_t>(rank)].shrink({1}, {.initTimeoutMs = 1000}).status();
  });
  for (size_t rank : {0, 2}) {
    EXPECT_EQ(results[rank].code(), StatusCode::kDeadlineExceeded) << results[rank].toString();
    EXPECT_THAT(results[rank].message(), HasSubstr("ranks 2 to 4 have not come"));
    for (const char* old : {"rank 2 is rank 3 of '", "rank 3 is rank 4 of '", "rank 4 is rank 5 of '"})
      EXPECT_THAT(results[rank].message(), HasSubstr(old));
    EXPECT_THAT(results[rank].message(), HasSubstr(std::to_string(::getpid()) + " of node 0)"));
  }
}

TEST(Meeting, WhoWaitsForAFirstRankThatHasLeftIsTold) {
  World world = World::make(3);
  auto begin = std::chrono::steady_clock::now();
  std::vector<Status> results = world.each([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (rank != 0) return world.comms[at].shrink({}, {.initTimeoutMs = 60000}).status();
    world.comms[at] = Communicator();
    return okStatus();
  });
  for (int rank : {1, 2}) {
    const Status& status = results[static_cast<size_t>(rank)];
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("has ended"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace hpu::collectives
