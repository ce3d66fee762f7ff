// SPDX-License-Identifier: Apache-2.0
// Failures and deadlines, on a device whose work fails or blocks when asked to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/common/TimedDevice.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

// A fill with this value fails; one with the other blocks until release().
constexpr uint8_t kFail = 0xee, kBlock = 0xbb;

class FaultyDevice final : public driver::TimedDevice {
 public:
  FaultyDevice() : TimedDevice(makeInfo(), {0x1000, 1 << 20}, arch::targetDesc(Target::kGaudi2).clock(), 1) {}
  ~FaultyDevice() override {
    release();
    shutDown();
  }
  Status discard(driver::DeviceAddress, int64_t) override { return okStatus(); }
  void release() {
    {
      std::lock_guard lock(mutex_);
      open_ = true;
    }
    gate_.notify_all();
  }
  /// Copies and fills that were begun.
  int executed() {
    std::lock_guard lock(mutex_);
    return executed_;
  }
  /// Returns when work blocks.
  void waitUntilBlocked() {
    std::unique_lock lock(mutex_);
    gate_.wait(lock, [&] { return blocked_ > 0; });
  }

 protected:
  StatusOr<std::shared_ptr<driver::LoadedProgram>> prepare(const std::shared_ptr<const recipe::Program>&) override {
    return std::shared_ptr<driver::LoadedProgram>();
  }
  Status execute(const driver::Work& work, driver::LoadedProgram*, driver::QueueExecutor::Signal) override {
    {
      std::lock_guard lock(mutex_);
      ++executed_;
    }
    const auto* fill = std::get_if<driver::Fill>(&work);
    if (fill && fill->value == kFail) return unavailable("the memory is on fire");
    if (fill && fill->value == kBlock) {
      std::unique_lock lock(mutex_);
      ++blocked_;
      gate_.notify_all();
      gate_.wait(lock, [&] { return open_; });
    }
    return okStatus();
  }

 private:
  static DeviceInfo makeInfo() {
    DeviceInfo info;
    info.driver = "faulty";
    info.name = "faulty";
    return info;
  }
  std::mutex mutex_;
  std::condition_variable gate_;
  bool open_ = false;
  int blocked_ = 0, executed_ = 0;
};

class StreamErrorTest : public ::testing::Test {
 protected:
  StreamErrorTest()
      : driver(std::make_shared<FaultyDevice>()),
        device(std::make_shared<DeviceState>(driver)),
        stream(Stream::create(device, {"compute", 0}).value()),
        buffer(device.allocate(1000).value()) {}

  std::shared_ptr<FaultyDevice> driver;
  Device device;
  Stream stream;
  Buffer buffer;
};

TEST_F(StreamErrorTest, FailureIsReportedByTheNextWaitOnce) {
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(stream.fill(buffer, 0, 10).ok());
  Status status = stream.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("fill on queue 'compute' of device 0 (faulty): the memory is "
                                          "on fire"));
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(stream.fill(buffer, 0, 10).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, WorkEnqueuedUntilTheReportIsNotRun) {
  std::vector<unsigned char> out(10, 7);
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  Event event;
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(stream.fill(buffer, 1, 10).ok());
  EXPECT_EQ(event.synchronize().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(stream.synchronize().ok());  // Reported once, by the event.
  EXPECT_EQ(driver->executed(), 1);
  ASSERT_TRUE(stream.fill(buffer, 1, 10).ok());
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(driver->executed(), 2);
}

TEST_F(StreamErrorTest, DeviceSynchronizeReportsTheErrorsOfAllStreams) {
  Stream other = Stream::create(device, {"second", 0}).value();
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(other.fill(buffer, kFail, 10).ok());
  Status status = device.synchronize();
  EXPECT_THAT(status.message(), HasSubstr("queue 'compute'"));
  EXPECT_THAT(status.message(), HasSubstr("; also: "));
  EXPECT_THAT(status.message(), HasSubstr("queue 'second'"));
  EXPECT_TRUE(device.synchronize().ok());
}

TEST_F(StreamErrorTest, TenThousandCopiesAreEnqueuedBehindWorkThatBlocks) {
  std::vector<unsigned char> host(10);
  ASSERT_TRUE(stream.fill(buffer, kBlock, 10).ok());
  driver->waitUntilBlocked();
  for (int i = 0; i < 10000; ++i)
    ASSERT_TRUE((i % 3 == 0   ? stream.copyToDevice(buffer.address(), host.data(), 10)
                 : i % 3 == 1 ? stream.copyToHost(host.data(), buffer.address(), 10)
                              : stream.copyOnDevice(buffer.address(), buffer.address() + 500, 10))
                    .ok());
  EXPECT_FALSE(stream.query().value());
  driver->release();
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(driver->executed(), 10001);
}

TEST_F(StreamErrorTest, ResetLetsGoOfMemoryOfDroppedWork) {
  Stream other = Stream::create(device).value();
  ASSERT_TRUE(stream.fill(buffer, kBlock, 10).ok());
  driver->waitUntilBlocked();
  Event event;
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(other.wait(event).ok());
  Buffer large = device.allocate(900 << 10).value();
  ASSERT_TRUE(other.fill(large, 0, 10).ok());
  large = Buffer();
  EXPECT_GT(device.memoryInfo().usedBytes, 900 << 10);
  EXPECT_EQ(device.reset(20).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(device.memoryInfo().usedBytes, 1024);
  // The other stream is usable although the first is stuck.
  ASSERT_TRUE(other.fill(buffer, 0, 10).ok());
  EXPECT_TRUE(other.synchronize().ok());
  driver->release();
  EXPECT_TRUE(device.reset().ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, ResetsWhileOthersEnqueueAndWait) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      Stream mine = Stream::create(device).value();
      for (int i = 0; !stop; ++i) {
        Event event;
        EXPECT_TRUE(mine.fill(buffer, (i + t) % 7 ? 0 : kFail, 10).ok());
        EXPECT_TRUE(mine.record(event).ok());
        EXPECT_TRUE(stream.wait(event).ok());
        if (i % 5 == 0) mine.synchronize().ignore();
      }
      mine.synchronize().ignore();
    });
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(device.reset(10000).ok());
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(device.reset().ok());
  ASSERT_TRUE(stream.fill(buffer, 0, 10).ok());
  EXPECT_TRUE(device.synchronize().ok());
}

TEST_F(StreamErrorTest, QueryDoesNotConsumeTheError) {
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  while (!stream.query().value()) {
  }
  EXPECT_FALSE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, EventReportsWhatFailedBeforeItAndNothingLater) {
  Event before, after;
  ASSERT_TRUE(stream.record(before).ok());
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(stream.record(after).ok());
  EXPECT_TRUE(before.synchronize().ok());
  EXPECT_EQ(after.synchronize().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, ErrorsOfStreamsAreApart) {
  Stream other = Stream::create(device).value();
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  Event event;
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(other.wait(event).ok());
  EXPECT_TRUE(other.synchronize().ok());
  EXPECT_FALSE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, DeviceSynchronizeReportsTheFirstError) {
  Stream other = Stream::create(device).value();
  ASSERT_TRUE(other.fill(buffer, kFail, 10).ok());
  EXPECT_EQ(device.synchronize().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(device.synchronize().ok());
}

TEST_F(StreamErrorTest, DeadlinePassesAndTheStreamIsAsBefore) {
  ASSERT_TRUE(stream.fill(buffer, kBlock, 10).ok());
  Event event;
  ASSERT_TRUE(stream.record(event).ok());
  auto begin = std::chrono::steady_clock::now();
  Status status = stream.synchronize(30);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("queue 'compute'"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
  EXPECT_EQ(event.synchronize(1).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(device.synchronize(1).code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(event.query().value());
  EXPECT_EQ(event.deviceTimeNs().status().code(), StatusCode::kFailedPrecondition);
  driver->release();
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, ResetDropsWhatIsQueuedAndForgetsErrors) {
  Stream other = Stream::create(device).value();
  ASSERT_TRUE(other.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(stream.fill(buffer, kBlock, 10).ok());
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  Event event;
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(other.wait(event).ok());
  driver->waitUntilBlocked();
  Status stuck = device.reset(30);
  EXPECT_EQ(stuck.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(stuck.message(), HasSubstr("fill on queue 'compute'"));
  EXPECT_TRUE(event.query().value());  // Dropped, and so done.
  driver->release();
  ASSERT_TRUE(device.reset().ok());
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(other.synchronize().ok());
  ASSERT_TRUE(stream.fill(buffer, 0, 10).ok());
  EXPECT_TRUE(stream.synchronize().ok());
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  EXPECT_FALSE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, EveryWaitHasTheConfiguredDeadline) {
  setenv("HPU_WAIT_TIMEOUT_MS", "30", 1);
  ASSERT_TRUE(stream.fill(buffer, kBlock, 10).ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kDeadlineExceeded);
  unsetenv("HPU_WAIT_TIMEOUT_MS");
  driver->release();
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, MemoryThatOnlyWorkStillUsesIsSaidToBeFreed) {
  Buffer held = device.allocate(4096, "held").value();
  uint64_t address = held.address();
  ASSERT_TRUE(stream.fill(held, kBlock, 10).ok());
  held = Buffer();
  Status status = stream.fill(address + 8, 0, 1, 1);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("it lies in 'held', 4096 bytes"));
  EXPECT_THAT(status.message(), HasSubstr("has freed (enqueued work still uses it)"));
  driver->release();
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(StreamErrorTest, RequestedAddressWaitsForTheWorkThatHoldsIt) {
  Buffer held = device.allocate(4096).value();
  uint64_t address = held.address();
  // The program's own buffer there is refused at once, and so is one that nobody will free.
  EXPECT_EQ(device.allocate(512, AllocateOptions{"", address}).status().code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(stream.fill(held, kBlock, 10).ok());
  driver->waitUntilBlocked();
  held = Buffer();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    driver->release();
  });
  auto again = device.allocate(512, AllocateOptions{"again", address});
  later.join();
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->address(), address);
}

TEST_F(StreamErrorTest, AllocationThatWaitsForStuckWorkFailsInTime) {
  setenv("HPU_WAIT_TIMEOUT_MS", "30", 1);
  Buffer large = device.allocate(900 << 10).value();
  ASSERT_TRUE(stream.fill(large, kBlock, 10).ok());
  large = Buffer();
  EXPECT_EQ(device.allocate(900 << 10).status().code(), StatusCode::kResourceExhausted);
  unsetenv("HPU_WAIT_TIMEOUT_MS");
  driver->release();
  EXPECT_TRUE(device.allocate(900 << 10).ok());
}

}  // namespace
}  // namespace hpu
