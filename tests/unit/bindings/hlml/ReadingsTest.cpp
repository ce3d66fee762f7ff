// SPDX-License-Identifier: Apache-2.0
// Clocks, load, power, PCIe, errors and their injection.
#include <cmath>

#include "tests/unit/bindings/hlml/FakeNode.h"

namespace hpu::hlml {
namespace {

constexpr int kMme = static_cast<int>(Engine::kMme);

void advance(node::DeviceStatus& device, int64_t deviceNs, int64_t mmeNs) {
  device.counters.deviceNs += deviceNs;
  device.counters.busyNs[kMme] += mmeNs;
}

/// All functions that read one unsigned number of a device that is not lost.
const std::vector<hlml_return_t (*)(hlml_device_t, unsigned int*)> kUnsignedReadings = {
    hlml_device_get_power_usage, hlml_device_get_power_management_default_limit,
    hlml_device_get_curr_pcie_link_generation, hlml_device_get_curr_pcie_link_width};

TEST_F(HlmlTest, ReadingsCheckTheirArgumentsAndTheDevice) {
  for (auto get : kUnsignedReadings) {
    unsigned int value = 0;
    EXPECT_EQ(get(handle(1), &value), HLML_SUCCESS);
    EXPECT_EQ(get(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(get(handle(3), &value), HLML_ERROR_AIP_IS_LOST);
    EXPECT_EQ(get(handle(4), &value), HLML_ERROR_NO_DATA);
    expectHandleIsChecked([&](hlml_device_t device) { return get(device, &value); });
  }
  for (auto get : {hlml_device_get_total_energy_consumption, hlml_device_get_current_clocks_throttle_reasons}) {
    unsigned long long value = 0;
    EXPECT_EQ(get(handle(1), &value), HLML_SUCCESS);
    EXPECT_EQ(get(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(get(handle(3), &value), HLML_ERROR_AIP_IS_LOST);
    expectHandleIsChecked([&](hlml_device_t device) { return get(device, &value); });
  }
}

TEST_F(HlmlTest, UtilizationIsThatOfTheWindow) {
  hlml_utilization_t utilization{77};
  EXPECT_EQ(hlml_device_get_utilization_rates(handle(1), &utilization), HLML_SUCCESS);
  EXPECT_EQ(utilization.aip, 0u);
  change(1, [](node::DeviceStatus& d) { advance(d, 1000, 420); });
  EXPECT_EQ(hlml_device_get_utilization_rates(handle(1), &utilization), HLML_SUCCESS);
  EXPECT_EQ(utilization.aip, 42u);
  EXPECT_EQ(hlml_device_get_utilization_rates(handle(2), &utilization), HLML_SUCCESS);
  EXPECT_EQ(utilization.aip, 0u);
  EXPECT_EQ(hlml_device_get_utilization_rates(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_utilization_rates(handle(3), &utilization), HLML_ERROR_AIP_IS_LOST);
  expectHandleIsChecked([&](hlml_device_t device) { return hlml_device_get_utilization_rates(device, &utilization); });
}

TEST_F(HlmlTest, ReadingsInQuickSuccessionShareTheirWindow) {
  change(1, [](node::DeviceStatus& d) { advance(d, 1000, 500); });
  hlml_utilization_t utilization;
  unsigned int power = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(hlml_device_get_utilization_rates(handle(1), &utilization), HLML_SUCCESS);
    EXPECT_EQ(utilization.aip, 50u);
    EXPECT_EQ(hlml_device_get_power_usage(handle(1), &power), HLML_SUCCESS);
    EXPECT_EQ(power, 345000u);  // 90 W and half of the 510 W up to the cap.
  }
}

TEST_F(HlmlTest, WindowsFollowEachOther) {
  hlml_utilization_t utilization;
  // The first window ends with this reading, the second begins with it.
  clockNs_ += 100'000'000;
  change(1, [](node::DeviceStatus& d) { advance(d, 1000, 900); });
  EXPECT_EQ(hlml_device_get_utilization_rates(handle(1), &utilization), HLML_SUCCESS);
  EXPECT_EQ(utilization.aip, 90u);
  clockNs_ += 100'000'000;
  change(1, [](node::DeviceStatus& d) { advance(d, 1000, 100); });
  EXPECT_EQ(hlml_device_get_utilization_rates(handle(1), &utilization), HLML_SUCCESS);
  EXPECT_EQ(utilization.aip, 10u);
}

TEST_F(HlmlTest, ClocksAreThoseOfTheOwnersProfile) {
  change(1, [](node::DeviceStatus& d) { d.target = Target::kGaudi3; });
  unsigned int clock = 0;
  EXPECT_EQ(hlml_device_get_clock_info(handle(1), HLML_CLOCK_MME, &clock), HLML_SUCCESS);
  EXPECT_EQ(clock, 1296u);
  EXPECT_EQ(hlml_device_get_max_clock_info(handle(1), HLML_CLOCK_MME, &clock), HLML_SUCCESS);
  EXPECT_EQ(clock, 1600u);
  change(1, [](node::DeviceStatus& d) { d.clockProfile = "datasheet"; });
  EXPECT_EQ(hlml_device_get_clock_info(handle(1), HLML_CLOCK_SOC, &clock), HLML_SUCCESS);
  EXPECT_EQ(clock, 1750u);
  EXPECT_EQ(hlml_device_get_clock_info(handle(2), HLML_CLOCK_TPC, &clock), HLML_SUCCESS);
  EXPECT_EQ(clock, 1800u);
  for (auto get : {hlml_device_get_clock_info, hlml_device_get_max_clock_info}) {
    EXPECT_EQ(get(handle(1), HLML_CLOCK_IC, &clock), HLML_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(get(handle(1), HLML_CLOCK_COUNT, &clock), HLML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(get(handle(1), static_cast<hlml_clock_type_t>(-1), &clock), HLML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(get(handle(1), HLML_CLOCK_SOC, nullptr), HLML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(get(handle(3), HLML_CLOCK_SOC, &clock), HLML_ERROR_AIP_IS_LOST);
    expectHandleIsChecked([&](hlml_device_t d) { return get(d, HLML_CLOCK_SOC, &clock); });
  }
}

TEST_F(HlmlTest, MemoryIsInBytes) {
  hlml_memory_t memory;
  EXPECT_EQ(hlml_device_get_memory_info(handle(1), &memory), HLML_SUCCESS);
  EXPECT_EQ(memory.total, 96ull << 30);
  EXPECT_EQ(memory.used, 1ull << 20);
  EXPECT_EQ(memory.free, (96ull << 30) - (1ull << 20));
  EXPECT_EQ(hlml_device_get_memory_info(handle(3), &memory), HLML_SUCCESS);  // Also of a lost one.
  EXPECT_EQ(hlml_device_get_memory_info(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_memory_info(d, &memory); });
}

TEST_F(HlmlTest, TemperatureRisesWithPower) {
  unsigned int idle = 0, busy = 0;
  EXPECT_EQ(hlml_device_get_temperature(handle(1), HLML_TEMPERATURE_ON_AIP, &idle), HLML_SUCCESS);
  change(1, [](node::DeviceStatus& d) { advance(d, 1000, 1000); });
  EXPECT_EQ(hlml_device_get_temperature(handle(1), HLML_TEMPERATURE_ON_AIP, &busy), HLML_SUCCESS);
  EXPECT_EQ(idle, 26u);
  EXPECT_EQ(busy, 37u);  // 510 W more at 10 / 444 C a watt.
  for (auto sensor : {HLML_TEMPERATURE_ON_BOARD, HLML_TEMPERATURE_OTHER})
    EXPECT_EQ(hlml_device_get_temperature(handle(1), sensor, &idle), HLML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(hlml_device_get_temperature(handle(1), static_cast<hlml_temperature_sensors_t>(77), &idle),
            HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_temperature(handle(1), HLML_TEMPERATURE_ON_AIP, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_temperature(handle(1), HLML_TEMPERATURE_ON_BOARD, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_temperature(handle(3), HLML_TEMPERATURE_ON_AIP, &idle), HLML_ERROR_AIP_IS_LOST);
  for (auto sensor : {HLML_TEMPERATURE_ON_AIP, HLML_TEMPERATURE_ON_BOARD})
    expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_temperature(d, sensor, &idle); });
}

TEST_F(HlmlTest, ThresholdsAndPersistenceAreNotSupported) {
  unsigned int value = 0;
  hlml_enable_state_t mode;
  for (int type = 0; type < HLML_TEMPERATURE_THRESHOLD_COUNT; ++type)
    EXPECT_EQ(
        hlml_device_get_temperature_threshold(handle(1), static_cast<hlml_temperature_thresholds_t>(type), &value),
        HLML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(hlml_device_get_temperature_threshold(handle(1), HLML_TEMPERATURE_THRESHOLD_COUNT, &value),
            HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_temperature_threshold(handle(1), HLML_TEMPERATURE_THRESHOLD_SHUTDOWN, nullptr),
            HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_persistence_mode(handle(1), &mode), HLML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(hlml_device_get_persistence_mode(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_persistence_mode(d, &mode); });
  expectHandleIsChecked([&](hlml_device_t d) {
    return hlml_device_get_temperature_threshold(d, HLML_TEMPERATURE_THRESHOLD_SHUTDOWN, &value);
  });
}

TEST_F(HlmlTest, ThePerformanceStateIsTheHighest) {
  hlml_p_states_t state = HLML_PSTATE_UNKNOWN;
  EXPECT_EQ(hlml_device_get_performance_state(handle(1), &state), HLML_SUCCESS);
  EXPECT_EQ(state, HLML_PSTATE_0);
  EXPECT_EQ(hlml_device_get_performance_state(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_performance_state(handle(3), &state), HLML_ERROR_AIP_IS_LOST);
}

TEST_F(HlmlTest, PowerIsBetweenIdleAndTheLimit) {
  unsigned int power = 0, limit = 0;
  EXPECT_EQ(hlml_device_get_power_management_default_limit(handle(1), &limit), HLML_SUCCESS);
  EXPECT_EQ(limit, 600000u);
  EXPECT_EQ(hlml_device_get_power_usage(handle(0), &power), HLML_SUCCESS);
  EXPECT_EQ(power, 90000u);
  change(1, [](node::DeviceStatus& d) { advance(d, 1000, 1000); });
  EXPECT_EQ(hlml_device_get_power_usage(handle(1), &power), HLML_SUCCESS);
  EXPECT_EQ(power, limit);
}

TEST_F(HlmlTest, EnergyIsOfTheSimulatedTimeSinceTheAcquisition) {
  unsigned long long energy = 7;
  EXPECT_EQ(hlml_device_get_total_energy_consumption(handle(0), &energy), HLML_SUCCESS);
  EXPECT_EQ(energy, 0u);
  change(1, [](node::DeviceStatus& d) { advance(d, 3'000'000, 0); });  // 3 ms at 90 W.
  EXPECT_EQ(hlml_device_get_total_energy_consumption(handle(1), &energy), HLML_SUCCESS);
  EXPECT_EQ(energy, 270u);
}

TEST_F(HlmlTest, ThrottleReasonsAndViolations) {
  unsigned long long reasons = 7;
  hlml_violation_time_t violation{7, 7};
  change(1, [](node::DeviceStatus& d) { advance(d, 1000, 300); });
  EXPECT_EQ(hlml_device_get_current_clocks_throttle_reasons(handle(1), &reasons), HLML_SUCCESS);
  EXPECT_EQ(reasons, 0u);
  addFault(1, node::Fault::kThermal);
  change(1, [](node::DeviceStatus& d) { d.target = Target::kGaudi3; });
  EXPECT_EQ(hlml_device_get_current_clocks_throttle_reasons(handle(1), &reasons), HLML_SUCCESS);
  EXPECT_EQ(reasons,
            static_cast<unsigned long long>(HLML_CLOCKS_THROTTLE_REASON_POWER | HLML_CLOCKS_THROTTLE_REASON_THERMAL));
  EXPECT_EQ(hlml_device_get_violation_status(handle(1), HLML_PERF_POLICY_POWER, &violation), HLML_SUCCESS);
  EXPECT_EQ(violation.reference_time, 1000u);
  EXPECT_EQ(violation.violation_time, 300u);
  EXPECT_EQ(hlml_device_get_violation_status(handle(1), HLML_PERF_POLICY_THERMAL, &violation), HLML_SUCCESS);
  EXPECT_EQ(violation.violation_time, 0u);
  EXPECT_EQ(hlml_device_get_violation_status(handle(1), HLML_PERF_POLICY_COUNT, &violation),
            HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_violation_status(handle(1), HLML_PERF_POLICY_POWER, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_violation_status(handle(3), HLML_PERF_POLICY_POWER, &violation), HLML_ERROR_AIP_IS_LOST);
}

TEST_F(HlmlTest, PcieThroughputComesFromTheCopies) {
  change(1, [](node::DeviceStatus& d) {
    advance(d, 1'000'000, 0);
    d.counters.h2dBytes += 20'000'000;
    d.counters.d2hBytes += 3'000;
  });
  unsigned int value = 0;
  EXPECT_EQ(hlml_device_get_pcie_throughput(handle(1), HLML_PCIE_UTIL_RX_BYTES, &value), HLML_SUCCESS);
  EXPECT_EQ(value, 20'000'000u);  // 20 MB in a millisecond, in KB/s.
  EXPECT_EQ(hlml_device_get_pcie_throughput(handle(1), HLML_PCIE_UTIL_TX_BYTES, &value), HLML_SUCCESS);
  EXPECT_EQ(value, 3'000u);
  EXPECT_EQ(hlml_device_get_pcie_throughput(handle(1), HLML_PCIE_UTIL_COUNT, &value), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_pcie_throughput(handle(1), HLML_PCIE_UTIL_TX_BYTES, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_pcie_throughput(handle(3), HLML_PCIE_UTIL_TX_BYTES, &value), HLML_ERROR_AIP_IS_LOST);
  expectHandleIsChecked(
      [&](hlml_device_t d) { return hlml_device_get_pcie_throughput(d, HLML_PCIE_UTIL_TX_BYTES, &value); });
}

TEST_F(HlmlTest, TheLinkIsThatOfTheBoard) {
  unsigned int value = 7;
  EXPECT_EQ(hlml_device_get_pcie_replay_counter(handle(1), &value), HLML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(value, 7u);
  EXPECT_EQ(hlml_device_get_pcie_replay_counter(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_pcie_replay_counter(d, &value); });
  EXPECT_EQ(hlml_device_get_curr_pcie_link_generation(handle(1), &value), HLML_SUCCESS);
  EXPECT_EQ(value, 4u);
  EXPECT_EQ(hlml_device_get_curr_pcie_link_width(handle(1), &value), HLML_SUCCESS);
  EXPECT_EQ(value, 16u);
  change(1, [](node::DeviceStatus& d) { d.target = Target::kGaudi3; });
  EXPECT_EQ(hlml_device_get_curr_pcie_link_generation(handle(1), &value), HLML_SUCCESS);
  EXPECT_EQ(value, 5u);
}

// ---- Errors -------------------------------------------------------------------------------------------

TEST_F(HlmlTest, EccIsAlwaysOn) {
  hlml_enable_state_t current = HLML_FEATURE_DISABLED, pending = HLML_FEATURE_DISABLED;
  EXPECT_EQ(hlml_device_get_ecc_mode(handle(0), &current, &pending), HLML_SUCCESS);
  EXPECT_EQ(current, HLML_FEATURE_ENABLED);
  EXPECT_EQ(pending, HLML_FEATURE_ENABLED);
  EXPECT_EQ(hlml_device_get_ecc_mode(handle(0), nullptr, &pending), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_ecc_mode(handle(0), &current, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_ecc_mode(d, &current, &pending); });
}

TEST_F(HlmlTest, EccErrorsAreCountedByKindAndPlace) {
  addFault(3, node::Fault::kUncorrectedEcc);  // A lost device still has counts.
  addFault(3, node::Fault::kCorrectedEcc);
  addFault(3, node::Fault::kCorrectedEcc);
  unsigned long long count = 7;
  for (auto period : {HLML_VOLATILE_ECC, HLML_AGGREGATE_ECC}) {
    EXPECT_EQ(hlml_device_get_total_ecc_errors(handle(3), HLML_MEMORY_ERROR_TYPE_CORRECTED, period, &count),
              HLML_SUCCESS);
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(hlml_device_get_total_ecc_errors(handle(3), HLML_MEMORY_ERROR_TYPE_UNCORRECTED, period, &count),
              HLML_SUCCESS);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(hlml_device_get_memory_error_counter(handle(3), HLML_MEMORY_ERROR_TYPE_CORRECTED, period,
                                                   HLML_MEMORY_LOCATION_DRAM, &count),
              HLML_SUCCESS);
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(hlml_device_get_memory_error_counter(handle(3), HLML_MEMORY_ERROR_TYPE_CORRECTED, period,
                                                   HLML_MEMORY_LOCATION_SRAM, &count),
              HLML_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(count, 2u) << "nothing was counted, and nothing is said";
  }
  EXPECT_EQ(hlml_device_get_total_ecc_errors(handle(3), HLML_MEMORY_ERROR_TYPE_COUNT, HLML_VOLATILE_ECC, &count),
            HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_total_ecc_errors(handle(3), HLML_MEMORY_ERROR_TYPE_CORRECTED, HLML_VOLATILE_ECC, nullptr),
            HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_memory_error_counter(handle(3), HLML_MEMORY_ERROR_TYPE_CORRECTED,
                                                 HLML_ECC_COUNTER_TYPE_COUNT, HLML_MEMORY_LOCATION_SRAM, &count),
            HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_memory_error_counter(handle(3), HLML_MEMORY_ERROR_TYPE_CORRECTED, HLML_VOLATILE_ECC,
                                                 HLML_MEMORY_LOCATION_COUNT, &count),
            HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) {
    return hlml_device_get_total_ecc_errors(d, HLML_MEMORY_ERROR_TYPE_CORRECTED, HLML_VOLATILE_ECC, &count);
  });
}

TEST_F(HlmlTest, EveryKindOfFaultIsInjected) {
  const std::pair<hlml_err_inject_t, node::Fault> kinds[] = {
      {HLML_ERR_INJECT_ENDLESS_COMMAND, node::Fault::kEndlessCommand},
      {HLML_ERR_INJECT_NON_FATAL_EVENT, node::Fault::kNonFatalEvent},
      {HLML_ERR_INJECT_FATAL_EVENT, node::Fault::kFatalEvent},
      {HLML_ERR_INJECT_LOSS_OF_HEARTBEAT, node::Fault::kLostHeartbeat},
      {HLML_ERR_INJECT_THERMAL_EVENT, node::Fault::kThermal}};
  for (const auto& [kind, fault] : kinds) {
    EXPECT_EQ(hlml_device_err_inject(handle(1), kind), HLML_SUCCESS);
    EXPECT_EQ(fake_.devices[1].faults[static_cast<int>(fault)], 1u);
  }
  EXPECT_EQ(hlml_device_err_inject(handle(0), HLML_ERR_INJECT_FATAL_EVENT), HLML_ERROR_NO_DATA);
  EXPECT_EQ(hlml_device_err_inject(handle(1), static_cast<hlml_err_inject_t>(77)), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([](hlml_device_t d) { return hlml_device_err_inject(d, HLML_ERR_INJECT_THERMAL_EVENT); });
}

TEST_F(HlmlTest, ReplacedRowsAreNotKnown) {
  unsigned int count = 7;
  hlml_row_address_t row{};
  hlml_enable_state_t pending = HLML_FEATURE_ENABLED;
  for (auto cause :
       {HLML_ROW_REPLACEMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, HLML_ROW_REPLACEMENT_CAUSE_DOUBLE_BIT_ECC_ERROR}) {
    count = 7;
    EXPECT_EQ(hlml_device_get_replaced_rows(handle(1), cause, &count, nullptr), HLML_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(hlml_device_get_replaced_rows(handle(1), cause, &count, &row), HLML_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(count, 7u);
    EXPECT_EQ(hlml_device_get_replaced_rows(handle(1), cause, nullptr, &row), HLML_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(hlml_device_get_replaced_rows(handle(1), HLML_ROW_REPLACEMENT_CAUSE_COUNT, &count, &row),
            HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_replaced_rows_pending_status(handle(1), &pending), HLML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(pending, HLML_FEATURE_ENABLED);
  EXPECT_EQ(hlml_device_get_replaced_rows_pending_status(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_replaced_rows_pending_status(d, &pending); });
}

}  // namespace
}  // namespace hpu::hlml
