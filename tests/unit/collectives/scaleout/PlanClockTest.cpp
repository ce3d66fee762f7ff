// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/PlanClock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <map>
#include <tuple>

#include "Plans.h"
#include "TimerPlans.h"
#include "TimerReference.h"
#include "base/Format.h"
#include "collectives/scaleout/Choose.h"

namespace hpu::collectives::test {
namespace {

using base::strCat;
using ::testing::HasSubstr;

std::shared_ptr<const OperationTimer> clockOf(const Plan& plan, const Fabric& fabric,
                                              std::vector<int64_t> togetherPs = {}) {
  // Plans of the test live longer than their clocks.
  StatusOr<std::shared_ptr<const OperationTimer>> clock =
      makePlanClock(std::shared_ptr<const Plan>(std::shared_ptr<const Plan>(), &plan),
                    std::make_shared<const Cluster>(Cluster{fabric, plan.map()}), {std::move(togetherPs)});
  EXPECT_TRUE(clock.ok()) << clock.status().toString();
  return clock.ok() ? *clock : nullptr;
}

std::vector<int64_t> endsOf(const OperationTimer& clock, const std::vector<int64_t>& arrivals,
                            const LinkState& links = {}) {
  std::vector<int64_t> ends;
  clock.endPs(arrivals, links, ends);
  return ends;
}

/// What links and rails carry, by rank at random, or alike on every node.
LinkState randomLinks(std::mt19937& rng, const RankMap& map) {
  const auto upTo = [&](int32_t n) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(n)); };
  LinkState links;
  const auto ranks = static_cast<size_t>(map.ranks());
  const bool alike = upTo(2) == 0, onlyRails = upTo(3) == 0;
  const int64_t unit = upTo(2) ? 250'000 : 3'333;
  std::map<std::tuple<int, int32_t, int32_t>, int64_t> drawn;
  const auto draw = [&](int what, int32_t a, int32_t b) {
    if (!alike) return upTo(3) * unit;
    return drawn.try_emplace({what, map.position(a).local, b < 0 ? -1 : map.position(b).local}, upTo(3) * unit)
        .first->second;
  };
  for (int way = 0; way < 2; ++way)
    if (upTo(4) > 0)
      for (int32_t r = 0; r < map.ranks(); ++r) links.railFreePs[way].push_back(draw(way, r, -1));
  if (onlyRails) return links;
  links.freePs.assign(ranks * ranks, 0);
  for (int32_t a = 0; a < map.ranks(); ++a)
    for (int32_t b = 0; b < map.ranks(); ++b)
      if (a != b && map.position(a).node == map.position(b).node)
        links.freePs[static_cast<size_t>(a) * ranks + static_cast<size_t>(b)] = draw(2, a, b);
  return links;
}

TEST(PlanTimerLinks, OneRankAClassStandsForAllOfIt) {
  int64_t ranks = 0, simulated = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const RandomCase c = randomCase(seed, 1);
    std::mt19937 rng(seed);
    const LinkState links = randomLinks(rng, c.plans[0].map());
    PlanTimerOptions options;
    for (int32_t r = 0; r < c.plans[0].map().ranks(); ++r) options.spansOf.push_back(r);
    const PlanTiming folded = timePlan(c.plans[0], c.fabric, c.arrivals[0], options, links).value();
    options.fold = false;
    const PlanTiming whole = timePlan(c.plans[0], c.fabric, c.arrivals[0], options, links).value();
    ASSERT_EQ(folded.endPs, whole.endPs) << c.text;
    ASSERT_EQ(folded.spans.size(), whole.spans.size()) << c.text;
    for (size_t i = 0; i < whole.spans.size(); ++i)
      ASSERT_EQ(std::tuple(folded.spans[i].startPs, folded.spans[i].endPs),
                std::tuple(whole.spans[i].startPs, whole.spans[i].endPs))
          << c.text;
    ranks += whole.classes;
    simulated += folded.classes;
  }
  EXPECT_LT(simulated, ranks * 9 / 10);
}

TEST(PlanTimerLinks, TimesAreThoseOfTheModel) {
  int compared = 0, later = 0;
  for (uint32_t seed = 10'000; seed < 10'800; ++seed) {
    const RandomCase c = randomCase(seed, 1);
    if (c.plans[0].map().ranks() > 16) continue;
    std::mt19937 rng(seed);
    const LinkState links = randomLinks(rng, c.plans[0].map());
    const std::vector<int64_t> ends = timePlan(c.plans[0], c.fabric, c.arrivals[0], {}, links).value().endPs;
    ASSERT_EQ(ends, referenceEnds(c.plans[0], c.fabric, c.arrivals[0], links)) << c.text;
    ++compared;
    later += ends != timePlan(c.plans[0], c.fabric, c.arrivals[0]).value().endPs;
  }
  EXPECT_GT(compared, 200);
  EXPECT_GT(later, 100);
}

TEST(PlanTimerLinks, OfARailThatIsSharedTheLatestCounts) {
  const Fabric f = roundFabric(2, 2, 1);
  const TestPlan plan(RankMap::all(f).value(), std::vector<int32_t>(4, 0), [](int32_t) {
    Program p;
    send(p, gridShift(1, 0), 1000);
    receive(p, gridShift(1, 0), 1000);
    return p;
  });
  LinkState links;
  links.railFreePs[0] = {0, 300'000, 0, 0};
  links.railFreePs[1] = {0, 0, 0, 0};
  const std::vector<int64_t> ends = timePlan(plan, f, {}, {}, links).value().endPs;
  // From node 0 the two messages begin at 300 ns, from node 1 at the start.
  EXPECT_EQ(ends, (std::vector<int64_t>{1'350'000, 2'350'000, 1'350'000, 2'350'000}));
}

TEST(PlanTimerLinks, StatesOfOtherRanksAreErrors) {
  const Fabric f = roundFabric(2, 2, 2);
  const TestPlan plan(RankMap::all(f).value(), std::vector<int32_t>(4, 0), [](int32_t) { return Program(); });
  const auto errorOf = [&](const LinkState& links) { return timePlan(plan, f, {}, {}, links).status().toString(); };
  LinkState links;
  links.freePs.assign(9, 0);
  EXPECT_THAT(errorOf(links), HasSubstr("9 links' times were given for 4 ranks"));
  links = {};
  links.railFreePs[1].assign(3, 0);
  EXPECT_THAT(errorOf(links), HasSubstr("3 rails' times were given for 4 ranks"));
  links = {};
  links.devices = {0, 1, 0, 1};
  EXPECT_THAT(errorOf(links), HasSubstr("share devices"));
}

TEST(PlanClock, TimesAreThoseOfTimePlan) {
  for (uint32_t seed = 20'000; seed < 20'300; ++seed) {
    const RandomCase c = randomCase(seed, 1);
    const TestPlan& plan = c.plans[0];
    const auto clock = clockOf(plan, c.fabric);
    ASSERT_TRUE(clock) << c.text;
    std::mt19937 rng(seed);
    const LinkState links = randomLinks(rng, plan.map());
    std::vector<int64_t> later = c.arrivals[0];
    LinkState laterLinks = links;
    for (int64_t& arrival : later) arrival += 1'000'003;
    for (auto* list : {&laterLinks.freePs, &laterLinks.railFreePs[0], &laterLinks.railFreePs[1]})
      for (int64_t& free : *list) free += free == 0 ? 0 : 1'000'003;
    for (const LinkState& state : {LinkState(), links}) {
      PlanTimerOptions options;
      options.fold = false;
      const int32_t rank = static_cast<int32_t>(seed) % plan.map().ranks();
      options.spansOf = {rank};
      const PlanTiming expected = timePlan(plan, c.fabric, c.arrivals[0], options, state).value();
      ASSERT_EQ(endsOf(*clock, c.arrivals[0], state), expected.endPs) << c.text;
      std::vector<int64_t> shifted = endsOf(*clock, later, state.trivial() ? state : laterLinks);
      for (int64_t& end : shifted) end -= 1'000'003;
      ASSERT_EQ(shifted, expected.endPs) << c.text;
      const std::vector<StepTime> steps = clock->stepsOf(rank, c.arrivals[0], state);
      ASSERT_EQ(steps.size(), expected.spans.size());
      for (size_t i = 0; i < steps.size(); ++i) {
        ASSERT_EQ(steps[i].startPs, expected.spans[i].startPs) << c.text;
        ASSERT_EQ(steps[i].endPs, expected.spans[i].endPs) << c.text;
      }
    }
    const std::vector<int64_t> together = timePlan(plan, c.fabric).value().endPs;
    EXPECT_EQ(clock->predictPs(), *std::max_element(together.begin(), together.end()));
    EXPECT_EQ(clock->startPs(), c.fabric.mesh.startPs);
    // What is known beforehand changes no time but the least that a rank says of itself.
    const auto knowing = clockOf(plan, c.fabric, together);
    EXPECT_EQ(endsOf(*knowing, std::vector<int64_t>(together.size(), 17)),
              endsOf(*clock, std::vector<int64_t>(together.size(), 17)));
    EXPECT_EQ(endsOf(*knowing, c.arrivals[0], links), endsOf(*clock, c.arrivals[0], links));
    EXPECT_EQ(knowing->predictPs(), clock->predictPs());
    for (size_t r = 0; r < together.size(); ++r) {
      EXPECT_EQ(knowing->use(static_cast<int32_t>(r))->leastPs, together[r]) << c.text;
      EXPECT_LE(clock->use(static_cast<int32_t>(r))->leastPs, together[r]) << c.text;
    }
  }
}

// The choice of an operation makes one, and asks what its rank takes.
TEST(PlanClock, MakingOneWritesNoProgramAndSimulatesNothing) {
  const Fabric f = roundFabric(4, 2, 1);
  std::vector<int32_t> roles(8);
  for (int32_t r = 0; r < 8; ++r) roles[static_cast<size_t>(r)] = r;
  const TestPlan plan(RankMap::all(f).value(), roles, [](int32_t) {
    Program p;
    send(p, gridShift(1, 1), 700);
    receive(p, gridShift(-1, -1), 700);
    return p;
  });
  const std::vector<int64_t> together = timePlan(plan, f).value().endPs;
  int before = plan.programs();
  const auto asked = [&] {
    const int all = plan.programs() - before;
    before = plan.programs();
    return all;
  };
  const auto knowing = clockOf(plan, f, together), other = clockOf(plan, f);
  EXPECT_EQ(asked(), 0);
  EXPECT_EQ(knowing->steps(), 0u);
  knowing->use(3);  // Its own and that of the rank with which it shares a rail, which has another role.
  knowing->use(3);
  EXPECT_EQ(asked(), 2);
  EXPECT_EQ(endsOf(*knowing, std::vector<int64_t>(8, 5'000)).size(), 8u);
  EXPECT_EQ(asked(), 0);
  // The first question whose answer is not known.
  std::vector<int64_t> late(8, 0);
  late[5] = 40'000;
  EXPECT_EQ(endsOf(*knowing, late), timePlan(plan, f, late).value().endPs);
  EXPECT_EQ(asked(), 8 + 8);
  EXPECT_EQ(knowing->steps(), 16u);
  late[5] = 50'000;
  endsOf(*knowing, late);
  EXPECT_EQ(asked(), 0);
  // Whether something was simulated by now does not show in what a rank says of itself.
  const int64_t least = other->use(0)->leastPs;
  other->predictPs();
  EXPECT_EQ(asked(), 2 + 8);
  EXPECT_EQ(other->use(0)->leastPs, least);
  EXPECT_EQ(other->use(1)->leastPs, least);
}

TEST(PlanClock, KnowsWhatARankTakesOfItsLinksAndItsRail) {
  for (uint32_t seed = 30'000; seed < 30'300; ++seed) {
    const RandomCase c = randomCase(seed, 1);
    const TestPlan& plan = c.plans[0];
    const RankMap& map = plan.map();
    const auto clock = clockOf(plan, c.fabric);
    ASSERT_TRUE(clock) << c.text;
    PlanTimerOptions options;
    options.fold = false;
    options.wantPorts = true;
    std::map<std::tuple<PortUse::Kind, int32_t, int32_t>, int64_t> busy;
    const PlanTiming timing = timePlan(plan, c.fabric, {}, options).value();
    for (const PortUse& port : timing.ports) busy[{port.kind, port.node, port.index}] = port.busyPs;
    for (int32_t r = 0; r < map.ranks(); ++r) {
      const Place at = map.place(r);
      std::map<std::tuple<PortUse::Kind, int32_t, int32_t>, int64_t> own;
      for (const RankUse::Link& link : clock->use(r)->links) {
        const Place peer = map.place(link.peer);
        const int32_t slots = c.fabric.devicesPerNode;
        if (peer.node == at.node)
          own[{PortUse::Kind::kMeshLink, at.node,
               link.send ? at.device * slots + peer.device : peer.device * slots + at.device}] += link.busyPs;
        else
          own[{link.send ? PortUse::Kind::kRailOut : PortUse::Kind::kRailIn, at.node,
               c.fabric.railOf(at.node, at.device)}] += link.busyPs;
      }
      for (const auto& [port, ps] : own) EXPECT_EQ(ps, busy[port]) << c.text << "rank " << r;
    }
  }
}

// What one rank says that it sends another one says that it receives; and together as much as the plan has.
TEST(PlanClock, WhatRanksSayTheyCarryIsTheSameAtBothEnds) {
  for (uint32_t seed = 30'000; seed < 30'100; ++seed) {
    const RandomCase c = randomCase(seed, 1);
    const TestPlan& plan = c.plans[0];
    const RankMap& map = plan.map();
    const auto clock = clockOf(plan, c.fabric);
    ASSERT_TRUE(clock) << c.text;
    std::map<std::pair<int32_t, int32_t>, node::PortTraffic> sent, received;
    for (int32_t r = 0; r < map.ranks(); ++r) {
      for (const RankUse::Link& link : clock->use(r)->links) {
        if (link.traffic.messages == 0) continue;  // Of others on the rail.
        node::PortTraffic& traffic = link.send ? sent[{r, link.peer}] : received[{link.peer, r}];
        traffic += link.traffic;
        traffic.busyPs = 0;  // Nodes may have different rates.
      }
    }
    EXPECT_EQ(sent, received) << c.text;
    for (const auto& [pair, traffic] : sent) {
      const bool rail = map.place(pair.first).node != map.place(pair.second).node;
      const int64_t packet = rail ? c.fabric.railPacketOverheadBytes : c.fabric.mesh.packetOverheadBytes;
      const int64_t message = rail ? c.fabric.railMessageOverheadBytes : c.fabric.mesh.messageOverheadBytes;
      EXPECT_EQ(traffic.bytes, traffic.payloadBytes + traffic.packets * packet + traffic.messages * message) << c.text;
      EXPECT_GE(traffic.packets, traffic.messages);
    }
  }
}

// Each operation has a port from when those before it on the rank's device are done with it, as they have said.
TEST(PlanClock, NoMixOfOperationsThatFollowEachOtherExceedsAPort) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const RandomCase c = randomCase(seed, 1 + static_cast<int>(seed % 4));
    const RankMap& map = c.plans[0].map();
    std::mt19937 rng(seed);
    using PortName = std::tuple<int32_t, int32_t, bool>;  // Rank; peer, -1: the rail; out.
    std::map<PortName, int64_t> freePs, busyPs, firstPs;
    int64_t last = 0;
    for (int k = 0; k < 8; ++k) {
      const TestPlan& plan = c.plans[rng() % c.plans.size()];
      if (plan.map().ranks() != map.ranks()) continue;
      bool same = true;
      for (int32_t r = 0; r < map.ranks(); ++r) same = same && plan.map().place(r) == map.place(r);
      if (!same) continue;
      const auto clock = clockOf(plan, c.fabric);
      ASSERT_TRUE(clock) << c.text;
      const auto ranks = static_cast<size_t>(map.ranks());
      LinkState links;
      links.freePs.assign(ranks * ranks, 0);
      links.railFreePs[0].assign(ranks, 0);
      links.railFreePs[1].assign(ranks, 0);
      std::vector<int64_t> arrivals(ranks);
      for (size_t r = 0; r < ranks; ++r) {
        arrivals[r] = k * 10'000 + static_cast<int64_t>(rng() % 3) * 50'000;
        std::map<PortName, int64_t> uses;
        for (const RankUse::Link& link : clock->use(static_cast<int32_t>(r))->links) {
          const bool mesh = map.position(link.peer).node == map.position(static_cast<int32_t>(r)).node;
          uses[{static_cast<int32_t>(r), mesh ? link.peer : -1, link.send}] += link.busyPs;
        }
        for (const auto& [port, busy] : uses) {
          const int64_t ready = std::max(freePs[port], arrivals[r] + clock->startPs());
          firstPs.try_emplace(port, ready);
          freePs[port] = ready + busy;
          busyPs[port] += busy;
          const auto [rank, peer, send] = port;
          const auto other = static_cast<size_t>(peer);
          int64_t& free = peer < 0 ? links.railFreePs[send ? 0 : 1][r]
                          : send   ? links.freePs[r * ranks + other]
                                   : links.freePs[other * ranks + r];
          free = std::max(free, ready);
        }
      }
      for (const int64_t end : endsOf(*clock, arrivals, links)) last = std::max(last, end);
      for (const auto& [port, busy] : busyPs) {
        ASSERT_LE(freePs[port], last) << c.text;
        ASSERT_LE(busy, last - firstPs[port]) << c.text;
      }
    }
  }
}

TEST(PlanClock, LinksThatAreFreeBeforeTheFirstMessageDoNotMatter) {
  const Fabric f = roundFabric(4, 2, 1);
  const TestPlan plan(RankMap::all(f).value(), std::vector<int32_t>(8, 0), [](int32_t) {
    Program p;
    send(p, gridShift(1, 1), 700);
    receive(p, gridShift(-1, -1), 700);
    return p;
  });
  const auto clock = clockOf(plan, f);
  std::vector<int64_t> arrivals(8, 1'000'000);
  arrivals[3] = 1'500'000;
  LinkState links;
  links.freePs.assign(64, 1'000'000);
  links.railFreePs[0].assign(8, 1'000'000 + clock->startPs());
  links.railFreePs[1].assign(8, 17);
  EXPECT_EQ(endsOf(*clock, arrivals, links), endsOf(*clock, arrivals));
  links.railFreePs[0][3] = 1'400'000;  // Before this rank arrives; the other one of its rail is there.
  EXPECT_EQ(endsOf(*clock, arrivals, links), timePlan(plan, f, arrivals, {}, links).value().endPs);
  EXPECT_NE(endsOf(*clock, arrivals, links), endsOf(*clock, arrivals));
}

// Ranks' threads may round differently: their device times must not.
TEST(PlanClock, TheThreadsRoundingPlaysNoPart) {
  Fabric f = standardFabric(Target::kGaudi3, 3);
  f.exceptions = {{.node = 1, .rate = 0.7, .railsDown = {}, .devices = {}}};
  const RankMap map = RankMap::all(f).value();
  const auto times = [&](int mode) {
    std::fesetround(mode);
    std::vector<int64_t> all;
    for (const int64_t count : {1001, 77'777, 1'234'567}) {
      const Problem p = scaleProblem(Collective::kAllGather, map.ranks(), count);
      const auto plan = findPlanAlgorithm("rails", p, map).value()->make(p, map, {2});
      const auto clock = clockOf(*plan, f);
      std::vector<int64_t> arrivals(24, 0);
      arrivals[3] = 1'000'001;
      const std::vector<int64_t> ends = endsOf(*clock, arrivals);
      all.insert(all.end(), ends.begin(), ends.end());
      for (const StepTime& step : clock->stepsOf(9, arrivals, {})) all.push_back(step.endPs);
      for (const RankUse::Link& link : clock->use(9)->links) all.push_back(link.busyPs);
    }
    std::fesetround(FE_TONEAREST);
    return all;
  };
  const std::vector<int64_t> usual = times(FE_TONEAREST);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) EXPECT_EQ(times(mode), usual);
}

TEST(PlanClock, APlanThatCannotBeTimedTakesTheLeastTimeAndAMapOfAnotherFabricIsAnError) {
  const Fabric f = roundFabric(3, 1, 1);
  const TestPlan plan(RankMap::all(f).value(), std::vector<int32_t>(3, 0), [](int32_t) {
    Program p;
    const int32_t got = receive(p, gridShift(-1, 0), 8);
    send(p, gridShift(1, 0), 8, {got});
    return p;
  });
  const auto cluster = std::make_shared<const Cluster>(Cluster{f, plan.map()});
  const std::shared_ptr<const Plan> unowned(std::shared_ptr<const Plan>(), &plan);
  EXPECT_THAT(timePlan(plan, f).status().toString(), HasSubstr("cannot end"));
  const auto clock = makePlanClock(unowned, cluster).value();
  const int64_t least = f.mesh.startPs + lowerBoundPs(plan.problem(), plan.map(), f);
  EXPECT_EQ(clock->predictPs(), least);
  EXPECT_EQ(endsOf(*clock, {1'000, 9'000, 3'000}), std::vector<int64_t>(3, 9'000 + least));
  EXPECT_TRUE(clock->stepsOf(0, std::vector<int64_t>(3, 0), {}).empty());
  EXPECT_EQ(makePlanClock(unowned, cluster, {{1, 2}}).status().code(), StatusCode::kInvalidArgument);
  const auto small = std::make_shared<const Cluster>(Cluster{roundFabric(2, 1, 1), plan.map()});
  EXPECT_EQ(makePlanClock(unowned, small).status().code(), StatusCode::kInvalidArgument);
}

TEST(ScheduleOf, IsTheRanksPartOfTheWholeSchedule) {
  int compared = 0;
  for (const auto& [nodes, locals] : {std::pair{2, 2}, {3, 4}, {4, 1}, {5, 3}}) {
    const RankMap map = gridMap(nodes, locals);
    for (const PlanAlgorithm& algorithm : planAlgorithms())
      for (int kind = 0; kind < kNumCollectives; ++kind)
        for (const int64_t count : {0, 5, 4097}) {
          const Problem p = scaleProblem(static_cast<Collective>(kind), map.ranks(), count, map.ranks() / 2);
          if (!algorithm.accepts(p, map)) continue;
          const auto plan = algorithm.make(p, map, {3});
          const Schedule whole = assemble(*plan);
          for (int32_t rank = 0; rank < map.ranks(); ++rank) {
            const Schedule own = scheduleOf(*plan, rank);
            ASSERT_EQ(own.problem, p);
            ASSERT_EQ(own.algorithm, whole.algorithm);
            ASSERT_EQ(own.ofRank.size(), static_cast<size_t>(map.ranks()));
            ASSERT_EQ(own.steps.size(), whole.ofRank[rank].size());
            ASSERT_EQ(own.ofRank[rank].size(), own.steps.size());
            ASSERT_LE(own.scratchElements, whole.scratchElements);
            ASSERT_LE(own.partialElements, whole.partialElements);
            for (size_t i = 0; i < own.steps.size(); ++i) {
              const Step &a = own.steps[i], &b = whole.steps[whole.ofRank[rank][i]];
              const int32_t base = whole.ofRank[rank][0];
              ASSERT_EQ(std::tuple(a.kind, a.rank, a.peer), std::tuple(b.kind, b.rank, b.peer));
              ASSERT_TRUE(a.dst == b.dst && a.sources == b.sources);
              ASSERT_EQ(a.after.size(), b.after.size());
              for (size_t k = 0; k < a.after.size(); ++k) ASSERT_EQ(a.after[k] + base, b.after[k]);
            }
            ++compared;
          }
        }
  }
  EXPECT_GT(compared, 500);
}

}  // namespace
}  // namespace hpu::collectives::test
