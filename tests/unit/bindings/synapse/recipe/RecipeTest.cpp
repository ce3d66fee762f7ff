// SPDX-License-Identifier: Apache-2.0
// Recipes without a device: what they say of their tensors, sections, files and hostile files.
#include "tests/unit/bindings/synapse/graph/GraphFixture.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

namespace hpu::testing {
namespace {

class SynapseRecipe : public GraphFixture {
 protected:
  void SetUp() override {
    GraphFixture::SetUp();
    // weights (const section) -> memcpy -> b; x -> memcpy -> scratch -> memcpy -> y at 256 of x's section.
    ASSERT_EQ(synSectionCreate(&constSection, 0, graph), synSuccess);
    ASSERT_EQ(synSectionSetConst(constSection, true), synSuccess);
    weights = makeTensor("weights", {4}, syn_type_bf16);
    persist(graph, weights, constSection);
    float values[] = {1, 2, -3, 0.5f};
    ASSERT_EQ(synTensorSetHostPtr(weights, values, sizeof(values), syn_type_float, true), synSuccess);
    x = makeTensor("x", {64}, syn_type_int32);
    y = makeTensor("y", {64}, syn_type_int32);
    synSectionHandle section = persist(graph, x);
    persist(graph, y, section, 256);
    b = makePersistent("b", {4}, syn_type_bf16);
    synTensor scratch = makeTensor("scratch", {64});
    ASSERT_EQ(addNode("memcpy", {weights}, {b}, "copy weights"), synSuccess) << hpuSynLastError();
    ASSERT_EQ(addNode("memcpy", {x}, {scratch}, "load"), synSuccess) << hpuSynLastError();
    ASSERT_EQ(addNode("memcpy", {scratch}, {y}, "store"), synSuccess) << hpuSynLastError();
    makePersistent("unused", {4});
    recipe = compile();
    ASSERT_NE(recipe, nullptr);
    path = ::testing::TempDir() + "synapse_test.recipe";
  }
  void TearDown() override {
    std::remove(path.c_str());
    GraphFixture::TearDown();
  }
  uint64_t idOf(const char* name, synRecipeHandle which) {
    uint64_t id = 0;
    EXPECT_EQ(synTensorRetrieveIds(which, &name, &id, 1), synSuccess) << hpuSynLastError();
    return id;
  }
  synRetrievedLaunchTensorInfo infoOf(const char* name, synRecipeHandle which) {
    synRetrievedLaunchTensorInfo info = {};
    info.tensorId = idOf(name, which);
    EXPECT_EQ(synTensorRetrieveLaunchInfoById(which, 1, &info), synSuccess) << hpuSynLastError();
    return info;
  }
  void writeFile(const std::vector<uint8_t>& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::vector<uint8_t> readFile() {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  synTensor weights = nullptr, x = nullptr, y = nullptr, b = nullptr;
  synSectionHandle constSection = nullptr;
  synRecipeHandle recipe = nullptr;
  std::string path;
};

TEST_F(SynapseRecipe, CountsTheTensorsThatNodesUse) {
  uint32_t launch = 0, persistent = 0;
  ASSERT_EQ(synTensorRetrieveLaunchAmount(recipe, &launch), synSuccess);
  ASSERT_EQ(synTensorRetrievePersistentAmount(recipe, &persistent), synSuccess);
  EXPECT_EQ(launch, 4u);
  EXPECT_EQ(persistent, 4u);
  uint64_t ids[4] = {};
  ASSERT_EQ(synTensorRetrieveLaunchIds(recipe, ids, 4), synSuccess);
  EXPECT_SYN_ERROR(synTensorRetrieveLaunchIds(recipe, ids, 5), synInvalidArgument, "4 launch tensors, and 5");
  EXPECT_EQ(synTensorRetrieveLaunchIds(recipe, nullptr, 4), synInvalidArgument);
  EXPECT_EQ(synTensorRetrieveLaunchAmount(recipe, nullptr), synInvalidArgument);
  EXPECT_EQ(synTensorRetrievePersistentAmount(nullptr, &persistent), synInvalidArgument);
}

TEST_F(SynapseRecipe, NamesAndIdsLeadToEachOther) {
  char names[4][ENQUEUE_TENSOR_NAME_MAX_SIZE];
  ASSERT_EQ(synTensorRetrieveNames(recipe, names, 4), synSuccess);
  for (auto& name : names) EXPECT_STREQ(infoOf(name, recipe).tensorName, name);
  EXPECT_EQ(idOf("unused", recipe), TENSOR_INVALID_ID);
  EXPECT_EQ(synTensorRetrieveNames(recipe, names, 5), synInvalidArgument);
  EXPECT_EQ(synTensorRetrieveNames(recipe, nullptr, 1), synInvalidArgument);
  const char* none = nullptr;
  uint64_t id = 0;
  EXPECT_EQ(synTensorRetrieveIds(recipe, &none, &id, 1), synInvalidArgument);
  EXPECT_EQ(synTensorRetrieveIds(recipe, nullptr, &id, 1), synInvalidArgument);
}

TEST_F(SynapseRecipe, InfosSayWhatTheGraphSaid) {
  synRetrievedLaunchTensorInfo info = infoOf("y", recipe);
  EXPECT_EQ(info.tensorDataType, syn_type_int32);
  EXPECT_EQ(info.tensorDims, 1u);
  EXPECT_EQ(info.tensorMaxSize[0], 64u);
  EXPECT_EQ(info.tensorMinSize[0], 64u);
  EXPECT_EQ(info.tensorOffsetInSection, 256u);
  EXPECT_EQ(info.isInput, 0);
  EXPECT_EQ(infoOf("x", recipe).isInput, 1);
  EXPECT_EQ(infoOf("x", recipe).tensorSectionId, info.tensorSectionId);
  synRetrievedLaunchTensorInfoExt ext = {};
  ext.tensorId = 99;
  EXPECT_SYN_ERROR(synTensorRetrieveLaunchInfoByIdExt(recipe, 1, &ext), synInvalidArgument, "no tensor 99");
  ext.tensorId = info.tensorId;
  ASSERT_EQ(synTensorRetrieveLaunchInfoByIdExt(recipe, 1, &ext), synSuccess);
  EXPECT_STREQ(ext.tensorName, "y");
  EXPECT_EQ(synTensorRetrieveLaunchInfoById(recipe, 1, nullptr), synInvalidArgument);

  uint32_t count = 0;
  ASSERT_EQ(synTensorRetrieveMultiLaunchInfosById(recipe, info.tensorId, nullptr, &count), synSuccess);
  EXPECT_EQ(count, 1u);
  synRetrievedLaunchTensorInfo multi = {};
  ASSERT_EQ(synTensorRetrieveMultiLaunchInfosById(recipe, info.tensorId, &multi, &count), synSuccess);
  EXPECT_STREQ(multi.tensorName, "y");
  EXPECT_EQ(synTensorRetrieveMultiLaunchInfosById(recipe, 99, &multi, &count), synInvalidArgument);

  TensorMetadataInfo metadata = {};
  metadata.tensorName = "y";
  ASSERT_EQ(synTensorRetrieveInfosByName(recipe, 1, &metadata), synSuccess);
  EXPECT_EQ(metadata.roiSizeInBytes, 256u);
  EXPECT_EQ(metadata.elementType, static_cast<uint32_t>(syn_type_int32));
  EXPECT_EQ(metadata.offsetInSection, 256u);
  TensorMetadataInfoExt metadataExt = {};
  metadataExt.tensorName = "y";
  ASSERT_EQ(synTensorRetrieveInfosByNameExt(recipe, 1, &metadataExt), synSuccess);
  EXPECT_EQ(metadataExt.roiSizeInBytes, 256u);
  EXPECT_EQ(metadataExt.offsetInSection, 256u);
  metadataExt.tensorName = "nobody";
  EXPECT_SYN_ERROR(synTensorRetrieveInfosByNameExt(recipe, 1, &metadataExt), synInvalidArgument, "'nobody'");
  metadataExt.tensorName = "x";
  EXPECT_EQ(synTensorRetrieveInfosByNameExt(recipe, 1, &metadataExt), synSuccess);
  EXPECT_EQ(metadataExt.isInput, 1);
  EXPECT_EQ(synTensorRetrieveInfosByName(recipe, 1, nullptr), synInvalidArgument);
}

TEST_F(SynapseRecipe, AttributesCountBytesAndTensors) {
  synRecipeAttribute attributes[] = {RECIPE_ATTRIBUTE_WORKSPACE_SIZE,          RECIPE_ATTRIBUTE_NUM_PERSISTENT_TENSORS,
                                     RECIPE_ATTRIBUTE_HOST_MEM_SIZE,           RECIPE_ATTRIBUTE_NUM_EXTERNAL_TENSORS,
                                     RECIPE_ATTRIBUTE_PERSISTENT_TENSORS_SIZE, RECIPE_ATTRIBUTE_CONST_SECTIONS_SIZE,
                                     RECIPE_ATTRIBUTE_DEVICE_MEMORY_SIZE};
  uint64_t values[7] = {};
  ASSERT_EQ(synRecipeGetAttribute(values, attributes, 7, recipe), synSuccess) << hpuSynLastError();
  EXPECT_EQ(values[0], 256u) << "the scratch tensor";
  EXPECT_EQ(values[1], 4u);
  EXPECT_GT(values[2], 256u);
  EXPECT_EQ(values[3], 0u);
  EXPECT_EQ(values[4], 256u + 256 + 8 + 8);
  EXPECT_EQ(values[5], 8u);
  uint64_t workspace = 0;
  ASSERT_EQ(synWorkspaceGetSize(&workspace, recipe), synSuccess);
  EXPECT_EQ(workspace, values[0]);
  EXPECT_EQ(synWorkspaceGetSize(nullptr, recipe), synInvalidArgument);
  attributes[0] = RECIPE_ATTRIBUTE_MAX;
  EXPECT_EQ(synRecipeGetAttribute(values, attributes, 1, recipe), synInvalidArgument);
  EXPECT_EQ(synRecipeGetAttribute(nullptr, attributes, 1, recipe), synInvalidArgument);
}

TEST_F(SynapseRecipe, ConstSectionsHaveTheirDataInTheDevicesType) {
  synSectionId id = infoOf("weights", recipe).tensorSectionId;
  uint64_t isConst = 0, size = 0, data = 0;
  ASSERT_EQ(synRecipeSectionGetProp(recipe, id, IS_CONST, &isConst), synSuccess);
  ASSERT_EQ(synRecipeSectionGetProp(recipe, id, SECTION_SIZE, &size), synSuccess);
  ASSERT_EQ(synRecipeSectionGetProp(recipe, id, SECTION_DATA, &data), synSuccess);
  EXPECT_EQ(isConst, 1u);
  ASSERT_EQ(size, 8u);
  const uint16_t wanted[] = {0x3f80, 0x4000, 0xc040, 0x3f00};
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(data), wanted, 8), 0);

  synSectionId other = infoOf("x", recipe).tensorSectionId;
  ASSERT_EQ(synRecipeSectionGetProp(recipe, other, SECTION_SIZE, &size), synSuccess);
  EXPECT_EQ(size, 512u);
  EXPECT_SYN_ERROR(synRecipeSectionGetProp(recipe, other, SECTION_DATA, &data), synInvalidArgument, "no host data");
  EXPECT_SYN_ERROR(synRecipeSectionGetProp(recipe, 4000, SECTION_SIZE, &size), synInvalidArgument, "no section 4000");
  EXPECT_EQ(synRecipeSectionGetProp(recipe, id, SECTION_SIZE, nullptr), synInvalidArgument);

  EXPECT_SYN_ERROR(synRecipeSectionHostBuffersClear(recipe, &other, 1), synInvalidArgument, "entry 0");
  EXPECT_EQ(synRecipeSectionHostBuffersClear(recipe, nullptr, 1), synInvalidArgument);
  ASSERT_EQ(synRecipeSectionHostBuffersClear(recipe, &id, 1), synSuccess);
  ASSERT_EQ(synRecipeSectionGetProp(recipe, id, SECTION_DATA, &data), synSuccess);
  EXPECT_EQ(data, INVALID_CONST_SECTION_DATA);
  EXPECT_SYN_ERROR(synRecipeSerialize(recipe, path.c_str()), synResourceBadUsage, "cleared");
}

// A host that zero-filled the gap would take 8 GiB for 4 values.
TEST_F(SynapseRecipe, AConstSectionTakesMemoryForItsTensorsOnly) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan writes the memory that calloc gives, and its shadow";
#endif
  auto residentPages = [] {
    uint64_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident;
  };
  constexpr uint64_t kFar = uint64_t{8} << 30;
  synGraphHandle far = nullptr;
  ASSERT_EQ(synGraphCreate(&far, synDeviceGaudi2), synSuccess);
  synSectionHandle section = nullptr;
  ASSERT_EQ(synSectionCreate(&section, 0, far), synSuccess);
  ASSERT_EQ(synSectionSetConst(section, true), synSuccess);
  int32_t values[] = {5, 6, 7, 8};
  synTensor first = makeTensor(far, "first", {4}), last = makeTensor(far, "last", {4});
  for (synTensor tensor : {first, last}) {
    persist(far, tensor, section, tensor == last ? kFar : 0);
    ASSERT_EQ(synTensorSetHostPtr(tensor, values, sizeof(values), syn_type_int32, true), synSuccess);
  }
  for (auto [from, name] : {std::pair(first, "y1"), std::pair(last, "y2")}) {
    synTensor to = makeTensor(far, name, {4});
    persist(far, to);
    ASSERT_EQ(addNode(far, "memcpy", {from}, {to}), synSuccess);
  }
  uint64_t before = residentPages();
  synRecipeHandle sparse = compile(far);
  ASSERT_NE(sparse, nullptr);
  EXPECT_LT(residentPages(), before + (uint64_t{512} << 20) / 4096);
  uint64_t data = 0;
  ASSERT_EQ(synRecipeSectionGetProp(sparse, infoOf("last", sparse).tensorSectionId, SECTION_DATA, &data), synSuccess);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(data), values, sizeof(values)), 0);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(data + kFar), values, sizeof(values)), 0);

  // Nor does its file have the gap.
  ASSERT_SYN(synRecipeSerialize(sparse, path.c_str()));
  EXPECT_LT(readFile().size(), 1u << 20);
  synRecipeHandle read = nullptr;
  ASSERT_SYN(synRecipeDeSerialize(&read, path.c_str()));
  EXPECT_LT(residentPages(), before + (uint64_t{512} << 20) / 4096);
  uint64_t size = 0;
  ASSERT_SYN(synRecipeSectionGetProp(read, infoOf("last", read).tensorSectionId, SECTION_SIZE, &size));
  EXPECT_EQ(size, kFar + sizeof(values));
  ASSERT_SYN(synRecipeSectionGetProp(read, infoOf("last", read).tensorSectionId, SECTION_DATA, &data));
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(data), values, sizeof(values)), 0);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(data + kFar), values, sizeof(values)), 0);
  EXPECT_EQ(*reinterpret_cast<const uint32_t*>(data + kFar / 2), 0u);
}

TEST_F(SynapseRecipe, AConstSectionThatNoDeviceHoldsIsRefused) {
  for (uint64_t offset : {(uint64_t{96} << 30) - 8, uint64_t{1} << 50}) {
    synGraphHandle far = nullptr;
    ASSERT_EQ(synGraphCreate(&far, synDeviceGaudi2), synSuccess);
    synSectionHandle section = nullptr;
    ASSERT_EQ(synSectionCreate(&section, 0, far), synSuccess);
    ASSERT_EQ(synSectionSetConst(section, true), synSuccess);
    int32_t values[] = {5, 6, 7, 8};
    synTensor constant = makeTensor(far, "far weights", {4}), to = makeTensor(far, "y", {4});
    persist(far, constant, section, offset);
    persist(far, to);
    ASSERT_EQ(synTensorSetHostPtr(constant, values, sizeof(values), syn_type_int32, true), synSuccess);
    ASSERT_EQ(addNode(far, "memcpy", {constant}, {to}), synSuccess);
    synRecipeHandle none = nullptr;
    EXPECT_SYN_ERROR(synGraphCompile(&none, far, "far", nullptr), synInvalidArgument,
                     "tensor 'far weights' has 16 bytes at offset " + std::to_string(offset) + " of const section ");
    EXPECT_THAT(std::string(hpuSynLastError()), HasSubstr("96 GiB of HBM"));
  }
}

TEST_F(SynapseRecipe, FilesKeepEverything) {
  ASSERT_EQ(synRecipeSerialize(recipe, path.c_str()), synSuccess) << hpuSynLastError();
  synRecipeHandle read = nullptr;
  ASSERT_EQ(synRecipeDeSerialize(&read, path.c_str()), synSuccess) << hpuSynLastError();
  for (const char* name : {"weights", "x", "y", "b"}) {
    synRetrievedLaunchTensorInfo was = infoOf(name, recipe), is = infoOf(name, read);
    EXPECT_EQ(std::memcmp(&was, &is, sizeof(was)), 0) << name;
  }
  uint64_t data = 0;
  ASSERT_EQ(synRecipeSectionGetProp(read, infoOf("weights", read).tensorSectionId, SECTION_DATA, &data), synSuccess);
  EXPECT_EQ(*reinterpret_cast<const uint16_t*>(data), 0x3f80);
  // Equal recipes give equal bytes.
  std::vector<uint8_t> first = readFile();
  ASSERT_EQ(synRecipeSerialize(read, path.c_str()), synSuccess);
  EXPECT_EQ(readFile(), first);
  EXPECT_EQ(synRecipeDestroy(read), synSuccess);
  EXPECT_SYN_ERROR(synRecipeDestroy(read), synInvalidArgument, "stale");
  EXPECT_EQ(synRecipeSerialize(recipe, nullptr), synInvalidArgument);
  EXPECT_EQ(synRecipeSerialize(nullptr, path.c_str()), synInvalidArgument);
  EXPECT_EQ(synRecipeDeSerialize(&read, nullptr), synInvalidArgument);
  EXPECT_EQ(synRecipeDeSerialize(nullptr, path.c_str()), synInvalidArgument);
  EXPECT_SYN_ERROR(synRecipeSerialize(recipe, "/dev/full"), synOutOfResources, "No space left");
  EXPECT_NE(synRecipeDeSerialize(&read, "/nonexistent.recipe"), synSuccess);
  EXPECT_SYN_ERROR(synRecipeDeSerialize(&read, "/dev/zero"), synInvalidArgument, "not a regular file");
}

TEST_F(SynapseRecipe, DamagedFilesAreRefused) {
  ASSERT_EQ(synRecipeSerialize(recipe, path.c_str()), synSuccess);
  const std::vector<uint8_t> good = readFile();
  synRecipeHandle read = nullptr;
  for (size_t size : {size_t{0}, size_t{10}, size_t{63}, size_t{64}, good.size() / 2, good.size() - 1}) {
    writeFile({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)});
    EXPECT_EQ(synRecipeDeSerialize(&read, path.c_str()), synWrongParamsFile) << size << ": " << hpuSynLastError();
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> bad = good;
    bad[random() % bad.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    if (bad[8] != good[8] || bad[10] != good[10]) continue;  // Another version is another refusal.
    writeFile(bad);
    synStatus status = synRecipeDeSerialize(&read, path.c_str());
    EXPECT_NE(status, synSuccess) << "byte flips are covered by checksums";
  }
  std::vector<uint8_t> newer = good;
  newer[8] = 9;
  writeFile(newer);
  EXPECT_SYN_ERROR(synRecipeDeSerialize(&read, path.c_str()), synResourceBadUsage, "version 9");
}

}  // namespace
}  // namespace hpu::testing
