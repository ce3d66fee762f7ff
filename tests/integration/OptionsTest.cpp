// SPDX-License-Identifier: Apache-2.0
// Options that do not fit: sizes of inputs that contradict a graph's, and numbers that are no value of an enumeration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "hpu/calibration.h"
#include "hpu/compiler.h"
#include "hpu/reference.h"

namespace hpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// y = x * w; x has a free first dimension when it is asked for.
Graph product(bool isFree) {
  Graph graph("product");
  Value x = graph.input("x", {ElementType::kF32, {isFree ? kDynamic : 8, 16}}).value();
  Value w = graph.input("w", {ElementType::kF32, {16, 4}}).value();
  EXPECT_TRUE(graph.output("y", graph.op("matmul", {x, w}).value()).ok());
  return graph;
}

struct Entry {
  const char* name;
  std::function<Status(const Graph&, const CompileOptions&)> call;
};
/// All that take the sizes of a graph's inputs.
const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {"compile", [](const Graph& graph, const CompileOptions& options) { return compile(graph, options).status(); }},
      {"calibrationGraph",
       [](const Graph& graph, const CompileOptions& options) { return calibrationGraph(graph, options).status(); }},
      {"Compilation::start",
       [](const Graph& graph, const CompileOptions& options) {
         auto started = Compilation::start(graph, options);
         return started.ok() ? started->result().status() : started.status();
       }},
      {"stopAfter import",
       [](const Graph& graph, const CompileOptions& options) {
         CompileOptions stopped = options;
         stopped.stopAfter = "import";
         return compile(graph, stopped).status();
       }},
  };
  return list;
}

TEST(SizesOfInputs, OfAGraphThatHasThemMustBeTheSame) {
  const Graph graph = product(/*isFree=*/false);
  for (const Entry& entry : entries()) {
    SCOPED_TRACE(entry.name);
    CompileOptions same;
    same.shapes = {{"x", {8, 16}}, {"w", {kDynamic, 4}}};
    EXPECT_TRUE(entry.call(graph, same).ok()) << entry.call(graph, same).message();

    CompileOptions other;
    other.shapes["x"] = {4, 16};
    Status status = entry.call(graph, other);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("the input 'x' is 8x16xf32, not 4x16"),
                                        HasSubstr("its dimension 0 has the size 8, and 4 was given")));

    other.shapes = {{"w", {16, 4, 1}}};
    EXPECT_THAT(entry.call(graph, other).message(),
                AllOf(HasSubstr("'w'"), HasSubstr("it has 2 dimensions, and 3 sizes were given")));
    other.shapes = {{"picture", {1}}};
    EXPECT_THAT(entry.call(graph, other).message(), AllOf(HasSubstr("'picture'"), HasSubstr("there are: w, x")));
    other.shapes.clear();
    other.dims["batch"] = 3;
    EXPECT_THAT(entry.call(graph, other).message(), AllOf(HasSubstr("'batch'"), HasSubstr("there are: none")));
  }
}

TEST(SizesOfInputs, OfAFreeDimensionLeaveTheOthers) {
  const Graph graph = product(/*isFree=*/true);
  CompileOptions options;
  options.shapes["x"] = {4, 16};
  auto compiled = compile(graph, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->recipe.inputs()[0].type.shape, (Shape{4, 16}));
  options.shapes["x"] = {4, 17};
  EXPECT_THAT(compile(graph, options).status().message(),
              HasSubstr("its dimension 1 has the size 16, and 17 was given"));
  options.shapes["x"] = {-3, 16};
  EXPECT_THAT(compile(graph, options).status().message(),
              AllOf(HasSubstr("'x'"), HasSubstr("dimension 0 cannot have the size -3")));
  options.shapes["x"] = {0, 16};
  auto empty = compile(graph, options);
  ASSERT_TRUE(empty.ok()) << empty.status().message();
  EXPECT_EQ(empty->recipe.outputs()[0].type.shape[0], 0);
}

TEST(SizesOfInputs, OfTheIrOfALaterPhaseMustBeTheSame) {
  const std::string path = ::testing::TempDir() + "sizes_" + std::to_string(::getpid()) + ".mlir";
  for (const auto& [stop, start] : {std::pair("fuse", "layout"), std::pair("kernels", "emit")}) {
    SCOPED_TRACE(start);
    CompileOptions before;
    before.stopAfter = stop;
    auto stopped = compile(product(/*isFree=*/false), before);
    ASSERT_TRUE(stopped.ok()) << stopped.status().message();
    std::ofstream(path) << stopped->ir;
    CompileOptions options;
    options.startFrom = start;
    EXPECT_TRUE(compileFile(path, options).ok()) << compileFile(path, options).status().message();
    options.shapes["x"] = {4, 16};
    EXPECT_EQ(compileFile(path, options).status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(compileFile(path, options).status().message(), HasSubstr("given"));
  }
  std::filesystem::remove(path);
}

TEST(CompileOptionsValues, ThatThereAreNotAreRefusedByName) {
  const Graph graph = product(/*isFree=*/false);
  for (const Entry& entry : entries()) {
    SCOPED_TRACE(entry.name);
    for (int value : {0, 4, 255}) {
      CompileOptions options;
      options.target = static_cast<Target>(value);
      Status status = entry.call(graph, options);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("CompileOptions::target is " + std::to_string(value) + ", "));
      EXPECT_THAT(status.message(), HasSubstr("2 (gaudi2)"));
    }
    for (int value : {5, 255}) {
      CompileOptions options;
      options.precision = static_cast<Precision>(value);
      Status status = entry.call(graph, options);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("CompileOptions::precision is " + std::to_string(value) + ", "));
      EXPECT_THAT(status.message(), HasSubstr("4 (fp8_e5m2)"));
    }
    CompileOptions options;
    options.optLevel = 4;
    EXPECT_EQ(entry.call(graph, options).code(), StatusCode::kInvalidArgument);
    for (int value : {-1, 1001}) {
      CompileOptions effort;
      effort.searchEffort = value;
      Status status = entry.call(graph, effort);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("CompileOptions::searchEffort = " + std::to_string(value)));
    }
    for (int value : {-1, 8193}) {
      CompileOptions unroll;
      unroll.unrollLimit = value;
      Status status = entry.call(graph, unroll);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("CompileOptions::unrollLimit = " + std::to_string(value)));
    }
  }
  CompileOptions options;
  options.target = static_cast<Target>(9);
  EXPECT_THAT(compileFile("none.onnx", options).status().message(), HasSubstr("CompileOptions::target is 9"));
  EXPECT_THAT(importOnnx("none.onnx", options).status().message(), HasSubstr("CompileOptions::target is 9"));
  EXPECT_THAT(Compilation::startFile("none.onnx", options).status().message(),
              HasSubstr("CompileOptions::target is 9"));
}

TEST(CompileOptionsValues, RangesAreMagnitudes) {
  for (double value : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CompileOptions options;
    options.precision = Precision::kFp8;
    options.ranges["matmul_2:0"] = value;
    Status status = compile(product(/*isFree=*/false), options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("the range of the activation 'matmul_2:0'"));
  }
}

TEST(ElementTypes, ThatThereAreNotAreRefusedByGraphs) {
  Graph graph("types");
  for (int value : {0, 17, 200}) {
    const TensorType type{static_cast<ElementType>(value), {2}};
    Status status = graph.input("x", type).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("'x'"), HasSubstr("element type is " + std::to_string(value))));
    EXPECT_THAT(graph.constant(type, &value, 0).status().message(),
                HasSubstr("element type is " + std::to_string(value)));
  }
  EXPECT_TRUE(graph.inputs().empty());
}

/// docs/embedding.md, "Handles".
TEST(MovedFromGraph, IsAnErrorToUse) {
  Graph graph = product(/*isFree=*/false);
  Value x = graph.input("z", {ElementType::kF32, {1}}).value();
  Graph other = std::move(graph);
  EXPECT_EQ(other.inputs().size(), 3u);
  const TensorType type{ElementType::kF32, {1}};
  const float one = 1;
  const std::vector<std::pair<const char*, Status>> calls = {
      // NOLINTBEGIN(bugprone-use-after-move)
      {"input", graph.input("x", type).status()},
      {"constant", graph.constant(type, &one, sizeof one).status()},
      {"op", graph.op("relu", {x}).status()},
      {"output", graph.output("y", x)},
      {"type", graph.type(x).status()},
      {"compile", compile(graph).status()},
      {"calibrationGraph", calibrationGraph(graph).status()},
      {"interpret", interpret(graph, {}).status()},
      {"Compilation::start", Compilation::start(graph).status()}};
  for (const auto& [name, status] : calls) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << name;
    EXPECT_THAT(status.message(), HasSubstr("the Graph is empty: it was moved from")) << name;
  }
  EXPECT_TRUE(graph.inputs().empty());
  EXPECT_TRUE(graph.outputs().empty());
  EXPECT_EQ(graph.toString(), "");
  Graph third = std::move(graph);  // Again.
  EXPECT_FALSE(third.input("x", type).ok());
  graph = std::move(other);  // NOLINTEND(bugprone-use-after-move)
  EXPECT_TRUE(compile(graph).ok());
}

TEST(GraphThatIsAProgram, IsRefusedByWhatNeedsOps) {
  CompileOptions options;
  options.stopAfter = "schedule";
  auto stopped = compile(product(/*isFree=*/false), options);
  ASSERT_TRUE(stopped.ok()) << stopped.status().message();
  const std::string path = ::testing::TempDir() + "program_" + std::to_string(::getpid()) + ".mlir";
  std::ofstream(path) << stopped->ir;
  auto program = importMlir(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(interpret(*program, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(calibrationGraph(*program).status().code(), StatusCode::kInvalidArgument);
}

TEST(CompileCalibration, IsAWholeF32RecipeWhateverElseIsAskedFor) {
  const std::string folder = ::testing::TempDir() + "calibration_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/product.mlir";
  CompileOptions options;
  options.stopAfter = "import";
  const auto imported = compile(product(/*isFree=*/true), options);
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  std::ofstream(path) << imported->ir;
  EXPECT_EQ(compileCalibration(path).status().code(), StatusCode::kInvalidArgument);  // x has a free dimension.

  options.shapes["x"] = {8, 16};
  options.precision = Precision::kFp8;
  options.ranges["nothing"] = 1;
  options.stopAfter = "fuse";
  options.explain = "nothing";
  options.dumpDir = folder + "/phases";
  options.cacheDir = folder + "/cache";
  options.reports = {"fusion"};
  const auto compiled = compileCalibration(path, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  ASSERT_TRUE(compiled->recipe.valid());
  ASSERT_EQ(compiled->recipe.inputs().size(), 2u);
  EXPECT_EQ(compiled->recipe.inputs()[0].type.shape, (Shape{8, 16}));
  ASSERT_EQ(compiled->recipe.outputs().size(), 2u);  // Of both operands of the product.
  for (const TensorInfo& range : compiled->recipe.outputs()) {
    EXPECT_EQ(range.type.element, ElementType::kF32) << range.name;
    EXPECT_EQ(numElements(range.type.shape), 1) << range.name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/phases"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/cache"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hpu
