// SPDX-License-Identifier: Apache-2.0
// Every registered algorithm, as it is: one rank a class has the times of all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
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

/// By hand and in the long test: every combination, of every number of chunks that an algorithm proposes.
bool isExhaustive() {
  return std::getenv("HPU_SCALEOUT_ALL") != nullptr;
}

// Gives how many plans there were. `every`: of sizes and arrivals, every so many combinations of each algorithm and
// operation, in turn, with one number of chunks each, of which there are not many.
int compare(const Fabric& fabric, const RankMap& map, const std::vector<int64_t>& sizes, int every) {
  if (isExhaustive()) every = 1;
  std::mt19937 rng(static_cast<uint32_t>(map.ranks()));
  int plans = 0;
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
          std::vector<int32_t> choices = algorithm.chunkChoices(p, map, fabric);
          if (!isExhaustive()) choices = {std::min(choices[static_cast<size_t>(combination) % choices.size()], 6)};
          for (const int32_t chunks : choices) {
            const std::unique_ptr<Plan> plan = algorithm.make(p, map, {chunks});
            const std::string text = base::strCat(algorithm.name, ", ", chunks, " chunks, ", fabric.name, ", ",
                                                  kArrivals[arrival], ": ", problemText(p));
            const std::vector<int64_t> arrivals = arrivalsOf(arrival, map, rng);
            PlanTimerOptions options;
            const StatusOr<PlanTiming> folded = timePlan(*plan, fabric, arrivals, options);
            options.fold = false;
            const StatusOr<PlanTiming> whole = timePlan(*plan, fabric, arrivals, options);
            EXPECT_TRUE(folded.ok() && whole.ok()) << text << folded.status().toString() << whole.status().toString();
            if (!folded.ok() || !whole.ok()) return plans;
            EXPECT_EQ(folded->endPs, whole->endPs) << text;
            ++plans;
            if (arrival != 0 || map.ranksPerNode() == 0) continue;
            // Headers alone are 2 %.
            const int64_t end = *std::max_element(folded->endPs.begin(), folded->endPs.end());
            EXPECT_LE(static_cast<double>(lowerBoundPs(p, map, fabric)), 0.98 * static_cast<double>(end)) << text;
          }
        }
      }
    }
  }
  return plans;
}

int compare(const Fabric& fabric, const std::vector<int64_t>& sizes, int every) {
  return compare(fabric, RankMap::all(fabric).value(), sizes, every);
}

/// Nodes with as many ranks as said: the map that `rails-uneven` is for.
int compareUneven(const Fabric& fabric, const std::vector<int32_t>& ranksOfNodes, const std::vector<int64_t>& sizes,
                  int every) {
  std::vector<Place> places;
  for (size_t n = 0; n < ranksOfNodes.size(); ++n)
    for (int32_t l = 0; l < ranksOfNodes[n]; ++l) places.push_back({static_cast<int32_t>(n), l});
  return compare(fabric, RankMap::create(fabric, places).value(), sizes, every);
}

constexpr int64_t kKilo = 1 << 10, kMega = 1 << 20, kGiga = 1 << 30;

TEST(PlansFold, TwoNodes) {
  for (const Target target : {Target::kGaudi1, Target::kGaudi3})
    EXPECT_GT(compare(standardFabric(target, 2), {kKilo, 64 * kKilo, kMega, 32 * kMega, kGiga}, 1), 50);
}

TEST(PlansFold, EightNodes) {
  EXPECT_GT(compare(standardFabric(Target::kGaudi2, 8), {kKilo, kMega, kGiga}, 1), 50);
}

TEST(PlansFold, ThirtyTwoNodes) {
  EXPECT_GT(compare(standardFabric(Target::kGaudi3, 32), {kKilo, kMega, kGiga}, 4), 10);
}

TEST(PlansFold, NodesOfDifferentSizes) {
  EXPECT_GT(compareUneven(standardFabric(Target::kGaudi3, 2), {8, 5}, {kKilo, kMega, kGiga}, 1), 50);
  EXPECT_GT(compareUneven(standardFabric(Target::kGaudi1, 8), {4, 4, 3, 4, 4, 3, 4, 1}, {kKilo, kGiga}, 4), 10);
  if (!isExhaustive()) return;
  std::vector<int32_t> sizes(32, 4);
  sizes[7] = sizes[31] = 3;
  EXPECT_GT(compareUneven(standardFabric(Target::kGaudi2, 32), sizes, {kKilo, kMega, kGiga}, 1), 100);
}

TEST(PlansFold, SharedRailsLeavesAndASlowNode) {
  Fabric f = standardFabric(Target::kGaudi2, 6);
  f.name += ", four rails, leaves of two";
  f.rails = 4;
  f.nodesPerLeaf = 2;
  f.oversubscription = 1.5;
  EXPECT_GT(compare(f, {kKilo, kMega, kGiga}, 3), 10);
  f.name += ", a slow node";
  f.exceptions = {{.node = 4, .rate = 0.5, .railsDown = {1}, .devices = {}}};
  EXPECT_GT(compare(f, {kKilo, kMega, kGiga}, 3), 10);
}

// Several communicators' operations at a time, each of some nodes' or slots' devices.
TEST(PlansTogether, NoMixOfOperationsExceedsAPort) {
  std::mt19937 rng(7);
  const auto upTo = [&](int32_t n) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(n)); };
  for (int round = 0; round < 60; ++round) {
    Fabric f = standardFabric(round % 2 ? Target::kGaudi2 : Target::kGaudi3, 4);
    if (upTo(2)) f.rails = 4;
    if (upTo(2)) {
      f.nodesPerLeaf = 2;
      f.oversubscription = 1 + upTo(3);
    }
    std::vector<std::unique_ptr<RankMap>> maps;
    std::vector<std::unique_ptr<Plan>> plans;
    std::vector<TimedOperation> operations;
    std::string text = base::strCat("round ", round);
    while (operations.size() < 4) {
      std::vector<Place> places;
      const int32_t firstNode = upTo(3), nodes = 1 + upTo(4 - firstNode), firstSlot = upTo(7);
      for (int32_t node = firstNode; node < firstNode + nodes; ++node)
        for (int32_t slot = firstSlot; slot < 8; ++slot) places.push_back({node, slot});
      maps.push_back(std::make_unique<RankMap>(RankMap::create(f, places).value()));
      Problem p;
      p.collective = static_cast<Collective>(upTo(kNumCollectives));
      p.ranks = maps.back()->ranks();
      p.count = 1 << upTo(20);
      p.destination = p.ranks - 1;
      const PlanAlgorithm& algorithm = planAlgorithms()[rng() % planAlgorithms().size()];
      if (!algorithm.accepts(p, *maps.back())) continue;
      plans.push_back(algorithm.make(p, *maps.back(), {1 + upTo(3)}));
      text += base::strCat("; ", algorithm.name, ": ", problemText(p));
      operations.push_back({plans.back().get(), arrivalsOf(upTo(4), *maps.back(), rng)});
    }
    PlanTimerOptions options;
    options.wantPorts = options.wantIntervals = true;
    const auto result = timePlans(operations, f, options);
    ASSERT_TRUE(result.ok()) << text << result.status().toString();
    expectNoPortExceeded(*result, f, text);
  }
}

}  // namespace
}  // namespace hpu::collectives::test
