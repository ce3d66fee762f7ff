// SPDX-License-Identifier: Apache-2.0
// Failures and deadlines, on a device whose work fails or blocks when asked to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
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
  Status clear(driver::DeviceAddress, int64_t) override { return okStatus(); }
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
  StatusOr<std::shared_ptr<driver::LoadedProgram>> prepare(const std::shared_ptr<const recipe::Program>&,
                                                           const std::shared_ptr<driver::LoadedProgram>&) override {
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

/// The first answer that is not "not done yet".
StatusOr<bool> poll(const std::function<StatusOr<bool>()>& query) {
  while (true) {
    StatusOr<bool> done = query();
    if (!done.ok() || *done) return done;
    std::this_thread::yield();
  }
}

TEST_F(StreamErrorTest, PollingShowsTheFailureUntilAWaitTakesIt) {
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(stream.fill(buffer, 0, 10).ok());
  for (int i = 0; i < 2; ++i) {
    StatusOr<bool> done = poll([&] { return stream.query(); });
    EXPECT_EQ(done.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(done.status().message(), HasSubstr("fill on queue 'compute' of device 0 (faulty)"));
    EXPECT_EQ(stream.error().code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(driver->executed(), 1);
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(stream.query().value());
  EXPECT_TRUE(stream.error().ok());
}

TEST_F(StreamErrorTest, QueryIsFalseAsLongAsSomethingBehindTheFailureIsNotDone) {
  Stream other = Stream::create(device).value();
  Event event;
  ASSERT_TRUE(other.fill(buffer, kBlock, 10).ok());
  ASSERT_TRUE(other.record(event).ok());
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(stream.wait(event).ok());
  while (stream.error().ok()) std::this_thread::yield();
  EXPECT_FALSE(stream.query().value());
  driver->release();
  EXPECT_FALSE(poll([&] { return stream.query(); }).ok());
  EXPECT_FALSE(stream.synchronize().ok());
}

/// What each way to look at a failure says, and what is left of it: the table of docs/launching.md.
TEST_F(StreamErrorTest, WaitsTakeTheFailureAndLooksLeaveIt) {
  Event event;
  struct Row {
    const char* name;
    std::function<Status()> look;
    bool takes;
  };
  const std::vector<Row> rows = {
      {"Stream::query", [&] { return poll([&] { return stream.query(); }).status(); }, false},
      {"Stream::error", [&] { return stream.error(); }, false},
      {"Event::query", [&] { return poll([&] { return event.query(); }).status(); }, false},
      {"Stream::synchronize", [&] { return stream.synchronize(); }, true},
      {"Event::synchronize", [&] { return event.synchronize(); }, true},
      {"Device::synchronize", [&] { return device.synchronize(); }, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
    ASSERT_TRUE(stream.record(event).ok());
    EXPECT_FALSE(poll([&] { return event.query(); }).ok());
    Status seen = row.look();
    EXPECT_EQ(seen.code(), StatusCode::kUnavailable) << seen.toString();
    ASSERT_NE(seen.work(), nullptr);
    EXPECT_EQ(seen.work()->device, 0);
    EXPECT_EQ(seen.work()->stream, "compute");
    EXPECT_EQ(seen.work()->operation, "fill");
    EXPECT_EQ(stream.error().ok(), row.takes);
    EXPECT_EQ(stream.query().ok(), row.takes);
    EXPECT_EQ(stream.synchronize().ok(), row.takes);
    // The event keeps what it stands for, whoever took the stream's.
    EXPECT_EQ(event.query().status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(event.synchronize().code(), StatusCode::kUnavailable);
    // Then the stream works again, and so does the event.
    const int before = driver->executed();
    ASSERT_TRUE(stream.fill(buffer, 0, 10).ok());
    ASSERT_TRUE(stream.record(event).ok());
    EXPECT_TRUE(event.synchronize().ok());
    EXPECT_EQ(driver->executed(), before + 1);
  }
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
  Event before;
  ASSERT_TRUE(stream.record(before).ok());
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(other.wait(before).ok());
  ASSERT_TRUE(other.fill(buffer, 0, 10).ok());
  EXPECT_TRUE(other.synchronize().ok());
  EXPECT_FALSE(stream.synchronize().ok());
}

/// Where an event stands when another stream waits for it, and whether that stream fails with it.
TEST_F(StreamErrorTest, AFailureCrossesEventsAndNothingElse) {
  auto secondDriver = std::make_shared<FaultyDevice>();
  Device second(std::make_shared<DeviceState>(secondDriver));
  Buffer there = second.allocate(1000).value();
  struct Row {
    const char* name;
    std::function<void(Event&)> prepare;  ///< Leaves an event that others wait for.
    bool fails;
  };
  const std::vector<Row> rows = {
      {"recorded before the failure",
       [&](Event& event) {
         ASSERT_TRUE(stream.record(event).ok());
         ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
       },
       false},
      {"recorded behind it",
       [&](Event& event) {
         ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
         ASSERT_TRUE(stream.record(event).ok());
       },
       true},
      {"recorded behind what it kept from running, and long done",
       [&](Event& event) {
         ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
         ASSERT_TRUE(stream.fill(buffer, 0, 10).ok());
         ASSERT_TRUE(stream.record(event).ok());
         EXPECT_FALSE(poll([&] { return stream.query(); }).ok());
       },
       true},
      {"recorded behind it and taken since",
       [&](Event& event) {
         ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
         ASSERT_TRUE(stream.record(event).ok());
         EXPECT_FALSE(stream.synchronize().ok());
       },
       true},
      {"taken, then recorded",
       [&](Event& event) {
         ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
         EXPECT_FALSE(stream.synchronize().ok());
         ASSERT_TRUE(stream.record(event).ok());
       },
       false},
      {"recorded again after it was taken",
       [&](Event& event) {
         ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
         ASSERT_TRUE(stream.record(event).ok());
         EXPECT_FALSE(stream.synchronize().ok());
         ASSERT_TRUE(stream.record(event).ok());
       },
       false},
      {"of a third stream that waited for it",
       [&](Event& event) {
         Stream third = Stream::create(device, {"third", 0}).value();
         Event between;
         ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
         ASSERT_TRUE(stream.record(between).ok());
         ASSERT_TRUE(third.wait(between).ok());
         ASSERT_TRUE(third.record(event).ok());
         EXPECT_FALSE(third.synchronize().ok());
       },
       true},
  };
  for (const Row& row : rows)
    for (bool otherDevice : {false, true}) {
      SCOPED_TRACE(std::string(row.name) + (otherDevice ? ", on another device" : ""));
      Device& own = otherDevice ? second : device;
      FaultyDevice& hardware = otherDevice ? *secondDriver : *driver;
      const Buffer& memory = otherDevice ? there : buffer;
      Stream waiting = Stream::create(own, {"waiting", 0}).value();
      {
        Event event;
        row.prepare(event);
        const int before = hardware.executed();
        ASSERT_TRUE(waiting.wait(event).ok());
        event = Event();  // The wait itself knows what it is for.
        ASSERT_TRUE(waiting.fill(memory, 1, 10).ok());
        StatusOr<bool> done = poll([&] { return waiting.query(); });
        EXPECT_EQ(done.ok(), !row.fails) << done.status().toString();
        // On the same device the failing fill itself may have run since.
        if (otherDevice) {
          EXPECT_EQ(hardware.executed() - before, row.fails ? 0 : 1);
        }
      }
      Status status = waiting.synchronize();
      EXPECT_EQ(status.code(), row.fails ? StatusCode::kUnavailable : StatusCode::kOk);
      if (row.fails) {
        EXPECT_THAT(status.message(), HasSubstr("wait on queue 'waiting'"));
        EXPECT_THAT(status.message(), HasSubstr("the work that it waited for failed: "));
        EXPECT_THAT(status.message(), HasSubstr("fill on queue 'compute'"));
        ASSERT_NE(status.work(), nullptr);
        EXPECT_EQ(status.work()->stream, "compute") << "where it failed, not who heard of it";
      }
      // Taken there, it is still the first stream's, if nobody took it there.
      ASSERT_TRUE(waiting.fill(memory, 1, 10).ok());
      EXPECT_TRUE(waiting.synchronize().ok());
      stream.synchronize().ignore();
    }
}

TEST_F(StreamErrorTest, AWaitInOrderTakesNoFailureOver) {
  Stream other = Stream::create(device).value();
  Event event;
  ASSERT_TRUE(stream.fill(buffer, kBlock, 10).ok());
  driver->waitUntilBlocked();
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(other.waitInOrder(event).ok());
  ASSERT_TRUE(other.fill(buffer, 0, 10).ok());
  EXPECT_FALSE(other.query().value());
  driver->release();
  EXPECT_TRUE(other.synchronize().ok());
  EXPECT_EQ(driver->executed(), 3);
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kUnavailable);
}

TEST_F(StreamErrorTest, WhatAResetDropsIsAFailureOfItsEventAndOfWhoWaitsForIt) {
  auto secondDriver = std::make_shared<FaultyDevice>();
  Device second(std::make_shared<DeviceState>(secondDriver));
  Buffer there = second.allocate(1000).value();
  Stream waiting = Stream::create(second).value();
  Event event;
  ASSERT_TRUE(stream.fill(buffer, kBlock, 10).ok());
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(waiting.wait(event).ok());
  ASSERT_TRUE(waiting.fill(there, 0, 10).ok());
  driver->waitUntilBlocked();
  EXPECT_EQ(device.reset(20).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(event.query().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(event.synchronize().code(), StatusCode::kCancelled);
  Status status = waiting.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_THAT(status.message(), HasSubstr("was dropped by a reset of the device"));
  EXPECT_EQ(secondDriver->executed(), 0);
  driver->release();
  EXPECT_TRUE(device.reset().ok());
  EXPECT_TRUE(stream.query().value());
  ASSERT_TRUE(stream.record(event).ok());
  EXPECT_TRUE(event.synchronize().ok());
}

TEST_F(StreamErrorTest, DeviceSynchronizeTellsOfOneFailureOnce) {
  Stream other = Stream::create(device, {"second", 0}).value();
  Event event;
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(other.wait(event).ok());
  Status status = device.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message().find("; also: "), std::string::npos) << status.message();
  EXPECT_TRUE(other.error().ok());
}

TEST_F(StreamErrorTest, DeviceSynchronizeTellsOfEachFailureOnce) {
  // Also of the second, which a third stream has taken over.
  Stream second = Stream::create(device, {"second", 0}).value(), third = Stream::create(device, {"third", 0}).value();
  Event event;
  ASSERT_TRUE(stream.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(second.fill(buffer, kFail, 10).ok());
  ASSERT_TRUE(second.record(event).ok());
  ASSERT_TRUE(third.wait(event).ok());
  const std::string text = device.synchronize().message();
  const size_t also = text.find("; also: ");
  ASSERT_NE(also, std::string::npos) << text;
  EXPECT_EQ(text.find("; also: ", also + 1), std::string::npos) << text;
}

TEST_F(StreamErrorTest, ADeadlineOfDeviceSynchronizeTakesNoFailure) {
  Stream failed = Stream::create(device, {"failed", 0}).value();
  ASSERT_TRUE(failed.fill(buffer, kFail, 10).ok());
  while (failed.error().ok()) std::this_thread::yield();
  ASSERT_TRUE(stream.fill(buffer, kBlock, 10).ok());
  EXPECT_EQ(device.synchronize(20).code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(failed.query().ok()) << "it is still there";
  driver->release();
  Status status = device.synchronize();
  ASSERT_NE(status.work(), nullptr) << status.toString();
  EXPECT_EQ(status.work()->stream, "failed");
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
  EXPECT_EQ(event.query().status().code(), StatusCode::kCancelled);  // Dropped, and so over.
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
