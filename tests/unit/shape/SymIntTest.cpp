// SPDX-License-Identifier: Apache-2.0
#include "shape/SymInt.h"

#include <gtest/gtest.h>

#include <random>

namespace hpu::shape {
namespace {

const SymbolBindings kAt{{"batch", 7}, {"seq", 509}};

SymInt at(const char* text) {
  const DimExpr expr = DimExpr::parse(text);
  return {expr, *expr.evaluate(kAt)};
}

TEST(SymInt, IsEqualForAllSizesOrNotAtAll) {
  EXPECT_EQ(at("seq") * 64, at("64*seq"));
  EXPECT_EQ(at("seq") + at("batch") - at("seq"), at("batch"));
  // The same number at the representatives only.
  EXPECT_FALSE(at("seq") == SymInt(509));
  EXPECT_FALSE(at("seq") + 7 == at("seq") + at("batch"));
  EXPECT_EQ((at("seq") - at("seq")).constant(), 0);
  EXPECT_EQ((at("batch") * 0).constant(), 0);
}

TEST(SymInt, DividesWhatHasNoRemainderForAnySizes) {
  const SymInt product = at("12*batch*seq");
  ASSERT_TRUE(product.dividedBy(at("4*seq")));
  EXPECT_EQ(*product.dividedBy(at("4*seq")), at("3*batch"));
  EXPECT_EQ(product.dividedBy(product)->constant(), 1);
  EXPECT_FALSE(product.dividedBy(8));
  EXPECT_FALSE(at("batch").dividedBy(7));
  EXPECT_FALSE(SymInt(7).dividedBy(at("batch")));
  EXPECT_FALSE(product.dividedBy(0));
  EXPECT_EQ(SymInt(12).dividedBy(4)->constant(), 3);
  EXPECT_FALSE(SymInt(12).dividedBy(5));
}

TEST(SymInt, RoundsAndCompares) {
  EXPECT_EQ(at("seq").ceilDiv(64).value(), 8);
  EXPECT_EQ(at("seq").floorDiv(64).value(), 7);
  EXPECT_EQ(SymInt(-7).floorDiv(2).value(), -4);
  EXPECT_EQ(SymInt(-7).ceilDiv(2).value(), -3);
  EXPECT_EQ(SymInt(7).floorDiv(-2).value(), -4);
  EXPECT_EQ(SymInt::max(at("seq"), at("batch")).value(), 509);
  EXPECT_EQ(SymInt::min(at("seq"), 3).value(), 3);
  EXPECT_EQ(SymInt::max(4, 3).constant(), 4);
}

TEST(SymInt, WhatHasNoExpressionIsEqualToNothing) {
  SymInt large = at("seq");
  for (int i = 0; i < 80; ++i) large *= at("batch") + i % 2;
  EXPECT_TRUE(large.isUnknown());
  EXPECT_FALSE(large == large);
  EXPECT_EQ(large.text(), "?");
  EXPECT_FALSE(large.expr());
  EXPECT_TRUE((large + 1).isUnknown());
}

/// The value is always that of the expression at the representatives.
TEST(SymInt, KeepsValueAndExpressionTogether) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    SymInt sum = at("seq");
    for (int step = 0; step < 6; ++step) {
      const SymInt other = random() % 2 ? at(random() % 2 ? "batch" : "seq") : SymInt(1 + random() % 9);
      switch (random() % 6) {
        case 0:
          sum += other;
          break;
        case 1:
          sum -= other;
          break;
        case 2:
          sum = sum * other;
          break;
        case 3:
          sum = sum.floorDiv(other);
          break;
        case 4:
          sum = sum.ceilDiv(other);
          break;
        default:
          sum = SymInt::max(sum, other);
          break;
      }
      if (std::abs(sum.value()) > 1'000'000'000) break;
      if (sum.isUnknown()) continue;
      EXPECT_EQ(sum.expr()->evaluate(kAt), sum.value()) << sum.text();
    }
  }
}

}  // namespace
}  // namespace hpu::shape
