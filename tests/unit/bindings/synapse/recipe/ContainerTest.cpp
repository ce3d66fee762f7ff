// SPDX-License-Identifier: Apache-2.0
// Recipe files whose checksums are right and whose contents are not.
#include "bindings/synapse/recipe/Container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "bindings/synapse/graph/CompilerLibrary.h"
#include "bindings/synapse/graph/Describe.h"

namespace hpu::synapse {
namespace {

using ::testing::HasSubstr;

GraphDescription smallGraph() {
  GraphDescription graph;
  graph.name = "small";
  graph.sections = {{4, 0, true, false, false}, {5, 0, true, true, false}};
  for (const char* name : {"x", "y", "c"}) {
    TensorDescription tensor;
    tensor.id = 100 + graph.tensors.size();
    tensor.name = name;
    tensor.dataType = 16;
    tensor.maxSizes = tensor.minSizes = {8};
    tensor.section = 0;
    tensor.sectionOffset = 32 * graph.tensors.size();
    graph.tensors.push_back(tensor);
  }
  graph.tensors[2].section = 1;
  graph.tensors[2].sectionOffset = 0;
  NodeDescription node;
  node.id = 1;
  node.guid = "memcpy";
  node.name = "copy";
  node.inputs = {0};
  node.outputs = {1};
  node.params.assign(4, std::byte{7});
  graph.nodes = {node};
  return graph;
}

std::shared_ptr<RecipeObject> smallRecipe() {
  GraphDescription graph = smallGraph();
  auto compiled = compileWithLibrary(graph, {});
  EXPECT_TRUE(compiled.ok()) << compiled.status().toString();
  auto program = Program::create(std::move(*compiled), graph, true);
  EXPECT_TRUE(program.ok()) << program.status().toString();
  std::vector<std::byte> threes(32, std::byte{3});
  std::vector<ConstSection> constants;
  constants.push_back({1, 32, HostBytes::copyOf(threes.data(), threes.size()).value(), false});
  auto recipe = RecipeObject::create(graph, std::move(constants), *program);
  EXPECT_TRUE(recipe.ok());
  return *recipe;
}

// A constant is hashed when it is copied, and not again by each compilation of a graph or its duplicates.
TEST(SynapseContainer, AKeyTakesTheHashOfAConstantThatIsKnown) {
  GraphObject graph(synDeviceGaudi2, Target::kGaudi2, false);
  auto tensor = std::make_shared<TensorObject>();
  auto bytes = std::make_shared<const std::vector<std::byte>>(16, std::byte{5});
  TensorProperties& properties = tensor->properties;
  properties.name = "c";
  properties.dataType = syn_type_int32;
  properties.dims = 1;
  properties.maxSizes = {4};
  properties.host.copy = bytes;
  properties.host.copyHash = base::hash128(bytes->data(), bytes->size());
  properties.host.pointer = const_cast<std::byte*>(bytes->data());
  properties.host.bytes = bytes->size();
  properties.host.type = syn_type_int32;
  graph.nodes.emplace_back().outputs = {tensor};
  auto described = describe(graph);
  ASSERT_TRUE(described.ok()) << described.status().toString();
  ASSERT_EQ(described->valueHashes.size(), 1u);
  EXPECT_EQ(described->valueHashes[0], base::hash128(bytes->data(), bytes->size()));
  EXPECT_EQ(structureKey(described->graph, true, described->valueHashes), structureKey(described->graph, true));
  EXPECT_NE(structureKey(described->graph, true, {base::Hash128{1, 2}}), structureKey(described->graph, true))
      << "the bytes were looked at";
}

TEST(SynapseContainer, ReadsWhatItWrote) {
  auto bytes = encodeRecipe(*smallRecipe());
  ASSERT_TRUE(bytes.ok()) << bytes.status().toString();
  auto read = decodeRecipe(bytes->data(), bytes->size(), "memory");
  ASSERT_TRUE(read.ok()) << read.status().toString();
  EXPECT_EQ((*read)->name(), "small");
  EXPECT_EQ((*read)->graph().nodes[0].params.size(), 4u);
  EXPECT_EQ((*read)->tensors().size(), 3u);
  EXPECT_EQ((*read)->sectionBytes(0), 64u);
  EXPECT_EQ(*encodeRecipe(**read), *bytes);
}

// Two tensors with room between them, whose bytes are not in the file.
std::shared_ptr<RecipeObject> sparseRecipe() {
  GraphDescription graph = smallGraph();
  TensorDescription far = graph.tensors[2];
  far.id += 100;
  far.name = "far";
  far.sectionOffset = 4096;
  graph.tensors.push_back(far);
  std::vector<ConstSection> constants;
  const uint64_t bytes = 4096 + maxBytes(far);
  constants.push_back({1, bytes, HostBytes::zeroed(bytes).value(), false});
  std::memset(constants[0].data.data(), 1, maxBytes(far));
  std::memset(constants[0].data.data() + 4096, 2, maxBytes(far));
  auto program = Program::create(compileWithLibrary(graph, {}).value(), graph, true);
  return RecipeObject::create(graph, std::move(constants), program.value()).value();
}

TEST(SynapseContainer, ASparseConstSectionIsReadAsItWas) {
  auto recipe = sparseRecipe();
  auto bytes = encodeRecipe(*recipe);
  ASSERT_TRUE(bytes.ok()) << bytes.status().toString();
  EXPECT_LT(bytes->size(), encodeRecipe(*smallRecipe())->size() + 1024);
  auto read = decodeRecipe(bytes->data(), bytes->size(), "memory");
  ASSERT_TRUE(read.ok()) << read.status().toString();
  auto dataOf = [](const RecipeObject& object) {
    std::vector<std::byte> data;
    object.withConstSection(
        1, [&](ConstSection& section) { data.assign(section.data.data(), section.data.data() + section.bytes); });
    return data;
  };
  EXPECT_EQ(dataOf(**read), dataOf(*recipe));
  EXPECT_EQ(*encodeRecipe(**read), *bytes);
}

class SynapseHostileFile : public ::testing::TestWithParam<std::shared_ptr<RecipeObject> (*)()> {};

TEST_P(SynapseHostileFile, WithGoodChecksumsDoesNoHarm) {
  auto good = encodeRecipe(*GetParam()());
  ASSERT_TRUE(good.ok());
  std::mt19937 random(11);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<uint8_t> bad = *good;
    // The metadata follows the header; its fields are where the harm would come from.
    size_t at = kSynapseHeaderBytes + random() % 1300;
    if (at >= bad.size()) continue;
    bad[at] = random() % 3 ? static_cast<uint8_t>(random()) : uint8_t{0xff};
    resealSynapseRecipe(bad);
    auto object = decodeRecipe(bad.data(), bad.size(), "mutated");
    if (!object.ok()) {
      ++refused;
      EXPECT_THAT(object.status().message(), HasSubstr("recipe mutated"));
      continue;
    }
    ++accepted;  // A changed name or id is a good recipe too; it must be usable.
    for (const LaunchTensor& tensor : (*object)->tensors()) EXPECT_LT(tensor.index, (*object)->graph().tensors.size());
    auto again = encodeRecipe(**object);
    EXPECT_TRUE(again.ok()) << again.status().toString();
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 100);
}
INSTANTIATE_TEST_SUITE_P(Recipes, SynapseHostileFile, ::testing::Values(smallRecipe, sparseRecipe));

TEST(SynapseContainer, DescriptionsAreCheckedFieldByField) {
  EXPECT_TRUE(checkDescription(smallGraph()).ok());
  auto refused = [](const char* words, auto&& change) {
    GraphDescription graph = smallGraph();
    change(graph);
    Status status = checkDescription(graph);
    EXPECT_THAT(status.message(), HasSubstr(words));
  };
  refused("its type is none", [](GraphDescription& g) { g.tensors[0].type = 7; });
  refused("its data type", [](GraphDescription& g) { g.tensors[0].dataType = 3; });
  refused("25 dimensions", [](GraphDescription& g) { g.tensors[0].maxSizes.assign(26, 1); });
  refused("differ in rank", [](GraphDescription& g) { g.tensors[0].minSizes.clear(); });
  refused("above the largest", [](GraphDescription& g) { g.tensors[0].minSizes[0] = 9; });
  refused("2^63", [](GraphDescription& g) { g.tensors[0].maxSizes[0] = uint64_t{1} << 62; });
  refused("permutation", [](GraphDescription& g) { g.tensors[0].permutation = {1}; });
  refused("permutation", [](GraphDescription& g) { g.tensors[0].permutation = {0, 1}; });
  refused("its section is none", [](GraphDescription& g) { g.tensors[0].section = 2; });
  refused("no sizes or data type", [](GraphDescription& g) { g.tensors[0].dataType = 0; });
  refused("name is too long", [](GraphDescription& g) { g.tensors[0].name.assign(2000, 'x'); });
  refused("uses tensor 3", [](GraphDescription& g) { g.nodes[0].inputs[0] = 3; });
  refused("uses tensor -5", [](GraphDescription& g) { g.nodes[0].outputs[0] = -5; });
}

TEST(SynapseProgram, IndicesAndSizesMustFitTheGraph) {
  GraphDescription graph = smallGraph();
  auto create = [&](auto&& change) {
    auto compiled = compileWithLibrary(graph, {});
    change(*compiled);
    return Program::create(std::move(*compiled), graph, true).status();
  };
  EXPECT_TRUE(create([](CompiledGraph&) {}).ok());
  EXPECT_THAT(create([](CompiledGraph& c) { c.inputs.push_back(0); }).message(), HasSubstr("1 inputs, and 2 tensors"));
  EXPECT_THAT(create([](CompiledGraph& c) { c.inputs[0] = 17; }).message(), HasSubstr("tensor 17"));
  EXPECT_FALSE(create([](CompiledGraph& c) { c.recipe.resize(100); }).ok());
  graph.target = Target::kGaudi3;
  auto compiled = compileWithLibrary(smallGraph(), {});
  EXPECT_THAT(Program::create(std::move(*compiled), graph, true).status().message(), HasSubstr("gaudi2"));
}

}  // namespace
}  // namespace hpu::synapse
