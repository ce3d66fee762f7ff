// SPDX-License-Identifier: Apache-2.0
// Nodes that use the same bytes of a section, through the C API and with the real compiler: what is refused, and what
// the memory holds after launches of what is not.
#include "tests/unit/bindings/synapse/recipe/LaunchFixture.h"

namespace hpu::testing {
namespace {

class SynapseSectionOrder : public LaunchFixture {
 protected:
  void SetUp() override {
    LaunchFixture::SetUp();
    ASSERT_SYN(synSectionCreate(&section, 0, graph));
    ASSERT_SYN(synDeviceMalloc(device, 4096, 0, 0, &memory));
  }
  void TearDown() override {
    LaunchFixture::TearDown();
    EXPECT_SYN(synConfigurationSet("CHECK_SECTION_OVERLAP_CHECK", ""));
  }
  synTensor at(const char* name, uint64_t offset, synGraphHandle owner = nullptr, synSectionHandle where = nullptr) {
    synTensor tensor = makeTensor(owner ? owner : graph, name, {8}, syn_type_float);
    persist(owner ? owner : graph, tensor, where ? where : section, offset);
    return tensor;
  }
  synTensor apart(const char* name) {
    synTensor tensor = makeTensor(graph, name, {8}, syn_type_float);
    persist(graph, tensor);
    return tensor;
  }
  synNodeId add(const char* guid, const std::vector<synTensor>& inputs, synTensor output, const char* name) {
    synNodeId id = 0;
    EXPECT_SYN(synNodeCreateWithId(graph, inputs.data(), &output, static_cast<uint32_t>(inputs.size()), 1, nullptr, 0,
                                   guid, name, &id, nullptr, nullptr));
    return id;
  }
  /// `places`: names and addresses.
  void launch(synRecipeHandle recipe, const std::vector<std::pair<const char*, uint64_t>>& places) {
    std::vector<synLaunchTensorInfo> infos;
    for (auto [name, address] : places) infos.push_back(info(recipe, name, address));
    uint64_t bytes = 0, workspace = 0;
    ASSERT_SYN(synWorkspaceGetSize(&bytes, recipe));
    ASSERT_SYN(synDeviceMalloc(device, bytes, 0, 0, &workspace));
    ASSERT_SYN(synLaunch(stream, infos.data(), static_cast<uint32_t>(infos.size()), workspace, recipe, 0));
    ASSERT_SYN(synStreamSynchronize(stream));
  }
  static Floats count(float from) {
    Floats values(8);
    for (size_t i = 0; i < 8; ++i) values[i] = from + static_cast<float>(i);
    return values;
  }
  static Floats times(Floats values, float factor) {
    for (float& value : values) value *= factor;
    return values;
  }

  synSectionHandle section = nullptr;
  uint64_t memory = 0;
};

TEST_F(SynapseSectionOrder, WritersWithoutOneAreRefused) {
  add("neg_fwd_f32", {apart("x")}, at("low", 0), "first");
  add("neg_fwd_f32", {apart("y")}, at("high", 16), "second");
  synRecipeHandle recipe = nullptr;
  EXPECT_EQ(synGraphCompile(&recipe, graph, "r", nullptr), synInvalidSectionsDefinition);
  EXPECT_EQ(recipe, nullptr);
  for (const char* part : {"'first'", "'second'", "'low'", "'high'", "bytes 16 to 32"})
    EXPECT_THAT(hpuSynLastError(), HasSubstr(part));
}

TEST_F(SynapseSectionOrder, IsGivenByADependencyAndTheGraphCompilesThen) {
  synNodeId first = add("neg_fwd_f32", {apart("x")}, at("low", 0), "first");
  synNodeId second = add("neg_fwd_f32", {apart("y")}, at("high", 16), "second");
  synRecipeHandle recipe = nullptr;
  ASSERT_NE(synGraphCompile(&recipe, graph, "r", nullptr), synSuccess);
  ASSERT_SYN(synNodeDependencySet(graph, &second, &first, 1, 1));
  recipe = compile();
  uint64_t x = allocate(32), y = allocate(32);
  write(x, count(1));
  write(y, count(11));
  launch(recipe, {{"x", x}, {"y", y}, {"low", memory}, {"high", memory + 16}});
  // `first` comes last here: it overwrites the lower half of `high`.
  Floats low = times(count(1), -1), high = times(count(11), -1);
  low.insert(low.end(), high.begin() + 4, high.end());
  EXPECT_EQ(read<float>(memory, 12), low);
}

TEST_F(SynapseSectionOrder, WithoutTheCheckItIsThatOfTheirCreation) {
  ASSERT_SYN(synConfigurationSet("CHECK_SECTION_OVERLAP_CHECK", "false"));
  add("neg_fwd_f32", {apart("x")}, at("one", 0), "first");
  add("neg_fwd_f32", {apart("y")}, at("two", 0), "second");
  synRecipeHandle recipe = compile();
  uint64_t x = allocate(32), y = allocate(32);
  write(x, count(1));
  write(y, count(11));
  launch(recipe, {{"x", x}, {"y", y}, {"one", memory}, {"two", memory}});
  EXPECT_EQ(read<float>(memory, 8), times(count(11), -1));
  ASSERT_SYN(synConfigurationSet("CHECK_SECTION_OVERLAP_CHECK", "true"));
  synRecipeHandle again = nullptr;
  synGraphHandle other = nullptr;
  ASSERT_SYN(synGraphCreate(&other, synDeviceGaudi2));
  synSectionHandle place = nullptr;
  ASSERT_SYN(synSectionCreate(&place, 0, other));
  for (const char* name : {"one", "two"}) {
    synTensor in = makeTensor(other, name == std::string("one") ? "x" : "y", {8}, syn_type_float);
    persist(other, in);
    ASSERT_SYN(addNode(other, "neg_fwd_f32", {in}, {at(name, 0, other, place)},
                       name == std::string("one") ? "first" : "second"));
  }
  EXPECT_EQ(synGraphCompile(&again, other, "recipe", nullptr), synInvalidSectionsDefinition)
      << "although the program of the same graph is known";
}

/// Weights that are read by forward and backward and updated in place, launched again and again.
TEST_F(SynapseSectionOrder, TrainingInPlaceCompilesAndCounts) {
  synTensor weights = at("w", 0), x = apart("x"), hidden = makeTensor("h", {8}, syn_type_float);
  synTensor gradient = makeTensor("g", {8}, syn_type_float), seen = apart("seen");
  add("mult_fwd_f32", {x, weights}, hidden, "forward");
  add("add_fwd_f32", {hidden, weights}, gradient, "backward");
  add("identity", {gradient}, seen, "look");
  add("sub_fwd_f32", {weights, x}, at("new_w", 0), "update");
  synRecipeHandle recipe = compile();
  uint64_t xs = allocate(32), out = allocate(32);
  Floats w = count(1), step = count(2);
  write(memory, w);
  write(xs, step);
  for (int i = 0; i < 3; ++i) {
    launch(recipe, {{"w", memory}, {"new_w", memory}, {"x", xs}, {"seen", out}});
    Floats expected(8);
    for (size_t k = 0; k < 8; ++k) {
      expected[k] = step[k] * w[k] + w[k];
      w[k] -= step[k];
    }
    EXPECT_EQ(read<float>(out, 8), expected) << i;
    EXPECT_EQ(read<float>(memory, 8), w) << i;
  }
}

/// The reader is created first and waits for a node that is created last.
TEST_F(SynapseSectionOrder, WhatTheLaunchBeganWithIsReadBeforeItIsOverwritten) {
  synTensor later = makeTensor("later", {8}, syn_type_float);
  add("add_fwd_f32", {at("old", 0), later}, apart("seen"), "reader");
  add("neg_fwd_f32", {apart("x")}, at("new", 16), "writer");
  add("neg_fwd_f32", {apart("y")}, later, "late");
  synRecipeHandle recipe = compile();
  uint64_t x = allocate(32), y = allocate(32), out = allocate(32);
  Floats before = count(100);
  write(memory, before);
  write(x, count(1));
  write(y, count(11));
  launch(recipe, {{"old", memory}, {"new", memory + 16}, {"x", x}, {"y", y}, {"seen", out}});
  EXPECT_EQ(read<float>(out, 8), Floats(8, 89));
  Floats after(before.begin(), before.begin() + 4), made = times(count(1), -1);
  after.insert(after.end(), made.begin(), made.end());
  EXPECT_EQ(read<float>(memory, 12), after);
}

TEST_F(SynapseSectionOrder, ReadersCreatedAfterTheWriterNeedOne) {
  add("neg_fwd_f32", {apart("x")}, at("new", 0), "writer");
  add("neg_fwd_f32", {at("view", 0)}, apart("seen"), "reader");
  synRecipeHandle recipe = nullptr;
  EXPECT_SYN_ERROR(synGraphCompile(&recipe, graph, "r", nullptr), synInvalidSectionsDefinition, "reads tensor 'view'");
}

/// The halves of each row: strides keep them apart.
TEST_F(SynapseSectionOrder, InterleavedTensorsAreApart) {
  synRecipeHandle recipe = nullptr;
  for (int i = 0; i < 2; ++i) {
    synTensor half = makeTensor(i ? "right" : "left", {4, 3}, syn_type_float);
    synTensorDeviceFullLayout layout = {};
    layout.deviceDataType = syn_type_float;
    layout.strides[0] = 4;
    layout.strides[1] = 32;
    ASSERT_SYN(synTensorSetDeviceFullLayout(half, &layout));
    persist(graph, half, section, i ? 16 : 0);
    synTensor in = makeTensor(i ? "r" : "l", {4, 3}, syn_type_float);
    persist(graph, in);
    add("neg_fwd_f32", {in}, half, i ? "second" : "first");
  }
  synStatus status = synGraphCompile(&recipe, graph, "r", nullptr);
  EXPECT_NE(status, synInvalidSectionsDefinition) << hpuSynLastError();
}

}  // namespace
}  // namespace hpu::testing
