// SPDX-License-Identifier: Apache-2.0
// Stream::copyFromDevice: bytes, order, errors, and the device time of the link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ExternalProbe.h"
#include "SmallDevice.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/node.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;
using testing::openSmall;
using testing::Side;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kPageBytes = 4096;

std::vector<uint8_t> pattern(int64_t bytes, int seed) {
  std::vector<uint8_t> data(static_cast<size_t>(bytes));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31 + i / 251 + static_cast<size_t>(seed));
  return data;
}

TEST(CopyFromDevice, MovesAnyBytesFromAnyOffsetAndNothingElse) {
  Side to(0), from(1);
  const std::vector<uint8_t> there = pattern(3 * kMiB + 17, 5), here = pattern(3 * kMiB + 40, 99);
  Buffer src = from.put(there);
  struct Case {
    int64_t dst, src, bytes;
  };
  for (const Case& c : {Case{0, 0, 3 * kMiB + 17}, Case{13, 7, 1}, Case{1, 4095, 4097}, Case{4096, 1, 131073},
                        Case{40, 17, 3 * kMiB}, Case{5, 3 * kMiB + 17, 0}}) {
    SCOPED_TRACE(c.bytes);
    Buffer dst = to.put(here);
    ASSERT_TRUE(to.stream.copyFromDevice(dst, c.dst, src, c.src, c.bytes).ok());
    std::vector<uint8_t> expected = here;
    std::copy_n(there.begin() + c.src, c.bytes, expected.begin() + c.dst);
    EXPECT_TRUE(to.get(dst) == expected);
  }
  EXPECT_TRUE(from.get(src) == there);
}

TEST(CopyFromDevice, WhatWasNeverWrittenArrivesAsZeros) {
  Side to(0), from(1);
  // Pages of the source that were never written before, between and behind some that were.
  Buffer src = from.device.allocate(20 * kPageBytes).value();
  ASSERT_TRUE(from.stream.fill(src, 7, 100, 5 * kPageBytes + 3).ok());
  ASSERT_TRUE(from.stream.fill(src, 9, 3 * kPageBytes, 12 * kPageBytes).ok());
  const std::vector<uint8_t> expected = from.get(src);
  Buffer dst = to.put(pattern(20 * kPageBytes, 1));
  ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 20 * kPageBytes).ok());
  EXPECT_TRUE(to.get(dst) == expected);
  // Zeros that begin and end anywhere in the pages of the destination.
  const std::vector<uint8_t> before = pattern(20 * kPageBytes, 2);
  struct Case {
    int64_t dst, src, bytes;
  };
  for (const Case& c : {Case{13, 0, 19 * kPageBytes}, Case{256, 100, 1000}, Case{4000, kPageBytes, 97},
                        Case{4000, kPageBytes, 96 + kPageBytes}, Case{1, 2, 3 * kPageBytes}}) {
    SCOPED_TRACE(c.dst);
    Buffer other = to.put(before);
    ASSERT_TRUE(to.stream.copyFromDevice(other, c.dst, src, c.src, c.bytes).ok());
    std::vector<uint8_t> both = before;
    std::copy_n(expected.begin() + c.src, c.bytes, both.begin() + c.dst);
    EXPECT_TRUE(to.get(other) == both);
  }
}

TEST(CopyFromDevice, RunsInBothDirectionsAtOnce) {
  Side a(0), b(1);
  const std::vector<uint8_t> ofA = pattern(2 * kMiB + 1, 1), ofB = pattern(2 * kMiB + 1, 2);
  Buffer aSrc = a.put(ofA), bSrc = b.put(ofB);
  Buffer aDst = a.device.allocate(2 * kMiB + 1).value(), bDst = b.device.allocate(2 * kMiB + 1).value();
  std::thread other([&] {
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(a.stream.copyFromDevice(aDst, 0, bSrc, 0, 2 * kMiB + 1).ok());
    EXPECT_TRUE(a.stream.synchronize().ok());
  });
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(b.stream.copyFromDevice(bDst, 0, aSrc, 0, 2 * kMiB + 1).ok());
  EXPECT_TRUE(b.stream.synchronize().ok());
  other.join();
  EXPECT_TRUE(a.get(aDst) == ofB);
  EXPECT_TRUE(b.get(bDst) == ofA);
}

TEST(CopyFromDevice, ComesAfterAnEventOfTheOtherDevice) {
  Side to(0), from(1);
  Buffer src = from.device.allocate(1000).value(), dst = to.device.allocate(1000).value();
  std::atomic<bool> written{false};
  ASSERT_TRUE(from.stream.fill(src, 1, 1000).ok());
  ASSERT_TRUE(from.stream
                  .callHost([&] {
                    while (!written.load()) std::this_thread::yield();
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(from.stream.fill(src, 2, 1000).ok());
  Event ready, end;
  ASSERT_TRUE(from.stream.record(ready).ok());
  ASSERT_TRUE(to.stream.wait(ready).ok());
  ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 1000).ok());
  ASSERT_TRUE(to.stream.record(end).ok());
  EXPECT_FALSE(end.query().value());
  written = true;
  EXPECT_TRUE(to.get(dst) == std::vector<uint8_t>(1000, 2));
  EXPECT_GE(end.deviceTimeNs().value(), ready.deviceTimeNs().value());
}

// 24 ports of 100 Gbit/s, three of them to each other device; packets of 8 KiB with 82 bytes around them and 86 for
// their acknowledgement, and 16 more for a message.
constexpr double kBytesPerNs = 37.5;
double linkNs(int64_t bytes) {
  const int64_t packets = (bytes + 8191) / 8192;
  return static_cast<double>(bytes + packets * (82 + 86) + 16) / kBytesPerNs + 10;
}
constexpr double kStartNs = 500, kMessageNs = 1500;

int64_t elapsedNs(Stream& stream, const std::function<void()>& work) {
  Event start, end;
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(stream.record(start).ok());
  work();
  EXPECT_TRUE(stream.record(end).ok());
  EXPECT_TRUE(stream.synchronize().ok());
  return end.elapsedNsSince(start).value();
}

TEST(CopyFromDevice, TakesTheDeviceTimeOfAMessageOverTheLink) {
  Side to(0), from(1);
  Buffer src = from.device.allocate(16 * kMiB).value(), dst = to.device.allocate(16 * kMiB).value();
  for (int64_t bytes : {int64_t{1}, int64_t{8192}, int64_t{8193}, kMiB, 16 * kMiB}) {
    const int64_t took =
        elapsedNs(to.stream, [&] { ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, bytes).ok()); });
    EXPECT_NEAR(static_cast<double>(took), kStartNs + linkNs(bytes) + kMessageNs, 1.01) << bytes;
  }
}

TEST(CopyFromDevice, CopiesFromOneDeviceShareItsLinkAndThoseFromTwoDoNot) {
  Side to(0), one(1), two(2);
  Stream other = Stream::create(to.device).value();
  Buffer srcOne = one.device.allocate(4 * kMiB).value(), srcTwo = two.device.allocate(4 * kMiB).value();
  Buffer dst = to.device.allocate(8 * kMiB).value();
  const auto both = [&](const Buffer& second) {
    return elapsedNs(to.stream, [&] {
      Event begin, joined;
      ASSERT_TRUE(to.stream.record(begin).ok());
      ASSERT_TRUE(other.wait(begin).ok());
      ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, srcOne, 0, 4 * kMiB).ok());
      ASSERT_TRUE(other.copyFromDevice(dst, 4 * kMiB, second, 0, 4 * kMiB).ok());
      ASSERT_TRUE(other.record(joined).ok());
      ASSERT_TRUE(to.stream.wait(joined).ok());
    });
  };
  EXPECT_NEAR(static_cast<double>(both(srcOne)), kStartNs + 2 * linkNs(4 * kMiB) + kMessageNs, 2.01);
  EXPECT_NEAR(static_cast<double>(both(srcTwo)), kStartNs + linkNs(4 * kMiB) + kMessageNs, 2.01);
}

TEST(CopyFromDevice, IsCountedAtBothEndsOfTheLink) {
  Side to(3), from(5);
  Buffer src = from.device.allocate(kMiB).value(), dst = to.device.allocate(kMiB).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 10000).ok());
  ASSERT_TRUE(to.stream.synchronize().ok());
  // The owner's service answers a moment later when the machine is loaded.
  node::NodeStatus status;
  for (int i = 0; i < 600; ++i) {
    status = node::query().value();
    if (status.devices[3].links[5].received.messages == 3) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const node::PortTraffic &received = status.devices[3].links[5].received, &sent = status.devices[5].links[3].sent;
  EXPECT_EQ(received, sent);
  EXPECT_EQ(received.messages, 3);
  EXPECT_EQ(received.packets, 6);
  EXPECT_EQ(received.payloadBytes, 30000);
  EXPECT_EQ(received.bytes, 3 * (10000 + 2 * (82 + 86) + 16));
  EXPECT_NEAR(static_cast<double>(received.busyPs), 3 * linkNs(10000) * 1000, 4);
  EXPECT_EQ(status.devices[3].links[5].sent.messages, 0);
}

TEST(CopyFromDevice, IsACopyOnTheDeviceWhenBothAreOne) {
  Side to(0);
  const std::vector<uint8_t> data = pattern(5000, 4);
  Buffer src = to.put(data), dst = to.device.allocate(5000).value();
  ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 5000).ok());
  EXPECT_TRUE(to.get(dst) == data);
}

TEST(CopyFromDevice, RefusesWhatIsWrongAtOnce) {
  Side to(0), from(1), null(2, "null");
  Buffer src = from.device.allocate(1000).value(), dst = to.device.allocate(1000).value();
  EXPECT_EQ(Stream().copyFromDevice(dst, 0, src, 0, 1).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(to.stream.copyFromDevice(Buffer(), 0, src, 0, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(to.stream.copyFromDevice(dst, 0, Buffer(), 0, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(to.stream.copyFromDevice(src, 0, dst, 0, 1).code(), StatusCode::kInvalidArgument);
  for (auto [d, s, n] : std::vector<std::array<int64_t, 3>>{{0, 0, 1001},
                                                            {1, 0, 1000},
                                                            {0, 1, 1000},
                                                            {-1, 0, 1},
                                                            {0, -1, 1},
                                                            {0, 0, -1},
                                                            {INT64_MAX, 0, 1},
                                                            {0, INT64_MAX, INT64_MAX}})
    EXPECT_EQ(to.stream.copyFromDevice(dst, d, src, s, n).code(), StatusCode::kOutOfRange) << d << " " << s << " " << n;
  Buffer nothing = null.device.allocate(1000).value();
  const Status drivers = to.stream.copyFromDevice(dst, 0, nothing, 0, 1000);
  EXPECT_EQ(drivers.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(drivers.message(), HasSubstr("'null'"));
  EXPECT_TRUE(to.stream.synchronize().ok());
}

TEST(CopyFromDevice, NullDevicesAcceptItAndTakeTheSameTime) {
  Side to(0, "null"), from(1, "null");
  Buffer src = from.device.allocate(kMiB).value(), dst = to.device.allocate(kMiB).value();
  const int64_t took = elapsedNs(to.stream, [&] { ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, kMiB).ok()); });
  EXPECT_NEAR(static_cast<double>(took), kStartNs + linkNs(kMiB) + kMessageNs, 1.01);
}

TEST(CopyFromDevice, IsRefusedInACapture) {
  Side to(0), from(1);
  Buffer src = from.device.allocate(1000).value(), dst = to.device.allocate(1000).value();
  CaptureSession session = CaptureSession::begin(to.stream).value();
  const Status status = to.stream.copyFromDevice(dst, 0, src, 0, 1000);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("copyFromDevice"));
  EXPECT_FALSE(session.end().ok());
  EXPECT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 1000).ok());
  EXPECT_TRUE(to.stream.synchronize().ok());
}

TEST(CopyFromDevice, KeepsMemoryAndDevicesUntilItIsDone) {
  std::vector<uint8_t> out(100000);
  const std::vector<uint8_t> data = pattern(100000, 8);
  std::atomic<bool> open{false};
  {
    Side to(0);
    {
      Side from(1);
      Buffer src = from.put(data), dst = to.device.allocate(100000).value();
      ASSERT_TRUE(to.stream
                      .callHost([&] {
                        while (!open.load()) std::this_thread::yield();
                        return okStatus();
                      })
                      .ok());
      ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 100000).ok());
      ASSERT_TRUE(to.stream.copyToHost(out.data(), dst, 100000).ok());
    }
    open = true;
    EXPECT_TRUE(to.stream.synchronize().ok());
    EXPECT_TRUE(out == data);
    EXPECT_EQ(to.device.memoryInfo().allocations, 0);
  }
  // Both devices are free again: the last share of the source went with the copy.
  Side again(0);
  DeviceOptions options;
  options.index = 1;
  options.hbmBytes = 64 * kMiB;
  StatusOr<Device> source = Device::open(options);
  for (int i = 0; i < 1000 && !source.ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    source = Device::open(options);
  }
  EXPECT_TRUE(source.ok()) << source.status().toString();
}

TEST(CopyFromDevice, TwoDevicesThatOnlyTheirCopiesKeepCloseEachOther) {
  for (int round = 0; round < 20; ++round) {
    Side a(0), b(1);
    Buffer x = a.device.allocate(300000).value(), y = b.device.allocate(300000).value();
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(a.stream.copyFromDevice(x, 0, y, 0, 300000).ok());
      ASSERT_TRUE(b.stream.copyFromDevice(y, 0, x, 0, 300000).ok());
    }
  }
}

TEST(CopyFromDevice, IsSkippedOnAStreamThatHasFailed) {
  Side to(0), from(1);
  const std::vector<uint8_t> before = pattern(1000, 3);
  Buffer src = from.put(pattern(1000, 4)), dst = to.put(before);
  ASSERT_TRUE(to.stream.callHost([] { return dataLoss("the cause"); }).ok());
  ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 1000).ok());
  const Status failure = to.stream.synchronize();
  EXPECT_EQ(failure.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(to.get(dst) == before);
}

TEST(CopyFromDevice, AResetOfEitherDeviceEndsIt) {
  Side to(0), from(1);
  Buffer src = from.device.allocate(1000).value(), dst = to.device.allocate(1000).value();
  for (Side* reset : {&to, &from}) {
    auto gate = std::make_shared<testing::ExternalProbe>();
    std::shared_ptr<ExternalTurn> turn;
    gate->onCancel = [&](const Status& why) { turn->complete(why, 0); };
    gate->onStartShared = [&](std::shared_ptr<ExternalTurn> mine) { turn = std::move(mine); };
    gate->inEnqueue = true;
    ASSERT_TRUE(reset->stream.enqueue(gate).ok());
    Event ready;
    ASSERT_TRUE(reset->stream.record(ready).ok());
    ASSERT_TRUE(to.stream.wait(ready).ok());
    Event copied;
    ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 1000).ok());
    ASSERT_TRUE(to.stream.record(copied).ok());
    ASSERT_TRUE(reset->device.reset().ok());
    const Status failure = copied.synchronize();
    EXPECT_FALSE(failure.ok());
    EXPECT_THAT(failure.message(), HasSubstr("reset"));
    to.stream.synchronize().ignore();
    from.stream.synchronize().ignore();
    // And both go on.
    ASSERT_TRUE(to.stream.copyFromDevice(dst, 0, src, 0, 1000).ok());
    EXPECT_TRUE(to.stream.synchronize().ok());
  }
}

}  // namespace
}  // namespace hpu
