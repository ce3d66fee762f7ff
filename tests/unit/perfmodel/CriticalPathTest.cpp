// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/CriticalPath.h"

#include <gtest/gtest.h>

#include <random>

#include "perfmodel/Breakdown.h"

namespace hpu::perfmodel {
namespace {

TEST(CriticalPath, FollowsWhatEndsWhenASliceStarts) {
  // Engine 0: [0,10) [10,40); engine 1: [10,15) [40,70); engine 2: [5,60).
  std::vector<PathSlice> slices = {{0, 0, 10}, {0, 10, 40}, {1, 10, 15}, {1, 40, 70}, {2, 5, 60}};
  EXPECT_EQ(criticalPath(slices), (std::vector<uint32_t>{0, 1, 3}));
}

TEST(CriticalPath, PrefersTheSameEngineThenTheLongest) {
  std::vector<PathSlice> slices = {{0, 0, 10}, {1, 5, 10}, {1, 10, 20}};
  EXPECT_EQ(criticalPath(slices), (std::vector<uint32_t>{1, 2}));
  slices = {{0, 0, 10}, {2, 5, 10}, {1, 10, 20}};
  EXPECT_EQ(criticalPath(slices), (std::vector<uint32_t>{0, 2}));
}

TEST(CriticalPath, HasAGapWhereNothingReleasedASlice) {
  std::vector<PathSlice> slices = {{0, 0, 10}, {0, 30, 40}, {1, 5, 25}};
  EXPECT_EQ(criticalPath(slices), (std::vector<uint32_t>{2, 1}));
  EXPECT_TRUE(criticalPath({}).empty());
  EXPECT_TRUE(criticalPath({{0, 5, 5}}).empty()) << "without duration";
}

TEST(CriticalPath, NeverOverlapsAndEndsLast) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<PathSlice> slices;
    Picoseconds end = 0;
    for (int i = 0; i < 50; ++i) {
      auto start = static_cast<Picoseconds>(random() % 40);
      slices.push_back({static_cast<uint32_t>(random() % 3), start, start + static_cast<Picoseconds>(random() % 6)});
      if (slices.back().end > start) end = std::max(end, slices.back().end);
    }
    std::vector<uint32_t> path = criticalPath(slices);
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(slices[path.back()].end, end);
    for (size_t i = 1; i < path.size(); ++i) EXPECT_LE(slices[path[i - 1]].end, slices[path[i]].start);
  }
}

/// A random program of dependent commands, simulated.
TEST(Breakdown, AddsUpToTheDeviceTime) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    recipe::Program program;
    program.ops.resize(6);
    program.queues.resize(3);
    program.numSignals = 3;
    std::vector<TimedQueue> queues(3);
    uint32_t done[3] = {};
    for (int i = 0; i < 60; ++i) {
      uint32_t q = random() % 3;
      recipe::Command command;
      command.op = random() % 6;
      command.signal = q;
      TimedCommand timed;
      TpcWork work;
      work.points = static_cast<int64_t>(random() % 100000);
      work.loads = 1;
      timed.cost = tpcCost(target, target.clock(), work, {static_cast<int64_t>(random() % 10000000), 0});
      timed.signal = q;
      uint32_t other = random() % 3;
      if (done[other] > 0) timed.waits = {{other, done[other]}};
      ++done[q];
      program.queues[q].commands.push_back(command);
      queues[q].commands.push_back(timed);
    }
    for (uint32_t q = 0; q < 3; ++q) queues[q].engine = program.queues[q].engine = static_cast<Engine>(q);
    auto timeline = simulate(target, target.clock(), {{&queues, 3}});
    ASSERT_TRUE(timeline.ok()) << timeline.status().message();
    Breakdown work = breakDown(program, queues, *timeline);
    EXPECT_EQ(work.deviceTime, timeline->end);
    EXPECT_EQ(work.criticalGaps, 0) << "one launch: something always runs";
    Picoseconds path = 0, opBusy = 0, engineBusy = 0, opCritical = 0;
    for (size_t e = 0; e < work.engines.size(); ++e) {
      const EngineBreakdown& engine = work.engines[e];
      Picoseconds sum = engine.idle;
      for (Picoseconds term : engine.terms) sum += term;
      EXPECT_EQ(sum, work.deviceTime);
      EXPECT_GE(engine.idle, 0);
      EXPECT_EQ(engine.busy, timeline->busy[e]);
      engineBusy += engine.busy;
      for (Picoseconds term : work.critical[e]) path += term;
    }
    EXPECT_EQ(path, work.deviceTime);
    for (const OpBreakdown& op : work.ops) opBusy += op.busy, opCritical += op.critical;
    EXPECT_EQ(opBusy, engineBusy);
    EXPECT_EQ(opCritical, work.deviceTime);
    for (size_t i = 1; i < work.ops.size(); ++i) EXPECT_GE(work.ops[i - 1].critical, work.ops[i].critical);
  }
}

}  // namespace
}  // namespace hpu::perfmodel
