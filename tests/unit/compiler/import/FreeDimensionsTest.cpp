// SPDX-License-Identifier: Apache-2.0
// Free dimensions: carried through shape arithmetic, and given their sizes.
#include "compiler/import/NamedSizes.h"
#include "compiler/import/Specialize.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "base/Format.h"
#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

using interp::Tensor;
using ::testing::HasSubstr;

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
  EXPECT_THAT(
      specializeModule(module->get(), {{{"x", {7, 2, 4}}}, {}, {}}).message(),
      HasSubstr("the input 'x' is [batch, 2, 3] f32, not 7x2x4: its dimension 2 has the size 3, and 4 was given"));
  EXPECT_THAT(specializeModule(module->get(), {{}, {{"seq", 1}}, {}}).message(), HasSubstr("'seq'"));
}

/// A grid of images has two numbers a place, and parts of 2 and 4 are those of 6.
TEST_F(Importer, DimensionsThatNodesAllowOneSizeOnlyHaveIt) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {1, 1, "height", "width"}).input("g", ElementType::kF32, {1, "rows", 7, "two"});
  builder.input("s", ElementType::kF32, {"six", "rest"}).ints("parts", {2}, {2, 4});
  builder.node("GridSample", "sample", {"x", "g"}, {"y"}).output("y");
  builder.node("Split", "split", {"s", "parts"}, {"a", "b"}, {{"axis", int64_t{0}}}).output("a").output("b");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  auto typeOf = [&](unsigned i) {
    return ir::typeToString(mlir::cast<mlir::RankedTensorType>(main(*module).getArgument(i).getType()));
  };
  EXPECT_EQ(typeOf(1), "[1, rows, 7, 2] f32");
  EXPECT_EQ(typeOf(2), "[6, rest] f32");
  EXPECT_EQ(fixedSizes(**module), (std::map<std::string, int64_t>{{"six", 6}, {"two", 2}}));
  // Who gives them later says the same or is told.
  EXPECT_THAT(specializeModule(**module, {{}, {{"two", 3}}, {}}).message(),
              HasSubstr("the dimension 'two' is given the size 3, and nodes of the model ask for 2"));
  const std::map<std::string, int64_t> all = {{"two", 2}, {"height", 4}, {"width", 4}, {"rows", 3}, {"rest", 1}};
  EXPECT_TRUE(specializeModule(**module, {{}, all, {}}).ok());
  // A size that is given first is as if the file had it.
  EXPECT_THAT(import(builder, {{}, {{"six", 5}}, {}}).status().message(), HasSubstr("split"));
}

/// A sequence has a length each: "count" and "batch" are one dimension.
TEST_F(Importer, DimensionsThatNodesAskToBeEqualAreOne) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"time", "batch"}).input("lengths", ElementType::kI64, {"count"});
  builder.node("ReverseSequence", "reverse", {"x", "lengths"}, {"y"}).output("y");
  auto import = [&] { return this->import(builder); };
  auto module = import();
  ASSERT_TRUE(module.ok()) << module.status().message();
  auto typeOf = [&](unsigned i) {
    return ir::typeToString(mlir::cast<mlir::RankedTensorType>(main(*module).getArgument(i).getType()));
  };
  EXPECT_EQ(typeOf(1), "[batch] i64");
  EXPECT_EQ(joinedSizes(**module), (std::map<std::string, std::string>{{"count", "batch"}}));
  ASSERT_TRUE(specializeModule(**module, {{}, {{"count", 3}, {"time", 4}}, {}}).ok());
  EXPECT_EQ(typeOf(0), "4x3xf32");
  module = import();
  EXPECT_THAT(specializeModule(**module, {{}, {{"count", 3}, {"batch", 4}, {"time", 4}}, {}}).message(),
              HasSubstr("the free dimension 'batch' is given the sizes"));
}

/// Dimensions that a reshape makes one meet others: each its own.
TEST_F(Importer, ProductsOfDimensionsThatMeetAreOfEqualOnes) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"rows", "columns"}).input("w", ElementType::kF32, {"a", "b"});
  builder.input("v", ElementType::kF32, {"c"}).ints("flat", {1}, {-1});
  builder.node("Reshape", "flat_x", {"x", "flat"}, {"p"}).node("Reshape", "flat_w", {"w", "flat"}, {"q"});
  builder.node("Mul", "scale", {"p", "q"}, {"y"}).output("y");
  builder.node("Add", "one", {"x", "v"}, {"s"}).node("Add", "two", {"s", "w"}, {"z"}).output("z");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::map<std::string, DimBounds> bounds;
  for (const char* name : {"rows", "columns", "a", "b", "c"}) bounds[name] = {1, 64};
  ASSERT_TRUE(representModule(**module, {}, bounds).ok());
  auto guards = sizeGuards(**module);
  ASSERT_TRUE(guards.ok());
  const shape::SymbolBindings good = {{"rows", 3}, {"columns", 4}, {"a", 3}, {"b", 4}, {"c", 4}};
  EXPECT_TRUE(llvm::all_of(*guards, [&](const SizeGuard& guard) { return holds(guard, good); }));
  for (const char* name : {"rows", "columns", "a", "b", "c"}) {
    shape::SymbolBindings other = good;
    other[name] = 7;
    EXPECT_FALSE(llvm::all_of(*guards, [&](const SizeGuard& guard) { return holds(guard, other); })) << name;
  }
}

/// Weights say how many columns there are: launches with others are refused by the input's type.
TEST_F(Importer, DimensionsThatAreJoinedWithANumberHaveItWhenSizesAreGivenLate) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"rows", "hidden"}).input("b", ElementType::kF32, {"more"});
  builder.floats("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  builder.node("MatMul", "product", {"x", "w"}, {"p"}).node("Add", "add", {"p", "b"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  ASSERT_TRUE(mlir::cast<mlir::RankedTensorType>(main(*module).getArgument(0).getType()).isDynamicDim(1));
  const Status status = representModule(**module, {}, {{"rows", {1, 64}}, {"hidden", {1, 64}}, {"more", {1, 64}}});
  ASSERT_TRUE(status.ok()) << status.message();
  auto typeOf = [&](unsigned i) {
    return ir::typeToString(mlir::cast<mlir::RankedTensorType>(main(*module).getArgument(i).getType()));
  };
  EXPECT_EQ(typeOf(0), "[rows, 3] f32");
  EXPECT_EQ(typeOf(1), "2xf32");
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
  EXPECT_THAT(message({{{"x", {1, 2, 4}}}, {}, {}}),
              HasSubstr("dimension 2 cannot be 4, the model fixes it to 3 (batchx2x3)"));
  EXPECT_THAT(message({{}, {{"seq", 4}}, {}}), HasSubstr("no free dimension has this name (there are: batch)"));
  EXPECT_THAT(message({{{"x", {2, 2, 3}}}, {{"batch", 4}}, {}}), HasSubstr("another option 4"));
  EXPECT_THAT(message({{}, {{"batch", -1}}, {}}), HasSubstr("the size -1"));
}

/// And the dimensions that it asks for, no others.
TEST_F(Importer, NamesTheNodeThatAFreeDimensionStops) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"length", 1}).input("y", ElementType::kF32, {"batch", 1});
  builder.node("Squeeze", "vector", {"x"}, {"r"}).output("r").node("Relu", "positive", {"y"}, {"z"}).output("z");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(module.status().message(), HasSubstr("Squeeze 'vector'"));
  EXPECT_THAT(module.status().message(),
              HasSubstr("give the free dimension a size: CompileOptions::dims = {{\"length\", SIZE}}"));
  auto sized = import(builder, {{}, {{"length", 3}}, {}});
  ASSERT_TRUE(sized.ok()) << sized.status().message();
  EXPECT_EQ(opNames(*sized), "hpu.reshape hpu.relu");
}

/// Where an element lies is compared with its column, for all sizes.
TEST_F(Importer, MakesMatricesOfFreeSizesFromPositions) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"rows", "columns"}).ints("k", {}, {1});
  builder.node("Trilu", "upper", {"x", "k"}, {"u"}).output("u").node("EyeLike", "diagonal", {"x"}, {"d"}).output("d");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Tensor ones = Tensor::of<float>(ElementType::kF32, {2, 3}, {1, 1, 1, 1, 1, 1});
  auto outputs = interp::evaluateFunction(main(*module), {ones});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const std::vector<std::vector<float>> wanted = {{0, 1, 1, 0, 0, 1}, {1, 0, 0, 0, 1, 0}};
  for (size_t i = 0; i < wanted.size(); ++i)
    for (int64_t j = 0; j < 6; ++j)
      EXPECT_EQ((*outputs)[i].number(j), wanted[i][static_cast<size_t>(j)]) << i << ", " << j;
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
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_THAT(opNames(*open), HasSubstr("range"));
  expected = {{2}, {}};
  for (auto [type, shape] : llvm::zip(main(*open).getResultTypes(), expected))
    EXPECT_EQ(mlir::cast<mlir::RankedTensorType>(type).getShape(), llvm::ArrayRef(shape));
}

/// Two convolutions with stride 2, pooled, joined with their input's padding: no size is lost on the way.
TEST_F(Importer, CarriesFreeDimensionsThroughWindowsPadsAndJoins) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"n", 1, "h", "w"});
  builder.floats("k", {1, 1, 3, 3}, std::vector<float>(9, 1));
  const std::vector<int64_t> two = {2, 2}, pads = {1, 1, 1, 1};
  builder.node("Conv", "a", {"x", "k"}, {"a"}, {{"strides", two}, {"pads", pads}});
  builder.node("Conv", "b", {"a", "k"}, {"b"}, {{"strides", two}, {"pads", pads}});
  builder.node("MaxPool", "p", {"b"}, {"p"}, {{"kernel_shape", two}, {"strides", two}, {"ceil_mode", int64_t{1}}});
  builder.ints("low_high", {8}, {0, 0, 1, 0, 0, 0, 2, 0});
  builder.node("Pad", "pad", {"x", "low_high"}, {"padded"})
      .node("Concat", "join", {"x", "padded"}, {"j"}, {{"axis", int64_t{2}}});
  builder.node("ConvTranspose", "up", {"b", "k"}, {"t"}, {{"strides", two}});
  builder.output("b").output("p").output("j").output("t");
  auto open = import(builder);
  ASSERT_TRUE(open.ok()) << open.status().message();
  auto types = main(*open).getResultTypes();
  auto symbol = [&](int result, int d) {
    return ir::symShape(mlir::cast<mlir::RankedTensorType>(types[result]))[d].symbol.str();
  };
  EXPECT_EQ(symbol(0, 2), "floor((h + 3) / 4)");
  EXPECT_EQ(symbol(0, 3), "floor((w + 3) / 4)");
  EXPECT_EQ(symbol(2, 2), "2*h + 3");
  for (int64_t h : {1, 4, 5, 6, 7, 8, 9, 33}) {
    const std::vector<Tensor> in = {Tensor::zeros({ElementType::kF32, {2, 1, h, h + 1}})};
    auto sized = import(builder, {{}, {{"n", 2}, {"h", h}, {"w", h + 1}}, {}});
    ASSERT_TRUE(sized.ok()) << sized.status().message();
    auto module = import(builder);
    ASSERT_TRUE(specializeModule(module->get(), {{}, {{"n", 2}, {"h", h}, {"w", h + 1}}, {}}).ok());
    EXPECT_EQ(text(*module), text(*sized));
    const shape::SymbolBindings sizes = {{"n", 2}, {"h", h}, {"w", h + 1}};
    for (auto [free, fixed] : llvm::zip(types, main(*sized).getResultTypes()))
      for (int64_t d = 0; d < 4; ++d) {
        const auto size = ir::exprOf(ir::symShape(mlir::cast<mlir::RankedTensorType>(free))[d]);
        ASSERT_TRUE(size);
        EXPECT_EQ(size->evaluate(sizes), mlir::cast<mlir::RankedTensorType>(fixed).getDimSize(d)) << size->text();
      }
  }
}

/// Which of the two broadcasts is not known yet; what follows has the size all the same.
TEST_F(Importer, BroadcastsTwoFreeDimensions) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"n", 4}).input("y", ElementType::kF32, {"m", 4}).ints("flat", {1}, {-1});
  builder.node("Add", "sum", {"x", "y"}, {"s"}).node("Reshape", "merge", {"s", "flat"}, {"f"}).output("f");
  auto open = import(builder);
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(resultType(*open), "tensor<?xf32, #hpu.layout<symbols = [\"4*select(n == 1, m, n)\"]>>");
  for (auto [n, m, size] : {std::array<int64_t, 3>{1, 5, 20}, {5, 1, 20}, {3, 3, 12}, {1, 1, 4}}) {
    auto module = import(builder);
    ASSERT_TRUE(specializeModule(module->get(), {{}, {{"n", n}, {"m", m}}, {}}).ok());
    EXPECT_EQ(resultType(*module), "tensor<" + std::to_string(size) + "xf32>");
  }
  auto module = import(builder);
  EXPECT_THAT(specializeModule(module->get(), {{}, {{"n", 2}, {"m", 3}}, {}}).message(), HasSubstr("sum"));
}

/// Whether it divides is seen when the sizes are given.
TEST_F(Importer, RoundsWhatMayNotDivide) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"n", 6}).ints("target", {2}, {-1, 4});
  builder.node("Reshape", "rows", {"x", "target"}, {"y"}).output("y");
  auto open = import(builder);
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(resultType(*open), "tensor<?x4xf32, #hpu.layout<symbols = [\"floor(n / 2) + n\", \"\"]>>");
  ASSERT_TRUE(specializeModule(open->get(), {{}, {{"n", 2}}, {}}).ok());
  EXPECT_EQ(resultType(*open), "tensor<3x4xf32>");
  auto odd = import(builder);
  const Status status = specializeModule(odd->get(), {{}, {{"n", 3}}, {}});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("rows"));
}

/// Halves, rests, extremes and choices of sizes, as exporters write them for crops and masks.
TEST_F(Importer, ComputesWithSizesThatAreNotKnown) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {std::string("n")})
      .ints("two", {1}, {2})
      .ints("ten", {1}, {10})
      .ints("one", {1}, {1});
  builder.node("Shape", "shape", {"x"}, {"s"});
  builder.node("Div", "half", {"s", "two"}, {"half"}).node("Mod", "rest", {"s", "two"}, {"rest"});
  builder.node("Max", "most", {"half", "ten"}, {"most"}).node("Less", "is_short", {"s", "ten"}, {"short"});
  builder.node("Where", "choice", {"short", "ten", "half"}, {"choice"});
  builder.node("Add", "rest1", {"rest", "one"}, {"rest1"});
  builder.node("Concat", "target", {"most", "choice", "rest1"}, {"t"}, {{"axis", int64_t{0}}});
  builder.floats("v", {1, 1, 1}, {1});
  builder.node("Expand", "fill", {"v", "t"}, {"y"}).output("y");
  auto open = import(builder);
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(resultType(*open),
            "tensor<?x?x?xf32, #hpu.layout<symbols = [\"max(10, floor(n / 2))\", "
            "\"select(n < 10, 10, floor(n / 2))\", \"0 - 2*floor(n / 2) + n + 1\"]>>");
  for (int64_t n : {1, 2, 9, 10, 11, 40, 41}) {
    auto module = import(builder);
    const Status status = specializeModule(module->get(), {{}, {{"n", n}}, {}});
    ASSERT_TRUE(status.ok()) << status.message();
    auto sized = import(builder, {{}, {{"n", n}}, {}});
    EXPECT_EQ(resultType(*module), resultType(*sized));
  }
}

/// NumPy's x[start:end:step] of 0, 1, ... n - 1.
std::vector<float> sliced(int64_t n, int64_t start, int64_t end, int64_t step) {
  auto place = [&](int64_t at) {
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    return std::clamp(at < 0 ? at + n : at, low, high);
  };
  std::vector<float> values;
  const int64_t to = place(end);
  for (int64_t at = place(start); step > 0 ? at < to : at > to; at += step) values.push_back(static_cast<float>(at));
  return values;
}

/// Heads, tails and strides of a dimension whose size is not known, whatever lies beyond it.
TEST_F(Computes, SlicesOfFreeDimensions) {
  std::mt19937 random(7);
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int round = 0; round < 150; ++round) {
    const bool far = round % 5 == 0;
    const int64_t start = pick(-7, 7), step = (round % 3 ? 1 : -1) * pick(1, 3);
    const int64_t end = far ? (step > 0 ? INT64_MAX : INT64_MIN + 1) : pick(-7, 7);
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {std::string("n")})
        .ints("start", {1}, {start})
        .ints("end", {1}, {end})
        .ints("axis", {1}, {0})
        .ints("step", {1}, {step});
    builder.node("Slice", "part", {"x", "start", "end", "axis", "step"}, {"p"}).node("Relu", "act", {"p"}, {"y"});
    builder.output("y");
    const std::string what = base::strCat("x[", start, ":", end, ":", step, "]");
    auto open = import(builder);
    ASSERT_TRUE(open.ok()) << what << ": " << open.status().message();
    for (int64_t n : {0, 1, 2, 3, 4, 6, 9}) {
      const std::vector<float> expected = sliced(n, start, end, step);
      const std::vector<Tensor> in = {counting({n})};
      auto module = import(builder);
      const Status status = specializeModule(module->get(), {{}, {{"n", n}}, {}});
      if (n == 0 && !status.ok()) {  // A part whose size is fixed is not there.
        EXPECT_THAT(status.message(), HasSubstr("part"));
        continue;
      }
      ASSERT_TRUE(status.ok()) << what << " of " << n << ": " << status.message();
      EXPECT_EQ(resultType(*module), base::strCat("tensor<", expected.size(), "xf32>")) << what << " of " << n;
      for (OwningModule* each : {&*open, &*module}) {
        auto outputs = interp::evaluateFunction(main(*each), in);
        ASSERT_TRUE(outputs.ok()) << what << " of " << n << ": " << outputs.status().message();
        const float* data = (*outputs)[0].as<float>();
        EXPECT_EQ(std::vector<float>(data, data + (*outputs)[0].count()), expected) << what << " of " << n;
      }
    }
  }
}

/// "past + seq" is the name of one dimension and says what another one is.
TEST_F(Computes, NamesThatAreSums) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {std::string("past + seq")})
      .input("y", ElementType::kF32, {std::string("seq")});
  builder.node("Shape", "shape_x", {"x"}, {"sx"}).node("Shape", "shape_y", {"y"}, {"sy"});
  builder.node("Sub", "from", {"sx", "sy"}, {"from"}).node("Slice", "tail", {"x", "from", "sx"}, {"t"});
  builder.node("Add", "sum", {"t", "y"}, {"z"}).output("z");
  for (const ImportOptions& sizes :
       {ImportOptions{{{"x", {7}}, {"y", {3}}}, {}, {}}, ImportOptions{{}, {{"past + seq", 7}, {"seq", 3}}, {}}}) {
    auto module = import(builder);
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Status status = specializeModule(module->get(), sizes);
    ASSERT_TRUE(status.ok()) << status.message();
    auto outputs = interp::evaluateFunction(main(*module), {counting({7}), counting({3})});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    const float* data = (*outputs)[0].as<float>();
    EXPECT_EQ(std::vector<float>(data, data + 3), (std::vector<float>{4, 6, 8}));
  }
  auto message = [&](const ImportOptions& sizes) {
    auto module = import(builder);
    return specializeModule(module->get(), sizes).message();
  };
  EXPECT_THAT(message({{{"x", {2}}, {"y", {3}}}, {}, {}}), HasSubstr("there is no size of 'past' for that"));
  EXPECT_THAT(message({{}, {{"past + seq", 7}, {"seq", 3}, {"past", 1}}, {}}),
              HasSubstr("follows from others to be 4"));
}

/// What is not known although all inputs' sizes are is refused by its node.
TEST_F(Importer, RefusesSizesThatStayUnknown) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {std::string("a*b + b")}).ints("zero", {1}, {0}).ints("two", {1}, {2});
  builder.node("Shape", "shape", {"x"}, {"s"}).node("Div", "half", {"s", "two"}, {"h"});
  builder.node("Slice", "tail", {"x", "h", "s"}, {"t"}).node("Relu", "act", {"t"}, {"y"}).output("y");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  const Status status = specializeModule(module->get(), {{{"x", {6}}}, {}, {}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("tail"));
  EXPECT_THAT(status.message(), HasSubstr("{\"a\", SIZE}"));
}

/// An empty cache leaves what is not of it as it is; sizes beyond 32 bits are sizes; steps beyond the end take one.
TEST_F(Importer, SlicesAtTheEdges) {
  auto type = [&](OnnxBuilder& builder, const ImportOptions& sizes) {
    auto module = import(builder);
    if (!module.ok()) return module.status().message();
    const Status status = specializeModule(module->get(), sizes);
    return status.ok() ? resultType(*module) : status.message();
  };
  OnnxBuilder cache;
  cache.input("past", ElementType::kF32, {std::string("p")}).input("cur", ElementType::kF32, {1});
  cache.ints("zero", {1}, {0}).node("Concat", "all", {"past", "cur"}, {"x"}, {{"axis", int64_t{0}}});
  cache.node("Shape", "shape", {"past"}, {"s"}).node("Sub", "minus", {"zero", "s"}, {"e"});
  cache.node("Slice", "part", {"x", "zero", "e"}, {"t"}).node("Relu", "act", {"t"}, {"y"}).output("y");
  EXPECT_EQ(type(cache, {{}, {{"p", 0}}, {}}), "tensor<0xf32>");
  EXPECT_EQ(type(cache, {{}, {{"p", 5}}, {}}), "tensor<1xf32>");
  OnnxBuilder large;
  large.input("x", ElementType::kU8, {3000000000}).ints("from", {1}, {2147483648}).ints("to", {1}, {3000000000});
  large.node("Slice", "part", {"x", "from", "to"}, {"y"}).output("y");
  EXPECT_EQ(type(large, {}), "tensor<852516352xui8>");
  OnnxBuilder far;
  far.input("x", ElementType::kF32, {std::string("n"), 1000}).ints("zero", {1}, {0}).ints("one", {1}, {1});
  far.ints("end", {1}, {INT64_MAX}).node("Slice", "part", {"x", "zero", "end", "zero", "end"}, {"y"}).output("y");
  for (int64_t n : {1, 3}) {
    const ImportOptions sizes = {{}, {{"n", n}}, {}};
    auto module = import(far);
    ASSERT_TRUE(specializeModule(module->get(), sizes).ok());
    EXPECT_EQ(resultType(*module), "tensor<1x1000xf32>");
    EXPECT_EQ(text(*module).find("9223372036854775807"), std::string::npos);
  }
}

/// The last token of each sequence, and all but the first: their sizes are known as far as they can be.
TEST_F(Importer, SlicesHaveTheSizesThatModelsRelyOn) {
  struct Part {
    int64_t start, end;
    const char* type;
  };
  for (const auto& [start, end, type] : {Part{-1, INT64_MAX, "tensor<1xf32>"},
                                         {0, 1, "tensor<1xf32>"},
                                         {0, INT64_MAX, "tensor<?xf32, #hpu.layout<symbols = [\"n\"]>>"},
                                         {0, -1, "tensor<?xf32, #hpu.layout<symbols = [\"max(0, n - 1)\"]>>"},
                                         {0, 5, "tensor<?xf32, #hpu.layout<symbols = [\"min(5, n)\"]>>"}}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {std::string("n")}).ints("start", {1}, {start}).ints("end", {1}, {end});
    builder.node("Slice", "part", {"x", "start", "end"}, {"p"}).node("Relu", "act", {"p"}, {"y"}).output("y");
    auto open = import(builder);
    ASSERT_TRUE(open.ok()) << open.status().message();
    EXPECT_EQ(resultType(*open), type);
  }
}

/// A U-shaped network: halves, doubles, and joins what must fit.
TEST_F(Importer, CarriesFreeDimensionsThroughResizes) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {"n", 1, "h", "w"}).floats("scales", {4}, {1, 1, 2, 2});
  builder.floats("halves", {4}, {1, 1, 0.5, 1}).floats("thirds", {4}, {1, 1, 1.0F / 3, 1});
  const std::vector<int64_t> two = {2, 2};
  builder.node("MaxPool", "down", {"x"}, {"d"}, {{"kernel_shape", two}, {"strides", two}});
  builder.node("Resize", "up", {"d", "", "scales"}, {"u"}, {{"mode", "linear"}});
  builder.node("Resize", "half", {"x", "", "halves"}, {"half"}, {{"mode", "nearest"}});
  builder.node("Shape", "size", {"u"}, {"s"}).node("Resize", "same", {"u", "", "", "s"}, {"same"});
  builder.node("Resize", "third", {"x", "", "thirds"}, {"third"});
  builder.output("u").output("half").output("same").output("third");
  auto open = import(builder);
  ASSERT_TRUE(open.ok()) << open.status().message();
  auto types = main(*open).getResultTypes();
  auto dim = [&](int result, int d) { return ir::symShape(mlir::cast<mlir::RankedTensorType>(types[result]))[d]; };
  EXPECT_EQ(dim(0, 2).symbol.str(), "2*floor(h / 2)");
  EXPECT_EQ(dim(1, 2).symbol.str(), "floor(h / 2)");
  EXPECT_EQ(dim(1, 3).symbol.str(), "w");
  EXPECT_EQ(dim(2, 3).symbol.str(), "2*floor(w / 2)");
  EXPECT_EQ(dim(3, 2).symbol.str(), "floor(h / 3)");  // As f32 rounds it, too.
  for (int64_t h : {2, 3, 5, 8, 33}) {
    const ImportOptions sizes = {{}, {{"n", 2}, {"h", h}, {"w", h + 3}}, {}};
    auto sized = import(builder, sizes);
    ASSERT_EQ(sized.ok(), h >= 3) << h;  // A third of 2 is nothing.
    auto module = import(builder);
    const Status status = specializeModule(module->get(), sizes);
    ASSERT_EQ(status.ok(), sized.ok()) << status.message();
    if (!status.ok()) {
      EXPECT_THAT(status.message(), HasSubstr("third"));
      continue;
    }
    EXPECT_EQ(text(*module), text(*sized));
    const std::vector<Tensor> in = {Tensor::zeros({ElementType::kF32, {2, 1, h, h + 3}})};
    auto outputs = interp::evaluateFunction(main(*open), in);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    for (auto [output, type] : llvm::zip(*outputs, main(*sized).getResultTypes()))
      EXPECT_EQ(llvm::ArrayRef(output.shape()), mlir::cast<mlir::RankedTensorType>(type).getShape());
  }
}

/// A skip connection: as large as x where 2 divides it, and refused by its node where not.
TEST_F(Importer, JoinsFreeDimensionsThatMustFit) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {1, 1, "h", 4}).floats("scales", {4}, {1, 1, 2, 2});
  const std::vector<int64_t> two = {2, 2};
  builder.node("MaxPool", "down", {"x"}, {"d"}, {{"kernel_shape", two}, {"strides", two}});
  builder.node("Resize", "up", {"d", "", "scales"}, {"u"});
  builder.node("Concat", "skip", {"x", "u"}, {"y"}, {{"axis", int64_t{1}}}).output("y");
  auto open = import(builder);
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(resultType(*open), "tensor<1x2x?x4xf32, #hpu.layout<symbols = [\"\", \"\", \"h\", \"\"]>>");
  ASSERT_TRUE(specializeModule(open->get(), {{}, {{"h", 6}}, {}}).ok());
  EXPECT_EQ(resultType(*open), "tensor<1x2x6x4xf32>");
  auto odd = import(builder);
  EXPECT_THAT(specializeModule(odd->get(), {{}, {{"h", 7}}, {}}).message(), HasSubstr("skip"));
}

/// Rounded up as PyTorch's GoogLeNet does, whose last window always begins inside: no choice is left to say.
TEST_F(Importer, PoolsThatRoundUpKeepShortSizes) {
  const std::vector<int64_t> two = {2, 2}, three = {3, 3};
  for (const auto& [kernel, size] : {std::pair{two, "floor((h + 31) / 32)"}, {three, "floor(h / 32)"}}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {1, 1, "h", 64});
    const std::vector<std::string> names = {"x", "a", "b", "c", "d", "y"};
    for (size_t i = 1; i < names.size(); ++i)
      builder.node("MaxPool", names[i] + "_pool", {names[i - 1]}, {names[i]},
                   {{"kernel_shape", kernel}, {"strides", two}, {"ceil_mode", int64_t{1}}});
    builder.output("y");
    auto open = import(builder);
    ASSERT_TRUE(open.ok()) << open.status().message();
    EXPECT_THAT(resultType(*open), HasSubstr(size));
    for (int64_t h : {64, 95, 96, 97, 127}) {
      auto fixed = import(builder, {{}, {{"h", h}}, {}});
      auto sized = import(builder);
      ASSERT_TRUE(fixed.ok() && specializeModule(sized->get(), {{}, {{"h", h}}, {}}).ok());
      EXPECT_EQ(text(*sized), text(*fixed)) << h;
    }
  }
}

/// To the size of another image: places and weights are computed from the sizes, as hpu.resize has them for fixed ones.
TEST_F(Computes, ResizesToSizesThatAreFree) {
  std::vector<std::pair<std::string, std::string>> modes = {{"linear", "floor"}};
  for (const char* nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
    modes.emplace_back("nearest", nearest);
  for (const char* coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"})
    for (const auto& [mode, nearest] : modes) {
      OnnxBuilder builder;
      builder.input("x", ElementType::kF32, {2, 1, "h", 5}).input("like", ElementType::kF32, {2, 1, "p", "q"});
      builder.node("Shape", "shape", {"like"}, {"sizes"});
      builder.node("Resize", "resize", {"x", "", "", "sizes"}, {"y"},
                   {{"mode", mode}, {"coordinate_transformation_mode", coordinates}, {"nearest_mode", nearest}});
      builder.output("y");
      auto open = import(builder);
      ASSERT_TRUE(open.ok()) << open.status().message();
      EXPECT_EQ(resultType(*open), "tensor<2x1x?x?xf32, #hpu.layout<symbols = [\"\", \"\", \"p\", \"q\"]>>");
      for (auto [h, p, q] : {std::array<int64_t, 3>{4, 9, 10}, {7, 3, 1}, {1, 6, 5}, {6, 1, 33}, {3, 3, 2}}) {
        const std::vector<Tensor> in = {counting({2, 1, h, 5}), counting({2, 1, p, q})};
        auto fixed = import(builder, {{}, {{"h", h}, {"p", p}, {"q", q}}, {}});
        ASSERT_TRUE(fixed.ok()) << fixed.status().message();
        auto expected = interp::evaluateFunction(main(*fixed), in), actual = interp::evaluateFunction(main(*open), in);
        ASSERT_TRUE(expected.ok() && actual.ok()) << actual.status().message();
        ASSERT_EQ((*actual)[0].shape(), (*expected)[0].shape());
        for (int64_t i = 0; i < (*expected)[0].count(); ++i)
          EXPECT_NEAR((*actual)[0].number(i), (*expected)[0].number(i), 1e-4)
              << coordinates << " " << mode << " " << nearest << " " << h << " to " << p << "x" << q << " at " << i;
      }
    }
}

/// Positions of tokens behind those that are cached, and backwards.
TEST_F(Computes, RangesAsLongAsFreeDimensionsSay) {
  for (const int64_t step : {1, 2, -1, -3}) {
    OnnxBuilder builder;
    builder.input("past", ElementType::kF32, {std::string("p")}).input("x", ElementType::kF32, {std::string("n")});
    builder.ints("axis", {1}, {0}).ints("step", {}, {step});
    builder.node("Concat", "join", {"past", "x"}, {"all"}, {{"axis", int64_t{0}}});
    builder.node("Shape", "shape0", {"past"}, {"s0"}).node("Squeeze", "only0", {"s0", "axis"}, {"from"});
    builder.node("Shape", "shape1", {"all"}, {"s1"}).node("Squeeze", "only1", {"s1", "axis"}, {"to"});
    const char *first = step > 0 ? "from" : "to", *last = step > 0 ? "to" : "from";
    builder.node("Range", "positions", {first, last, "step"}, {"r"});
    builder.node("Cast", "floats", {"r"}, {"y"}, {{"to", int64_t{1}}}).output("y");
    auto open = import(builder);
    ASSERT_TRUE(open.ok()) << open.status().message();
    EXPECT_EQ(opNames(*open), "hpu.range hpu.cast");
    for (auto [p, n] : {std::array<int64_t, 2>{0, 1}, {0, 7}, {3, 1}, {3, 6}, {5, 0}, {0, 0}}) {
      std::vector<float> expected;
      const int64_t from = step > 0 ? p : p + n, to = step > 0 ? p + n : p;
      for (int64_t at = from; step > 0 ? at < to : at > to; at += step) expected.push_back(static_cast<float>(at));
      EXPECT_EQ(floats(builder, {counting({p}), counting({n})}), expected) << p << " and " << n;
      auto module = import(builder);
      const Status status = specializeModule(module->get(), {{}, {{"p", p}, {"n", n}}, {}});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(resultType(*module), base::strCat("tensor<", expected.size(), "xf32>"));
    }
  }
}

/// Limits that are computed from sizes: the first half, and all but as many as there are rows.
TEST_F(Computes, SlicesToLimitsThatFollowFromSizes) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {std::string("n")}).ints("two", {1}, {2}).ints("zero", {1}, {0});
  builder.node("Shape", "shape", {"x"}, {"s"}).node("Div", "half", {"s", "two"}, {"h"});
  builder.node("Slice", "first", {"x", "zero", "h"}, {"a"}).node("Slice", "second", {"x", "h", "s"}, {"b"});
  builder.node("Concat", "join", {"b", "a"}, {"y"}, {{"axis", int64_t{0}}}).output("y");
  auto open = import(builder);
  ASSERT_TRUE(open.ok()) << open.status().message();
  for (int64_t n : {1, 2, 5, 8}) {
    std::vector<float> expected;
    for (int64_t i = 0; i < n; ++i) expected.push_back(static_cast<float>((i + n / 2) % n));
    EXPECT_EQ(floats(builder, {counting({n})}), expected) << n;
    auto module = import(builder);
    ASSERT_TRUE(specializeModule(module->get(), {{}, {{"n", n}}, {}}).ok());
    EXPECT_EQ(resultType(*module), base::strCat("tensor<", n, "xf32>"));
  }
}

}  // namespace
}  // namespace hpu::importer
