// SPDX-License-Identifier: Apache-2.0
// Functions of the program that streams call: order, failures, waits, and the end of the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ExternalProbe.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::ExternalProbe;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

Device openDevice() {
  DeviceOptions options;
  options.index = 0;
  options.hbmBytes = 64 * kMiB;
  return Device::open(options).value();
}

class HostCallTest : public ::testing::Test {
 protected:
  Device device = openDevice();
  Stream stream = Stream::create(device, {"main"}).value();
};

TEST_F(HostCallTest, RunsAtItsTurnAndTheStreamWaitsForIt) {
  Buffer buffer = device.allocate(4).value();
  int32_t before = 0, after = 0, seen = -1;
  ASSERT_TRUE(stream.fill(buffer, 1, 4).ok());
  ASSERT_TRUE(stream.copyToHost(&before, buffer, 4).ok());
  ASSERT_TRUE(stream
                  .callHost([&] {
                    std::this_thread::sleep_for(milliseconds(20));
                    seen = before;
                    before = 5;
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream.copyToDevice(buffer, &before, 4).ok());
  ASSERT_TRUE(stream.copyToHost(&after, buffer, 4).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(seen, 0x01010101);
  EXPECT_EQ(after, 5);
}

TEST_F(HostCallTest, TakesNoDeviceTime) {
  Event before, after;
  ASSERT_TRUE(stream.record(before).ok());
  ASSERT_TRUE(stream
                  .callHost([] {
                    std::this_thread::sleep_for(milliseconds(5));
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream.onDone([](const Status&) {}).ok());
  ASSERT_TRUE(stream.record(after).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(after.elapsedNsSince(before).value(), 0);
}

TEST_F(HostCallTest, WhatItReturnsOrThrowsIsAFailureOfTheStream) {
  ASSERT_TRUE(stream.callHost([] { return unavailable("no more data"); }, "next batch").ok());
  std::atomic<bool> ran{false};
  ASSERT_TRUE(stream
                  .callHost([&] {
                    ran = true;
                    return okStatus();
                  })
                  .ok());
  Status failed = stream.synchronize();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.message(), HasSubstr("no more data"));
  EXPECT_THAT(failed.message(), HasSubstr("next batch"));
  EXPECT_FALSE(ran);

  ASSERT_TRUE(stream.callHost([]() -> Status { throw std::runtime_error("by hand"); }).ok());
  failed = stream.synchronize();
  EXPECT_EQ(failed.code(), StatusCode::kUnknown);
  EXPECT_THAT(failed.message(), HasSubstr("by hand"));
  ASSERT_TRUE(stream.callHost([] { return okStatus(); }).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(HostCallTest, ManyFromManyThreadsComeInTheOrderOfEachStream) {
  constexpr int kThreads = 4, kCalls = 200;
  std::vector<std::vector<int>> orders(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Stream own = Stream::create(device, {"thread"}).value();
      auto& order = orders[static_cast<size_t>(t)];  // The functions of a device follow each other.
      for (int i = 0; i < kCalls; ++i) {
        if (i % 3 == 0)
          EXPECT_TRUE(own.callHost([&order, i] {
                           order.push_back(i);
                           return okStatus();
                         })
                          .ok());
        else
          EXPECT_TRUE(own.onDone([&order, i](const Status& status) {
                           EXPECT_TRUE(status.ok());
                           order.push_back(i);
                         })
                          .ok());
      }
      // What was told before this has returned.
      EXPECT_TRUE(own.callHost([] { return okStatus(); }).ok());
      EXPECT_TRUE(own.synchronize().ok());
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& order : orders) {
    ASSERT_EQ(order.size(), static_cast<size_t>(kCalls));
    for (int i = 0; i < kCalls; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST_F(HostCallTest, CompletionsHearOfTheFailureAndLeaveIt) {
  std::promise<Status> first, second;
  ASSERT_TRUE(stream.callHost([] { return dataLoss("broken"); }).ok());
  ASSERT_TRUE(stream.onDone([&](const Status& status) { first.set_value(status); }).ok());
  EXPECT_EQ(first.get_future().get().code(), StatusCode::kDataLoss);
  EXPECT_EQ(stream.error().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(stream.onDone([&](const Status& status) { second.set_value(status); }).ok());
  EXPECT_EQ(second.get_future().get().code(), StatusCode::kDataLoss);
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kDataLoss);
}

TEST_F(HostCallTest, AnEventTellsWhenItIsDoneWhateverComesLater) {
  Event event, never;
  auto stuck = std::make_shared<ExternalProbe>("stuck");
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(stream.enqueue(stuck).ok());
  std::promise<Status> told;
  ASSERT_TRUE(event.onDone([&](const Status& status) { told.set_value(status); }).ok());
  std::future<Status> future = told.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_TRUE(future.get().ok());
  bool at_once = false;
  ASSERT_TRUE(never.onDone([&](const Status& status) { at_once = status.ok(); }).ok());
  EXPECT_TRUE(at_once);
  ASSERT_TRUE(stuck->awaitStart());
  stuck->complete(okStatus(), 0);
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(HostCallTest, MustNotWaitForADevice) {
  Stream other = Stream::create(device, {"other"}).value();
  Event event;
  Status waited, ofEvent, ofDevice;
  ASSERT_TRUE(stream
                  .callHost([&] {
                    // Behind this function on its own stream: a wait would never end.
                    EXPECT_TRUE(stream.record(event).ok());
                    waited = stream.synchronize();
                    ofEvent = event.synchronize();
                    ofDevice = device.synchronize();
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream.synchronize(60000).ok());
  for (const Status& status : {waited, ofEvent, ofDevice}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("must not wait"));
  }
}

TEST_F(HostCallTest, MayEnqueueMore) {
  std::promise<void> second;
  ASSERT_TRUE(
      stream.onDone([&](const Status&) { EXPECT_TRUE(stream.onDone([&](const Status&) { second.set_value(); }).ok()); })
          .ok());
  EXPECT_EQ(second.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST_F(HostCallTest, CannotBeCaptured) {
  for (bool host : {true, false}) {
    auto session = CaptureSession::begin(stream);
    ASSERT_TRUE(session.ok());
    Status refused = host ? stream.callHost([] { return okStatus(); }) : stream.onDone([](const Status&) {});
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr(host ? "Stream::callHost" : "Stream::onDone"));
    EXPECT_FALSE(session->end().ok());
  }
  EXPECT_EQ(stream.callHost({}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stream.onDone({}).code(), StatusCode::kInvalidArgument);
}

TEST_F(HostCallTest, AResetEndsWhatWaitsAndCallsNoMoreOfIt) {
  Stream busy = Stream::create(device, {"busy"}).value();
  std::promise<void> running, go;
  ASSERT_TRUE(busy.callHost([&] {
                    running.set_value();
                    go.get_future().wait();
                    return okStatus();
                  })
                  .ok());
  running.get_future().wait();
  std::atomic<int> calls{0};
  std::promise<Status> told;
  ASSERT_TRUE(stream
                  .callHost([&] {
                    ++calls;
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream.onDone([&](const Status& status) { told.set_value(status); }).ok());
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    go.set_value();
  });
  EXPECT_TRUE(device.reset(60000).ok());
  later.join();
  EXPECT_EQ(told.get_future().get().code(), StatusCode::kCancelled);
  EXPECT_EQ(calls, 0);
  ASSERT_TRUE(stream.callHost([] { return okStatus(); }).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST(HostCallLife, AFunctionMayHoldTheLastHandleOfItsDevice) {
  std::promise<void> gone;
  {
    std::optional<Device> device = openDevice();
    std::optional<Stream> stream = Stream::create(*device, {"last"}).value();
    struct Last {
      Device device;
      Stream stream;
      std::promise<void>& gone;
      ~Last() {
        stream = Stream();
        device = Device();
        gone.set_value();
      }
    };
    std::promise<void> go;
    auto last = std::make_shared<Last>(*device, *stream, gone);
    ASSERT_TRUE(stream->onDone([last, &go](const Status&) { go.get_future().wait(); }).ok());
    last.reset();
    stream.reset();
    device.reset();
    go.set_value();
    ASSERT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  }
  // It is closed, so it can be opened anew, also as another type.
  DeviceOptions options;
  options.index = 0;
  options.target = Target::kGaudi3;
  for (int i = 0;; ++i) {
    auto again = Device::open(options);
    if (again.ok()) break;
    ASSERT_LT(i, 1000) << again.status().message();
    std::this_thread::sleep_for(milliseconds(10));
  }
}

}  // namespace
}  // namespace hpu
