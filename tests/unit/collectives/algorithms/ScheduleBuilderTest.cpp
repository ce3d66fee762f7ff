// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/ScheduleBuilder.h"

#include <gtest/gtest.h>

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;
using Steps = std::vector<int32_t>;

Problem problem(Collective collective, int ranks, int64_t count) {
  Problem p;
  p.collective = collective;
  p.ranks = ranks;
  p.count = count;
  return p;
}

TEST(ScheduleBuilder, ReadersWaitForTheWriterAndTheNextWriterForReaders) {
  B b(problem(Collective::kAllReduce, 2, 100), "test", 1);
  const Range room = b.allocate(BufferKind::kScratch, 100);
  b.copy(0, room, B::input({0, 100}));                                 // 0
  b.copy(0, B::output({0, 10}), {BufferKind::kScratch, 0, 10, -1});    // 1
  b.copy(0, B::output({50, 50}), {BufferKind::kScratch, 50, 50, -1});  // 2
  b.copy(0, {BufferKind::kScratch, 5, 50, -1}, B::input({0, 50}));     // 3
  b.copy(1, room, B::input({0, 100}));                                 // 4
  const Schedule s = b.finish();
  EXPECT_EQ(s.steps[1].after, Steps({0}));
  EXPECT_EQ(s.steps[2].after, Steps({0}));
  // Writes over what 0 wrote and 1 and 2 read; its input lies, in place, where 1 has written.
  EXPECT_EQ(s.steps[3].after, Steps({0, 1, 2}));
  EXPECT_EQ(s.steps[4].after, Steps({}));
  EXPECT_EQ(s.scratchElements, 128);
  EXPECT_EQ(s.ofRank[0], Steps({0, 1, 2, 3}));
}

TEST(ScheduleBuilder, InPlaceAWriteOfTheOutputWaitsForSendsOfTheInput) {
  B b(problem(Collective::kReduceScatter, 2, 10), "test", 1);
  const Range room = b.allocate(BufferKind::kScratch, 10);
  b.move(1, B::input({0, 10}), 0, room);   // 0, 1
  b.move(1, B::input({10, 10}), 0, room);  // 2, 3
  b.copy(1, B::output({0, 10}), room);     // 4
  const Schedule s = b.finish();
  EXPECT_EQ(s.steps[3].after, Steps({1}));
  EXPECT_EQ(s.steps[4].after, Steps({2}));  // Rank 1's output is the second half of its input.
}

TEST(ScheduleBuilder, ACopyOntoItselfOrdersNothingInPlace) {
  B b(problem(Collective::kBroadcast, 2, 10), "test", 1);
  b.move(0, B::input({0, 10}), 1, B::output({0, 10}));  // 0, 1
  b.copy(0, B::output({0, 10}), B::input({0, 10}));     // 2
  b.move(0, B::output({0, 10}), 0, B::output({0, 0}));  // Nothing.
  const Schedule s = b.finish();
  ASSERT_EQ(s.steps.size(), 3u);
  EXPECT_EQ(s.steps[2].after, Steps({}));
}

}  // namespace
}  // namespace hpu::collectives
