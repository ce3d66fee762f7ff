// SPDX-License-Identifier: Apache-2.0
#include "hpu/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/import/EvaluateGraph.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

TensorType f32(const Shape& shape) {
  return {ElementType::kF32, shape};
}

TEST(Graph, BuildsAModelThatComputes) {
  Graph graph("mlp");
  auto x = graph.input("x", f32({1, 2}));
  float weights[] = {1, -1, 2, 1};
  auto w = graph.constant(f32({2, 2}), weights, sizeof weights);
  ASSERT_TRUE(x.ok() && w.ok());
  auto product = graph.op("matmul", {*x, *w}, {}, "product");
  ASSERT_TRUE(product.ok()) << product.status().message();
  auto y = graph.op("relu", {*product});
  ASSERT_TRUE(y.ok()) << y.status().message();
  ASSERT_TRUE(graph.output("y", *y).ok());
  EXPECT_EQ(graph.type(*y)->toString(), "1x2xf32");
  ASSERT_EQ(graph.outputs().size(), 1u);
  EXPECT_EQ(graph.outputs()[0].name, "y");
  EXPECT_EQ(graph.inputs()[0].type.toString(), "1x2xf32");
  std::vector<std::string> seen;
  auto outputs = interp::evaluateGraph(graph, {interp::Tensor::of<float>(ElementType::kF32, {1, 2}, {1, -3})},
                                       [&](const interp::NodeResult& result, const interp::Tensor& value) {
                                         seen.push_back(result.node + ":" + result.op + ":" + value.type().toString());
                                       });
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ((*outputs)[0].as<float>()[0], 0.0f);  // 1 - 6
  EXPECT_EQ((*outputs)[0].as<float>()[1], 0.0f);  // -1 - 3
  EXPECT_THAT(seen, ::testing::ElementsAre("product:matmul:1x2xf32", "relu_3:relu:1x2xf32"));
  EXPECT_THAT(graph.toString(), HasSubstr("hpu.matmul"));
}

TEST(Graph, ConvertsAttributesToWhatTheOpDeclares) {
  Graph graph("attributes");
  auto x = graph.input("x", f32({1, 4, 8, 8}));
  ASSERT_TRUE(x.ok());
  auto sum = graph.op("reduce_sum", {*x}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
  ASSERT_TRUE(sum.ok()) << sum.status().message();
  EXPECT_EQ(graph.type(*sum)->toString(), "1x8x8xf32");
  auto cast = graph.op("cast", {*x}, {{"to", std::string("bf16")}});
  ASSERT_TRUE(cast.ok()) << cast.status().message();
  EXPECT_EQ(graph.type(*cast)->toString(), "1x4x8x8xbf16");
  auto elu = graph.op("elu", {*x}, {{"alpha", int64_t{1}}});
  ASSERT_TRUE(elu.ok()) << elu.status().message();
  auto resized = graph.op("resize", {*x},
                          {{"sizes", std::vector<int64_t>{16, 16}},
                           {"scales", std::vector<double>{2, 2}},
                           {"mode", std::string("linear")},
                           {"coordinates", std::string("half_pixel")},
                           {"nearest", std::string("floor")}});
  ASSERT_TRUE(resized.ok()) << resized.status().message();
  EXPECT_EQ(graph.type(*resized)->toString(), "1x4x16x16xf32");
}

TEST(Graph, SaysWhatIsWrongWithAnOp) {
  Graph graph("errors");
  auto x = graph.input("x", f32({2, 3})), y = graph.input("y", f32({4, 5}));
  ASSERT_TRUE(x.ok() && y.ok());
  auto message = [](const StatusOr<Value>& value) {
    return value.ok() ? std::string("accepted") : value.status().message();
  };
  EXPECT_THAT(message(graph.op("matmul", {*x, *y})), HasSubstr("inner dimensions differ: 2x3xf32 x 4x5xf32"));
  EXPECT_THAT(message(graph.op("matmul", {*x})), HasSubstr("operand"));
  EXPECT_THAT(message(graph.op("softmax", {*x})), HasSubstr("requires attribute 'axis'"));
  EXPECT_THAT(message(graph.op("softmax", {*x}, {{"axis", int64_t{5}}})), HasSubstr("axis 5 is outside rank 2"));
  EXPECT_THAT(message(graph.op("softmax", {*x}, {{"axis", std::string("last")}})), HasSubstr("axis"));
  EXPECT_THAT(message(graph.op("relu", {*x}, {{"alpha", 1.0}})), HasSubstr("has no attribute 'alpha'"));
  EXPECT_THAT(message(graph.op("frobnicate", {*x})), HasSubstr("no tensor op 'frobnicate'"));
  EXPECT_THAT(message(graph.op("relu", {Value{}})), HasSubstr("operand 0"));
  EXPECT_FALSE(graph.output("z", Value{}).ok());
  EXPECT_FALSE(graph.input("x", f32({1})).ok());
  EXPECT_FALSE(graph.input("n", f32({-1})).ok());
  float value = 1;
  EXPECT_THAT(message(graph.constant(f32({2}), &value, 4)), HasSubstr("has 8 bytes, got 4"));
  EXPECT_THAT(message(graph.constant(f32({2}), nullptr, 8)), HasSubstr("its data is null"));
}

TEST(Graph, RefusesValuesOfAnotherGraph) {
  Graph a("a"), b("b");
  auto x = a.input("x", f32({2}));
  ASSERT_TRUE(x.ok());
  EXPECT_FALSE(b.op("relu", {*x}).ok());
  EXPECT_FALSE(b.type(*x).ok());
}

TEST(Graph, MovesWithItsValues) {
  Graph a("a");
  auto x = a.input("x", f32({2}));
  ASSERT_TRUE(x.ok());
  Graph b = std::move(a);
  auto y = b.op("relu", {*x});
  ASSERT_TRUE(y.ok());
  ASSERT_TRUE(b.output("y", *y).ok());
  EXPECT_EQ(b.outputs().size(), 1u);
}

}  // namespace
}  // namespace hpu
