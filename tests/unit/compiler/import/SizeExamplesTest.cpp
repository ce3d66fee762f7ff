// SPDX-License-Identifier: Apache-2.0
// One graph of free dimensions from graphs of several sizes: what sizes become, and what is refused.
#include "hpu/size_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace hpu::importer {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

/// Adds ops behind the input x [n, m, 6] and gives the result.
using Build = std::function<Value(Graph&, Value x, int64_t n, int64_t m)>;

struct Freed {
  Status status;
  std::string text;
  Shape shape;  ///< Of the result.
};

Freed freed(const Build& build,
            const std::vector<std::pair<int64_t, int64_t>>& sizes = {{101, 103}, {139, 149}, {2, 3}}) {
  std::vector<Graph> graphs;
  SizeExamples examples;
  examples.inputs = {{"n", "m", ""}};
  for (const auto& [n, m] : sizes) {
    Graph& graph = graphs.emplace_back("example");
    StatusOr<Value> x = graph.input("x", {ElementType::kF32, {n, m, 6}});
    EXPECT_TRUE(x.ok());
    EXPECT_TRUE(graph.output("y", build(graph, *x, n, m)).ok());
    examples.sizes.push_back({{"n", n}, {"m", m}});
  }
  std::vector<Graph*> all;
  for (Graph& graph : graphs) all.push_back(&graph);
  Freed result;
  result.status = freeSizes(all, examples);
  result.text = graphs[0].toString();
  result.shape = graphs[0].outputs()[0].type.shape;
  return result;
}

Value op(Graph& graph, const char* name, const std::vector<Value>& operands, const Attributes& attributes = {}) {
  StatusOr<Value> value = graph.op(name, operands, attributes);
  EXPECT_TRUE(value.ok()) << value.status().message();
  return value.ok() ? *value : Value();
}

TEST(SizeExamples, ReshapesSayProductsAndParts) {
  Freed joined =
      freed([](Graph& g, Value x, int64_t n, int64_t m) { return op(g, "reshape", {x}, {{"shape", Ints{n * m, 6}}}); });
  ASSERT_TRUE(joined.status.ok()) << joined.status.message();
  EXPECT_THAT(joined.text, HasSubstr("\"m*n\""));
  EXPECT_EQ(joined.shape, (Shape{kDynamic, 6}));
  Freed parted = freed(
      [](Graph& g, Value x, int64_t n, int64_t m) { return op(g, "reshape", {x}, {{"shape", Ints{n / 2, 2, m, 6}}}); },
      {{202, 103}, {278, 149}, {4, 3}});
  ASSERT_TRUE(parted.status.ok()) << parted.status.message();
  EXPECT_THAT(parted.text, HasSubstr("floor(n / 2)"));
}

TEST(SizeExamples, SlicesSayStartsAndSizes) {
  auto last = [](Graph& g, Value x, int64_t n, int64_t m) {
    return op(g, "slice", {x}, {{"starts", Ints{n - 2, 0, 0}}, {"sizes", Ints{1, m, 6}}, {"steps", Ints{1, 1, 1}}});
  };
  Freed result = freed(last);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_THAT(result.text, HasSubstr("n - 2"));
  EXPECT_EQ(result.shape, (Shape{1, kDynamic, 6}));
}

TEST(SizeExamples, RoundedPartsAreNotGuessed) {
  // Of odd sizes alone (n + 1) / 2 cannot be told from n / 2 rounded up or down.
  auto half = [](Graph& g, Value x, int64_t n, int64_t m) {
    return op(g, "slice", {x},
              {{"starts", Ints{0, 0, 0}}, {"sizes", Ints{(n + 1) / 2, m, 6}}, {"steps", Ints{2, 1, 1}}});
  };
  Freed result = freed(half, {{101, 103}, {139, 149}});
  EXPECT_EQ(result.status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(result.status.message(), HasSubstr("the attribute sizes of slice_"));
}

TEST(SizeExamples, CountersAndFractionsAreComputed) {
  auto counted = [](Graph& g, Value x, int64_t, int64_t m) {
    std::vector<int32_t> values(static_cast<size_t>(m));
    std::iota(values.begin(), values.end(), 5);
    StatusOr<Value> counter = g.constant({ElementType::kI32, {1, m, 1}}, values.data(), values.size() * 4);
    const float part = 1.0f / static_cast<float>(m);
    StatusOr<Value> fraction = g.constant({ElementType::kF32, {}}, &part, sizeof part);
    EXPECT_TRUE(counter.ok() && fraction.ok());
    Value places = op(g, "cast", {*counter}, {{"to", std::string("f32")}});
    return op(g, "mul", {op(g, "add", {x, places}), *fraction});
  };
  Freed result = freed(counted);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_THAT(result.text, HasSubstr("hpu.range"));
  EXPECT_EQ(result.shape, (Shape{kDynamic, kDynamic, 6}));
}

TEST(SizeExamples, WhatDependsOnSizesOtherwiseIsRefused) {
  auto refused = [](const Build& build, const char* text) {
    Freed result = freed(build);
    EXPECT_EQ(result.status.code(), StatusCode::kUnimplemented) << text;
    EXPECT_THAT(result.status.message(), HasSubstr(text));
  };
  refused([](Graph& g, Value x, int64_t n, int64_t) { return n > 100 ? op(g, "exp", {x}) : op(g, "relu", {x}); },
          "which op follows");
  refused([](Graph& g, Value x, int64_t n,
             int64_t) { return n > 100 ? op(g, "exp", {op(g, "exp", {x})}) : op(g, "exp", {x}); },
          "which op follows");
  refused(
      [](Graph& g, Value x, int64_t n, int64_t) {
        return op(g, "pad", {x}, {{"low", Ints{n % 7, 0, 0}}, {"high", Ints{0, 0, 0}}, {"value", 0.0}});
      },
      "the attribute low of pad_");
  refused(
      [](Graph& g, Value x, int64_t n, int64_t m) {
        const auto number = static_cast<float>(n % 10 + m);
        StatusOr<Value> odd = g.constant({ElementType::kF32, {}}, &number, sizeof number);
        return op(g, "mul", {x, *odd});
      },
      "the value of constant_");
  // A limit that only small sizes show.
  refused(
      [](Graph& g, Value x, int64_t n, int64_t m) {
        return op(
            g, "slice", {x},
            {{"starts", Ints{0, 0, 0}}, {"sizes", Ints{std::min<int64_t>(n, 16), m, 6}}, {"steps", Ints{1, 1, 1}}});
      },
      "the attribute sizes of slice_");
}

TEST(SizeExamples, OneExampleSaysNothing) {
  Freed one = freed([](Graph& g, Value x, int64_t, int64_t) { return op(g, "exp", {x}); }, {{101, 103}});
  EXPECT_EQ(one.status.code(), StatusCode::kInvalidArgument);
}

TEST(SizeExamples, SizesThatAreNotThoseOfTheGraphsAreRefused) {
  std::vector<Graph> graphs;
  for (int64_t n : {5, 7}) {
    Graph& graph = graphs.emplace_back("example");
    StatusOr<Value> x = graph.input("x", {ElementType::kF32, {n, 3}});
    ASSERT_TRUE(x.ok());
    ASSERT_TRUE(graph.output("y", op(graph, "exp", {*x})).ok());
  }
  auto free = [&](const SizeExamples& examples) { return freeSizes({&graphs[0], &graphs[1]}, examples); };
  EXPECT_THAT(free({{{"n", ""}}, {{{"n", 5}}, {{"n", 8}}}}).message(),
              HasSubstr("size 0 of input 0 of example 1 is 7"));
  EXPECT_THAT(free({{{"n", ""}}, {{{"n", 5}}, {}}}).message(), HasSubstr("example 1"));
  EXPECT_THAT(free({{{"", ""}}, {{}, {}}}).message(), HasSubstr("example 1"));
  EXPECT_THAT(free({{{"n"}}, {{{"n", 5}}, {{"n", 7}}}}).message(), HasSubstr("2 dimensions"));
  EXPECT_THAT(free({{}, {{{"n", 5}}, {{"n", 7}}}}).message(), HasSubstr("1 inputs"));
  EXPECT_EQ(freeSizes({&graphs[0], nullptr}, {{{"n", ""}}, {{{"n", 5}}, {{"n", 7}}}}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(free({{{"n", ""}}, {{{"n", 5}}, {{"n", 7}}}}).ok());
}

}  // namespace
}  // namespace hpu::importer
