// SPDX-License-Identifier: Apache-2.0
// What kernels cost on a TPC: instructions and accesses for 64 results, reckoned by hand.
#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, BF16 = ElementType::kBF16;

/// Costs of 64 points of the index space.
recipe::TpcCost costOf(const std::string& body, const std::vector<Tensor>& inputs, const Tensor& output) {
  Kernel kernel(body + "\nhpu.yield %r : $out0", inputs, {output});
  EXPECT_TRUE(kernel.status().ok()) << kernel.status().toString();
  recipe::TpcCost cost = kernel.info().cost;
  return {cost.loads * 64, cost.stores * 64, cost.vectorOps * 64, cost.scalarOps * 64};
}

TEST(Cost, MaximumMinimumAndSelectionAreOneInstructionEach) {
  Tensor x = Tensor::dense(F32, {16, 640});
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.max %0, %1 : ($0, $1) -> $out0", {x, x}, x).vectorOps, 1);
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.relu %0 : ($0) -> $out0", {x}, x).vectorOps, 1);
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.clip %0 {min = 0.0 : f64, max = 6.0 : f64} : ($0) -> $out0", {x}, x).vectorOps, 2);
}

TEST(Cost, DivisionByOneNumberIsCheaperThanByMany) {
  Tensor x = Tensor::dense(F32, {16, 640}), row = Tensor::dense(F32, {16, 1}), number = Tensor::scalar(F32, 3);
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.div %0, %1 : ($0, $1) -> $out0", {x, x}, x).vectorOps, 8);
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.div %0, %1 : ($0, $1) -> $out0", {x, number}, x).vectorOps, 5);
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.div %0, %1 : ($0, $1) -> $out0", {x, row}, x).vectorOps, 5);
}

TEST(Cost, ExponentialsThatMayEndAtTheLeastNormalNumberAreCheaper) {
  Tensor x = Tensor::dense(F32, {64, 4096});
  double exact = costOf("%r = hpu.exp %0 : ($0) -> $out0", {x}, x).vectorOps;
  EXPECT_DOUBLE_EQ(exact, 19);
  // 15 of the exponential, the sum and the division.
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.sigmoid %0 : ($0) -> $out0", {x}, x).vectorOps, 15 + 1 + 8);
}

TEST(Cost, ConversionsTakeOneInstructionForARegisterOfNarrowValues) {
  Tensor x = Tensor::dense(BF16, {16, 640});
  // Two conversions to f32, the sum, and the conversion back.
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.add %0, %1 : ($0, $1) -> $out0", {x, x}, x).vectorOps, 2.5);
}

TEST(Cost, ABiasIsReadFromLocalMemory) {
  Tensor x = Tensor::dense(F32, {4096, 640}), bias = Tensor::dense(F32, {640}), few = Tensor::dense(F32, {16, 640});
  recipe::TpcCost many = costOf("%r = hpu.add %0, %1 : ($0, $1) -> $out0", {x, bias}, x);
  // A quarter of an access, and its share of bringing the bias in.
  EXPECT_NEAR(many.loads, 1.25 + 24.0 / 4096, 1e-9);
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.add %0, %1 : ($0, $1) -> $out0", {few, bias}, few).loads, 2);
}

TEST(Cost, ARowIsLoadedOnceAndKept) {
  Tensor x = Tensor::dense(F32, {512, 640});
  recipe::TpcCost softmax = costOf("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0", {x}, x);
  // The row from global memory, then the row and its exponentials from local memory.
  EXPECT_DOUBLE_EQ(softmax.loads, 1.5);
  EXPECT_DOUBLE_EQ(softmax.stores, 1.5);
  // A row that does not fit is loaded again by each pass.
  Tensor longRow = Tensor::dense(F32, {4, 64 * 1024});
  EXPECT_GE(costOf("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0", {longRow}, longRow).loads, 2);
}

TEST(Cost, ShortRowsAreReducedTogether) {
  // Two registers a row: per row two reductions across the lanes, which would be 24 instructions one row at a time.
  Tensor x = Tensor::dense(F32, {4096, 128}), longRow = Tensor::dense(F32, {512, 4096});
  double row = 2 * costOf("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0", {x}, x).vectorOps;
  double lane = costOf("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0", {longRow}, longRow).vectorOps;
  EXPECT_LT(row - 2 * lane, 10);
  EXPECT_GT(row - 2 * lane, 6);
}

TEST(Cost, NarrowProductsAreSummedTwiceAsFast) {
  auto depthwise = [](ElementType type) {
    Tensor x = Tensor::dense(type, {1, 64, 30, 30}, {0, 2, 3, 1}), w = Tensor::dense(type, {64, 1, 3, 3});
    Tensor y = Tensor::dense(type, {1, 64, 30, 30}, {0, 2, 3, 1});
    return costOf(
        "%r = hpu.conv2d %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
        "dilations = array<i64: 1, 1>, groups = 64 : i64} : ($0, $1) -> $out0",
        {x, w}, y);
  };
  recipe::TpcCost wide = depthwise(F32), narrow = depthwise(BF16);
  EXPECT_NEAR(wide.vectorOps, 9, 0.7);  // Less at the edges.
  EXPECT_NEAR(narrow.vectorOps, 4.5 + 0.5, 0.4);
  EXPECT_LT(narrow.loads, 0.6 * wide.loads);
  // Neighbouring outputs find most of their inputs in registers: 9 taps are fewer than 9 local accesses.
  EXPECT_LT(wide.loads, 1 + 9 * 0.25);
}

TEST(Cost, PoolingIsUnrolled) {
  auto pool = [](ElementType type) {
    Tensor x = Tensor::dense(type, {1, 64, 64, 64}, {0, 2, 3, 1}),
           y = Tensor::dense(type, {1, 64, 64, 64}, {0, 2, 3, 1});
    return costOf(
        "%r = hpu.max_pool2d %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, "
        "pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : ($0) -> $out0",
        {x}, y);
  };
  recipe::TpcCost wide = pool(F32), narrow = pool(BF16);
  EXPECT_NEAR(wide.vectorOps, 9, 0.5);
  EXPECT_NEAR(narrow.vectorOps, 4.5 + 0.5, 0.5);
  EXPECT_LT(wide.scalarOps, 4);
  EXPECT_LT(wide.loads, 1 + 9 * 0.25 * 0.5);  // Eight outputs read 30 values in place of 72.
}

TEST(Cost, TablesAreRepeatedToFillVectors) {
  // 96 channels are one vector and a half; two pixels are three whole ones.
  Tensor x = Tensor::dense(F32, {4096, 96}), bias = Tensor::dense(F32, {96});
  EXPECT_DOUBLE_EQ(costOf("%r = hpu.add %0, %1 : ($0, $1) -> $out0", {x, bias}, x).vectorOps, 1);
}

TEST(Cost, StridedVectorsAreTurnedInLocalMemory) {
  // Lanes along the rows of the result lie at a stride in the operand, whose columns are whole vectors.
  Tensor x = Tensor::dense(F32, {256, 256}), y = Tensor::dense(F32, {256, 256}, {1, 0});
  recipe::TpcCost turned = costOf("%r = hpu.neg %0 : ($0) -> $out0", {x}, y);
  EXPECT_LT(turned.scalarOps, 3);
  EXPECT_DOUBLE_EQ(turned.vectorOps, 1 + 12);
  EXPECT_DOUBLE_EQ(turned.loads, 1.25);
  // One element of each row: nothing to turn.
  Tensor sparse = Tensor::dense(F32, {256, 1, 256}, {0, 2, 1}, 7);
  EXPECT_GE(costOf("%r = hpu.neg %0 : ($0) -> $out0", {sparse}, Tensor::dense(F32, {256, 1, 256})).scalarOps, 64);
}

TEST(Cost, ResizedRowsAreShuffled) {
  Tensor x = Tensor::dense(F32, {1, 1, 16, 16}), y = Tensor::dense(F32, {1, 1, 128, 128});
  recipe::TpcCost resize = costOf(
      "%r = hpu.resize %0 {coordinates = 0 : i32, mode = 1 : i32, nearest = 2 : i32, "
      "scales = array<f64: 8.0, 8.0>, sizes = array<i64: 128, 128>} : ($0) -> $out0",
      {x}, y);
  EXPECT_LT(resize.scalarOps, 8);
  EXPECT_LT(resize.vectorOps, 4 * 4 + 9 + 1);  // Four shuffled values and three mixtures.
}

}  // namespace
}  // namespace hpu::kernels::test
