// SPDX-License-Identifier: Apache-2.0
// Tensors: creation, properties, what is refused.
#include "tests/unit/bindings/synapse/graph/GraphFixture.h"

#include <cstring>
#include <thread>

namespace hpu::testing {
namespace {

class SynapseTensor : public GraphFixture {
 protected:
  void SetUp() override {
    GraphFixture::SetUp();
    ASSERT_EQ(synTensorHandleCreate(&tensor, graph, DATA_TENSOR, "weights"), synSuccess);
  }
  /// Makes a node use the tensor, which fixes its properties.
  void use() {
    setSizes(tensor, {4}, synGeometryMaxSizes);
    ASSERT_EQ(synTensorSetDeviceDataType(tensor, syn_type_int32), synSuccess);
    ASSERT_EQ(addNode("memcpy", {tensor}, {makeTensor("copy", {4})}), synSuccess) << hpuSynLastError();
  }
  synTensor tensor = nullptr;
};

TEST_F(SynapseTensor, NameAndTypeAreReadBack) {
  char name[8] = {};
  EXPECT_SYN_ERROR(synTensorGetName(tensor, 7, name), synInvalidArgument, "needs 8 bytes");
  ASSERT_EQ(synTensorGetName(tensor, 8, name), synSuccess);
  EXPECT_STREQ(name, "weights");
  EXPECT_EQ(synTensorGetName(tensor, 8, nullptr), synInvalidArgument);
  synTensorType type = TENSOR_TYPE_MAX;
  ASSERT_EQ(synTensorGetType(tensor, &type), synSuccess);
  EXPECT_EQ(type, DATA_TENSOR);
  EXPECT_EQ(synTensorGetType(tensor, nullptr), synInvalidArgument);

  synTensor shape = nullptr;
  ASSERT_EQ(synTensorHandleCreate(&shape, graph, SHAPE_TENSOR, nullptr), synSuccess);
  ASSERT_EQ(synTensorGetType(shape, &type), synSuccess);
  EXPECT_EQ(type, SHAPE_TENSOR);
}

TEST_F(SynapseTensor, BadCreationsAreRefused) {
  synTensor other = nullptr;
  EXPECT_SYN_ERROR(synTensorHandleCreate(&other, nullptr, DATA_TENSOR, "x"), synInvalidArgument,
                   "graph handle is null");
  EXPECT_EQ(synTensorHandleCreate(nullptr, graph, DATA_TENSOR, "x"), synInvalidArgument);
  EXPECT_SYN_ERROR(synTensorHandleCreate(&other, graph, TENSOR_TYPE_MAX, "x"), synInvalidArgument, "no synTensorType");
  std::string longName(ENQUEUE_TENSOR_NAME_MAX_SIZE, 'n');
  EXPECT_SYN_ERROR(synTensorHandleCreate(&other, graph, DATA_TENSOR, longName.c_str()), synInvalidArgument, "1023");
}

TEST_F(SynapseTensor, DestroyedHandlesAreStale) {
  ASSERT_EQ(synTensorDestroy(tensor), synSuccess);
  EXPECT_SYN_ERROR(synTensorDestroy(tensor), synInvalidArgument, "stale");
  synTensorType type;
  EXPECT_EQ(synTensorGetType(tensor, &type), synInvalidArgument);
  EXPECT_SYN_ERROR(synTensorDestroy(reinterpret_cast<synTensor>(graph)), synInvalidArgument, "graph");
}

TEST_F(SynapseTensor, EndsWithItsGraph) {
  ASSERT_EQ(synGraphDestroy(graph), synSuccess);
  EXPECT_EQ(synTensorDestroy(tensor), synInvalidArgument);
}

TEST_F(SynapseTensor, GeometryIsReadBackPaddedWithOnes) {
  synTensorGeometryExt out = {};
  EXPECT_SYN_ERROR(synTensorGetGeometryExt(tensor, &out, synGeometryMaxSizes), synObjectNotInitialized, "weights");
  setSizes(tensor, {3, 5, 7}, synGeometryMaxSizes);
  setSizes(tensor, {3, 2, 7}, synGeometryMinSizes);
  ASSERT_EQ(synTensorGetGeometryExt(tensor, &out, synGeometryMaxSizes), synSuccess);
  EXPECT_EQ(out.dims, 3u);
  EXPECT_EQ(out.sizes[1], 5u);
  EXPECT_EQ(out.sizes[3], 1u);
  synTensorGeometry plain = {};
  ASSERT_EQ(synTensorGetGeometry(tensor, &plain, synGeometryMinSizes), synSuccess);
  EXPECT_EQ(plain.sizes[1], 2u);
  EXPECT_EQ(synTensorGetGeometryExt(tensor, nullptr, synGeometryMaxSizes), synInvalidArgument);
  EXPECT_EQ(synTensorGetGeometry(nullptr, &plain, synGeometryMaxSizes), synInvalidArgument);
  EXPECT_SYN_ERROR(synTensorGetGeometryExt(tensor, &out, static_cast<synGeometryType>(9)), synInvalidArgument, "9");
}

TEST_F(SynapseTensor, BadGeometriesAreRefused) {
  synTensorGeometry geometry = {};
  geometry.dims = HABANA_DIM_MAX + 1;
  EXPECT_SYN_ERROR(synTensorSetGeometry(tensor, &geometry, synGeometrySizes), synInvalidTensorDimensions, "25");
  EXPECT_EQ(synTensorSetGeometry(tensor, nullptr, synGeometrySizes), synInvalidArgument);
  EXPECT_EQ(synTensorSetGeometryExt(nullptr, nullptr, synGeometrySizes), synInvalidArgument);
  geometry.dims = 1;
  EXPECT_SYN_ERROR(synTensorSetGeometry(tensor, &geometry, static_cast<synGeometryType>(7)), synInvalidArgument, "7");
  ASSERT_EQ(synTensorSetGeometry(tensor, &geometry, synGeometrySizes), synSuccess);
  EXPECT_SYN_ERROR(synTensorSetGeometry(tensor, &geometry, static_cast<synGeometryType>(-1)), synInvalidArgument, "-1");
}

TEST_F(SynapseTensor, DataTypeAndLayoutsAreReadBack) {
  synDataType type = syn_type_na;
  EXPECT_EQ(synTensorGetDeviceDataType(tensor, &type), synObjectNotInitialized);
  ASSERT_EQ(synTensorSetDeviceDataType(tensor, syn_type_bf16), synSuccess);
  ASSERT_EQ(synTensorGetDeviceDataType(tensor, &type), synSuccess);
  EXPECT_EQ(type, syn_type_bf16);
  EXPECT_SYN_ERROR(synTensorSetDeviceDataType(tensor, static_cast<synDataType>(3)), synInvalidArgument, "synDataType");
  EXPECT_EQ(synTensorGetDeviceDataType(tensor, nullptr), synInvalidArgument);

  synTensorDeviceLayout layout = {};
  layout.deviceDataType = syn_type_float;
  layout.strides[0] = 64;
  ASSERT_EQ(synTensorSetDeviceLayout(tensor, &layout), synSuccess);
  synTensorDeviceFullLayout full = {};
  ASSERT_EQ(synTensorGetDeviceFullLayout(tensor, &full), synSuccess);
  EXPECT_EQ(full.strides[0], 4u) << "the fastest dimension is dense";
  EXPECT_EQ(full.strides[1], 64u);
  EXPECT_EQ(full.deviceDataType, syn_type_float);
  full.strides[1] = 128;
  ASSERT_EQ(synTensorSetDeviceFullLayout(tensor, &full), synSuccess);
  ASSERT_EQ(synTensorGetDeviceLayout(tensor, &layout), synSuccess);
  EXPECT_EQ(layout.strides[0], 128u);
  EXPECT_EQ(synTensorSetDeviceLayout(tensor, nullptr), synInvalidArgument);
  EXPECT_EQ(synTensorSetDeviceFullLayout(tensor, nullptr), synInvalidArgument);
  EXPECT_EQ(synTensorGetDeviceLayout(tensor, nullptr), synInvalidArgument);
  EXPECT_EQ(synTensorGetDeviceFullLayout(nullptr, &full), synInvalidArgument);
  full.deviceDataType = syn_type_na;
  EXPECT_EQ(synTensorSetDeviceFullLayout(tensor, &full), synInvalidArgument);
}

TEST_F(SynapseTensor, PermutationsMustNameEachDimensionOnce) {
  synTensorPermutation in = {{2, 5, 1, 3}, 4}, out = {};
  EXPECT_EQ(synTensorGetPermutation(tensor, &out), synObjectNotInitialized);
  EXPECT_SYN_ERROR(synTensorSetPermutation(tensor, &in), synInvalidArgument, "entry 1 of the permutation is 5");
  in.permutation[1] = 0;
  ASSERT_EQ(synTensorSetPermutation(tensor, &in), synSuccess);
  ASSERT_EQ(synTensorGetPermutation(tensor, &out), synSuccess);
  EXPECT_EQ(out.dims, 4);
  EXPECT_EQ(std::memcmp(in.permutation, out.permutation, 4), 0);
  in.dims = 0;
  ASSERT_EQ(synTensorSetPermutation(tensor, &in), synSuccess);
  EXPECT_EQ(synTensorGetPermutation(tensor, &out), synObjectNotInitialized) << "taken back";
  in.dims = 200;
  EXPECT_EQ(synTensorSetPermutation(tensor, &in), synInvalidTensorDimensions);
  EXPECT_EQ(synTensorSetPermutation(tensor, nullptr), synInvalidArgument);
}

TEST_F(SynapseTensor, FlagsAreReadBack) {
  int8_t allow = 0;
  ASSERT_EQ(synTensorSetAllowPermutation(tensor, 1), synSuccess);
  ASSERT_EQ(synTensorGetAllowPermutation(tensor, &allow), synSuccess);
  EXPECT_EQ(allow, 1);
  EXPECT_EQ(synTensorGetAllowPermutation(tensor, nullptr), synInvalidArgument);
  EXPECT_EQ(synTensorSetAllowPermutation(nullptr, 1), synInvalidArgument);
  bool external = false;
  ASSERT_EQ(synTensorSetExternal(tensor, true), synSuccess);
  ASSERT_EQ(synTensorGetExternal(tensor, &external), synSuccess);
  EXPECT_TRUE(external);
  EXPECT_EQ(synTensorGetExternal(tensor, nullptr), synInvalidArgument);
  EXPECT_EQ(synTensorSetExternal(nullptr, true), synInvalidArgument);
}

TEST_F(SynapseTensor, HostValuesAreCopiedOrNot) {
  std::vector<float> values(6, 1.5f);
  void* pointer = nullptr;
  uint64_t size = 0;
  synDataType type = syn_type_na;
  EXPECT_EQ(synTensorGetHostPtr(tensor, &pointer, &size, &type), synObjectNotInitialized);
  ASSERT_EQ(synTensorSetHostPtr(tensor, values.data(), 24, syn_type_float, true), synSuccess);
  ASSERT_EQ(synTensorGetHostPtr(tensor, &pointer, &size, &type), synSuccess);
  EXPECT_NE(pointer, values.data());
  EXPECT_EQ(size, 24u);
  EXPECT_EQ(type, syn_type_float);
  values.assign(6, 2.0f);
  EXPECT_EQ(static_cast<const float*>(pointer)[5], 1.5f);
  ASSERT_EQ(synTensorSetHostPtr(tensor, values.data(), 24, syn_type_float, false), synSuccess);
  ASSERT_EQ(synTensorGetHostPtr(tensor, &pointer, &size, &type), synSuccess);
  EXPECT_EQ(pointer, values.data());
  EXPECT_EQ(synTensorGetHostPtr(tensor, &pointer, nullptr, &type), synInvalidArgument);
  EXPECT_EQ(synTensorSetHostPtr(tensor, nullptr, 24, syn_type_float, true), synInvalidArgument);
  EXPECT_EQ(synTensorSetHostPtr(tensor, values.data(), 24, syn_type_na, true), synInvalidArgument);
}

TEST_F(SynapseTensor, SectionsBelongToItsGraph) {
  synSectionHandle section = nullptr, found = nullptr;
  uint64_t offset = 0;
  EXPECT_EQ(synTensorGetSection(tensor, &found, &offset), synObjectNotInitialized);
  EXPECT_SYN_ERROR(synTensorSetSectionOffset(tensor, 4), synInvalidArgument, "synTensorAssignToSection");
  ASSERT_EQ(synSectionCreate(&section, 0, graph), synSuccess);
  ASSERT_EQ(synTensorAssignToSection(tensor, section, 10), synSuccess);
  ASSERT_EQ(synTensorGetSection(tensor, &found, &offset), synSuccess);
  EXPECT_EQ(found, section);
  EXPECT_EQ(offset, 10u);
  ASSERT_EQ(synTensorSetSectionOffset(tensor, 64), synSuccess);
  ASSERT_EQ(synTensorGetSection(tensor, &found, &offset), synSuccess);
  EXPECT_EQ(offset, 64u);
  EXPECT_EQ(synTensorGetSection(tensor, &found, nullptr), synInvalidArgument);
  EXPECT_EQ(synTensorAssignToSection(tensor, nullptr, 0), synInvalidArgument);

  synGraphHandle other = nullptr;
  synSectionHandle foreign = nullptr;
  ASSERT_EQ(synGraphCreate(&other, synDeviceGaudi2), synSuccess);
  ASSERT_EQ(synSectionCreate(&foreign, 0, other), synSuccess);
  EXPECT_SYN_ERROR(synTensorAssignToSection(tensor, foreign, 0), synInvalidArgument, "different graphs");
}

TEST_F(SynapseTensor, PropertiesAreFixedOnceANodeUsesIt) {
  use();
  synTensorGeometryExt geometry = {};
  EXPECT_SYN_ERROR(synTensorSetGeometryExt(tensor, &geometry, synGeometryMaxSizes), synObjectAlreadyInitialized,
                   "weights");
  EXPECT_EQ(synTensorSetDeviceDataType(tensor, syn_type_float), synObjectAlreadyInitialized);
  EXPECT_EQ(synTensorSetExternal(tensor, true), synObjectAlreadyInitialized);
  synSectionHandle section = nullptr;
  ASSERT_EQ(synSectionCreate(&section, 0, graph), synSuccess);
  EXPECT_EQ(synTensorAssignToSection(tensor, section, 0), synObjectAlreadyInitialized);
  EXPECT_EQ(synTensorSetSectionOffset(tensor, 0), synObjectAlreadyInitialized);
  int value = 0;
  EXPECT_EQ(synTensorSetHostPtr(tensor, &value, 4, syn_type_int32, true), synObjectAlreadyInitialized);
  EXPECT_EQ(synTensorSetAllowPermutation(tensor, 1), synSuccess) << "a permission may come later";
}

TEST_F(SynapseTensor, DescriptorsMakeTensors) {
  synTensorDescriptor descriptor = {};
  descriptor.m_dataType = syn_type_float;
  descriptor.m_dims = 2;
  descriptor.m_sizes[0] = 4;
  descriptor.m_sizes[1] = 3;
  descriptor.m_name = "from descriptor";
  synSectionHandle section = nullptr;
  ASSERT_EQ(synSectionCreate(&section, 0, graph), synSuccess);
  synTensor made = nullptr;
  ASSERT_EQ(synTensorCreate(&made, &descriptor, section, 32), synSuccess) << hpuSynLastError();
  synTensorGeometryExt geometry = {};
  ASSERT_EQ(synTensorGetGeometryExt(made, &geometry, synGeometryMaxSizes), synSuccess);
  EXPECT_EQ(geometry.dims, 2u);
  EXPECT_EQ(geometry.sizes[1], 3u);
  uint64_t offset = 0;
  synSectionHandle found = nullptr;
  ASSERT_EQ(synTensorGetSection(made, &found, &offset), synSuccess);
  EXPECT_EQ(offset, 32u);

  descriptor.m_dims = 6;
  EXPECT_EQ(synTensorCreate(&made, &descriptor, section, 0), synInvalidTensorDimensions);
  descriptor.m_dims = 2;
  EXPECT_EQ(synTensorCreate(&made, nullptr, section, 0), synInvalidArgument);
  EXPECT_SYN_ERROR(synTensorCreate(&made, &descriptor, nullptr, 8), synInvalidArgument, "needs a section");
  // Without a section it belongs to the graph that uses it first.
  ASSERT_EQ(synTensorCreate(&made, &descriptor, nullptr, 0), synSuccess);
  EXPECT_EQ(addNode("memcpy", {made}, {makeTensor("y", {4, 3}, syn_type_float)}), synSuccess) << hpuSynLastError();
}

TEST_F(SynapseTensor, ConstDescriptorsCopyTheirValue) {
  float values[4] = {1, 2, 3, 4};
  synTensorDescriptor descriptor = {};
  descriptor.m_dataType = syn_type_float;
  descriptor.m_dims = 1;
  descriptor.m_sizes[0] = 4;
  descriptor.m_ptr = values;
  synTensor made = nullptr;
  ASSERT_EQ(synConstTensorCreate(&made, &descriptor), synSuccess) << hpuSynLastError();
  void* pointer = nullptr;
  uint64_t size = 0;
  synDataType type;
  ASSERT_EQ(synTensorGetHostPtr(made, &pointer, &size, &type), synSuccess);
  EXPECT_EQ(size, sizeof(values));
  EXPECT_EQ(static_cast<float*>(pointer)[3], 4.0f);
  EXPECT_SYN_ERROR(addNode("memcpy", {makeTensor("x", {4}, syn_type_float)}, {made}), synInvalidArgument, "constant");
  descriptor.m_ptr = nullptr;
  EXPECT_EQ(synConstTensorCreate(&made, &descriptor), synInvalidArgument);
  EXPECT_EQ(synConstTensorCreate(nullptr, &descriptor), synInvalidArgument);
}

TEST_F(SynapseTensor, QuantizationDataIsReadBack) {
  synQuantDynamicRange range = {2, 1}, rangeOut = {};
  EXPECT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_DYNAMIC_RANGE, &rangeOut, sizeof(range)),
            synObjectNotInitialized);
  EXPECT_SYN_ERROR(synTensorSetQuantizationData(tensor, SYN_QUANT_DYNAMIC_RANGE, &range, sizeof(range)),
                   synInvalidArgument, "empty");
  range.max = 3;
  ASSERT_EQ(synTensorSetQuantizationData(tensor, SYN_QUANT_DYNAMIC_RANGE, &range, sizeof(range)), synSuccess);
  EXPECT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_DYNAMIC_RANGE, &rangeOut, sizeof(range) - 1), synFail);
  ASSERT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_DYNAMIC_RANGE, &rangeOut, sizeof(range)), synSuccess);
  EXPECT_EQ(rangeOut.max, 3);

  synQuantFlags flags = {1, 0, 1}, flagsOut = {};
  ASSERT_EQ(synTensorSetQuantizationData(tensor, SYN_QUANT_FLAGS, &flags, sizeof(flags)), synSuccess);
  ASSERT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_FLAGS, &flagsOut, sizeof(flags)), synSuccess);
  EXPECT_EQ(flagsOut.enablePerChannelQuant, 1);
  EXPECT_EQ(flagsOut.isSparsifiedWeights, 0);

  synQuantZPScale scales[] = {{2, 0.5}, {3, 0.25}};
  synQuantMetadata metadata = {syn_type_uint8, scales, 2}, metadataOut = {syn_type_uint8, nullptr, 0};
  ASSERT_EQ(synTensorSetQuantizationData(tensor, SYN_QUANT_METADATA, &metadata, sizeof(metadata)), synSuccess);
  ASSERT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_METADATA, &metadataOut, sizeof(metadata)), synSuccess);
  EXPECT_EQ(metadataOut.numZPScales, 2u);
  synQuantZPScale scalesOut[2] = {};
  metadataOut.zpScales = scalesOut;
  EXPECT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_METADATA, &metadataOut, sizeof(metadata)), synFail)
      << "the size counts the array";
  ASSERT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_METADATA, &metadataOut, sizeof(metadata) + sizeof(scales)),
            synSuccess);
  EXPECT_EQ(scalesOut[1].scale, 0.25);
  metadataOut.dataType = syn_type_int16;
  EXPECT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_METADATA, &metadataOut, sizeof(metadata) + sizeof(scales)),
            synInvalidArgument);

  synFpQuantParam params[] = {{2, 3}};
  synFpQuantMetadata fp = {syn_type_fp8_143, params, 1}, fpOut = {syn_type_fp8_143, nullptr, 0};
  ASSERT_EQ(synTensorSetQuantizationData(tensor, SYN_FP_QUANT_METADATA, &fp, sizeof(fp)), synSuccess);
  ASSERT_EQ(synTensorGetQuantizationData(tensor, SYN_FP_QUANT_METADATA, &fpOut, sizeof(fp)), synSuccess);
  EXPECT_EQ(fpOut.numFpQuantParams, 1u);

  synQuantDynamicRange channels[] = {{0, 1}, {1, 2}};
  synPerChannelDynamicRange ranges = {channels, 2}, rangesOut = {nullptr, 0};
  ASSERT_EQ(synTensorSetQuantizationData(tensor, SYN_QUANT_PC_DYNAMIC_RANGE, &ranges, sizeof(ranges)), synSuccess);
  ASSERT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_PC_DYNAMIC_RANGE, &rangesOut, sizeof(ranges)), synSuccess);
  EXPECT_EQ(rangesOut.numChannels, 2u);
  ranges.ranges = nullptr;
  EXPECT_EQ(synTensorSetQuantizationData(tensor, SYN_QUANT_PC_DYNAMIC_RANGE, &ranges, sizeof(ranges)),
            synInvalidArgument);
  EXPECT_EQ(synTensorSetQuantizationData(tensor, static_cast<synQuantizationProperty>(77), &ranges, 8),
            synInvalidArgument);
  EXPECT_EQ(synTensorSetQuantizationData(tensor, SYN_QUANT_FLAGS, nullptr, sizeof(flags)), synInvalidArgument);
  EXPECT_EQ(synTensorGetQuantizationData(tensor, SYN_QUANT_FLAGS, nullptr, sizeof(flags)), synInvalidArgument);
}

TEST_F(SynapseTensor, ThreadsMakeAndDestroyTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) {
        synTensor mine = nullptr;
        ASSERT_EQ(synTensorHandleCreate(&mine, graph, DATA_TENSOR, "mine"), synSuccess);
        setSizes(mine, {8}, synGeometryMaxSizes);
        ASSERT_EQ(synTensorDestroy(mine), synSuccess);
      }
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace hpu::testing
