// SPDX-License-Identifier: Apache-2.0
#include "hpu/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "SmallDevice.h"
#include "hpu/device.h"
#include "hpu/event.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;
using testing::openSmall;

constexpr int64_t kMiB = 1 << 20;

TEST(Stream, CopiesInOnAndOut) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  std::vector<int> data(100000), out(100000, -1);
  std::iota(data.begin(), data.end(), 0);
  Buffer a = device.allocate(400000).value(), b = device.allocate(400000).value();
  ASSERT_TRUE(stream.copyToDevice(a, data.data(), 400000).ok());
  ASSERT_TRUE(stream.copyOnDevice(b, 0, a, 0, 400000).ok());
  // Swap the halves on the way out.
  ASSERT_TRUE(stream.copyToHost(out.data(), b, 200000, 200000).ok());
  ASSERT_TRUE(stream.copyToHost(out.data() + 50000, b, 200000, 0).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  for (int i = 0; i < 100000; ++i) ASSERT_EQ(out[i], (i + 50000) % 100000);
}

TEST(Stream, FillTakesAByteAndARange) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(1000).value();
  std::vector<uint8_t> out(1000);
  ASSERT_TRUE(stream.fill(buffer, 1, 1000).ok());
  ASSERT_TRUE(stream.fill(buffer, 0xfe, 10, 500).ok());
  ASSERT_TRUE(stream.copyToHost(out.data(), buffer, 1000).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(out[i], i >= 500 && i < 510 ? 0xfe : 1);
}

TEST(Stream, RangesOutsideOfTheBufferAreRefusedAtOnce) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(1000).value();
  std::vector<uint8_t> data(2000);
  EXPECT_EQ(stream.copyToDevice(buffer, data.data(), 1001).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(stream.copyToDevice(buffer, data.data(), 1, 1000).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(stream.copyToHost(data.data(), buffer, 10, -1).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(stream.copyToHost(data.data(), buffer, INT64_MAX, 5).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(stream.fill(buffer, 0, -1).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(stream.copyToHost(nullptr, buffer, 10).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stream.copyToHost(data.data(), Buffer(), 10).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(stream.copyToHost(data.data(), buffer, 0, 1000).ok());
}

TEST(Stream, BufferOfAnotherDeviceIsRefused) {
  Device first = openSmall(0), second = openSmall(1);
  Stream stream = Stream::create(first).value();
  Buffer buffer = second.allocate(100).value();
  Status status = stream.fill(buffer, 0, 100);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("belongs to device 1"));
}

TEST(Stream, EmptyHandlesSaySo) {
  Stream stream;
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(stream.record(Event()).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Stream::create(Device()).status().code(), StatusCode::kFailedPrecondition);
}

TEST(Stream, FreshStreamIsDone) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  EXPECT_TRUE(stream.query().value());
  EXPECT_TRUE(stream.synchronize(0).ok());
  EXPECT_TRUE(stream.wait(Event()).ok());
}

TEST(Stream, WaitsForEventRecordedOnAnotherStream) {
  Device device = openSmall();
  Stream producer = Stream::create(device).value(), consumer = Stream::create(device).value();
  Buffer buffer = device.allocate(8 * kMiB).value();
  std::vector<uint8_t> data(8 * kMiB), out(8 * kMiB);
  for (int round = 1; round <= 20; ++round) {
    std::fill(data.begin(), data.end(), static_cast<uint8_t>(round));
    Event event;
    ASSERT_TRUE(producer.copyToDevice(buffer, data.data(), 8 * kMiB).ok());
    ASSERT_TRUE(producer.record(event).ok());
    ASSERT_TRUE(consumer.wait(event).ok());
    ASSERT_TRUE(consumer.copyToHost(out.data(), buffer, 8 * kMiB).ok());
    ASSERT_TRUE(consumer.synchronize().ok());
    ASSERT_EQ(out, data);
  }
}

TEST(Stream, WaitsForEventRecordedOnAnotherDevice) {
  Device first = openSmall(0), second = openSmall(1);
  Stream producer = Stream::create(first).value(), consumer = Stream::create(second).value();
  Buffer from = first.allocate(8 * kMiB).value(), to = second.allocate(8 * kMiB).value();
  std::vector<uint8_t> data(8 * kMiB, 42), through(8 * kMiB), out(8 * kMiB);
  Event read, end;
  ASSERT_TRUE(producer.copyToDevice(from, data.data(), 8 * kMiB).ok());
  ASSERT_TRUE(producer.copyToHost(through.data(), from, 8 * kMiB).ok());
  ASSERT_TRUE(producer.record(read).ok());
  ASSERT_TRUE(consumer.wait(read).ok());
  ASSERT_TRUE(consumer.copyToDevice(to, through.data(), 8 * kMiB).ok());
  ASSERT_TRUE(consumer.copyToHost(out.data(), to, 8 * kMiB).ok());
  ASSERT_TRUE(consumer.record(end).ok());
  ASSERT_TRUE(end.synchronize().ok());
  EXPECT_EQ(out, data);
  // Four copies one after another in device time, over two devices.
  EXPECT_NEAR(static_cast<double>(end.deviceTimeNs().value()), 2.0 * static_cast<double>(read.deviceTimeNs().value()),
              10);
}

TEST(Stream, DeviceTimeOfCopiesInOppositeDirectionsOverlaps) {
  Device device = openSmall();
  Stream in = Stream::create(device).value(), out = Stream::create(device).value();
  Buffer a = device.allocate(8 * kMiB).value(), b = device.allocate(8 * kMiB).value();
  std::vector<uint8_t> data(8 * kMiB), result(8 * kMiB);
  Event inEnd, outEnd;
  ASSERT_TRUE(in.copyToDevice(a, data.data(), 8 * kMiB).ok());
  ASSERT_TRUE(in.record(inEnd).ok());
  ASSERT_TRUE(out.copyToHost(result.data(), b, 8 * kMiB).ok());
  ASSERT_TRUE(out.record(outEnd).ok());
  ASSERT_TRUE(device.synchronize().ok());
  EXPECT_EQ(inEnd.deviceTimeNs().value(), outEnd.deviceTimeNs().value());
}

TEST(Stream, WorkStartsNoEarlierThanWhatItsThreadHasObserved) {
  Device device = openSmall();
  Stream a = Stream::create(device).value(), b = Stream::create(device).value();
  Buffer buffer = device.allocate(kMiB).value();
  std::vector<uint8_t> data(kMiB);
  ASSERT_TRUE(a.copyToDevice(buffer, data.data(), kMiB).ok());
  ASSERT_TRUE(a.synchronize().ok());
  int64_t observed = device.counters().deviceNs;
  EXPECT_GT(observed, 0);
  Event start;
  ASSERT_TRUE(b.record(start).ok());
  ASSERT_TRUE(b.synchronize().ok());
  EXPECT_EQ(start.deviceTimeNs().value(), observed);
}

TEST(Stream, EqualRunsGiveEqualDeviceTimes) {
  auto run = [] {
    Device device = openSmall(2);
    Stream a = Stream::create(device).value(), b = Stream::create(device, {"b", 1}).value();
    Buffer x = device.allocate(4 * kMiB).value(), y = device.allocate(4 * kMiB).value();
    Buffer z = device.allocate(4 * kMiB).value();
    std::vector<uint8_t> data(4 * kMiB);
    std::vector<int64_t> times;
    for (int i = 0; i < 10; ++i) {
      Event first, second;
      EXPECT_TRUE(a.copyToDevice(x, data.data(), (i + 1) * 100000).ok());
      EXPECT_TRUE(a.record(first).ok());
      if (i % 2) {
        EXPECT_TRUE(b.wait(first).ok());
      }
      EXPECT_TRUE(b.copyOnDevice(y, 0, z, 0, 4 * kMiB).ok());
      EXPECT_TRUE(b.record(second).ok());
      EXPECT_TRUE(b.synchronize().ok());
      EXPECT_TRUE(a.synchronize().ok());
      times.push_back(first.deviceTimeNs().value());
      times.push_back(second.deviceTimeNs().value());
    }
    return times;
  };
  std::vector<int64_t> first = run();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(run(), first);
}

TEST(Stream, HoldsThousandsOfOperations) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(4096).value();
  std::vector<int32_t> data(10000);
  std::iota(data.begin(), data.end(), 0);
  int32_t out = 0;
  for (int i = 0; i < 10000; ++i) ASSERT_TRUE(stream.copyToDevice(buffer, &data[i], 4).ok());
  ASSERT_TRUE(stream.copyToHost(&out, buffer, 4).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(out, 9999);
}

}  // namespace
}  // namespace hpu
