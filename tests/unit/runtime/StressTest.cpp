// SPDX-License-Identifier: Apache-2.0
// Many threads on many streams at once: the promise that any thread may call anything, for
// ThreadSanitizer to judge.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "TinyProgram.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 500;
constexpr int64_t kCount = 3000;

Device openSmall(int index) {
  DeviceOptions options;
  options.index = index;
  options.hbmBytes = 64 << 20;
  return Device::open(options).value();
}

/// One thread's round trip: copy in, launch, copy out, check; on a stream of its own.
void roundTrip(const Device& device, Executable executable, unsigned seed, int rounds) {
  std::mt19937 random(seed);
  Stream stream = Stream::create(device, {"thread", static_cast<int>(seed % 3)}).value();
  Device mine = device;
  for (int round = 0; round < rounds; ++round) {
    std::vector<int32_t> data(kCount), out(kCount, -1);
    for (auto& x : data) x = static_cast<int32_t>(random());
    Buffer in = mine.allocate(kCount * 4, "in").value(), result = mine.allocate(kCount * 4).value();
    ASSERT_TRUE(stream.copyToDevice(in, data.data(), kCount * 4).ok());
    ASSERT_TRUE(executable.launch(stream, {in}, {result}).ok());
    Event event;
    ASSERT_TRUE(stream.copyToHost(out.data(), result, kCount * 4).ok());
    ASSERT_TRUE(stream.record(event).ok());
    in = result = Buffer();
    if (round % 3 == 0) {
      ASSERT_TRUE(event.synchronize().ok());
      ASSERT_TRUE(event.deviceTimeNs().ok());
    } else if (round % 3 == 1) {
      while (!event.query().value()) std::this_thread::yield();
    } else {
      ASSERT_TRUE(stream.synchronize().ok());
    }
    ASSERT_EQ(out, data) << "seed " << seed << " round " << round;
    if (round % 5 == 0) (void)mine.counters();
    if (round % 7 == 0) stream = Stream::create(device).value();
  }
}

TEST(Stress, ThreadsShareOneDeviceAndOneExecutable) {
  Device device = openSmall(0);
  Executable copy = Executable::load(device, testing::toRecipe(testing::copyProgram(kCount, 2))).value();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { roundTrip(device, copy, t, kRounds); });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(device.synchronize().ok());
  EXPECT_EQ(device.counters().launches, kThreads * kRounds);
}

TEST(Stress, ThreadsShareOneStream) {
  Device device = openSmall(0);
  Stream stream = Stream::create(device).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Device mine = device;
      Buffer buffer = mine.allocate(4096).value();
      std::vector<uint8_t> out(4096);
      for (int i = 0; i < 2000; ++i) {
        ASSERT_TRUE(stream.fill(buffer, static_cast<uint8_t>(t), 4096).ok());
        if (i % 10) continue;
        ASSERT_TRUE(stream.copyToHost(out.data(), buffer, 4096).ok());
        ASSERT_TRUE(stream.synchronize().ok());
        ASSERT_EQ(out, std::vector<uint8_t>(4096, static_cast<uint8_t>(t)));
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(Stress, StreamsOfTwoDevicesWaitForEachOther) {
  Device first = openSmall(0), second = openSmall(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      Stream a = Stream::create(first).value(), b = Stream::create(second).value();
      Buffer x = Device(first).allocate(4096).value(), y = Device(second).allocate(4096).value();
      std::vector<uint8_t> host(4096, 0), out(4096, 0);
      for (int i = 1; i <= 400; ++i) {
        Event there, back;
        ASSERT_TRUE(a.fill(x, static_cast<uint8_t>(i), 4096).ok());
        ASSERT_TRUE(a.copyToHost(host.data(), x, 4096).ok());
        ASSERT_TRUE(a.record(there).ok());
        ASSERT_TRUE(b.wait(there).ok());
        ASSERT_TRUE(b.copyToDevice(y, host.data(), 4096).ok());
        ASSERT_TRUE(b.copyToHost(out.data(), y, 4096).ok());
        ASSERT_TRUE(b.record(back).ok());
        ASSERT_TRUE(a.wait(back).ok());
        if (i % 4) continue;
        ASSERT_TRUE(a.synchronize().ok());
        ASSERT_EQ(out[4095], static_cast<uint8_t>(i));
        ASSERT_GE(back.deviceTimeNs().value(), there.deviceTimeNs().value());
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(Stress, DevicesOpenAndCloseWhileOthersWork) {
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        Device device = openSmall(static_cast<int>(t % 2));
        Executable fill = Executable::load(device, testing::toRecipe(testing::fillProgram(1000, 77))).value();
        Stream stream = Stream::create(device).value();
        Buffer out = device.allocate(4000).value();
        ASSERT_TRUE(fill.launch(stream, {}, {out}).ok());
        // Everything is let go while the launch may still run; half of the rounds wait for it.
        if (i % 2) {
          ASSERT_TRUE(stream.synchronize().ok());
        }
        ++done;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads * 100);
}

}  // namespace
}  // namespace hpu
