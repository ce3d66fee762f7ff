// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
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
