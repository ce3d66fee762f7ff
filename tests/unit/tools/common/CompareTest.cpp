// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace {

using hpu::ElementType;
using hpu::tools::HostTensor;

template <typename T>
HostTensor tensor(ElementType element, const hpu::Shape& shape, std::vector<T> values) {
  HostTensor out;
  out.type = {element, shape};
  out.bytes.resize(values.size() * sizeof(T));
  memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}
HostTensor floats(std::vector<float> values) {
  return tensor(ElementType::kF32, {static_cast<int64_t>(values.size())}, values);
}

TEST(Compare, PassesWithinTheSumOfAbsoluteAndRelativeTolerance) {
  // atol * max|b| = 1e-4 * 100 = 0.01; rtol * |b| = 0.1 at 100 and 0 at 0.
  auto expected = floats({100, 0});
  EXPECT_TRUE(hpu::tools::compare(floats({100.1f, 0.009f}), expected, {}).passed);
  auto result = hpu::tools::compare(floats({100.2f, 0.011f}), expected, {});
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.wrong, 2);
  EXPECT_EQ(result.firstWrong, 0);
  EXPECT_NEAR(result.maxAbs, 0.2, 1e-5);
  EXPECT_NEAR(result.maxRel, 0.002, 1e-6);
}

TEST(Compare, NanEqualsNanAndAnInfinityOnlyItself) {
  float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(hpu::tools::compare(floats({nan, inf, 1}), floats({nan, inf, 1}), {}).passed);
  EXPECT_EQ(hpu::tools::compare(floats({1, 1, -inf}), floats({nan, inf, inf}), {}).wrong, 3);
  EXPECT_EQ(hpu::tools::compare(floats({nan, 1e30f}), floats({1, inf}), {}).wrong, 2);
}

TEST(Compare, IntegersMustBeEqualEvenBeyondWhatADoubleHolds) {
  int64_t big = (int64_t{1} << 53) + 1;
  auto expected = tensor<int64_t>(ElementType::kI64, {2}, {big, 1000});
  EXPECT_TRUE(hpu::tools::compare(expected, expected, {}).passed);
  auto other = tensor<int64_t>(ElementType::kI64, {2}, {big - 1, 1000});
  EXPECT_EQ(hpu::tools::compare(other, expected, {}).wrong, 1);
}

TEST(Compare, AnotherShapeOrTypeIsWrongEverywhere) {
  auto result = hpu::tools::compare(floats({1, 2}), floats({1, 2, 3}), {});
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.wrong, 3);
  EXPECT_EQ(result.note, "shape is 2, expected 3");
  result = hpu::tools::compare(tensor<int32_t>(ElementType::kI32, {1}, {1}), floats({1}), {});
  EXPECT_EQ(result.note, "type is 1xi32, expected 1xf32");
}

TEST(Compare, CorrelationTellsScaledFromShuffled) {
  EXPECT_NEAR(hpu::tools::compare(floats({2, 4, 6}), floats({1, 2, 3}), {}).pcc, 1, 1e-12);
  EXPECT_NEAR(hpu::tools::compare(floats({3, 2, 1}), floats({1, 2, 3}), {}).pcc, -1, 1e-12);
  EXPECT_EQ(hpu::tools::compare(floats({5, 5}), floats({5, 5}), {}).pcc, 1);
}

TEST(Compare, CountsRowsWhoseLargestElementIsTheLabel) {
  auto scores = tensor<float>(ElementType::kF32, {3, 2}, {0, 1, 5, 2, 3, 4});
  auto labels = tensor<int64_t>(ElementType::kI64, {3}, {1, 0, 0});
  auto result = hpu::tools::accuracy(scores, labels);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->rows, 3);
  EXPECT_EQ(result->right, 2);
  EXPECT_FALSE(hpu::tools::accuracy(scores, tensor<int64_t>(ElementType::kI64, {2}, {1, 0})).ok());
  auto other = tensor<float>(ElementType::kF32, {3, 2}, {0, 1, 2, 5, 3, 4});
  EXPECT_EQ(hpu::tools::sameArgMax(scores, other)->right, 2);
}

TEST(Compare, NamesTheIndexOfAnElement) {
  EXPECT_EQ(hpu::tools::indexText({2, 3, 4}, 17), "[1, 1, 1]");
}

}  // namespace
