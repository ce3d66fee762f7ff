// SPDX-License-Identifier: Apache-2.0
// Shape inference and the interface of the library; what graphs compute is in tests/conformance/synapse.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "bindings/synapse/lowering/Compile.h"
#include "hpu/recipe.h"

namespace hpu::synapse {
namespace {

constexpr uint32_t kF32 = 4, kBf16 = 2;

struct Builder {
  GraphDescription graph;

  int32_t tensor(std::vector<uint64_t> sizes, uint32_t type, bool persistent) {
    TensorDescription t;
    t.id = graph.tensors.size() + 1;
    t.name = "t" + std::to_string(graph.tensors.size());
    t.maxSizes = t.minSizes = std::move(sizes);
    t.dataType = type;
    if (persistent) {
      t.section = static_cast<uint32_t>(graph.sections.size());
      graph.sections.push_back({t.section, 0, true, false, false});
    }
    graph.tensors.push_back(std::move(t));
    return static_cast<int32_t>(graph.tensors.size()) - 1;
  }
  NodeDescription& node(std::string guid, std::vector<int32_t> inputs, std::vector<int32_t> outputs) {
    NodeDescription n;
    n.id = graph.nodes.size() + 1;
    n.name = guid + "_" + std::to_string(n.id);
    n.guid = std::move(guid);
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    graph.nodes.push_back(std::move(n));
    return graph.nodes.back();
  }
};

TEST(InferShapes, FillsSizesAndTypes) {
  Builder b;
  int32_t a = b.tensor({5, 3}, kBf16, true), w = b.tensor({7, 5}, kBf16, true);
  int32_t y = b.tensor({}, 0, false), mean = b.tensor({}, 0, false), variance = b.tensor({}, 0, false);
  b.node("gemm", {a, w}, {y});
  b.node("moments_fwd", {y}, {mean, variance});
  ASSERT_TRUE(inferShapes(b.graph).ok());
  EXPECT_EQ(b.graph.tensors[y].maxSizes, (std::vector<uint64_t>{7, 3}));
  EXPECT_EQ(b.graph.tensors[y].minSizes, (std::vector<uint64_t>{7, 3}));
  EXPECT_EQ(b.graph.tensors[y].dataType, kBf16);
  EXPECT_EQ(b.graph.tensors[mean].maxSizes, (std::vector<uint64_t>{7, 1}));
  EXPECT_EQ(b.graph.tensors[mean].dataType, kF32);
}

TEST(InferShapes, NeedsNoSections) {
  Builder b;
  int32_t a = b.tensor({5, 3}, kF32, false), w = b.tensor({7, 5}, kF32, false), y = b.tensor({}, kF32, false);
  b.node("gemm", {a, w}, {y});
  EXPECT_TRUE(inferShapes(b.graph).ok());
  EXPECT_EQ(b.graph.tensors[y].maxSizes, (std::vector<uint64_t>{7, 3}));
}

TEST(CompileGraph, GivesARecipeAndItsTensors) {
  Builder b;
  int32_t w = b.tensor({7, 5}, kF32, true), a = b.tensor({5, 3}, kF32, true), unused = b.tensor({9}, kF32, true);
  int32_t y = b.tensor({7, 3}, kF32, true);
  b.node("gemm", {a, w}, {y});
  StatusOr<CompiledGraph> compiled = compileGraph(b.graph, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->inputs, (std::vector<int32_t>{a, w}));
  EXPECT_EQ(compiled->outputs, (std::vector<int32_t>{y}));
  EXPECT_EQ(compiled->sizes[unused], (std::vector<uint64_t>{9}));
  StatusOr<Recipe> recipe = Recipe::deserialize(compiled->recipe.data(), compiled->recipe.size());
  ASSERT_TRUE(recipe.ok()) << recipe.status().message();
  ASSERT_EQ(recipe->inputs().size(), 2u);
  EXPECT_EQ(recipe->inputs()[0].name, "t1");
  EXPECT_EQ(recipe->inputs()[0].type.shape, (Shape{3, 5}));
}

TEST(CompileGraph, AnUpdatedTensorIsOnBothSides) {
  Builder b;
  int32_t w = b.tensor({4, 4}, kF32, true), updated = b.tensor({4, 4}, kF32, false);
  b.graph.tensors[updated].section = b.graph.tensors[w].section;
  b.node("gemm", {w, w}, {updated});
  StatusOr<CompiledGraph> compiled = compileGraph(b.graph, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->inputs, (std::vector<int32_t>{w}));
  EXPECT_EQ(compiled->outputs, (std::vector<int32_t>{updated}));
}

TEST(CompileGraph, SaysThatNothingIsThere) {
  EXPECT_EQ(compileGraph({}, {}).status().message(), "the graph has no nodes");
}

TEST(CompileGraph, UnimplementedOnlyWhenNothingIsInvalid) {
  Builder b;
  int32_t x = b.tensor({4, 4}, 1, true), y = b.tensor({4, 4}, 1, true), z = b.tensor({5, 4}, 1, true);
  b.node("gemm", {x, x}, {y});
  EXPECT_EQ(compileGraph(b.graph, {}).status().code(), StatusCode::kUnimplemented);
  b.node("identity", {x}, {z});
  Status both = compileGraph(b.graph, {}).status();
  EXPECT_EQ(both.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(both.message().find("gemm_1"), std::string::npos);
  EXPECT_NE(both.message().find("\nnode 'identity_2'"), std::string::npos);
}

TEST(CompileGraph, ThreadsCompileAtATime) {
  std::vector<std::thread> threads;
  std::atomic<int> compiled = 0;
  for (uint64_t i = 0; i < 4; ++i)
    threads.emplace_back([&compiled, i] {
      for (uint64_t j = 1; j < 5; ++j) {
        Builder b;
        int32_t x = b.tensor({4 * j, 4 * j}, kF32, true), y = b.tensor({}, 0, false), mean = b.tensor({}, 0, true),
                variance = b.tensor({}, 0, true);
        b.node("gemm", {x, x}, {y});
        b.node("moments_fwd", {y}, {mean, variance});
        StatusOr<CompiledGraph> result = compileGraph(b.graph, {});
        if (result.ok() && result->sizes[mean] == std::vector<uint64_t>{4 * j, 1}) ++compiled;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 16);
}

TEST(CompileGraph, EveryLevelCompiles) {
  Builder b;
  int32_t x = b.tensor({4, 4}, kF32, true), y = b.tensor({4, 4}, kF32, true);
  b.node("gemm", {x, x}, {y});
  for (int level = 0; level <= 3; ++level) {
    CompileRequest request;
    request.optLevel = level;
    EXPECT_TRUE(compileGraph(b.graph, request).ok()) << level;
  }
}

}  // namespace
}  // namespace hpu::synapse
