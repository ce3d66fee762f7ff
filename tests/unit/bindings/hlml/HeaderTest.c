/* SPDX-License-Identifier: Apache-2.0
 * hlml.h and libhlml.so from C11: every function links, and says that the library is not initialised. */
#include <stddef.h>
#include <stdio.h>

#include "habanalabs/hlml.h"

_Static_assert(sizeof(((hlml_pci_info_t*)0)->bus_id) == 15, "the width of hlml_pci_info_t");
_Static_assert(offsetof(hlml_pci_info_t, device) == 20, "the layout of hlml_pci_info_t");
_Static_assert(sizeof(hlml_mac_info_t) == 12, "the layout of hlml_mac_info_t");
_Static_assert(sizeof(hlml_row_address_t) == 6, "the layout of hlml_row_address_t");
_Static_assert(offsetof(hlml_memory_t, used) == 16, "the layout of hlml_memory_t");

static int failures = 0;
#define EXPECT(call, code)                                  \
  do {                                                      \
    hlml_return_t got = (call);                             \
    if (got != (code)) {                                    \
      fprintf(stderr, "%s returned %d\n", #call, (int)got); \
      ++failures;                                           \
    }                                                       \
  } while (0)

static void expectUninitialized(void) {
  EXPECT(hlml_shutdown(), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_hlml_version(NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_driver_version(NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_count(NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_handle_by_pci_bus_id(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_handle_by_index(0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_handle_by_UUID(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_name(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_pci_info(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_uuid(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_serial(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_serial_number(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_model_number(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_minor_number(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_module_id(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_board_id(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_hl_revision(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_pcb_info(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_firmware_fit_version(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_firmware_spi_version(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_fw_boot_version(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_fw_os_version(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_cpld_version(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_clock_info(NULL, (hlml_clock_type_t)0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_max_clock_info(NULL, (hlml_clock_type_t)0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_utilization_rates(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_memory_info(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_temperature(NULL, (hlml_temperature_sensors_t)0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_temperature_threshold(NULL, (hlml_temperature_thresholds_t)0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_persistence_mode(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_performance_state(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_power_usage(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_power_management_default_limit(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_total_energy_consumption(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_current_clocks_throttle_reasons(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_violation_status(NULL, (hlml_perf_policy_type_t)0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_pcie_throughput(NULL, (hlml_pcie_util_counter_t)0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_pcie_replay_counter(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_curr_pcie_link_generation(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_curr_pcie_link_width(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_ecc_mode(NULL, NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_total_ecc_errors(NULL, (hlml_memory_error_type_t)0, (hlml_ecc_counter_type_t)0, NULL),
         HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_memory_error_counter(NULL, (hlml_memory_error_type_t)0, (hlml_ecc_counter_type_t)0,
                                              (hlml_memory_location_type_t)0, NULL),
         HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_err_inject(NULL, (hlml_err_inject_t)0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_replaced_rows(NULL, (hlml_row_replacement_cause_t)0, NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_replaced_rows_pending_status(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_event_set_create(NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_event_set_free(NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_register_events(NULL, 0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_event_set_wait(NULL, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_mac_info(NULL, NULL, 0, 0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_get_mac_addr_info(NULL, NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_nic_get_link(NULL, 0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_nic_get_statistics(NULL, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_cpu_affinity(NULL, 0, NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_cpu_affinity_within_scope(NULL, 0, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_get_memory_affinity(NULL, 0, NULL, 0), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_set_cpu_affinity(NULL), HLML_ERROR_UNINITIALIZED);
  EXPECT(hlml_device_clear_cpu_affinity(NULL), HLML_ERROR_UNINITIALIZED);
}

int main(void) {
  hlml_device_t device = NULL;
  unsigned int count = 0;
  expectUninitialized();
  EXPECT(hlml_init_with_flags(0), HLML_SUCCESS);
  EXPECT(hlml_init(), HLML_ERROR_ALREADY_INITIALIZED);
  EXPECT(hlml_device_get_count(&count), HLML_SUCCESS);
  EXPECT(hlml_device_get_handle_by_index(count - 1, &device), HLML_SUCCESS);
  EXPECT(hlml_shutdown(), HLML_SUCCESS);
  expectUninitialized();
  return failures ? 1 : 0;
}
