// SPDX-License-Identifier: Apache-2.0
#include "hpu/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

DeviceOptions small(int index = 0) {
  DeviceOptions options;
  options.index = index;
  options.hbmBytes = 64 << 20;
  return options;
}

TEST(Device, UnknownDriverErrorListsTheDrivers) {
  DeviceOptions options;
  options.driver = "gaudi";
  Status status = Device::open(options).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("this build has sim, null"));
  EXPECT_THAT(Device::drivers(), ::testing::ElementsAre("sim", "null"));
}

TEST(Device, NodeHasEightDevices) {
  EXPECT_EQ(Device::open(small(8)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Device::open(small(-2)).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(Device::open(small(7)).ok());
}

TEST(Device, OptionsWithValuesThatThereAreNotAreRefusedByName) {
  Device open = Device::open(small()).value();  // Also of a device that is open already.
  for (const char* driver : {"sim", "null"}) {
    const auto refused = [&](const DeviceOptions& options) {
      DeviceOptions given = options;
      given.driver = driver;
      Status status = Device::open(given).status();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
      return status.message();
    };
    DeviceOptions options = small();
    options.target = static_cast<Target>(7);
    EXPECT_THAT(refused(options), HasSubstr("DeviceOptions::target is 7, which is none of its values; they are 1 "));
    options = small();
    options.wait = static_cast<WaitPolicy>(5);
    EXPECT_THAT(refused(options), HasSubstr("DeviceOptions::wait is 5"));
    options = small();
    options.threads = -1;
    EXPECT_THAT(refused(options), HasSubstr("DeviceOptions::threads is -1"));
    options = small();
    options.hbmBytes = -1;
    EXPECT_THAT(refused(options), HasSubstr("DeviceOptions::hbmBytes is -1"));
    options = small();
    options.moduleId = -2;
    EXPECT_THAT(refused(options), HasSubstr("DeviceOptions::moduleId is -2"));
  }
}

TEST(Device, InfoSaysWhatWasOpened) {
  DeviceOptions options = small(3);
  options.target = Target::kGaudi3;
  Device device = Device::open(options).value();
  EXPECT_EQ(device.info().index, 3);
  EXPECT_EQ(device.info().target, Target::kGaudi3);
  EXPECT_EQ(device.info().hbmBytes, 64 << 20);
  EXPECT_EQ(device.info().driver, "sim");
  EXPECT_GT(device.info().sramBytes, 0);
}

TEST(Device, OpeningAgainGivesTheSameDevice) {
  Device first = Device::open(small()).value();
  Buffer buffer = first.allocate(1000, "held").value();
  Device second = Device::open(small()).value();
  EXPECT_EQ(first.state(), second.state());
  EXPECT_EQ(second.memoryInfo().allocations, 1);
  DeviceOptions other = small();
  other.target = Target::kGaudi1;
  Status status = Device::open(other).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("open in this process as gaudi2, not gaudi1"));
}

TEST(Device, ClosesWithItsLastHandleOfAnyKind) {
  Buffer buffer;
  {
    Device device = Device::open(small()).value();
    buffer = device.allocate(100, "last").value();
  }
  // The buffer keeps it open: another target is refused. Without it, it is not.
  DeviceOptions other = small();
  other.target = Target::kGaudi1;
  EXPECT_FALSE(Device::open(other).ok());
  buffer = Buffer();
  EXPECT_TRUE(Device::open(other).ok());
}

TEST(Device, SettingShrinksTheMemory) {
  setenv("HPU_SIM_HBM_BYTES", "8M", 1);
  Device device = Device::open({.index = 5}).value();
  EXPECT_EQ(device.info().hbmBytes, 8 << 20);
  unsetenv("HPU_SIM_HBM_BYTES");
}

TEST(Device, HostMemoryBudgetIsAnErrorOfTheStream) {
  setenv("HPU_SIM_HOST_BYTES", "1M", 1);
  Device device = Device::open(small(4)).value();
  unsetenv("HPU_SIM_HOST_BYTES");
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(8 << 20).value();
  ASSERT_TRUE(stream.fill(buffer, 1, 8 << 20).ok());
  Status status = stream.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("HPU_SIM_HOST_BYTES"));
  ASSERT_TRUE(stream.fill(buffer, 1, 512 << 10).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST(Device, BadSettingsAreReportedWhenItOpens) {
  setenv("HPU_SIM_CLOCK", "overdrive", 1);
  Status status = Device::open(small(6)).status();
  unsetenv("HPU_SIM_CLOCK");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("HPU_SIM_CLOCK"));
  EXPECT_THAT(status.message(), HasSubstr("overdrive"));
  setenv("HPU_NUM_THREADS", "several", 1);
  status = Device::open(small(6)).status();
  unsetenv("HPU_NUM_THREADS");
  EXPECT_THAT(status.message(), HasSubstr("HPU_NUM_THREADS=several"));
}

TEST(Device, EmptyHandleSaysSo) {
  Device device;
  EXPECT_FALSE(device.valid());
  EXPECT_EQ(device.allocate(1).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(device.synchronize().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(device.counters().deviceNs, 0);
}

TEST(Device, SynchronizeWaitsForAllStreamsAlsoThoseThatAreGone) {
  Device device = Device::open(small()).value();
  Buffer buffer = device.allocate(16 << 20).value();
  std::vector<uint8_t> data(16 << 20, 3), out(16 << 20);
  Stream kept = Stream::create(device).value();
  {
    Stream gone = Stream::create(device).value();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(gone.copyToDevice(buffer, data.data(), 16 << 20).ok());
    Event event;
    ASSERT_TRUE(gone.record(event).ok());
    ASSERT_TRUE(kept.wait(event).ok());
    ASSERT_TRUE(gone.copyToHost(out.data(), buffer, 16 << 20).ok());
  }
  ASSERT_TRUE(device.synchronize().ok());
  EXPECT_EQ(out, data);
}

TEST(Device, CountersAccountForTransfersAndTime) {
  Device device = Device::open(small()).value();
  Buffer buffer = device.allocate(1 << 20).value();
  std::vector<uint8_t> data(1 << 20);
  Stream stream = Stream::create(device).value();
  ASSERT_TRUE(stream.copyToDevice(buffer, data.data(), 1 << 20).ok());
  ASSERT_TRUE(stream.copyToHost(data.data(), buffer, 1 << 19).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  DeviceCounters counters = device.counters();
  EXPECT_EQ(counters.h2dBytes, 1 << 20);
  EXPECT_EQ(counters.d2hBytes, 1 << 19);
  // PCIe Gen4 x16 moves at most 32 GB/s.
  EXPECT_GT(counters.deviceNs, ((1 << 20) + (1 << 19)) / 32);
  EXPECT_EQ(counters.launches, 0);
}

TEST(Device, GivesAFileThatHoldsItsMemory) {
  Device device = Device::open(small()).value();
  Buffer buffer = device.allocate(8192).value();
  Stream stream = Stream::create(device).value();
  std::vector<uint8_t> bytes(8192, 0x5a);
  ASSERT_TRUE(stream.copyToDevice(buffer, bytes.data(), 8192).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  StatusOr<int> file = device.memoryFile(buffer.address() + 100, 8000);
  ASSERT_TRUE(file.ok()) << file.status().toString();
  std::vector<uint8_t> seen(8000);
  EXPECT_EQ(::pread(*file, seen.data(), seen.size(), static_cast<off_t>(buffer.address() + 100 - kHbmBase)), 8000);
  EXPECT_THAT(seen, ::testing::Each(0x5a));
  ::close(*file);
  EXPECT_EQ(device.memoryFile(buffer.address() + 100, 8100).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(device.memoryFile(buffer.address() + (1 << 20), 1).status().code(), StatusCode::kNotFound);
  DeviceOptions null = small();
  null.driver = "null";
  Device empty = Device::open(null).value();
  Buffer nothing = empty.allocate(256).value();
  EXPECT_EQ(empty.memoryFile(nothing.address(), 256).status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace hpu
