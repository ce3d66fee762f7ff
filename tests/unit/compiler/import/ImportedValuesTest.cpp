// SPDX-License-Identifier: Apache-2.0
// What imported models compute where an implementation easily differs: against the standard and other runtimes.
#include <cmath>
#include <limits>
#include <map>

#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

using interp::Tensor;

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

/// Expected: ONNX Runtime 1.30. 9 / 1.2f is a little less than 7.5; only the last but one is too far from it, at 28.5.
TEST_F(Computes, ResizeTakesAlmostHalfwayAsHalfway) {
  struct Case {
    const char *coordinates, *nearest;
    int64_t in, out, at;
    float element;
  };
  const Case cases[] = {{"asymmetric", "round_prefer_ceil", 10, 12, 9, 8},
                        {"half_pixel", "round_prefer_ceil", 20, 6, 4, 15},
                        {"asymmetric", "round_prefer_floor", 7, 38, 19, 3},
                        {"half_pixel", "round_prefer_floor", 14, 19, 9, 6},
                        {"asymmetric", "round_prefer_floor", 38, 12, 9, 29},
                        {"half_pixel_symmetric", "round_prefer_ceil", 14, 31, 15, 7}};
  for (const Case& c : cases) {
    for (const bool isOpen : {false, true}) {
      OnnxBuilder builder(19);
      if (isOpen)
        builder.input("x", ElementType::kF32, {1, "n"}).input("like", ElementType::kF32, {1, "m"});
      else
        builder.input("x", ElementType::kF32, {1, c.in}).input("like", ElementType::kF32, {1, c.out});
      builder.node("Shape", "shape", {"like"}, {"sizes"});
      builder
          .node("Resize", "resize", {"x", "", "", "sizes"}, {"y"},
                {{"mode", std::string("nearest")},
                 {"coordinate_transformation_mode", std::string(c.coordinates)},
                 {"nearest_mode", std::string(c.nearest)}})
          .output("y");
      const auto result = floats(builder, {counting({1, c.in}), counting({1, c.out})});
      ASSERT_EQ(static_cast<int64_t>(result.size()), c.out);
      EXPECT_EQ(result[static_cast<size_t>(c.at)], c.element) << c.coordinates << " " << c.in << " to " << c.out;
    }
  }
}

/// 48832 + 48832 is no f16; ONNX Runtime adds in f32.
TEST_F(Computes, SumsAndMeansOfNarrowFloatsInF32) {
  const std::vector<Tensor> in = {Tensor::of<uint16_t>(ElementType::kF16, {1}, {0x79f6}),
                                  Tensor::of<uint16_t>(ElementType::kF16, {1}, {0xf9f6})};
  for (const char* op : {"Sum", "Mean"}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF16, {1}).input("z", ElementType::kF16, {1});
    builder.node(op, "all", {"x", "x", "z", "z", "x"}, {"s"}).node("Cast", "cast", {"s"}, {"y"}, {{"to", int64_t{1}}});
    const float expected = op[0] == 'S' ? 48832.0f : 9768.0f;  // A fifth, as f16.
    EXPECT_THAT(floats(builder.output("y"), in), ::testing::ElementsAre(expected));
  }
}

/// The image's least numbers are those of the padding.
TEST_F(Computes, PlacesOfMaximaAreInTheImage) {
  for (const ElementType type : {ElementType::kU8, ElementType::kF32}) {
    OnnxBuilder builder;
    builder.input("x", type, {1, 1, 2, 3});
    builder.node("MaxPool", "pool", {"x"}, {"values", "places"},
                 {{"kernel_shape", std::vector<int64_t>{3, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    builder.node("Cast", "cast", {"places"}, {"y"}, {{"to", int64_t{1}}}).output("y");
    const float least = -std::numeric_limits<float>::infinity();
    const Tensor x = type == ElementType::kU8
                         ? Tensor::of<uint8_t>(type, {1, 1, 2, 3}, {0, 0, 0, 0, 0, 7})
                         : Tensor::of<float>(type, {1, 1, 2, 3}, {least, least, least, least, least, 7});
    EXPECT_THAT(floats(builder, {x}), ::testing::ElementsAre(0, 0, 5, 5, 0, 0, 5, 5));
  }
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

/// Expected values: ONNX Runtime 1.30. 2^24 + 1 is odd and no f32, so its power of -1 became 1.
TEST_F(Computes, PowTakesExponentsThatAreNoF32) {
  const std::vector<float> bases = {-1, 1.0000001f, -1.0000001f, 0.9999999f, 2, -2, -0.0f, 10, -1, -1};
  const std::vector<int64_t> exponents = {
      (1 << 24) + 1,          1 << 25, (1 << 24) + 1, -(1 << 24) - 5, 3, -3, -3, 5, (int64_t{1} << 53) + 1,
      -(int64_t{1} << 62) - 1};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> expected = {-1, 54.598137f, -7.389056f, 7.3890615f, 8, -0.125, -kInfinity, 100000, -1, -1};
  for (bool isConstant : {false, true}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {10});
    std::vector<Tensor> inputs = {Tensor::of<float>(ElementType::kF32, {10}, bases)};
    if (isConstant) {
      builder.ints("e", {10}, exponents);
    } else {
      builder.input("e", ElementType::kI64, {10});
      inputs.push_back(Tensor::of<int64_t>(ElementType::kI64, {10}, exponents));
    }
    builder.node("Pow", "pow", {"x", "e"}, {"y"}).output("y");
    auto values = floats(builder, inputs);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(values[i] == expected[i] || std::abs(values[i] - expected[i]) < 1e-6 * std::abs(expected[i]))
          << bases[i] << "^" << exponents[i] << " = " << values[i] << ", not " << expected[i];
  }
}

/// ... of f16 above 2048: 2049 is odd.
TEST_F(Computes, PowOfNarrowFloatsTakesTheWholeExponent) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF16, {1}).ints("e", {1}, {2049});
  builder.node("Pow", "pow", {"x", "e"}, {"p"}).node("Cast", "cast", {"p"}, {"y"}, {{"to", int64_t{1}}}).output("y");
  EXPECT_THAT(floats(builder, {Tensor::of<uint16_t>(ElementType::kF16, {1}, {0xbc00})}), ::testing::ElementsAre(-1));
}

/// Of integers a constant power is a product: f32 holds neither 16777217 nor 3^39.
TEST_F(Computes, PowOfIntegersByAConstantIsExact) {
  auto powers = [&](bool isFloat, int64_t exponent) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kI64, {3});
    if (isFloat)
      builder.floats("e", {}, {static_cast<float>(exponent)});
    else
      builder.ints("e", {}, {exponent});
    builder.node("Pow", "pow", {"x", "e"}, {"y"}).output("y");
    auto outputs = run(builder, {Tensor::of<int64_t>(ElementType::kI64, {3}, {16777217, 3, -2})});
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return outputs.ok()
               ? std::vector<int64_t>{(*outputs)[0].integer(0), (*outputs)[0].integer(1), (*outputs)[0].integer(2)}
               : std::vector<int64_t>();
  };
  for (bool isFloat : {false, true}) {
    EXPECT_THAT(powers(isFloat, 1), ::testing::ElementsAre(16777217, 3, -2));
    EXPECT_THAT(powers(isFloat, 2), ::testing::ElementsAre(281475010265089, 9, 4));
    EXPECT_EQ(powers(isFloat, 39).at(1), 4052555153018976267);
    EXPECT_EQ(powers(isFloat, 39).at(2), -(int64_t{1} << 39));
    EXPECT_THAT(powers(isFloat, 0), ::testing::ElementsAre(1, 1, 1));
    EXPECT_THAT(powers(isFloat, -1), ::testing::ElementsAre(0, 0, 0));
    EXPECT_EQ(powers(isFloat, 65).at(2), 0);  // -2^65 wraps around.
  }
}

TEST_F(Computes, PowOfIntegersByAConstantHasTheShapeOfBoth) {
  for (int64_t exponent : {3, 0, -3}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kI32, {3});
    builder.ints("e", {2, 3}, std::vector<int64_t>(6, exponent));
    builder.node("Pow", "pow", {"x", "e"}, {"y"}).output("y");
    auto outputs = run(builder, {Tensor::of<int32_t>(ElementType::kI32, {3}, {-1, 1, 2})});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    ASSERT_EQ((*outputs)[0].count(), 6);
    const std::vector<int64_t> right = exponent == 3   ? std::vector<int64_t>{-1, 1, 8}
                                       : exponent == 0 ? std::vector<int64_t>{1, 1, 1}
                                                       : std::vector<int64_t>{-1, 1, 0};
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ((*outputs)[0].integer(i), right[static_cast<size_t>(i % 3)]) << exponent;
  }
}

TEST_F(Computes, PowOfIntegersByOtherIntegersIsExact) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kI32, {3});
  builder.ints("e", {3}, {2, 19, -1});
  builder.node("Pow", "pow", {"x", "e"}, {"y"}).output("y");
  auto outputs = run(builder, {Tensor::of<int32_t>(ElementType::kI32, {3}, {-3, 3, -1})});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const int64_t right[] = {9, 1162261467, -1};  // 3^19 is no f32.
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ((*outputs)[0].integer(i), right[i]);
}

/// As in ONNX Runtime 1.30: the range is infinite in f32, and so is the scale.
TEST_F(Computes, DynamicQuantizeLinearOfARangeBeyondF32IsZero) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {3});
  builder.node("DynamicQuantizeLinear", "quantize", {"x"}, {"q", "s", "z"}).output("q").output("s").output("z");
  auto outputs = run(builder, {Tensor::of<float>(ElementType::kF32, {3}, {-3e38f, 3e38f, 1})});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ((*outputs)[0].integer(i), 0);
  EXPECT_TRUE(std::isinf((*outputs)[1].number(0)));
  EXPECT_EQ((*outputs)[2].integer(0), 0);
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

}  // namespace
}  // namespace hpu::importer
