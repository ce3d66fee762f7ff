// SPDX-License-Identifier: Apache-2.0
// What tests of launches share: a graph's fixture with a device, a stream and memory on it.
#pragma once

#include <vector>

#include "tests/unit/bindings/synapse/graph/GraphFixture.h"

namespace hpu::testing {

using Floats = std::vector<float>;
using Sizes = std::vector<uint64_t>;

inline uint64_t countOf(const Sizes& sizes) {
  uint64_t count = 1;
  for (uint64_t size : sizes) count *= size;
  return count;
}

class LaunchFixture : public GraphFixture {
 protected:
  void SetUp() override {
    GraphFixture::SetUp();
    ASSERT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
    ASSERT_SYN(synStreamCreateGeneric(&stream, device, 0));
  }
  uint64_t allocate(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_SYN(synDeviceMalloc(device, bytes, 0, 0, &address));
    return address;
  }
  template <typename T>
  void write(uint64_t address, const std::vector<T>& values) {
    ASSERT_SYN(synMemCopyAsync(stream, reinterpret_cast<uintptr_t>(values.data()), values.size() * sizeof(T), address,
                               HOST_TO_DRAM));
    ASSERT_SYN(synStreamSynchronize(stream));
  }
  template <typename T>
  std::vector<T> read(uint64_t address, size_t count, synStreamHandle from = nullptr) {
    if (!from) from = stream;
    std::vector<T> values(count, T(-99));
    EXPECT_SYN(
        synMemCopyAsync(from, address, count * sizeof(T), reinterpret_cast<uintptr_t>(values.data()), DRAM_TO_HOST));
    EXPECT_SYN(synStreamSynchronize(from));
    return values;
  }
  static uint64_t idOf(synRecipeHandle recipe, const char* name) {
    uint64_t id = 0;
    EXPECT_SYN(synTensorRetrieveIds(recipe, &name, &id, 1));
    return id;
  }
  /// What a launch is told of a tensor; the id is looked up.
  static synLaunchTensorInfo info(synRecipeHandle recipe, const char* name, uint64_t address,
                                  const std::vector<uint64_t>& sizes = {}) {
    synLaunchTensorInfo result = {};
    result.tensorName = name;
    result.pTensorAddress = address;
    result.tensorType = sizes.empty() ? DATA_TENSOR : DATA_TENSOR_DYNAMIC;
    for (size_t i = 0; i < sizes.size(); ++i) result.tensorSize[i] = sizes[i];
    result.tensorId = idOf(recipe, name);
    return result;
  }

  synDeviceId device = 0;
  synStreamHandle stream = nullptr;
};

}  // namespace hpu::testing
