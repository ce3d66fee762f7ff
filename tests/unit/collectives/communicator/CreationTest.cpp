// SPDX-License-Identifier: Apache-2.0
// How communicators are created: without blocking, with failures and aborts of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

TEST(Communicator, NonBlockingCreationTellsHowFarItIs) {
  std::vector<Device> devices = World::openDevices(2);
  UniqueId id = createUniqueId().value();
  CommunicatorOptions options;
  options.blocking = false;
  Communicator first = Communicator::create(id, 0, 2, devices[0], options).value();
  EXPECT_EQ(first.ready().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(first.asyncError().ok());
  Stream stream = Stream::create(devices[0]).value();
  EXPECT_EQ(first.barrier(stream).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(first.split(0, 0).status().code(), StatusCode::kFailedPrecondition);
  Communicator second = Communicator::create(id, 1, 2, devices[1]).value();
  for (int i = 0; i < 2000 && !first.ready().ok(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(first.ready().ok()) << first.ready().toString();
  // One that will not be says so, and may be aborted.
  options.initTimeoutMs = 100;
  UniqueId lonely = createUniqueId().value();
  Communicator never = Communicator::create(lonely, 0, 2, devices[0], options).value();
  for (int i = 0; i < 2000 && never.ready().code() == StatusCode::kUnavailable; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(never.ready().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(never.asyncError().message(), HasSubstr("rank 1 has not come"));
  EXPECT_TRUE(never.abort().ok());
}

TEST(Communicator, CreationFailsForAllAlike) {
  std::vector<Device> devices = World::openDevices(2);
  DeviceOptions null;
  null.driver = "null";
  EXPECT_EQ(Communicator::createAll({Device::open(null).value()}).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Communicator::createAll({Device()}).status().code(), StatusCode::kInvalidArgument);
  // Each ends the creation of its id.
  auto create = [&](int rank, int ranks) {
    return Communicator::create(createUniqueId().value(), rank, ranks, devices[0]).status();
  };
  EXPECT_EQ(create(2, 2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(create(0, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(create(0, 16385).message(), HasSubstr("1 to 16384"));
  auto alone = Communicator::create(createUniqueId().value(), 0, 2, devices[0], {.initTimeoutMs = 50});
  EXPECT_EQ(alone.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(alone.status().message(), HasSubstr("rank 1 has not come"));
}

TEST(Communicator, OneRankThatCannotBeMadeEndsTheCreationOfAll) {
  std::vector<Device> devices = World::openDevices(2);
  DeviceOptions null;
  null.driver = "null";
  auto begin = std::chrono::steady_clock::now();
  for (size_t at : {0, 1}) {
    std::vector<Device> mixed = devices;
    mixed[at] = Device();
    auto made = Communicator::createAll(mixed, {.initTimeoutMs = 60000});
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << made.status().toString();
    EXPECT_THAT(made.status().message(), HasSubstr("rank " + std::to_string(at)));
    mixed[at] = Device::open(null).value();
    made = Communicator::createAll(mixed, {.initTimeoutMs = 60000});
    EXPECT_EQ(made.status().code(), StatusCode::kUnimplemented) << made.status().toString();
  }
  // Of a split and of a shrink, too.
  for (bool shrink : {false, true}) {
    World world = World::make(4);
    std::vector<Status> results = world.each([&](int rank) -> Status {
      const Communicator& comm = world.comms[static_cast<size_t>(rank)];
      CommunicatorOptions options;
      options.initTimeoutMs = 60000;
      if (rank == 2) options.tunerTable = "/nowhere";
      if (!shrink) return comm.split(0, 0, options).status();
      return rank == 3 ? notFound("/nowhere") : comm.shrink({3}, options).status();
    });
    for (const Status& status : results) EXPECT_THAT(status.message(), HasSubstr("/nowhere")) << status.toString();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Communicator, AbortEndsItsCreationAndTheOthers) {
  std::vector<Device> devices = World::openDevices(2);
  CommunicatorOptions behind;
  behind.initTimeoutMs = 60000;
  behind.blocking = false;
  auto begin = std::chrono::steady_clock::now();
  auto threads = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); };
  auto before = threads();
  for (int round = 0; round < 20; ++round) {
    UniqueId id = createUniqueId().value();
    auto one = Communicator::create(id, 0, 2, devices[0], behind);
    ASSERT_TRUE(one.ok()) << one.status().toString();
    // Somewhere between its begin and its wait for the other.
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 4 * 5));
    ASSERT_TRUE(one->abort("enough").ok());
    EXPECT_EQ(one->ready().code(), StatusCode::kAborted);
    EXPECT_EQ(one->finalize().code(), StatusCode::kAborted);
    if (round % 4 == 0) continue;
    auto other = Communicator::create(id, 1, 2, devices[1], {.initTimeoutMs = 60000});
    EXPECT_EQ(other.status().code(), StatusCode::kAborted) << other.status().toString();
    EXPECT_THAT(other.status().message(), HasSubstr("enough"));
  }
  while (threads() > before && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(threads(), before);
}

TEST(Communicator, AnAbortAtAnyMomentOfACreationIsHeardAsSuch) {
  World world = World::make(3);  // Its devices and streams.
  CommunicatorOptions behind;
  behind.initTimeoutMs = behind.timeoutMs = 60000;
  behind.blocking = false;
  for (int round = 0; round < 120; ++round) {
    UniqueId id = createUniqueId().value();
    const int aborter = round % 3;
    std::vector<Status> results = world.each([&](int rank) -> Status {
      const Device& device = world.devices[static_cast<size_t>(rank)];
      if (rank == aborter) {
        auto one = Communicator::create(id, rank, 3, device, behind);
        if (!one.ok()) return one.status();
        std::this_thread::sleep_for(std::chrono::microseconds(round * 50));
        return one->abort("enough");
      }
      auto one = Communicator::create(id, rank, 3, device, {.initTimeoutMs = 60000, .timeoutMs = 60000});
      if (!one.ok()) return one.status();
      // It may have been made before the abort.
      Stream stream = Stream::create(device).value();
      Status status = one->barrier(stream);
      return status.ok() ? stream.synchronize() : status;
    });
    for (int rank = 0; rank < 3; ++rank) {
      const Status& status = results[static_cast<size_t>(rank)];
      if (rank == aborter) {
        EXPECT_TRUE(status.ok()) << status.toString();
        continue;
      }
      EXPECT_EQ(status.code(), StatusCode::kAborted) << round << ": " << status.toString();
      EXPECT_THAT(status.message(), HasSubstr("enough"));
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Communicator, CreateAllWithoutThreadsIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto tryIt = [] {
    auto devices = World::openDevices(8);
    // No address space for eight more stacks.
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (20 << 20);
    rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    auto made = Communicator::createAll(devices);
    ::_exit(made.status().code() == StatusCode::kResourceExhausted ? 0 : 1);
  };
  EXPECT_EXIT(tryIt(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace hpu::collectives
