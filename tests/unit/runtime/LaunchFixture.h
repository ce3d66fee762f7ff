// SPDX-License-Identifier: Apache-2.0
// What tests of launches share: a small device with a stream, and vectors of integers on it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "TinyProgram.h"
#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu::testing {

class LaunchFixture : public ::testing::Test {
 protected:
  static constexpr int64_t kMiB = 1 << 20;
  void SetUp() override {
    DeviceOptions options;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
    stream = Stream::create(device).value();
  }
  Buffer vector(int64_t count) { return device.allocate(count * 4, "vector").value(); }
  void upload(uint64_t address, const std::vector<int32_t>& data) {
    auto bytes = static_cast<int64_t>(data.size() * 4);
    ASSERT_TRUE(stream.copyToDevice(address, data.data(), bytes).ok());
    ASSERT_TRUE(stream.synchronize().ok());
  }
  Buffer upload(const std::vector<int32_t>& data) {
    Buffer buffer = vector(static_cast<int64_t>(data.size()));
    upload(buffer.address(), data);
    return buffer;
  }
  std::vector<int32_t> download(uint64_t address, int64_t count) {
    std::vector<int32_t> data(static_cast<size_t>(count));
    EXPECT_TRUE(stream.copyToHost(data.data(), address, count * 4).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return data;
  }
  std::vector<int32_t> download(const Buffer& buffer) { return download(buffer.address(), buffer.size() / 4); }
  static std::vector<int32_t> ramp(int64_t count, int32_t first = 0) {
    std::vector<int32_t> data(static_cast<size_t>(count));
    std::iota(data.begin(), data.end(), first);
    return data;
  }

  Device device;
  Stream stream;
};

}  // namespace hpu::testing
