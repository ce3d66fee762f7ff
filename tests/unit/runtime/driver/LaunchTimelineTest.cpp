// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/clock/LaunchTimeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "arch/TargetDesc.h"

namespace hpu::driver {
namespace {

using perfmodel::Cost;
using perfmodel::Interval;
using perfmodel::TimedCommand;
using perfmodel::TimedQueue;

const arch::TargetDesc& target() {
  return arch::targetDesc(Target::kGaudi2);
}

TimedCommand command(Picoseconds duration, std::vector<recipe::Wait> waits = {}, uint32_t signal = recipe::kNone) {
  TimedCommand result;
  result.cost.compute = result.cost.alone = duration;
  result.cost.terms[0] = duration;
  result.waits = std::move(waits);
  result.signal = signal;
  return result;
}

std::shared_ptr<const LaunchTimeline> timeline(std::vector<TimedQueue> queues, uint32_t numSignals) {
  auto result = LaunchTimeline::create(std::move(queues), numSignals, target(), target().clock());
  EXPECT_TRUE(result.ok()) << result.status().message();
  return *result;
}

/// MME slices, each followed by its TPC slice: 3 x 100 and 3 x 50.
std::shared_ptr<const LaunchTimeline> pipeline() {
  std::vector<TimedQueue> queues(2);
  queues[0].engine = Engine::kMme;
  queues[1].engine = Engine::kTpc;
  for (uint32_t i = 0; i < 3; ++i) {
    queues[0].commands.push_back(command(100, {}, 0));
    queues[1].commands.push_back(command(50, {{0, i + 1}}));
  }
  return timeline(queues, 1);
}

TEST(LaunchTimeline, IdleEnginesGiveTheProgramsOwnTimesShifted) {
  auto p = pipeline();
  EXPECT_EQ(p->start, 0);
  EXPECT_EQ(p->end, 350);
  EXPECT_EQ(p->busy[static_cast<int>(Engine::kMme)], 300);
  EXPECT_EQ(p->busy[static_cast<int>(Engine::kTpc)], 150);
  EXPECT_EQ(p->commands, 6);
  EngineTimeline engines[kNumEngines];
  LaunchPlacement placement = placeLaunch(*p, 1000, engines);
  EXPECT_EQ(placement.moved, nullptr);
  EXPECT_EQ(placement.start, 1000);
  EXPECT_EQ(placement.end, 1350);
  EXPECT_EQ(engines[0].spans(), (std::vector<TimeSpan>{{1000, 1300}}));
  EXPECT_EQ(engines[1].spans(), (std::vector<TimeSpan>{{1100, 1150}, {1200, 1250}, {1300, 1350}}));
}

TEST(LaunchTimeline, NextLaunchMayBeginWhileTheLastOneEndsOnAnotherEngine) {
  auto p = pipeline();
  EngineTimeline engines[kNumEngines];
  placeLaunch(*p, 0, engines);
  // The MME is free at 300, the TPC at 350 and not wanted before 400: the second launch is
  // undisturbed.
  LaunchPlacement second = placeLaunch(*p, 300, engines);
  EXPECT_EQ(second.moved, nullptr);
  EXPECT_EQ(second.end, 650);
}

TEST(LaunchTimeline, BusyEnginesPushCommandsIntoTheirGaps) {
  auto p = pipeline();
  EngineTimeline engines[kNumEngines];
  placeLaunch(*p, 0, engines);
  std::vector<TimedQueue> queues(1);
  queues[0].engine = Engine::kTpc;
  queues[0].commands = {command(60), command(60), command(30)};
  auto q = timeline(queues, 0);
  LaunchPlacement placement = placeLaunch(*q, 50, engines);
  ASSERT_NE(placement.moved, nullptr);
  const std::vector<Interval>& intervals = placement.intervals(*q)[0];
  // TPC is taken in [100,150), [200,250), [300,350).
  EXPECT_EQ(intervals[0].start + placement.offset, 350);
  EXPECT_EQ(intervals[1].start + placement.offset, 410);
  EXPECT_EQ(placement.start, 350);
  EXPECT_EQ(placement.end, 500);
  // What fits a gap goes there.
  std::vector<TimedQueue> small(1);
  small[0].engine = Engine::kTpc;
  small[0].commands = {command(50), command(50)};
  LaunchPlacement inGaps = placeLaunch(*timeline(small, 0), 0, engines);
  EXPECT_EQ((*inGaps.moved)[0][0].start, 0);
  EXPECT_EQ((*inGaps.moved)[0][1].start, 50);
}

TEST(LaunchTimeline, EmptyProgramTakesNoTime) {
  auto p = timeline({}, 0);
  EngineTimeline engines[kNumEngines];
  LaunchPlacement placement = placeLaunch(*p, 77, engines);
  EXPECT_EQ(placement.start, 77);
  EXPECT_EQ(placement.end, 77);
}

/// Random pipelines on engines with random other work: nothing overlaps, every wait holds, terms
/// add up.
TEST(LaunchTimeline, PlacementKeepsOrderWaitsAndEngines) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    std::vector<TimedQueue> queues(3);
    queues[0].engine = Engine::kMme;
    queues[1].engine = Engine::kTpc;
    queues[2].engine = Engine::kTpc;
    const uint32_t count = 10;
    for (uint32_t i = 0; i < count; ++i) {
      // MME slice i waits until TPC queue 1 has freed its ring slot (two slots).
      std::vector<recipe::Wait> ring;
      if (i >= 2) ring.push_back({1, i - 1});
      queues[0].commands.push_back(command(1 + random() % 100, ring, 0));
      queues[1].commands.push_back(command(1 + random() % 100, {{0, i + 1}}, 1));
      queues[2].commands.push_back(command(random() % 50, {{0, i + 1}}, 2));
    }
    auto p = timeline(queues, 3);
    EngineTimeline engines[kNumEngines];
    std::vector<TimeSpan> other[kNumEngines];
    for (int i = 0; i < 40; ++i) {
      int engine = static_cast<int>(random() % 2);
      auto duration = static_cast<Picoseconds>(1 + random() % 60);
      Picoseconds start = engines[engine].reserve(static_cast<Picoseconds>(random() % 2000), duration);
      other[engine].push_back({start, start + duration});
    }
    const Picoseconds ready = 100;
    LaunchPlacement placement = placeLaunch(*p, ready, engines);
    const QueueIntervals& intervals = placement.intervals(*p);
    std::vector<std::vector<Picoseconds>> counts(3);
    for (size_t q = 0; q < queues.size(); ++q)
      for (const Interval& interval : intervals[q]) counts[q].push_back(interval.end);
    for (size_t q = 0; q < queues.size(); ++q) {
      Picoseconds previous = 0;
      for (size_t c = 0; c < intervals[q].size(); ++c) {
        const Interval& interval = intervals[q][c];
        ASSERT_GE(interval.start, previous);
        ASSERT_EQ(interval.end - interval.start, queues[q].commands[c].cost.alone);
        previous = interval.end;
        for (const recipe::Wait& wait : queues[q].commands[c].waits)
          ASSERT_GE(interval.start, counts[wait.signal][wait.value - 1]) << "seed " << seed;
        ASSERT_EQ(std::accumulate(interval.terms.begin(), interval.terms.end(), Picoseconds{0}),
                  interval.end - interval.ready);
        int engine = static_cast<int>(queues[q].engine);
        other[engine].push_back({interval.start + placement.offset, interval.end + placement.offset});
      }
    }
    ASSERT_GE(placement.start, ready);
    for (auto& spans : other) {
      std::erase_if(spans, [](const TimeSpan& span) { return span.start == span.end; });
      std::sort(spans.begin(), spans.end(), [](auto& a, auto& b) { return a.start < b.start; });
      for (size_t i = 1; i < spans.size(); ++i) ASSERT_LE(spans[i - 1].end, spans[i].start);
    }
  }
}

}  // namespace
}  // namespace hpu::driver
