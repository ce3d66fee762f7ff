// SPDX-License-Identifier: Apache-2.0
// Initialisation, versions, handles, and what a device is.
#include <cstdio>
#include <cstring>

#include "base/PciAddress.h"
#include "bindings/hlml/Library.h"
#include "hpu/version.h"

using hpu::hlml::copyText;
using hpu::hlml::guarded;
using hpu::hlml::Library;
using hpu::node::DeviceStatus;
using hpu::node::NodeStatus;

namespace {

constexpr unsigned int kKnownFlags = 1 | 2 | 4;

template <typename Matches>
hlml_return_t findDevice(hlml_device_t* device, Matches&& matches) {
  NodeStatus status;
  HLML_RETURN_IF_ERROR(Library::get().nodeStatus(status));
  for (const DeviceStatus& each : status.devices) {
    if (!matches(each)) continue;
    *device = Library::get().handleOf(each.index);
    return HLML_SUCCESS;
  }
  return HLML_ERROR_NOT_FOUND;
}

/// A text that the device's status has.
template <typename Get>
hlml_return_t textOf(hlml_device_t device, char* to, unsigned int length, Get&& get) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    return copyText(get(status), to, length);
  });
}

template <typename Number, typename Get>
hlml_return_t identityNumber(hlml_device_t device, Number* to, Get&& get) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    if (!to) return HLML_ERROR_INVALID_ARGUMENT;
    *to = static_cast<Number>(get(status));
    return HLML_SUCCESS;
  });
}

/// What a simulated device has not got; misuse is still told apart.
hlml_return_t notSupported(hlml_device_t device, const void* to) {
  return guarded([&] {
    int index = 0;
    HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
    return to ? HLML_ERROR_NOT_SUPPORTED : HLML_ERROR_INVALID_ARGUMENT;
  });
}

}  // namespace

// ---- Library ------------------------------------------------------------------------------------------

hlml_return_t hlml_init(void) {
  return guarded([] { return Library::get().initialize(); });
}

hlml_return_t hlml_init_with_flags(unsigned int flags) {
  return guarded([&] { return flags & ~kKnownFlags ? HLML_ERROR_INVALID_ARGUMENT : Library::get().initialize(); });
}

hlml_return_t hlml_shutdown(void) {
  return guarded([] { return Library::get().shutdown(); });
}

hlml_return_t hlml_get_hlml_version(char* version, unsigned int length) {
  return guarded([&] {
    HLML_RETURN_IF_ERROR(hpu::hlml::checkInitialized());
    return copyText("hl-" HPU_VERSION_STRING "-openhpu", version, length);
  });
}

hlml_return_t hlml_get_driver_version(char* driver_version, unsigned int length) {
  return guarded([&] {
    HLML_RETURN_IF_ERROR(hpu::hlml::checkInitialized());
    return copyText(HPU_VERSION_STRING "-openhpu-sim", driver_version, length);
  });
}

// ---- Handles ------------------------------------------------------------------------------------------

hlml_return_t hlml_device_get_count(unsigned int* device_count) {
  return guarded([&] {
    NodeStatus status;
    HLML_RETURN_IF_ERROR(Library::get().nodeStatus(status));
    if (!device_count) return HLML_ERROR_INVALID_ARGUMENT;
    *device_count = static_cast<unsigned int>(status.devices.size());
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_device_get_handle_by_index(unsigned int index, hlml_device_t* device) {
  return guarded([&] {
    HLML_RETURN_IF_ERROR(hpu::hlml::checkInitialized());
    if (!device) return HLML_ERROR_INVALID_ARGUMENT;
    return findDevice(device, [&](const DeviceStatus& each) { return static_cast<unsigned int>(each.index) == index; });
  });
}

hlml_return_t hlml_device_get_handle_by_pci_bus_id(const char* pci_addr, hlml_device_t* device) {
  return guarded([&] {
    HLML_RETURN_IF_ERROR(hpu::hlml::checkInitialized());
    if (!pci_addr || !device) return HLML_ERROR_INVALID_ARGUMENT;
    return findDevice(device,
                      [&](const DeviceStatus& each) { return hpu::base::samePciAddress(pci_addr, each.pciAddress); });
  });
}

hlml_return_t hlml_device_get_handle_by_UUID(const char* uuid, hlml_device_t* device) {
  return guarded([&] {
    HLML_RETURN_IF_ERROR(hpu::hlml::checkInitialized());
    if (!uuid || !device) return HLML_ERROR_INVALID_ARGUMENT;
    return findDevice(device, [&](const DeviceStatus& each) { return each.uuid == uuid; });
  });
}

// ---- Identity -----------------------------------------------------------------------------------------

hlml_return_t hlml_device_get_name(hlml_device_t device, char* name, unsigned int length) {
  return textOf(device, name, length, [](const DeviceStatus& s) { return s.name; });
}

hlml_return_t hlml_device_get_uuid(hlml_device_t device, char* uuid, unsigned int length) {
  return textOf(device, uuid, length, [](const DeviceStatus& s) { return s.uuid; });
}

hlml_return_t hlml_device_get_serial(hlml_device_t device, char* serial, unsigned int length) {
  return textOf(device, serial, length, [](const DeviceStatus& s) { return s.serial; });
}

hlml_return_t hlml_get_serial_number(hlml_device_t device, char* serial_number, unsigned int length) {
  return hlml_device_get_serial(device, serial_number, length);
}

hlml_return_t hlml_get_model_number(hlml_device_t device, char* model_number, unsigned int length) {
  return textOf(device, model_number, length, [](const DeviceStatus& s) { return "SIM-" + s.name; });
}

hlml_return_t hlml_device_get_minor_number(hlml_device_t device, unsigned int* minor_number) {
  return identityNumber(device, minor_number, [](const DeviceStatus& s) { return s.index; });
}

hlml_return_t hlml_device_get_module_id(hlml_device_t device, unsigned int* module_id) {
  return identityNumber(device, module_id, [](const DeviceStatus& s) { return s.moduleId; });
}

hlml_return_t hlml_device_get_board_id(hlml_device_t device, unsigned int* board_id) {
  return identityNumber(device, board_id, [](const DeviceStatus&) { return 0; });
}

hlml_return_t hlml_device_get_pci_info(hlml_device_t device, hlml_pci_info_t* pci) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    if (!pci) return HLML_ERROR_INVALID_ARGUMENT;
    unsigned int domain = 0, bus = 0, slot = 0, function = 0;
    if (sscanf(status.pciAddress.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
      return HLML_ERROR_UNKNOWN;
    hlml_pci_info_t info = {};
    HLML_RETURN_IF_ERROR(copyText(status.pciAddress, info.bus_id, sizeof info.bus_id));
    info.domain = domain;
    info.bus = bus;
    info.device = slot;
    const hpu::telemetry::Board& board = hpu::telemetry::board(status.target);
    info.pci_device_id = board.pciDeviceId;
    snprintf(info.caps.link_speed, sizeof info.caps.link_speed, "0x%x", static_cast<unsigned>(board.pcieGeneration));
    snprintf(info.caps.link_width, sizeof info.caps.link_width, "%d", board.pcieLanes);
    *pci = info;
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_device_get_hl_revision(hlml_device_t device, int* hl_revision) {
  return notSupported(device, hl_revision);
}

hlml_return_t hlml_device_get_pcb_info(hlml_device_t device, hlml_pcb_info_t* pcb) {
  return notSupported(device, pcb);
}

hlml_return_t hlml_get_firmware_fit_version(hlml_device_t device, char* firmware_fit, unsigned int) {
  return notSupported(device, firmware_fit);
}

hlml_return_t hlml_get_firmware_spi_version(hlml_device_t device, char* firmware_spi, unsigned int) {
  return notSupported(device, firmware_spi);
}

hlml_return_t hlml_get_fw_boot_version(hlml_device_t device, char* fw_boot_version, unsigned int) {
  return notSupported(device, fw_boot_version);
}

hlml_return_t hlml_get_fw_os_version(hlml_device_t device, char* fw_os_version, unsigned int) {
  return notSupported(device, fw_os_version);
}

hlml_return_t hlml_get_cpld_version(hlml_device_t device, char* cpld_version, unsigned int) {
  return notSupported(device, cpld_version);
}
