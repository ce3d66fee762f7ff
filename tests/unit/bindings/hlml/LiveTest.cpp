// SPDX-License-Identifier: Apache-2.0
// libhlml.so as a monitor has it, beside a device that this process uses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "habanalabs/hlml.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/stream.h"
#include "tests/unit/base/ForkOften.h"
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

  /// On a loaded machine the owner, this very process, may not answer in time; then the question is asked again.
  template <typename Check>
  static bool eventually(Check&& check) {
    for (int i = 0; i < 300; ++i) {
      if (check()) return true;
      usleep(50'000);
    }
    return false;
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
    auto used = static_cast<unsigned long long>(device.memoryInfo().usedBytes);
    EXPECT_GE(used, 4ull << 20);
    EXPECT_TRUE(eventually([&] {
      return hlml_device_get_memory_info(handle_, &memory) == HLML_SUCCESS && memory.total == 64ull << 20 &&
             memory.used == used;
    })) << memory.total
        << " " << memory.used << " instead of " << used;
  }
  ASSERT_EQ(hlml_device_get_memory_info(handle_, &memory), HLML_SUCCESS);
  EXPECT_EQ(memory.used, 0u);
}

TEST_F(HlmlLive, WorkShowsAsUtilizationPowerEnergyAndTraffic) {
  Device device = open();
  // One reading after each initialisation: its window is the work between the two.
  DeviceCounters before, after;
  auto workInANewWindow = [&] {
    ASSERT_EQ(hlml_shutdown(), HLML_SUCCESS);
    before = device.counters();
    SetUp();
    work(device);
    after = device.counters();
  };
  auto ofWindow = [&](int64_t DeviceCounters::* field) { return static_cast<double>(after.*field - before.*field); };

  hlml_utilization_t utilization{0};
  EXPECT_TRUE(eventually([&] {
    workInANewWindow();
    if (hlml_device_get_utilization_rates(handle_, &utilization) != HLML_SUCCESS) return false;
    int64_t most = 0;
    for (int e = 0; e < kNumEngines; ++e) most = std::max(most, after.busyNs[e] - before.busyNs[e]);
    double percent = 100 * static_cast<double>(most) / ofWindow(&DeviceCounters::deviceNs);
    return utilization.aip > 0 && std::abs(utilization.aip - percent) <= 1;
  })) << utilization.aip;

  unsigned int power = 0, idle = 0, limit = 0, received = 0;
  hlml_device_t free = nullptr;
  ASSERT_EQ(hlml_device_get_handle_by_index(0, &free), HLML_SUCCESS);
  ASSERT_EQ(hlml_device_get_power_usage(free, &idle), HLML_SUCCESS);
  ASSERT_EQ(hlml_device_get_power_management_default_limit(free, &limit), HLML_SUCCESS);
  EXPECT_TRUE(eventually([&] {
    workInANewWindow();
    return hlml_device_get_power_usage(handle_, &power) == HLML_SUCCESS && power > idle && power <= limit;
  })) << power
      << " above " << idle;

  EXPECT_TRUE(eventually([&] {
    workInANewWindow();
    if (hlml_device_get_pcie_throughput(handle_, HLML_PCIE_UTIL_RX_BYTES, &received) != HLML_SUCCESS) return false;
    double bytesPerNs = ofWindow(&DeviceCounters::h2dBytes) / ofWindow(&DeviceCounters::deviceNs);
    return received > 0 && std::abs(received - bytesPerNs * 1e6) <= 1;
  })) << received;
  unsigned long long energy = 0;
  EXPECT_TRUE(eventually(
      [&] { return hlml_device_get_total_energy_consumption(handle_, &energy) == HLML_SUCCESS && energy > 0; }));
}

TEST_F(HlmlLive, InjectedFaultsAreCountedAndWakeAWait) {
  Device device = open();
  hlml_event_set_t set = nullptr;
  ASSERT_EQ(hlml_event_set_create(&set), HLML_SUCCESS);
  ASSERT_EQ(hlml_device_register_events(handle_, HLML_EVENT_CLOCK_RATE | HLML_EVENT_HPU_NON_FATAL, set), HLML_SUCCESS);
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
  EXPECT_TRUE(eventually([&] {
    return hlml_device_get_current_clocks_throttle_reasons(handle_, &reasons) == HLML_SUCCESS &&
           reasons == HLML_CLOCKS_THROTTLE_REASON_THERMAL;
  })) << reasons;
  EXPECT_EQ(hlml_event_set_free(set), HLML_SUCCESS);
}

TEST_F(HlmlLive, ALostDeviceGivesNoReadingsUntilItIsReset) {
  Device device = open();
  hlml_utilization_t utilization;
  ASSERT_EQ(hlml_device_err_inject(handle_, HLML_ERR_INJECT_LOSS_OF_HEARTBEAT), HLML_SUCCESS);
  auto gives = [&](hlml_return_t code) {
    return [&, code] { return hlml_device_get_utilization_rates(handle_, &utilization) == code; };
  };
  EXPECT_TRUE(eventually(gives(HLML_ERROR_AIP_IS_LOST)));
  ASSERT_TRUE(device.reset().ok());
  EXPECT_TRUE(eventually(gives(HLML_SUCCESS)));
}

TEST_F(HlmlLive, AForkedChildOfAMonitorMayAskToo) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  auto ask = [&] {
    hlml_utilization_t utilization;
    return hlml_device_get_utilization_rates(handle_, &utilization);
  };
  auto askOften = [&] { ask(); };
  base::BusyThreads monitors({askOften, askOften, askOften});
  base::forkOften(300, [&] { return ask() == HLML_SUCCESS ? 0 : 1; });
}

TEST_F(HlmlLive, AForkedChildOfAMonitorMayWaitForEventsToo) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  hlml_event_set_t set;
  ASSERT_EQ(hlml_event_set_create(&set), HLML_SUCCESS);
  ASSERT_EQ(hlml_device_register_events(handle_, HLML_EVENT_CRITICAL_ERR, set), HLML_SUCCESS);
  auto wait = [](hlml_event_set_t on) {
    hlml_event_data_t data;
    return hlml_event_set_wait(on, &data, 0);
  };
  auto makeOne = [&] {
    hlml_event_set_t own;
    return hlml_event_set_create(&own) == HLML_SUCCESS &&
           hlml_device_register_events(handle_, HLML_EVENT_CRITICAL_ERR, own) == HLML_SUCCESS &&
           wait(own) == HLML_ERROR_TIMEOUT && hlml_event_set_free(own) == HLML_SUCCESS;
  };
  {
    auto make = [&] { EXPECT_TRUE(makeOne()); };
    base::BusyThreads monitors({make, make, [&] { wait(set); }});
    base::forkOften(300, [&] { return makeOne() && wait(set) == HLML_ERROR_TIMEOUT ? 0 : 1; });
  }
  EXPECT_EQ(hlml_event_set_free(set), HLML_SUCCESS);
}

TEST_F(HlmlLive, AFreeDeviceTakesNoFault) {
  EXPECT_EQ(hlml_device_err_inject(handle_, HLML_ERR_INJECT_THERMAL_EVENT), HLML_ERROR_NO_DATA);
}

}  // namespace
}  // namespace hpu
