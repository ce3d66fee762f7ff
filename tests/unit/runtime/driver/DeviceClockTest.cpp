// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/clock/DeviceClock.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/runtime/driver/ClockDriver.h"

namespace hpu::driver {
namespace {

TEST(DeviceClock, QueueRunsItsWorkInOrder) {
  ClockDriver c;
  Ticket a = c.transfer(1, 100), b = c.transfer(1, 50), marker = c.add(1, TimedMarker{});
  expectSpan(c.span(b), 100, 150);
  expectSpan(c.span(a), 0, 100);
  expectSpan(c.span(marker), 150, 150);
}

TEST(DeviceClock, QueuesShareAResourceInTheOrderOfTheirReadiness) {
  ClockDriver c;
  Ticket late = c.transfer(1, 10, /*earliest=*/50);
  Ticket early = c.transfer(2, 100);
  expectSpan(c.span(late), 100, 110);
  expectSpan(c.span(early), 0, 100);
}

TEST(DeviceClock, PriorityThenQueueDecideAmongEqualStarts) {
  ClockDriver c;
  Ticket low = c.transfer(1, 10), high = c.transfer(3, 10, 0, /*priority=*/5), middle = c.transfer(2, 10);
  EXPECT_EQ(c.span(high).start, 0);
  EXPECT_EQ(c.span(low).start, 10);
  EXPECT_EQ(c.span(middle).start, 20);
}

TEST(DeviceClock, DifferentResourcesOverlap) {
  ClockDriver c;
  Ticket up = c.transfer(1, 100, 0, 0, Resource::kHostToDevice);
  Ticket down = c.transfer(2, 100, 0, 0, Resource::kDeviceToHost);
  EXPECT_EQ(c.span(up).start, 0);
  EXPECT_EQ(c.span(down).start, 0);
}

TEST(DeviceClock, WaitOrdersAcrossQueues) {
  ClockDriver c;
  Ticket slow = c.transfer(1, 1000, 0, 0, Resource::kHostToDevice);
  c.waitFor(2, slow);
  Ticket after = c.transfer(2, 10);
  expectSpan(c.span(after), 1000, 1010);
}

TEST(DeviceClock, ObservedTimesAreNeverRevised) {
  ClockDriver c;
  Ticket first = c.transfer(1, 100);
  expectSpan(c.span(first), 0, 100);
  // This would have gone first, had it been there in time.
  Ticket urgent = c.transfer(2, 100, 0, /*priority=*/100);
  expectSpan(c.span(urgent), 100, 200);
  expectSpan(c.span(first), 0, 100);
}

TEST(DeviceClock, LaterWorkFillsAGapThatNobodyNeeds) {
  ClockDriver c;
  Ticket late = c.transfer(1, 100, /*earliest=*/500);
  expectSpan(c.span(late), 500, 600);
  Ticket fits = c.transfer(2, 100), next = c.transfer(3, 450);
  expectSpan(c.span(fits), 0, 100);
  expectSpan(c.span(next), 600, 1050);
}

TEST(DeviceClock, ForgottenTicketHasNoTimeButKeepsItsPlace) {
  ClockDriver c;
  Ticket a = c.transfer(1, 100), b = c.transfer(1, 10);
  c.clock->forget(a);
  EXPECT_EQ(c.clock->span(a).status().code(), StatusCode::kNotFound);
  expectSpan(c.span(b), 100, 110);
  EXPECT_EQ(c.clock->span(999).status().code(), StatusCode::kNotFound);
}

TEST(DeviceClock, WaitForAForgottenTicketThatWasSubmittedBeforeStillHolds) {
  ClockDriver c;
  Ticket a = c.transfer(1, 100);
  c.waitFor(2, a);
  c.clock->forget(a);
  Ticket b = c.transfer(2, 10);
  EXPECT_EQ(c.span(b).start, 100);
}

/// A program of two DMA commands of 100 and 50 ps: output 1 is done after the first, 0 at the end.
TimedProgram twoOutputs() {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  std::vector<perfmodel::TimedQueue> queues(1);
  queues[0].engine = Engine::kDma;
  queues[0].commands.resize(2);
  queues[0].commands[0].cost.alone = queues[0].commands[0].cost.compute = 100;
  queues[0].commands[1].cost.alone = queues[0].commands[1].cost.compute = 50;
  auto shared = LaunchTimeline::create(queues, 0, target, target.clock()).value();
  auto timeline = std::make_shared<LaunchTimeline>(*shared);
  timeline->lastWriters = {{{0, 1}}, {{0, 0}}};
  return {timeline, nullptr, {1, 0}};
}

TEST(DeviceClock, SignalsOfALaunchHaveTheEndsOfTheirLastWriters) {
  ClockDriver c;
  Ticket launch = c.add(1, twoOutputs());
  c.skipTickets(2);
  c.waitFor(2, launch + 1);
  Ticket early = c.transfer(2, 10, 0, 0, Resource::kDeviceToHost);
  c.waitFor(3, launch + 2);
  Ticket late = c.transfer(3, 10, 0, 0, Resource::kDeviceToHost);
  expectSpan(c.span(early), 100, 110);
  expectSpan(c.span(late), 150, 160);
  expectSpan(c.span(launch), 0, 150);
  expectSpan(c.span(launch + 1), 100, 100);
  // Behind other work of the engine the signal moves with its command.
  Ticket busy = c.transfer(2, 1000, 200);
  expectSpan(c.span(busy), 200, 1200);
  Ticket second = c.add(1, twoOutputs());
  c.skipTickets(2);
  expectSpan(c.span(second + 1), 1300, 1300);
}

TEST(DeviceClock, ABatchWaitsForItsOwnItems) {
  ClockDriver c;
  std::vector<ClockItem> items(4);
  for (size_t i = 0; i < items.size(); ++i) items[i].ticket = i + 1 + (i > 0 ? 2 : 0);
  items[0].queue = 1;
  items[0].work = twoOutputs();
  items[1].queue = items[2].queue = 2;
  items[1].work = TimedWait{};
  TimedTransfer transfer;
  transfer.resource = Resource::kDeviceToHost;
  transfer.cost.alone = 10;
  items[2].work = transfer;
  items[3].queue = 1;
  items[3].work = TimedMarker{};
  Ticket kept = items[2].ticket, dropped = items[3].ticket;
  c.clock->submitBatch(std::move(items), {{}, {0, 0}, {}, {}}, {false, false, true, false});
  expectSpan(c.span(kept), 100, 110);
  EXPECT_EQ(c.clock->span(dropped).status().code(), StatusCode::kNotFound);
}

TEST(DeviceClock, TotalsCountEveryResource) {
  ClockDriver c;
  c.transfer(1, 100, 0, 0, Resource::kHostToDevice);
  c.transfer(2, 30, 0, 0, Resource::kDeviceToHost);
  c.transfer(3, 7);
  DeviceClock::Totals totals = c.clock->totals();
  EXPECT_EQ(totals.hostToDeviceBytes, 100);
  EXPECT_EQ(totals.deviceToHostBytes, 30);
  EXPECT_EQ(totals.busy[static_cast<int>(Resource::kDma)], 7);
  EXPECT_EQ(totals.end, 100);
}

TEST(DeviceClock, DevicesWaitForEachOthersTimes) {
  ClockDriver a, b;
  // a1 -> b1 -> a2 -> b2: each waits for the one before, on the other device.
  Ticket a1 = a.transfer(1, 100);
  b.waitFor(1, a, a1);
  Ticket b1 = b.transfer(1, 100);
  a.waitFor(1, b, b1);
  Ticket a2 = a.transfer(1, 100);
  b.waitFor(1, a, a2);
  Ticket b2 = b.transfer(1, 100);
  expectSpan(b.span(b2), 300, 400);
  expectSpan(a.span(a2), 200, 300);
}

TEST(DeviceClock, WorkBehindAnUnsubmittedWaitHasNoTimeYet) {
  ClockDriver a, b;
  // b's node is there, but stands behind a wait for work of a that is itself behind b: a deadlock.
  TimedWait never;
  auto node = std::make_shared<TimeNode>();
  never.node = node;
  never.clock = b.clock;
  a.add(1, never);
  Ticket behind = a.transfer(1, 10), beside = a.transfer(2, 10);
  EXPECT_EQ(a.clock->span(behind).status().code(), StatusCode::kFailedPrecondition);
  expectSpan(a.span(beside), 0, 10);
}

TEST(DeviceClock, ObserverSeesTransfersOnceInTheOrderOfResolution) {
  ClockDriver c;
  std::vector<std::pair<Ticket, Picoseconds>> seen;
  c.clock->setObserver([&](const ResolvedWork& work) {
    seen.emplace_back(work.item.ticket, work.start);
    EXPECT_EQ(work.queueName, "queue " + std::to_string(work.item.queue));
  });
  Ticket late = c.transfer(1, 10, 500), early = c.transfer(2, 10);
  c.add(1, TimedMarker{});
  c.span(late);
  c.span(early);
  EXPECT_EQ(seen, (std::vector<std::pair<Ticket, Picoseconds>>{{early, 0}, {late, 500}}));
}

TEST(DeviceClock, ABacklogIsResolvedByWhoCatchesUpAndNotByWhoSubmits) {
  ClockDriver c;
  size_t seen = 0;
  c.clock->setObserver([&](const ResolvedWork&) { ++seen; });
  for (size_t i = 0; i < 2 * DeviceClock::kMaxUnresolved + 10; ++i) {
    c.transfer(1, 1);
    ASSERT_EQ(seen, 0u) << "after " << i + 1 << " submissions";
  }
  c.clock->catchUp();
  EXPECT_EQ(seen, 2 * DeviceClock::kMaxUnresolved) << "what came behind the last look that was due waits";
  c.clock->catchUp();
  EXPECT_EQ(seen, 2 * DeviceClock::kMaxUnresolved);
  c.clock->totals();
  EXPECT_EQ(seen, 2 * DeviceClock::kMaxUnresolved + 10);
}

/// Each keeps a timeline of its own until then.
TEST(DeviceClock, LaunchesOfInstancesAreResolvedEarlier) {
  ClockDriver c;
  size_t seen = 0;
  c.clock->setObserver([&](const ResolvedWork&) { ++seen; });
  TimedProgram launch = twoOutputs();
  launch.signals.clear();
  launch.isInstance = true;
  for (int i = 0; i < 300; ++i) c.add(1, launch);
  EXPECT_EQ(seen, 0u);
  c.clock->catchUp();
  EXPECT_EQ(seen, 256u);
}

/// The look that is due at a point of the submissions gives the same times whenever somebody gets to it.
TEST(DeviceClock, TimesDoNotDependOnWhenABacklogIsResolved) {
  auto run = [](size_t catchUpEvery) {
    ClockDriver c;
    std::vector<Ticket> tickets;
    // Two queues want one engine; the second goes first, so the times tell which of its items took part when.
    for (size_t i = 0; i < DeviceClock::kMaxUnresolved + 5000; ++i) {
      const QueueId queue = i < DeviceClock::kMaxUnresolved - 10 ? 1 : 2;
      tickets.push_back(c.transfer(queue, 3 + static_cast<Picoseconds>(i % 5), 0, queue == 1 ? 0 : 1));
      if (catchUpEvery > 0 && i % catchUpEvery == 0) c.clock->catchUp();
    }
    std::vector<Picoseconds> ends;
    for (size_t i = 0; i < tickets.size(); i += 997) ends.push_back(c.span(tickets[i]).end);
    ends.push_back(c.clock->totals().end);
    return ends;
  };
  const auto never = run(0);
  EXPECT_EQ(run(1), never);
  EXPECT_EQ(run(66000), never);
}

TEST(DeviceClock, ClosedQueueIsResolvedAndItsIdMayGo) {
  ClockDriver c;
  Ticket a = c.transfer(1, 10);
  c.clock->closeQueue(1);
  expectSpan(c.span(a), 0, 10);
  EXPECT_EQ(c.clock->totals().end, 10);
}

/// The same submissions give the same times, however often somebody looks between rounds that end
/// with a look anyway.
TEST(DeviceClock, EqualSubmissionsGiveEqualTimes) {
  auto run = [](bool lookOften) {
    ClockDriver c;
    std::vector<Picoseconds> ends;
    for (int round = 0; round < 20; ++round) {
      std::vector<Ticket> tickets;
      for (int i = 0; i < 6; ++i) {
        auto queue = static_cast<QueueId>(1 + i % 3);
        tickets.push_back(c.transfer(queue, 10 + (i * 7 + round) % 13, 0, i % 2, static_cast<Resource>(2 + (i % 3))));
      }
      for (Ticket ticket : tickets) ends.push_back(c.span(ticket).end);
      if (lookOften) c.clock->totals();
    }
    return ends;
  };
  EXPECT_EQ(run(false), run(true));
}

}  // namespace
}  // namespace hpu::driver
