// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/Timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "Schedules.h"

namespace hpu::collectives::test {
namespace {

using ::testing::ElementsAre;

// Round numbers: 1 byte a ns on each link, 10 on the engine.
LinkModel simpleLinks() {
  LinkModel m;
  m.linkBytesPerNs = 1;
  m.packetBytes = 1 << 30;
  m.startPs = 7'000;
  m.messagePs = 100'000;
  m.messageIssuePs = 3'000;
  m.reduceBytesPerNs = m.copyBytesPerNs = 10;
  m.stepPs = 20'000;
  return m;
}

Schedule empty(Collective collective, int32_t ranks, int64_t count) {
  Schedule s;
  s.problem = {collective, ranks, count};
  s.algorithm = "by hand";
  s.scratchElements = s.partialElements = 1000;
  return s;
}

Range input(int64_t count) {
  return {BufferKind::kInput, 0, count};
}
Range output(int64_t count) {
  return {BufferKind::kOutput, 0, count};
}

TEST(Timing, OneMessage) {
  Schedule s = empty(Collective::kBroadcast, 2, 100);
  add(s, sendStep(0, 1, input(100)));
  add(s, recvStep(1, 0, output(100)));
  s.finish();
  ScheduleTiming t = timeSchedule(s, simpleLinks(), std::vector<int64_t>{0, 0}, true);
  // 7 to start, 3 to issue, 400 on the link, 100 on the way.
  EXPECT_THAT(t.endPs, ElementsAre(510'000, 510'000));
  EXPECT_EQ(t.steps[1].startPs, 7'000);
  EXPECT_EQ(t.steps[1].endPs, 510'000);
  EXPECT_THAT(t.linkBytes, ElementsAre(400, 0));
  // A rank that comes late makes the other one wait, in either direction.
  EXPECT_THAT(timeSchedule(s, simpleLinks(), std::vector<int64_t>{1'000'000, 0}).endPs,
              ElementsAre(1'510'000, 1'510'000));
  EXPECT_THAT(timeSchedule(s, simpleLinks(), std::vector<int64_t>{0, 1'000'000}).endPs,
              ElementsAre(1'510'000, 1'510'000));
}

TEST(Timing, MessagesOfAPairFollowEachOtherAndLatencyIsPaidOnce) {
  Schedule s = empty(Collective::kBroadcast, 2, 100);
  for (int i = 0; i < 4; ++i) {
    add(s, sendStep(0, 1, {BufferKind::kInput, 25 * i, 25}));
    add(s, recvStep(1, 0, {BufferKind::kOutput, 25 * i, 25}));
  }
  s.finish();
  EXPECT_EQ(predictPs(s, simpleLinks()), 7'000 + 4 * (3'000 + 100'000) + 100'000);
}

TEST(Timing, LinksOfDifferentPairsAndDirectionsAreIndependent) {
  Schedule s = meshAllGather(8, 25, 1);
  // Every rank sends to seven at once; the copy of the own part (200 bytes) is shorter.
  EXPECT_EQ(predictPs(s, simpleLinks()), 7'000 + 103'000 + 100'000);
}

TEST(Timing, AnEngineDoesOneThingAtATimeInTheOrderOfReadiness) {
  Schedule s = empty(Collective::kBroadcast, 1, 100);
  int32_t a = add(s, copyStep(0, input(100), {BufferKind::kScratch, 0, 100}));
  add(s, copyStep(0, input(50), {BufferKind::kScratch, 200, 50}, {a}));
  add(s, copyStep(0, input(100), output(100)));
  s.finish();
  ScheduleTiming t = timeSchedule(s, simpleLinks(), std::vector<int64_t>{0}, true);
  // Each 20 to start, 800 bytes read and written at 10.
  EXPECT_EQ(t.steps[0].endPs, 107'000);
  EXPECT_EQ(t.steps[2].startPs, 107'000) << "it was ready before the second one";
  EXPECT_EQ(t.steps[2].endPs, 207'000);
  EXPECT_EQ(t.steps[1].startPs, 207'000);
  EXPECT_EQ(t.endPs[0], 207'000 + 20'000 + 40'000);
}

TEST(Timing, PartialResultsCostTheirOwnSize) {
  Schedule s = ringReduceScatter(2, 100);
  s.problem.elementBytes = 2;
  int64_t f32 = predictPs(s, simpleLinks());
  s.problem.partialBytes = 2;
  // 200 bytes more on the link, and at one reduction that writes and one that reads them.
  EXPECT_EQ(f32 - predictPs(s, simpleLinks()), 200'000 + 2 * 20'000);
}

TEST(Timing, APipelineOverlapsItsSlices) {
  LinkModel links = simpleLinks();
  int64_t one = predictPs(meshAllReduce(4, 1 << 20, 1), links);
  int64_t eight = predictPs(meshAllReduce(4, 1 << 20, 8), links);
  EXPECT_LT(eight, one);
  // Two times a quarter over each link, what the slices are issued with, a latency and a start; no
  // gap between.
  int64_t link = 2 * (int64_t{1} << 20) * 1000;
  EXPECT_EQ(eight, link + 16 * 3'000 + 7'000 + 100'000);
}

TEST(Timing, IsTheSameWheneverItBegins) {
  std::mt19937 random(3);
  Schedule s = meshAllReduce(5, 999, 3);
  ScheduleTimer timer(s, simpleLinks());
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> arrivals(5), later(5);
    for (int r = 0; r < 5; ++r) arrivals[r] = random() % (round < 20 ? 2 : 1'000'000);
    for (int r = 0; r < 5; ++r) later[r] = arrivals[r] + 123'456'789'012;
    std::vector<int64_t> ends = timer.run(arrivals).endPs;
    EXPECT_EQ(timer.endPs(arrivals), ends);
    for (int64_t& end : ends) end += 123'456'789'012;
    EXPECT_EQ(timer.endPs(later), ends);
    EXPECT_EQ(timeSchedule(s, simpleLinks(), later).endPs, ends);
  }
}

TEST(Timing, NobodyIsDoneBeforeTheLastContributionCanBeThere) {
  std::mt19937 random(4);
  LinkModel links = simpleLinks();
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> arrivals(4);
    for (int64_t& a : arrivals) a = random() % 10'000'000;
    std::vector<int64_t> ends = timeSchedule(meshAllReduce(4, 64, 2), links, arrivals).endPs;
    int64_t last = *std::max_element(arrivals.begin(), arrivals.end());
    for (int64_t end : ends) EXPECT_GT(end, last + links.startPs + links.messagePs);
  }
}

TEST(Timing, TransfersOfOneRank) {
  LinkModel links = simpleLinks();
  std::vector<TransferLeg> legs{{1, true, 0, 100}, {1, true, 0, 100}, {1, false, 0, 100}};
  EXPECT_EQ(transfersEndPs(links, 0, 0, legs), 7'000 + 2 * 103'000 + 100'000);
  legs = {{1, true, 5'000'000, 100}, {0, true, 0, 100}, {0, false, 0, 100}};
  EXPECT_EQ(transfersEndPs(links, 0, 0, legs), 5'000'000 + 7'000 + 103'000 + 100'000);
  EXPECT_EQ(transfersEndPs(links, 0, 42, {}), 42);
}

TEST(Timing, TransfersToOtherNodesShareTheRail) {
  LinkModel links = simpleLinks();
  const TransferLeg::Way rail{true, 50'000, 80'000, 200'000};
  // Two behind each other on the rail, to two peers; what comes in has its own.
  std::vector<TransferLeg> legs{{5, true, 0, 100, 0, rail}, {6, true, 0, 100, 0, rail}, {6, false, 0, 100, 0, rail}};
  EXPECT_EQ(transfersEndPs(links, 0, 0, legs), 7'000 + 50'000 + 80'000 + 200'000);
  // The rail does not wait for the peer that is late; a link's messages are not held up either.
  legs = {{5, true, 1'000'000, 100, 0, rail}, {6, true, 0, 100, 0, rail}, {1, true, 0, 100}};
  EXPECT_EQ(transfersEndPs(links, 0, 0, legs), 1'000'000 + 7'000 + 80'000 + 200'000);
  // One peer's stay in their order.
  legs = {{5, true, 1'000'000, 100, 0, rail}, {5, true, 0, 100, 0, rail}};
  EXPECT_EQ(transfersEndPs(links, 0, 0, legs), 1'000'000 + 7'000 + 50'000 + 80'000 + 200'000);
  // A link of another rate.
  legs = {{1, true, 0, 100, 0, TransferLeg::Way{false, 206'000, 206'000, 100'000}}, {1, true, 0, 100}};
  EXPECT_EQ(transfersEndPs(links, 0, 0, legs), 7'000 + 206'000 + 103'000 + 100'000);
}

// --- Real links ---

double busGBs(double factor, int64_t bytes, int64_t ps) {
  return factor * static_cast<double>(bytes) * 1000 / static_cast<double>(ps);
}

// The two published rows; the algorithms of the registry have the same test.
TEST(Timing, IsCalibrated) {
  const LinkModel& links = linkModel(Target::kGaudi3);
  int64_t allReduce = predictPs(meshAllReduce(8, int64_t{64} << 20, 8), links);
  EXPECT_NEAR(busGBs(2 * 7 / 8.0, int64_t{256} << 20, allReduce), 512.957, 5.13);
  int64_t allGather = predictPs(meshAllGather(8, int64_t{4} << 20, 1), links);
  EXPECT_NEAR(busGBs(7 / 8.0, int64_t{128} << 20, allGather), 509.189, 5.09);
}

TEST(Timing, HeadersKeepEverySizeBelow99PercentOfTheLimit) {
  for (Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
    const LinkModel& links = linkModel(target);
    EXPECT_LT(links.payloadBytesPerNs(), 0.99 * links.linkBytesPerNs);
    for (int32_t ranks : {2, 4, 8})
      for (int64_t bytes = 1 << 10; bytes <= int64_t{1} << 44; bytes *= 16) {
        Schedule s = meshAllReduce(ranks, bytes / 4, 8);
        double share = static_cast<double>(lowerBoundPs(s.problem, links)) / static_cast<double>(predictPs(s, links));
        EXPECT_LT(share, 0.99) << targetName(target) << " " << ranks << " " << bytes;
        if (bytes >= int64_t{256} << 20) {
          EXPECT_GT(share, 0.96) << targetName(target) << " " << ranks;
        }
      }
  }
}

// The reference's table of limits: bus bandwidth 87.5, 262.5 and 525 GB/s of a node.
TEST(Timing, LowerBoundsAreThePhysicalLimits) {
  auto algorithmGBs = [](Collective collective, int64_t total, Target target) {
    Problem p{collective, 8, total / 4};
    if (collective != Collective::kAllReduce && collective != Collective::kBroadcast &&
        collective != Collective::kReduce && collective != Collective::kPointToPoint)
      p.count /= 8;
    p.destination = 1;
    return busGBs(1, total, lowerBoundPs(p, linkModel(target)));
  };
  struct Row {
    Collective collective;
    double gaudi1, gaudi2, gaudi3;
  };
  for (Row row : {Row{Collective::kAllReduce, 50, 150, 300}, Row{Collective::kReduceScatter, 100, 300, 600},
                  Row{Collective::kAllGather, 100, 300, 600}, Row{Collective::kAllToAll, 100, 300, 600},
                  Row{Collective::kBroadcast, 87.5, 262.5, 525}, Row{Collective::kReduce, 87.5, 262.5, 525},
                  Row{Collective::kPointToPoint, 87.5, 262.5, 525}}) {
    int64_t total = int64_t{256} << 20;
    EXPECT_NEAR(algorithmGBs(row.collective, total, Target::kGaudi1), row.gaudi1, 1e-3);
    EXPECT_NEAR(algorithmGBs(row.collective, total, Target::kGaudi2), row.gaudi2, 1e-3);
    EXPECT_NEAR(algorithmGBs(row.collective, total, Target::kGaudi3), row.gaudi3, 1e-3);
  }
}

}  // namespace
}  // namespace hpu::collectives::test
