// SPDX-License-Identifier: Apache-2.0
// What a module looks like: names, constants, the order of nodes, its text.
#include <fstream>

#include "compiler/mlir_import/ForeignModule.h"
#include "llvm/Support/MemoryBuffer.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

using interp::Tensor;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST_F(Importer, ListsEachOperatorOnce) {
  std::vector<std::string> ops = supportedOnnxOps();
  EXPECT_GT(ops.size(), 100u);
  EXPECT_EQ(std::set<std::string>(ops.begin(), ops.end()).size(), ops.size());
  EXPECT_THAT(ops, ::testing::Contains("Conv (opset 1..26)"));
}

/// docs/onnx-coverage.md is what the table says; HPU_UPDATE=1 rewrites it.
TEST_F(Importer, KeepsTheCoverageDocument) {
  const std::string root = std::getenv("HPU_SOURCE_DIR"), path = root + "/docs/onnx-coverage.md";
  auto found = llvm::MemoryBuffer::getFile(root + "/tests/conformance/onnx/op_coverage.txt");
  ASSERT_TRUE(found);
  const std::string document = coverageDocument((*found)->getBuffer());
  if (std::getenv("HPU_UPDATE")) std::ofstream(path) << document;
  auto file = llvm::MemoryBuffer::getFile(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->getBuffer().str(), document) << "run import_test with HPU_UPDATE=1";
}

/// docs/mlir-coverage.md, too.
TEST_F(Importer, KeepsTheCoverageDocumentOfMlir) {
  std::string path = std::string(std::getenv("HPU_SOURCE_DIR")) + "/docs/mlir-coverage.md";
  if (std::getenv("HPU_UPDATE")) std::ofstream(path) << foreignOpsDocument();
  auto file = llvm::MemoryBuffer::getFile(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->getBuffer().str(), foreignOpsDocument()) << "run import_test with HPU_UPDATE=1";
}

TEST_F(Importer, AnInitializerThatIsAnInputIsGivenAtRunTimeWhenShapesNameIt) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {3}).input("w", ElementType::kF32, {3}).floats("w", {3}, {1, 2, 3});
  builder.floats("plain", {3}, {1, 2, 3})
      .node("Add", "add", {"x", "w"}, {"s"})
      .node("Add", "more", {"s", "plain"}, {"y"});
  builder.output("y");
  auto constant = import(builder);
  ASSERT_TRUE(constant.ok()) << constant.status().message();
  EXPECT_EQ(main(*constant).getNumArguments(), 1u);
  ImportOptions options;
  options.shapes["w"] = {3};
  auto late = import(builder, options);
  ASSERT_TRUE(late.ok()) << late.status().message();
  EXPECT_EQ(main(*late).getNumArguments(), 2u);
  auto defaults = (**late)->getAttrOfType<mlir::DictionaryAttr>("hpu.defaults");
  ASSERT_TRUE(defaults && defaults.get("w"));
  EXPECT_FALSE(defaults.get("plain"));
  options.shapes = {{"plain", {3}}};
  auto refused = import(builder, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("no input has this name"));
}

}  // namespace
}  // namespace hpu::importer
