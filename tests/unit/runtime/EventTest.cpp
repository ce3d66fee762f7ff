// SPDX-License-Identifier: Apache-2.0
#include "hpu/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "SmallDevice.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;
using testing::openSmall;

constexpr int64_t kMiB = 1 << 20;

TEST(Event, NeverRecordedIsDoneAndHasNoTime) {
  Event event;
  EXPECT_TRUE(event.query().value());
  EXPECT_TRUE(event.synchronize(0).ok());
  EXPECT_EQ(event.deviceTimeNs().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(event.elapsedNsSince(Event()).status().code(), StatusCode::kFailedPrecondition);
}

TEST(Event, ElapsedIsDeviceTimeOfTheWorkBetween) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(32 * kMiB).value();
  std::vector<uint8_t> data(32 * kMiB);
  Event start, middle, end;
  ASSERT_TRUE(stream.record(start).ok());
  ASSERT_TRUE(stream.copyToDevice(buffer, data.data(), 16 * kMiB).ok());
  ASSERT_TRUE(stream.record(middle).ok());
  ASSERT_TRUE(stream.copyToDevice(buffer, data.data(), 32 * kMiB).ok());
  ASSERT_TRUE(stream.record(end).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  int64_t one = middle.elapsedNsSince(start).value(), two = end.elapsedNsSince(middle).value();
  // 16 MiB over 31.5 GB/s less protocol: between 500 and 1000 us.
  EXPECT_GT(one, 500000);
  EXPECT_LT(one, 1000000);
  EXPECT_NEAR(static_cast<double>(two) / static_cast<double>(one), 2.0, 0.01);
  EXPECT_EQ(end.elapsedNsSince(start).value(), one + two);
  EXPECT_EQ(start.elapsedNsSince(end).value(), -(one + two));
}

TEST(Event, RecordingAgainReplacesIt) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(kMiB).value();
  Event event;
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(event.synchronize().ok());
  int64_t before = event.deviceTimeNs().value();
  ASSERT_TRUE(stream.fill(buffer, 1, kMiB).ok());
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(event.synchronize().ok());
  EXPECT_GT(event.deviceTimeNs().value(), before);
}

TEST(Event, OutlivesItsStream) {
  Device device = openSmall();
  Event event;
  {
    Stream stream = Stream::create(device).value();
    Buffer buffer = device.allocate(kMiB).value();
    ASSERT_TRUE(stream.fill(buffer, 1, kMiB).ok());
    ASSERT_TRUE(stream.record(event).ok());
  }
  ASSERT_TRUE(event.synchronize().ok());
  EXPECT_TRUE(event.query().value());
  EXPECT_GT(event.deviceTimeNs().value(), 0);
}

TEST(Event, OldEventKeepsItsTimeWhileMuchElseHappens) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(kMiB).value();
  Event old;
  ASSERT_TRUE(stream.fill(buffer, 1, kMiB).ok());
  ASSERT_TRUE(stream.record(old).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  int64_t time = old.deviceTimeNs().value();
  for (int i = 0; i < 20000; ++i) ASSERT_TRUE(stream.fill(buffer, 1, 16).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(old.deviceTimeNs().value(), time);
}

TEST(Event, ElapsedBetweenDevicesIsRefused) {
  Device first = openSmall(0), second = openSmall(1);
  Stream a = Stream::create(first).value(), b = Stream::create(second).value();
  Event start, end;
  ASSERT_TRUE(a.record(start).ok());
  ASSERT_TRUE(b.record(end).ok());
  ASSERT_TRUE(a.synchronize().ok());
  ASSERT_TRUE(b.synchronize().ok());
  EXPECT_EQ(end.elapsedNsSince(start).status().code(), StatusCode::kInvalidArgument);
}

TEST(Event, ACallIsAboutOneRecordWhileAnotherThreadMakesMore) {
  Device device = openSmall();
  Stream plain = Stream::create(device, {"plain"}).value(), captured = Stream::create(device, {"captured"}).value();
  Event event;
  std::atomic<bool> stop{false};
  // In a capture and outside of one in turn: a call that looked twice would mix the two.
  std::thread recording([&] {
    while (!stop) {
      CaptureSession session = CaptureSession::begin(captured).value();
      EXPECT_TRUE(captured.record(event).ok());
      const Status ended = session.end().status();
      if (!ended.ok()) EXPECT_THAT(ended.message(), HasSubstr("Event::"));
      EXPECT_TRUE(plain.record(event).ok());
    }
  });
  std::atomic<int> told{0};
  int wanted = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < until) {
    const Status asked = event.onDone([&](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.message();
      ++told;
    });
    if (asked.ok())
      ++wanted;
    else
      EXPECT_THAT(asked.message(), HasSubstr("Event::onDone"));
    const Status waited = event.synchronize(60000);
    if (!waited.ok()) EXPECT_THAT(waited.message(), HasSubstr("Event::synchronize"));
    if (::testing::Test::HasFailure()) break;
  }
  stop = true;
  recording.join();
  for (int i = 0; i < 60000 && told < wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(told, wanted);
  EXPECT_GT(wanted, 0);
}

}  // namespace
}  // namespace hpu
