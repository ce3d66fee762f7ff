// SPDX-License-Identifier: Apache-2.0
// What tests of HCCL's C API begin with: the library up, some small devices of this process, a stream and a
// communicator each. The one thing to know: only the installed headers are used, as a user's program would; calls of
// all ranks come from one thread, because they only enqueue.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "habanalabs/hccl.h"
#include "habanalabs/hcclx.h"
#include "tests/unit/bindings/synapse/Checks.h"

namespace synapse_test {

inline uint64_t address(const void* pointer) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
}

inline std::string hcclWords() {
  const char* text = hcclGetLastErrorMessage();
  return text ? text : "(no error)";
}

/// Success, or the words of the error.
#define EXPECT_HCCL(call) EXPECT_EQ(call, hcclSuccess) << ::synapse_test::hcclWords()
#define ASSERT_HCCL(call) ASSERT_EQ(call, hcclSuccess) << ::synapse_test::hcclWords()
/// A failure of the call with a result and words that contain `text`.
#define EXPECT_HCCL_ERROR(call, result, text)                             \
  do {                                                                    \
    EXPECT_EQ(call, result) << ::synapse_test::hcclWords();               \
    EXPECT_THAT(::synapse_test::hcclWords(), ::testing::HasSubstr(text)); \
  } while (false)

class HcclTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_SYN(synConfigurationSet("HPU_SIM_HBM_BYTES", "64M"));
    ASSERT_SYN(synConfigurationSet("HPU_ACQUIRE_TIMEOUT_MS", "60000"));
    ASSERT_SYN(synInitialize());
  }
  void TearDown() override {
    synDestroy();
    EXPECT_SYN(synConfigurationSet("HPU_SIM_HBM_BYTES", ""));
  }

  void acquire(int count) {
    for (int i = 0; i < count; ++i) {
      synDeviceId device;
      synStreamHandle stream;
      ASSERT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
      ASSERT_SYN(synStreamCreateGeneric(&stream, device, 0));
      devices.push_back(device);
      streams.push_back(stream);
    }
  }
  /// Devices, streams and communicators of `count` ranks.
  void ranks(int count) {
    acquire(count);
    if (HasFatalFailure()) return;
    comms.resize(static_cast<size_t>(count));
    std::vector<int> ids(devices.begin(), devices.end());
    ASSERT_HCCL(hcclCommInitAll(comms.data(), count, ids.data()));
  }

  template <typename T>
  uint64_t upload(size_t rank, const std::vector<T>& values) {
    uint64_t memory = allocate(rank, values.size() * sizeof(T));
    EXPECT_SYN(synMemCopyAsync(streams[rank], address(values.data()), values.size() * sizeof(T), memory, HOST_TO_DRAM));
    EXPECT_SYN(synStreamSynchronize(streams[rank]));
    return memory;
  }
  uint64_t allocate(size_t rank, uint64_t bytes) {
    uint64_t memory = 0;
    EXPECT_SYN(synDeviceMalloc(devices[rank], bytes, 0, 0, &memory));
    return memory;
  }
  template <typename T>
  std::vector<T> download(size_t rank, uint64_t from, size_t count) {
    std::vector<T> values(count);
    EXPECT_SYN(synMemCopyAsync(streams[rank], from, count * sizeof(T), address(values.data()), DRAM_TO_HOST));
    EXPECT_SYN(synStreamSynchronize(streams[rank]));
    return values;
  }
  void wait() {
    for (synStreamHandle stream : streams) EXPECT_SYN(synStreamSynchronize(stream));
  }
  static void* pointer(uint64_t device) { return reinterpret_cast<void*>(static_cast<uintptr_t>(device)); }

  std::vector<synDeviceId> devices;
  std::vector<synStreamHandle> streams;
  std::vector<hcclComm_t> comms;
};

}  // namespace synapse_test
