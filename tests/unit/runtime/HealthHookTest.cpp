// SPDX-License-Identifier: Apache-2.0
// What somebody who looks after a device hears of it (Device::setHealthHook).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "hpu/device.h"
#include "hpu/health.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;
using Kind = HealthEvent::Kind;

constexpr int64_t kMiB = 1 << 20;

class HealthHook : public ::testing::Test {
 protected:
  void open() {
    DeviceOptions options;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
    stream = Stream::create(device, {"compute", 0}).value();
    ASSERT_TRUE(device
                    .setHealthHook([this](const HealthEvent& event) {
                      // The hook has no locks of the device in its way.
                      (void)device.memoryInfo();
                      (void)stream.query();
                      std::lock_guard lock(mutex);
                      events.push_back(event);
                    })
                    .ok());
  }
  void SetUp() override { open(); }
  void TearDown() override {
    if (device.valid()) {
      EXPECT_TRUE(device.setHealthHook({}).ok());
    }
  }
  /// The hook is told soon after it is seen that work has failed: waits for so many.
  std::vector<HealthEvent> taken(size_t wanted = 1) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::unique_lock lock(mutex);
    while (events.size() < wanted && std::chrono::steady_clock::now() < until) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
    return std::exchange(events, {});
  }
  Device device;
  Stream stream;
  std::mutex mutex;
  std::vector<HealthEvent> events;
};

TEST_F(HealthHook, HearsOfWorkThatFailedOncePerError) {
  ASSERT_TRUE(stream.callHost([] { return dataLoss("the file is torn"); }).ok());
  ASSERT_TRUE(stream.callHost([] { return okStatus(); }).ok());  // Skipped: no failure of its own.
  const Status status = stream.synchronize();
  ASSERT_FALSE(status.ok());
  const auto heard = taken();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, Kind::kWorkFailed);
  EXPECT_EQ(heard[0].source, "compute");
  EXPECT_EQ(heard[0].status.message(), status.message());
  EXPECT_EQ(heard[0].status.code(), StatusCode::kDataLoss);
  ASSERT_TRUE(stream.callHost([] { return dataLoss("again"); }).ok());
  EXPECT_FALSE(stream.synchronize().ok());
  EXPECT_EQ(taken().size(), 1u);
}

TEST_F(HealthHook, HearsOfAResetAndNotOfWhatItDrops) {
  std::promise<void> begun, go;
  ASSERT_TRUE(stream
                  .callHost([&] {
                    begun.set_value();
                    go.get_future().wait();
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream.callHost([] { return okStatus(); }).ok());
  begun.get_future().wait();
  std::thread lets([&] { go.set_value(); });
  EXPECT_TRUE(device.reset().ok());
  lets.join();
  const auto heard = taken();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, Kind::kReset);
  EXPECT_FALSE(heard[0].status.ok());
}

TEST_F(HealthHook, HearsOfAnAllocationThatFailed) {
  const Status status = device.allocate(128 * kMiB, "too much").status();
  const auto heard = taken();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, Kind::kOutOfMemory);
  EXPECT_EQ(heard[0].source, "too much");
  EXPECT_EQ(heard[0].status.message(), status.message());
  EXPECT_FALSE(device.allocate(-1).ok());  // A mistake of the program is no news of the device.
  EXPECT_TRUE(taken(0).empty());
}

TEST_F(HealthHook, HearsThatTheHostsMemoryIsFull) {
  ASSERT_TRUE(device.setHealthHook({}).ok());
  stream = Stream();
  device = Device();
  ::setenv("HPU_SIM_HOST_BYTES", "1048576", 1);
  open();
  ::unsetenv("HPU_SIM_HOST_BYTES");
  Buffer buffer = device.allocate(16 * kMiB).value();
  ASSERT_TRUE(stream.fill(buffer, 1, 16 * kMiB).ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kResourceExhausted);
  const auto heard = taken(2);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].kind, Kind::kHostMemoryFull);
  EXPECT_THAT(heard[0].status.message(), HasSubstr("HPU_SIM_HOST_BYTES"));
  EXPECT_EQ(heard[1].kind, Kind::kWorkFailed);
  EXPECT_FALSE(device.checkWrite(buffer.address(), 16 * kMiB).ok());
  EXPECT_EQ(taken().size(), 1u);
}

TEST_F(HealthHook, HearsOfAWaitThatCameToItsDeadline) {
  std::promise<void> go;
  ASSERT_TRUE(stream
                  .callHost([&] {
                    go.get_future().wait();
                    return okStatus();
                  })
                  .ok());
  EXPECT_EQ(stream.synchronize(0).code(), StatusCode::kDeadlineExceeded);  // Only asks.
  EXPECT_TRUE(taken(0).empty());
  const Status status = stream.synchronize(5);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  const auto heard = taken();
  go.set_value();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, Kind::kWaitTooLong);
  EXPECT_EQ(heard[0].status.message(), status.message());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(HealthHook, HearsWhatLibrariesReport) {
  reportHealth(device, {Kind::kRankLost, "comm 1", unavailable("rank 3 is gone")});
  reportHealth(device, {Kind::kRankLost, "comm 1", okStatus()});
  reportHealth(Device(), {Kind::kRankLost, "comm 1", unavailable("rank 3 is gone")});
  const auto heard = taken();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, Kind::kRankLost);
  EXPECT_EQ(heard[0].source, "comm 1");
}

TEST_F(HealthHook, ThatThrowsIsHarmlessAndMayEndItself) {
  ASSERT_TRUE(device.setHealthHook([](const HealthEvent&) { throw std::runtime_error("no pager"); }).ok());
  EXPECT_FALSE(device.allocate(128 * kMiB).ok());
  ASSERT_TRUE(device
                  .setHealthHook([this](const HealthEvent& event) {
                    events.push_back(event);
                    EXPECT_TRUE(device.setHealthHook({}).ok());
                  })
                  .ok());
  EXPECT_FALSE(device.allocate(128 * kMiB).ok());
  EXPECT_FALSE(device.allocate(128 * kMiB).ok());
  EXPECT_EQ(taken().size(), 1u);
  EXPECT_FALSE(Device().setHealthHook({}).ok());
}

TEST_F(HealthHook, IsNotSetInAForkedChild) {
  const pid_t child = ::fork();
  if (child == 0) {
    reportHealth(device, {Kind::kRankLost, "comm 1", unavailable("rank 3 is gone")});
    ::_exit(device.setHealthHook({}).code() == StatusCode::kFailedPrecondition && events.empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HealthHookOfTheNullDriver, IsToldToo) {
  DeviceOptions options;
  options.driver = "null";
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value();
  std::promise<HealthEvent> heard;
  ASSERT_TRUE(device.setHealthHook([&](const HealthEvent& event) { heard.set_value(event); }).ok());
  ASSERT_TRUE(stream.callHost([] { return dataLoss("torn"); }).ok());
  EXPECT_FALSE(stream.synchronize().ok());
  EXPECT_EQ(heard.get_future().get().kind, Kind::kWorkFailed);
}

}  // namespace
}  // namespace hpu
