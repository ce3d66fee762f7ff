// SPDX-License-Identifier: Apache-2.0
// What a framework's allocator needs of a device's memory: to be told, to be asked, not to wait, peaks of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../ExternalProbe.h"
#include "hpu/device.h"
#include "hpu/memory.h"
#include "hpu/node.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

class MemoryHooksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
  }
  Device device;
};

TEST_F(MemoryHooksTest, TellOfEachAllocationAndItsEnd) {
  std::map<uint64_t, int64_t> live;
  std::mutex mutex;
  std::string lastLabel;
  MemoryHooks hooks;
  hooks.allocated = [&](uint64_t address, int64_t bytes, const std::string& label) {
    std::lock_guard lock(mutex);
    EXPECT_TRUE(live.emplace(address, bytes).second);
    lastLabel = label;
  };
  hooks.freed = [&](uint64_t address, int64_t bytes) {
    std::lock_guard lock(mutex);
    auto found = live.find(address);
    ASSERT_NE(found, live.end());
    EXPECT_EQ(found->second, bytes);
    live.erase(found);
  };
  Buffer before = device.allocate(kMiB).value();
  ASSERT_TRUE(device.setMemoryHooks(hooks).ok());
  Buffer one = device.allocate(1000, "weights").value();
  EXPECT_EQ(lastLabel, "weights");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 1; i <= 200; ++i) EXPECT_TRUE(device.allocate(i * 100).ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live.size(), 1u);
  one = Buffer();
  EXPECT_TRUE(live.empty());
  ASSERT_TRUE(device.setMemoryHooks({}).ok());
  before = Buffer();  // Nobody is told.
}

TEST_F(MemoryHooksTest, AProgramThatFreesGetsItsMemory) {
  std::vector<Buffer> cache;
  for (int i = 0; i < 4; ++i) cache.push_back(device.allocate(15 * kMiB, "cache").value());
  int asked = 0;
  MemoryHooks hooks;
  hooks.outOfMemory = [&](int64_t bytes) {
    EXPECT_EQ(bytes, 20 * kMiB);
    ++asked;
    if (cache.empty()) return false;
    cache.pop_back();
    return true;
  };
  ASSERT_TRUE(device.setMemoryHooks(hooks).ok());
  Buffer large = device.allocate(20 * kMiB).value();
  EXPECT_GE(asked, 1);
  EXPECT_FALSE(cache.empty());

  // One that only says so is not asked for ever.
  asked = 0;
  hooks.outOfMemory = [&](int64_t) { return ++asked > 0; };
  ASSERT_TRUE(device.setMemoryHooks(hooks).ok());
  auto refused = device.allocate(63 * kMiB);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(asked, 64);
  // What it allocates itself does not ask it again.
  asked = 0;
  hooks.outOfMemory = [&](int64_t bytes) {
    ++asked;
    EXPECT_EQ(device.allocate(bytes).status().code(), StatusCode::kResourceExhausted);
    return false;
  };
  ASSERT_TRUE(device.setMemoryHooks(hooks).ok());
  EXPECT_EQ(device.allocate(63 * kMiB).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(asked, 1);
  // What can never be is no matter of memory that is full.
  asked = 0;
  EXPECT_EQ(device.allocate(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(asked, 0);
}

TEST_F(MemoryHooksTest, AnAllocationNeedNotWaitForWorkThatHoldsMemory) {
  Stream stream = Stream::create(device).value();
  auto stuck = std::make_shared<testing::ExternalProbe>("stuck");
  ASSERT_TRUE(stream.enqueue(stuck).ok());
  Buffer held = device.allocate(60 * kMiB).value();
  ASSERT_TRUE(stream.fill(held, 0, 60 * kMiB).ok());
  held = Buffer();
  AllocateOptions options;
  options.wait = false;
  auto begun = std::chrono::steady_clock::now();
  auto now = device.allocate(30 * kMiB, options);
  EXPECT_EQ(now.status().code(), StatusCode::kResourceExhausted);
  // One that waits gives up after two seconds, and says that it has waited.
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
  EXPECT_THAT(now.status().message(), ::testing::Not(HasSubstr("waited for in vain")));
  ASSERT_TRUE(stuck->awaitStart());
  stuck->complete(okStatus(), 0);
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(device.allocate(30 * kMiB).ok());
}

TEST_F(MemoryHooksTest, PeaksCountFromTheReset) {
  Buffer kept = device.allocate(2 * kMiB, "kept").value();
  {
    Buffer gone = device.allocate(8 * kMiB, "gone").value();
  }
  EXPECT_EQ(device.memoryInfo().peakBytes, 10 * kMiB);
  device.resetPeakMemory();
  EXPECT_EQ(device.memoryInfo().peakBytes, 2 * kMiB);
  {
    Buffer more = device.allocate(kMiB, "kept").value();
  }
  EXPECT_EQ(device.memoryInfo().peakBytes, 3 * kMiB);
  for (const MemoryHolder& holder : device.memoryHolders())
    EXPECT_EQ(holder.peakBytes, holder.label == "kept" ? 3 * kMiB : 0) << holder.label;
}

TEST_F(MemoryHooksTest, DevicesOfTheNodeAreCounted) {
  EXPECT_EQ(Device::count().value(), static_cast<int>(node::query().value().devices.size()));
  EXPECT_GE(Device::count().value(), 1);
}

}  // namespace
}  // namespace hpu
