// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

Device openSmall() {
  DeviceOptions options;
  options.hbmBytes = 16 * kMiB;
  return Device::open(options).value();
}

TEST(Buffer, LastHandleFreesTheMemory) {
  Device device = openSmall();
  Buffer copy;
  {
    Buffer buffer = device.allocate(kMiB, "a").value();
    EXPECT_EQ(buffer.size(), kMiB);
    EXPECT_EQ(buffer.address() % 256, 0u);
    copy = buffer;
  }
  EXPECT_EQ(device.memoryInfo().usedBytes, kMiB);
  copy = Buffer();
  EXPECT_EQ(device.memoryInfo().usedBytes, 0);
  EXPECT_EQ(device.memoryInfo().peakBytes, kMiB);
}

TEST(Buffer, EmptyHandleHasNoAddress) {
  Buffer buffer;
  EXPECT_FALSE(buffer.valid());
  EXPECT_EQ(buffer.address(), 0u);
  EXPECT_EQ(buffer.size(), 0);
}

TEST(Buffer, EnqueuedWorkKeepsItAlive) {
  Device device = openSmall();
  std::vector<uint8_t> data(4 * kMiB, 9), out(4 * kMiB, 0);
  Stream stream = Stream::create(device).value();
  {
    Buffer a = device.allocate(4 * kMiB).value(), b = device.allocate(4 * kMiB).value();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream.copyToDevice(a, data.data(), 4 * kMiB).ok());
    ASSERT_TRUE(stream.copyOnDevice(b, 0, a, 0, 4 * kMiB).ok());
    ASSERT_TRUE(stream.copyToHost(out.data(), b, 4 * kMiB).ok());
  }
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(out, data);
  EXPECT_EQ(device.memoryInfo().usedBytes, 0);
}

TEST(Buffer, AllocationWaitsForEnqueuedWorkThatHoldsTheMemory) {
  Device device = openSmall();
  std::vector<uint8_t> data(12 * kMiB, 1);
  Stream stream = Stream::create(device).value();
  for (int i = 0; i < 20; ++i) {
    // Twelve of sixteen MiB: the next one fits only when the copy before it has let go.
    auto buffer = device.allocate(12 * kMiB, "turn");
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    ASSERT_TRUE(stream.copyToDevice(*buffer, data.data(), 12 * kMiB).ok());
  }
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST(Buffer, OutOfMemoryNamesTheHolders) {
  Device device = openSmall();
  Buffer held = device.allocate(10 * kMiB, "kv cache").value();
  Status status = device.allocate(7 * kMiB, "logits").status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("7 MiB for 'logits'"));
  EXPECT_THAT(status.message(), HasSubstr("kv cache 10 MiB"));
  EXPECT_EQ(device.allocate(0).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hpu
