// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/Timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

namespace hpu::perfmodel {
namespace {

const arch::TargetDesc& gaudi2() {
  return arch::targetDesc(Target::kGaudi2);
}

/// A command that computes for `compute` and moves what takes `hbm` and `sram` picoseconds alone.
TimedCommand command(const arch::TargetDesc& target, Picoseconds compute, Picoseconds hbm = 0, Picoseconds sram = 0,
                     std::vector<recipe::Wait> waits = {}, uint32_t signal = recipe::kNone) {
  TimedCommand c;
  c.cost.compute = compute;
  c.cost.bytes.hbm =
      static_cast<int64_t>(static_cast<double>(hbm) / 1000 * target.hbmBytesPerNs * target.hbmEfficiency);
  c.cost.bytes.sram = static_cast<int64_t>(static_cast<double>(sram) / 1000 * target.sramBytesPerNs);
  c.cost.alone = std::max({compute, hbmTime(target, c.cost.bytes.hbm), sramTime(target, c.cost.bytes.sram)});
  c.cost.terms[static_cast<size_t>(Term::kIdeal)] = compute;
  c.cost.terms[static_cast<size_t>(Term::kMemory)] = c.cost.alone - compute;
  c.waits = std::move(waits);
  c.signal = signal;
  return c;
}
TimedCommand command(Picoseconds compute, Picoseconds hbm = 0, Picoseconds sram = 0) {
  return command(gaudi2(), compute, hbm, sram);
}

Picoseconds term(const Interval& i, Term t) {
  return i.terms[static_cast<size_t>(t)];
}

TimelineResult run(const std::vector<TimedQueue>& queues, uint32_t signals = 0) {
  TimedLaunch launch{&queues, signals};
  StatusOr<TimelineResult> result = simulate(gaudi2(), gaudi2().clock(), {launch});
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : TimelineResult{};
}

TEST(Timeline, CommandsOfOneQueueFollowEachOther) {
  std::vector<TimedQueue> queues = {{Engine::kMme, {command(100), command(50), command(0), command(7)}}};
  TimelineResult r = run(queues);
  EXPECT_EQ(r.intervals[0][0][1].start, 100);
  EXPECT_EQ(r.intervals[0][0][3].end, 157);
  EXPECT_EQ(r.busy[0], 157);
  EXPECT_EQ(r.end, 157);
}

TEST(Timeline, AWaitIsCountedAsSyncOfTheWaitingCommand) {
  std::vector<TimedQueue> queues(2);
  queues[0] = {Engine::kMme, {command(gaudi2(), 100, 0, 0, {}, 0), command(gaudi2(), 100, 0, 0, {}, 0)}};
  queues[1] = {Engine::kTpc, {command(gaudi2(), 30, 0, 0, {{0, 1}}), command(gaudi2(), 30, 0, 0, {{0, 2}})}};
  TimelineResult r = run(queues, 1);
  const Interval& first = r.intervals[0][1][0];
  const Interval& second = r.intervals[0][1][1];
  EXPECT_EQ(first.start, 100);
  EXPECT_EQ(term(first, Term::kSync), 100);
  EXPECT_EQ(second.ready, 130);
  EXPECT_EQ(second.start, 200);
  EXPECT_EQ(term(second, Term::kSync), 70);
  EXPECT_EQ(r.end, 230);
}

TEST(Timeline, TwoMemoryBoundCommandsHalveTheBandwidth) {
  std::vector<TimedQueue> queues = {{Engine::kTpc, {command(1000, 1000000)}}, {Engine::kDma, {command(1000, 1000000)}}};
  TimelineResult r = run(queues);
  EXPECT_NEAR(static_cast<double>(r.intervals[0][0][0].end), 2e6, 2e6 * 0.001);
  EXPECT_NEAR(static_cast<double>(term(r.intervals[0][0][0], Term::kMemory)), 2e6 - 1000, 2e6 * 0.001);
}

TEST(Timeline, AModestCommandLeavesItsRestToTheOthers) {
  // The MME needs a quarter of the bandwidth for as long as it computes; the TPC gets three
  // quarters.
  std::vector<TimedQueue> queues = {{Engine::kMme, {command(4000000, 1000000)}},
                                    {Engine::kTpc, {command(1000, 3000000)}}};
  TimelineResult r = run(queues);
  EXPECT_EQ(r.intervals[0][0][0].end, 4000000);
  EXPECT_NEAR(static_cast<double>(r.intervals[0][1][0].end), 4e6, 4e6 * 0.002);
}

TEST(Timeline, HbmAndSramAreSharedSeparately) {
  std::vector<TimedQueue> queues = {{Engine::kMme, {command(1000, 1000000, 0)}},
                                    {Engine::kTpc, {command(1000, 0, 1000000)}}};
  TimelineResult r = run(queues);
  EXPECT_LE(r.end, 1000001);
}

TEST(Timeline, AnEngineTakesTheQueueThatWasReadyFirstThenThePriority) {
  std::vector<TimedQueue> low = {{Engine::kMme, {command(100), command(100)}}};
  std::vector<TimedQueue> high = {{Engine::kMme, {command(10)}}};
  std::vector<TimedLaunch> launches = {{&low, 0, 0, 0}, {&high, 0, 0, 5}, {&high, 0, 50, 9}};
  StatusOr<TimelineResult> r = simulate(gaudi2(), gaudi2().clock(), launches);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->intervals[1][0][0].start, 0) << "both ready at 0: the higher priority first";
  EXPECT_EQ(r->intervals[0][0][0].start, 10);
  EXPECT_EQ(r->intervals[2][0][0].start, 110) << "ready at 50, before the low queue's second command at 110";
  EXPECT_EQ(r->intervals[0][0][1].start, 120);
}

TEST(Timeline, ALaunchStartsNoEarlierThanItIsAllowed) {
  std::vector<TimedQueue> queues = {{Engine::kMme, {command(100)}}};
  std::vector<TimedQueue> none;
  StatusOr<TimelineResult> r = simulate(gaudi2(), gaudi2().clock(), {{&queues, 0, 777}, {&none, 0, 888}});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->launchStart[0], 777);
  EXPECT_EQ(r->launchEnd[0], 877);
  EXPECT_EQ(r->launchStart[1], 888);
  EXPECT_EQ(r->intervals[0][0][0].ready, 777) << "time before the launch is nobody's wait";
}

TEST(Timeline, EnginesThatAreTakenStartLater) {
  std::vector<TimedQueue> queues = {{Engine::kMme, {command(100)}}, {Engine::kTpc, {command(100)}}};
  Picoseconds taken[kNumEngines] = {500, 0, 0, 0};
  StatusOr<TimelineResult> r = simulate(gaudi2(), gaudi2().clock(), {{&queues, 0, 0}}, taken);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->intervals[0][0][0].start, 500);
  EXPECT_EQ(r->intervals[0][1][0].start, 0);
  EXPECT_EQ(r->engineFree[0], 600);
}

TEST(Timeline, ADeadlockNamesQueueCommandAndSignal) {
  std::vector<TimedQueue> queues(2);
  queues[0] = {Engine::kMme, {command(10), command(gaudi2(), 10, 0, 0, {{3, 2}})}};
  queues[1] = {Engine::kTpc, {command(gaudi2(), 10, 0, 0, {}, 3)}};
  StatusOr<TimelineResult> r = simulate(gaudi2(), gaudi2().clock(), {{&queues, 4}});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), StatusCode::kInternal);
  EXPECT_EQ(r.status().message(),
            "the queues deadlock: command 1 of queue 0 (mme) of launch 0 waits for signal 3 to reach 2, "
            "which stays at 1");
}

TEST(Timeline, AnUnknownSignalIsAnErrorAndNotAWildAccess) {
  std::vector<TimedQueue> waits = {{Engine::kMme, {command(gaudi2(), 10, 0, 0, {{9, 1}})}}};
  std::vector<TimedQueue> signals = {{Engine::kMme, {command(gaudi2(), 10, 0, 0, {}, 9)}}};
  EXPECT_EQ(simulate(gaudi2(), gaudi2().clock(), {{&waits, 9}}).status().code(), StatusCode::kInternal);
  EXPECT_EQ(simulate(gaudi2(), gaudi2().clock(), {{&signals, 9}}).status().code(), StatusCode::kInternal);
}

// ---- Properties over random programs
// ----------------------------------------------------------------

struct RandomProgram {
  std::vector<TimedQueue> queues;
  uint32_t signals = 0;
};

/// Commands in a random total order, each waiting only for earlier ones: cannot deadlock.
RandomProgram randomProgram(const arch::TargetDesc& target, uint64_t seed, int commands) {
  std::mt19937_64 random(seed);
  auto upTo = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)); };
  RandomProgram p;
  size_t queues = 1 + static_cast<size_t>(upTo(5));
  p.queues.resize(queues);
  for (TimedQueue& q : p.queues) q.engine = static_cast<Engine>(upTo(3));
  p.signals = static_cast<uint32_t>(commands);
  for (int i = 0; i < commands; ++i) {
    TimedCommand c = command(target, upTo(5000), upTo(2) ? 0 : upTo(9000), upTo(2) ? 0 : upTo(9000));
    for (int64_t w = upTo(3); i > 0 && w > 0; --w) c.waits.push_back({static_cast<uint32_t>(upTo(i - 1)), 1});
    c.signal = static_cast<uint32_t>(i);
    p.queues[static_cast<size_t>(upTo(static_cast<int64_t>(queues) - 1))].commands.push_back(std::move(c));
  }
  return p;
}

TEST(Timeline, RandomProgramsKeepEveryRule) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram a = randomProgram(gaudi2(), seed, 60), b = randomProgram(gaudi2(), seed + 1000, 40);
    std::vector<TimedLaunch> launches = {{&a.queues, a.signals, 0, 0},
                                         {&b.queues, b.signals, static_cast<Picoseconds>(seed * 100), 1}};
    StatusOr<TimelineResult> result = simulate(gaudi2(), gaudi2().clock(), launches);
    ASSERT_TRUE(result.ok()) << result.status().message();
    const TimelineResult& r = *result;
    std::vector<std::pair<Picoseconds, Picoseconds>> spans[kNumEngines];
    Picoseconds busy[kNumEngines] = {};
    for (size_t l = 0; l < launches.size(); ++l) {
      const std::vector<TimedQueue>& queues = *launches[l].queues;
      std::map<uint32_t, Picoseconds> signalled;
      for (size_t q = 0; q < queues.size(); ++q)
        for (size_t c = 0; c < queues[q].commands.size(); ++c)
          signalled[queues[q].commands[c].signal] = r.intervals[l][q][c].end;
      for (size_t q = 0; q < queues.size(); ++q) {
        Picoseconds previous = launches[l].earliestStart;
        for (size_t c = 0; c < queues[q].commands.size(); ++c) {
          const TimedCommand& command = queues[q].commands[c];
          const Interval& i = r.intervals[l][q][c];
          ASSERT_GE(i.ready, previous);
          ASSERT_GE(i.start, i.ready);
          ASSERT_GE(i.end - i.start, command.cost.alone);
          ASSERT_EQ(std::accumulate(i.terms.begin(), i.terms.end(), Picoseconds{0}), i.end - i.ready);
          for (Picoseconds t : i.terms) ASSERT_GE(t, 0);
          for (const recipe::Wait& wait : command.waits) ASSERT_GE(i.start, signalled[wait.signal]);
          previous = i.end;
          size_t e = static_cast<size_t>(queues[q].engine);
          spans[e].push_back({i.ready, i.end});
          busy[e] += i.end - i.start;
        }
      }
    }
    for (int e = 0; e < kNumEngines; ++e) {
      ASSERT_EQ(busy[e], r.busy[e]);
      ASSERT_LE(r.busy[e], r.end);
      std::sort(spans[e].begin(), spans[e].end());
      for (size_t i = 1; i < spans[e].size(); ++i) ASSERT_LE(spans[e][i - 1].second, spans[e][i].first);
    }
    ASSERT_GE(r.end, lowerBound(gaudi2(), a.queues));
  }
}

TEST(Timeline, EqualInputsGiveEqualBytes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RandomProgram p = randomProgram(gaudi2(), seed, 200), again = randomProgram(gaudi2(), seed, 200);
    TimelineResult x = run(p.queues, p.signals), y = run(again.queues, again.signals);
    for (size_t q = 0; q < x.intervals[0].size(); ++q) {
      ASSERT_EQ(x.intervals[0][q].size(), y.intervals[0][q].size());
      ASSERT_EQ(
          std::memcmp(x.intervals[0][q].data(), y.intervals[0][q].data(), x.intervals[0][q].size() * sizeof(Interval)),
          0);
    }
  }
}

TEST(Timeline, AChainIsNeverSlowerWithMoreBandwidth) {
  arch::TargetDesc fast = gaudi2();
  fast.hbmBytesPerNs *= 1.5;
  fast.sramBytesPerNs *= 1.25;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    // One chain across all engines: command i waits for command i - 1.
    RandomProgram p = randomProgram(gaudi2(), seed, 50);
    std::vector<TimedQueue> chain(kNumEngines);
    for (int e = 0; e < kNumEngines; ++e) chain[static_cast<size_t>(e)].engine = static_cast<Engine>(e);
    uint32_t i = 0;
    for (TimedQueue& q : p.queues)
      for (TimedCommand& c : q.commands) {
        c.waits.clear();
        if (i > 0) c.waits.push_back({i - 1, 1});
        c.signal = i++;
        chain[i % kNumEngines].commands.push_back(c);
      }
    TimedLaunch launch{&chain, i};
    StatusOr<TimelineResult> slow = simulate(gaudi2(), gaudi2().clock(), {launch});
    StatusOr<TimelineResult> quick = simulate(fast, fast.clock(), {launch});
    ASSERT_TRUE(slow.ok() && quick.ok());
    // The recorded terms belong to the slow target; only the times are compared.
    ASSERT_LE(quick->end, slow->end) << seed;
  }
}

TEST(Timeline, SimulatesHundredsOfThousandsOfCommands) {
  constexpr int kCommands = 300000;
  std::vector<TimedQueue> queues = {{Engine::kMme, {}}, {Engine::kTpc, {}}, {Engine::kDma, {}}};
  for (int i = 0; i < kCommands / 3; ++i) {
    uint32_t count = static_cast<uint32_t>(i + 1);
    queues[2].commands.push_back(command(gaudi2(), 900, 800, 100, {}, 0));
    queues[0].commands.push_back(command(gaudi2(), 1000, 100, 300, {{0, count}}, 1));
    queues[1].commands.push_back(command(gaudi2(), 800, 400, 200, {{1, count}}));
  }
  auto begin = std::chrono::steady_clock::now();
  TimelineResult r = run(queues, 2);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%.2f million commands a second\n", kCommands / seconds / 1e6);
  EXPECT_GT(r.end, 0);
  RecordProperty("commands_a_second", std::to_string(kCommands / seconds));
}

}  // namespace
}  // namespace hpu::perfmodel
