// SPDX-License-Identifier: Apache-2.0
// What tests of devices, memory and streams begin with: the library up and a small Gaudi 2 acquired.
// The one thing to know: only the installed headers are used, as a user's program would.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/bindings/synapse/Checks.h"

namespace synapse_test {

inline uint64_t address(const void* pointer) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
}

class SynapseTest : public testing::Test {
 protected:
  static constexpr uint64_t kHbmBytes = 256 << 20;
  void SetUp() override {
    ASSERT_SYN(synConfigurationSet("HPU_SIM_HBM_BYTES", "256M"));
    ASSERT_SYN(synConfigurationSet("HPU_ACQUIRE_TIMEOUT_MS", "0"));
    ASSERT_SYN(synInitialize());
    ASSERT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
    ASSERT_SYN(synStreamCreateGeneric(&stream, device, 0));
  }
  void TearDown() override {
    synDestroy();
    EXPECT_SYN(synConfigurationSet("HPU_SIM_HBM_BYTES", ""));
  }

  uint64_t allocate(uint64_t bytes) {
    uint64_t result = 0;
    EXPECT_SYN(synDeviceMalloc(device, bytes, 0, 0, &result));
    return result;
  }
  void upload(uint64_t to, const std::vector<uint8_t>& bytes) {
    EXPECT_SYN(synMemCopyAsync(stream, address(bytes.data()), bytes.size(), to, HOST_TO_DRAM));
    EXPECT_SYN(synStreamSynchronize(stream));
  }
  std::vector<uint8_t> download(uint64_t from, uint64_t bytes) {
    std::vector<uint8_t> result(bytes, 0xEE);
    EXPECT_SYN(synMemCopyAsync(stream, from, bytes, address(result.data()), DRAM_TO_HOST));
    EXPECT_SYN(synStreamSynchronize(stream));
    return result;
  }
  /// Bytes that depend on their place and on `seed`.
  static std::vector<uint8_t> pattern(uint64_t bytes, unsigned seed = 1) {
    std::vector<uint8_t> result(bytes);
    for (uint64_t i = 0; i < bytes; ++i) result[i] = static_cast<uint8_t>(i * 31 + (i >> 8) * 7 + seed * 101);
    return result;
  }

  synDeviceId device = SYN_INVALID_DEVICE_ID;
  synStreamHandle stream = nullptr;
};

}  // namespace synapse_test
