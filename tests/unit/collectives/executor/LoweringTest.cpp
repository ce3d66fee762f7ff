// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/Lowering.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>

#include "collectives/fabric/Fabric.h"
#include "collectives/scaleout/Program.h"

namespace hpu::collectives {
namespace {

Range scratch(int64_t offset, int64_t count) {
  return {BufferKind::kScratch, offset, count};
}
Range input(int64_t offset, int64_t count) {
  return {BufferKind::kInput, offset, count, 0};
}
Range output(int64_t offset, int64_t count) {
  return {BufferKind::kOutput, offset, count};
}

/// Of rank 0 of two; rank 1 sends what rank 0 receives.
std::shared_ptr<const RankPlan> lowered(std::vector<Step> steps, int64_t smallBytes = 0) {
  auto schedule = std::make_shared<Schedule>();
  schedule->problem.ranks = 2;
  schedule->problem.count = 100;
  schedule->scratchElements = 100;
  schedule->steps = std::move(steps);
  schedule->finish();
  return lowerSchedule(schedule, 0, smallBytes);
}

TEST(Lowering, WhatOnlyReductionsAndCopiesReadIsReadAtThePeer) {
  auto plan = lowered({{StepKind::kRecv, 0, 1, scratch(10, 20), {}, {}},
                       {StepKind::kReduce, 0, -1, output(0, 20), {input(0, 20), scratch(10, 20)}, {0}},
                       {StepKind::kCopy, 0, -1, output(20, 5), {scratch(15, 5)}, {0}}});
  EXPECT_TRUE(plan->steps[0].alias);
  EXPECT_EQ(plan->steps[0].readers, 2);
  EXPECT_EQ(plan->sourcesOf(plan->steps[1])[0].alias, -1);
  EXPECT_EQ(plan->sourcesOf(plan->steps[1])[1].alias, 0);
  EXPECT_EQ(plan->sourcesOf(plan->steps[1])[1].offset, 0);
  EXPECT_EQ(plan->sourcesOf(plan->steps[2])[0].offset, 5);
}

TEST(Lowering, WhatIsSentOnIsReceivedUnlessItIsSmall) {
  std::vector<Step> steps = {{StepKind::kRecv, 0, 1, scratch(0, 20), {}, {}},
                             {StepKind::kSend, 0, 1, {}, {scratch(0, 20)}, {0}}};
  EXPECT_FALSE(lowered(steps, 79)->steps[0].alias);
  EXPECT_TRUE(lowered(steps, 80)->steps[0].alias);
}

TEST(Lowering, WhatIsReadTogetherWithOtherBytesIsReceived) {
  auto plan = lowered({{StepKind::kRecv, 0, 1, scratch(0, 10), {}, {}},
                       {StepKind::kRecv, 0, 1, scratch(10, 10), {}, {}},
                       {StepKind::kRecv, 0, 1, scratch(20, 10), {}, {}},
                       {StepKind::kCopy, 0, -1, output(0, 15), {scratch(5, 15)}, {0, 1}},
                       {StepKind::kCopy, 0, -1, output(20, 10), {scratch(20, 10)}, {2}}});
  EXPECT_FALSE(plan->steps[0].alias);
  EXPECT_FALSE(plan->steps[1].alias);
  EXPECT_TRUE(plan->steps[2].alias);
  EXPECT_EQ(plan->sourcesOf(plan->steps[3])[0].alias, -1);
}

TEST(Lowering, OfScratchThatIsUsedAgainEachReaderHasItsOwnMessage) {
  auto plan = lowered({{StepKind::kRecv, 0, 1, scratch(0, 10), {}, {}},
                       {StepKind::kCopy, 0, -1, output(0, 10), {scratch(0, 10)}, {0}},
                       {StepKind::kRecv, 0, 1, scratch(0, 10), {}, {1}},
                       {StepKind::kCopy, 0, -1, output(10, 10), {scratch(0, 10)}, {2}},
                       {StepKind::kReduce, 0, -1, scratch(0, 10), {input(0, 10)}, {3}},
                       {StepKind::kCopy, 0, -1, output(20, 10), {scratch(0, 10)}, {4}}});
  EXPECT_EQ(plan->sourcesOf(plan->steps[1])[0].alias, 0);
  EXPECT_EQ(plan->sourcesOf(plan->steps[3])[0].alias, 2);
  EXPECT_EQ(plan->sourcesOf(plan->steps[5])[0].alias, -1);
}

TEST(Lowering, KnowsWhatOfTheOutputIsReadAgain) {
  auto plan = lowered({{StepKind::kRecv, 0, 1, output(0, 10), {}, {}},
                       {StepKind::kRecv, 0, 1, output(10, 10), {}, {}},
                       {StepKind::kSend, 0, 1, {}, {output(0, 10)}, {0}}});
  EXPECT_FALSE(plan->steps[0].alias);
  EXPECT_TRUE(plan->steps[0].reread);
  EXPECT_FALSE(plan->steps[1].reread);
}

// --- A rank's steps alone, as communicators of several nodes have them ---

auto fieldsOf(const Operand& o) {
  return std::tuple(o.buffer, o.alias, o.contributor, o.offset);
}

void expectEqual(const RankPlan& a, const RankPlan& b, const std::string& text) {
  ASSERT_EQ(a.steps.size(), b.steps.size()) << text;
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const PlanStep &x = a.steps[i], &y = b.steps[i];
    ASSERT_EQ(std::tuple(x.kind, x.alias, x.reread, x.peer, x.readers, x.waits, x.count, x.firstSource, x.numSources,
                         x.firstNext, x.numNext, fieldsOf(x.dst)),
              std::tuple(y.kind, y.alias, y.reread, y.peer, y.readers, y.waits, y.count, y.firstSource, y.numSources,
                         y.firstNext, y.numNext, fieldsOf(y.dst)))
        << text << ", step " << i;
  }
  ASSERT_EQ(a.sources.size(), b.sources.size()) << text;
  for (size_t i = 0; i < a.sources.size(); ++i) ASSERT_EQ(fieldsOf(a.sources[i]), fieldsOf(b.sources[i])) << text;
  ASSERT_EQ(a.next, b.next) << text;
  ASSERT_EQ(a.sends, b.sends) << text;
  ASSERT_EQ(a.receives, b.receives) << text;
}

TEST(Lowering, ARanksStepsAloneAreLoweredAsInTheWholeSchedule) {
  std::mt19937 rng(7);
  const auto upTo = [&](int32_t n) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(n)); };
  int compared = 0;
  while (compared < 800) {
    const int32_t nodes = 2 + upTo(4), locals = 1 + upTo(4);
    std::vector<Place> places;
    for (int32_t n = 0; n < nodes; ++n)
      for (int32_t l = 0; l < locals; ++l)
        if (l == 0 || upTo(12) > 0) places.push_back({n, l});
    const RankMap map = RankMap::create(standardFabric(Target::kGaudi3, nodes), places).value();
    const auto& algorithms = planAlgorithms();
    const PlanAlgorithm& algorithm = algorithms[static_cast<size_t>(upTo(static_cast<int32_t>(algorithms.size())))];
    Problem p;
    p.collective = static_cast<Collective>(upTo(kNumCollectives));
    p.ranks = map.ranks();
    p.count = upTo(3) == 0 ? upTo(8) : upTo(40'000);
    p.root = upTo(p.ranks);
    p.destination = upTo(p.ranks);
    p.elementBytes = upTo(2) ? 2 : 4;
    if (!algorithm.accepts(p, map)) continue;
    const std::unique_ptr<hpu::collectives::Plan> plan = algorithm.make(p, map, {1 + upTo(6)});
    const auto whole = std::make_shared<const Schedule>(assemble(*plan));
    for (int32_t rank = 0; rank < p.ranks; ++rank, ++compared) {
      const auto own = std::make_shared<const Schedule>(scheduleOf(*plan, rank));
      for (const int64_t smallBytes : {0, 4096})
        ASSERT_NO_FATAL_FAILURE(expectEqual(*lowerSchedule(own, rank, smallBytes),
                                            *lowerSchedule(whole, rank, smallBytes),
                                            problemText(p) + " by " + std::string(algorithm.name)));
    }
  }
}

}  // namespace
}  // namespace hpu::collectives
