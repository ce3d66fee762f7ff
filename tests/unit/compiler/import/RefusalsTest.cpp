// SPDX-License-Identifier: Apache-2.0
// Models that are not imported, and what is said about each.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <regex>

#include "compiler/import/Specialize.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Importer, ReportsAllUnsupportedNodesAtOnceAndNothingThatFollowsFromThem) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2, 3}).input("k", ElementType::kI64, {1});
  builder.node("ImageDecoder", "picture", {"x", "x"}, {"a"}).node("Relu", "after", {"a"}, {"b"});
  builder.node("StringNormalizer", "text", {"x"}, {"v"}).node("Fused", "own", {"x"}, {"c"}, {}, "com.example");
  builder.node("Relu", "fine", {"x"}, {"d"}).output("b").output("v").output("c").output("d");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kUnimplemented);
  ASSERT_EQ(unsupported_.size(), 3u);
  EXPECT_EQ(unsupported_[0].node, "picture");
  EXPECT_EQ(unsupported_[1].node, "text");
  EXPECT_EQ(unsupported_[2].node, "own");
  EXPECT_THAT(unsupported_[2].reason, HasSubstr("com.example"));
  EXPECT_THAT(module.status().message(), HasSubstr("3 problems"));
  EXPECT_THAT(module.status().message(), HasSubstr("StringNormalizer 'text' (opset 17, 2x3xf32)"));
  EXPECT_THAT(module.status().message(), Not(HasSubstr("after")));
}

TEST_F(Importer, GatherNDOfMoreBatchesThanAnythingHas) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t batches : {kMax, -kMax - 1, int64_t{1} << 39, int64_t{3}}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {2, 3}).input("at", ElementType::kI64, {2, 1});
    builder.node("GatherND", "gather", {"x", "at"}, {"y"}, {{"batch_dims", batches}}).output("y");
    auto module = import(builder);
    ASSERT_FALSE(module.ok());
    EXPECT_THAT(
        module.status().message(),
        HasSubstr(batches > 0 && batches < kMax ? "its indices are deeper than the data" : "which is beyond 2^40"));
  }
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

TEST_F(Importer, SaysOfEachUnsupportedNodeWhereItIsWhatItReadsAndWhatHelps) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {2, 3}).input("k", ElementType::kBool, {2, 2});
  builder.node("Rellu", "typo", {"x"}, {"a"}).node("Fused", "own", {"x", "", "k"}, {"c"}, {}, "com.example");
  builder.node("StringSplit", "words", {"a"}, {"w"});
  builder.output("a").output("c").output("w");
  // What is wrong with the options hides none of it.
  ImportOptions options;
  options.dims["nowhere"] = 3;
  auto module = import(builder, options);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(module.status().message(), HasSubstr("no free dimension has this name"));
  ASSERT_EQ(unsupported_.size(), 3u);
  const UnsupportedNode& typo = unsupported_[0];
  EXPECT_EQ(typo.domain, "");
  EXPECT_EQ(typo.opset, 17);
  ASSERT_EQ(typo.inputs.size(), 1u);
  EXPECT_EQ(typo.inputs[0].name, "x");
  EXPECT_EQ(typo.inputs[0].type, "2x3xf32");
  ASSERT_EQ(typo.outputs.size(), 1u);
  EXPECT_EQ(typo.outputs[0].name, "a");
  EXPECT_THAT(typo.help, HasSubstr("if Relu is meant"));
  const UnsupportedNode& own = unsupported_[1];
  EXPECT_EQ(own.domain, "com.example");
  ASSERT_EQ(own.inputs.size(), 2u);
  EXPECT_EQ(own.inputs[1].type, "2x2xbool");
  EXPECT_THAT(own.help, HasSubstr("CompileOptions::plugins"));
  EXPECT_THAT(unsupported_[2].help, HasSubstr("on the host"));
}

TEST_F(Importer, AnUnknownOpsetHidesNoNode) {
  OnnxBuilder builder(99);
  builder.input("x", ElementType::kF32, {2, 3}).node("Zork", "odd", {"x"}, {"a"}).node("Relu", "fine", {"a"}, {"b"});
  builder.output("b");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("opset 99 is not supported"));
  EXPECT_THAT(module.status().message(), HasSubstr("'odd'"));
  ASSERT_EQ(unsupported_.size(), 2u);
  EXPECT_EQ(unsupported_[0].op, "model");
  EXPECT_EQ(unsupported_[1].opset, 99);
}

TEST_F(Importer, RefusesProductsOfBoolsWithAReason) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kBool, {2, 2}).node("MatMul", "product", {"x", "x"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("its operands are bools"));
}

TEST_F(Importer, RefusesConvolutionsOfScalarsAndVectors) {
  for (const char* op : {"Conv", "ConvTranspose"})
    for (const std::vector<BuilderDim>& shape : {std::vector<BuilderDim>{}, std::vector<BuilderDim>{int64_t{3}}}) {
      OnnxBuilder builder;
      builder.input("x", ElementType::kF32, shape).input("w", ElementType::kF32, shape);
      auto module = import(builder.node(op, "conv", {"x", "w"}, {"y"}).output("y"));
      ASSERT_FALSE(module.ok()) << op;
      EXPECT_THAT(module.status().message(), HasSubstr("'conv'"));
    }
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

/// What the fuzz targets found: each crashed.
TEST_F(Importer, OperandsOfTheWrongRankOrTypeAreRefused) {
  const auto refusal = [&](auto fill) {
    OnnxBuilder builder(20);
    fill(builder);
    auto module = import(builder.output("y"));
    return module.ok() ? std::string("accepted") : module.status().message();
  };
  EXPECT_THAT(refusal([](OnnxBuilder& b) { b.input("x", ElementType::kF32, {}).node("DFT", "dft", {"x"}, {"y"}); }),
              HasSubstr("DFT 'dft'"));
  EXPECT_THAT(refusal([](OnnxBuilder& b) {
                b.input("x", ElementType::kF32, {5, 3}).input("l", ElementType::kI64, {});
                b.node("SoftmaxCrossEntropyLoss", "loss", {"x", "l"}, {"y"});
              }),
              HasSubstr("its labels"));
  EXPECT_THAT(refusal([](OnnxBuilder& b) {
                b.input("x", ElementType::kF32, {2, 1, 3}).input("w", ElementType::kI8, {1, 4, 3});
                b.input("r", ElementType::kF32, {1, 4, 4}).node("RNN", "rnn", {"x", "w", "r"}, {"y"});
              }),
              HasSubstr("different types"));
  EXPECT_THAT(refusal([](OnnxBuilder& b) {
                b.input("x", ElementType::kF32, {2, 1, 3}).input("w", ElementType::kF32, {1, "m", 3});
                b.input("r", ElementType::kF32, {1, 4, 4}).node("RNN", "rnn", {"x", "w", "r"}, {"y"});
              }),
              HasSubstr("free dimension"));
  EXPECT_THAT(refusal([](OnnxBuilder& b) { b.node("If", "branch", {""}, {"y"}); }), HasSubstr("If 'branch'"));
  // Of which the sum is no number.
  EXPECT_THAT(refusal([](OnnxBuilder& b) {
                b.input("x", ElementType::kF32, {9}).ints("sizes", {2}, {7, std::numeric_limits<int64_t>::max()});
                b.node("Split", "split", {"x", "sizes"}, {"y", "z"});
              }),
              HasSubstr("Split 'split'"));
  EXPECT_THAT(refusal([](OnnxBuilder& b) {
                b.floats("data", {2}, {1, 2}).ints("place", {}, {1}).node("GatherND", "pick", {"data", "place"}, {"y"});
              }),
              HasSubstr("GatherND 'pick'"));
  EXPECT_THAT(refusal([](OnnxBuilder& b) {
                b.input("x", ElementType::kF32, {"m", 3, 32, 0, 1});
                b.node("MaxPool", "pool", {"x"}, {"y"},
                       {{"kernel_shape", std::vector<int64_t>{2, 2, 1}}, {"auto_pad", "SAME_LOWER"}});
              }),
              HasSubstr("MaxPool 'pool'"));
}

TEST_F(Importer, ATextIsNotReadBeyondItsEnd) {
  // With nothing behind it: a page that cannot be read.
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  char* const end = static_cast<char*>(pages) + page;
  ASSERT_EQ(::mprotect(end, page, PROT_NONE), 0);
  const std::string_view text = "func.func \"never closed";
  std::memcpy(end - text.size(), text.data(), text.size());
  EXPECT_FALSE(parseMlirModule(*context_, {end - text.size(), text.size()}, "end.mlir").ok());
  ::munmap(pages, 2 * page);
}

TEST_F(Importer, AUnitIsVerifiedAfterWhatIsInIt) {
  const std::string type = "(tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>";
  auto module =
      parseMlirModule(*context_,
                      "func.func @main(%x: tensor<1x1x4x4xf32>, %w: tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32> {\n"
                      "  %0 = \"hpu.bundle\"(%x, %w) ({\n  ^bb0(%a: tensor<1x1x4x4xf32>, %b: tensor<1x1x1x1xf32>):\n"
                      "    %1 = \"hpu.conv2d\"(%a, %b) : " +
                          type +
                          "\n    \"hpu.yield\"(%1) : (tensor<1x1x4x4xf32>) -> ()\n"
                          "  }) : " +
                          type + "\n  return %0 : tensor<1x1x4x4xf32>\n}\n",
                      "unit.mlir");
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(Importer, RefusesOtherDialectsByName) {
  std::string path = folder_.file("other.mlir");
  std::ofstream(path) << "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %y = stablehlo.abs %x : "
                         "tensor<2xf32>\n  return %y : tensor<2xf32>\n}\n";
  auto module = importMlirModule(*context_, path);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(module.status().message(), HasSubstr("'stablehlo' dialect"));
  std::ofstream(path) << "func.func @main(%x: tensor<2xf32>) {\n  oops\n}\n";
  module = importMlirModule(*context_, path);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("other.mlir:2:"));
}

/// An index that is known and outside is an error; before, the nearest element was taken.
TEST_F(Importer, RefusesConstantIndicesThatAreOutside) {
  auto refusal = [&](const std::string& op, std::vector<int64_t> indices) {
    OnnxBuilder builder;
    const auto count = static_cast<int64_t>(indices.size());
    builder.input("x", ElementType::kF32, {3}).ints("i", {count}, indices);
    builder.node(op, "take", {"x", "i"}, {"y"}, {{"axis", int64_t{0}}}).output("y");
    auto module = import(builder);
    return module.ok() ? std::string() : module.status().message();
  };
  for (const std::string op : {"Gather", "GatherElements"}) {
    EXPECT_EQ(refusal(op, {-3, 2, -1}), "") << op;
    for (int64_t bad : {int64_t{3}, int64_t{-4}, INT64_MAX, INT64_MIN}) {
      const std::string text = refusal(op, {0, bad});
      EXPECT_THAT(text, HasSubstr("'take'"));
      EXPECT_THAT(text, HasSubstr("index " + std::to_string(bad) + " is outside of dimension 0, which has 3 elements"));
    }
  }
  EXPECT_THAT(refusal("Gather", {3}), HasSubstr("index 3 is outside of dimension 0, which has 3 elements"));
}

TEST_F(Importer, RefusesConstantIndicesOutsideOfConstantsAndShapes) {
  OnnxBuilder constant;
  constant.input("x", ElementType::kF32, {1}).floats("c", {2}, {1, 2}).ints("i", {2}, {0, 2});
  constant.node("Gather", "take", {"c", "i"}, {"t"}).node("Add", "add", {"x", "t"}, {"y"}).output("y");
  EXPECT_THAT(import(constant).status().message(), HasSubstr("index 2 is outside of dimension 0, which has 2"));
  OnnxBuilder shape;
  shape.input("x", ElementType::kF32, {"n", "m"}).ints("i", {}, {2});
  shape.node("Shape", "shape", {"x"}, {"s"}).node("Gather", "take", {"s", "i"}, {"y"}).output("y");
  EXPECT_THAT(import(shape).status().message(), HasSubstr("index 2 is outside of dimension 0, which has 2"));
}

TEST_F(Importer, RefusesConstantIndicesOutsideOfADimensionThatGetsItsSizeLater) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"n"}).ints("i", {2}, {0, 5});
  builder.node("Gather", "take", {"x", "i"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  Status status = specializeModule(**module, {.dims = {{"n", 4}}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("take: index 5 is outside of dimension 0, which has 4 elements"));
}

TEST_F(Importer, MessagesOfReshapeDoNotWrapAround) {
  auto refusal = [&](std::vector<int64_t> sizes) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {2}).ints("s", {static_cast<int64_t>(sizes.size())}, sizes);
    builder.node("Reshape", "shape", {"x", "s"}, {"y"}).output("y");
    return import(builder).status().message();
  };
  EXPECT_THAT(refusal({int64_t{1} << 32, int64_t{1} << 32, 2}), HasSubstr("(2 against more than 2^63 elements)"));
  EXPECT_THAT(refusal({int64_t{1} << 39, (1 << 24) + 1}), HasSubstr("(2 against more than 2^63 elements)"));
  EXPECT_THAT(refusal({3}), HasSubstr("(2 against 3 elements)"));
}

TEST_F(Importer, NamesTheWindowAttributeThatIsNotPositive) {
  for (const char* name : {"strides", "dilations", "kernel_shape"}) {
    std::map<std::string, std::vector<int64_t>> windows = {{"kernel_shape", {2, 2}}};
    windows[name] = {1, 0};
    OnnxBuilder builder;
    std::vector<std::pair<std::string, BuilderAttribute>> attributes;
    for (const auto& [key, values] : windows) attributes.emplace_back(key, values);
    builder.input("x", ElementType::kF32, {1, 1, 4, 4}).node("MaxPool", "pool", {"x"}, {"y"}, attributes).output("y");
    const std::string text = import(builder).status().message();
    EXPECT_THAT(text, HasSubstr("MaxPool 'pool'"));
    EXPECT_THAT(text, HasSubstr(std::string("'") + name + "' has the entry 0; it must be positive"));
  }
}

TEST_F(Importer, RefusesASplitWithoutOutputsOrWithNegativeParts) {
  OnnxBuilder none;
  none.input("x", ElementType::kF32, {2}).node("Split", "split", {"x"}, {}).node("Relu", "r", {"x"}, {"y"}).output("y");
  EXPECT_THAT(import(none).status().message(), HasSubstr("has no outputs"));
  OnnxBuilder negative;
  negative.input("x", ElementType::kF32, {4}).ints("s", {2}, {-1, 5});
  negative.node("Split", "split", {"x", "s"}, {"a", "y"}).output("y");
  EXPECT_THAT(import(negative).status().message(), HasSubstr("a part of -1 elements"));
}

/// 2^64 elements were none, so a tensor of them was said to be empty.
TEST_F(Importer, RefusesModulesOfTensorsThatNoMemoryHolds) {
  auto refusal = [&](const std::string& text) {
    std::ofstream(folder_.file("m.mlir")) << text;
    return importMlirModule(*context_, folder_.file("m.mlir")).status().message();
  };
  EXPECT_THAT(refusal("func.func @main(%x: tensor<4611686018427387904x4xf32>) { return }"),
              HasSubstr("4611686018427387904x4xf32, which no memory holds"));
  EXPECT_THAT(refusal(R"(func.func @main(%x: tensor<2xf32>) {
    %0 = hpu.expand %x {shape = array<i64: 4294967296, 4294967296, 2>}
        : (tensor<2xf32>) -> tensor<4294967296x4294967296x2xf32>
    return })"),
              HasSubstr("m.mlir:2"));
  // (2^62 + 1 - 1) * 4 is 0 in 64 bits: within the dimension.
  EXPECT_THAT(refusal(R"(func.func @main(%x: tensor<8xf32>) {
    %0 = hpu.slice %x {starts = array<i64: 0>, sizes = array<i64: 4611686018427387905>, steps = array<i64: 4>}
        : (tensor<8xf32>) -> tensor<4611686018427387905xf32>
    return })"),
              HasSubstr("leaves dim 0 of 8xf32"));
}

TEST_F(Importer, RefusesSizesOfFreeDimensionsThatNoMemoryHolds) {
  std::ofstream(folder_.file("m.mlir")) << R"(
func.func @main(%x: tensor<?x?xf32, #hpu.layout<symbols = ["n", "m"]>>) -> tensor<?x?xf32, #hpu.layout<symbols = ["n", "m"]>> {
  %0 = hpu.relu %x : (tensor<?x?xf32, #hpu.layout<symbols = ["n", "m"]>>) -> tensor<?x?xf32, #hpu.layout<symbols = ["n", "m"]>>
  return %0 : tensor<?x?xf32, #hpu.layout<symbols = ["n", "m"]>>
})";
  auto module = importMlirModule(*context_, folder_.file("m.mlir"));
  ASSERT_TRUE(module.ok()) << module.status().message();
  Status status = specializeModule(**module, {.dims = {{"n", int64_t{1} << 32}, {"m", int64_t{1} << 32}}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("which no memory holds"));
}

}  // namespace
}  // namespace hpu::importer
