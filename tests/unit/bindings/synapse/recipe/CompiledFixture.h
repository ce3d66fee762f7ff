// SPDX-License-Identifier: Apache-2.0
// What tests of graphs share that the real compiler compiles: floats, launches by name, a workspace.
#pragma once

#include <algorithm>

#include "tests/unit/bindings/synapse/recipe/LaunchFixture.h"

namespace hpu::testing {

class CompiledFixture : public LaunchFixture {
 protected:
  struct Given {
    const char* name;
    uint64_t address;
    Sizes sizes = {};
    synTensorType type = DATA_TENSOR_DYNAMIC;  ///< Where there are sizes.
  };

  synTensor makeFloats(const char* name, const Sizes& sizes, bool persistent = true) {
    synTensor tensor = makeTensor(graph, name, sizes, syn_type_float);
    if (persistent) persist(graph, tensor);
    return tensor;
  }
  synTensor makeFree(const char* name, const Sizes& least, const Sizes& largest, bool persistent = true) {
    synTensor tensor = makeFloats(name, largest, persistent);
    setSizes(tensor, least, synGeometryMinSizes);
    return tensor;
  }
  synTensor makeShape(const char* name, const Sizes& least, const Sizes& largest) {
    synTensor tensor = makeTensor(graph, name, largest, syn_type_int32, SHAPE_TENSOR);
    setSizes(tensor, least, synGeometryMinSizes);
    return tensor;
  }
  static void setStrides(synTensor tensor, const Sizes& strides, synDataType type = syn_type_float) {
    synTensorDeviceFullLayout layout = {};
    for (size_t i = 0; i < strides.size(); ++i) layout.strides[i] = static_cast<uint32_t>(strides[i]);
    layout.deviceDataType = type;
    ASSERT_SYN(synTensorSetDeviceFullLayout(tensor, &layout));
  }
  template <typename Params>
  synStatus addNodeWith(const Params& params, const char* guid, const std::vector<synTensor>& inputs,
                        const std::vector<synTensor>& outputs) {
    return synNodeCreate(graph, inputs.data(), outputs.data(), static_cast<uint32_t>(inputs.size()),
                         static_cast<uint32_t>(outputs.size()), &params, sizeof params, guid, guid, nullptr, nullptr);
  }
  uint64_t upload(const Floats& values) {
    uint64_t address = allocate(std::max<size_t>(values.size(), 1) * 4);
    if (!values.empty()) write(address, values);
    return address;
  }
  Floats floats(uint64_t address, size_t count) { return read<float>(address, count); }
  static Floats counting(size_t count, float first = 0) {
    Floats values(count);
    for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
    return values;
  }
  synStatus launch(synRecipeHandle recipe, const std::vector<Given>& given) {
    std::vector<synLaunchTensorInfo> infos;
    for (const Given& one : given) {
      infos.push_back(info(recipe, one.name, one.address, one.sizes));
      if (!one.sizes.empty()) infos.back().tensorType = one.type;
    }
    uint64_t bytes = 0;
    EXPECT_SYN(synWorkspaceGetSize(&bytes, recipe));
    if (bytes > workspaceBytes) {
      EXPECT_SYN(synDeviceMalloc(device, bytes, 0, 0, &workspace));
      workspaceBytes = bytes;
    }
    return synLaunch(stream, infos.data(), static_cast<uint32_t>(infos.size()), workspace, recipe,
                     SYN_FLAGS_TENSOR_NAME);
  }

  uint64_t workspace = 0, workspaceBytes = 0;
};

}  // namespace hpu::testing
