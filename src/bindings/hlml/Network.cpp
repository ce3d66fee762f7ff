// SPDX-License-Identifier: Apache-2.0
// Ports, their addresses and links.
#include <algorithm>
#include <cstring>
#include <vector>

#include "bindings/hlml/Library.h"

using hpu::hlml::guarded;
using hpu::hlml::Library;
using hpu::node::DeviceStatus;

// Of a counter's name (hlml_nic_stats_info_t).
constexpr size_t kNameBytes = 32;

hlml_return_t hlml_device_get_mac_info(hlml_device_t device, hlml_mac_info_t* mac_info, unsigned int mac_info_size,
                                       unsigned int start_mac_id, unsigned int* actual_mac_count) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    auto ports = static_cast<unsigned int>(hpu::telemetry::board(status.target).ports);
    if (!mac_info || !actual_mac_count || mac_info_size == 0 || start_mac_id >= ports)
      return HLML_ERROR_INVALID_ARGUMENT;
    unsigned int count = std::min(mac_info_size, ports - start_mac_id);
    for (unsigned int i = 0; i < count; ++i) {
      int port = static_cast<int>(start_mac_id + i);
      auto address = hpu::telemetry::macAddress(status, port);
      memcpy(mac_info[i].addr, address.data(), address.size());
      mac_info[i].id = port;
    }
    *actual_mac_count = count;
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_get_mac_addr_info(hlml_device_t device, uint64_t* mask, uint64_t* ext_mask) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    if (!mask || !ext_mask) return HLML_ERROR_INVALID_ARGUMENT;
    const hpu::telemetry::Board& board = hpu::telemetry::board(status.target);
    mask[0] = board.portMask;
    ext_mask[0] = board.externalPortMask;
    for (int word = 1; word < PORTS_ARR_SIZE; ++word) mask[word] = ext_mask[word] = 0;
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_nic_get_link(hlml_device_t device, uint32_t port, bool* up) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    bool exists = port < 64 && hpu::telemetry::board(status.target).hasPort(static_cast<int>(port));
    if (!up || !exists) return HLML_ERROR_INVALID_ARGUMENT;
    *up = hpu::telemetry::linkUp(status, static_cast<int>(port));
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_nic_get_statistics(hlml_device_t device, hlml_nic_stats_info_t* stats_info) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    const hpu::telemetry::Board& board = hpu::telemetry::board(status.target);
    if (!stats_info || stats_info->port >= 64 || !board.hasPort(static_cast<int>(stats_info->port)) ||
        !stats_info->str_buf || !stats_info->val_buf || !stats_info->num_of_counters_out)
      return HLML_ERROR_INVALID_ARGUMENT;
    HLML_RETURN_IF_ERROR(Library::get().aliveStatus(device, status));
    const std::vector<hpu::telemetry::PortCounter> counters =
        hpu::telemetry::portCounters(status, static_cast<int>(stats_info->port));
    for (size_t i = 0; i < counters.size(); ++i) {
      char* name = stats_info->str_buf + i * kNameBytes;
      memset(name, 0, kNameBytes);
      counters[i].name.copy(name, kNameBytes - 1);
      stats_info->val_buf[i] = counters[i].value;
    }
    *stats_info->num_of_counters_out = static_cast<uint32_t>(counters.size());
    return HLML_SUCCESS;
  });
}
