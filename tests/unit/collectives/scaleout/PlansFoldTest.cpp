// SPDX-License-Identifier: Apache-2.0
// Every registered algorithm, as it is: one rank a class has the times of all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "TimerPlans.h"
#include "base/Format.h"

namespace hpu::collectives::test {
namespace {

constexpr const char* kArrivals[] = {"at once", "one late rank", "a late node", "at random"};

std::vector<int64_t> arrivalsOf(int kind, const RankMap& map, std::mt19937& rng) {
  std::vector<int64_t> arrivals(static_cast<size_t>(map.ranks()), 0);
  if (kind == 1) arrivals[rng() % arrivals.size()] = 3'000'000;
  if (kind == 2)
    for (const int32_t rank : map.ranksOf(static_cast<int32_t>(rng() % static_cast<uint32_t>(map.nodes()))))
      arrivals[static_cast<size_t>(rank)] = 3'000'000;
  if (kind == 3)
    for (int64_t& arrival : arrivals) arrival = static_cast<int64_t>(rng() % 5'000'000);
  return arrivals;
}

struct Compared {
  int plans = 0;
  int64_t classes = 0, ranks = 0;  // Of plans whose ranks all arrive at once.
};

// `every`: of sizes and arrivals, every so many combinations of each algorithm and operation, in turn.
Compared compare(const Fabric& fabric, const std::vector<int64_t>& sizes, int every) {
  const RankMap map = RankMap::all(fabric).value();
  std::mt19937 rng(static_cast<uint32_t>(map.ranks()));
  Compared result;
  int turn = 0;
  for (const PlanAlgorithm& algorithm : planAlgorithms()) {
    for (int kind = 0; kind < kNumCollectives; ++kind) {
      ++turn;
      int combination = 0;
      for (const int64_t size : sizes) {
        for (int arrival = 0; arrival < 4; ++arrival, ++combination) {
          if (combination % every != turn % every) continue;
          Problem p;
          p.collective = static_cast<Collective>(kind);
          p.ranks = map.ranks();
          p.root = map.ranks() / 3;
          p.destination = map.ranks() - 1;
          p.count = std::max<int64_t>(1, size / p.elementBytes);
          // The whole size is of all ranks' parts.
          if (problemBytes(p) > size) p.count = std::max<int64_t>(1, p.count / p.ranks);
          if (!algorithm.accepts(p, map)) continue;
          const std::vector<int32_t> choices = algorithm.chunkChoices(p, map, fabric);
          const int32_t chunks = std::min(choices[static_cast<size_t>(combination) % choices.size()], 6);
          const std::unique_ptr<Plan> plan = algorithm.make(p, map, {chunks});
          const std::string text = base::strCat(algorithm.name, ", ", chunks, " chunks, ", fabric.name, ", ",
                                                kArrivals[arrival], ": ", problemText(p));
          const std::vector<int64_t> arrivals = arrivalsOf(arrival, map, rng);
          PlanTimerOptions options;
          const StatusOr<PlanTiming> folded = timePlan(*plan, fabric, arrivals, options);
          options.fold = false;
          const StatusOr<PlanTiming> whole = timePlan(*plan, fabric, arrivals, options);
          EXPECT_TRUE(folded.ok() && whole.ok()) << text << folded.status().toString() << whole.status().toString();
          if (!folded.ok() || !whole.ok()) return result;
          EXPECT_EQ(folded->endPs, whole->endPs) << text;
          ++result.plans;
          if (arrival != 0) continue;
          result.classes += folded->classes;
          result.ranks += map.ranks();
        }
      }
    }
  }
  return result;
}

constexpr int64_t kKilo = 1 << 10, kMega = 1 << 20, kGiga = 1 << 30;

TEST(PlansFold, TwoNodes) {
  for (const Target target : {Target::kGaudi1, Target::kGaudi3})
    EXPECT_GT(compare(standardFabric(target, 2), {kKilo, 64 * kKilo, kMega, 32 * kMega, kGiga}, 1).plans, 50);
}

TEST(PlansFold, EightNodes) {
  EXPECT_GT(compare(standardFabric(Target::kGaudi2, 8), {kKilo, kMega, kGiga}, 1).plans, 50);
}

TEST(PlansFold, ThirtyTwoNodes) {
  const Compared compared = compare(standardFabric(Target::kGaudi3, 32), {kKilo, kMega, kGiga}, 4);
  EXPECT_GT(compared.plans, 10);
}

TEST(PlansFold, SharedRailsLeavesAndASlowNode) {
  Fabric f = standardFabric(Target::kGaudi2, 6);
  f.name += ", four rails, leaves of two";
  f.rails = 4;
  f.nodesPerLeaf = 2;
  f.oversubscription = 1.5;
  compare(f, {kKilo, kMega, kGiga}, 3);
  f.name += ", a slow node";
  f.exceptions = {{.node = 4, .rate = 0.5, .railsDown = {1}, .devices = {}}};
  compare(f, {kKilo, kMega, kGiga}, 3);
}

}  // namespace
}  // namespace hpu::collectives::test
