// SPDX-License-Identifier: Apache-2.0
// How launches of parts are placed: one iteration after another, however many, and among other work.
#include "runtime/driver/clock/LaunchParts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "perfmodel/EngineCost.h"
#include "tests/unit/runtime/driver/ClockDriver.h"

namespace hpu::driver {
namespace {

constexpr Picoseconds kDecision = perfmodel::kPartDecision;

/// One command on the DMA.
std::shared_ptr<const LaunchTimeline> leaf(Picoseconds duration) {
  std::vector<perfmodel::TimedQueue> queues(1);
  queues[0].engine = Engine::kDma;
  perfmodel::TimedCommand command;
  command.cost.compute = command.cost.alone = duration;
  command.cost.terms[0] = duration;
  queues[0].commands.push_back(std::move(command));
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  return LaunchTimeline::create(std::move(queues), 0, target, target.clock()).value();
}

PartTimeline part(std::shared_ptr<const LaunchTimeline> timeline, uint64_t trips, bool isAwaited = false) {
  PartTimeline part;
  part.timeline = std::move(timeline);
  part.trips = trips;
  part.hasCount = part.isAwaited = isAwaited;
  return part;
}

LaunchTimeline holder(std::vector<PartTimeline> parts) {
  LaunchTimeline timeline;
  timeline.parts = std::move(parts);
  for (const PartTimeline& part : timeline.parts) timeline.isAwaited |= part.isAwaited || part.timeline->isAwaited;
  return timeline;
}

struct Placed {
  PartsPlacement placement;
  std::vector<std::string> paths;
};
Placed place(const LaunchTimeline& timeline, Picoseconds ready, EngineTimeline* engines,
             const std::vector<uint64_t>* iterations = nullptr) {
  Placed placed;
  Picoseconds end = ready;
  placed.placement = placeParts(timeline, ready, engines, iterations, [&](const PartRun& run) {
    EXPECT_GE(run.start, end);
    EXPECT_GE(run.ready, end);
    end = run.end;
    placed.paths.push_back(run.path);
  });
  EXPECT_LE(end, placed.placement.whole.end);
  return placed;
}

TEST(LaunchParts, IterationsFollowEachOther) {
  EngineTimeline engines[kNumEngines];
  const LaunchTimeline timeline = holder({part(leaf(100), 1), part(leaf(10), 3)});
  const Placed placed = place(timeline, 1000, engines);
  EXPECT_EQ(placed.paths, (std::vector<std::string>{"part 0 [0]", "part 1 [0]", "part 1 [1]", "part 1 [2]"}));
  EXPECT_EQ(placed.placement.whole.start, 1000);
  EXPECT_EQ(placed.placement.whole.end, 1130);
  EXPECT_EQ(placed.placement.whole.partEnds, (std::vector<Picoseconds>{1100, 1130}));
  EXPECT_EQ(placed.placement.busy[static_cast<int>(Engine::kDma)], 130);
  EXPECT_EQ(placed.placement.commands, 4);
}

TEST(LaunchParts, TheyTakeWhatOtherWorkLeaves) {
  EngineTimeline engines[kNumEngines];
  engines[static_cast<int>(Engine::kDma)].reserve(1015, 100);
  const Placed placed = place(holder({part(leaf(10), 3)}), 1000, engines);
  EXPECT_EQ(placed.placement.whole.start, 1000);
  EXPECT_EQ(placed.placement.whole.end, 1135);
}

TEST(LaunchParts, RunAsOftenAsTheOutcomeSays) {
  auto inner = std::make_shared<LaunchTimeline>(holder({part(leaf(10), 9, true)}));
  const LaunchTimeline timeline = holder({part(inner, 3), part(leaf(1000), 1)});
  EngineTimeline engines[kNumEngines];
  const std::vector<uint64_t> iterations{2, 0, 1};
  const Placed placed = place(timeline, 0, engines, &iterations);
  EXPECT_EQ(placed.paths, (std::vector<std::string>{"part 0 [0]/part 0 [0]", "part 0 [0]/part 0 [1]",
                                                    "part 0 [2]/part 0 [0]", "part 1 [0]"}));
  EXPECT_EQ(placed.placement.whole.start, 0);
  EXPECT_EQ(placed.placement.whole.end, 3 * kDecision + 30 + 1000);
}

TEST(LaunchParts, ALaunchThatFailedEndsWhereItDid) {
  const LaunchTimeline timeline = holder({part(leaf(10), 9, true), part(leaf(7), 2, true), part(leaf(1000), 1)});
  EngineTimeline engines[kNumEngines];
  const std::vector<uint64_t> iterations{4};
  const Placed placed = place(timeline, 0, engines, &iterations);
  EXPECT_EQ(placed.paths.size(), 4u);
  EXPECT_EQ(placed.placement.whole.end, kDecision + 40);
  EXPECT_EQ(placed.placement.whole.partEnds.size(), 3u);
}

TEST(LaunchParts, LongLoopsArePlacedAsOneFromSomewhereOn) {
  EngineTimeline engines[kNumEngines];
  const uint64_t trips = 1'000'000'000;
  const Placed placed = place(holder({part(leaf(10), trips), part(leaf(5), 1)}), 0, engines);
  EXPECT_EQ(placed.paths.size(), kMostPlacedParts + 2);
  EXPECT_EQ(placed.paths[kMostPlacedParts],
            "part 0 [" + std::to_string(kMostPlacedParts) + ".." + std::to_string(trips - 1) + "]");
  EXPECT_EQ(placed.paths.back(), "part 1 [0]");
  EXPECT_EQ(placed.placement.whole.end, static_cast<Picoseconds>(trips) * 10 + 5);
  EXPECT_EQ(placed.placement.busy[static_cast<int>(Engine::kDma)], placed.placement.whole.end);
  EXPECT_EQ(engines[static_cast<int>(Engine::kDma)].lastEnd(), placed.placement.whole.end);
}

TEST(LaunchParts, WhoeverWaitsForTheOutcomeIsPlacedBehindIt) {
  // What data decides has its time when it is told; others have theirs meanwhile.
  ClockDriver c;
  auto timeline = std::make_shared<LaunchTimeline>(holder({part(leaf(10), 9, true)}));
  TimedProgram launch;
  launch.timeline = timeline;
  launch.outcome = std::make_shared<ExternalTime>();
  const auto outcome = launch.outcome;
  Ticket first = c.add(1, launch);
  Ticket behind = c.transfer(1, 100);
  Ticket beside = c.transfer(2, 50);
  EXPECT_EQ(c.clock->span(behind).status().code(), StatusCode::kFailedPrecondition);
  expectSpan(c.span(beside), 0, 50);
  c.clock->end(*outcome, std::vector<uint64_t>{3});
  expectSpan(c.span(first), 0, kDecision + 30);
  expectSpan(c.span(behind), kDecision + 30, kDecision + 130);
}

}  // namespace
}  // namespace hpu::driver
