// SPDX-License-Identifier: Apache-2.0
// Good schedules pass; each way of breaking one is found and named; and what passes after a random
// change really computes the right thing, whatever the interleaving.
#include "collectives/schedule/Check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "Schedules.h"

namespace hpu::collectives::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string complaint(Schedule schedule, bool finish = true) {
  if (finish) schedule.finish();
  Status status = checkSchedule(schedule);
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInternal);
  return status.message();
}

std::vector<Schedule> goodOnes() {
  std::vector<Schedule> all;
  for (int32_t ranks : {2, 3, 5, 8})
    for (int32_t slices : {1, 3}) {
      all.push_back(meshAllReduce(ranks, 4 * ranks * slices + 1, slices));
      all.push_back(meshAllGather(ranks, 2 * slices, slices));
    }
  for (int32_t ranks : {1, 2, 3, 8}) {
    all.push_back(ringReduceScatter(ranks, 3));
    all.push_back(meshBarrier(ranks));
  }
  return all;
}

TEST(Check, PassesGoodSchedulesAndTheyWorkInEveryInterleaving) {
  for (const Schedule& s : goodOnes()) {
    EXPECT_EQ(complaint(s), "") << problemText(s.problem);
    for (uint64_t seed = 1; seed <= 8; ++seed)
      for (bool inPlace : {false, true})
        for (bool zeroCopy : {false, true})
          EXPECT_EQ(runSchedule(s, {seed, inPlace, zeroCopy}), "") << problemText(s.problem);
  }
}

TEST(Check, NamesTheAlgorithmAndTheProblem) {
  Schedule s = meshAllReduce(2, 8, 1);
  s.steps.pop_back();
  EXPECT_EQ(complaint(s),
            "algorithm mesh, 1 slices, all-reduce of 8 elements of 4 bytes among 2 ranks: rank 0 "
            "sends 2 messages to rank 1, which receives 1 from it");
}

TEST(Check, FindsEveryDroppedDependency) {
  for (const Schedule& good : goodOnes())
    for (size_t i = 0; i < good.steps.size(); ++i)
      for (size_t k = 0; k < good.steps[i].after.size(); ++k) {
        Schedule s = good;
        s.steps[i].after.erase(s.steps[i].after.begin() + k);
        EXPECT_THAT(complaint(s),
                    AnyOf(HasSubstr("does not wait for it"), HasSubstr("that nothing it waits for has written")))
            << stepText(good, i) << " without its dependency " << k;
      }
}

TEST(Check, FindsEveryRemovedStep) {
  for (const Schedule& good : goodOnes())
    for (size_t i = 0; i < good.steps.size(); ++i) {
      Schedule s = good;
      s.steps.erase(s.steps.begin() + i);
      for (Step& step : s.steps) {
        std::erase(step.after, static_cast<int32_t>(i));
        for (int32_t& a : step.after) a -= a > static_cast<int32_t>(i);
      }
      EXPECT_NE(complaint(s), "") << "without " << stepText(good, i);
    }
}

TEST(Check, FindsEveryShiftedOrShortenedRange) {
  for (const Schedule& good : goodOnes()) {
    if (good.problem.collective == Collective::kBarrier) continue;
    for (size_t i = 0; i < good.steps.size(); ++i)
      for (size_t k = 0; k <= good.steps[i].sources.size(); ++k)
        for (int change = 0; change < 3; ++change) {
          Schedule s = good;
          Step& step = s.steps[i];
          if (k == step.sources.size() && step.kind == StepKind::kSend) continue;
          Range& range = k == step.sources.size() ? step.dst : step.sources[k];
          if (range.count == 0) continue;
          if (change == 0) ++range.offset;
          if (change == 1) --range.offset;
          if (change == 2) --range.count;
          EXPECT_NE(complaint(s), "") << stepText(good, i) << " range " << k << " change " << change;
        }
  }
}

TEST(Check, FindsSwappedMessagesOfAPair) {
  Schedule s = meshAllReduce(2, 8, 2);
  std::vector<int32_t> sends;
  for (size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].kind == StepKind::kSend && s.steps[i].rank == 0) sends.push_back(i);
  ASSERT_EQ(sends.size(), 4u);
  std::swap(s.steps[sends[0]].sources, s.steps[sends[1]].sources);
  EXPECT_THAT(complaint(s), HasSubstr("combines different elements"));
}

TEST(Check, FindsDifferentSizesAndForms) {
  Schedule s = meshAllGather(2, 4, 1);
  for (Step& step : s.steps)
    if (step.kind == StepKind::kRecv) --step.dst.count;
  EXPECT_THAT(complaint(s), HasSubstr("are one message (number 0 of the pair) and differ in size"));
  s = ringReduceScatter(2, 3);
  for (Step& step : s.steps)
    if (step.kind == StepKind::kRecv) step.dst.buffer = BufferKind::kScratch;
  s.scratchElements = s.partialElements;
  EXPECT_THAT(complaint(s), HasSubstr("only one end has partial results"));
}

TEST(Check, FindsADoubleContribution) {
  Schedule s = meshAllReduce(3, 9, 1);
  for (Step& step : s.steps)
    if (step.kind == StepKind::kReduce && step.rank == 1) step.sources.push_back(step.sources[0]);
  EXPECT_THAT(complaint(s), HasSubstr("adds rank 0's contribution twice"));
}

TEST(Check, FindsAMissingContribution) {
  Schedule s = meshAllReduce(3, 9, 1);
  for (Step& step : s.steps)
    if (step.kind == StepKind::kReduce && step.rank == 1) step.sources.pop_back();
  EXPECT_THAT(complaint(s), HasSubstr("lacks the contributions of ranks 2, written by"));
}

TEST(Check, FindsAWrongContributor) {
  Schedule s = meshAllReduce(3, 9, 1);
  for (Step& step : s.steps)
    if (step.kind == StepKind::kReduce) std::swap(step.sources[0].contributor, step.sources[1].contributor);
  EXPECT_THAT(complaint(s), HasSubstr("says that its source 0 is rank 1's contribution; it is rank 0's"));
}

TEST(Check, FindsADifferentOrderOnAnotherRank) {
  // Everybody sends all to everybody; rank 1 adds the other way round.
  Schedule s;
  s.problem = {Collective::kAllReduce, 2, 4};
  s.algorithm = "one-shot";
  s.scratchElements = 8;
  for (int32_t r : {0, 1}) {
    int32_t sent = add(s, sendStep(r, 1 - r, {BufferKind::kInput, 0, 4}));
    int32_t received = add(s, recvStep(r, 1 - r, {BufferKind::kScratch, 0, 4}));
    std::vector<Range> sources{{BufferKind::kInput, 0, 4, r}, {BufferKind::kScratch, 0, 4, 1 - r}};
    int32_t reduced = add(s, reduceStep(r, sources, {BufferKind::kScratch, 4, 4}, {received}));
    add(s, copyStep(r, {BufferKind::kScratch, 4, 4}, {BufferKind::kOutput, 0, 4}, {reduced, sent}));
  }
  EXPECT_THAT(complaint(s), HasSubstr("in different ways: their results can differ in bits"));
  for (Step& step : s.steps)
    if (step.kind == StepKind::kReduce && step.rank == 1) std::swap(step.sources[0], step.sources[1]);
  EXPECT_EQ(complaint(s), "");
}

TEST(Check, FindsADeadlockOfThoseWhoReadInPlace) {
  // The same without the copy: each rank's result overwrites (in place) what the other one reads
  // where it is, and both wait for each other.
  Schedule s;
  s.problem = {Collective::kAllReduce, 2, 4};
  s.algorithm = "one-shot";
  s.scratchElements = 4;
  for (int32_t r : {0, 1}) {
    int32_t sent = add(s, sendStep(r, 1 - r, {BufferKind::kInput, 0, 4}));
    int32_t received = add(s, recvStep(r, 1 - r, {BufferKind::kScratch, 0, 4}));
    std::vector<Range> sources{{BufferKind::kInput, 0, 4, r}, {BufferKind::kScratch, 0, 4, 1 - r}};
    if (r == 1) std::swap(sources[0], sources[1]);
    add(s, reduceStep(r, sources, {BufferKind::kOutput, 0, 4}, {received, sent}));
  }
  EXPECT_THAT(complaint(s), HasSubstr("deadlock: step"));
  s.finish();
  EXPECT_EQ(runSchedule(s, {1, true, true}), "deadlock");
  EXPECT_EQ(runSchedule(s, {1, true, false}), "");
}

TEST(Check, FindsADeadlockByOrder) {
  // Both send first and receive after that: unbuffered, nobody can.
  Schedule s = meshAllGather(2, 4, 1);
  for (Step& step : s.steps) step.after.clear();
  int32_t sent[2] = {-1, -1};
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (s.steps[i].kind == StepKind::kSend) sent[s.steps[i].rank] = i;
    if (s.steps[i].kind == StepKind::kRecv && s.steps[i].rank == 1) s.steps[i].after = {sent[1]};
  }
  // Rank 0's receive comes before its send, so it is made again behind it.
  EXPECT_EQ(complaint(s), "");
  for (size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].kind == StepKind::kRecv && s.steps[i].rank == 0) s.steps[i].after = {sent[0]};
  EXPECT_THAT(complaint(s), HasSubstr("deadlock: "));
  EXPECT_THAT(complaint(s), HasSubstr("waits for"));
  s.finish();
  EXPECT_EQ(runSchedule(s, {}), "deadlock");
}

TEST(Check, FindsADeadlockByTheOrderOfAPairsMessages) {
  // Rank 0's second message goes only when the answer to the first is there; rank 1 answers when
  // it has both.
  Schedule s;
  s.problem = {Collective::kAllToAll, 2, 2};
  s.algorithm = "by hand";
  for (int32_t r : {0, 1}) add(s, copyStep(r, {BufferKind::kInput, 2 * r, 2}, {BufferKind::kOutput, 2 * r, 2}));
  add(s, sendStep(0, 1, {BufferKind::kInput, 2, 1}));
  int32_t answer = add(s, recvStep(0, 1, {BufferKind::kOutput, 2, 2}));
  add(s, sendStep(0, 1, {BufferKind::kInput, 3, 1}, {answer}));
  int32_t one = add(s, recvStep(1, 0, {BufferKind::kOutput, 0, 1}));
  int32_t two = add(s, recvStep(1, 0, {BufferKind::kOutput, 1, 1}));
  add(s, sendStep(1, 0, {BufferKind::kInput, 0, 2}, {one}));
  EXPECT_EQ(complaint(s), "");
  s.steps.back().after = {two};
  EXPECT_THAT(complaint(s), HasSubstr("deadlock: "));
}

TEST(Check, FindsAnInPlaceRace) {
  Schedule s = meshAllReduce(2, 8, 1);
  for (Step& step : s.steps)
    if (step.kind == StepKind::kRecv && step.dst.buffer == BufferKind::kOutput) step.after.clear();
  EXPECT_THAT(complaint(s), HasSubstr("overwrites, when the call is in place, what step"));
  // Out of place nothing is wrong with it.
  s.finish();
  EXPECT_EQ(runSchedule(s, {3, false, true}), "");
}

TEST(Check, FindsAReadOfTheInputAfterItWasOverwrittenInPlace) {
  Schedule s;
  s.problem = {Collective::kReduceScatter, 1, 4};
  s.algorithm = "by hand";
  s.scratchElements = 4;
  int32_t first = add(s, reduceStep(0, {{BufferKind::kInput, 0, 4, 0}}, {BufferKind::kOutput, 0, 4}));
  add(s, copyStep(0, {BufferKind::kInput, 0, 4}, {BufferKind::kScratch, 0, 4}, {first}));
  EXPECT_THAT(complaint(s), HasSubstr("reads what, when the call is in place, step 0"));
}

TEST(Check, FindsAStepThatOverwritesItsOwnSource) {
  Schedule s;
  s.problem = {Collective::kBroadcast, 1, 4};
  s.algorithm = "by hand";
  add(s, copyStep(0, {BufferKind::kInput, 0, 2}, {BufferKind::kOutput, 1, 2}));
  EXPECT_THAT(complaint(s), HasSubstr("overwrites part of its own source when the call is in place"));
}

TEST(Check, FindsAReadOfWhatNobodyWrote) {
  Schedule s = meshAllReduce(2, 8, 1);
  s.scratchElements += 8;
  for (Step& step : s.steps)
    for (Range& source : step.sources)
      if (source.buffer == BufferKind::kScratch) source.offset += 8;
  EXPECT_THAT(complaint(s), HasSubstr("that nothing it waits for has written"));
}

TEST(Check, FindsTwoWritersAndAnOverwrittenSource) {
  Schedule s = meshAllGather(2, 4, 1);
  Step again = s.steps[0];
  add(s, again);
  EXPECT_THAT(complaint(s), HasSubstr("both write output[0, 4), and neither waits for the other"));
  s = meshAllReduce(2, 8, 1);
  // Rank 0's reduction also overwrites what its result's send reads.
  int32_t reduced = -1;
  for (size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].kind == StepKind::kReduce && s.steps[i].rank == 0) reduced = i;
  Range other = s.steps[reduced].sources[1];
  ASSERT_EQ(other.buffer, BufferKind::kScratch);
  add(s, copyStep(0, other, s.steps[reduced].dst, {reduced, s.steps[reduced].after[0]}));
  EXPECT_THAT(complaint(s), HasSubstr("reads, and does not wait for it"));
}

TEST(Check, FindsElementsThatAreNotWritten) {
  Schedule s = meshAllGather(2, 4, 1);
  s.steps[0].sources[0].count = s.steps[0].dst.count = 3;
  EXPECT_THAT(complaint(s), HasSubstr("rank 0 never writes output[3, 4)"));
}

TEST(Check, FindsDataInTheWrongPlace) {
  Schedule s = meshAllGather(3, 4, 1);
  std::vector<Range*> ranges;
  for (Step& step : s.steps)
    if (step.kind == StepKind::kRecv && step.rank == 2) ranges.push_back(&step.dst);
  std::swap(ranges[0]->offset, ranges[1]->offset);
  EXPECT_THAT(complaint(s), HasSubstr("where number"));
}

TEST(Check, FindsAResultThatIsReducedAgain) {
  Schedule s = ringReduceScatter(3, 2);
  s.scratchElements = s.partialElements;
  auto turn = [](Range& r) {
    if (r.buffer == BufferKind::kPartial) r.buffer = BufferKind::kScratch;
  };
  for (Step& step : s.steps) {
    turn(step.dst);
    for (Range& source : step.sources) turn(source);
  }
  EXPECT_THAT(complaint(s), HasSubstr("again; partial results belong into partial buffers"));
}

TEST(Check, FindsAResultThatIsNotFinished) {
  Schedule s;
  s.problem = {Collective::kAllReduce, 1, 4};
  s.algorithm = "by hand";
  add(s, copyStep(0, {BufferKind::kInput, 0, 4}, {BufferKind::kOutput, 0, 4}));
  EXPECT_THAT(complaint(s), HasSubstr("is no finished reduction"));
}

TEST(Check, FindsALeakyBarrier) {
  Schedule s = meshBarrier(3);
  std::erase_if(s.steps, [](const Step& step) {
    return (step.rank == 2 && step.peer == 1 && step.kind == StepKind::kSend) ||
           (step.rank == 1 && step.peer == 2 && step.kind == StepKind::kRecv);
  });
  EXPECT_THAT(complaint(s), HasSubstr("rank 1 can leave the barrier before rank 2 has entered it"));
}

TEST(Check, RefusesMalformedSteps) {
  auto broken = [](auto change) {
    Schedule s = meshAllReduce(2, 8, 1);
    change(s);
    return complaint(s);
  };
  EXPECT_THAT(broken([](Schedule& s) { s.steps[0].peer = 2; }), HasSubstr("has no such peer"));
  EXPECT_THAT(broken([](Schedule& s) { s.steps[0].peer = 0; }), HasSubstr("has no such peer"));
  EXPECT_THAT(broken([](Schedule& s) { s.steps[0].rank = -1; }), HasSubstr("is of rank -1 of 2"));
  EXPECT_THAT(broken([](Schedule& s) { s.steps[0].sources.clear(); }), HasSubstr("has 0 sources"));
  EXPECT_THAT(broken([](Schedule& s) { s.steps[0].after = {0}; }), HasSubstr("not an earlier one"));
  EXPECT_THAT(broken([](Schedule& s) { s.steps[1].after = {0}; }), HasSubstr("of another rank"));
  EXPECT_THAT(broken([](Schedule& s) { s.steps[2].dst.buffer = BufferKind::kInput; }), HasSubstr("writes the input"));
  EXPECT_THAT(broken([](Schedule& s) { s.steps[0].sources[0].offset = INT64_MAX; }),
              HasSubstr("and that buffer has 8 elements"));
  EXPECT_THAT(broken([](Schedule& s) { s.problem.count = INT64_MAX / 2; }), HasSubstr("the count is"));
  EXPECT_THAT(broken([](Schedule& s) { s.problem.collective = Collective::kAllToAll; }),
              HasSubstr("reduces in an operation that only moves data"));
  Schedule s = meshAllReduce(2, 8, 1);
  s.ofRank[0].pop_back();
  EXPECT_THAT(complaint(s, false), HasSubstr("changed after finish()"));
}

}  // namespace
}  // namespace hpu::collectives::test
