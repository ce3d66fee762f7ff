// SPDX-License-Identifier: Apache-2.0
// Collectives directly behind each other: one piece of a stream's work, with the device times of many, and without
// memory of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "collectives/communicator/CommunicatorState.h"
#include "tests/unit/collectives/communicator/World.h"

namespace {

std::atomic<uint64_t> gAllocations{0};

}  // namespace

// Sanitizers have operators of their own, also for kinds that are not here.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HPU_COUNTS_ALLOCATIONS
// Not where they are called: the compiler takes new and free for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  gAllocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace hpu::collectives {
namespace {

constexpr int64_t kCount = 1024;

class Trains : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    world = World::make(GetParam());
    for (Device& device : world.devices) {
      inputs.push_back(device.allocate(kCount * 4).value());
      outputs.push_back(device.allocate(kCount * 4).value());
    }
  }
  Status allReduce(int rank) {
    auto at = static_cast<size_t>(rank);
    return world.comms[at].allReduce(inputs[at].address(), outputs[at].address(), kCount, ElementType::kF32,
                                     ReduceOp::kSum, world.streams[at]);
  }
  Status many(int rank, int operations) {
    for (int i = 0; i < operations; ++i)
      if (Status status = allReduce(rank); !status.ok()) return status;
    return okStatus();
  }
  /// Without waiting for the stream, which would end the piece.
  Status untilIdle(int rank) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (world.comms[static_cast<size_t>(rank)].state()->outstanding() > 0) {
      if (std::chrono::steady_clock::now() > until) return internalError("operations that do not end");
      std::this_thread::yield();
    }
    return okStatus();
  }

  World world;
  std::vector<Buffer> inputs, outputs;
};

TEST_P(Trains, AnOperationBehindAnotherAllocatesNothing) {
#ifndef HPU_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "not under a sanitizer";
#endif
  if (GetParam() > 2)
    GTEST_SKIP() << "with more ranks than CPUs it varies how many end at a time, and what is kept for that grows";
  std::barrier<> all(GetParam());
  uint64_t before = 0, least = UINT64_MAX;
  world.all([&](int rank) -> Status {
    Stream& stream = world.streams[static_cast<size_t>(rank)];
    for (int i = 0; i < 6; ++i) {
      if (Status status = many(rank, 250); !status.ok()) return status;
      if (Status status = stream.synchronize(); !status.ok()) return status;
    }
    // Other threads of the process (heartbeats) allocate now and then, so one of several times counts.
    for (int i = 0; i < 8; ++i) {
      // The first ones of a piece are not counted: the ranks may come to it with a new difference of times.
      if (Status status = many(rank, 10); !status.ok()) return status;
      if (Status status = untilIdle(rank); !status.ok()) return status;
      all.arrive_and_wait();
      if (rank == 0) before = gAllocations.load();
      all.arrive_and_wait();
      if (Status status = many(rank, 100); !status.ok()) return status;
      all.arrive_and_wait();
      if (rank == 0) least = std::min(least, gAllocations.load() - before);
      if (Status status = stream.synchronize(); !status.ok()) return status;
      all.arrive_and_wait();
    }
    return okStatus();
  });
  EXPECT_EQ(least, 0u);
}

TEST_P(Trains, TakeTheDeviceTimeOfAsManyPieces) {
  auto elapsed = [&](bool together) {
    // Devices whose time begins.
    inputs.clear();
    outputs.clear();
    world = World();
    SetUp();
    std::vector<int64_t> times(world.comms.size());
    std::vector<int64_t> busy(world.comms.size());
    world.all([&](int rank) -> Status {
      auto at = static_cast<size_t>(rank);
      Stream other = Stream::create(world.devices[at]).value();
      Event begin, end, between;
      const int64_t before = world.devices[at].counters().busyNs[static_cast<int>(Engine::kNic)];
      world.streams[at].record(begin).ignore();
      for (int i = 0; i < 20; ++i) {
        if (Status status = allReduce(rank); !status.ok()) return status;
        // Takes no time, and comes between them.
        if (!together) other.record(between).ignore();
      }
      world.streams[at].record(end).ignore();
      if (Status status = world.streams[at].synchronize(); !status.ok()) return status;
      times[at] = end.elapsedNsSince(begin).value();
      busy[at] = world.devices[at].counters().busyNs[static_cast<int>(Engine::kNic)] - before;
      return okStatus();
    });
    for (int64_t ns : busy) times.push_back(ns);
    return times;
  };
  const std::vector<int64_t> apart = elapsed(false);
  EXPECT_EQ(elapsed(true), apart);
  EXPECT_GT(apart[0], 0);
}

TEST_P(Trains, ThatNobodyWaitsForKeepNoCommunicator) {
  world.all([&](int rank) { return many(rank, 10); });
  std::vector<std::weak_ptr<CommunicatorState>> states;
  for (const Communicator& communicator : world.comms) states.push_back(communicator.state());
  world.comms.clear();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (const auto& state : states) {
    while (!state.expired() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(state.expired());
  }
  for (Stream& stream : world.streams) EXPECT_TRUE(stream.synchronize().ok());
}

TEST_P(Trains, OfDifferentOperationsGiveWhatTheyWouldAlone) {
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Stream& stream = world.streams[at];
    std::vector<float> values(kCount, static_cast<float>(rank + 1));
    if (Status status = stream.copyToDevice(inputs[at], values.data(), kCount * 4); !status.ok()) return status;
    const uint64_t in = inputs[at].address(), out = outputs[at].address();
    Communicator& comm = world.comms[at];
    for (int i = 0; i < 10; ++i) {
      // To the sum, to rank 0's of it, and back.
      if (Status s = comm.allReduce(in, out, kCount, ElementType::kF32, ReduceOp::kSum, stream); !s.ok()) return s;
      if (Status s = comm.broadcast(out, out, kCount, ElementType::kF32, 0, stream); !s.ok()) return s;
      if (Status s = comm.allReduce(out, in, kCount, ElementType::kF32, ReduceOp::kMax, stream); !s.ok()) return s;
      if (Status s = comm.barrier(stream); !s.ok()) return s;
    }
    return stream.synchronize();
  });
  const int ranks = GetParam();
  float expected = static_cast<float>(ranks * (ranks + 1) / 2);
  for (int i = 1; i < 10; ++i) expected *= static_cast<float>(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (float value : world.get<float>(rank, inputs[static_cast<size_t>(rank)], kCount)) ASSERT_EQ(value, expected);
}

TEST(Train, WhatAnotherCommunicatorWaitsForIsNotWhatWasAddedBehindIt) {
  CommunicatorOptions options;
  options.timeoutMs = 10000;
  World world = World::make(2, options);
  auto made = Communicator::createAll(world.devices, options);
  ASSERT_TRUE(made.ok()) << made.status().toString();
  std::vector<Buffer> shared, own;
  std::vector<Stream> others;
  for (Device& device : world.devices) {
    shared.push_back(device.allocate(kCount * 4).value());
    own.push_back(device.allocate(kCount * 4).value());
    others.push_back(Stream::create(device).value());
  }
  const auto reduce = [&](Communicator& communicator, const Buffer& data, const Stream& stream) {
    return communicator.allReduce(data.address(), data.address(), kCount, ElementType::kF32, ReduceOp::kSum, stream);
  };
  world.all([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    const auto early = [&] { return reduce(world.comms[at], own[at], world.streams[at]); };
    if (Status s = reduce(world.comms[at], shared[at], world.streams[at]); !s.ok()) return s;
    // What touches other memory may be called before the second communicator's, or after it has ended.
    if (rank == 0)
      if (Status s = early(); !s.ok()) return s;
    if (Status s = reduce((*made)[at], shared[at], others[at]); !s.ok()) return s;
    if (Status s = others[at].synchronize(); !s.ok()) return s;
    if (rank == 1)
      if (Status s = early(); !s.ok()) return s;
    return world.streams[at].synchronize();
  });
}

TEST_P(Trains, ACallThatIsRepeatedIsRefusedWhenItsMemoryIsGone) {
  std::vector<Status> after = world.each([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    const uint64_t in = inputs[at].address(), out = outputs[at].address();
    if (Status status = many(rank, 3); !status.ok()) return status;
    if (Status status = untilIdle(rank); !status.ok()) return status;
    outputs[at] = Buffer();
    return world.comms[at].allReduce(in, out, kCount, ElementType::kF32, ReduceOp::kSum, world.streams[at]);
  });
  for (const Status& status : after) EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.toString();
  for (Stream& stream : world.streams) EXPECT_TRUE(stream.synchronize().ok());
}

TEST_P(Trains, AnswerWhoAsksWithoutWaiting) {
  world.all([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (int round = 0; round < 20; ++round) {
      if (Status status = many(rank, 3); !status.ok()) return status;
      StatusOr<bool> done = false;
      while (!*done && std::chrono::steady_clock::now() < until) {
        done = world.streams[at].query();
        if (!done.ok()) return done.status();
        std::this_thread::yield();
      }
      if (!*done) return internalError("never done");
    }
    return okStatus();
  });
}

TEST_P(Trains, EndForAStreamOfAnotherDeviceThatWaits) {
  if (GetParam() == 1) GTEST_SKIP() << "one device";
  world.all([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank), next = (at + 1) % world.devices.size();
    Stream other = Stream::create(world.devices[next]).value();
    for (int round = 0; round < 20; ++round) {
      Event event;
      if (Status status = many(rank, 3); !status.ok()) return status;
      if (Status status = world.streams[at].record(event); !status.ok()) return status;
      if (Status status = many(rank, 3); !status.ok()) return status;
      if (Status status = other.wait(event); !status.ok()) return status;
      if (Status status = other.synchronize(); !status.ok()) return status;
    }
    return world.streams[at].synchronize();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Trains, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace hpu::collectives
