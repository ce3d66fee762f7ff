// SPDX-License-Identifier: Apache-2.0
// The tuner of a rank of several nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/scaleout/Choose.h"
#include "collectives/scaleout/PlanClock.h"
#include "collectives/tuner/Tuner.h"

namespace hpu::collectives {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::shared_ptr<const Cluster> clusterOf(int32_t nodes, int32_t locals) {
  Cluster cluster;
  cluster.fabric = standardFabric(Target::kGaudi3, nodes);
  std::vector<Place> places;
  for (int32_t n = 0; n < nodes; ++n)
    for (int32_t l = 0; l < locals; ++l) places.push_back({n, l});
  cluster.map = RankMap::create(cluster.fabric, places).value();
  return std::make_shared<const Cluster>(std::move(cluster));
}

Problem problemOf(Collective collective, int32_t ranks, int64_t bytes) {
  Problem p{collective, ranks, bytes / 4};
  p.destination = ranks - 1;
  return p;
}

TEST(ClusterTuner, ChoosesThePlanWithTheRanksOwnStepsAndTheTimeOfAll) {
  for (const auto& [nodes, locals] : {std::pair{2, 8}, {4, 3}, {3, 1}}) {
    const auto cluster = clusterOf(nodes, locals);
    const int32_t ranks = cluster->map.ranks();
    for (int c = 0; c < kNumCollectives; ++c)
      for (const int64_t bytes : {0, 4 << 10, 4 << 20}) {
        const Problem p = problemOf(static_cast<Collective>(c), ranks, bytes);
        const PlanChoice expected = choosePlan(p, cluster->map, cluster->fabric).value();
        const Schedule whole = assemble(*expected.plan);
        const std::vector<int64_t> ends = timePlan(*expected.plan, cluster->fabric).value().endPs;
        for (const int32_t rank : {0, ranks - 1}) {
          Tuner tuner(cluster, rank);
          const std::shared_ptr<const Choice> choice = tuner.choose(p).value();
          EXPECT_EQ(choice->schedule->problem, p);
          EXPECT_EQ(choice->schedule->algorithm, expected.plan->algorithm());
          EXPECT_EQ(choice->schedule->slices, expected.plan->chunks());
          EXPECT_EQ(choice->schedule->steps.size(), whole.ofRank[rank].size());
          EXPECT_EQ(choice->timer->predictPs(), *std::max_element(ends.begin(), ends.end()));
          EXPECT_EQ(choice->predictedPs, expected.predictedPs);
          EXPECT_EQ(choice->estimated, expected.endPs.empty());
          if (!choice->estimated) {
            EXPECT_EQ(choice->predictedPs, choice->timer->predictPs());
            EXPECT_EQ(choice->timer->use(rank)->leastPs, ends[static_cast<size_t>(rank)]);
          }
          EXPECT_EQ(choice->work.steps, expected.work.steps + static_cast<int64_t>(choice->schedule->steps.size()));
          EXPECT_EQ(choice->work.simulated, expected.work.simulated);
          EXPECT_EQ(choice->lowerBoundPs, expected.lowerBoundPs);
          EXPECT_EQ(choice->candidates.size(), expected.candidates.size());
          EXPECT_EQ(tuner.choose(p).value(), choice);
        }
      }
  }
}

TEST(ClusterTuner, SaysWhatItTimedAndWhatItEstimated) {
  const auto cluster = clusterOf(4, 8);
  const Problem p = problemOf(Collective::kAllReduce, 32, 32 << 20);
  const auto choice = Tuner(cluster, 0).choose(p).value();
  EXPECT_THAT(
      choice->reason,
      StartsWith(candidateText(
          {choice->schedule->algorithm, choice->schedule->slices, choice->predictedPs, choice->estimated}, true)));
  EXPECT_THAT(choice->reason, HasSubstr("; next "));
  for (const Candidate& c : choice->candidates) {
    EXPECT_THAT(choiceText(*choice), HasSubstr(candidateText(c, true)));
    EXPECT_EQ(candidateText(c, true).find(": about ") != std::string::npos, c.estimated);
    if (c.estimated) continue;
    // What is said to be timed is.
    const auto plan = findPlanAlgorithm(c.algorithm, p, cluster->map).value()->make(p, cluster->map, {c.slices});
    const std::vector<int64_t> ends = timePlan(*plan, cluster->fabric).value().endPs;
    EXPECT_EQ(c.predictedPs, *std::max_element(ends.begin(), ends.end())) << candidateText(c, true);
  }
}

TEST(ClusterTuner, ARuleNamesAnAlgorithmAmongNodesAndItsChunks) {
  const auto cluster = clusterOf(2, 4);
  const Problem p = problemOf(Collective::kAllReduce, 8, 1 << 20);
  const auto chosen = [&](const std::string& table) {
    return Tuner(cluster, 3, TunerTable::parse(table, "t.table").value()).choose(p);
  };
  auto choice = chosen("# x\nall-reduce * * 0 * rails 5\n").value();
  EXPECT_EQ(choice->schedule->algorithm, "rails");
  EXPECT_EQ(choice->schedule->slices, 5);
  EXPECT_THAT(choice->reason, StartsWith("rails, 5 chunks: "));
  EXPECT_THAT(choice->reason, HasSubstr(" (rule at t.table:2)"));
  choice = chosen("* * * 0 * pairwise *").value();
  EXPECT_EQ(choice->schedule->algorithm, "pairwise");
  // Rules of a node's algorithms are not for it, and the other way round.
  choice = chosen("* * * 0 * ring 2\n* * * 0 * rails-one-shot *").value();
  EXPECT_EQ(choice->schedule->algorithm, "rails-one-shot");
  Tuner ofNode(linkModel(Target::kGaudi3), TunerTable::parse("* * * 0 * rails 2\n* * * 0 * ring 2", "t").value());
  EXPECT_EQ(ofNode.choose(p).value()->schedule->algorithm, "ring");
}

TEST(ClusterTuner, ARuleThatCannotBeFollowedIsAnError) {
  const auto cluster = clusterOf(2, 4);
  Tuner tuner(cluster, 0, TunerTable::parse("\n* * * 0 * rails-tree 1\n", "t.table").value());
  const Status status = tuner.choose(problemOf(Collective::kAllToAll, 8, 4096)).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), StartsWith("t.table:2: algorithm 'rails-tree' cannot do all-to-all "));
  EXPECT_THAT(status.message(), HasSubstr("; there are: rails, "));
  EXPECT_THAT(TunerTable::parse("* * * 0 * rail 1", "t").status().message(),
              HasSubstr("; among nodes rails, rails-one-shot, "));
  Problem wrong = problemOf(Collective::kAllReduce, 8, 4096);
  wrong.ranks = 5;
  EXPECT_EQ(Tuner(cluster, 0).choose(wrong).status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace hpu::collectives
