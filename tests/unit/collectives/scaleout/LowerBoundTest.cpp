// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "TimerPlans.h"
#include "collectives/schedule/Timing.h"

namespace hpu::collectives::test {
namespace {

Problem problemOf(Collective collective, int32_t ranks, int64_t count) {
  Problem p;
  p.collective = collective;
  p.ranks = ranks;
  p.count = count;
  p.elementBytes = 4;
  p.root = 1;
  p.destination = ranks - 1;
  return p;
}

TEST(ScaleoutLowerBound, OfOneNodeIsThatOfItsSchedules) {
  for (const Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
    const Fabric f = standardFabric(target, 4);
    for (int32_t ranks = 1; ranks <= 8; ++ranks) {
      std::vector<Place> places;
      for (int32_t r = 0; r < ranks; ++r) places.push_back({2, 7 - r});
      const RankMap map = RankMap::create(f, places).value();
      for (int kind = 0; kind < kNumCollectives; ++kind) {
        Problem p = problemOf(static_cast<Collective>(kind), ranks, 1 << 22);
        p.root = 0;
        EXPECT_EQ(lowerBoundPs(p, map, f), lowerBoundPs(p, f.mesh)) << problemText(p);
      }
    }
  }
}

// bytes of S over GB/s, in ps.
double psOf(double bytes, double gigabytesPerSecond) {
  return bytes / gigabytesPerSecond * 1000;
}

TEST(ScaleoutLowerBound, OfStandardNodesIsThePublishedRatesWorth) {
  struct Row {
    Target target;
    double link, rail;  // GB/s.
  };
  for (const Row& row : {Row{Target::kGaudi1, 12.5, 37.5}, {Target::kGaudi2, 37.5, 37.5}, {Target::kGaudi3, 75, 75}}) {
    for (const int32_t nodes : {2, 3, 16, 128}) {
      const Fabric f = standardFabric(row.target, nodes);
      const RankMap map = RankMap::all(f).value();
      const double n = nodes, ranks = 8 * n, share = (n - 1) / n, b = row.link, o = row.rail;
      const auto expect = [&](Collective collective, double ps) {
        const Problem p = problemOf(collective, 8 * nodes, 1 << 20);
        EXPECT_NEAR(static_cast<double>(lowerBoundPs(p, map, f)), ps, 2) << problemText(p);
      };
      const double s = 4 << 20, all = ranks * s;
      expect(Collective::kAllReduce, std::max(psOf(2 * s, 8 * b), psOf(2 * share * s, 8 * o)));
      expect(Collective::kReduceScatter, std::max(psOf(all, 8 * b), psOf(share * all, 8 * o)));
      expect(Collective::kAllGather, std::max(psOf(all, 8 * b), psOf(share * all, 8 * o)));
      expect(Collective::kAllToAll, std::max(psOf(s, b), psOf((ranks - 8) * s, o)));
      expect(Collective::kBroadcast, std::max(psOf(s, 7 * b), psOf(s, 8 * o)));
      expect(Collective::kReduce, std::max(psOf(s, 7 * b), psOf(s, 8 * o)));
      // The root's node takes the others' parts by eight rails, the root by its links and its own rail.
      const double gather = std::max({psOf((ranks - 8) * s, 8 * o), psOf((ranks - 1) * s, 7 * b + o), psOf(s, b)});
      expect(Collective::kGather, gather);
      expect(Collective::kScatter, gather);
      expect(Collective::kPointToPoint, std::max(psOf(s, 7 * b + o), psOf(s, 8 * o)));
      expect(Collective::kBarrier, 0);
    }
  }
}

TEST(ScaleoutLowerBound, OfUnequalNodesIsTheSlowestsOrAllTogethers) {
  Fabric f = roundFabric(3, 8, 8);  // Rails of 1 GB/s, links of 2.
  const auto bound = [&](Collective collective, const std::vector<Place>& places) {
    const RankMap map = RankMap::create(f, places).value();
    return lowerBoundPs(problemOf(collective, map.ranks(), 1000), map, f);
  };
  // One rank and two: all of the sum has to leave the first by its one rail.
  EXPECT_EQ(bound(Collective::kAllReduce, {{0, 0}, {1, 0}, {1, 1}}), 4'000'000);
  // The two ranks' parts come to the first, or its own would leave it.
  EXPECT_EQ(bound(Collective::kAllGather, {{0, 0}, {1, 0}, {1, 1}}), 8'000'000);
  EXPECT_EQ(bound(Collective::kAllToAll, {{0, 0}, {1, 0}, {1, 1}}), 8'000'000);
  // Two ranks that share a rail have one.
  f.rails = 4;
  EXPECT_EQ(bound(Collective::kAllReduce, {{0, 0}, {0, 1}, {1, 0}, {1, 1}}), 4'000'000);
  EXPECT_EQ(bound(Collective::kAllReduce, {{0, 0}, {0, 2}, {1, 0}, {1, 2}}), 2'000'000);
  // A slow node: its rails, and its mesh.
  f.exceptions = {{.node = 1, .rate = 0.25, .railsDown = {}, .devices = {}}};
  EXPECT_EQ(bound(Collective::kBroadcast, {{0, 0}, {0, 2}, {1, 0}, {1, 2}}), 8'000'000);
  EXPECT_EQ(bound(Collective::kAllReduce, {{1, 0}, {1, 2}}), 8'000'000);
  // Rails that are down carry nothing.
  f.exceptions = {{.node = 1, .rate = 1, .railsDown = {0, 2, 3}, .devices = {}}};
  EXPECT_EQ(bound(Collective::kBroadcast, {{0, 0}, {0, 4}, {1, 0}, {1, 2}, {1, 4}}), 4'000'000);
}

TEST(ScaleoutLowerBound, UplinksBoundWhatLeavesALeaf) {
  Fabric f = roundFabric(4, 2, 2);
  const RankMap map = RankMap::all(f).value();
  const Problem p = problemOf(Collective::kAllToAll, 8, 1000);
  EXPECT_EQ(lowerBoundPs(p, map, f), 6 * 4'000'000);
  f.nodesPerLeaf = 2;
  EXPECT_EQ(lowerBoundPs(p, map, f), 6 * 4'000'000);
  f.oversubscription = 4;  // Four ranks send four messages each, by two rails' uplinks of half a rail each.
  EXPECT_EQ(lowerBoundPs(p, map, f), 16 * 4'000'000);
}

}  // namespace
}  // namespace hpu::collectives::test
