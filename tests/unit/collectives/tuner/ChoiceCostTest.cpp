// SPDX-License-Identifier: Apache-2.0
// What the whole choice of a rank costs among 1,024 ranks, in counts and bytes: what a communicator does when an
// operation is called for the first time. Never in time: benchmarks/collectives/ChoiceCost.cpp prints that.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "base/Format.h"
#include "collectives/scaleout/PlanClock.h"
#include "collectives/tuner/Tuner.h"

namespace {

std::atomic<int64_t> gLive{0}, gMost{0}, gAll{0};

}  // namespace

// Sanitizers have operators of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HPU_COUNTS_BYTES
namespace {

constexpr size_t kHeader = 16;  // Keeps the alignment of what follows it.

}  // namespace

// Not where they are called: the compiler takes new and free for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* memory = std::malloc(bytes + kHeader);
  if (!memory) throw std::bad_alloc();
  *static_cast<std::size_t*>(memory) = bytes;
  const auto size = static_cast<int64_t>(bytes);
  gAll += size;
  const int64_t live = gLive += size;
  if (live > gMost) gMost = live;  // Choices are made by one thread here.
  return static_cast<char*>(memory) + kHeader;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (!memory) return;
  char* begin = static_cast<char*>(memory) - kHeader;
  gLive -= static_cast<int64_t>(*reinterpret_cast<std::size_t*>(begin));
  std::free(begin);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}
#endif

namespace hpu::collectives {
namespace {

using base::strCat;

// The bounds of docs/scaleout.md, of any problem and rank.
constexpr int64_t kMostSteps = 35'000, kMostSimulated = 40'000, kMostPeers = 16'000, kMostBytes = 10'000'000;

struct Cost {
  ChoiceWork work;
  int64_t ownSteps = 0, mostBytes = 0, allBytes = 0;
};

/// As CommunicatorState::choose: the choice, and what the operation takes of the rank's ports.
Cost costOf(const std::shared_ptr<const Cluster>& cluster, int32_t rank, const Problem& problem,
            const std::string& table = "") {
  Tuner tuner(cluster, rank, TunerTable::parse(table, "t.table").value());
  const int64_t before = gLive, allBefore = gAll;
  gMost = before;
  const auto choice = tuner.choose(problem);
  EXPECT_TRUE(choice.ok()) << choice.status().toString();
  if (!choice.ok()) return {};
  (*choice)->timer->use(rank);
  return {(*choice)->work, static_cast<int64_t>((*choice)->schedule->steps.size()), gMost - before, gAll - allBefore};
}

class Bounds {
 public:
  void check(const std::shared_ptr<const Cluster>& cluster, const std::string& where, const std::string& table = "") {
    const int32_t ranks = cluster->map.ranks();
    for (int c = 0; c < kNumCollectives; ++c)
      for (int64_t bytes = 1 << 10; bytes <= (int64_t{1} << 30); bytes *= 32) {
        Problem p{static_cast<Collective>(c), ranks, bytes / 4};
        if (problemBytes(p) > bytes) p.count = std::max<int64_t>(1, p.count / ranks);
        p.root = ranks / 3;
        p.destination = ranks - 1;
        for (const int32_t rank : {p.root, ranks - 1}) {
          const Cost cost = costOf(cluster, rank, p, table);
          const std::string text =
              strCat(where, ", rank ", rank, ": ", problemText(p), ": ", cost.work.steps, " steps written (",
                     cost.ownSteps, " its own), ", cost.work.simulated, " simulated, ", cost.work.peers, " peers, ",
                     cost.mostBytes, " bytes at a time, ", cost.allBytes, " in all");
          if (std::getenv("HPU_CHOICE_COSTS")) std::puts(text.c_str());
          EXPECT_GT(cost.work.estimates, 0) << text;
          EXPECT_GE(cost.work.steps, cost.ownSteps) << text;
          EXPECT_LE(cost.work.steps, kMostSteps) << text;
          EXPECT_LE(cost.work.simulated, kMostSimulated) << text;
          EXPECT_LE(cost.work.peers, kMostPeers) << text;
          EXPECT_LE(cost.mostBytes, kMostBytes) << text;
          most_ = std::max(most_, cost.mostBytes);
          ++checked_;
        }
      }
  }
  ~Bounds() {
    EXPECT_GT(checked_, 0);
#ifdef HPU_COUNTS_BYTES
    EXPECT_GT(most_, 100'000);  // They are counted.
#endif
    ::testing::Test::RecordProperty("most_bytes", std::to_string(most_));
  }

 private:
  int64_t most_ = 0;
  int checked_ = 0;
};

std::shared_ptr<const Cluster> clusterOf(const Fabric& fabric, const std::vector<int32_t>& sizes) {
  std::vector<Place> places;
  for (size_t n = 0; n < sizes.size(); ++n)
    for (int32_t l = 0; l < sizes[n]; ++l) places.push_back({static_cast<int32_t>(n), l});
  return std::make_shared<const Cluster>(Cluster{fabric, RankMap::create(fabric, places).value()});
}

TEST(ChoiceAmong1024Ranks, KeepsItsBounds) {
  Bounds bounds;
  for (const Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3})
    bounds.check(clusterOf(standardFabric(target, 128), std::vector<int32_t>(128, 8)), std::string(targetName(target)));
}

TEST(ChoiceAmong1024Ranks, KeepsThemWhereFewRanksAreAlike) {
  Bounds bounds;
  Fabric fabric = standardFabric(Target::kGaudi3, 128);
  fabric.exceptions = {{.node = 77, .rate = 0.5, .railsDown = {2}, .devices = {}}};
  bounds.check(clusterOf(fabric, std::vector<int32_t>(128, 8)), "a slow node");
  fabric.exceptions.clear();
  fabric.nodesPerLeaf = 16;
  fabric.oversubscription = 2;
  bounds.check(clusterOf(fabric, std::vector<int32_t>(128, 8)), "leaves");
}

TEST(ChoiceAmong1024Ranks, KeepsThemAmongNodesOfDifferentSizes) {
  Bounds bounds;
  std::vector<int32_t> sizes(128, 8);
  sizes.back() = 5;
  bounds.check(clusterOf(standardFabric(Target::kGaudi3, 128), sizes), "127 x 8 + 5");
  for (size_t n = 0; n < 64; ++n) sizes[n] = 7;
  bounds.check(clusterOf(standardFabric(Target::kGaudi2, 128), sizes), "64 x 7 + 63 x 8 + 5");
}

TEST(ChoiceAmong1024Ranks, KeepsThemWithARule) {
  Bounds bounds;
  const auto cluster = clusterOf(standardFabric(Target::kGaudi3, 128), std::vector<int32_t>(128, 8));
  bounds.check(cluster, "by a rule",
               "reduce * * 0 * rails-tree 1024\nbroadcast * * 0 * rails-tree *\nall-reduce * * 0 * rails 8\n");
}

// What is too expensive to simulate for a choice is exact afterwards.
TEST(ChoiceAmong1024Ranks, OfAnEstimateTheTimerKnowsTheTime) {
  const auto cluster = clusterOf(standardFabric(Target::kGaudi3, 128), std::vector<int32_t>(128, 8));
  Problem p{Collective::kReduce, 1024, 1 << 24};
  const auto choice = Tuner(cluster, 9).choose(p).value();
  ASSERT_TRUE(choice->estimated) << choice->reason;
  EXPECT_EQ(choice->work.simulated, 0);
  EXPECT_EQ(choice->timer->steps(), 0u);
  const auto plan = findPlanAlgorithm(choice->schedule->algorithm, p, cluster->map)
                        .value()
                        ->make(p, cluster->map, {choice->schedule->slices});
  const std::vector<int64_t> expected = timePlan(*plan, cluster->fabric).value().endPs;
  std::vector<int64_t> ends;
  choice->timer->endPs(std::vector<int64_t>(1024, 0), {}, ends);
  EXPECT_EQ(ends, expected);
  EXPECT_EQ(choice->timer->predictPs(), *std::max_element(expected.begin(), expected.end()));
  EXPECT_GT(choice->timer->steps(), 0u);
  // It is not off by more than the doubt that a choice has of it.
  EXPECT_NEAR(static_cast<double>(choice->predictedPs), static_cast<double>(choice->timer->predictPs()),
              0.25 * static_cast<double>(choice->timer->predictPs()));
}

}  // namespace
}  // namespace hpu::collectives
