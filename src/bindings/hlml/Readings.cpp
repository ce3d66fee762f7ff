// SPDX-License-Identifier: Apache-2.0
// How a device does: clocks, utilisation, memory, temperature, power, PCIe; errors and their injection.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "bindings/hlml/Library.h"

using hpu::hlml::guarded;
using hpu::hlml::Library;
using hpu::node::DeviceStatus;
using hpu::node::Fault;
using hpu::telemetry::Readings;

namespace {

unsigned int toUnsigned(double value) {
  constexpr double kMost = std::numeric_limits<unsigned int>::max();
  return static_cast<unsigned int>(std::clamp(std::round(value), 0.0, kMost));
}

/// A number from the readings of a device that is not lost.
template <typename Number, typename Get>
hlml_return_t readingOf(hlml_device_t device, Number* to, Get&& get) {
  return guarded([&] {
    int index = 0;
    HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
    if (!to) return HLML_ERROR_INVALID_ARGUMENT;
    Readings readings;
    HLML_RETURN_IF_ERROR(Library::get().readings(device, readings));
    *to = get(readings);
    return HLML_SUCCESS;
  });
}

/// A number from the status of a device that is not lost.
template <typename Number, typename Get>
hlml_return_t numberOf(hlml_device_t device, Number* to, Get&& get) {
  return guarded([&] {
    int index = 0;
    HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
    if (!to) return HLML_ERROR_INVALID_ARGUMENT;
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().aliveStatus(device, status));
    *to = get(status);
    return HLML_SUCCESS;
  });
}

/// What the caller passed. A C caller may pass anything, and C++ may not load an enumeration that holds a value
/// outside of its range.
template <typename Enum>
unsigned int rawValue(const Enum& value) {
  unsigned int number;
  static_assert(sizeof number == sizeof value);
  memcpy(&number, &value, sizeof number);
  return number;
}
/// True when `value` is an enumerator below `count`.
template <typename Enum>
bool isOneOf(const Enum& value, Enum count) {
  return rawValue(value) < rawValue(count);
}

/// The checks of a question that has no answer here.
hlml_return_t notSupported(hlml_device_t device, bool isValid) {
  int index = 0;
  HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
  return isValid ? HLML_ERROR_NOT_SUPPORTED : HLML_ERROR_INVALID_ARGUMENT;
}

hlml_return_t clockOf(hlml_device_t device, hlml_clock_type_t type, unsigned int* clock, bool most) {
  return guarded([&] {
    int index = 0;
    HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
    if (!clock || !isOneOf(type, HLML_CLOCK_COUNT)) return HLML_ERROR_INVALID_ARGUMENT;
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().aliveStatus(device, status));
    if (type == HLML_CLOCK_IC) return HLML_ERROR_NOT_SUPPORTED;
    auto clocks = hpu::telemetry::clocks(status.target, status.clockProfile);
    if (!clocks.ok()) return hpu::hlml::codeOf(clocks.status());
    if (type == HLML_CLOCK_TPC)
      *clock = toUnsigned(most ? clocks->tpcMax : clocks->tpc);
    else
      *clock = toUnsigned(most ? clocks->mmeMax : clocks->mme);
    return HLML_SUCCESS;
  });
}

}  // namespace

// ---- Clocks -------------------------------------------------------------------------------------------

hlml_return_t hlml_device_get_clock_info(hlml_device_t device, hlml_clock_type_t type, unsigned int* clock) {
  return clockOf(device, type, clock, false);
}

hlml_return_t hlml_device_get_max_clock_info(hlml_device_t device, hlml_clock_type_t type, unsigned int* clock) {
  return clockOf(device, type, clock, true);
}

hlml_return_t hlml_device_get_performance_state(hlml_device_t device, hlml_p_states_t* p_state) {
  return numberOf(device, p_state, [](const DeviceStatus&) { return HLML_PSTATE_0; });
}

hlml_return_t hlml_device_get_current_clocks_throttle_reasons(hlml_device_t device,
                                                              unsigned long long* clocks_throttle_reasons) {
  return readingOf(device, clocks_throttle_reasons, [](const Readings& readings) {
    unsigned long long reasons = 0;
    if (readings.powerThrottled) reasons |= HLML_CLOCKS_THROTTLE_REASON_POWER;
    if (readings.thermalThrottled) reasons |= HLML_CLOCKS_THROTTLE_REASON_THERMAL;
    return reasons;
  });
}

hlml_return_t hlml_device_get_violation_status(hlml_device_t device, hlml_perf_policy_type_t perf_policy_type,
                                               hlml_violation_time_t* viol_time) {
  if (!isOneOf(perf_policy_type, HLML_PERF_POLICY_COUNT)) viol_time = nullptr;
  return numberOf(device, viol_time, [&](const DeviceStatus& status) {
    int64_t slow = perf_policy_type == HLML_PERF_POLICY_POWER ? hpu::telemetry::powerViolationNs(status) : 0;
    return hlml_violation_time_t{static_cast<unsigned long long>(status.counters.deviceNs),
                                 static_cast<unsigned long long>(slow)};
  });
}

// ---- Load ---------------------------------------------------------------------------------------------

hlml_return_t hlml_device_get_utilization_rates(hlml_device_t device, hlml_utilization_t* utilization) {
  return readingOf(device, utilization,
                   [](const Readings& readings) { return hlml_utilization_t{toUnsigned(readings.utilization * 100)}; });
}

hlml_return_t hlml_device_get_memory_info(hlml_device_t device, hlml_memory_t* memory) {
  return guarded([&] {
    DeviceStatus status;
    hlml_return_t code = Library::get().aliveStatus(device, status);
    if (code != HLML_SUCCESS && code != HLML_ERROR_AIP_IS_LOST) return code;
    if (!memory) return HLML_ERROR_INVALID_ARGUMENT;
    memory->total = static_cast<unsigned long long>(status.totalBytes);
    memory->used = static_cast<unsigned long long>(status.usedBytes);
    memory->free = memory->total - std::min(memory->used, memory->total);
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_device_get_temperature(hlml_device_t device, hlml_temperature_sensors_t sensor_type,
                                          unsigned int* temp) {
  if (rawValue(sensor_type) != HLML_TEMPERATURE_ON_AIP) {
    bool isSensor = rawValue(sensor_type) <= HLML_TEMPERATURE_OTHER;
    return guarded([&] { return notSupported(device, temp && isSensor); });
  }
  return readingOf(device, temp, [](const Readings& readings) { return toUnsigned(readings.celsius); });
}

hlml_return_t hlml_device_get_temperature_threshold(hlml_device_t device, hlml_temperature_thresholds_t threshold_type,
                                                    unsigned int* temp) {
  return guarded(
      [&] { return notSupported(device, temp && isOneOf(threshold_type, HLML_TEMPERATURE_THRESHOLD_COUNT)); });
}

hlml_return_t hlml_device_get_persistence_mode(hlml_device_t device, hlml_enable_state_t* mode) {
  return guarded([&] { return notSupported(device, mode); });
}

hlml_return_t hlml_device_get_power_usage(hlml_device_t device, unsigned int* power) {
  return readingOf(device, power, [](const Readings& readings) { return toUnsigned(readings.watts * 1000); });
}

hlml_return_t hlml_device_get_power_management_default_limit(hlml_device_t device, unsigned int* default_limit) {
  return numberOf(device, default_limit, [](const DeviceStatus& status) {
    return toUnsigned(hpu::telemetry::board(status.target).capWatts * 1000);
  });
}

hlml_return_t hlml_device_get_total_energy_consumption(hlml_device_t device, unsigned long long* energy) {
  return readingOf(device, energy, [](const Readings& readings) {
    return static_cast<unsigned long long>(std::llround(readings.joules * 1000));
  });
}

// ---- PCIe ---------------------------------------------------------------------------------------------

hlml_return_t hlml_device_get_pcie_throughput(hlml_device_t device, hlml_pcie_util_counter_t counter,
                                              unsigned int* value) {
  if (!isOneOf(counter, HLML_PCIE_UTIL_COUNT)) value = nullptr;
  return readingOf(device, value, [&](const Readings& readings) {
    bool sent = counter == HLML_PCIE_UTIL_TX_BYTES;
    return toUnsigned((sent ? readings.sentPerSecond : readings.receivedPerSecond) / 1000);
  });
}

hlml_return_t hlml_device_get_pcie_replay_counter(hlml_device_t device, unsigned int* value) {
  // There is no link that could lose a packet.
  return guarded([&] { return notSupported(device, value); });
}

hlml_return_t hlml_device_get_curr_pcie_link_generation(hlml_device_t device, unsigned int* curr_link_gen) {
  return numberOf(device, curr_link_gen, [](const DeviceStatus& status) {
    return static_cast<unsigned int>(hpu::telemetry::board(status.target).pcieGeneration);
  });
}

hlml_return_t hlml_device_get_curr_pcie_link_width(hlml_device_t device, unsigned int* curr_link_width) {
  return numberOf(device, curr_link_width, [](const DeviceStatus& status) {
    return static_cast<unsigned int>(hpu::telemetry::board(status.target).pcieLanes);
  });
}

// ---- Errors -------------------------------------------------------------------------------------------
// A lost device is still asked: its errors are what one wants to know then.

hlml_return_t hlml_device_get_ecc_mode(hlml_device_t device, hlml_enable_state_t* current,
                                       hlml_enable_state_t* pending) {
  return guarded([&] {
    int index = 0;
    HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
    if (!current || !pending) return HLML_ERROR_INVALID_ARGUMENT;
    *current = *pending = HLML_FEATURE_ENABLED;
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_device_get_memory_error_counter(hlml_device_t device, hlml_memory_error_type_t error_type,
                                                   hlml_ecc_counter_type_t counter_type,
                                                   hlml_memory_location_type_t location,
                                                   unsigned long long* ecc_counts) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    if (!ecc_counts || !isOneOf(error_type, HLML_MEMORY_ERROR_TYPE_COUNT) ||
        !isOneOf(counter_type, HLML_ECC_COUNTER_TYPE_COUNT) || !isOneOf(location, HLML_MEMORY_LOCATION_COUNT))
      return HLML_ERROR_INVALID_ARGUMENT;
    Fault fault = error_type == HLML_MEMORY_ERROR_TYPE_CORRECTED ? Fault::kCorrectedEcc : Fault::kUncorrectedEcc;
    // Errors of other memory cannot be injected, so nobody counts them.
    if (location != HLML_MEMORY_LOCATION_DRAM) return HLML_ERROR_NOT_SUPPORTED;
    *ecc_counts = status.faults[static_cast<int>(fault)];
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_device_get_total_ecc_errors(hlml_device_t device, hlml_memory_error_type_t error_type,
                                               hlml_ecc_counter_type_t counter_type, unsigned long long* ecc_counts) {
  // The HBM's are all there are.
  return hlml_device_get_memory_error_counter(device, error_type, counter_type, HLML_MEMORY_LOCATION_DRAM, ecc_counts);
}

hlml_return_t hlml_device_err_inject(hlml_device_t device, hlml_err_inject_t err_type) {
  return guarded([&] {
    Fault fault = Fault::kNonFatalEvent;
    switch (rawValue(err_type)) {
      case HLML_ERR_INJECT_ENDLESS_COMMAND:
        fault = Fault::kEndlessCommand;
        break;
      case HLML_ERR_INJECT_NON_FATAL_EVENT:
        break;
      case HLML_ERR_INJECT_FATAL_EVENT:
        fault = Fault::kFatalEvent;
        break;
      case HLML_ERR_INJECT_LOSS_OF_HEARTBEAT:
        fault = Fault::kLostHeartbeat;
        break;
      case HLML_ERR_INJECT_THERMAL_EVENT:
        fault = Fault::kThermal;
        break;
      default: {
        HLML_RETURN_IF_ERROR(hpu::hlml::checkInitialized());
        return HLML_ERROR_INVALID_ARGUMENT;
      }
    }
    return Library::get().inject(device, fault);
  });
}

hlml_return_t hlml_device_get_replaced_rows(hlml_device_t device, hlml_row_replacement_cause_t cause,
                                            unsigned int* row_count, hlml_row_address_t*) {
  // The memory has no spare rows.
  return guarded([&] { return notSupported(device, row_count && isOneOf(cause, HLML_ROW_REPLACEMENT_CAUSE_COUNT)); });
}

hlml_return_t hlml_device_get_replaced_rows_pending_status(hlml_device_t device, hlml_enable_state_t* is_pending) {
  return guarded([&] { return notSupported(device, is_pending); });
}
