// SPDX-License-Identifier: Apache-2.0
// Every registered algorithm among nodes on problems of all kinds: assembled and proven by the checker, run with
// numbers by the interpreter, which knows nothing of the checker; beyond 64 ranks by roles.
#include "Plans.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "../algorithms/Interpreter.h"
#include "collectives/schedule/Check.h"

namespace hpu::collectives {
namespace {

/// Every (collective, root, count) that some algorithm accepts on a map.
template <typename Visit>
void forEachProblem(const RankMap& map, const Visit& visit) {
  const int32_t n = map.ranks();
  for (const PlanAlgorithm& algorithm : planAlgorithms())
    for (int c = 0; c < kNumCollectives; c++)
      for (const int root : std::set<int>{0, n / 2, n - 1})
        for (const int64_t count : {0, 1, std::max(0, n - 1), n, n + 1, 63, 1021}) {
          const Problem p = scaleProblem(static_cast<Collective>(c), n, count, root);
          if (algorithm.accepts(p, map)) visit(algorithm, p);
        }
}

/// HPU_SCALEOUT_ALL: every problem of every grid to 64 ranks, which takes minutes.
TEST(Plans, PassTheCheckerOnAllSmallGrids) {
  const bool all = std::getenv("HPU_SCALEOUT_ALL") != nullptr;
  std::mt19937_64 random(21);
  int64_t checked = 0;
  for (int32_t nodes = 1; nodes <= 8; nodes++)
    for (int32_t locals = 1; locals <= 8; locals++) {
      const RankMap map = gridMap(nodes, locals);
      forEachProblem(map, [&](const PlanAlgorithm& algorithm, const Problem& p) {
        // Of the larger ones some.
        if (!all && random() % (p.ranks > 30 ? 10 : p.ranks > 12 ? 4 : 1) != 0) return;
        const auto chunks = random() % 2 == 0 ? 1 : static_cast<int32_t>(1 + random() % 7);
        const auto plan = algorithm.make(p, map, {chunks});
        const std::string name = planName(algorithm, p, map, chunks);
        const Status status = checkSchedule(assemble(*plan));
        EXPECT_TRUE(status.ok()) << name << ": " << status.message();
        const Status roles = checkRoles(*plan);
        EXPECT_TRUE(roles.ok()) << name << ": " << roles.message();
        EXPECT_EQ(plan->algorithm(), algorithm.name);
        EXPECT_TRUE(plan->problem() == p);
        checked++;
      });
    }
  EXPECT_GT(checked, 1000);
}

/// Every unordered choice of numbers of ranks of 2 to 4 nodes that differ.
std::vector<std::vector<int32_t>> unevenSizes(int32_t mostNodes, int32_t mostLocals) {
  std::vector<std::vector<int32_t>> all;
  std::vector<int32_t> sizes;
  const std::function<void()> grow = [&] {
    if (sizes.size() >= 2 && sizes.front() != sizes.back()) all.push_back(sizes);
    if (static_cast<int32_t>(sizes.size()) == mostNodes) return;
    for (int32_t next = sizes.empty() ? 1 : sizes.back(); next <= mostLocals; next++) {
      sizes.push_back(next);
      grow();
      sizes.pop_back();
    }
  };
  grow();
  return all;
}

/// HPU_SCALEOUT_ALL: every problem of all of them.
TEST(Plans, PassTheCheckerOnNodesOfDifferentSizes) {
  const bool all = std::getenv("HPU_SCALEOUT_ALL") != nullptr;
  std::mt19937_64 random(24);
  int64_t checked = 0;
  for (std::vector<int32_t>& sizes : unevenSizes(4, 8)) {
    if (!all && random() % 8 != 0) continue;
    std::shuffle(sizes.begin(), sizes.end(), random);
    const RankMap map = sizesMap(sizes);
    forEachProblem(map, [&](const PlanAlgorithm& algorithm, const Problem& p) {
      if (!all && (algorithm.name == "pairwise" || random() % (p.ranks > 16 ? 24 : 6) != 0)) return;
      const auto chunks = random() % 2 == 0 ? 1 : static_cast<int32_t>(1 + random() % 7);
      const auto plan = algorithm.make(p, map, {chunks});
      const std::string name = planName(algorithm, p, map, chunks);
      const Status status = checkSchedule(assemble(*plan));
      EXPECT_TRUE(status.ok()) << name << ": " << status.message();
      const Status roles = checkRoles(*plan);
      EXPECT_TRUE(roles.ok()) << name << ": " << roles.message();
      checked++;
    });
  }
  EXPECT_GT(checked, 100);
}

TEST(Plans, PassTheCheckerOnMapsWithoutOrder) {
  std::mt19937_64 random(22);
  for (int round = 0; round < 60; round++) {
    const auto nodes = static_cast<int32_t>(2 + random() % 5);
    const bool uniform = random() % 2 == 0;
    const auto fabric = standardFabric(Target::kGaudi2, nodes + 2);
    std::vector<Place> places;
    const auto locals = static_cast<int32_t>(1 + random() % 4);
    for (int32_t n = 0; n < nodes; n++) {
      std::vector<int32_t> slots{0, 1, 2, 3, 4, 5, 6, 7};
      std::shuffle(slots.begin(), slots.end(), random);
      slots.resize(uniform ? static_cast<size_t>(locals) : 1 + random() % 5);
      for (const int32_t slot : slots) places.push_back({n + (n > 1 ? 2 : 0), slot});
    }
    std::shuffle(places.begin(), places.end(), random);
    const RankMap map = RankMap::create(fabric, places).value();
    forEachProblem(map, [&](const PlanAlgorithm& algorithm, const Problem& p) {
      if (random() % 12 != 0) return;
      const auto chunks = static_cast<int32_t>(1 + random() % 5);
      const auto plan = algorithm.make(p, map, {chunks});
      const std::string name = planName(algorithm, p, map, chunks);
      const Status status = checkSchedule(assemble(*plan));
      EXPECT_TRUE(status.ok()) << name << ": " << status.message();
      const Status roles = checkRoles(*plan);
      EXPECT_TRUE(roles.ok()) << name << ": " << roles.message();
    });
  }
}

TEST(Plans, GiveTheRightDataInAnyInterleaving) {
  std::mt19937_64 random(23);
  int64_t run = 0;
  for (const auto& [nodes, locals] : {std::pair{2, 1}, {2, 2}, {3, 3}, {5, 2}, {4, 4}, {3, 8}, {8, 1}}) {
    const RankMap map = gridMap(nodes, locals);
    forEachProblem(map, [&](const PlanAlgorithm& algorithm, const Problem& p) {
      if (random() % (p.ranks > 12 ? 24 : 4) != 0) return;
      const auto chunks = static_cast<int32_t>(1 + random() % 5);
      Interleaving how;
      how.seed = random();
      how.inPlace = random() % 2 == 0;
      how.mixed = random() % 4 == 0;
      how.copied = static_cast<int>(random() % 11);
      how.readInPlace = static_cast<int>(random() % 11);
      how.strict = random() % 2 == 0;
      EXPECT_EQ(interpret(assemble(*algorithm.make(p, map, {chunks})), how), "")
          << planName(algorithm, p, map, chunks) << ", seed " << how.seed;
      run++;
    });
  }
  for (const std::vector<int32_t>& sizes :
       {std::vector<int32_t>{2, 1}, {1, 3}, {4, 2}, {3, 2, 1}, {3, 4, 2, 3}, {8, 5}}) {
    const RankMap map = sizesMap(sizes);
    forEachProblem(map, [&](const PlanAlgorithm& algorithm, const Problem& p) {
      if (algorithm.name == "pairwise" || random() % (p.ranks > 10 ? 8 : 4) != 0) return;
      const auto chunks = static_cast<int32_t>(1 + random() % 5);
      Interleaving how;
      how.seed = random();
      how.inPlace = random() % 2 == 0;
      how.mixed = random() % 4 == 0;
      how.strict = random() % 2 == 0;
      EXPECT_EQ(interpret(assemble(*algorithm.make(p, map, {chunks})), how), "")
          << planName(algorithm, p, map, chunks) << ", seed " << how.seed;
      run++;
    });
  }
  EXPECT_GT(run, 200);
}

// Without the data of the checker: what all ranks of a role have in common, and that messages match.
TEST(Plans, AreAlikeByRoleOnManyNodes) {
  for (const int32_t nodes : {16, 32, 128}) {
    const RankMap map = gridMap(nodes, 8);
    for (const PlanAlgorithm& algorithm : planAlgorithms())
      for (int c = 0; c < kNumCollectives; c++)
        for (const int64_t count : {int64_t{1}, int64_t{100'003}}) {
          // For time.
          if (nodes > 16 && (count == 1 || algorithm.name == "pairwise")) continue;
          if (nodes == 128 && static_cast<Collective>(c) != Collective::kAllReduce &&
              static_cast<Collective>(c) != Collective::kBroadcast)
            continue;
          const Problem p = scaleProblem(static_cast<Collective>(c), map.ranks(), count, 11);
          if (!algorithm.accepts(p, map)) continue;
          const int32_t chunks = nodes == 128 || count == 1 ? 1 : 3;
          const Status status = checkRoles(*algorithm.make(p, map, {chunks}));
          EXPECT_TRUE(status.ok()) << planName(algorithm, p, map, chunks) << ": " << status.message();
        }
  }
}

TEST(Plans, RefuseWhatTheyCannotDo) {
  const RankMap map = gridMap(2, 2);
  for (const PlanAlgorithm& algorithm : planAlgorithms())
    for (int c = 0; c < kNumCollectives; c++) {
      Problem p = scaleProblem(static_cast<Collective>(c), 4, INT64_MAX / 4);
      EXPECT_FALSE(algorithm.accepts(p, map)) << algorithm.name;
      p.count = -1;
      EXPECT_FALSE(algorithm.accepts(p, map)) << algorithm.name;
      p = scaleProblem(static_cast<Collective>(c), 3, 10);
      EXPECT_FALSE(algorithm.accepts(p, map)) << algorithm.name << ": another number of ranks";
    }
  const Status unknown = findPlanAlgorithm("star", scaleProblem(Collective::kAllReduce, 4, 10), map).status();
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_NE(unknown.message().find("no algorithm 'star' for all-reduce of 10"), std::string::npos) << unknown.message();
  EXPECT_NE(unknown.message().find("there are: rails, "), std::string::npos) << unknown.message();
}

TEST(Plans, TreesHaveARoleForEachKindOfPlaceAndNotForEachNode) {
  const RankMap map = gridMap(300, 2);
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    const Problem p = scaleProblem(collective, map.ranks(), 100'000, 77);
    const PlanAlgorithm* tree = findPlanAlgorithm("rails-tree", p, map).value();
    for (const int32_t chunks : {1, 8}) {
      const auto plan = tree->make(p, map, {chunks});
      EXPECT_LE(plan->roles(), chunks == 1 ? 301 : 60);
      const Status roles = checkRoles(*plan);
      EXPECT_TRUE(roles.ok()) << roles.message();
    }
  }
}

}  // namespace
}  // namespace hpu::collectives
