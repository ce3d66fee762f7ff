// SPDX-License-Identifier: Apache-2.0
// Time of programs of parts: the sum of what their parts take, as often as they run.
#include "perfmodel/PartsTime.h"

#include <gtest/gtest.h>

#include "PartsSample.h"
#include "perfmodel/OutputOrder.h"
#include "recipe/RecipeVerifier.h"

namespace hpu::perfmodel {
namespace {

using namespace recipe::testing;

TEST(PartsTime, ABreakdownIsThatOfAllIterations) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  const recipe::Program sample = partsSample();
  ASSERT_TRUE(recipe::verifyProgram(sample).ok());
  const ProgramBreakdown all = breakDown(sample, target, target.clock()).value();
  const ProgramBreakdown first = breakDown(*sample.parts[0].program, target, target.clock()).value();
  const ProgramBreakdown body = breakDown(*sample.parts[1].program, target, target.clock()).value();
  const ProgramBreakdown branch = breakDown(*sample.parts[2].program, target, target.clock()).value();
  const ProgramBreakdown copy = breakDown(*sample.parts[4].program->parts[0].program, target, target.clock()).value();
  const ProgramBreakdown constant = breakDown(*sample.parts[3].program, target, target.clock()).value();
  // A count, two branches, and twice a loop of eight conditions.
  const int64_t decisions = 1 + 2 + 2 * 8;
  EXPECT_EQ(all.whole.deviceTime, first.whole.deviceTime + 5 * body.whole.deviceTime + branch.whole.deviceTime +
                                      constant.whole.deviceTime + 2 * (1 + 8) * copy.whole.deviceTime +
                                      decisions * kPartDecision);
  const auto dma = static_cast<size_t>(Engine::kDma);
  EXPECT_EQ(all.whole.engines[dma].commands, 2 + 5 * 3 + 1 + 1 + 2 * (1 + 8));
  for (const EngineBreakdown& engine : all.whole.engines) {
    Picoseconds sum = engine.idle;
    for (Picoseconds term : engine.terms) sum += term;
    EXPECT_EQ(sum, all.whole.deviceTime);
  }
  EXPECT_EQ(all.ops.size(), 2u + 3 + 1 + 1 + 2);
  for (size_t i = 1; i < all.ops.size(); ++i) EXPECT_GE(all.ops[i - 1].work.critical, all.ops[i].work.critical);
}

TEST(PartsTime, EstimatesAddUp) {
  recipe::Program holder = nestedSample(2);
  auto inner = std::make_shared<recipe::Program>(*holder.parts[0].program);
  auto leaf = std::make_shared<recipe::Program>(*inner->parts[0].program);
  leaf->estimates = {10, 4, 1000, 200};
  inner->parts[0].program = leaf;
  inner->parts.push_back(inner->parts[0]);
  inner->parts[1].condition = at(0);
  holder.parts[0].program = inner;
  const recipe::Estimates sum = estimateOfParts(holder);
  EXPECT_DOUBLE_EQ(sum.deviceTimeUs, 2 * (2 * 10 + 2 * (10 + 1)));
  EXPECT_DOUBLE_EQ(sum.lowerBoundUs, 2 * 2 * 4);
  EXPECT_EQ(sum.largestLiveSetBytes, 1000u);
  EXPECT_EQ(sum.sramPeakBytes, 200u);
}

TEST(PartsTime, LoopsThatMayRunForEverCountNoLongerThanTheLongestCommand) {
  recipe::Program holder = nestedSample(1);
  holder.parts[0].trips = recipe::kMaxPartTrips;
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  EXPECT_LE(breakDown(holder, target, target.clock())->whole.deviceTime, kLongestCommand);
  EXPECT_GT(breakDown(holder, target, target.clock())->whole.deviceTime, kLongestCommand / 4);
}

TEST(PartsTime, OutputsAreDoneWithThePartsThatWriteThem) {
  EXPECT_EQ(outputOrder(partsSample()).value(), (std::vector<uint32_t>{1, 2, 0}));
}

}  // namespace
}  // namespace hpu::perfmodel
