// SPDX-License-Identifier: Apache-2.0
// What a pool's order and limits rest on: resets of the device, allocations that wait, memory that is only kept alive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "../ExternalProbe.h"
#include "../SmallDevice.h"
#include "hpu/event.h"
#include "hpu/memory_pool.h"

namespace hpu {
namespace {

using testing::ExternalProbe;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

/// Frees a buffer with its last handle.
Status give(Stream& stream, Buffer& buffer) {
  return stream.free(std::move(buffer));
}

class PoolOrder : public ::testing::Test {
 protected:
  /// The stream stands still until release().
  std::shared_ptr<ExternalProbe> hold(Stream& stream) {
    auto probe = std::make_shared<ExternalProbe>("what holds the stream");
    EXPECT_TRUE(stream.enqueue(probe).ok());
    EXPECT_TRUE(probe->awaitStart());
    return probe;
  }
  static void release(const std::shared_ptr<ExternalProbe>& probe) {
    probe->complete(okStatus(), probe->turn()->arrivalPs());
  }

  Device device = testing::openSmall();
  Stream stream = Stream::create(device, {"main"}).value(), other = Stream::create(device, {"other"}).value();
};

TEST_F(PoolOrder, AResetForgetsTheOrderOfWhatWasFreedAsItDropsTheWaits) {
  // Work of another stream that uses the memory and outlasts the reset: the end of what it owns is held up.
  std::promise<void> holding, go;
  const auto goes = go.get_future().share();
  Buffer plain = device.allocate(kMiB).value(), a = stream.allocate(kMiB).value();
  const uint64_t address = a.address(), slow = plain.address();
  ASSERT_TRUE(device
                  .setMemoryHooks({.allocated = {},
                                   .freed =
                                       [&, slow](uint64_t freed, int64_t) {
                                         if (freed != slow) return;
                                         holding.set_value();
                                         goes.wait();
                                       },
                                   .outOfMemory = {}})
                  .ok());
  auto probe = hold(other);
  ASSERT_TRUE(other.copyOnDevice(plain, 0, a, 0, kMiB).ok());
  Event used;
  ASSERT_TRUE(other.record(used).ok());
  plain = Buffer();
  ASSERT_TRUE(stream.wait(used).ok());
  Buffer early = stream.allocate(kMiB).value();  // Is freed when the reset is over.
  ASSERT_TRUE(stream.fill(early, 1, kMiB).ok());
  const uint64_t earlier = early.address();
  ASSERT_TRUE(give(stream, a).ok());
  release(probe);
  holding.get_future().wait();
  EXPECT_EQ(device.reset(50).code(), StatusCode::kDeadlineExceeded);
  // The stream waits for nothing any more, and the other one's work goes on.
  Buffer c = stream.allocate(kMiB).value();
  EXPECT_NE(c.address(), address);
  ASSERT_TRUE(give(stream, early).ok());
  Buffer b = stream.allocate(kMiB).value();
  EXPECT_EQ(b.address(), earlier) << "nothing holds it any more";
  go.set_value();
  ASSERT_TRUE(other.synchronize().ok());
  ASSERT_TRUE(device.setMemoryHooks({}).ok());
  // The other stream is done before its last copy lets go of its memory.
  std::vector<Buffer> all;
  bool found = false;
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
       !found && std::chrono::steady_clock::now() < until;) {
    all.clear();
    for (int i = 0; i < 4; ++i) {
      all.push_back(stream.allocate(kMiB).value());
      found |= all.back().address() == address;
    }
  }
  EXPECT_TRUE(found);
  // From now on memory is freed in the order of streams again.
  probe = hold(stream);
  ASSERT_TRUE(stream.fill(all[0], 1, kMiB).ok());
  const uint64_t again = all[0].address();
  Buffer fresh = stream.allocate(2 * kMiB).value();
  const uint64_t ofFresh = fresh.address();
  ASSERT_TRUE(stream.fill(fresh, 1, kMiB).ok());
  ASSERT_TRUE(give(stream, fresh).ok());
  EXPECT_EQ(stream.allocate(2 * kMiB).value().address(), ofFresh);
  ASSERT_TRUE(give(stream, all[0]).ok());
  EXPECT_EQ(stream.allocate(kMiB).value().address(), again);
  release(probe);
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(PoolOrder, WhatOnlyWaitsForMemoryTakesNoRoomInItsPool) {
  MemoryPool pool = MemoryPool::create(device, {"bounded", 8 * kMiB}).value();
  // The device is full but for 5 MiB, of memory that enqueued work holds.
  auto probe = hold(other);
  Buffer full = device.allocate(device.memoryInfo().totalBytes - 5 * kMiB).value();
  ASSERT_TRUE(other.fill(full, 1, 16).ok());
  full = Buffer();
  Stream mine = Stream::create(device).value();
  auto waiting = std::async(std::launch::async, [&] { return pool.allocate(6 * kMiB, mine); });
  // It waits while the other stream's work advances.
  std::atomic<bool> stop{false};
  std::thread advances([&] {
    while (!stop) {
      ++probe->steps;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  ASSERT_EQ(waiting.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_EQ(pool.info().reservedBytes, 0);
  StatusOr<Buffer> small = pool.allocate(4 * kMiB, stream);
  EXPECT_TRUE(small.ok()) << small.status().message();
  EXPECT_EQ(pool.info().reservedBytes, 4 * kMiB);
  release(probe);
  // Now there is memory, and no room in the pool any more.
  StatusOr<Buffer> late = waiting.get();
  stop = true;
  advances.join();
  EXPECT_EQ(late.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(late.status().message(), HasSubstr("'bounded' may hold 8"));
  EXPECT_EQ(pool.info().reservedBytes, 4 * kMiB);
  EXPECT_EQ(pool.info().peakReservedBytes, 4 * kMiB);
  ASSERT_TRUE(other.synchronize().ok());
  EXPECT_EQ(device.memoryInfo().usedBytes, 4 * kMiB);
}

TEST_F(PoolOrder, MemoryThatIsOnlyKeptAliveIsUsedAgainInItsOrder) {
  Buffer a = stream.allocate(kMiB).value();
  const uint64_t address = a.address();
  std::shared_ptr<const void> kept = a.keepAlive();
  EXPECT_EQ(Buffer().keepAlive(), nullptr);
  ASSERT_TRUE(give(stream, a).ok());
  EXPECT_NE(other.allocate(kMiB).value().address(), address) << "work may still use it";
  Buffer b = stream.allocate(kMiB).value();
  EXPECT_EQ(b.address(), address);
  ASSERT_TRUE(give(stream, b).ok());
  kept.reset();
  EXPECT_EQ(other.allocate(kMiB).value().address(), address);
}

}  // namespace
}  // namespace hpu
