// SPDX-License-Identifier: Apache-2.0
// Forms of ONNX models whose sizes, or values that follow from them, are known at launch: one recipe gives at each size
// what a recipe for that size gives, and what the reference interpreter computes from the model with these sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "hpu/compiler.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/reference.h"
#include "tests/unit/compiler/import/OnnxBuilder.h"
#include "tools/common/Compare.h"
#include "tools/common/HostTensor.h"
#include "tools/common/Session.h"

namespace hpu {
namespace {

using importer::OnnxBuilder;
using tools::HostTensor;
using Dims = std::map<std::string, int64_t>;
using Bounds = std::map<std::string, DimBounds>;

constexpr ElementType kF32 = ElementType::kF32, kI64 = ElementType::kI64;
constexpr int64_t kToTheEnd = int64_t{1} << 62;

HostTensor tensorOf(const TensorInfo& info, const Shape& shape, const std::vector<int64_t>& values) {
  HostTensor tensor;
  tensor.name = info.name;
  tensor.type = {info.type.element, shape};
  tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
  std::mt19937 random(static_cast<uint32_t>(info.name.size() * 31 + static_cast<size_t>(info.name[0])));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (info.type.element == kF32)
      reinterpret_cast<float*>(tensor.bytes.data())[i] = std::uniform_real_distribution<float>(-2, 2)(random);
    else
      reinterpret_cast<int64_t*>(tensor.bytes.data())[i] =
          values.empty() ? static_cast<int64_t>(random() % 2) : values[static_cast<size_t>(i)];
  }
  return tensor;
}

void expectSame(const HostTensor& got, const HostTensor& wanted, const std::string& at) {
  ASSERT_EQ(got.type, wanted.type) << at;
  const tools::Comparison comparison = tools::compare(got, wanted, {});
  EXPECT_LE(comparison.maxAbs, 1e-4) << at << tools::toText(comparison);
}

/// All outputs at all sizes. A size for which the model is none is refused at launch.
void check(const OnnxBuilder& model, const std::string& name, const Bounds& bounds, const std::vector<Dims>& sizes) {
  const std::string path = model.save(testing::TempDir() + "/late_form_" + name + ".onnx");
  CompileOptions options;
  options.dimBounds = bounds;
  auto late = compileFile(path, options);
  ASSERT_TRUE(late.ok()) << late.status().toString();
  ASSERT_EQ(late->recipe.dims().size(), bounds.size());
  auto session = tools::Session::open(late->recipe, {});
  ASSERT_TRUE(session.ok()) << session.status().toString();
  for (const Dims& dims : sizes) {
    std::string at = name + ":";
    for (const auto& [dim, size] : dims) at += " " + dim + "=" + std::to_string(size);
    auto shapes = late->recipe.inputShapes(dims);
    auto values = late->recipe.inputValues(dims);
    ASSERT_TRUE(shapes.ok() && values.ok()) << at << shapes.status().toString();
    std::vector<HostTensor> inputs;
    for (const TensorInfo& info : late->recipe.inputs())
      inputs.push_back(tensorOf(info, (*shapes)[inputs.size()], (*values)[inputs.size()]));
    auto got = session->run(inputs);
    CompileOptions fixed;
    fixed.dims = dims;
    auto alone = compileFile(path, fixed);
    ASSERT_EQ(got.ok(), alone.ok()) << at << got.status().toString() << alone.status().toString();
    if (!got.ok()) {
      EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument) << at << got.status().toString();
      continue;
    }
    // Values that are given with the sizes are constants there.
    std::vector<HostTensor> own;
    std::vector<ReferenceTensor> given;
    for (const TensorInfo& info : alone->recipe.inputs())
      for (const HostTensor& input : inputs)
        if (input.name == info.name) {
          own.push_back(input);
          given.push_back({input.name, input.type, input.bytes});
        }
    auto alike = tools::Session::open(alone->recipe, {});
    ASSERT_TRUE(alike.ok()) << at << alike.status().toString();
    auto wanted = alike->run(own);
    ASSERT_TRUE(wanted.ok()) << at << wanted.status().toString();
    auto graph = importOnnx(path, fixed);
    ASSERT_TRUE(graph.ok()) << at << graph.status().toString();
    auto reference = interpret(*graph, given);
    ASSERT_TRUE(reference.ok()) << at << reference.status().toString();
    ASSERT_EQ(got->size(), wanted->size());
    for (size_t i = 0; i < got->size(); ++i) {
      expectSame((*got)[i], (*wanted)[i], at + ", the recipe of the size: ");
      HostTensor computed;
      computed.type = (*reference)[i].type;
      computed.bytes = (*reference)[i].bytes;
      expectSame((*got)[i], computed, at + ", the interpreter: ");
    }
  }
}

const Bounds kRows = {{"b", {1, 4}}, {"s", {1, 60}}};
const std::vector<Dims> kRowSizes = {{{"b", 1}, {"s", 1}},  {{"b", 4}, {"s", 60}}, {{"b", 2}, {"s", 7}},
                                     {{"b", 3}, {"s", 32}}, {{"b", 1}, {"s", 2}},  {{"b", 3}, {"s", 41}}};

/// x of [b, s, 24], and the size s as a scalar.
void addRows(OnnxBuilder& model) {
  model.input("x", kF32, {"b", "s", int64_t{24}}).ints("dim", {}, {1}).ints("one", {}, {1}).ints("two", {}, {2});
  model.ints("first", {1}, {0}).ints("axis1", {1}, {1}).ints("end", {1}, {kToTheEnd});
  model.node("Shape", "shape", {"x"}, {"sh"}).node("Gather", "size", {"sh", "dim"}, {"s"}, {{"axis", int64_t{0}}});
}

const auto kToFloat = std::pair<std::string, importer::BuilderAttribute>("to", int64_t{1});
const auto kToInt = std::pair<std::string, importer::BuilderAttribute>("to", int64_t{7});
const auto kAlong1 = std::pair<std::string, importer::BuilderAttribute>("axis", int64_t{1});

TEST(LateForms, OfSizesAsData) {
  OnnxBuilder model;
  addRows(model);
  model.node("Cast", "float", {"s"}, {"sf"}, {kToFloat}).node("Sqrt", "root", {"sf"}, {"root"});
  model.node("Div", "scaled", {"x", "root"}, {"scaled"}).output("scaled");
  model.ints("zero", {}, {0}).node("Range", "range", {"zero", "s", "one"}, {"r"});
  model.node("Sub", "back", {"s", "r"}, {"back"}).output("back");
  model.node("Cast", "all", {"sh"}, {"all"}, {kToFloat}).output("all");
  check(model, "data", kRows, kRowSizes);
}

TEST(LateForms, OfSplitsIntoEqualParts) {
  OnnxBuilder model(11);
  addRows(model);
  model.node("Split", "halves", {"x"}, {"a", "c"}, {kAlong1}).node("Add", "sum", {"a", "c"}, {"sum"}).output("sum");
  model.node("Split", "thirds", {"x"}, {"d", "e", "f"}, {{"axis", int64_t{2}}});
  model.node("Sub", "difference", {"d", "f"}, {"difference"}).output("difference");
  check(model, "halves", kRows, kRowSizes);
}

TEST(LateForms, OfSplitsWithASmallerLastPart) {
  OnnxBuilder model(18);
  addRows(model);
  model.node("Split", "parts", {"x"}, {"a", "c", "d"}, {kAlong1, {"num_outputs", int64_t{3}}});
  for (const char* part : {"a", "c", "d"}) {
    const std::string sum = std::string("sum_") + part;
    model.node("ReduceSum", sum, {part, "axis1"}, {sum}, {{"keepdims", int64_t{0}}}).output(sum);
  }
  check(model, "parts", {{"b", {1, 4}}, {"s", {5, 60}}}, {{{"b", 1}, {"s", 5}}, {{"b", 3}, {"s", 31}}});
}

TEST(LateForms, OfSplitsAtASize) {
  OnnxBuilder model;
  addRows(model);
  model.node("Sub", "less", {"s", "one"}, {"less"}).node("Unsqueeze", "list", {"less", "first"}, {"list"});
  model.node("Concat", "sizes", {"list", "axis1"}, {"sizes"}, {{"axis", int64_t{0}}});
  model.node("Split", "split", {"x", "sizes"}, {"most", "last"}, {kAlong1});
  model.node("Relu", "relu", {"last"}, {"end_part"}).output("end_part");
  check(model, "split_at", kRows, kRowSizes);
}

TEST(LateForms, OfPaddingWithItself) {
  for (const std::string mode : {"reflect", "edge", "wrap"}) {
    OnnxBuilder model(mode == "wrap" ? 19 : 17);
    addRows(model);
    model.ints("pads", {6}, {0, 2, 1, 0, 3, 2}).node("Pad", "pad", {"x", "pads"}, {"y"}, {{"mode", mode}}).output("y");
    check(model, mode, kRows, kRowSizes);
  }
}

TEST(LateForms, OfNegativePadding) {
  OnnxBuilder model;
  addRows(model);
  model.ints("pads", {6}, {0, -1, 0, 0, -1, 3}).node("Pad", "pad", {"x", "pads"}, {"y"}).output("y");
  check(model, "cut", {{"b", {1, 4}}, {"s", {3, 60}}}, {{{"b", 1}, {"s", 3}}, {{"b", 4}, {"s", 60}}});
}

/// (8 - s % 8) % 8 more rows.
TEST(LateForms, OfPaddingToAMultiple) {
  OnnxBuilder model;
  addRows(model);
  model.ints("eight", {}, {8}).ints("none", {1}, {0}).ints("four", {4}, {0, 0, 0, 0});
  model.node("Mod", "rest", {"s", "eight"}, {"rest"}).node("Sub", "left", {"eight", "rest"}, {"left"});
  model.node("Mod", "missing", {"left", "eight"}, {"missing"})
      .node("Unsqueeze", "list", {"missing", "first"}, {"list"});
  model.node("Concat", "pads", {"four", "list", "none"}, {"pads"}, {{"axis", int64_t{0}}});
  model.node("Pad", "pad", {"x", "pads"}, {"y"}).output("y");
  check(model, "multiple", kRows, kRowSizes);
}

TEST(LateForms, OfStridesWithTheSamePadding) {
  const Bounds bounds = {{"h", {1, 40}}, {"w", {1, 33}}};
  const std::vector<Dims> sizes = {{{"h", 1}, {"w", 1}}, {{"h", 40}, {"w", 33}}, {{"h", 17}, {"w", 6}}};
  for (const std::string pad : {"SAME_UPPER", "SAME_LOWER"}) {
    const std::pair<std::string, importer::BuilderAttribute> same("auto_pad", pad);
    const std::pair<std::string, importer::BuilderAttribute> strides("strides", std::vector<int64_t>{2, 3});
    const std::pair<std::string, importer::BuilderAttribute> kernel("kernel_shape", std::vector<int64_t>{3, 2});
    OnnxBuilder model;
    std::vector<float> weights(static_cast<size_t>(4 * 2 * 3 * 3));
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) * 0.25f - 0.5f;
    model.input("x", kF32, {int64_t{2}, int64_t{2}, "h", "w"}).floats("weights", {4, 2, 3, 3}, weights);
    model.node("Conv", "conv", {"x", "weights"}, {"c"}, {same, strides}).output("c");
    model.node("MaxPool", "most", {"x"}, {"m"}, {same, strides, kernel}).output("m");
    model.node("AveragePool", "mean", {"x"}, {"a"}, {same, strides, kernel}).output("a");
    model.node("AveragePool", "whole", {"x"}, {"p"}, {same, strides, kernel, {"count_include_pad", int64_t{1}}});
    model.output("p");
    check(model, pad, bounds, sizes);
  }
}

/// Sizes that are 1 for the first representative, 101, as those of Inception's last blocks, are not taken for ones.
TEST(LateForms, OfImagesThatShrinkToFewPixels) {
  OnnxBuilder model;
  const auto windows = [](int64_t kernel, int64_t stride) {
    return std::vector<std::pair<std::string, importer::BuilderAttribute>>{
        {"kernel_shape", std::vector<int64_t>{kernel, kernel}}, {"strides", std::vector<int64_t>{stride, stride}}};
  };
  std::vector<float> weights(size_t{2} * 2 * 3 * 3);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) * 0.25f - 0.5f;
  model.input("x", kF32, {"b", int64_t{2}, "h", "w"}).floats("k", {2, 2, 3, 3}, weights);
  model.node("MaxPool", "shrink", {"x"}, {"y"}, windows(3, 32));
  model.node("Conv", "branch1", {"y", "k"}, {"b1"}, windows(3, 2))
      .node("MaxPool", "branch2", {"y"}, {"b2"}, windows(3, 2));
  model.node("AveragePool", "mean", {"y"}, {"b30"},
             {{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  model.node("Conv", "branch3", {"b30", "k"}, {"b3"}, windows(3, 2));
  model.node("Concat", "join", {"b1", "b2", "b3"}, {"z"}, {{"axis", int64_t{1}}}).node("Relu", "relu", {"z"}, {"r"});
  model.node("GlobalAveragePool", "pool", {"r"}, {"m"}).output("m").output("z");
  const Bounds bounds = {{"b", {1, 4}}, {"h", {70, 320}}, {"w", {70, 320}}};
  check(model, "shrinks", bounds,
        {{{"b", 1}, {"h", 70}, {"w", 101}}, {{"b", 4}, {"h", 320}, {"w", 320}}, {{"b", 2}, {"h", 163}, {"w", 227}}});
}

TEST(LateForms, OfRunningSums) {
  OnnxBuilder model;
  addRows(model);
  model.node("CumSum", "sums", {"x", "one"}, {"y"}).output("y");
  model.node("CumSum", "before", {"x", "one"}, {"z"}, {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}});
  model.output("z").input("mask", kI64, {"b", "s"}).node("CumSum", "positions", {"mask", "one"}, {"at"}).output("at");
  check(model, "sums", kRows, kRowSizes);
}

/// Blocks, and blocks of blocks; also where all of them are whole.
TEST(LateForms, OfLongRunningSums) {
  for (const char* axis : {"axis0", "axis1"}) {
    OnnxBuilder model;
    const bool isFirst = std::string(axis) == "axis0";
    if (isFirst)
      model.input("x", kF32, {"n", int64_t{3}}).input("m", kI64, {"n", int64_t{3}});
    else
      model.input("x", kF32, {int64_t{3}, "n"}).input("m", kI64, {int64_t{3}, "n"});
    model.ints("axis", {}, {isFirst ? 0 : 1});
    model.node("CumSum", "sums", {"x", "axis"}, {"y"}, {{"reverse", int64_t{1}}}).output("y");
    model.node("CumSum", "before", {"x", "axis"}, {"z"}, {{"exclusive", int64_t{1}}}).output("z");
    model.node("CumSum", "counts", {"m", "axis"}, {"c"}).output("c");
    std::vector<Dims> sizes;
    for (const int64_t n : {0, 1, 63, 64, 65, 128, 4096, 4097, 8200}) sizes.push_back({{"n", n}});
    check(model, std::string("long_sums_") + axis, {{"n", {0, 8200}}}, sizes);
  }
}

/// Weights that are packed for all launches have the same size in all of them.
TEST(LateForms, OfProductsWithNumbersOfALateSize) {
  OnnxBuilder model;
  std::vector<float> table(size_t{40} * 5);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 11) * 0.25f - 1;
  model.input("x", kF32, {int64_t{3}, "a"}).floats("table", {40, 5}, table).floats("two", {1, 1}, {2});
  model.ints("i0", {1}, {0}).ints("i1", {1}, {1}).ints("i2", {1}, {2}).node("Shape", "shape", {"x"}, {"s"});
  model.node("Slice", "size", {"s", "i1", "i2"}, {"k"}).node("Slice", "rows", {"table", "i0", "k", "i0"}, {"part"});
  model.node("MatMul", "rows_of_table", {"x", "part"}, {"y"}).output("y");
  model.node("Expand", "twos", {"two", "s"}, {"all"}).node("Transpose", "turn", {"x"}, {"t"});
  model.node("MatMul", "repeated", {"t", "all"}, {"z"}).output("z");
  check(model, "products", {{"a", {1, 40}}}, {{{"a", 1}}, {{"a", 40}}, {{"a", 7}}});
}

/// Half of the rows from the end, a number of them between two, and the rows that a float says.
TEST(LateForms, OfArithmeticOnSizes) {
  OnnxBuilder model;
  addRows(model);
  model.node("Div", "half", {"s", "two"}, {"half"}).node("Neg", "minus", {"half"}, {"minus"});
  model.node("Unsqueeze", "list", {"minus", "first"}, {"from"});
  model.node("Slice", "second", {"x", "from", "end", "axis1"}, {"second"}).output("second");
  model.ints("nine", {}, {9}).ints("thirty", {}, {30}).node("Min", "min", {"s", "thirty", "nine"}, {"min"});
  model.node("Max", "max", {"min", "two"}, {"max"}).node("Unsqueeze", "limits", {"max", "first"}, {"limit"});
  model.node("Slice", "few", {"x", "first", "limit", "axis1"}, {"few"}).output("few");
  model.floats("factor", {1}, {0.75f}).node("Unsqueeze", "sizes", {"s", "first"}, {"sizes"});
  model.node("Cast", "float", {"sizes"}, {"sf"}, {kToFloat}).node("Mul", "part", {"sf", "factor"}, {"part"});
  model.node("Ceil", "up", {"part"}, {"up"}).node("Cast", "int", {"up"}, {"rows"}, {kToInt});
  model.node("Slice", "most", {"x", "first", "rows", "axis1"}, {"most"}).output("most");
  check(model, "arithmetic", kRows, kRowSizes);
}

TEST(LateForms, OfPositionsThatFollowFromSizes) {
  OnnxBuilder model;
  addRows(model);
  model.node("Sub", "less", {"s", "one"}, {"less"}).node("Gather", "last", {"x", "less"}, {"last"}, {kAlong1});
  model.node("Relu", "relu", {"last"}, {"y"}).output("y");
  model.node("Div", "half", {"s", "two"}, {"half"}).node("Unsqueeze", "list", {"half", "first"}, {"list"});
  model.node("Gather", "middle", {"x", "list"}, {"z"}, {kAlong1}).output("z");
  // Of the shape itself: its first size where b is even, else its second.
  model.ints("zero", {}, {0}).node("Gather", "b", {"sh", "zero"}, {"b"}).node("Mod", "odd", {"b", "two"}, {"odd"});
  model.node("Gather", "which", {"sh", "odd"}, {"which"}).node("Min", "most", {"which", "s"}, {"few"});
  model.node("Unsqueeze", "limits", {"few", "first"}, {"limit"});
  model.node("Slice", "rows", {"x", "first", "limit", "axis1"}, {"w"}).output("w");
  check(model, "positions", kRows, kRowSizes);
}

TEST(LateForms, OfSizesThatHaveToBeEqual) {
  OnnxBuilder model;
  model.input("x", kF32, {"s", int64_t{4}}).input("y", kF32, {"t", int64_t{4}});
  model.node("Add", "add", {"x", "y"}, {"z"}).output("z");
  const std::string path = model.save(testing::TempDir() + "/late_form_equal.onnx");
  CompileOptions options;
  options.dimBounds = {{"s", {1, 9}}, {"t", {1, 9}}};
  auto late = compileFile(path, options);
  ASSERT_TRUE(late.ok()) << late.status().toString();
  auto session = tools::Session::open(late->recipe, {});
  ASSERT_TRUE(session.ok()) << session.status().toString();
  auto run = [&](int64_t s, int64_t t) {
    const std::vector<TensorInfo>& infos = late->recipe.inputs();
    return session->run({tensorOf(infos[0], {s, 4}, {}), tensorOf(infos[1], {t, 4}, {})});
  };
  auto same = run(5, 5);
  ASSERT_TRUE(same.ok()) << same.status().toString();
  const std::vector<TensorInfo>& infos = late->recipe.inputs();
  EXPECT_FLOAT_EQ(same->front().number(7),
                  tensorOf(infos[0], {5, 4}, {}).number(7) + tensorOf(infos[1], {5, 4}, {}).number(7));
  auto other = run(5, 6);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("add needs t to be equal to s: t is 6"), std::string::npos)
      << other.status().message();
}

// ---- Values of inputs ------------------------------------------------------------------------------

TEST(LateForms, OfValuesThatAreLimits) {
  OnnxBuilder model;
  model.input("x", kF32, {"b", int64_t{40}}).input("n", kI64, {}).input("window", kI64, {int64_t{2}});
  model.ints("zero", {}, {0}).ints("one", {}, {1}).ints("i0", {1}, {0}).ints("i1", {1}, {1});
  model.node("Range", "range", {"zero", "n", "one"}, {"r"}).output("r");
  model.node("Gather", "start", {"window", "i0"}, {"from"}).node("Gather", "stop", {"window", "i1"}, {"to"});
  model.node("Slice", "slice", {"x", "from", "to", "i1"}, {"part"}).output("part");
  const Bounds bounds = {{"b", {1, 4}}, {"n", {1, 64}}, {"window_0", {0, 20}}, {"window_1", {1, 40}}};
  check(model, "limits", bounds,
        {{{"b", 1}, {"n", 1}, {"window_0", 0}, {"window_1", 1}},
         {{"b", 4}, {"n", 64}, {"window_0", 20}, {"window_1", 40}},
         {{"b", 3}, {"n", 17}, {"window_0", 3}, {"window_1", 11}}});
}

TEST(LateForms, OfValuesThatAreShapes) {
  OnnxBuilder model;
  model.input("x", kF32, {int64_t{1}, int64_t{6}})
      .input("shape", kI64, {int64_t{2}})
      .input("times", kI64, {int64_t{2}});
  model.input("pads", kI64, {int64_t{4}}).ints("six", {1}, {6}).ints("i0", {1}, {0});
  model.node("ConstantOfShape", "zeros", {"shape"}, {"zeros"}).output("zeros");
  model.node("Gather", "rows", {"shape", "i0"}, {"rows"})
      .node("Concat", "wide", {"rows", "six"}, {"wide"}, {{"axis", int64_t{0}}});
  model.node("Expand", "expand", {"x", "wide"}, {"e"}).output("e");
  model.node("Tile", "tile", {"x", "times"}, {"t"}).output("t");
  model.node("Pad", "pad", {"x", "pads"}, {"p"}).output("p");
  Bounds bounds;
  Dims least, some;
  for (const char* name : {"shape_0", "shape_1", "times_0", "times_1", "pads_0", "pads_1", "pads_2", "pads_3"}) {
    bounds[name] = {1, 12};
    least[name] = 1;
    some[name] = static_cast<int64_t>(some.size()) + 2;
  }
  check(model, "shapes", bounds, {least, some});
}

/// What stands for sizes within narrow bounds is larger than they are: 3 elements have no 101 greatest ones.
TEST(LateForms, OfValuesWithinNarrowBounds) {
  const std::vector<std::string> pads = {"p_0", "p_1", "p_2", "p_3"};
  for (const std::string mode : {"reflect", "edge", "wrap"})
    for (const bool isFixed : {true, false}) {
      OnnxBuilder model(mode == "wrap" ? 19 : 17);
      if (isFixed)
        model.input("x", kF32, {int64_t{7}, int64_t{30}});
      else
        model.input("x", kF32, {"a", "b"});
      model.input("p", kI64, {int64_t{4}}).node("Pad", "pad", {"x", "p"}, {"y"}, {{"mode", mode}}).output("y");
      Bounds bounds;
      Dims none, all, some = {{"p_0", 2}, {"p_1", 0}, {"p_2", 1}, {"p_3", 2}};
      for (const std::string& pad : pads) bounds[pad] = {0, 2}, none[pad] = 0, all[pad] = 2;
      std::vector<Dims> sizes = {none, all, some};
      if (!isFixed) {
        bounds["a"] = {3, 7}, bounds["b"] = {3, 30};
        for (size_t i = 0; i < sizes.size(); ++i) sizes[i]["a"] = 3 + static_cast<int64_t>(2 * i), sizes[i]["b"] = 3;
      }
      check(model, "narrow_" + mode, bounds, sizes);
    }
  for (const int64_t columns : {2, 3, 5}) {
    OnnxBuilder model;
    model.input("x", kF32, {"b", columns}).input("k", kI64, {int64_t{1}});
    model.node("TopK", "top", {"x", "k"}, {"y", "i"}).output("y").output("i");
    std::vector<Dims> sizes;
    for (int64_t k = 1; k <= columns; ++k) sizes.push_back({{"b", 1 + k % 4}, {"k", k}});
    check(model, "narrow_top", {{"b", {1, 4}}, {"k", {1, columns}}}, sizes);
  }
}

/// A reflection that goes further back than the first element is refused at launch, as it is for sizes alone.
TEST(LateForms, OfReflectionsThatAreTooLong) {
  OnnxBuilder model;
  model.input("x", kF32, {"a", int64_t{4}}).input("p", kI64, {int64_t{4}});
  model.node("Pad", "pad", {"x", "p"}, {"y"}, {{"mode", std::string("reflect")}}).output("y");
  Bounds bounds = {{"a", {1, 9}}, {"p_0", {0, 9}}, {"p_1", {0, 9}}, {"p_2", {0, 9}}, {"p_3", {0, 9}}};
  const auto dims = [](int64_t a, int64_t low0, int64_t low1, int64_t high0, int64_t high1) {
    return Dims{{"a", a}, {"p_0", low0}, {"p_1", low1}, {"p_2", high0}, {"p_3", high1}};
  };
  check(model, "too_long", bounds,
        {dims(9, 8, 3, 8, 3), dims(9, 9, 0, 0, 0), dims(9, 0, 0, 9, 0), dims(9, 0, 4, 0, 0), dims(9, 0, 0, 0, 4),
         dims(1, 0, 0, 0, 0), dims(1, 1, 0, 0, 0), dims(1, 0, 0, 1, 0), dims(3, 2, 1, 2, 1)});
}

/// A launch says the values; what is missing, too small or not the same is one line.
TEST(LateForms, OfValuesThatDoNotFitAreNamed) {
  OnnxBuilder model;
  model.input("n", kI64, {}).input("x", kF32, {"n", int64_t{2}}).input("y", kF32, {"n_value", int64_t{2}});
  model.ints("zero", {}, {0}).ints("one", {}, {1}).node("Range", "range", {"zero", "n", "one"}, {"r"}).output("r");
  model.node("Relu", "relu", {"x"}, {"z"}).output("z").node("Relu", "other", {"y"}, {"w"}).output("w");
  CompileOptions options;
  options.dimBounds = {{"n_value_value", {2, 64}}};
  auto late = compileFile(model.save(testing::TempDir() + "/late_form_named.onnx"), options);
  ASSERT_TRUE(late.ok()) << late.status().toString();
  EXPECT_EQ(late->recipe.valueInputs(), std::vector<int>{0});
  auto device = Device::open({.target = late->recipe.target()});
  ASSERT_TRUE(device.ok()) << device.status().toString();
  auto executable = Executable::load(*device, late->recipe);
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  const std::vector<Shape> shapes = {{}, {3, 2}, {4, 2}};
  auto outputs = executable->outputs(shapes, {{5}, {}, {}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().toString();
  EXPECT_EQ(outputs->front().type.shape, Shape{5});
  EXPECT_GT(executable->workspaceBytes(shapes, {{5}, {}, {}}).ok(), 0);
  for (const auto& [values, words] : std::vector<std::pair<InputValues, std::string>>{
           {{}, "LaunchArguments::inputValues"},
           {{{1}, {}, {}}, "'n_value_value' is 1 by input 'n' (element 0), outside of its bounds 2 to 64"},
           {{{-1}, {}, {}}, "bounds 2 to 64; a launch gives values of 0 or more, places from the start"},
           {{{}, {}, {}}, "gives 0 values of input 'n', which has 1"},
           {{{5}}, "values of 1 inputs"}}) {
    auto refused = executable->outputs(shapes, values);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find(words), std::string::npos) << refused.status().message();
  }
}

/// A place that counts from the end is known while the model is compiled, or is refused.
TEST(LateForms, OfValuesBelowZero) {
  OnnxBuilder model;
  model.input("x", kF32, {"b", int64_t{4}}).input("n", kI64, {int64_t{1}}).ints("zero", {1}, {0});
  model.node("Slice", "slice", {"x", "zero", "n", "zero"}, {"part"}).output("part");
  const std::string path = model.save(testing::TempDir() + "/late_form_negative.onnx");
  CompileOptions options;
  options.dimBounds = {{"b", {2, 9}}};
  options.dims = {{"n", -1}};
  auto late = compileFile(path, options);
  ASSERT_TRUE(late.ok()) << late.status().toString();
  EXPECT_EQ(late->recipe.inputs().size(), 1u);
  auto session = tools::Session::open(late->recipe, {});
  ASSERT_TRUE(session.ok()) << session.status().toString();
  auto part = session->run({tensorOf(late->recipe.inputs()[0], {9, 4}, {})});
  ASSERT_TRUE(part.ok()) << part.status().toString();
  EXPECT_EQ(part->front().type.shape, (Shape{8, 4}));
  options.dims.clear();
  options.dimBounds["n"] = {-1, 4};
  const Status refused = compileFile(path, options).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("bounds -1 to 4 of the dimension 'n' have values below 0"), std::string::npos)
      << refused.message();
}

/// Whether values make a shape of as many elements is looked at when they are numbers.
TEST(LateForms, OfValuesThatAreAllSizesOfAReshape) {
  OnnxBuilder model;
  model.input("x", kF32, {int64_t{6}, int64_t{4}}).input("k", kI64, {int64_t{2}});
  model.node("Reshape", "reshape", {"x", "k"}, {"y"}).output("y");
  CompileOptions options;
  options.dimBounds = {{"k_0", {1, 24}}, {"k_1", {1, 24}}};
  const Status refused = compileFile(model.save(testing::TempDir() + "/late_form_reshape.onnx"), options).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnimplemented) << refused.message();
  EXPECT_NE(refused.message().find("k_0*k_1"), std::string::npos) << refused.message();
}

/// A variant for one batch has the value of the input late, as its recipe has.
TEST(LateForms, OfValuesBesideVariants) {
  OnnxBuilder model;
  model.input("x", kF32, {"b", int64_t{40}}).input("n", kI64, {int64_t{1}});
  model.ints("i0", {1}, {0}).ints("i1", {1}, {1}).node("Slice", "slice", {"x", "i0", "n", "i1"}, {"part"});
  model.node("Relu", "relu", {"part"}, {"y"}).output("y");
  const std::string path = model.save(testing::TempDir() + "/late_form_variants.onnx");
  CompileOptions options;
  options.dimBounds = {{"b", {1, 4}}, {"n", {1, 40}}};
  options.specialize = {{{"b", 2}}};
  auto late = compileFile(path, options);
  ASSERT_TRUE(late.ok()) << late.status().toString();
  ASSERT_EQ(late->recipe.variants().size(), 1u);
  auto session = tools::Session::open(late->recipe, {});
  ASSERT_TRUE(session.ok()) << session.status().toString();
  const std::vector<TensorInfo>& infos = late->recipe.inputs();
  for (int64_t b : {2, 3})
    for (int64_t n : {1, 7, 40}) {
      const HostTensor x = tensorOf(infos[0], {b, 40}, {});
      auto y = session->run({x, tensorOf(infos[1], {1}, {n})});
      ASSERT_TRUE(y.ok()) << y.status().toString();
      ASSERT_EQ(y->front().type.shape, (Shape{b, n}));
      for (int64_t i = 0; i < b * n; ++i)
        ASSERT_EQ(y->front().number(i), std::max(x.number(i / n * 40 + i % n), 0.0)) << b << " " << n << " " << i;
    }
  options.specialize = {{{"n", 7}}};
  const Status refused = compileFile(path, options).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnimplemented);
  EXPECT_NE(refused.message().find("a value of the input 'n'"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace hpu
