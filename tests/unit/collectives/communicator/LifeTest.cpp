// SPDX-License-Identifier: Apache-2.0
// Creation, errors of calls, split, shrink, finalize, abort, and the end of communicators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/Settings.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<int32_t>;
constexpr auto kI32 = ElementType::kI32;
constexpr auto kSum = ReduceOp::kSum;

/// Calls and what they call each name what is concerned.
void saysOnce(const Status& status, const std::string& text) {
  size_t first = status.message().find(text);
  if (first == std::string::npos) return;
  EXPECT_EQ(status.message().find(text, first + 1), std::string::npos) << status.toString();
}

TEST(Communicator, RefusesWhatTheRankCanSee) {
  World world = World::make(2);
  Communicator comm = world.comms[0];
  Stream& stream = world.streams[0];
  Buffer data = world.put(0, Values(100)), more = world.put(0, Values(100));
  uint64_t a = data.address(), b = more.address();
  struct Case {
    Status status;
    const char* text;
  } cases[] = {
      {comm.allReduce(a, b, -1, kI32, kSum, stream), "a count of -1"},
      {comm.allReduce(a, b, INT64_MAX / 2, kI32, kSum, stream), "more than a device's memory"},
      {comm.allReduce(a, b, 101, kI32, kSum, stream), "its input of 404 bytes"},
      {comm.allReduce(0, b, 10, kI32, kSum, stream), "its input: "},
      {comm.allReduce(a, 12345, 10, kI32, kSum, stream), "its output: "},
      {comm.allReduce(a, b, 10, ElementType::kBool, kSum, stream), "type bool cannot be reduced"},
      {comm.allReduce(a, b, 10, static_cast<ElementType>(99), kSum, stream), "not an element type"},
      {comm.allReduce(a, b, 10, kI32, static_cast<ReduceOp>(5), stream), "not a reduction"},
      {comm.allReduce(a, a + 4, 10, kI32, kSum, stream), "overlap"},
      {comm.allToAll(a, a, 10, kI32, stream), "no form in place"},
      {comm.allGather(a + 4, a, 10, kI32, stream), "in place the input is 0 bytes"},
      {comm.broadcast(a, b, 10, kI32, 2, stream), "root 2"},
      {comm.reduce(a, b, 10, kI32, kSum, -1, stream), "root -1"},
      {comm.relay(a, b, 10, kI32, 0, 7, stream), "destination 7"},
      {comm.send(a, 10, kI32, 2, stream), "peer 2"},
      {comm.receive(a, 1000, kI32, 1, stream), "memory to receive into"},
      {comm.allReduceScaled(a, b, 10, kI32, kSum, 0.5, stream), "a scale of 0.5"},
      {comm.allReduceScaled(a, b, 10, ElementType::kF32, ReduceOp::kMax, 0.5, stream), "only sums"},
      {comm.barrier(Stream()), "the stream is empty"},
      {comm.barrier(world.streams[1]), "another device"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(one.status.code(), StatusCode::kInvalidArgument) << one.text;
    EXPECT_THAT(one.status.message(), HasSubstr(one.text));
    EXPECT_THAT(one.status.message(), HasSubstr("rank 0 of 2"));
    saysOnce(one.status, "rank 0 of 2");
    saysOnce(one.status, "all-reduce");
  }
  // None of them is counted: the communicator is as good as new.
  world.all([&](int rank) {
    auto at = static_cast<size_t>(rank);
    Status status = world.comms[at].barrier(world.streams[at]);
    return status.ok() ? world.streams[at].synchronize() : status;
  });
  EXPECT_EQ(Communicator().barrier(stream).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Communicator().ready().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Communicator::createAll({}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Communicator, KeepsMemoryUntilItIsDone) {
  World world = World::make(2);
  Buffer result = world.put(1, Values(10));
  {
    Buffer data = world.put(0, Values(10, 5));
    ASSERT_TRUE(world.comms[0].send(data.address(), 10, kI32, 1, world.streams[0]).ok());
  }
  Buffer other = world.put(1, Values(10, 9));  // Would take the memory of rank 0's device if it could.
  ASSERT_TRUE(world.comms[1].receive(result.address(), 10, kI32, 0, world.streams[1]).ok());
  EXPECT_EQ(world.get<int32_t>(1, result, 10), Values(10, 5));
}

TEST(Communicator, DifferentCallsAreAnErrorForAll) {
  World world = World::make(3, {.timeoutMs = 5000});
  std::vector<Status> results = world.each([&](int rank) {
    auto at = static_cast<size_t>(rank);
    Buffer data = world.put(rank, Values(100));
    Status status =
        world.comms[at].allReduce(data.address(), data.address(), rank == 1 ? 50 : 100, kI32, kSum, world.streams[at]);
    if (!status.ok()) return status;
    return world.streams[at].synchronize();
  });
  for (const Status& status : results) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("rank 1")) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("count")) << status.toString();
  }
  for (Communicator& comm : world.comms) EXPECT_FALSE(comm.asyncError().ok());
  Status later = world.comms[0].barrier(world.streams[0]);
  EXPECT_EQ(later.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(later.message(), HasSubstr("barrier: '"));
  saysOnce(later, "rank 0 of 3");
}

TEST(Communicator, ARankThatDoesNotCallIsNamed) {
  World world = World::make(3, {.timeoutMs = 300});
  std::vector<Status> results = world.each([&](int rank) {
    auto at = static_cast<size_t>(rank);
    Status status = world.comms[at].barrier(world.streams[at]);
    if (rank != 2 && status.ok()) {
      Buffer data = world.put(rank, Values(100));
      status = world.comms[at].allReduce(data.address(), data.address(), 100, kI32, kSum, world.streams[at]);
    }
    return status.ok() ? world.streams[at].synchronize() : status;
  });
  EXPECT_TRUE(results[2].ok()) << results[2].toString();
  for (int rank : {0, 1}) {
    const Status& status = results[static_cast<size_t>(rank)];
    EXPECT_THAT(status.message(), HasSubstr("rank 2")) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("#2")) << status.toString();
  }
}

/// Rank 1's device works, and it never calls what rank 0 waits in.
void expectDeadline(const CommunicatorOptions& options, bool transfer) {
  World world = World::make(2, options);
  std::atomic<bool> failed{false};
  std::vector<Status> results = world.each([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Buffer data = world.put(rank, Values(1000)), other = world.put(rank, Values(1000));
    if (rank == 1) {
      auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!failed && std::chrono::steady_clock::now() < until) {
        for (Status status : {world.streams[at].copyOnDevice(data, 0, other, 0, 4000), world.streams[at].synchronize()})
          if (!status.ok()) return status;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return okStatus();
    }
    Status status = transfer ? world.comms[at].receive(data.address(), 1000, kI32, 1, world.streams[at])
                             : world.comms[at].barrier(world.streams[at]);
    if (status.ok()) status = world.streams[at].synchronize();
    failed = true;
    return status;
  });
  EXPECT_TRUE(results[1].ok()) << results[1].toString();
  EXPECT_EQ(results[0].code(), StatusCode::kDeadlineExceeded) << results[0].toString();
  EXPECT_THAT(results[0].message(), HasSubstr("HPU_COMM_DEADLINE_MS"));
  EXPECT_THAT(results[0].message(), HasSubstr("not done 900 ms"));
  EXPECT_THAT(results[0].message(), HasSubstr("rank 1"));
}

TEST(Communicator, ARankWhoseDeviceWorksWithoutEndIsWaitedForUntilTheDeadline) {
  for (bool transfer : {false, true}) expectDeadline({.timeoutMs = 300, .deadlineMs = 900}, transfer);
}

TEST(Communicator, ATimeoutOfZeroIsNoneAndLeavesTheDeadline) {
  for (bool transfer : {false, true}) expectDeadline({.timeoutMs = 0, .deadlineMs = 900}, transfer);
  // As the settings have it, too.
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_TIMEOUT_MS, "0").ok());
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_DEADLINE_MS, "900").ok());
  expectDeadline({}, false);
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_TIMEOUT_MS, "").ok());
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_DEADLINE_MS, "").ok());
}

TEST(Communicator, ARankWhoseDeviceWorksIsWaitedFor) {
  World world = World::make(2, {.timeoutMs = 300});
  std::vector<Status> results = world.each([&](int rank) {
    auto at = static_cast<size_t>(rank);
    if (rank == 1) {
      // Three times the deadline of small copies before its call.
      Buffer data = world.put(rank, Values(1000)), other = world.put(rank, Values(1000));
      auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(900);
      while (std::chrono::steady_clock::now() < until) {
        for (Status status : {world.streams[at].copyOnDevice(data, 0, other, 0, 4000), world.streams[at].synchronize()})
          if (!status.ok()) return status;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    Status status = world.comms[at].barrier(world.streams[at]);
    return status.ok() ? world.streams[at].synchronize() : status;
  });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
}

TEST(Communicator, RanksMayShareADevice) {
  Device device = World::openDevices(1)[0];
  World world;
  world.devices = {device, device};
  world.comms = Communicator::createAll(world.devices).value();
  world.streams = {Stream::create(device).value(), Stream::create(device).value()};
  Buffer shared = world.put(0, Values(100, 3));
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Buffer out = world.put(rank, Values(100));
    // Both read it, and both write it: neither waits for the other one's stream.
    for (Status status :
         {world.comms[at].allReduce(shared.address(), out.address(), 100, kI32, kSum, world.streams[at]),
          world.comms[at].broadcast(shared.address(), shared.address(), 100, kI32, 0, world.streams[at]),
          world.streams[at].synchronize()})
      if (!status.ok()) return status;
    return world.get<int32_t>(rank, out, 100) == Values(100, 6) ? okStatus() : internalError("sum");
  });
}

TEST(Communicator, AbortEndsWhatIsInProgressEverywhere) {
  World world = World::make(2, {.timeoutMs = 60000});
  Buffer data = world.put(0, Values(10));
  ASSERT_TRUE(world.comms[0].allReduce(data.address(), data.address(), 10, kI32, kSum, world.streams[0]).ok());
  auto begin = std::chrono::steady_clock::now();
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(world.comms[1].abort("enough").ok());
  });
  Status status = world.streams[0].synchronize();
  aborter.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1"), HasSubstr("enough")));
  EXPECT_EQ(world.comms[1].asyncError().code(), StatusCode::kAborted);
  EXPECT_EQ(world.comms[1].barrier(world.streams[1]).code(), StatusCode::kAborted);
  // The streams are the program's: they go on.
  EXPECT_EQ(world.get<int32_t>(0, data, 10), Values(10));
}

TEST(Communicator, AbortEndsAFinalizeOfTheOthers) {
  for (int aborter : {0, 9}) {  // The root of their tree, and a leaf of an inner node.
    std::vector<Device> devices = World::openDevices(1);
    World world;
    world.devices = std::vector<Device>(10, devices[0]);
    world.comms = Communicator::createAll(world.devices).value();
    auto begin = std::chrono::steady_clock::now();
    std::vector<Status> results = world.each([&](int rank) {
      if (rank != aborter) return world.comms[static_cast<size_t>(rank)].finalize(60000);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return world.comms[static_cast<size_t>(rank)].abort("enough");
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    for (int rank = 0; rank < 10; ++rank) {
      if (rank == aborter) continue;
      const Status& status = results[static_cast<size_t>(rank)];
      EXPECT_EQ(status.code(), StatusCode::kAborted) << rank << ": " << status.toString();
      EXPECT_THAT(status.message(), HasSubstr("enough"));
    }
  }
}

TEST(Communicator, AFailedStreamEndsItsCommunicatorForAll) {
  World world = World::make(2, {.timeoutMs = 60000});
  // A first communicator fails on the stream that a second one uses too.
  auto doomed = Communicator::createAll(world.devices, {.timeoutMs = 60000}).value();
  Buffer data = world.put(0, Values(10)), other = world.put(1, Values(10));
  ASSERT_TRUE(doomed[0].barrier(world.streams[0]).ok());
  ASSERT_TRUE(world.comms[0].barrier(world.streams[0]).ok());
  ASSERT_TRUE(world.comms[1].barrier(world.streams[1]).ok());
  ASSERT_TRUE(doomed[1].abort("a test").ok());
  EXPECT_FALSE(world.streams[0].synchronize().ok());
  // The barrier of rank 0 was never begun; rank 1 is told instead of waiting a minute.
  Status status = world.streams[1].synchronize();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("rank 0")) << status.toString();
}

TEST(Communicator, SplitsByColourAndKey) {
  World world = World::make(5);
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    // 0, 2, 4 in reverse; 1 and 3; in a second split, rank 4 alone has none.
    auto part = world.comms[at].split(rank % 2, -rank);
    if (!part.ok()) return part.status();
    int want = rank % 2 == 0 ? 2 - rank / 2 : 1 - rank / 2;
    if (part->rank() != want || part->ranks() != (rank % 2 == 0 ? 3 : 2))
      return internalError("rank " + std::to_string(part->rank()));
    Buffer data = world.put(rank, Values(1000, rank));
    Status status = part->allReduce(data.address(), data.address(), 1000, kI32, kSum, world.streams[at]);
    if (status.ok()) status = world.streams[at].synchronize();
    if (!status.ok()) return status;
    if (world.get<int32_t>(rank, data, 1000)[999] != (rank % 2 == 0 ? 6 : 4)) return internalError("sum");
    auto rest = world.comms[at].split(rank == 4 ? -1 : 0, 0);
    if (!rest.ok()) return rest.status();
    if (rest->valid() != (rank != 4)) return internalError("valid");
    if (!rest->valid()) return okStatus();
    // A communicator of a communicator of a communicator.
    auto pair = rest->split(rest->rank() / 2, 0);
    if (!pair.ok()) return pair.status();
    status = pair->barrier(world.streams[at]);
    return status.ok() ? world.streams[at].synchronize() : status;
  });
}

TEST(Communicator, ShrinksAfterAFailure) {
  World world = World::make(4, {.timeoutMs = 300});
  std::vector<Status> results = world.each([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    if (rank == 1) return okStatus();  // It does nothing any more.
    Buffer data = world.put(rank, Values(100, 1));
    Status status = world.comms[at].allReduce(data.address(), data.address(), 100, kI32, kSum, world.streams[at]);
    if (status.ok()) status = world.streams[at].synchronize();
    if (status.ok()) return internalError("it should have failed");
    auto rest = world.comms[at].shrink({1});
    if (!rest.ok()) return rest.status();
    if (rest->ranks() != 3) return internalError("ranks");
    status = rest->allReduce(data.address(), data.address(), 100, kI32, kSum, world.streams[at]);
    if (status.ok()) status = world.streams[at].synchronize();
    if (!status.ok()) return status;
    return world.get<int32_t>(rank, data, 100) == Values(100, 3) ? okStatus() : internalError("sum");
  });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
  EXPECT_EQ(world.comms[1].shrink({1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(world.comms[1].shrink({9}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Communicator, FinalizeWaitsForAll) {
  World world = World::make(3);
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Buffer data = world.put(rank, Values(10000, 1));
    for (int i = 0; i < 50; ++i) {
      Status status =
          world.comms[at].allReduce(data.address(), data.address(), 10000, kI32, ReduceOp::kMax, world.streams[at]);
      if (!status.ok()) return status;
    }
    Status status = world.comms[at].finalize();
    if (!status.ok()) return status;
    if (!*world.streams[at].query()) return internalError("not done");
    return world.comms[at].barrier(world.streams[at]).code() == StatusCode::kFailedPrecondition
               ? okStatus()
               : internalError("finalized");
  });
  World late = World::make(2);
  Status status = late.comms[0].finalize(100);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.toString();
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
}

TEST(Communicator, MayGoWhileOperationsRun) {
  for (int round = 0; round < 5; ++round) {
    World world = World::make(3);
    std::vector<Buffer> data;
    for (int rank = 0; rank < 3; ++rank) data.push_back(world.put(rank, Values(20000, 1)));
    world.all([&](int rank) -> Status {
      auto at = static_cast<size_t>(rank);
      for (int i = 0; i < 20; ++i) {
        Status status = world.comms[at].allReduce(data[at].address(), data[at].address(), 20000, kI32, ReduceOp::kMax,
                                                  world.streams[at]);
        if (!status.ok()) return status;
      }
      world.comms[at] = Communicator();
      return world.streams[at].synchronize();
    });
  }
}

/// Descriptors, threads and mappings of this process.
std::array<int, 3> holdings() {
  std::array<int, 3> counts{};
  const char* folders[] = {"/proc/self/fd", "/proc/self/task"};
  for (size_t i = 0; i < 2; ++i)
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folders[i])) ++counts[i];
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++counts[2];
  return counts;
}

TEST(Communicator, NothingGrowsWithTheirNumber) {
  int rounds = 60;
  if (const char* given = std::getenv("HPU_COMM_ROUNDS")) rounds = std::atoi(given);
  World world = World::make(2);
  auto run = [&](int times) {
    for (int i = 0; i < times; ++i) {
      auto comms = Communicator::createAll(world.devices);
      ASSERT_TRUE(comms.ok()) << comms.status().toString();
      world.all([&](int rank) {
        auto at = static_cast<size_t>(rank);
        Status status = (*comms)[at].barrier(world.streams[at]);
        return status.ok() ? world.streams[at].synchronize() : status;
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  run(10);
  std::array<int, 3> before = holdings();
  run(rounds);
  // What ends beside the last handles takes a moment; the device starts workers when it needs them.
  std::array<int, 3> after{};
  auto few = [&] {
    after = holdings();
    return after[0] <= before[0] + 3 && after[1] <= before[1] + 6 && after[2] <= before[2] + 32;
  };
  for (int i = 0; i < 200 && !few(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(few()) << "descriptors, threads, mappings: " << testing::PrintToString(before) << ", now "
                     << testing::PrintToString(after);
}

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
  EXPECT_THAT(create(0, 257).message(), HasSubstr("1 to 256"));
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

TEST(Communicator, PredictsWithoutCommunicating) {
  World world = World::make(4);
  auto prediction = world.comms[2].predict(Operation::kAllReduce, 1 << 20, ElementType::kBF16);
  ASSERT_TRUE(prediction.ok()) << prediction.status().toString();
  EXPECT_FALSE(prediction->algorithm.empty());
  EXPECT_FALSE(prediction->reason.empty());
  EXPECT_GE(prediction->predictedNs, prediction->lowerBoundNs);
  EXPECT_GT(prediction->lowerBoundNs, 0);
  EXPECT_FALSE(world.comms[2].predict(Operation::kAllReduce, -1, ElementType::kBF16).ok());
  EXPECT_FALSE(world.comms[2].predict(static_cast<Operation>(77), 1, ElementType::kBF16).ok());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Communicator, AnOperationWithoutAThreadForItIsATypedErrorOfAll) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto tryIt = [] {
    World world = World::make(2, {.timeoutMs = 20000});
    std::vector<Buffer> data;
    for (int rank = 0; rank < 2; ++rank) data.push_back(world.put(rank, std::vector<int32_t>(16)));
    auto call = [&](size_t rank) {
      return world.comms[rank].allReduce(data[rank].address(), data[rank].address(), 16, ElementType::kI32,
                                         ReduceOp::kSum, world.streams[rank]);
    };
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    rlimit limit{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (2 << 20), RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    const bool enqueued = call(0).ok();
    limit.rlim_cur = RLIM_INFINITY;
    ::setrlimit(RLIMIT_AS, &limit);
    if (!enqueued) ::_exit(3);
    const Status first = world.streams[0].synchronize();
    call(1).ignore();
    const Status second = world.streams[1].synchronize();
    std::fprintf(stderr, "rank 0: %s; rank 1: %s\n", first.toString().c_str(), second.toString().c_str());
    ::_exit(first.ok() || second.ok() ? 1 : 0);
  };
  EXPECT_EXIT(tryIt(), testing::ExitedWithCode(0), "rank 0: RESOURCE_EXHAUSTED.*no thread");
}

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
