// SPDX-License-Identifier: Apache-2.0
// What calls of a communicator check and say, and how long they wait for ranks that do not call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "base/Settings.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

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
#endif

}  // namespace
}  // namespace hpu::collectives
