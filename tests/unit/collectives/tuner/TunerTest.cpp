// SPDX-License-Identifier: Apache-2.0
#include "collectives/tuner/Tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "collectives/algorithms/Registry.h"
#include "collectives/schedule/Check.h"
#include "tests/unit/base/ForkOften.h"

namespace hpu::collectives {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Target kTargets[] = {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3};

// `bytes` as benchmarks count them.
Problem problemOf(Collective collective, int32_t ranks, int64_t bytes) {
  Problem p{collective, ranks, bytes / 4};
  if (problemBytes(p) != bytes) p.count /= ranks;
  if (collective == Collective::kBarrier) p.count = 0;
  p.destination = ranks - 1;
  return p;
}

StatusOr<std::shared_ptr<const Choice>> chosen(const Problem& p, Target target = Target::kGaudi3,
                                               const std::string& table = {}) {
  return Tuner(linkModel(target), TunerTable::parse(table, "t.table").value()).choose(p);
}

double busGBs(const Choice& choice) {
  const Problem& p = choice.schedule->problem;
  double n = p.ranks, factor = 1;
  if (p.collective == Collective::kAllReduce) factor = 2 * (n - 1) / n;
  if (problemBytes(p) != p.count * p.elementBytes) factor = (n - 1) / n;
  return factor * static_cast<double>(problemBytes(p)) * 1000 / static_cast<double>(choice.predictedPs);
}

TEST(Tuner, ChoosesCheckedSchedulesNearTheBestOfAll) {
  for (int32_t ranks : {1, 2, 3, 5, 8})
    for (int c = 0; c < kNumCollectives; ++c)
      for (int64_t bytes : {0, 1 << 10, 64 << 10, 1 << 20, 16 << 20}) {
        Problem p = problemOf(static_cast<Collective>(c), ranks, bytes);
        auto choice = chosen(p);
        ASSERT_TRUE(choice.ok()) << problemText(p) << ": " << choice.status().toString();
        EXPECT_EQ((*choice)->schedule->problem, p);
        EXPECT_EQ(checkSchedule(*(*choice)->schedule).message(), "");
        EXPECT_EQ((*choice)->predictedPs, predictPs(*(*choice)->schedule, linkModel(Target::kGaudi3)));
        EXPECT_EQ((*choice)->predictedPs, (*choice)->timer->predictPs());
        EXPECT_LE(0.998 * static_cast<double>((*choice)->predictedPs),
                  static_cast<double>((*choice)->candidates[0].predictedPs));
        EXPECT_GE((*choice)->predictedPs, (*choice)->lowerBoundPs);
        if (bytes == 64 << 10) continue;
        const LinkModel& links = linkModel(Target::kGaudi3);
        int64_t best = INT64_MAX;
        for (const Algorithm& a : algorithms())
          if (a.accepts(p))
            for (int32_t slices : a.sliceChoices(p))
              best = std::min(best, predictPs(a.make(p, {slices, links.hopBytes()}), links));
        EXPECT_LE(static_cast<double>((*choice)->predictedPs), 1.03 * static_cast<double>(best))
            << problemText(p) << ": " << choiceText(**choice);
      }
}

TEST(Tuner, PricesFew) {
  // What the first call costs: steps of all that was made.
  for (int c = 0; c < kNumCollectives; ++c)
    for (int64_t bytes = 1 << 10; bytes <= int64_t{4} << 30; bytes *= 4) {
      Problem p = problemOf(static_cast<Collective>(c), 8, bytes);
      StatusOr<Choice> choice = makeChoice(p, linkModel(Target::kGaudi3), nullptr);
      ASSERT_TRUE(choice.ok());
      int64_t steps = 0;
      for (const Candidate& candidate : choice->candidates) {
        StatusOr<const Algorithm*> algorithm = findAlgorithm(candidate.algorithm, p);
        ASSERT_TRUE(algorithm.ok());
        steps += static_cast<int64_t>((*algorithm)->make(p, {candidate.slices}).steps.size());
      }
      EXPECT_LE(steps, bytes < 64 << 20 ? 9'000 : 24'000) << problemText(p);
      EXPECT_LE(choice->candidates.size(), 12u);
    }
}

TEST(Tuner, KeepsItsChoicesAndSharesThemInTheProcess) {
  Problem p = problemOf(Collective::kAllReduce, 8, 4096);
  Tuner first(linkModel(Target::kGaudi3)), second(linkModel(Target::kGaudi3));
  Tuner other(linkModel(Target::kGaudi2));
  std::shared_ptr<const Choice> choice = first.choose(p).value();
  EXPECT_EQ(first.choose(p).value(), choice);
  EXPECT_EQ(second.choose(p).value(), choice);
  EXPECT_NE(other.choose(p).value(), choice);
  Tuner ruled(linkModel(Target::kGaudi3), TunerTable::parse("* * * 0 * ring 1", "t").value());
  EXPECT_NE(ruled.choose(p).value(), choice);
  EXPECT_EQ(first.tableHash(), 0u);
  EXPECT_NE(ruled.tableHash(), 0u);
}

TEST(Tuner, ForgetsTheLeastRecentlyUsed) {
  LinkModel links = linkModel(Target::kGaudi3);
  Tuner tuner(links);
  Problem kept = problemOf(Collective::kBroadcast, 2, 64), gone = kept;
  gone.count = 17;
  std::shared_ptr<const Choice> first = tuner.choose(kept).value();
  std::weak_ptr<const Choice> old = tuner.choose(gone).value();
  for (int64_t count = 1000; count < 6000; ++count) {
    Problem p = kept;
    p.count = count;
    ASSERT_TRUE(tuner.choose(p).ok());
    if (count % 500 == 0) {
      EXPECT_EQ(tuner.choose(kept).value(), first);
    }
  }
  EXPECT_TRUE(old.expired());
  EXPECT_EQ(tuner.choose(kept).value(), first);
}

TEST(Tuner, ManyThreadsGetOneChoice) {
  LinkModel links = linkModel(Target::kGaudi1);
  Tuner tuner(links);
  Problem p = problemOf(Collective::kAllReduce, 8, 1 << 20);
  std::vector<std::shared_ptr<const Choice>> got(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      got[i] = tuner.choose(p).value();
      for (int64_t count = 1; count < 50; ++count) {
        Problem q = problemOf(Collective::kReduce, 3, 4 * count);
        EXPECT_TRUE(tuner.choose(q).ok());
      }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& choice : got) EXPECT_EQ(choice, got[0]);
}

TEST(Tuner, SaysWhy) {
  auto choice = chosen(problemOf(Collective::kAllReduce, 8, 32 << 20)).value();
  EXPECT_THAT(choice->reason, StartsWith("mesh, 4 slices: 116 us; next "));
  EXPECT_THAT(choiceText(*choice), HasSubstr("limit of the links 112 us"));
  EXPECT_THAT(choiceText(*choice), HasSubstr("  ring, 1 slice: "));
}

TEST(Tuner, DoesNotCutMoreFinelyForNothing) {
  for (int32_t ranks : {2, 3, 8})
    for (int c = 0; c < kNumCollectives; ++c)
      for (int64_t bytes : {1 << 20, 4 << 20, 64 << 20, 256 << 20}) {
        auto choice = chosen(problemOf(static_cast<Collective>(c), ranks, bytes)).value();
        for (const Candidate& other : choice->candidates)
          if (other.algorithm == choice->schedule->algorithm && other.slices < choice->schedule->slices) {
            EXPECT_GT(0.998 * static_cast<double>(other.predictedPs), static_cast<double>(choice->predictedPs))
                << choiceText(*choice);
          }
      }
}

TEST(Tuner, ARuleOverrides) {
  Problem p = problemOf(Collective::kAllReduce, 8, 32 << 20);
  auto choice = chosen(p, Target::kGaudi3, "# x\nall-reduce * * 0 * ring 2\n").value();
  EXPECT_EQ(choice->schedule->algorithm, "ring");
  EXPECT_EQ(choice->schedule->slices, 2);
  EXPECT_THAT(choice->reason, HasSubstr("ring, 2 slices: "));
  EXPECT_THAT(choice->reason, HasSubstr("(rule at t.table:2)"));
  // The best number of slices for the algorithm.
  choice = chosen(p, Target::kGaudi3, "all-reduce * * 0 * mesh *\n").value();
  EXPECT_EQ(choice->schedule->slices, chosen(p).value()->schedule->slices);
  // Not for other sizes.
  choice = chosen(p, Target::kGaudi3, "all-reduce * * 0 1M ring 2\n").value();
  EXPECT_EQ(choice->schedule->algorithm, "mesh");
}

TEST(Tuner, ARuleThatCannotBeFollowedIsAnError) {
  auto choice = chosen(problemOf(Collective::kAllToAll, 8, 4096), Target::kGaudi3, "\n* * * 0 * ring 1\n");
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(choice.status().message(),
              StartsWith("t.table:2: no algorithm 'ring' for all-to-all on 8 ranks; there are: "));
}

TEST(Tuner, AProblemThatNothingSolvesIsAnError) {
  Problem p = problemOf(Collective::kAllReduce, 4, 4096);
  p.root = 9;
  EXPECT_EQ(chosen(p).status().code(), StatusCode::kUnimplemented);
}

// --- Figures: what the algorithms reach on our model ---

TEST(Tuner, MeetsTheTwoPublishedRowsItIsCalibratedOn) {
  // docs.habana.ai, Collectives Performance: Gaudi 3, 8 devices, f32.
  double allReduce = busGBs(*chosen(problemOf(Collective::kAllReduce, 8, 256 << 20)).value());
  EXPECT_NEAR(allReduce, 512.957, 0.01 * 512.957);
  double allGather = busGBs(*chosen(problemOf(Collective::kAllGather, 8, 128 << 20)).value());
  EXPECT_NEAR(allGather, 509.189, 0.01 * 509.189);
}

TEST(Tuner, ReachesTheLimitOfTheLinksButForTheHeaders) {
  for (Target target : kTargets)
    for (int32_t ranks : {2, 4, 8})
      for (Collective collective :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll,
            Collective::kBroadcast, Collective::kReduce, Collective::kPointToPoint}) {
        for (int64_t bytes : {int64_t{64} << 10, int64_t{256} << 20, int64_t{1} << 30, int64_t{1} << 40}) {
          StatusOr<Choice> choice = makeChoice(problemOf(collective, ranks, bytes), linkModel(target), nullptr);
          ASSERT_TRUE(choice.ok());
          double share = static_cast<double>(choice->lowerBoundPs) / static_cast<double>(choice->predictedPs);
          EXPECT_LT(share, 0.99) << targetName(target) << " " << choiceText(*choice);
          if (bytes >= 256 << 20) {
            EXPECT_GE(share, 0.96) << targetName(target) << " " << choiceText(*choice);
          }
        }
      }
}

TEST(Tuner, AForkedChildChoosesWhileItsParentDoes) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  Tuner parents(linkModel(Target::kGaudi3));
  std::atomic<int64_t> bytes{1 << 20};
  auto choose = [&] { EXPECT_TRUE(parents.choose(problemOf(Collective::kAllReduce, 8, bytes += 4096)).ok()); };
  choose();
  base::BusyThreads threads({choose, choose});
  base::forkOften(100, [&] {
    // What the parent's threads are about to choose.
    Tuner own(linkModel(Target::kGaudi3));
    for (int64_t i = 0; i < 4; ++i)
      if (!own.choose(problemOf(Collective::kAllReduce, 8, bytes + i * 4096)).ok()) return 1;
    return 0;
  });
}

}  // namespace
}  // namespace hpu::collectives
