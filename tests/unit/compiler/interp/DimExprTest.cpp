// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/DimExpr.h"

#include <gtest/gtest.h>

namespace hpu::ir {
namespace {

DimExpr e(const char* text) {
  return DimExpr::parse(text);
}

TEST(DimExpr, PrintsEqualExpressionsEqually) {
  EXPECT_EQ(e("seq*batch*2 + 1").text(), "2*batch*seq + 1");
  EXPECT_EQ(e("batch + batch"), e("2*batch"));
  EXPECT_EQ(e("n - n").text(), "0");
  EXPECT_EQ(e("1 - n").text(), "0 - n + 1");
  EXPECT_EQ(DimExpr::parse(e("1 - n").text()), e("1 - n"));
}

TEST(DimExpr, TakesUnreadableTextAsOneName) {
  EXPECT_EQ(e("floor(n/2)").asSymbol(), "floor(n/2)");
  EXPECT_EQ(e("past_length + 1").symbols(), std::vector<std::string>{"past_length"});
  EXPECT_EQ(e("99999999999999999999").asSymbol(), "99999999999999999999");
}

TEST(DimExpr, DividesOnlyWithoutRemainder) {
  EXPECT_EQ(e("6*batch*seq").dividedBy(e("2*seq")), e("3*batch"));
  EXPECT_EQ(e("6*batch + 4").dividedBy(DimExpr(2)), e("3*batch + 2"));
  EXPECT_FALSE(e("3*batch").dividedBy(DimExpr(2)));
  EXPECT_FALSE(e("batch").dividedBy(e("seq")));
  EXPECT_EQ(e("n + 1").dividedBy(e("n + 1")), DimExpr(1));
}

TEST(DimExpr, EvaluatesAndSubstitutes) {
  EXPECT_EQ(e("2*n*m + 3").evaluate({{"n", 4}, {"m", 5}}), 43);
  EXPECT_FALSE(e("n").evaluate({}));
  EXPECT_EQ(e("2*n*m").substitute({{"n", 4}})->text(), "8*m");
}

TEST(DimExpr, FailsOnOverflow) {
  EXPECT_FALSE(DimExpr(INT64_MAX).plus(DimExpr(1)));
  EXPECT_FALSE(e("n").times(DimExpr(INT64_MAX))->times(DimExpr(2)));
  EXPECT_FALSE(e("n*n").evaluate({{"n", int64_t{1} << 40}}));
}

TEST(DimExpr, BoundsFromBelowForSizesOfAtLeastOne) {
  EXPECT_EQ(e("2*n + 3").lowerBound(), 5);
  EXPECT_FALSE(e("3 - n").lowerBound());
}

}  // namespace
}  // namespace hpu::ir
