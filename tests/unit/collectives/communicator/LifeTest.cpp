// SPDX-License-Identifier: Apache-2.0
// Abort, failure, split, shrink, finalize, and the end of communicators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>

#include "hpu/event.h"
#include "hpu/health.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<int32_t>;
constexpr auto kI32 = ElementType::kI32;
constexpr auto kSum = ReduceOp::kSum;

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

TEST(Communicator, AStreamThatHasFailedIsSynchronizedBeforeItServesTheNextCommunicator) {
  World world = World::make(2, {.timeoutMs = 60000});
  Stream& stream = world.streams[0];
  Buffer data = world.put(0, Values(10, 3));
  const auto reduce = [&](Communicator& comm) {
    return comm.allReduce(data.address(), data.address(), 10, kI32, kSum, stream);
  };
  ASSERT_TRUE(reduce(world.comms[0]).ok());
  ASSERT_TRUE(world.comms[1].abort("enough").ok());
  auto early = world.comms[0].shrink({1});
  ASSERT_TRUE(early.ok()) << early.status().toString();
  ASSERT_TRUE(reduce(*early).ok());
  EXPECT_THAT(stream.synchronize().message(), HasSubstr("enough"));
  EXPECT_THAT(
      early->asyncError().message(),
      AllOf(HasSubstr("was not begun"), HasSubstr("used again after it was synchronized"), HasSubstr("enough")));
  auto next = world.comms[0].shrink({1});
  ASSERT_TRUE(next.ok()) << next.status().toString();
  ASSERT_TRUE(reduce(*next).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST(MemoryPool, MemoryOfOperationsInFlightIsUsedAgainInTheStreamsOrder) {
  World world = World::make(2, {.timeoutMs = 60000});
  constexpr int64_t kCount = 5000, kBytes = kCount * 4;
  Stream& stream = world.streams[0];
  Values input(kCount), sum(kCount, -1), received(kCount, -1), after(kCount, -1);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<int32_t>(i);
  Buffer a = stream.allocate(kBytes).value();
  const uint64_t address = a.address();
  ASSERT_TRUE(stream.copyToDevice(a, input.data(), kBytes).ok());
  // The second one is added to the first. Rank 1 has called none of them yet.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(world.comms[0].allReduce(address, address, kCount, kI32, kSum, stream).ok());
  ASSERT_TRUE(stream.copyToHost(sum.data(), a, kBytes).ok());
  ASSERT_TRUE(stream.free(std::move(a)).ok());
  Buffer b = stream.allocate(kBytes).value();
  EXPECT_EQ(b.address(), address);
  ASSERT_TRUE(world.comms[0].receive(b.address(), kCount, kI32, 1, stream).ok());
  ASSERT_TRUE(stream.copyToHost(received.data(), b, kBytes).ok());
  ASSERT_TRUE(stream.free(std::move(b)).ok());
  Buffer c = stream.allocate(kBytes).value();
  EXPECT_EQ(c.address(), address);
  ASSERT_TRUE(stream.copyToDevice(c, input.data(), kBytes).ok());
  ASSERT_TRUE(stream.copyToHost(after.data(), c, kBytes).ok());
  EXPECT_FALSE(stream.query().value());
  // Another stream must not have it while the operations go on.
  Stream other = Stream::create(world.devices[0]).value();
  ASSERT_TRUE(stream.free(std::move(c)).ok());
  EXPECT_NE(other.allocate(kBytes).value().address(), address);

  Buffer ofPeer = world.put(1, input), sent = world.put(1, Values(kCount, 77));
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(
        world.comms[1].allReduce(ofPeer.address(), ofPeer.address(), kCount, kI32, kSum, world.streams[1]).ok());
  ASSERT_TRUE(world.comms[1].send(sent.address(), kCount, kI32, 0, world.streams[1]).ok());
  ASSERT_TRUE(world.streams[1].synchronize(60000).ok());
  ASSERT_TRUE(stream.synchronize(60000).ok());
  Values expected = input;
  for (int32_t& value : expected) value *= 4;
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(received, Values(kCount, 77));
  EXPECT_EQ(after, input);
}

TEST(HealthHook, HearsOfACommunicatorThatHasFailedOnce) {
  World world = World::make(2, {.timeoutMs = 60000});
  std::mutex mutex;
  std::vector<HealthEvent> heard;
  ASSERT_TRUE(world.devices[0]
                  .setHealthHook([&](const HealthEvent& event) {
                    std::lock_guard lock(mutex);
                    if (event.kind == HealthEvent::Kind::kRankLost) heard.push_back(event);
                  })
                  .ok());
  Buffer data = world.put(0, Values(10));
  ASSERT_TRUE(world.comms[0].allReduce(data.address(), data.address(), 10, kI32, kSum, world.streams[0]).ok());
  EXPECT_TRUE(world.comms[1].abort("enough").ok());
  EXPECT_FALSE(world.streams[0].synchronize().ok());
  EXPECT_FALSE(world.comms[0].asyncError().ok());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  auto isTold = [&] {
    std::lock_guard lock(mutex);
    return !heard.empty();
  };
  while (!isTold() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(world.devices[0].setHealthHook({}).ok());
  std::lock_guard lock(mutex);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_THAT(heard[0].status.message(), HasSubstr("enough"));
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

TEST(Communicator, FinalizeInsideOfWhatTheRuntimeCallsIsAnErrorAtOnce) {
  World world = World::make(2, {.timeoutMs = 60000});
  Communicator& comm = world.comms[0];
  Stream& stream = world.streams[0];
  std::mutex mutex;
  std::vector<Status> heard;  // Of a function of a stream, of one behind a collective, and of a hook.
  auto finalize = [&] {
    Status status = comm.finalize(30000);  // Without the refusal it would come to its deadline.
    std::lock_guard lock(mutex);
    heard.push_back(std::move(status));
  };
  // Rank 1 ends only when the barrier does, which is behind the function.
  ASSERT_TRUE(stream
                  .callHost([&] {
                    finalize();
                    return okStatus();
                  })
                  .ok());
  for (int rank : {0, 1})
    ASSERT_TRUE(world.comms[static_cast<size_t>(rank)].barrier(world.streams[static_cast<size_t>(rank)]).ok());
  Event event;
  ASSERT_TRUE(stream.record(event).ok());
  std::promise<void> last;
  ASSERT_TRUE(event
                  .onDone([&](const Status& status) {
                    EXPECT_TRUE(status.ok()) << status.toString();
                    finalize();
                    last.set_value();
                  })
                  .ok());
  ASSERT_EQ(last.get_future().wait_for(std::chrono::minutes(3)), std::future_status::ready);
  ASSERT_TRUE(world.devices[0].setHealthHook([&](const HealthEvent&) { finalize(); }).ok());
  reportHealth(world.devices[0], {HealthEvent::Kind::kRankLost, "a test", unavailable("a test")});
  ASSERT_TRUE(world.devices[0].setHealthHook({}).ok());
  ASSERT_EQ(heard.size(), 3u);
  for (const Status& status : heard) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.toString();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("finalize of '"), HasSubstr("(rank 0 of 2) must not wait")));
  }
  EXPECT_THAT(heard[0].message(), HasSubstr("inside a function that a stream calls"));
  EXPECT_THAT(heard[2].message(), HasSubstr("inside a health hook"));
  // Nothing was changed.
  world.all([&](int rank) { return world.comms[static_cast<size_t>(rank)].finalize(60000); });
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

}  // namespace
}  // namespace hpu::collectives
