// SPDX-License-Identifier: Apache-2.0
// The correctness matrix: collective, type, operation, ranks, count, in place, root, alignment,
// streams, groups and values, by an oracle of its own. Every pair of values with every change,
// every combination on demand: MatrixFull needs HPU_MATRIX_FULL=1 (and GTEST_TOTAL_SHARDS,
// GTEST_SHARD_INDEX for a share of it). HPU_MATRIX_CASE=NAME runs one case, HPU_MATRIX_SEED other
// pairs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "RankRunner.h"

namespace hpu::collectives::testing {
namespace {

void expectAllWell(const std::vector<Case>& cases) {
  std::vector<std::string> wrong = runAsThreads(cases);
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_TRUE(wrong[i].empty()) << "HPU_MATRIX_CASE=" << cases[i].name() << "\n  " << wrong[i];
}

TEST(MatrixCases, HaveEveryPairThatAnyCaseHas) {
  using Pair = std::tuple<int, int, int, int>;
  std::set<Pair> covered;
  std::vector<bool> possible(1 << 20);
  auto visit = [](const Case& c, auto&& what) {
    for (int a = 0; a < kNumParameters; ++a)
      for (int b = a + 1; b < kNumParameters; ++b)
        if (matters(c.kind(), a) && matters(c.kind(), b))
          what(Pair(a, c.choice[static_cast<size_t>(a)], b, c.choice[static_cast<size_t>(b)]));
  };
  std::vector<Case> cases = pairwiseCases(chosenSeed());
  EXPECT_LT(cases.size(), 500u);
  for (const Case& c : cases) {
    EXPECT_TRUE(isLegal(c)) << c.name();
    visit(c, [&](const Pair& pair) { covered.insert(pair); });
  }
  size_t missing = 0;
  for (int kind = 0; kind < kNumKinds; ++kind)
    for (int ranks : {1, 2, 5, 8})
      for (const Case& c : allCases(static_cast<Kind>(kind), ranks))
        visit(c, [&](const Pair& pair) {
          auto [a, valueA, b, valueB] = pair;
          size_t index = static_cast<size_t>(((a * 16 + valueA) * 16 + b) * 16 + valueB);
          if (possible[index]) return;
          possible[index] = true;
          if (!covered.count(pair)) ++missing;
        });
  EXPECT_EQ(missing, 0u);
  // Beyond a type's range: type and operation together.
  std::set<std::pair<int, int>> special;
  for (const Case& c : cases)
    if (c.reduces() && c.ranks() > 1 && c.count() >= 64 && c.values() == Values::kSpecial)
      special.insert({c.choice[kType], c.choice[kOp]});
  EXPECT_EQ(special.size(), static_cast<size_t>(numValues(kType) * numValues(kOp)));
}

class MatrixPairwise : public ::testing::TestWithParam<int> {};
TEST_P(MatrixPairwise, RanksAsThreads) {
  std::vector<Case> cases = pairwiseCases(chosenSeed(), GetParam());
  ASSERT_GT(cases.size(), 10u);
  expectAllWell(cases);
}
INSTANTIATE_TEST_SUITE_P(Ranks, MatrixPairwise, ::testing::Range(1, 9));

class MatrixFull : public ::testing::TestWithParam<std::tuple<int, int>> {};
TEST_P(MatrixFull, RanksAsThreads) {
  if (!std::getenv("HPU_MATRIX_FULL")) GTEST_SKIP() << "set HPU_MATRIX_FULL=1";
  auto [kind, ranks] = GetParam();
  expectAllWell(allCases(static_cast<Kind>(kind), ranks));
}
INSTANTIATE_TEST_SUITE_P(Kinds, MatrixFull, ::testing::Combine(::testing::Range(0, kNumKinds), ::testing::Range(1, 9)));

TEST(MatrixOne, RanksAsThreads) {
  const char* name = std::getenv("HPU_MATRIX_CASE");
  if (!name) GTEST_SKIP() << "set HPU_MATRIX_CASE to a case's name";
  for (int kind = 0; kind < kNumKinds; ++kind) {
    if (std::string(name).rfind(std::string(kindName(static_cast<Kind>(kind))) + "-", 0) != 0) continue;
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const Case& c : allCases(static_cast<Kind>(kind), ranks))
        if (c.name() == name) return expectAllWell({c});
  }
  FAIL() << "there is no case " << name;
}

}  // namespace
}  // namespace hpu::collectives::testing
