// SPDX-License-Identifier: Apache-2.0
// What tests of graphs and recipes share: the library's life and short ways to make tensors and nodes.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/bindings/synapse/Checks.h"

namespace hpu::testing {

using ::testing::HasSubstr;

class GraphFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_SYN(synInitialize());
    ASSERT_SYN(synGraphCreate(&graph, synDeviceGaudi2));
  }
  void TearDown() override { EXPECT_SYN(synDestroy()); }

  /// A tensor of the graph with sizes and a type.
  static synTensor makeTensor(synGraphHandle graph, const char* name, const std::vector<uint64_t>& sizes,
                              synDataType type = syn_type_int32, synTensorType kind = DATA_TENSOR) {
    synTensor tensor = nullptr;
    EXPECT_SYN(synTensorHandleCreate(&tensor, graph, kind, name));
    setSizes(tensor, sizes, synGeometryMaxSizes);
    EXPECT_SYN(synTensorSetDeviceDataType(tensor, type));
    return tensor;
  }
  synTensor makeTensor(const char* name, const std::vector<uint64_t>& sizes, synDataType type = syn_type_int32,
                       synTensorType kind = DATA_TENSOR) {
    return makeTensor(graph, name, sizes, type, kind);
  }
  static void setSizes(synTensor tensor, const std::vector<uint64_t>& sizes, synGeometryType type) {
    synTensorGeometryExt geometry = {};
    geometry.dims = static_cast<uint32_t>(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) geometry.sizes[i] = sizes[i];
    EXPECT_SYN(synTensorSetGeometryExt(tensor, &geometry, type));
  }
  /// In a persistent section of its own, or in the given one.
  static synSectionHandle persist(synGraphHandle graph, synTensor tensor, synSectionHandle section = nullptr,
                                  uint64_t offset = 0) {
    if (!section) {
      EXPECT_SYN(synSectionCreate(&section, 0, graph));
    }
    EXPECT_SYN(synTensorAssignToSection(tensor, section, offset));
    return section;
  }
  synTensor makePersistent(const char* name, const std::vector<uint64_t>& sizes, synDataType type = syn_type_int32) {
    synTensor tensor = makeTensor(graph, name, sizes, type);
    persist(graph, tensor);
    return tensor;
  }
  static synStatus addNode(synGraphHandle graph, const char* guid, const std::vector<synTensor>& inputs,
                           const std::vector<synTensor>& outputs, const char* name = "node") {
    return synNodeCreate(graph, inputs.data(), outputs.data(), static_cast<uint32_t>(inputs.size()),
                         static_cast<uint32_t>(outputs.size()), nullptr, 0, guid, name, nullptr, nullptr);
  }
  synStatus addNode(const char* guid, const std::vector<synTensor>& inputs, const std::vector<synTensor>& outputs,
                    const char* name = "node") {
    return addNode(graph, guid, inputs, outputs, name);
  }
  synRecipeHandle compile(synGraphHandle which, const char* name = "recipe") {
    synRecipeHandle recipe = nullptr;
    EXPECT_SYN(synGraphCompile(&recipe, which, name, nullptr));
    return recipe;
  }
  synRecipeHandle compile() { return compile(graph); }

  synGraphHandle graph = nullptr;
};

}  // namespace hpu::testing
