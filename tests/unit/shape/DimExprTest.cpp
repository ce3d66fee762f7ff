// SPDX-License-Identifier: Apache-2.0
#include "shape/DimExpr.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace hpu::shape {
namespace {

DimExpr e(const char* text) {
  return DimExpr::parse(text);
}

TEST(DimExpr, PrintsEqualPolynomialsEqually) {
  EXPECT_EQ(e("seq*batch*2 + 1").text(), "2*batch*seq + 1");
  EXPECT_EQ(e("batch + batch"), e("2*batch"));
  EXPECT_EQ(e("n - n").text(), "0");
  EXPECT_EQ(e("1 - n").text(), "0 - n + 1");
  EXPECT_EQ(DimExpr::parse(e("1 - n").text()), e("1 - n"));
  EXPECT_EQ(e("(n + 1)*(n - 1)").text(), "n*n - 1");
}

TEST(DimExpr, TakesUnreadableTextAsOneName) {
  EXPECT_EQ(e("floor(n/2)").asSymbol(), "floor(n/2)");
  EXPECT_EQ(e("past_length + 1").symbols(), std::vector<std::string>{"past_length"});
  EXPECT_EQ(e("99999999999999999999").asSymbol(), "99999999999999999999");
  for (const char* text :
       {"", "a b", "a +", "max(a)", "select(a, b, c)", "floor(a)", "(a", "a)", "'a", "2 3", "0x", "-1"})
    EXPECT_EQ(e(text).asSymbol(), text) << text;
}

TEST(DimExpr, KeepsNamesThatNeedQuotes) {
  for (const char* name : {"floor(n/2)", "a b", "it's", "'", "", "a + b", "7", "max(a, b)", "/model/Add:0", "0dim"}) {
    const DimExpr symbol = DimExpr::symbol(name);
    EXPECT_EQ(symbol.asSymbol(), name);
    EXPECT_EQ(DimExpr::parse(symbol.text()), symbol) << symbol.text();
    const DimExpr more = *symbol.times(2)->plus(1);
    EXPECT_EQ(DimExpr::parse(more.text()), more) << more.text();
    EXPECT_EQ(more.evaluate({{name, 5}}), 11);
  }
}

TEST(DimExpr, DividesOnlyWithoutRemainder) {
  EXPECT_EQ(e("6*batch*seq").dividedBy(e("2*seq")), e("3*batch"));
  EXPECT_EQ(e("6*batch + 4").dividedBy(DimExpr(2)), e("3*batch + 2"));
  EXPECT_FALSE(e("3*batch").dividedBy(DimExpr(2)));
  EXPECT_FALSE(e("batch").dividedBy(e("seq")));
  EXPECT_EQ(e("n + 1").dividedBy(e("n + 1")), DimExpr(1));
  EXPECT_FALSE(DimExpr(0).dividedBy(DimExpr(0)));
}

TEST(DimExpr, EvaluatesAndSubstitutes) {
  EXPECT_EQ(e("2*n*m + 3").evaluate({{"n", 4}, {"m", 5}}), 43);
  EXPECT_FALSE(e("n").evaluate({}));
  EXPECT_EQ(e("2*n*m").substitute({{"n", 4}})->text(), "8*m");
  EXPECT_EQ(e("max(floor(h / 2), w)").substitute({{"h", 9}})->text(), "max(4, w)");
  EXPECT_EQ(e("select(a == 1, b, a)").substitute({{"a", 1}})->text(), "b");
}

TEST(DimExpr, JoinsWhatNewNamesMakeEqual) {
  EXPECT_EQ(e("2*n*m + n").renamed({{"m", "n"}})->text(), e("2*n*n + n").text());
  EXPECT_EQ(e("max(floor(h / 2), w) - floor(v / 2)").renamed({{"v", "h"}, {"w", "u"}}),
            e("max(floor(h / 2), u) - floor(h / 2)"));
  EXPECT_EQ(e("a - b").renamed({{"b", "a"}}), DimExpr(0));
}

TEST(DimExpr, FailsOnOverflow) {
  EXPECT_FALSE(DimExpr(INT64_MAX).plus(DimExpr(1)));
  EXPECT_FALSE(e("n").times(DimExpr(INT64_MAX))->times(DimExpr(2)));
  EXPECT_FALSE(e("n*n").evaluate({{"n", int64_t{1} << 40}}));
  EXPECT_FALSE(e("floor(n / m)").evaluate({{"n", INT64_MIN}, {"m", -1}}));
  EXPECT_FALSE(e("n").floorDiv(DimExpr(INT64_MIN)));
}

TEST(DimExpr, RoundsQuotientsDown) {
  EXPECT_EQ(e("n").floorDiv(2)->text(), "floor(n / 2)");
  EXPECT_EQ(e("2*n + 1").floorDiv(2)->text(), "n");
  EXPECT_EQ(e("4*n + 7").floorDiv(6)->text(), "floor((2*n) / 3) + 1") << "floor((2n + 3) / 3)";
  EXPECT_EQ(e("3*n").floorDiv(2)->text(), "floor(n / 2) + n");
  EXPECT_EQ(e("n").ceilDiv(4)->text(), "floor((n + 3) / 4)");
  EXPECT_EQ(e("n").mod(4)->text(), "0 - 4*floor(n / 4) + n");
  EXPECT_EQ(e("n").floorDiv(e("m"))->text(), "floor(n / m)");
  EXPECT_EQ(e("n*m").floorDiv(e("m"))->text(), "n");
  EXPECT_FALSE(e("n").floorDiv(0));
  EXPECT_FALSE(e("floor(n / m)").evaluate({{"n", 4}, {"m", 0}}));
  EXPECT_EQ(e("floor(n / m)").evaluate({{"n", -7}, {"m", 2}}), -4);
  EXPECT_EQ(e("floor(n / m)").evaluate({{"n", -7}, {"m", -2}}), 3);
}

/// What a stack of convolutions with strides gives: one quotient however they follow each other.
TEST(DimExpr, MakesOneQuotientOfStridesThatFollowEachOther) {
  DimExpr size = e("height");
  for (int layer = 0; layer < 5; ++layer) size = *size.plus(2 * 1 - 3)->floorDiv(2)->plus(1);
  EXPECT_EQ(size.text(), "floor((height + 31) / 32)");
  EXPECT_EQ(size.evaluate({{"height", 224}}), 7);
  EXPECT_EQ(size.evaluate({{"height", 225}}), 8);
}

TEST(DimExpr, FlattensAndDecidesExtremes) {
  EXPECT_EQ(DimExpr::max(e("n + 3"), e("n"))->text(), "n + 3");
  EXPECT_EQ(DimExpr::min(e("n + 3"), e("n"))->text(), "n");
  EXPECT_EQ(DimExpr::max(*DimExpr::max(e("b"), e("a")), *DimExpr::max(2, e("b")))->text(), "max(2, a, b)");
  EXPECT_EQ(DimExpr::max(*DimExpr::max(e("b"), 7), 9)->text(), "max(9, b)");
  EXPECT_EQ(e("max(b, a)"), e("max(a, b)"));
  EXPECT_FALSE(e("max(a, b)") == e("min(a, b)"));
}

TEST(DimExpr, ChoosesByComparisons) {
  EXPECT_EQ(e("select(3 < 4, a, b)").text(), "a");
  EXPECT_EQ(e("select(n == n + 1, a, b)").text(), "b");
  EXPECT_EQ(e("select(n < m, a, a)").text(), "a");
  EXPECT_EQ(e("select(select(n < 10, 1, 0) == 0, a, b)").text(), "select(n < 10, b, a)");
  EXPECT_EQ(e("select(select(n < 10, 1, 0) == 2, a, b)").text(), "b");
  EXPECT_EQ(e("select(1 - n == 0, a, b)"), e("select(n == 1, a, b)"));
  EXPECT_EQ(e("select(n < 3, a, floor(a / n))").evaluate({{"n", 0}, {"a", 9}}), 9) << "only what is chosen";
}

TEST(DimExpr, BoundsFromBelowForAllSizes) {
  EXPECT_EQ(e("2*n + 3").lowerBound(), 3);
  EXPECT_FALSE(e("3 - n").lowerBound());
  EXPECT_EQ(e("floor(n / 2) + max(n, 4)").lowerBound(), 4);
}

TEST(DimExpr, SimplifiesByBounds) {
  const SymbolBounds bounds = {{"n", {2, 9}}, {"past", {0, 100}}, {"one", {1, 1}}};
  EXPECT_EQ(e("max(n, 1)").simplified(bounds).text(), "n");
  EXPECT_EQ(e("min(n, past + 9)").simplified(bounds).text(), "n");
  EXPECT_EQ(e("max(n, past)").simplified(bounds).text(), "max(n, past)");
  EXPECT_EQ(e("select(n == 1, a, b)").simplified(bounds).text(), "b");
  EXPECT_EQ(e("select(n < 10, a, b)").simplified(bounds).text(), "a");
  EXPECT_EQ(e("floor(n / 10)").simplified(bounds).text(), "0");
  EXPECT_EQ(e("one*n").simplified(bounds).text(), "n");
  EXPECT_EQ(e("select(past == 0, a, max(n, 2))").simplified(bounds).text(), "select(past == 0, a, n)");
}

TEST(DimExpr, SaysWhatIsKnownOfEquality) {
  const SymbolBounds bounds = {{"n", {2, 9}}};
  EXPECT_EQ(DimExpr::equal(e("n"), e("1"), bounds), false);
  EXPECT_EQ(DimExpr::equal(e("n"), e("n"), bounds), true);
  EXPECT_EQ(DimExpr::equal(e("n"), e("m"), bounds), std::nullopt);
  EXPECT_EQ(DimExpr::equal(e("n"), e("n + 1"), bounds), false);
  EXPECT_EQ(DimExpr::equal(e("floor((n + 1) / 2)"), e("n - floor(n / 2)"), bounds), std::nullopt) << "equal, not known";
}

TEST(DimExpr, RefusesWhatNoSizeIs) {
  std::string deep = "n", wide = "a0";
  for (int i = 0; i < 5000; ++i) deep = "(" + deep + ")";
  EXPECT_EQ(DimExpr::parse(deep).asSymbol(), deep);
  for (int i = 1; i < 5000; ++i) wide += " + a" + std::to_string(i);
  EXPECT_EQ(DimExpr::parse(wide).asSymbol(), wide);
  std::optional<DimExpr> nested = e("n");
  int levels = 0;
  for (; nested && levels < 1000; ++levels) {
    const std::optional<DimExpr> quotient = nested->floorDiv(e("m"));
    nested = quotient ? DimExpr::max(*quotient, e("k")) : std::nullopt;
  }
  EXPECT_LT(levels, 100);
}

// ---- Random expressions against arithmetic on 128 bits -------------------------------------------

constexpr std::array<const char*, 4> kNames = {"a", "b", "c", "d d"};

struct Both {
  std::optional<DimExpr> expr;
  std::array<std::optional<__int128>, 24> values;  ///< For each of the bindings.
};

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {
    for (auto& sizes : sizes_)
      for (auto& size : sizes) size = pick(0, 4) ? pick(0, 12) : pick(0, 4000);
  }

  SymbolBindings bindings(size_t i) const {
    SymbolBindings result;
    for (size_t k = 0; k < kNames.size(); ++k) result[kNames[k]] = sizes_[i][k];
    return result;
  }

  SymbolBounds bounds() const {
    SymbolBounds result;
    for (size_t k = 0; k < kNames.size(); ++k) {
      Interval all{sizes_[0][k], sizes_[0][k]};
      for (const auto& sizes : sizes_) all = hull(all, {sizes[k], sizes[k]});
      result[kNames[k]] = all;
    }
    return result;
  }

  Both make(int depth) {
    if (depth == 0 || pick(0, 5) == 0) return leaf();
    const Both x = make(depth - 1), y = make(depth - 1);
    Both out;
    switch (pick(0, 9)) {
      case 0:
        return combine(x, y, [](auto& p, auto& q) { return p.plus(q); }, [](auto p, auto q) { return p + q; });
      case 1:
        return combine(x, y, [](auto& p, auto& q) { return p.minus(q); }, [](auto p, auto q) { return p - q; });
      case 2:
        return combine(x, y, [](auto& p, auto& q) { return p.times(q); }, [](auto p, auto q) { return p * q; });
      case 3:
      case 4: {
        const Both number = constant(pick(1, 6));
        return combine(x, number, [](auto& p, auto& q) { return p.floorDiv(q); }, quotient);
      }
      case 5:
        return combine(x, y, [](auto& p, auto& q) { return p.floorDiv(q); }, quotient);
      case 6:
        return combine(
            x, y, [](auto& p, auto& q) { return DimExpr::max(p, q); }, [](auto p, auto q) { return p > q ? p : q; });
      case 7:
        return combine(
            x, y, [](auto& p, auto& q) { return DimExpr::min(p, q); }, [](auto p, auto q) { return p < q ? p : q; });
      default: {
        const Both then = make(depth - 1), otherwise = make(depth - 1);
        const bool isLess = pick(0, 1);
        if (x.expr && y.expr && then.expr && otherwise.expr)
          out.expr = DimExpr::select(isLess ? DimExpr::Compare::kLess : DimExpr::Compare::kEqual, *x.expr, *y.expr,
                                     *then.expr, *otherwise.expr);
        for (size_t i = 0; i < out.values.size(); ++i)
          if (x.values[i] && y.values[i])
            out.values[i] = (isLess ? *x.values[i] < *y.values[i] : *x.values[i] == *y.values[i]) ? then.values[i]
                                                                                                  : otherwise.values[i];
        return out;
      }
    }
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  static std::optional<__int128> quotient(__int128 p, __int128 q) {
    if (q == 0) return std::nullopt;
    return p / q - ((p % q != 0 && (p < 0) != (q < 0)) ? 1 : 0);
  }

  Both constant(int64_t value) {
    Both out;
    out.expr = DimExpr(value);
    out.values.fill(value);
    return out;
  }

  Both leaf() {
    if (pick(0, 2) == 0) return constant(pick(-3, 9));
    const size_t k = static_cast<size_t>(pick(0, kNames.size() - 1));
    Both out;
    out.expr = DimExpr::symbol(kNames[k]);
    for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = sizes_[i][k];
    return out;
  }

  template <typename Expr, typename Value>
  static Both combine(const Both& x, const Both& y, Expr expr, Value value) {
    Both out;
    if (x.expr && y.expr) out.expr = expr(*x.expr, *y.expr);
    const auto fits = [](const std::optional<__int128>& v) { return v && *v < INT64_MAX && *v > INT64_MIN; };
    for (size_t i = 0; i < out.values.size(); ++i)
      if (fits(x.values[i]) && fits(y.values[i])) out.values[i] = value(*x.values[i], *y.values[i]);
    return out;
  }

  std::mt19937_64 random_;
  std::array<std::array<int64_t, kNames.size()>, 24> sizes_;
};

TEST(DimExpr, HasTheValuesOfItsArithmetic) {
  int64_t compared = 0, decided = 0;
  for (uint64_t seed = 0; seed < 800; ++seed) {
    Random random(seed);
    const Both both = random.make(4);
    if (!both.expr) continue;
    const std::string text = both.expr->text();
    EXPECT_EQ(DimExpr::parse(text), *both.expr) << seed << ": " << text << " / " << DimExpr::parse(text).text();
    const SymbolBounds bounds = random.bounds();
    const Interval range = both.expr->interval(bounds);
    const DimExpr simple = both.expr->simplified(bounds);
    decided += simple.text() != text;
    for (size_t i = 0; i < both.values.size(); ++i) {
      // A sum that is rearranged may meet an overflow or a divisor that the one it was made of did not: then it has no
      // value. One that it has is right.
      const std::optional<int64_t> value = both.expr->evaluate(random.bindings(i));
      if (!value || !both.values[i]) continue;
      ++compared;
      EXPECT_TRUE(*value == *both.values[i]) << seed << ": " << text << " is " << *value;
      EXPECT_TRUE(range.contains(*value)) << seed << ": " << text << " is " << *value;
      EXPECT_EQ(simple.evaluate(random.bindings(i)).value_or(*value), *value) << seed << ": " << simple.text();
      SymbolBindings part = random.bindings(i);
      part.erase("b");
      const std::optional<DimExpr> rest = both.expr->substitute(part);
      EXPECT_TRUE(!rest || rest->evaluate(random.bindings(i)).value_or(*value) == *value)
          << seed << ": " << rest->text();
    }
  }
  EXPECT_GT(compared, 8000);
  EXPECT_GT(decided, 20);
}

}  // namespace
}  // namespace hpu::shape
