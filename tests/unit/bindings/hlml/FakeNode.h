// SPDX-License-Identifier: Apache-2.0
// A node that a test makes up, behind libhlml's functions; and every handle that is not valid.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/hlml/Library.h"

namespace hpu::hlml {

/// Eight devices; 1 and 2 are in use by process 100 and 101, 3 is lost, the owner of 4 has not answered, the others
/// are free.
class HlmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < node::kDevices; ++i) {
      node::DeviceStatus device;
      device.index = i;
      device.moduleId = static_cast<uint32_t>(7 - i);
      device.pciAddress = "0000:" + std::to_string(30 + i) + ":01.0";
      device.uuid = "uuid-" + std::to_string(i);
      device.serial = "serial-" + std::to_string(i);
      device.name = "HL-225";
      device.totalBytes = int64_t{96} << 30;
      if (i >= 1 && i <= 3) {
        device.owner = {99 + i, "trainer", 1 << 20, 2};
        device.usedBytes = 1 << 20;
        device.acquiredAtNs = device.updatedAtNs = 1000 + i;
        device.lost = i == 3;
      }
      if (i == 4) device.owner.pid = -1;
      fake_.devices.push_back(device);
    }
    useFake();
    ASSERT_EQ(hlml_init(), HLML_SUCCESS);
  }
  void TearDown() override { hlml_shutdown(); }

  void useFake() {
    NodeAccess access;
    access.all = [this]() -> StatusOr<node::NodeStatus> {
      std::lock_guard lock(mutex_);
      if (!failure_.ok()) return failure_;
      return fake_;
    };
    access.one = [this](int index) -> StatusOr<node::DeviceStatus> {
      std::lock_guard lock(mutex_);
      if (!failure_.ok()) return failure_;
      return fake_.devices[static_cast<size_t>(index)];
    };
    access.inject = [this](int index, node::Fault fault, int count) -> Status {
      std::lock_guard lock(mutex_);
      node::DeviceStatus& device = fake_.devices[static_cast<size_t>(index)];
      if (device.owner.pid == 0) return failedPrecondition("the device is free");
      device.faults[static_cast<int>(fault)] += static_cast<uint64_t>(count);
      return okStatus();
    };
    access.nowNs = [this] { return clockNs_.load(); };
    Library::get().setNodeAccess(access);
  }

  /// Changes a device; safe while a wait looks.
  template <typename Change>
  void change(int index, Change&& body) {
    std::lock_guard lock(mutex_);
    body(fake_.devices[static_cast<size_t>(index)]);
  }
  void addFault(int index, node::Fault fault) {
    change(index, [&](node::DeviceStatus& d) { ++d.faults[static_cast<int>(fault)]; });
  }
  void fail(Status status) {
    std::lock_guard lock(mutex_);
    failure_ = std::move(status);
  }

  static hlml_device_t handle(unsigned int index) {
    hlml_device_t device = nullptr;
    EXPECT_EQ(hlml_device_get_handle_by_index(index, &device), HLML_SUCCESS);
    return device;
  }
  /// Null, a small number, a pointer, and a handle of an earlier initialisation.
  static std::vector<hlml_device_t> badHandles() {
    static int something = 0;
    hlml_device_t old = handle(0);
    EXPECT_EQ(hlml_shutdown(), HLML_SUCCESS);
    EXPECT_EQ(hlml_init(), HLML_SUCCESS);
    return {nullptr, reinterpret_cast<hlml_device_t>(uintptr_t{1}), &something, old,
            reinterpret_cast<hlml_device_t>(reinterpret_cast<uintptr_t>(handle(7)) + 1)};
  }

  /// `call(device)` on every invalid handle, and outside of hlml_init ... hlml_shutdown.
  template <typename Call>
  void expectHandleIsChecked(Call&& call) {
    for (hlml_device_t bad : badHandles()) EXPECT_EQ(call(bad), HLML_ERROR_INVALID_ARGUMENT) << bad;
    hlml_device_t good = handle(1);
    ASSERT_EQ(hlml_shutdown(), HLML_SUCCESS);
    EXPECT_EQ(call(good), HLML_ERROR_UNINITIALIZED);
    ASSERT_EQ(hlml_init(), HLML_SUCCESS);
  }

  std::atomic<int64_t> clockNs_{1'000'000'000};
  std::mutex mutex_;  // Guards the next two.
  node::NodeStatus fake_;
  Status failure_;
};

}  // namespace hpu::hlml
