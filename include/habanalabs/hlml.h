/* SPDX-License-Identifier: Apache-2.0
 * HLML: the management library of HPUs (libhlml.so), here over OpenHPU's simulated node.
 * The one thing to know: names, types and values are those of Habana's library, so that monitors build and run
 * unmodified; utilisation and throughput are over simulated time, power, temperature and energy are modelled,
 * and what a simulator cannot have is HLML_ERROR_NOT_SUPPORTED (docs/hpu-smi.md says which and why).
 *
 *   unsigned int count;
 *   if (hlml_init() == HLML_SUCCESS && hlml_device_get_count(&count) == HLML_SUCCESS) printf("%u\n", count);
 *
 * C11 and C++11. Every function may be called by any thread, and returns
 *   HLML_ERROR_UNINITIALIZED      outside of hlml_init ... hlml_shutdown,
 *   HLML_ERROR_INVALID_ARGUMENT   for a null pointer, an unknown enumerator or a handle that is not valid,
 *   HLML_ERROR_INSUFFICIENT_SIZE  when the caller's buffer is too small (nothing is written then),
 *   HLML_ERROR_AIP_IS_LOST        for readings of a device that is lost until it is reset,
 *   HLML_ERROR_NO_DATA            for readings of a device whose owner is stopped and has never answered.
 */
#ifndef HABANALABS_HLML_H
#define HABANALABS_HLML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sizes ------------------------------------------------------------------------------------------- */
#define PCI_DOMAIN_LEN 5
#define PCI_ADDR_LEN (PCI_DOMAIN_LEN + 10)
#define PCI_LINK_INFO_LEN 10
#ifndef ETHER_ADDR_LEN /* <net/ethernet.h> has it too. */
#define ETHER_ADDR_LEN 6
#endif
#define HL_FIELD_MAX_SIZE 32
#define PORTS_ARR_SIZE 2 /* Words of the masks of hlml_get_mac_addr_info. */
#define HLML_DEVICE_MAC_MAX_ADDRESSES 48
#define HLML_DEVICE_ROW_RPL_MAX 32

/* ---- Bits -------------------------------------------------------------------------------------------- */
/* Events. An HBM error sets the ECC bit and the DRAM bit of its kind. */
#define HLML_EVENT_ECC_ERR (1 << 0)
#define HLML_EVENT_ECC_DERR (1 << 0)
#define HLML_EVENT_CRITICAL_ERR (1 << 1)
#define HLML_EVENT_CLOCK_RATE (1 << 2)
#define HLML_EVENT_DRAM_ERR (1 << 3)
#define HLML_EVENT_DRAM_DERR (1 << 3)
#define HLML_EVENT_ECC_SERR (1 << 4)
#define HLML_EVENT_DRAM_SERR (1 << 5)
/* OpenHPU's own: an injected non-fatal event, for which the library has no bit. */
#define HLML_EVENT_HPU_NON_FATAL (1 << 16)

#define HLML_CLOCKS_THROTTLE_REASON_POWER (1 << 0)
#define HLML_CLOCKS_THROTTLE_REASON_THERMAL (1 << 1)

#define HLML_AFFINITY_SCOPE_NODE 0
#define HLML_AFFINITY_SCOPE_SOCKET 1

/* ---- Enumerations ------------------------------------------------------------------------------------ */
typedef enum hlml_return {
  HLML_SUCCESS = 0,
  HLML_ERROR_UNINITIALIZED = 1,
  HLML_ERROR_INVALID_ARGUMENT = 2,
  HLML_ERROR_NOT_SUPPORTED = 3,
  HLML_ERROR_ALREADY_INITIALIZED = 5,
  HLML_ERROR_NOT_FOUND = 6,
  HLML_ERROR_INSUFFICIENT_SIZE = 7,
  HLML_ERROR_DRIVER_NOT_LOADED = 9,
  HLML_ERROR_TIMEOUT = 10,
  HLML_ERROR_AIP_IS_LOST = 15,
  HLML_ERROR_MEMORY = 20,
  HLML_ERROR_NO_DATA = 21,
  HLML_ERROR_UNKNOWN = 49
} hlml_return_t;

typedef enum hlml_clock_type {
  HLML_CLOCK_SOC = 0,
  HLML_CLOCK_IC = 1,
  HLML_CLOCK_MME = 2,
  HLML_CLOCK_TPC = 3,
  HLML_CLOCK_COUNT = 4
} hlml_clock_type_t;

typedef enum hlml_temperature_sensors {
  HLML_TEMPERATURE_ON_AIP = 0,
  HLML_TEMPERATURE_ON_BOARD = 1,
  HLML_TEMPERATURE_OTHER = 2
} hlml_temperature_sensors_t;

typedef enum hlml_temperature_thresholds {
  HLML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
  HLML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
  HLML_TEMPERATURE_THRESHOLD_MEM_MAX = 2,
  HLML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,
  HLML_TEMPERATURE_THRESHOLD_COUNT = 4
} hlml_temperature_thresholds_t;

typedef enum hlml_enable_state { HLML_FEATURE_DISABLED = 0, HLML_FEATURE_ENABLED = 1 } hlml_enable_state_t;

typedef enum hlml_p_states { HLML_PSTATE_0 = 0, HLML_PSTATE_UNKNOWN = 32 } hlml_p_states_t;

typedef enum hlml_memory_error_type {
  HLML_MEMORY_ERROR_TYPE_CORRECTED = 0,
  HLML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
  HLML_MEMORY_ERROR_TYPE_COUNT = 2
} hlml_memory_error_type_t;

typedef enum hlml_memory_location_type {
  HLML_MEMORY_LOCATION_SRAM = 0,
  HLML_MEMORY_LOCATION_DRAM = 1,
  HLML_MEMORY_LOCATION_COUNT = 2
} hlml_memory_location_type_t;

typedef enum hlml_ecc_counter_type {
  HLML_VOLATILE_ECC = 0,
  HLML_AGGREGATE_ECC = 1,
  HLML_ECC_COUNTER_TYPE_COUNT = 2
} hlml_ecc_counter_type_t;

typedef enum hlml_err_inject {
  HLML_ERR_INJECT_ENDLESS_COMMAND = 0,
  HLML_ERR_INJECT_NON_FATAL_EVENT = 1,
  HLML_ERR_INJECT_FATAL_EVENT = 2,
  HLML_ERR_INJECT_LOSS_OF_HEARTBEAT = 3,
  HLML_ERR_INJECT_THERMAL_EVENT = 4,
  HLML_ERR_INJECT_COUNT = 5
} hlml_err_inject_t;

typedef enum hlml_pcie_util_counter {
  HLML_PCIE_UTIL_TX_BYTES = 0,
  HLML_PCIE_UTIL_RX_BYTES = 1,
  HLML_PCIE_UTIL_COUNT = 2
} hlml_pcie_util_counter_t;

typedef enum hlml_perf_policy_type {
  HLML_PERF_POLICY_POWER = 0,
  HLML_PERF_POLICY_THERMAL = 1,
  HLML_PERF_POLICY_COUNT = 2
} hlml_perf_policy_type_t;

typedef enum hlml_row_replacement_cause {
  HLML_ROW_REPLACEMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0,
  HLML_ROW_REPLACEMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1,
  HLML_ROW_REPLACEMENT_CAUSE_COUNT = 2
} hlml_row_replacement_cause_t;

/* ---- Types ------------------------------------------------------------------------------------------- */
typedef unsigned int hlml_affinity_scope_t;
typedef void* hlml_device_t;    /* Opaque; valid until hlml_shutdown. */
typedef void* hlml_event_set_t; /* Opaque; valid until hlml_event_set_free. */

typedef struct hlml_pci_cap {
  char link_speed[PCI_LINK_INFO_LEN]; /* The generation: "0x4". */
  char link_width[PCI_LINK_INFO_LEN]; /* Lanes: "16". */
} hlml_pci_cap_t;

typedef struct hlml_pci_info {
  unsigned int bus;
  char bus_id[PCI_ADDR_LEN]; /* "0000:19:00.0" */
  unsigned int device;
  unsigned int domain;
  unsigned int pci_device_id; /* Vendor in the upper half. */
  hlml_pci_cap_t caps;
} hlml_pci_info_t;

typedef struct hlml_utilization {
  unsigned int aip; /* Percent. */
} hlml_utilization_t;

typedef struct hlml_memory { /* Bytes. */
  unsigned long long free;
  unsigned long long total;
  unsigned long long used;
} hlml_memory_t;

typedef struct hlml_pcb_info {
  char pcb_ver[HL_FIELD_MAX_SIZE];
  char pcb_assembly_ver[HL_FIELD_MAX_SIZE];
} hlml_pcb_info_t;

typedef struct hlml_event_data {
  hlml_device_t device;
  unsigned long long event_type; /* HLML_EVENT_... bits. */
} hlml_event_data_t;

typedef struct hlml_mac_info {
  unsigned char addr[ETHER_ADDR_LEN];
  int id; /* The port. */
} hlml_mac_info_t;

typedef struct hlml_nic_stats_info {
  uint32_t port;                 /* In. */
  char* str_buf;                 /* Out: names of 32 bytes each, zero-terminated. */
  uint64_t* val_buf;             /* Out: as many values. */
  uint32_t* num_of_counters_out; /* Out: how many. Callers give room for 256. */
} hlml_nic_stats_info_t;

typedef struct hlml_violation_time { /* Simulated nanoseconds since the device was acquired. */
  unsigned long long reference_time;
  unsigned long long violation_time;
} hlml_violation_time_t;

typedef struct hlml_row_address {
  uint8_t hbm_idx;
  uint8_t pc;
  uint8_t sid;
  uint8_t bank_idx;
  uint16_t row_addr;
} hlml_row_address_t;

/* ---- Library ----------------------------------------------------------------------------------------- */
/* HLML_ERROR_ALREADY_INITIALIZED the second time, which changes nothing; HLML_ERROR_DRIVER_NOT_LOADED when the node
 * cannot be read. Flags 1, 2 and 4 are accepted and have no effect. */
hlml_return_t hlml_init(void);
hlml_return_t hlml_init_with_flags(unsigned int flags);
/* Ends the validity of all handles; waits for events return HLML_ERROR_UNINITIALIZED. */
hlml_return_t hlml_shutdown(void);
hlml_return_t hlml_get_hlml_version(char* version, unsigned int length);
hlml_return_t hlml_get_driver_version(char* driver_version, unsigned int length);

/* ---- Devices ----------------------------------------------------------------------------------------- */
hlml_return_t hlml_device_get_count(unsigned int* device_count);
/* HLML_ERROR_NOT_FOUND: no such device. */
hlml_return_t hlml_device_get_handle_by_pci_bus_id(const char* pci_addr, hlml_device_t* device);
hlml_return_t hlml_device_get_handle_by_index(unsigned int index, hlml_device_t* device);
hlml_return_t hlml_device_get_handle_by_UUID(const char* uuid, hlml_device_t* device);

hlml_return_t hlml_device_get_name(hlml_device_t device, char* name, unsigned int length);
hlml_return_t hlml_device_get_pci_info(hlml_device_t device, hlml_pci_info_t* pci);
hlml_return_t hlml_device_get_uuid(hlml_device_t device, char* uuid, unsigned int length);
hlml_return_t hlml_device_get_serial(hlml_device_t device, char* serial, unsigned int length);
hlml_return_t hlml_get_serial_number(hlml_device_t device, char* serial_number, unsigned int length);
/* A simulated id: "SIM-" and the name. */
hlml_return_t hlml_get_model_number(hlml_device_t device, char* model_number, unsigned int length);
/* The index: there is no device file. */
hlml_return_t hlml_device_get_minor_number(hlml_device_t device, unsigned int* minor_number);
hlml_return_t hlml_device_get_module_id(hlml_device_t device, unsigned int* module_id);
/* 0: a node has one board. */
hlml_return_t hlml_device_get_board_id(hlml_device_t device, unsigned int* board_id);
/* Not supported: a simulated device has no silicon, circuit board or firmware. */
hlml_return_t hlml_device_get_hl_revision(hlml_device_t device, int* hl_revision);
hlml_return_t hlml_device_get_pcb_info(hlml_device_t device, hlml_pcb_info_t* pcb);
hlml_return_t hlml_get_firmware_fit_version(hlml_device_t device, char* firmware_fit, unsigned int length);
hlml_return_t hlml_get_firmware_spi_version(hlml_device_t device, char* firmware_spi, unsigned int length);
hlml_return_t hlml_get_fw_boot_version(hlml_device_t device, char* fw_boot_version, unsigned int length);
hlml_return_t hlml_get_fw_os_version(hlml_device_t device, char* fw_os_version, unsigned int length);
hlml_return_t hlml_get_cpld_version(hlml_device_t device, char* cpld_version, unsigned int length);

/* ---- Readings ---------------------------------------------------------------------------------------- */
/* MHz, of the owner's clock profile; SOC is the MME's. IC: not supported. */
hlml_return_t hlml_device_get_clock_info(hlml_device_t device, hlml_clock_type_t type, unsigned int* clock);
hlml_return_t hlml_device_get_max_clock_info(hlml_device_t device, hlml_clock_type_t type, unsigned int* clock);
/* The busiest engine's share of simulated time since the previous reading of this device by this process, or the
 * one before when that is less than 100 ms ago; the first window begins with hlml_init. */
hlml_return_t hlml_device_get_utilization_rates(hlml_device_t device, hlml_utilization_t* utilization);
hlml_return_t hlml_device_get_memory_info(hlml_device_t device, hlml_memory_t* memory);
/* Degrees Celsius, modelled. Only HLML_TEMPERATURE_ON_AIP; thresholds are not supported. */
hlml_return_t hlml_device_get_temperature(hlml_device_t device, hlml_temperature_sensors_t sensor_type,
                                          unsigned int* temp);
hlml_return_t hlml_device_get_temperature_threshold(hlml_device_t device, hlml_temperature_thresholds_t threshold_type,
                                                    unsigned int* temp);
/* Not supported: there is no driver that could be unloaded. */
hlml_return_t hlml_device_get_persistence_mode(hlml_device_t device, hlml_enable_state_t* mode);
/* HLML_PSTATE_0: simulated clocks do not change. */
hlml_return_t hlml_device_get_performance_state(hlml_device_t device, hlml_p_states_t* p_state);
/* Milliwatts, modelled, over the window of the utilisation. */
hlml_return_t hlml_device_get_power_usage(hlml_device_t device, unsigned int* power);
hlml_return_t hlml_device_get_power_management_default_limit(hlml_device_t device, unsigned int* default_limit);
/* Millijoules, modelled, over the simulated time since the device was acquired. */
hlml_return_t hlml_device_get_total_energy_consumption(hlml_device_t device, unsigned long long* energy);
/* HLML_CLOCKS_THROTTLE_REASON_... bits. */
hlml_return_t hlml_device_get_current_clocks_throttle_reasons(hlml_device_t device,
                                                              unsigned long long* clocks_throttle_reasons);
/* POWER: the simulated time in which the MME ran below its maximum clock. THERMAL: 0, injected heat slows nothing. */
hlml_return_t hlml_device_get_violation_status(hlml_device_t device, hlml_perf_policy_type_t perf_policy_type,
                                               hlml_violation_time_t* viol_time);
/* Kilobytes (1000) a simulated second, over the window of the utilisation. RX is what the device receives. */
hlml_return_t hlml_device_get_pcie_throughput(hlml_device_t device, hlml_pcie_util_counter_t counter,
                                              unsigned int* value);
/* Not supported: there is no link that could lose a packet. */
hlml_return_t hlml_device_get_pcie_replay_counter(hlml_device_t device, unsigned int* value);
hlml_return_t hlml_device_get_curr_pcie_link_generation(hlml_device_t device, unsigned int* curr_link_gen);
hlml_return_t hlml_device_get_curr_pcie_link_width(hlml_device_t device, unsigned int* curr_link_width);

/* ---- Errors ------------------------------------------------------------------------------------------ */
hlml_return_t hlml_device_get_ecc_mode(hlml_device_t device, hlml_enable_state_t* current,
                                       hlml_enable_state_t* pending);
/* Errors that were injected since the device was acquired. A simulated memory lives no longer than that, so
 * aggregate counts equal volatile ones. All are of the HBM; counters of other memory are not supported. */
hlml_return_t hlml_device_get_total_ecc_errors(hlml_device_t device, hlml_memory_error_type_t error_type,
                                               hlml_ecc_counter_type_t counter_type, unsigned long long* ecc_counts);
hlml_return_t hlml_device_get_memory_error_counter(hlml_device_t device, hlml_memory_error_type_t error_type,
                                                   hlml_ecc_counter_type_t counter_type,
                                                   hlml_memory_location_type_t location,
                                                   unsigned long long* ecc_counts);
/* Injects a fault into a device that some process of this user owns; HLML_ERROR_NO_DATA when nobody does. */
hlml_return_t hlml_device_err_inject(hlml_device_t device, hlml_err_inject_t err_type);
/* Not supported, and so is the next one: a simulated HBM has no spare rows. */
hlml_return_t hlml_device_get_replaced_rows(hlml_device_t device, hlml_row_replacement_cause_t cause,
                                            unsigned int* row_count, hlml_row_address_t* addresses);
hlml_return_t hlml_device_get_replaced_rows_pending_status(hlml_device_t device, hlml_enable_state_t* is_pending);

/* ---- Events ------------------------------------------------------------------------------------------ */
hlml_return_t hlml_event_set_create(hlml_event_set_t* set);
hlml_return_t hlml_event_set_free(hlml_event_set_t set);
/* The set reports what happens from now on. Registering a device again replaces its types. */
hlml_return_t hlml_device_register_events(hlml_device_t device, unsigned long long event_types, hlml_event_set_t set);
/* Waits for one event of one device, 0: looks once. HLML_ERROR_TIMEOUT: there was none. */
hlml_return_t hlml_event_set_wait(hlml_event_set_t set, hlml_event_data_t* data, unsigned int timeoutms);

/* ---- Network ----------------------------------------------------------------------------------------- */
/* Fills up to mac_info_size addresses of the ports from start_mac_id on. */
hlml_return_t hlml_device_get_mac_info(hlml_device_t device, hlml_mac_info_t* mac_info, unsigned int mac_info_size,
                                       unsigned int start_mac_id, unsigned int* actual_mac_count);
/* Masks of PORTS_ARR_SIZE words each: all ports, and those that leave the box. */
hlml_return_t hlml_get_mac_addr_info(hlml_device_t device, uint64_t* mask, uint64_t* ext_mask);
/* Ports inside the box are up; those that leave it are while the device has ranks of communicators of several nodes. */
hlml_return_t hlml_nic_get_link(hlml_device_t device, uint32_t port, bool* up);
/* What the port has carried since the device was acquired, as modelled ("tx_bytes", "rx_packets", "tx_busy_ns" ...),
 * and what the network below external ports has met ("retransmitted", "bad_icrc" ...; of the owner's process, RoCE
 * only). The names are the same for every port. */
hlml_return_t hlml_nic_get_statistics(hlml_device_t device, hlml_nic_stats_info_t* stats_info);

/* ---- Affinity ---------------------------------------------------------------------------------------- */
/* A simulated device is as near to every CPU and memory of the host as to any other: sets hold all that are
 * online, in words of unsigned long. Set binds the calling thread to those of them that it may use already (what
 * taskset or a batch system gave stays), clear gives back what it had when it was first bound. */
hlml_return_t hlml_device_get_cpu_affinity(hlml_device_t device, unsigned int cpu_set_size, unsigned long* cpu_set);
hlml_return_t hlml_device_get_cpu_affinity_within_scope(hlml_device_t device, unsigned int cpu_set_size,
                                                        unsigned long* cpu_set, hlml_affinity_scope_t scope);
hlml_return_t hlml_device_get_memory_affinity(hlml_device_t device, unsigned int node_set_size, unsigned long* node_set,
                                              hlml_affinity_scope_t scope);
hlml_return_t hlml_device_set_cpu_affinity(hlml_device_t device);
hlml_return_t hlml_device_clear_cpu_affinity(hlml_device_t device);

#ifdef __cplusplus
}
#endif

#endif /* HABANALABS_HLML_H */
