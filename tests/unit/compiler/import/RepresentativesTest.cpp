// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Representatives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/Importer.h"
#include "mlir/Parser/Parser.h"

namespace hpu::importer {
namespace {

using ::testing::HasSubstr;

/// A size of one dimension never tells of another one or of a number of the model.
TEST(Representatives, HavePrimesOfTheirOwn) {
  const std::set<int64_t> numbers = {0, 1, 8, 101, 2 * 13, 3 * 61};
  auto all = representativesOf({{"a", {0, 64}}, {"b", {1, 4096}}, {"c", {200, 300}}}, numbers);
  ASSERT_TRUE(all.ok()) << all.status().message();
  for (const SizeAssignment& sizes : *all) {
    ASSERT_EQ(sizes.size(), 3u);
    std::set<int64_t> primes;
    for (const auto& [name, size] : sizes) {
      const int64_t prime = ir::primeOf(size);
      EXPECT_GT(prime, 1) << size;
      EXPECT_TRUE(primes.insert(prime).second) << prime;
      for (int64_t number : numbers) EXPECT_TRUE(number == 0 || number % prime != 0) << prime << " of " << number;
    }
  }
}

TEST(Representatives, AreLargeFirstAndThenWithinTheBounds) {
  auto all = representativesOf({{"a", {0, 64}}, {"b", {9, 30}}}, {8});
  ASSERT_TRUE(all.ok());
  EXPECT_FALSE(isSmall(all->front()));
  bool isPair = false, isFirst = true;
  for (const SizeAssignment& sizes : *all) {
    if (!isSmall(sizes)) continue;
    const int64_t a = sizes.at("a"), b = sizes.at("b");
    if (std::exchange(isFirst, false)) {
      EXPECT_LE(a, 64);
    }
    EXPECT_GE(b, 9);
    isPair |= a + b <= 32;  // Such as rows [a, a + b) of a table of 32.
  }
  EXPECT_TRUE(isPair);
  // The only prime within narrow bounds may be in a number of the model.
  auto narrow = representativesOf({{"a", {0, 3}}}, {3});
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ(narrow->back().at("a"), 13);
}

/// Which of two is larger decides whether what lies between them is empty; a third of one has to be a size.
TEST(Representatives, AreInBothOrdersAndMultiplesOfSmallNumbers) {
  const auto all = representativesOf({{"a", {0, 20}}, {"b", {1, 40}}, {"c", {1, 40}}, {"d", {1, 4096}}}, {40});
  ASSERT_TRUE(all.ok());
  bool isLarger[2] = {}, isThird = false, isSmallInOrder = false, isSmallReversed = false;
  for (const SizeAssignment& sizes : *all) {
    const int64_t a = sizes.at("a"), b = sizes.at("b"), c = sizes.at("c"), d = sizes.at("d");
    if (!isSmall(sizes)) {
      isLarger[a < b] = true;
      isThird |= a % 3 == 0 && b % 3 == 0 && c % 3 == 0 && d % 3 == 0;
    } else if (a <= 20 && b <= 40 && c <= 40 && d > 100) {
      isSmallInOrder |= a < b && b < c;
      isSmallReversed |= b > c;
    }
  }
  EXPECT_TRUE(isLarger[0] && isLarger[1]);
  EXPECT_TRUE(isThird && isSmallInOrder && isSmallReversed);
}

TEST(Representatives, AreTooFewForVeryManyDimensions) {
  shape::SymbolBounds bounds;
  for (int i = 0; i < 40; ++i) bounds["d" + std::to_string(i)] = {1, 10};
  auto all = representativesOf(bounds, {});
  ASSERT_FALSE(all.ok());
  EXPECT_THAT(all.status().message(), HasSubstr("and 40 are free: d0"));
}

/// Sizes without elements are never let through; sizes that agree by chance are not where that is asked for.
TEST(Representatives, AreCheckedInTheTypesThatTheyGive) {
  std::shared_ptr<mlir::MLIRContext> context = makeContext();
  registerDialects(*context);
  auto check = [&](const std::string& type, Apart apart, const std::string& attributes = "") {
    const std::string text = "module " + attributes + " { func.func @main(%a: " + type + ", %b: tensor<5xf32>) -> " +
                             type + " { %r = hpu.relu %a : (" + type + ") -> " + type + " func.return %r : " + type +
                             " } }";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
    EXPECT_TRUE(module) << text;
    return module ? checkRepresented(*module, apart) : internalError("no module");
  };
  const std::string empty = "tensor<0x13xf32, #hpu.layout<symbols = [\"max(0, 5 - s)\", \"s\"]>>",
                    alike = "tensor<5x13xf32, #hpu.layout<symbols = [\"18 - s\", \"s\"]>>",
                    apart = "tensor<7x13xf32, #hpu.layout<symbols = [\"20 - s\", \"s\"]>>";
  EXPECT_THAT(check(empty, Apart::kNothing).message(), HasSubstr("the size max(0, 5 - s)"));
  EXPECT_TRUE(check(alike, Apart::kNothing).ok());
  EXPECT_FALSE(check(alike, Apart::kAll).ok());
  EXPECT_TRUE(check(apart, Apart::kAll).ok());
  // A size of 1 would be taken for one that is repeated.
  const std::string one = "tensor<1x13xf32, #hpu.layout<symbols = [\"s - 12\", \"s\"]>>";
  EXPECT_TRUE(check(one, Apart::kNothing).ok());
  EXPECT_FALSE(check(one, Apart::kOnes).ok());
  EXPECT_TRUE(check(alike, Apart::kOnes).ok());
  // Those that the model asks to be equal do not agree by chance.
  const std::string two = "tensor<13x13xf32, #hpu.layout<symbols = [\"s\", \"t\"]>>";
  EXPECT_FALSE(check(two, Apart::kAll).ok());
  EXPECT_TRUE(check(two, Apart::kAll, "attributes {hpu.equal_sizes = [[\"s\", \"t\"]]}").ok());
}

}  // namespace
}  // namespace hpu::importer
