// SPDX-License-Identifier: Apache-2.0
// Initialisation, versions, handles and identity.
#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/bindings/hlml/FakeNode.h"

namespace hpu::hlml {
namespace {

using ::testing::StartsWith;

TEST_F(HlmlTest, InitialisingTwiceSaysSoAndChangesNothing) {
  hlml_device_t device = handle(1);
  EXPECT_EQ(hlml_init(), HLML_ERROR_ALREADY_INITIALIZED);
  EXPECT_EQ(hlml_init_with_flags(0), HLML_ERROR_ALREADY_INITIALIZED);
  unsigned int module = 0;
  EXPECT_EQ(hlml_device_get_module_id(device, &module), HLML_SUCCESS);
}

TEST_F(HlmlTest, FlagsThatAreNotThereAreRefused) {
  ASSERT_EQ(hlml_shutdown(), HLML_SUCCESS);
  EXPECT_EQ(hlml_init_with_flags(0x8), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_init_with_flags(0x6), HLML_SUCCESS);
  unsigned int count = 0;
  EXPECT_EQ(hlml_device_get_count(&count), HLML_SUCCESS);
}

TEST_F(HlmlTest, ShuttingDownTwiceSaysSo) {
  EXPECT_EQ(hlml_shutdown(), HLML_SUCCESS);
  EXPECT_EQ(hlml_shutdown(), HLML_ERROR_UNINITIALIZED);
}

TEST_F(HlmlTest, ANodeThatCannotBeReadIsADriverThatIsNotLoaded) {
  ASSERT_EQ(hlml_shutdown(), HLML_SUCCESS);
  fail(internalError("no sockets"));
  EXPECT_EQ(hlml_init(), HLML_ERROR_DRIVER_NOT_LOADED);
  EXPECT_EQ(hlml_shutdown(), HLML_ERROR_UNINITIALIZED);
  fail(okStatus());
  EXPECT_EQ(hlml_init(), HLML_SUCCESS);
}

TEST_F(HlmlTest, CountsTheDevices) {
  unsigned int count = 0;
  EXPECT_EQ(hlml_device_get_count(&count), HLML_SUCCESS);
  EXPECT_EQ(count, 8u);
  EXPECT_EQ(hlml_device_get_count(nullptr), HLML_ERROR_INVALID_ARGUMENT);
  fail(unavailable("gone"));
  EXPECT_EQ(hlml_device_get_count(&count), HLML_ERROR_UNKNOWN);
}

TEST_F(HlmlTest, FindsADeviceByIndexAddressAndUuid) {
  hlml_device_t byIndex = handle(5), other = nullptr;
  EXPECT_NE(byIndex, nullptr);
  for (const char* address : {"0000:35:01.0", "35:01.0"}) {
    other = nullptr;
    EXPECT_EQ(hlml_device_get_handle_by_pci_bus_id(address, &other), HLML_SUCCESS);
    EXPECT_EQ(other, byIndex);
  }
  other = nullptr;
  EXPECT_EQ(hlml_device_get_handle_by_UUID("uuid-5", &other), HLML_SUCCESS);
  EXPECT_EQ(other, byIndex);
}

TEST_F(HlmlTest, ADeviceThatIsNotThereIsNotFound) {
  hlml_device_t device = nullptr;
  EXPECT_EQ(hlml_device_get_handle_by_index(8, &device), HLML_ERROR_NOT_FOUND);
  EXPECT_EQ(hlml_device_get_handle_by_index(~0u, &device), HLML_ERROR_NOT_FOUND);
  EXPECT_EQ(hlml_device_get_handle_by_pci_bus_id("0000:ff:00.0", &device), HLML_ERROR_NOT_FOUND);
  EXPECT_EQ(hlml_device_get_handle_by_pci_bus_id("", &device), HLML_ERROR_NOT_FOUND);
  EXPECT_EQ(hlml_device_get_handle_by_UUID("uuid", &device), HLML_ERROR_NOT_FOUND);
  EXPECT_EQ(device, nullptr);
}

TEST_F(HlmlTest, LookingADeviceUpWithNullPointersIsRefused) {
  hlml_device_t device = nullptr;
  EXPECT_EQ(hlml_device_get_handle_by_index(0, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_handle_by_pci_bus_id(nullptr, &device), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_handle_by_pci_bus_id("30:01.0", nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_handle_by_UUID(nullptr, &device), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_handle_by_UUID("uuid-0", nullptr), HLML_ERROR_INVALID_ARGUMENT);
}

TEST_F(HlmlTest, VersionsAreTexts) {
  char text[128];
  EXPECT_EQ(hlml_get_hlml_version(text, sizeof text), HLML_SUCCESS);
  EXPECT_THAT(text, StartsWith("hl-"));
  EXPECT_EQ(hlml_get_driver_version(text, sizeof text), HLML_SUCCESS);
  EXPECT_THAT(text, ::testing::EndsWith("-openhpu-sim"));
  EXPECT_EQ(hlml_get_hlml_version(nullptr, 128), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_get_driver_version(nullptr, 128), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_get_hlml_version(text, 3), HLML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(hlml_get_driver_version(text, 0), HLML_ERROR_INSUFFICIENT_SIZE);
}

TEST_F(HlmlTest, TextsOfADeviceNeedRoomForTheirEnd) {
  struct Text {
    hlml_return_t (*get)(hlml_device_t, char*, unsigned int);
    const char* expected;
  };
  const Text texts[] = {{hlml_device_get_name, "HL-225"},
                        {hlml_device_get_uuid, "uuid-2"},
                        {hlml_device_get_serial, "serial-2"},
                        {hlml_get_serial_number, "serial-2"},
                        {hlml_get_model_number, "SIM-HL-225"}};
  for (const Text& each : texts) {
    char text[64] = "untouched";
    auto length = static_cast<unsigned int>(strlen(each.expected));
    EXPECT_EQ(each.get(handle(2), text, length), HLML_ERROR_INSUFFICIENT_SIZE);
    EXPECT_STREQ(text, "untouched");
    EXPECT_EQ(each.get(handle(2), text, length + 1), HLML_SUCCESS);
    EXPECT_STREQ(text, each.expected);
    EXPECT_EQ(each.get(handle(2), nullptr, 64), HLML_ERROR_INVALID_ARGUMENT);
    expectHandleIsChecked([&](hlml_device_t device) { return each.get(device, text, 64); });
  }
}

TEST_F(HlmlTest, NumbersOfADeviceAreThoseOfTheNode) {
  struct Number {
    hlml_return_t (*get)(hlml_device_t, unsigned int*);
    unsigned int expected;
  };
  const Number numbers[] = {
      {hlml_device_get_minor_number, 2}, {hlml_device_get_module_id, 5}, {hlml_device_get_board_id, 0}};
  for (const Number& each : numbers) {
    unsigned int value = 77;
    EXPECT_EQ(each.get(handle(2), &value), HLML_SUCCESS);
    EXPECT_EQ(value, each.expected);
    EXPECT_EQ(each.get(handle(2), nullptr), HLML_ERROR_INVALID_ARGUMENT);
    expectHandleIsChecked([&](hlml_device_t device) { return each.get(device, &value); });
  }
}

TEST_F(HlmlTest, PciInfoTakesTheAddressApart) {
  hlml_pci_info_t pci;
  EXPECT_EQ(hlml_device_get_pci_info(handle(2), &pci), HLML_SUCCESS);
  EXPECT_STREQ(pci.bus_id, "0000:32:01.0");
  EXPECT_EQ(pci.domain, 0u);
  EXPECT_EQ(pci.bus, 0x32u);
  EXPECT_EQ(pci.device, 1u);
  EXPECT_EQ(pci.pci_device_id, 0x1da31020u);
  EXPECT_STREQ(pci.caps.link_speed, "0x4");
  EXPECT_STREQ(pci.caps.link_width, "16");
  EXPECT_EQ(hlml_device_get_pci_info(handle(2), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t device) { return hlml_device_get_pci_info(device, &pci); });
}

TEST_F(HlmlTest, WhatASimulatorHasNotGotIsNotSupported) {
  struct Text {
    hlml_return_t (*get)(hlml_device_t, char*, unsigned int);
  };
  char text[64] = "untouched";
  for (auto get : {hlml_get_firmware_fit_version, hlml_get_firmware_spi_version, hlml_get_fw_boot_version,
                   hlml_get_fw_os_version, hlml_get_cpld_version}) {
    EXPECT_EQ(get(handle(0), text, sizeof text), HLML_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(get(handle(0), nullptr, sizeof text), HLML_ERROR_INVALID_ARGUMENT);
    expectHandleIsChecked([&](hlml_device_t device) { return get(device, text, sizeof text); });
  }
  EXPECT_STREQ(text, "untouched");
  int revision = 5;
  hlml_pcb_info_t pcb;
  EXPECT_EQ(hlml_device_get_hl_revision(handle(0), &revision), HLML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(revision, 5);
  EXPECT_EQ(hlml_device_get_hl_revision(handle(0), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_pcb_info(handle(0), &pcb), HLML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(hlml_device_get_pcb_info(handle(0), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_hl_revision(d, &revision); });
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_pcb_info(d, &pcb); });
}

TEST_F(HlmlTest, StatusCodesHaveTheirCounterparts) {
  unsigned int value = 0;
  const std::pair<Status, hlml_return_t> codes[] = {{notFound("x"), HLML_ERROR_NOT_FOUND},
                                                    {invalidArgument("x"), HLML_ERROR_INVALID_ARGUMENT},
                                                    {resourceExhausted("x"), HLML_ERROR_MEMORY},
                                                    {deadlineExceeded("x"), HLML_ERROR_TIMEOUT},
                                                    {internalError("x"), HLML_ERROR_UNKNOWN}};
  hlml_device_t device = handle(0);
  for (const auto& [status, code] : codes) {
    fail(status);
    EXPECT_EQ(hlml_device_get_module_id(device, &value), code) << status.toString();
  }
}

TEST_F(HlmlTest, NothingThatIsThrownLeavesTheLibrary) {
  hlml_device_t device = handle(0);
  unsigned int value = 0;
  NodeAccess access;
  access.one = [](int) -> StatusOr<node::DeviceStatus> { throw std::bad_alloc(); };
  access.all = []() -> StatusOr<node::NodeStatus> { throw std::runtime_error("x"); };
  access.nowNs = [] { return int64_t{0}; };
  Library::get().setNodeAccess(access);
  EXPECT_EQ(hlml_device_get_module_id(device, &value), HLML_ERROR_MEMORY);
  EXPECT_EQ(hlml_device_get_count(&value), HLML_ERROR_UNKNOWN);
  useFake();
}

TEST_F(HlmlTest, ThreadsMayCallWhileAnotherStartsAndStops) {
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!stop) {
        hlml_device_t device = nullptr;
        hlml_utilization_t utilization;
        hlml_return_t code = hlml_device_get_handle_by_index(1, &device);
        EXPECT_TRUE(code == HLML_SUCCESS || code == HLML_ERROR_UNINITIALIZED) << code;
        if (code != HLML_SUCCESS) continue;
        code = hlml_device_get_utilization_rates(device, &utilization);
        EXPECT_TRUE(code == HLML_SUCCESS || code == HLML_ERROR_UNINITIALIZED || code == HLML_ERROR_INVALID_ARGUMENT)
            << code;
      }
    });
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(hlml_shutdown(), HLML_SUCCESS);
    EXPECT_EQ(hlml_init(), HLML_SUCCESS);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hpu::hlml
