// SPDX-License-Identifier: Apache-2.0
// Many threads that allocate, free, find and use device and host memory by address, with the memory
// checker on and off, while one resets the device.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
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

constexpr int kThreads = 6;
constexpr int64_t kCount = 500, kBytes = kCount * 4;

Device open(bool check, const char* driver = "sim") {
  if (check) setenv("HPU_MEMORY_CHECK", "1", 1);
  setenv("HPU_MEMORY_QUARANTINE", "1M", 1);
  DeviceOptions options;
  options.hbmBytes = 16 << 20;
  options.driver = driver;
  Device device = Device::open(options).value();
  unsetenv("HPU_MEMORY_CHECK");
  unsetenv("HPU_MEMORY_QUARANTINE");
  return device;
}

/// Data goes in from host memory of the device, through an in-place swap by address, and out again;
/// everything is freed while it may be in use.
void useByAddress(Device device, Executable swap, unsigned seed, int rounds) {
  std::mt19937 random(seed);
  Stream stream = Stream::create(device).value();
  for (int round = 0; round < rounds; ++round) {
    HostMemory host = device.allocateHost(2 * kBytes, "host").value();
    auto* words = static_cast<int32_t*>(host.data);
    for (int64_t i = 0; i < 2 * kCount; ++i) words[i] = static_cast<int32_t>(random());
    std::vector<int32_t> expected(words + kCount, words + 2 * kCount), out(kCount, -1);
    Buffer pool = device.allocate(2 * kBytes + 64, round % 2 ? "pool" : "").value();
    uint64_t a = pool.address() + 64, b = a + kBytes;
    ASSERT_TRUE(stream.copyToDevice(a, host.data, 2 * kBytes).ok());
    ASSERT_TRUE(device.freeHost(host.data).ok());
    LaunchArguments arguments{{a, b}, {a, b}, 0, {{0, Event()}}};
    ASSERT_TRUE(swap.launch(stream, arguments).ok());
    ASSERT_TRUE(device.find(a + 7).ok());
    ASSERT_TRUE(stream.copyToHost(out.data(), a, kBytes).ok());
    pool = Buffer();
    ASSERT_TRUE(stream.synchronize().ok());
    ASSERT_EQ(out, expected);
    if (round % 16 == 0) {
      (void)device.memoryInfo();
      (void)device.memoryHolders();
    }
  }
}

class MemoryStress : public ::testing::TestWithParam<bool> {};

TEST_P(MemoryStress, ThreadsUseMemoryByAddress) {
  Device device = open(GetParam());
  Executable swap = Executable::load(device, testing::toRecipe(testing::swapProgram(kCount))).value();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { useByAddress(device, swap, t, 150); });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(device.synchronize().ok());
}

/// Wrong accesses and resets among good ones: nobody crashes or hangs, and afterwards all is well.
TEST_P(MemoryStress, WrongAccessesAndResets) {
  // A wrong address is often another thread's memory: the program's race, which TSan would report. A device without
  // data has none.
#ifdef __SANITIZE_THREAD__
  constexpr bool kHasData = false;
#else
  constexpr bool kHasData = true;
#endif
  Device device = open(GetParam(), kHasData ? "sim" : "null");
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      Device mine = device;
      Stream stream = Stream::create(mine).value();
      std::vector<char> host(8192);
      std::vector<Buffer> buffers;
      std::vector<uint64_t> addresses;
      for (int i = 0; i < 2000; ++i) {
        if (random() % 3 == 0 || buffers.empty()) {
          auto buffer = mine.allocate(1 + random() % 4096, "x");
          if (buffer.ok()) {
            addresses.push_back(buffer->address());
            buffers.push_back(std::move(*buffer));
          }
        } else if (random() % 3 == 0) {
          std::swap(buffers[random() % buffers.size()], buffers.back());
          buffers.pop_back();
        }
        // Of any age, so often freed, and of any size, so often too long.
        uint64_t address = addresses[random() % addresses.size()] + random() % 64;
        int64_t bytes = static_cast<int64_t>(random() % 4096);
        switch (random() % 3) {
          case 0:
            stream.copyToDevice(address, host.data(), bytes).ignore();
            break;
          case 1:
            stream.copyToHost(host.data(), address, bytes).ignore();
            break;
          default:
            stream.fill(address, 1, 1, bytes).ignore();
        }
        if (i % 8 == 0) stream.synchronize().ignore();
      }
      stream.synchronize().ignore();
    });
  std::thread resets([&] {
    while (!stop) {
      EXPECT_TRUE(device.reset(60000).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (auto& thread : threads) thread.join();
  stop = true;
  resets.join();
  ASSERT_TRUE(device.reset().ok());
  Executable swap = Executable::load(device, testing::toRecipe(testing::swapProgram(kCount))).value();
  if (kHasData) useByAddress(device, swap, 1, 5);
}

INSTANTIATE_TEST_SUITE_P(Checker, MemoryStress, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "on" : "off"; });

}  // namespace
}  // namespace hpu
