// SPDX-License-Identifier: Apache-2.0
// Copies and fills by device address, many at once, and with host memory that the device knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

class CopyByAddressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
    stream = Stream::create(device).value();
    buffer = device.allocate(4000, "table").value();
    base = buffer.address();
  }
  template <typename T>
  std::vector<T> download(uint64_t address, int64_t count) {
    std::vector<T> data(count);
    EXPECT_TRUE(stream.copyToHost(data.data(), address, count * static_cast<int64_t>(sizeof(T))).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return data;
  }

  Device device;
  Stream stream;
  Buffer buffer;
  uint64_t base = 0;
};

TEST_F(CopyByAddressTest, CopiesInOnAndOut) {
  std::vector<int> data(500);
  std::iota(data.begin(), data.end(), 0);
  ASSERT_TRUE(stream.copyToDevice(base, data.data(), 2000).ok());
  ASSERT_TRUE(stream.copyOnDevice(base + 2000, base, 2000).ok());
  ASSERT_TRUE(stream.copyOnDevice(base, base + 40, 400).ok());  // Overlapping.
  EXPECT_EQ(download<int>(base + 2000, 500), data);
  EXPECT_EQ(download<int>(base, 1)[0], 10);
}

TEST_F(CopyByAddressTest, FillsPatternsOfOneTwoAndFourBytes) {
  ASSERT_TRUE(stream.fill(base, 0x1234567a, 1, 4000).ok());
  EXPECT_EQ(download<uint8_t>(base, 4000), std::vector<uint8_t>(4000, 0x7a));
  ASSERT_TRUE(stream.fill(base + 2, 0x12345678, 2, 1001).ok());
  EXPECT_EQ(download<uint16_t>(base + 2, 1001), std::vector<uint16_t>(1001, 0x5678));
  EXPECT_EQ(download<uint8_t>(base + 2004, 1)[0], 0x7a);
  ASSERT_TRUE(stream.fill(base + 4, 0x12345678, 4, 900).ok());
  EXPECT_EQ(download<uint32_t>(base + 4, 900), std::vector<uint32_t>(900, 0x12345678));
  EXPECT_EQ(stream.fill(base, 0, 3, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stream.fill(base, 0, 4, -1).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(stream.fill(base, 0, 4, INT64_MAX / 2).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(stream.fill(base, 0, 4, 1001).code(), StatusCode::kOutOfRange);
}

TEST_F(CopyByAddressTest, LargeFillsRepeatThePatternInEveryChunk) {
  constexpr int64_t kCount = 9 * kMiB / 2 + 77;
  Buffer large = device.allocate(2 * kCount).value();
  ASSERT_TRUE(stream.fill(large.address(), 0xabcd, 2, kCount).ok());
  EXPECT_EQ(download<uint16_t>(large.address(), kCount), std::vector<uint16_t>(kCount, 0xabcd));
}

TEST_F(CopyByAddressTest, WrongRangesAreRefusedAtOnce) {
  std::vector<char> data(8000);
  Status status = stream.copyToDevice(base + 100, data.data(), 3901);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("'table', 4000 bytes at"));
  EXPECT_EQ(stream.copyToHost(data.data(), base - 1, 1).code(), StatusCode::kNotFound);
  EXPECT_EQ(stream.copyToHost(data.data(), base + 4000, 1).code(), StatusCode::kNotFound);
  EXPECT_EQ(stream.copyOnDevice(base, base + 1, 4000).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(stream.copyToDevice(base, nullptr, 4).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stream.copyToDevice(base, data.data(), -4).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(stream.copyToDevice(0, nullptr, 0).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(CopyByAddressTest, FindGivesTheAllocationThatContainsAnAddress) {
  EXPECT_EQ(device.find(base + 3999).value().state(), buffer.state());
  EXPECT_EQ(device.find(base).value().size(), 4000);
  EXPECT_EQ(device.find(base + 4000).status().code(), StatusCode::kNotFound);
  buffer = Buffer();
  EXPECT_EQ(device.find(base).status().code(), StatusCode::kNotFound);
}

TEST_F(CopyByAddressTest, RequestedAddressesAreGivenOrNamed) {
  uint64_t wanted = base + kMiB;
  Buffer there = device.allocate(1000, AllocateOptions{"there", wanted}).value();
  EXPECT_EQ(there.address(), wanted);
  Status taken = device.allocate(1000, AllocateOptions{"late", wanted + 768}).status();
  EXPECT_EQ(taken.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(taken.message(), HasSubstr("'there', 1000 bytes"));
  EXPECT_EQ(device.allocate(10, AllocateOptions{"", wanted + 7}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device.allocate(10, AllocateOptions{"", 256}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(device.allocate(64 * kMiB, AllocateOptions{"", wanted}).status().code(), StatusCode::kOutOfRange);
  there = Buffer();
  EXPECT_EQ(device.allocate(4096, AllocateOptions{"", wanted}).value().address(), wanted);
}

TEST_F(CopyByAddressTest, ManyCopiesAreOnePieceOfWork) {
  std::vector<int> data(1000), out(1000, -1);
  std::iota(data.begin(), data.end(), 0);
  std::vector<CopyRange> in, back;
  for (int i = 0; i < 10; ++i) {
    auto at = static_cast<uint64_t>(i) * 400;
    in.push_back({base + 3600 - at, reinterpret_cast<uintptr_t>(data.data()) + at, 400});
    back.push_back({reinterpret_cast<uintptr_t>(out.data()) + at, base + at, 400});
  }
  ASSERT_TRUE(stream.copyMany(CopyDirection::kToDevice, in).ok());
  ASSERT_TRUE(stream.copyMany(CopyDirection::kToHost, back).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(out[i], (9 - i / 100) * 100 + i % 100);
  EXPECT_EQ(device.counters().h2dBytes, 4000);
  ASSERT_TRUE(stream.copyMany(CopyDirection::kOnDevice, {{base, base + 400, 8}, {base + 8, base, 0}}).ok());
  EXPECT_EQ(download<int>(base, 1)[0], 800);
  Status status = stream.copyMany(CopyDirection::kOnDevice, {{base, base, 8}, {base, 8, 8}});
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("copy 1"));
}

/// Device time of copies in three directions on three streams is that of the longest, not the sum.
TEST_F(CopyByAddressTest, DirectionsOverlap) {
  constexpr int64_t kBytes = 8 * kMiB;
  std::vector<char> in(kBytes, 1), out(kBytes);
  Buffer a = device.allocate(kBytes).value(), b = device.allocate(kBytes).value(), c = device.allocate(kBytes).value(),
         d = device.allocate(kBytes).value();
  std::vector<Stream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(Stream::create(device).value());
  auto copy = [&](int direction) {
    switch (direction) {
      case 0:
        return streams[0].copyToDevice(a.address(), in.data(), kBytes);
      case 1:
        return streams[1].copyToHost(out.data(), b.address(), kBytes);
      default:
        return streams[2].copyOnDevice(c.address(), d.address(), kBytes);
    }
  };
  int64_t alone[3], longest = 0, sum = 0;
  for (int i = 0; i < 3; ++i) {
    Event start, end;
    ASSERT_TRUE(streams[i].record(start).ok());
    ASSERT_TRUE(copy(i).ok());
    ASSERT_TRUE(streams[i].record(end).ok());
    ASSERT_TRUE(streams[i].synchronize().ok());
    alone[i] = end.elapsedNsSince(start).value();
    ASSERT_GT(alone[i], 0);
    longest = std::max(longest, alone[i]);
    sum += alone[i];
  }
  int64_t before = device.counters().deviceNs;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(copy(i).ok());
  ASSERT_TRUE(device.synchronize().ok());
  int64_t together = device.counters().deviceNs - before;
  EXPECT_LT(together, longest + longest / 50);
  EXPECT_GT(sum, longest + longest / 2);
}

TEST_F(CopyByAddressTest, HostMemoryIsFoundUntilItIsFreed) {
  HostMemory host = device.allocateHost(10000, "staging").value();
  EXPECT_EQ(device.findHost(static_cast<char*>(host.data) + 9999).value().label, "staging");
  EXPECT_EQ(device.findHost(static_cast<char*>(host.data) + 10000).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(stream.copyToDevice(base, static_cast<char*>(host.data) + 9000, 1001).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(device.unmapHost(host.data).code(), StatusCode::kNotFound);
  EXPECT_EQ(device.freeHost(static_cast<char*>(host.data) + 1).code(), StatusCode::kNotFound);
  EXPECT_TRUE(device.freeHost(host.data).ok());
  EXPECT_EQ(device.freeHost(host.data).code(), StatusCode::kNotFound);
  EXPECT_EQ(device.allocateHost(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device.allocateHost(int64_t{1} << 60).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(CopyByAddressTest, FreeingHostMemoryIsInOrderWithTheCopies) {
  Buffer large = device.allocate(8 * kMiB).value();
  for (int i = 1; i <= 5; ++i) {
    HostMemory host = device.allocateHost(8 * kMiB).value();
    auto* bytes = static_cast<unsigned char*>(host.data);
    std::fill(bytes, bytes + host.bytes, static_cast<unsigned char>(i));
    ASSERT_TRUE(stream.copyToDevice(large.address(), host.data, host.bytes).ok());
    ASSERT_TRUE(device.freeHost(host.data).ok());
    ASSERT_EQ(download<uint8_t>(large.address() + 8 * kMiB - 1, 1)[0], i);
  }
}

TEST_F(CopyByAddressTest, MappedMemoryIsNotUnmappedUnderACopy) {
  std::vector<char> data(4000, 7);
  ASSERT_TRUE(device.mapHost(data.data(), 4000, "mine").ok());
  EXPECT_EQ(device.mapHost(data.data() + 3999, 1).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(device.mapHost(nullptr, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device.freeHost(data.data()).code(), StatusCode::kNotFound);
  ASSERT_TRUE(stream.copyToDevice(base, data.data(), 4000).ok());
  Status early = device.unmapHost(data.data());
  if (!early.ok()) {
    EXPECT_EQ(early.code(), StatusCode::kFailedPrecondition);
    ASSERT_TRUE(stream.synchronize().ok());
    EXPECT_TRUE(device.unmapHost(data.data()).ok());
  }
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(device.unmapHost(data.data()).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace hpu
