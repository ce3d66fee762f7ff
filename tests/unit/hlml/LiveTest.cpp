// SPDX-License-Identifier: Apache-2.0
// libhlml.so as a monitor has it, beside a device that this process uses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "habanalabs/hlml.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/stream.h"
#include "tests/unit/runtime/TinyProgram.h"

namespace hpu {
namespace {

constexpr int kIndex = 5;

class HlmlLive : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(hlml_init(), HLML_SUCCESS);
    ASSERT_EQ(hlml_device_get_handle_by_index(kIndex, &handle_), HLML_SUCCESS);
  }
  void TearDown() override { hlml_shutdown(); }

  Device open() {
    DeviceOptions options;
    options.index = kIndex;
    options.hbmBytes = 64 << 20;
    auto device = Device::open(options);
    EXPECT_TRUE(device.ok()) << device.status().toString();
    return device.ok() ? *device : Device();
  }
  /// 8 MB there, a copy of it on the device, and back.
  void work(Device& device) {
    constexpr int64_t kCount = 2 << 20;
    auto program = Executable::load(device, testing::toRecipe(testing::copyProgram(kCount, 4)));
    ASSERT_TRUE(program.ok()) << program.status().toString();
    auto stream = Stream::create(device);
    ASSERT_TRUE(stream.ok());
    auto in = device.allocate(kCount * 4), out = device.allocate(kCount * 4);
    ASSERT_TRUE(in.ok() && out.ok());
    std::vector<int32_t> data(kCount, 3);
    ASSERT_TRUE(stream->copyToDevice(*in, data.data(), kCount * 4).ok());
    ASSERT_TRUE(program->launch(*stream, {*in}, {*out}).ok());
    ASSERT_TRUE(stream->copyToHost(data.data(), *out, kCount * 4).ok());
    ASSERT_TRUE(stream->synchronize().ok());
  }

  hlml_device_t handle_ = nullptr;
};

TEST_F(HlmlLive, IdentityIsThatOfTheRuntime) {
  Device device = open();
  char text[64];
  hlml_pci_info_t pci;
  unsigned int module = 99;
  ASSERT_EQ(hlml_device_get_name(handle_, text, sizeof text), HLML_SUCCESS);
  EXPECT_STREQ(text, "HL-225");
  ASSERT_EQ(hlml_device_get_pci_info(handle_, &pci), HLML_SUCCESS);
  EXPECT_EQ(pci.bus_id, device.info().pciAddress);
  ASSERT_EQ(hlml_device_get_module_id(handle_, &module), HLML_SUCCESS);
  EXPECT_EQ(module, device.info().moduleId);
  hlml_device_t other = nullptr;
  ASSERT_EQ(hlml_device_get_uuid(handle_, text, sizeof text), HLML_SUCCESS);
  EXPECT_EQ(hlml_device_get_handle_by_UUID(text, &other), HLML_SUCCESS);
  EXPECT_EQ(other, handle_);
}

TEST_F(HlmlLive, MemoryIsThatOfTheRuntimeAndFreeWithTheDevice) {
  hlml_memory_t memory;
  {
    Device device = open();
    auto buffer = device.allocate(4 << 20);
    ASSERT_TRUE(buffer.ok());
    ASSERT_EQ(hlml_device_get_memory_info(handle_, &memory), HLML_SUCCESS);
    EXPECT_EQ(memory.total, 64ull << 20);
    EXPECT_EQ(memory.used, static_cast<unsigned long long>(device.memoryInfo().usedBytes));
    EXPECT_GE(memory.used, 4ull << 20);
  }
  ASSERT_EQ(hlml_device_get_memory_info(handle_, &memory), HLML_SUCCESS);
  EXPECT_EQ(memory.used, 0u);
}

TEST_F(HlmlLive, WorkShowsAsUtilizationPowerEnergyAndTraffic) {
  Device device = open();
  work(device);
  DeviceCounters counters = device.counters();
  hlml_utilization_t utilization{0};
  unsigned int power = 0, idle = 0, limit = 0, received = 0;
  unsigned long long energy = 0;
  ASSERT_EQ(hlml_device_get_utilization_rates(handle_, &utilization), HLML_SUCCESS);
  int64_t most = 0;
  for (int64_t busy : counters.busyNs) most = std::max(most, busy);
  EXPECT_NEAR(utilization.aip, 100.0 * static_cast<double>(most) / static_cast<double>(counters.deviceNs),
              1);
  EXPECT_GT(utilization.aip, 0u);
  hlml_device_t free = nullptr;
  ASSERT_EQ(hlml_device_get_handle_by_index(0, &free), HLML_SUCCESS);
  ASSERT_EQ(hlml_device_get_power_usage(free, &idle), HLML_SUCCESS);
  ASSERT_EQ(hlml_device_get_power_usage(handle_, &power), HLML_SUCCESS);
  ASSERT_EQ(hlml_device_get_power_management_default_limit(handle_, &limit), HLML_SUCCESS);
  EXPECT_GT(power, idle);
  EXPECT_LE(power, limit);
  ASSERT_EQ(hlml_device_get_total_energy_consumption(handle_, &energy), HLML_SUCCESS);
  EXPECT_GT(energy, 0u);
  ASSERT_EQ(hlml_device_get_pcie_throughput(handle_, HLML_PCIE_UTIL_RX_BYTES, &received),
            HLML_SUCCESS);
  EXPECT_NEAR(received, static_cast<double>(counters.h2dBytes) / 1e3 /
                            (static_cast<double>(counters.deviceNs) / 1e9),
              1000);
}

TEST_F(HlmlLive, InjectedFaultsAreCountedAndWakeAWait) {
  Device device = open();
  hlml_event_set_t set = nullptr;
  ASSERT_EQ(hlml_event_set_create(&set), HLML_SUCCESS);
  ASSERT_EQ(hlml_device_register_events(handle_, HLML_EVENT_CLOCK_RATE | HLML_EVENT_HPU_NON_FATAL, set),
            HLML_SUCCESS);
  hlml_event_data_t event;
  EXPECT_EQ(hlml_event_set_wait(set, &event, 0), HLML_ERROR_TIMEOUT);
  std::thread injector([&] {
    usleep(20'000);
    EXPECT_EQ(hlml_device_err_inject(handle_, HLML_ERR_INJECT_THERMAL_EVENT), HLML_SUCCESS);
  });
  EXPECT_EQ(hlml_event_set_wait(set, &event, 20'000), HLML_SUCCESS);
  injector.join();
  EXPECT_EQ(event.device, handle_);
  EXPECT_EQ(event.event_type, static_cast<unsigned long long>(HLML_EVENT_CLOCK_RATE));
  unsigned long long reasons = 0;
  EXPECT_EQ(hlml_device_get_current_clocks_throttle_reasons(handle_, &reasons), HLML_SUCCESS);
  EXPECT_EQ(reasons, static_cast<unsigned long long>(HLML_CLOCKS_THROTTLE_REASON_THERMAL));
  EXPECT_EQ(hlml_event_set_free(set), HLML_SUCCESS);
}

TEST_F(HlmlLive, ALostDeviceGivesNoReadingsUntilItIsReset) {
  Device device = open();
  hlml_utilization_t utilization;
  ASSERT_EQ(hlml_device_err_inject(handle_, HLML_ERR_INJECT_LOSS_OF_HEARTBEAT), HLML_SUCCESS);
  EXPECT_EQ(hlml_device_get_utilization_rates(handle_, &utilization), HLML_ERROR_AIP_IS_LOST);
  ASSERT_TRUE(device.reset().ok());
  EXPECT_EQ(hlml_device_get_utilization_rates(handle_, &utilization), HLML_SUCCESS);
}

TEST_F(HlmlLive, AFreeDeviceTakesNoFault) {
  EXPECT_EQ(hlml_device_err_inject(handle_, HLML_ERR_INJECT_THERMAL_EVENT), HLML_ERROR_NO_DATA);
}

}  // namespace
}  // namespace hpu
