// SPDX-License-Identifier: Apache-2.0
// How near the best algorithm of each collective comes to what the links allow. Device time is
// exact, so that it may be held to bars.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/Format.h"
#include "collectives/algorithms/Registry.h"
#include "collectives/schedule/Timing.h"

namespace hpu::collectives {
namespace {

constexpr Target kTargets[] = {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3};
constexpr int64_t kMiB = int64_t{1} << 20;

/// Of f32, `bytes` of all ranks together.
Problem problem(Collective collective, int ranks, int64_t bytes) {
  Problem p;
  p.collective = collective;
  p.ranks = ranks;
  p.count = bytes / 4;
  if (collective == Collective::kReduceScatter || collective == Collective::kAllGather ||
      collective == Collective::kAllToAll || collective == Collective::kScatter || collective == Collective::kGather)
    p.count /= ranks;
  p.destination = ranks - 1;
  return p;
}

int64_t bestPs(const Problem& p, const LinkModel& links) {
  int64_t best = INT64_MAX;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.accepts(p)) continue;
    for (const int32_t slices : algorithm.sliceChoices(p))
      best = std::min(best, predictPs(algorithm.make(p, {slices, links.hopBytes()}), links));
  }
  return best;
}

double share(const Problem& p, const LinkModel& links) {
  return static_cast<double>(lowerBoundPs(p, links)) / static_cast<double>(bestPs(p, links));
}

std::string name(const Problem& p, Target target) {
  return base::strCat(targetName(target), ": ", problemText(p));
}

TEST(DeviceTime, LargeDataComesNearTheLimitOfTheLinksOnAnyNumberOfDevices) {
  for (const Target target : kTargets)
    for (int ranks = 2; ranks <= 8; ranks++) {
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll}) {
        const Problem p = problem(collective, ranks, 256 * kMiB);
        EXPECT_GE(share(p, linkModel(target)), 0.965) << name(p, target);
      }
      for (const Collective collective : {Collective::kBroadcast, Collective::kReduce, Collective::kPointToPoint}) {
        const Problem p = problem(collective, ranks, 256 * kMiB);
        EXPECT_GE(share(p, linkModel(target)), 0.95) << name(p, target);
      }
    }
}

TEST(DeviceTime, NoSizeIsFasterThanTheWires) {
  for (const Target target : kTargets)
    for (const int ranks : {2, 3, 8})
      for (int c = 0; c < kNumCollectives; c++)
        for (const int64_t bytes : {int64_t{1} << 10, kMiB, 16 * kMiB, 1024 * kMiB}) {
          const Problem p = problem(static_cast<Collective>(c), ranks, bytes);
          EXPECT_LE(share(p, linkModel(target)), 0.99) << name(p, target);
        }
}

// The latency of small data: starting, one message, and what is done with it.
TEST(DeviceTime, SmallDataTakesOneMessage) {
  for (const Target target : kTargets) {
    const LinkModel& links = linkModel(target);
    const int64_t message = links.startPs + links.linkPs(1024) + links.messagePs;
    for (const int ranks : {2, 4, 8}) {
      EXPECT_EQ(bestPs(problem(Collective::kBroadcast, ranks, 1024), links), message);
      EXPECT_EQ(bestPs(problem(Collective::kPointToPoint, ranks, 1024), links), message);
      // All contributions, the sum, and the sum from scratch to the output.
      EXPECT_EQ(bestPs(problem(Collective::kAllReduce, ranks, 1024), links),
                message + links.reducePs((ranks + 1) * 1024) + links.copyPs(2 * 1024));
    }
  }
}

TEST(DeviceTime, MoreDataTakesLonger) {
  for (const Target target : kTargets)
    for (const int ranks : {8})
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll,
            Collective::kBroadcast, Collective::kReduce, Collective::kPointToPoint}) {
        int64_t last = 0;
        for (int64_t bytes = 1 << 10; bytes <= 16 * kMiB; bytes *= 2) {
          const Problem p = problem(collective, ranks, bytes);
          const int64_t now = bestPs(p, linkModel(target));
          EXPECT_GT(now, last) << name(p, target);
          last = now;
        }
      }
}

// A relay or an owner that comes late delays what waits for it by no more than it is late.
TEST(DeviceTime, ALateRankDelaysByAsMuchAsItIsLate) {
  const LinkModel& links = linkModel(Target::kGaudi3);
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; c++) {
      const Problem p = problem(static_cast<Collective>(c), 8, kMiB);
      if (!algorithm.accepts(p)) continue;
      const Schedule s = algorithm.make(p, {4, links.hopBytes()});
      const int64_t together = predictPs(s, links);
      std::vector<int64_t> arrivals(8, 0);
      arrivals[5] = 50'000'000;
      const std::vector<int64_t> ends = timeSchedule(s, links, arrivals).endPs;
      EXPECT_LE(*std::max_element(ends.begin(), ends.end()), together + arrivals[5])
          << algorithm.name << ", " << problemText(p);
    }
}

}  // namespace
}  // namespace hpu::collectives
