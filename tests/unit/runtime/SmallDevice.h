// SPDX-License-Identifier: Apache-2.0
// openSmall and Side: a device of little memory, and one with a stream, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu::testing {

inline constexpr int64_t kSmallBytes = int64_t{64} << 20;

inline Device openSmall(int index = 0, const char* driver = "sim") {
  DeviceOptions options;
  options.driver = driver;
  options.index = index;
  options.hbmBytes = kSmallBytes;
  return Device::open(options).value();
}

/// One side of a transfer.
struct Side {
  Device device;
  Stream stream;
  explicit Side(int index, const char* driver = "sim")
      : device(openSmall(index, driver)), stream(Stream::create(device).value()) {}
  Buffer put(const std::vector<uint8_t>& data) {
    Buffer buffer = device.allocate(static_cast<int64_t>(data.size())).value();
    EXPECT_TRUE(stream.copyToDevice(buffer, data.data(), static_cast<int64_t>(data.size())).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return buffer;
  }
  std::vector<uint8_t> get(const Buffer& buffer) {
    std::vector<uint8_t> data(static_cast<size_t>(buffer.size()));
    EXPECT_TRUE(stream.copyToHost(data.data(), buffer, buffer.size()).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return data;
  }
};

}  // namespace hpu::testing
