// SPDX-License-Identifier: Apache-2.0
// DriverFixture: a device of each driver, and short names for what tests submit to it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/driver/Driver.h"

namespace hpu::driver {

inline constexpr int64_t kMiB = 1 << 20;
inline constexpr int64_t kDeadlineMs = 60000;

inline const DriverEntry& entryOf(const std::string& name) {
  for (const DriverEntry& entry : registeredDrivers())
    if (entry.name == name) return entry;
  std::abort();
}

class DriverFixture : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    device = open(0);
    base = device->memory().base;
  }
  std::shared_ptr<DriverDevice> open(int index, Target target = Target::kGaudi2) {
    DeviceOptions options;
    options.driver = GetParam();
    options.index = index;
    options.target = target;
    options.hbmBytes = 64 * kMiB;
    auto result = entryOf(GetParam()).open(options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return *result;
  }
  bool computes() const { return GetParam() != "null"; }

  QueueId queue(const std::string& name = "q") { return device->createQueue(name).value(); }
  Ticket submit(QueueId q, Work work, SubmitOptions options = {}) {
    auto ticket = device->submit(q, std::move(work), std::move(options));
    EXPECT_TRUE(ticket.ok()) << ticket.status().message();
    return ticket.ok() ? *ticket : 0;
  }
  void wait(Ticket ticket) {
    Status status = device->wait(ticket, kDeadlineMs);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  DriverDevice::DeviceSpan span(Ticket ticket) {
    wait(ticket);
    auto result = device->deviceSpan(ticket);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : DriverDevice::DeviceSpan{-1, -1};
  }
  /// Callbacks come when a ticket is done, which others may see first.
  void waitForCalls(const std::atomic<int>& calls, int expected) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDeadlineMs);
    while (calls < expected && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(calls, expected);
  }
  Ticket upload(QueueId q, DeviceAddress address, const std::vector<int32_t>& data) {
    return submit(q, CopyToDevice{address, data.data(), static_cast<int64_t>(data.size() * 4)});
  }
  Ticket download(QueueId q, std::vector<int32_t>& data, DeviceAddress address) {
    return submit(q, CopyToHost{data.data(), address, static_cast<int64_t>(data.size() * 4)});
  }

  std::shared_ptr<DriverDevice> device;
  DeviceAddress base = 0;
};

inline std::vector<int32_t> ramp(int64_t count, int32_t first = 0) {
  std::vector<int32_t> data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

inline std::vector<std::string> driverNames() {
  std::vector<std::string> names;
  for (const DriverEntry& entry : registeredDrivers()) names.push_back(entry.name);
  return names;
}

#define HPU_FOR_ALL_DRIVERS(suite)                                             \
  INSTANTIATE_TEST_SUITE_P(Drivers, suite, ::testing::ValuesIn(driverNames()), \
                           [](const auto& info) { return info.param; })

}  // namespace hpu::driver
