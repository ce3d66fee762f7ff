// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/Lowering.h"

#include <gtest/gtest.h>

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
std::shared_ptr<const Plan> lowered(std::vector<Step> steps, int64_t smallBytes = 0) {
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

}  // namespace
}  // namespace hpu::collectives
