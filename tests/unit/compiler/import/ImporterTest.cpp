// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <regex>

#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/Specialize.h"
#include "compiler/interp/Interpreter.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "tests/unit/base/TemporaryFolder.h"
#include "tests/unit/compiler/import/OnnxBuilder.h"

namespace hpu::importer {
namespace {

using interp::Tensor;
using ::testing::HasSubstr;
using ::testing::Not;

class Importer : public ::testing::Test {
 protected:
  StatusOr<OwningModule> import(const OnnxBuilder& builder, const ImportOptions& options = {}) {
    return importOnnxModule(*context_, builder.save(folder_.file("model.onnx")), options, &unsupported_);
  }

  static std::string text(OwningModule& module) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    module->print(stream);
    return out;
  }

  static mlir::func::FuncOp main(OwningModule& module) { return module->lookupSymbol<mlir::func::FuncOp>("main"); }

  /// "hpu.relu hpu.add" without constants and the return.
  static std::string opNames(OwningModule& module) {
    std::string names;
    for (mlir::Operation& op : main(module).getBody().front().without_terminator())
      if (op.getName().getStringRef() != "hpu.constant")
        names += (names.empty() ? "" : " ") + op.getName().getStringRef().str();
    return names;
  }

  static std::string resultType(OwningModule& module) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    stream << main(module).getResultTypes()[0];
    return out;
  }

  base::TemporaryFolder folder_;
  std::shared_ptr<mlir::MLIRContext> context_ = makeContext();
  std::vector<UnsupportedNode> unsupported_;
};

TEST_F(Importer, NamesInputsOutputsAndOpsAfterTheModel) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2, 3})
      .node("Relu", "act", {"x"}, {"y"})
      .node("Exp", "", {"y"}, {"z"})
      .output("z");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::vector<std::string> locations;
  for (mlir::Operation& op : main(*module).getBody().front().without_terminator()) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    stream << op.getLoc();
    locations.push_back(out);
  }
  ASSERT_EQ(locations.size(), 2u);
  EXPECT_EQ(locations[0], "loc(fused<\"Relu\">[\"act\"])");
  EXPECT_EQ(locations[1], "loc(fused<\"Exp\">[\"Exp_1\"])");
  EXPECT_THAT(text(*module), HasSubstr("%arg0: tensor<2x3xf32> {hpu.name = \"x\"}"));
  EXPECT_THAT(text(*module), HasSubstr("(tensor<2x3xf32> {hpu.name = \"z\"})"));
  EXPECT_THAT(text(*module), HasSubstr("hpu.model = \"test_graph\""));
}

/// x [batch, 2, 3] reshaped to [Shape(x)[0], -1] the way exporters write it.
OnnxBuilder& dynamicReshape(OnnxBuilder& builder) {
  return builder.input("x", ElementType::kF32, {"batch", 2, 3})
      .ints("zero", {}, {0})
      .ints("axes", {1}, {0})
      .ints("rest", {1}, {-1})
      .node("Shape", "shape", {"x"}, {"s"})
      .node("Gather", "pick", {"s", "zero"}, {"b"}, {{"axis", int64_t{0}}})
      .node("Unsqueeze", "unsqueeze", {"b", "axes"}, {"b1"})
      .node("Concat", "join", {"b1", "rest"}, {"target"}, {{"axis", int64_t{0}}})
      .node("Reshape", "reshape", {"x", "target"}, {"y"})
      .output("y");
}

TEST_F(Importer, KeepsAFreeBatchThroughShapeArithmetic) {
  OnnxBuilder builder;
  auto module = import(dynamicReshape(builder));
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ(opNames(*module), "hpu.reshape");
  EXPECT_EQ(resultType(*module), "tensor<?x6xf32, #hpu.layout<symbols = [\"batch\", \"\"]>>");
  // The same module runs for any batch.
  for (int64_t batch : {1, 5}) {
    auto outputs = interp::evaluateFunction(main(*module), {Tensor::zeros({ElementType::kF32, {batch, 2, 3}})});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    EXPECT_EQ((*outputs)[0].shape(), (Shape{batch, 6}));
  }
}

TEST_F(Importer, TakesSizesOfFreeDimensionsByInputAndByName) {
  for (const ImportOptions& options :
       {ImportOptions{{{"x", {7, 2, 3}}}, {}, {}}, ImportOptions{{}, {{"batch", 7}}, {}}}) {
    OnnxBuilder builder;
    auto module = import(dynamicReshape(builder), options);
    ASSERT_TRUE(module.ok()) << module.status().message();
    EXPECT_EQ(resultType(*module), "tensor<7x6xf32>");
  }
}

TEST_F(Importer, GivesAFinishedModuleItsSizes) {
  OnnxBuilder builder;
  dynamicReshape(builder);
  for (const ImportOptions& options :
       {ImportOptions{{{"x", {7, 2, 3}}}, {}, {}}, ImportOptions{{}, {{"batch", 7}}, {}}}) {
    auto module = import(builder);
    ASSERT_TRUE(module.ok()) << module.status().message();
    Status status = specializeModule(module->get(), options);
    ASSERT_TRUE(status.ok()) << status.message();
    auto sized = import(builder, options);
    ASSERT_TRUE(sized.ok());
    EXPECT_EQ(text(*module), text(*sized));
  }
  auto module = import(builder);
  EXPECT_THAT(specializeModule(module->get(), {{{"x", {7, 2, 4}}}, {}, {}}).message(),
              HasSubstr("the input 'x' is ?x2x3xf32, not 7x2x4"));
  EXPECT_THAT(specializeModule(module->get(), {{}, {{"seq", 1}}, {}}).message(), HasSubstr("'seq'"));
}

TEST_F(Importer, MultipliesFreeDimensions) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"batch", "seq", 8}).ints("target", {2}, {-1, 8});
  builder.node("Reshape", "merge", {"x", "target"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ(resultType(*module), "tensor<?x8xf32, #hpu.layout<symbols = [\"batch*seq\", \"\"]>>");
}

TEST_F(Importer, RefusesOptionsThatDoNotFitTheModel) {
  OnnxBuilder builder;
  dynamicReshape(builder);
  auto message = [&](const ImportOptions& options) {
    auto module = import(builder, options);
    return module.ok() ? std::string("accepted") : module.status().message();
  };
  EXPECT_THAT(message({{{"y", {1, 2, 3}}}, {}, {}}), HasSubstr("no input has this name (there are: x)"));
  EXPECT_THAT(message({{{"x", {1, 2}}}, {}, {}}), HasSubstr("the model declares batchx2x3"));
  EXPECT_THAT(message({{{"x", {1, 2, 4}}}, {}, {}}), HasSubstr("the model fixes it to batchx2x3"));
  EXPECT_THAT(message({{}, {{"seq", 4}}, {}}), HasSubstr("no free dimension has this name (there are: batch)"));
  EXPECT_THAT(message({{{"x", {2, 2, 3}}}, {{"batch", 4}}, {}}), HasSubstr("another option 4"));
  EXPECT_THAT(message({{}, {{"batch", 0}}, {}}), HasSubstr("the size 0"));
}

TEST_F(Importer, NamesTheNodeThatAFreeDimensionStops) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"length"}).ints("zero", {}, {0}).ints("one", {}, {1});
  builder.node("Shape", "shape", {"x"}, {"s"}).node("Squeeze", "only", {"s"}, {"n"});
  builder.node("Range", "positions", {"zero", "n", "one"}, {"r"}).output("r");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(module.status().message(), HasSubstr("Range 'positions'"));
  EXPECT_THAT(module.status().message(), HasSubstr("--dim NAME=SIZE (free: length)"));
  auto sized = import(builder, {{}, {{"length", 3}}, {}});
  ASSERT_TRUE(sized.ok()) << sized.status().message();
  EXPECT_EQ(opNames(*sized), "");
}

TEST_F(Importer, ReportsAllUnsupportedNodesAtOnceAndNothingThatFollowsFromThem) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2, 3}).ints("k", {1}, {2});
  builder.node("NonMaxSuppression", "nms", {"x", "x"}, {"a"}).node("Relu", "after", {"a"}, {"b"});
  builder.node("TopK", "top", {"x", "k"}, {"v", "i"}).node("Fused", "own", {"x"}, {"c"}, {}, "com.example");
  builder.node("Relu", "fine", {"x"}, {"d"}).output("b").output("v").output("c").output("d");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kUnimplemented);
  ASSERT_EQ(unsupported_.size(), 3u);
  EXPECT_EQ(unsupported_[0].node, "nms");
  EXPECT_EQ(unsupported_[1].node, "top");
  EXPECT_EQ(unsupported_[2].node, "own");
  EXPECT_THAT(unsupported_[2].reason, HasSubstr("com.example"));
  EXPECT_THAT(module.status().message(), HasSubstr("3 problems"));
  EXPECT_THAT(module.status().message(), HasSubstr("TopK 'top' (opset 17, 2x3xf32)"));
  EXPECT_THAT(module.status().message(), Not(HasSubstr("after")));
}

TEST_F(Importer, UnsupportedNodesHideNoOtherFault) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2, 3}).input("bad", ElementType::kF32, {-2, 3});
  builder.node("Fused", "own", {"x"}, {"a"}, {}, "com.example").node("Relu", "after", {"a"}, {"b"});
  builder.node("MatMul", "product", {"x", "x"}, {"m"}).node("Add", "behind", {"m", "b"}, {"n"});
  builder.node("Relu", "reader", {"nowhere"}, {"r"}).node("Zork", "odd", {"r", "x"}, {"v"});
  builder.node("Relu", "one", {"q"}, {"p"}).node("Relu", "two", {"p"}, {"q"}).node("Glorp", "circle", {"q"}, {"g"});
  builder.node("Relu", "first", {"x"}, {"d"}).node("Exp", "second", {"x"}, {"d"});
  builder.node("Transpose", "turn", {"x"}, {"t"}, {{"perm", std::vector<int64_t>{0, 0}}});
  builder.node("Sqrt", "wide", {"bad"}, {"w"}).node("Sqrt", "narrow", {"d"}, {"s"});
  for (const char* name : {"b", "n", "v", "g", "t", "w", "s", "gone"}) builder.output(name);
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kUnimplemented);
  std::string text = module.status().message();
  for (const char* part :
       {"'own'", "'product'", "'reader': reads 'nowhere'", "'odd'", "cycle: ", "'circle'", "'second': defines 'd'",
        "'turn'", "the input 'bad' has a dimension of -2", "output 'gone' is not defined"})
    EXPECT_THAT(text, HasSubstr(part));
  for (const char* part : {"'after'", "'behind'", "'wide'", "'narrow'", "'first'"})
    EXPECT_THAT(text, Not(HasSubstr(part)));
  EXPECT_THAT(text, HasSubstr("10 problems"));
  EXPECT_EQ(unsupported_.size(), 3u);
}

TEST_F(Importer, TwoOutputsMayNameOneValueButOneNameIsThereOnce) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2, 3})
      .node("Relu", "act", {"x"}, {"y"})
      .node("Identity", "also", {"y"}, {"z"});
  builder.output("y").output("z").output("x");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  mlir::func::FuncOp function = main(*module);
  mlir::Operation* results = function.getBody().front().getTerminator();
  ASSERT_EQ(results->getNumOperands(), 3u);
  EXPECT_EQ(results->getOperand(0), results->getOperand(1));
  EXPECT_EQ(results->getOperand(2), function.getArgument(0));
  const std::vector<std::string> names = {"y", "z", "x"};
  for (auto [i, name] : llvm::enumerate(names))
    EXPECT_EQ(function.getResultAttrOfType<mlir::StringAttr>(i, "hpu.name").str(), name);

  builder.output("y");
  auto twice = import(builder);
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(twice.status().message(), HasSubstr("the graph output 'y' is listed twice"));
  EXPECT_THAT(twice.status().message(), Not(HasSubstr("\n"))) << "one line";
}

/// A shape as a result, a range that is as long as a dimension, and a tensor of a shape that was computed.
TEST_F(Importer, OutputsWhoseExtentIsASizeGetIt) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {std::string("n"), 3}).ints("zero", {}, {0}).ints("one", {}, {1});
  builder.node("Shape", "shape", {"x"}, {"s"}).node("Gather", "size", {"s", "zero"}, {"n"});
  builder.node("Range", "positions", {"zero", "n", "one"}, {"r"}).node("ConstantOfShape", "zeros", {"s"}, {"z"});
  builder.node("Relu", "act", {"x"}, {"y"});
  for (const char* name : {"s", "n", "r", "z", "y"}) builder.output(name);
  auto module = import(builder, {{}, {{"n", 5}}, {}});
  ASSERT_TRUE(module.ok()) << module.status().message();
  auto types = main(*module).getResultTypes();
  std::vector<std::vector<int64_t>> expected = {{2}, {}, {5}, {5, 3}, {5, 3}};
  for (auto [type, shape] : llvm::zip(types, expected))
    EXPECT_EQ(mlir::cast<mlir::RankedTensorType>(type).getShape(), llvm::ArrayRef(shape));
  auto open = import(builder);
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.status().message(), HasSubstr("--dim NAME=SIZE (free: n)"));
}

TEST_F(Importer, RefusesIntegerProductsWithAReason) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kI64, {2, 2}).node("MatMul", "product", {"x", "x"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("MatMul 'product' (opset 17, 2x2xi64): integer operands"));
}

TEST_F(Importer, EvaluatesConstantNodesAtImport) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2}).floats("a", {2}, {1, 2}).floats("b", {2}, {10, 20});
  builder.node("Mul", "scale", {"a", "b"}, {"c"}).node("Add", "add", {"x", "c"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ(opNames(*module), "hpu.add");
  EXPECT_THAT(text(*module), HasSubstr("dense<[1.000000e+01, 4.000000e+01]>"));
}

TEST_F(Importer, MapsExternalWeightsWithoutACopyAndKeepsThemAlive) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  {
    std::ofstream out(folder_.file("weights.bin"), std::ios::binary);
    out.write("12345678", 8);
    out.write(reinterpret_cast<const char*>(values.data()), 4000);
  }
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {1000}).external("w", {1000}, "weights.bin", 8, 4000);
  builder.node("Add", "add", {"x", "w"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  mlir::DenseResourceElementsAttr resource;
  (*module)->walk([&](mlir::Operation* op) {
    if (auto value = op->getAttrOfType<mlir::DenseResourceElementsAttr>("value")) resource = value;
  });
  ASSERT_TRUE(resource);
  EXPECT_EQ(resource.getRawHandle().getKey(), "w");
  llvm::ArrayRef<char> data = resource.getRawHandle().getBlob()->getData();
  // Byte 8 of a page-aligned mapping.
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data.data()) % 4096, 8u);
  EXPECT_EQ(std::memcmp(data.data(), values.data(), 4000), 0);
}

TEST_F(Importer, FlattensSoftmaxBeforeOpset13) {
  for (int64_t opset : {11, 13}) {
    OnnxBuilder builder(opset);
    builder.input("x", ElementType::kF32, {2, 2, 2})
        .node("Softmax", "soft", {"x"}, {"y"}, {{"axis", int64_t{1}}})
        .output("y");
    auto module = import(builder);
    ASSERT_TRUE(module.ok()) << module.status().message();
    auto outputs = interp::evaluateFunction(main(*module), {Tensor::zeros({ElementType::kF32, {2, 2, 2}})});
    ASSERT_TRUE(outputs.ok());
    EXPECT_FLOAT_EQ((*outputs)[0].as<float>()[0], opset < 13 ? 0.25f : 0.5f);
  }
}

TEST_F(Importer, InlinesTheBranchOfAConstantIf) {
  auto branch = [](const std::string& op, const std::string& result) {
    auto graph = std::make_shared<OnnxBuilder>();
    graph->node(op, op + "_inside", {"x"}, {result}).output(result);
    return graph;
  };
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2}).ints("zero", {}, {0});
  builder.node("Equal", "compare", {"zero", "zero"}, {"c"});
  builder
      .node("If", "choose", {"c"}, {"y"}, {{"then_branch", branch("Relu", "t")}, {"else_branch", branch("Exp", "e")}})
      .output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ(opNames(*module), "hpu.relu");
}

TEST_F(Importer, SortsNodesThatComeInAnotherOrder) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2})
      .node("Exp", "second", {"a"}, {"y"})
      .node("Relu", "first", {"x"}, {"a"})
      .output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ(opNames(*module), "hpu.relu hpu.exp");
}

TEST_F(Importer, GivesACycleByName) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2})
      .node("Add", "a", {"x", "q"}, {"p"})
      .node("Relu", "b", {"p"}, {"q"})
      .output("q");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("cycle: "));
  EXPECT_THAT(module.status().message(), HasSubstr("b -> a -> b"));
}

/// The results of a model of one input with values.
class Computes : public Importer {
 protected:
  StatusOr<std::vector<Tensor>> run(const OnnxBuilder& builder, const std::vector<Tensor>& inputs) {
    auto module = import(builder);
    if (!module.ok()) return module.status();
    return interp::evaluateFunction(main(*module), inputs);
  }
  /// The elements of the first result.
  std::vector<float> floats(const OnnxBuilder& builder, const std::vector<Tensor>& inputs) {
    auto outputs = run(builder, inputs);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    if (!outputs.ok()) return {};
    const float* data = (*outputs)[0].as<float>();
    return {data, data + (*outputs)[0].count()};
  }
  static Tensor counting(const Shape& shape, float from = 0) {
    std::vector<float> values(static_cast<size_t>(numElements(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = from + static_cast<float>(i);
    return Tensor::of<float>(ElementType::kF32, shape, values);
  }
};

/// Sizes and neighbours are those of ONNX Runtime 1.30. In double, 10 * 2.3f is less than 23, and 3 / 0.6f less than 5.
TEST_F(Computes, ResizeByScalesInF32AsOtherRuntimesDo) {
  auto resized = [&](float scale) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {1, 1, 1, 10}).floats("scales", {4}, {1, 1, 1, scale});
    builder
        .node("Resize", "resize", {"x", "", "scales"}, {"y"},
              {{"mode", std::string("nearest")},
               {"coordinate_transformation_mode", std::string("asymmetric")},
               {"nearest_mode", std::string("floor")}})
        .output("y");
    return floats(builder, {counting({1, 1, 1, 10})});
  };
  EXPECT_THAT(resized(0.6f), ::testing::ElementsAre(0, 1, 3, 5, 6, 8));
  EXPECT_EQ(resized(2.3f).size(), 23u);
}

/// Opset 10 does not say which element is the nearest; expected are the values of its own example and of ONNX Runtime.
TEST_F(Computes, ResizeOfOpset10TakesTheNextElementWhereItLeavesSomeOut) {
  auto resized = [&](std::vector<float> scales) {
    OnnxBuilder builder(10);
    builder.input("x", ElementType::kF32, {1, 1, 2, 4}).floats("scales", {4}, std::move(scales));
    builder.node("Resize", "resize", {"x", "scales"}, {"y"}, {{"mode", std::string("nearest")}}).output("y");
    return floats(builder, {counting({1, 1, 2, 4}, 1)});
  };
  EXPECT_THAT(resized({1, 1, 0.6f, 0.6f}), ::testing::ElementsAre(1, 3));
  // Rows repeat the one below, columns take the one above.
  EXPECT_THAT(resized({1, 1, 1.5f, 0.6f}), ::testing::ElementsAre(1, 3, 1, 3, 5, 7));
}

/// (1 - weight) * low + weight * high, where an element that weighs nothing is not read.
TEST_F(Computes, LinearResizeKeepsInfinities) {
  OnnxBuilder builder(13);
  builder.input("x", ElementType::kF32, {1, 1, 1, 4}).floats("scales", {4}, {1, 1, 1, 2});
  builder
      .node("Resize", "resize", {"x", "", "scales"}, {"y"},
            {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string("asymmetric")}})
      .output("y");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto pixels = floats(builder, {Tensor::of<float>(ElementType::kF32, {1, 1, 1, 4}, {1, kInfinity, 3, -kInfinity})});
  EXPECT_THAT(pixels,
              ::testing::ElementsAre(1, kInfinity, kInfinity, kInfinity, 3, -kInfinity, -kInfinity, -kInfinity));
}

/// Expected values: ONNX's own test data and ONNX Runtime 1.30.
TEST_F(Computes, ResizeKeepsCentresAndAspectRatios) {
  OnnxBuilder symmetric(19);
  symmetric.input("x", ElementType::kF32, {1, 1, 1, 4}).floats("scales", {4}, {1, 1, 1, 0.6f});
  symmetric
      .node("Resize", "resize", {"x", "", "scales"}, {"y"},
            {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string("half_pixel_symmetric")}})
      .output("y");
  auto pixels = floats(symmetric, {counting({1, 1, 1, 4}, 1)});
  ASSERT_EQ(pixels.size(), 2u);
  EXPECT_NEAR(pixels[0], 1.6666667f, 1e-6);
  EXPECT_NEAR(pixels[1], 3.3333333f, 1e-6);

  auto kept = [&](const std::string& policy) {
    OnnxBuilder builder(18);
    builder.input("x", ElementType::kF32, {1, 1, 2, 4}).ints("sizes", {2}, {1, 3});
    builder
        .node("Resize", "resize", {"x", "", "", "sizes"}, {"y"},
              {{"mode", std::string("nearest")},
               {"axes", std::vector<int64_t>{2, 3}},
               {"keep_aspect_ratio_policy", policy}})
        .output("y");
    return floats(builder, {counting({1, 1, 2, 4}, 1)});
  };
  EXPECT_THAT(kept("not_larger"), ::testing::ElementsAre(1, 3));
  EXPECT_THAT(kept("not_smaller"), ::testing::ElementsAre(1, 2, 4, 5, 6, 8));
}

/// With ceil_mode a window may be larger than the whole padded input.
TEST_F(Computes, PoolingTakesWindowsBeyondTheInputWithCeilMode) {
  for (auto [op, expected] : {std::pair("MaxPool", 4.0f), std::pair("AveragePool", 2.5f)}) {
    OnnxBuilder builder(19);
    builder.input("x", ElementType::kF32, {1, 1, 2, 2})
        .node(op, "pool", {"x"}, {"y"},
              {{"kernel_shape", std::vector<int64_t>{3, 3}},
               {"strides", std::vector<int64_t>{2, 2}},
               {"ceil_mode", int64_t{1}}})
        .output("y");
    EXPECT_THAT(floats(builder, {counting({1, 1, 2, 2}, 1)}), ::testing::ElementsAre(expected)) << op;
  }
}

/// The taps of a window are not counted one by one: windows of 10^10 elements cost what their input does.
TEST_F(Computes, WindowsMayBeFarLargerThanTheirInput) {
  const int64_t huge = 100000;
  for (auto [op, expected] : {std::pair("MaxPool", 4.0f), std::pair("AveragePool", 2.5f)}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {1, 1, 2, 2})
        .node(op, "pool", {"x"}, {"y"},
              {{"kernel_shape", std::vector<int64_t>{huge, huge}},
               {"strides", std::vector<int64_t>{huge, huge}},
               {"pads", std::vector<int64_t>{huge - 2, huge - 2, huge - 2, huge - 2}}})
        .output("y");
    EXPECT_THAT(floats(builder, {counting({1, 1, 2, 2}, 1)}), ::testing::ElementsAre(expected)) << op;
  }
  // A normalisation over 10^9 channels, on constants, which import evaluates.
  OnnxBuilder lrn;
  lrn.input("x", ElementType::kF32, {1, 2, 1, 2}).floats("c", {1, 2, 1, 2}, {1, 2, 3, 4});
  lrn.node("LRN", "lrn", {"c"}, {"n"}, {{"size", int64_t{1000000000}}, {"alpha", 1e9f}, {"beta", 1.0f}});
  lrn.node("Add", "add", {"x", "n"}, {"y"}).output("y");
  auto values = floats(lrn, {Tensor::zeros({ElementType::kF32, {1, 2, 1, 2}})});
  ASSERT_EQ(values.size(), 4u);
  EXPECT_NEAR(values[0], 1.0 / 11, 1e-5);  // 1 / (1 + alpha / size * (1^2 + 3^2))
  EXPECT_NEAR(values[3], 4.0 / 21, 1e-5);
}

TEST_F(Computes, LayerNormTakesScalesOfAnyShapeThatBroadcasts) {
  const std::vector<Shape> shapes = {{4}, {1, 1, 4}, {1, 4}, {3, 4}, {2, 3, 4}, {3, 1}};
  const Tensor x = counting({2, 3, 4});
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shapeToString(shape));
    Tensor scale = counting(shape, 1), bias = counting(shape, -3);
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {2, 3, 4})
        .floats("s", shape, {scale.as<float>(), scale.as<float>() + scale.count()})
        .floats("b", shape, {bias.as<float>(), bias.as<float>() + bias.count()})
        .node("LayerNormalization", "norm", {"x", "s", "b"}, {"y"})
        .output("y");
    auto values = floats(builder, {x});
    ASSERT_EQ(values.size(), 24u);
    for (int64_t row = 0; row < 6; ++row)
      for (int64_t c = 0; c < 4; ++c) {
        // Each row counts upwards: its mean is in the middle, its variance 1.25.
        const double normal = (static_cast<double>(c) - 1.5) / std::sqrt(1.25 + 1e-5);
        const int64_t at[] = {row / 3, row % 3, c};
        int64_t offset = 0;
        for (size_t d = 0; d < shape.size(); ++d)
          offset = offset * shape[d] + (shape[d] == 1 ? 0 : at[3 - shape.size() + d]);
        EXPECT_NEAR(values[row * 4 + c], normal * scale.as<float>()[offset] + bias.as<float>()[offset], 1e-4);
      }
  }
}

/// Against sums over all labels, one by one.
TEST_F(Computes, EinsumTakesAnEllipsisOnEitherSide) {
  struct Case {
    std::string equation, a, b, out;  ///< With letters in place of the ellipsis; upper case: of size 1.
    Shape aShape, bShape, outShape;
  };
  const std::vector<Case> cases = {
      {"...ij,...jk->...ik", "pij", "pjk", "pik", {2, 3, 4}, {2, 4, 5}, {2, 3, 5}},
      {"...ij,jk->...ik", "pqij", "jk", "pqik", {2, 2, 3, 4}, {4, 5}, {2, 2, 3, 5}},
      {"...ij,...jk", "pij", "pjk", "pik", {2, 3, 4}, {2, 4, 5}, {2, 3, 5}},
      {"i...,...->...i", "ipq", "q", "pqi", {4, 2, 3}, {3}, {2, 3, 4}},
      {"b...d,...d->b...", "bpd", "pd", "bp", {2, 3, 4}, {3, 4}, {2, 3}},
      {"...ij,...jk->...ik", "pqij", "Qjk", "pqik", {2, 3, 2, 4}, {1, 4, 2}, {2, 3, 2, 2}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.equation);
    OnnxBuilder builder;
    builder.input("a", ElementType::kF32, {c.aShape.begin(), c.aShape.end()})
        .input("b", ElementType::kF32, {c.bShape.begin(), c.bShape.end()})
        .node("Einsum", "einsum", {"a", "b"}, {"y"}, {{"equation", c.equation}})
        .output("y");
    Tensor a = counting(c.aShape, -3), b = counting(c.bShape, 1);
    auto values = floats(builder, {a, b});
    std::map<char, int64_t> sizes, at;
    for (auto [labels, shape] : {std::pair(c.a, c.aShape), std::pair(c.b, c.bShape)})
      for (size_t d = 0; d < labels.size(); ++d) sizes[labels[d]] = shape[d];
    std::vector<double> expected(static_cast<size_t>(numElements(c.outShape)));
    auto offset = [&](const std::string& labels, const Shape& shape) {
      int64_t result = 0;
      for (size_t d = 0; d < labels.size(); ++d)
        result = result * shape[d] + (std::isupper(labels[d]) ? 0 : at[labels[d]]);
      return result;
    };
    int64_t points = 1;
    for (auto [label, size] : sizes) points *= size;
    for (int64_t point = 0; point < points; ++point) {
      int64_t rest = point;
      for (auto [label, size] : sizes) at[label] = rest % size, rest /= size;
      expected[offset(c.out, c.outShape)] +=
          static_cast<double>(a.as<float>()[offset(c.a, c.aShape)]) * b.as<float>()[offset(c.b, c.bShape)];
    }
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-3);
  }
}

TEST_F(Computes, TileRepeatsEveryDimensionOfAHighRank) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {1, 2, 1, 1, 2, 1}).ints("repeats", {6}, {2, 2, 2, 1, 2, 2});
  builder.node("Tile", "tile", {"x", "repeats"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  main(*module).walk([](mlir::Operation* op) {
    for (mlir::Value result : op->getResults())
      EXPECT_LE(mlir::cast<mlir::RankedTensorType>(result.getType()).getRank(), 8);
  });
  auto values = floats(builder, {counting({1, 2, 1, 1, 2, 1})});
  ASSERT_EQ(values.size(), 2u * 4 * 2 * 4 * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t inner = i / 2 % 4, outer = i / 16 % 4;  // Dims 4 and 1 of the result.
    EXPECT_EQ(values[i], static_cast<float>(outer % 2 * 2 + inner % 2));
  }
}

TEST_F(Computes, RangesOfLargeIntegersAreExact) {
  const int64_t start = (int64_t{1} << 60) + 1;
  OnnxBuilder builder;
  builder.input("x", ElementType::kI64, {3}).ints("a", {}, {start}).ints("b", {}, {start + 6}).ints("c", {}, {2});
  builder.node("Range", "range", {"a", "b", "c"}, {"r"}).node("Add", "add", {"x", "r"}, {"y"}).output("y");
  auto outputs = run(builder, {Tensor::zeros({ElementType::kI64, {3}})});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ((*outputs)[0].integer(i), start + 2 * i);
}

/// Models whose attributes ask for more than any machine has: each is refused with its node and the number, or done.
TEST_F(Importer, NumbersBeyondReasonCostNothing) {
  /// The answer to a model that `fill` completes: x is 1x1x4x4.
  auto message = [&](auto fill, int64_t opset = 18) {
    OnnxBuilder builder(opset);
    fill(builder.input("x", ElementType::kF32, {1, 1, 4, 4}).output("y"));
    auto module = import(builder);
    return module.ok() ? std::string("accepted") : module.status().message();
  };
  const int64_t huge = int64_t{1} << 40;
  const std::vector<int64_t> twice = {huge, huge};
  EXPECT_THAT(message([&](OnnxBuilder& b) {
                b.node("MaxPool", "pool", {"x"}, {"y"}, {{"kernel_shape", twice}, {"dilations", twice}});
              }),
              HasSubstr("MaxPool 'pool' (opset 18, 1x1x4x4xf32): 'kernel_shape' has the entry 1099511627776"));
  EXPECT_THAT(message([&](OnnxBuilder& b) { b.node("Split", "split", {"x"}, {"y", "z"}, {{"num_outputs", huge}}); }),
              HasSubstr("'num_outputs' is 1099511627776, and the node has 2 outputs"));
  EXPECT_THAT(message([](OnnxBuilder& b) {
                std::vector<int64_t> many(1 << 20);
                for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i);
                b.ints("axes", {1 << 20}, many).node("Unsqueeze", "u", {"x", "axes"}, {"y"});
              }),
              HasSubstr("more than 64 dimensions"));
  for (auto [scale, text] : {std::pair(1e30f, "Resize 'r' (opset 18, 1x1x4x4xf32): scales dimension 3 of 4 by 1"),
                             std::pair(std::nanf(""), "scales dimension 3 by nan"), std::pair(-2.0f, "by -2")})
    EXPECT_THAT(message([scale = scale](OnnxBuilder& b) {
                  b.floats("s", {4}, {1, 1, 1, scale}).node("Resize", "r", {"x", "", "s"}, {"y"});
                }),
                HasSubstr(text));
  EXPECT_THAT(
      message([&](OnnxBuilder& b) {
        b.floats("w", {1, 1, 2, 2}, {1, 1, 1, 1}).node("ConvTranspose", "c", {"x", "w"}, {"y"}, {{"group", huge}});
      }),
      HasSubstr("there cannot be 1099511627776 groups"));
  // Results of constants: one larger than its operands, and one whose batches are not those of its data.
  EXPECT_THAT(message([](OnnxBuilder& b) {
                b.floats("d", {1, 5000}, std::vector<float>(5000))
                    .ints("i", {5000, 1}, std::vector<int64_t>(5000))
                    .node("GatherND", "g", {"d", "i"}, {"t"})
                    .node("Add", "add", {"x", "t"}, {"y"});
              }),
              HasSubstr("GatherND 'g' (opset 18, 1x5000xf32): a constant result of more than 16777216 elements"));
  EXPECT_THAT(message([](OnnxBuilder& b) {
                b.floats("d", {3, 2}, std::vector<float>(6))
                    .ints("i", {1, 1}, {0})
                    .node("GatherND", "g", {"d", "i"}, {"t"}, {{"batch_dims", int64_t{1}}})
                    .node("Add", "add", {"x", "t"}, {"y"});
              }),
              HasSubstr("the first 1 dimensions of its data and indices differ"));
  // Wrong kinds of attributes and operands.
  EXPECT_THAT(
      message([](OnnxBuilder& b) { b.node("Upsample", "up", {"x"}, {"y"}, {{"scales", std::string("two")}}); }, 7),
      HasSubstr("'scales' must be a list of numbers"));
  EXPECT_THAT(message([](OnnxBuilder& b) {
                b.input("i", ElementType::kI64, {4}).ints("depth", {}, {3}).floats("values", {}, {1});
                b.node("OneHot", "hot", {"i", "depth", "values"}, {"y"});
              }),
              HasSubstr("OneHot 'hot' (opset 18, 4xi64): its values are f32, not two of rank 1"));
  // A step beyond all sizes takes one element.
  EXPECT_EQ(message([](OnnxBuilder& b) {
              b.ints("a", {1}, {0}).ints("b", {1}, {INT64_MAX}).ints("c", {1}, {2}).ints("s", {1}, {INT64_MAX});
              b.node("Slice", "slice", {"x", "a", "b", "c", "s"}, {"t"}).node("Relu", "act", {"t"}, {"y"});
            }),
            "accepted");
  // Sizes from an option are checked as those of the file are.
  OnnxBuilder dynamic;
  dynamic.input("x", ElementType::kF32, {"n", "m"}).node("Relu", "act", {"x"}, {"y"}).output("y");
  auto module = import(dynamic, {{}, {{"n", int64_t{1} << 62}, {"m", int64_t{1} << 62}}, {}});
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("would have more than 2^40 elements"));
}

/// What import evaluates stays within a budget, whatever the number of nodes; the rest is left to the phases.
TEST_F(Importer, FoldedConstantsHaveABudget) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {1}).floats("w", {1 << 20}, std::vector<float>(1 << 20, 1.0f));
  for (int i = 0; i < 100; ++i)
    builder.node("Neg", "neg" + std::to_string(i), {i ? "t" + std::to_string(i - 1) : "w"}, {"t" + std::to_string(i)});
  builder.node("Add", "add", {"x", "t99"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::string names = opNames(*module);
  EXPECT_THAT(names, HasSubstr("hpu.neg"));  // 4 MiB each: not all of them within 256 MiB.
  // What only import can write is refused.
  OnnxBuilder masks;
  masks.input("x", ElementType::kF32, {4000, 4000}).output("y");
  std::vector<std::string> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back("t" + std::to_string(i));
    masks.node("Trilu", "mask" + std::to_string(i), {"x"}, {all.back()});
  }
  masks.node("Sum", "sum", all, {"y"});
  auto many = import(masks);
  ASSERT_FALSE(many.ok());
  EXPECT_THAT(many.status().message(), HasSubstr("the constants that the nodes up to here ask for have more than 512"));
}

TEST_F(Importer, NamesOfAnyLengthGiveMessagesOfSome) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2, 3}).node("MatMul", std::string(100000, 'n'), {"x", "x"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_LT(module.status().message().size(), 3000u);
  EXPECT_THAT(module.status().message(), HasSubstr("inner dimensions differ: 2x3xf32 x 2x3xf32"));
}

/// Each broken model of tests/models/malformed is refused with what its manifest wants mentioned.
TEST_F(Importer, RefusesEachMalformedModelWithAUsefulLine) {
  const char* source = std::getenv("HPU_SOURCE_DIR");
  ASSERT_TRUE(source);
  std::string models = std::string(source) + "/tests/models/malformed/";
  auto file = llvm::MemoryBuffer::getFile(models + "manifest.json");
  ASSERT_TRUE(file);
  llvm::Expected<llvm::json::Value> manifest = llvm::json::parse((*file)->getBuffer());
  ASSERT_TRUE(static_cast<bool>(manifest));
  int count = 0;
  for (const auto& [name, entry] : *manifest->getAsObject()) {
    SCOPED_TRACE(name.str());
    std::string path = models + name.str();
    auto module = importOnnxModule(*context_, path, {});
    ASSERT_FALSE(module.ok());
    std::string message = module.status().message();
    while (message.find(path) != std::string::npos) message.erase(message.find(path), path.size());
    for (const llvm::json::Value& wanted : *entry.getAsObject()->getArray("mention")) {
      std::regex pattern(wanted.getAsString()->str(), std::regex::icase);
      EXPECT_TRUE(std::regex_search(message, pattern)) << wanted.getAsString()->str() << " is not in: " << message;
    }
    EXPECT_NE(module.status().code(), StatusCode::kInternal);
    ++count;
  }
  EXPECT_GE(count, 40);
}

/// Whatever a damaged file says, the answer is a module or a Status.
TEST_F(Importer, SurvivesRandomDamageOfARealModel) {
  auto file =
      llvm::MemoryBuffer::getFile(std::string(std::getenv("HPU_SOURCE_DIR")) + "/tests/models/digits/model.onnx");
  ASSERT_TRUE(file);
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = (*file)->getBuffer().str();
    // The structure is at both ends; the weights in the middle would swallow most of the damage.
    for (int hit = 0; hit < 1 + round % 4; ++hit) {
      size_t at = random() % 2048;
      bytes[random() % 2 ? at % bytes.size() : bytes.size() - 1 - at % bytes.size()] = static_cast<char>(random());
    }
    if (round % 7 == 0) bytes.resize(random() % bytes.size());
    std::string path = folder_.file("damaged.onnx");
    std::ofstream(path, std::ios::binary) << bytes;
    auto context = makeContext();
    auto module = importOnnxModule(*context, path, {});
    refused += !module.ok();
    EXPECT_TRUE(module.ok() || !module.status().message().empty());
  }
  EXPECT_GT(refused, 100);
}

TEST_F(Importer, ReadsItsOwnTextAgain) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"batch", 3}).floats("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  builder.node("MatMul", "product", {"x", "w"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::string path = folder_.file("model.mlir");
  std::ofstream(path) << text(*module);
  ASSERT_TRUE(isMlirFile(path).ok() && *isMlirFile(path));
  auto again = importMlirModule(*context_, path);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(text(*again), text(*module));
}

TEST_F(Importer, RefusesOtherDialectsByName) {
  std::string path = folder_.file("other.mlir");
  std::ofstream(path)
      << "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %y = tosa.abs %x : (tensor<2xf32>) -> "
         "tensor<2xf32>\n  return %y : tensor<2xf32>\n}\n";
  auto module = importMlirModule(*context_, path);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(module.status().message(), HasSubstr("'tosa' dialect"));
  std::ofstream(path) << "func.func @main(%x: tensor<2xf32>) {\n  oops\n}\n";
  module = importMlirModule(*context_, path);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("other.mlir:2:"));
}

TEST_F(Importer, ListsEachOperatorOnce) {
  std::vector<std::string> ops = supportedOnnxOps();
  EXPECT_GT(ops.size(), 100u);
  EXPECT_EQ(std::set<std::string>(ops.begin(), ops.end()).size(), ops.size());
  EXPECT_THAT(ops, ::testing::Contains("Conv (opset 1..24)"));
}

/// docs/onnx-coverage.md is what the table says; HPU_UPDATE=1 rewrites it.
TEST_F(Importer, KeepsTheCoverageDocument) {
  std::string path = std::string(std::getenv("HPU_SOURCE_DIR")) + "/docs/onnx-coverage.md";
  if (std::getenv("HPU_UPDATE")) std::ofstream(path) << coverageDocument();
  auto file = llvm::MemoryBuffer::getFile(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->getBuffer().str(), coverageDocument()) << "run import_test with HPU_UPDATE=1";
}

}  // namespace
}  // namespace hpu::importer
