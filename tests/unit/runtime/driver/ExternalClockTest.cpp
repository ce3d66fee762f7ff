// SPDX-License-Identifier: Apache-2.0
// Device time of external work: arrivals, segments, what is placed when, and that the moments at
// which the host learns of ends play no part.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "tests/unit/runtime/driver/ClockDriver.h"

namespace hpu::driver {
namespace {

using Time = std::shared_ptr<ExternalTime>;

TEST(ExternalClock, ArrivesBehindItsQueueAndEndsAsItIsTold) {
  ClockDriver c;
  c.transfer(1, 100);
  Time time;
  Ticket external = c.external(1, time);
  Ticket after = c.transfer(1, 10);
  EXPECT_EQ(c.clock->arrival(*time), 100);
  EXPECT_EQ(c.clock->span(after).status().code(), StatusCode::kFailedPrecondition);
  c.clock->end(*time, 700, {});
  expectSpan(c.span(after), 700, 710);
  expectSpan(c.span(external), 100, 700);
  DeviceClock::Totals totals = c.clock->totals();
  EXPECT_EQ(totals.busy[static_cast<int>(Resource::kNic)], 600);
  EXPECT_EQ(totals.end, 710);
}

TEST(ExternalClock, AnEndBeforeTheArrivalIsTheArrival) {
  ClockDriver c;
  c.transfer(1, 100);
  Time time;
  Ticket external = c.external(1, time);
  c.clock->end(*time, 3, {});
  expectSpan(c.span(external), 100, 100);
}

TEST(ExternalClock, AnArrivalKnowsNothingOfWhatIsSubmittedLater) {
  ClockDriver early, late;
  auto submit = [](ClockDriver& c, Time& time, bool askFirst) {
    c.transfer(1, 100);
    c.external(1, time);
    Picoseconds arrival = askFirst ? c.clock->arrival(*time) : -1;
    // It would have gone first, and on the same engine.
    Ticket urgent = c.transfer(2, 50, 0, /*priority=*/9);
    if (!askFirst) arrival = c.clock->arrival(*time);
    EXPECT_EQ(arrival, 100);
    c.clock->end(*time, 200, {});
    return c.span(urgent);
  };
  Time a, b;
  expectSpan(submit(early, a, true), 100, 150);
  expectSpan(submit(late, b, false), 100, 150);
}

TEST(ExternalClock, OtherQueuesRunMeanwhile) {
  ClockDriver c;
  Time time;
  Ticket external = c.external(1, time);
  Ticket compute = c.transfer(2, 300);
  c.waitFor(3, external);
  Ticket both = c.transfer(3, 10);
  expectSpan(c.span(compute), 0, 300);
  c.run(*time, 250);
  // The network and the engine overlap; what needs both comes when the engine is free.
  expectSpan(c.span(both), 300, 310);
}

TEST(ExternalClock, AKnownEndThatNobodyAskedForBlocksItsQueue) {
  // Whether the host has heard of the end when somebody looks at other work changes nothing.
  for (bool heard : {false, true}) {
    ClockDriver c;
    Time time;
    c.external(1, time);
    Ticket behind = c.transfer(1, 1000);
    if (heard) c.run(*time, 10);
    Ticket beside = c.transfer(2, 50, 20);
    expectSpan(c.span(beside), 20, 70);
    if (!heard) c.run(*time, 10);
    expectSpan(c.span(behind), 70, 1070);
  }
}

TEST(ExternalClock, SkippedWorkTakesNoTime) {
  ClockDriver c;
  c.transfer(1, 100);
  Time time;
  c.external(1, time);
  Ticket after = c.transfer(1, 10);
  size_t seen = 0;
  c.clock->setObserver([&](const ResolvedWork& work) { seen += work.external != nullptr; });
  c.clock->skip(*time);
  expectSpan(c.span(after), 100, 110);
  EXPECT_EQ(seen, 0u);
}

TEST(ExternalClock, DroppedWorkTakesNoTime) {
  ClockDriver c;
  Time first, unused;
  Ticket running = c.external(1, first);
  Ticket queued = c.add(1, TimedExternal{});
  c.clock->drop({queued});
  EXPECT_EQ(c.clock->takeExternal(queued), nullptr);
  c.run(*first, 10);
  Ticket after = c.transfer(1, 5);
  expectSpan(c.span(after), 10, 15);
  expectSpan(c.span(running), 0, 10);
}

TEST(ExternalClock, AnObserverSeesItOnceWithItsSpans) {
  ClockDriver c;
  Time time;
  c.external(1, time);
  std::vector<std::string> seen;
  c.clock->setObserver([&](const ResolvedWork& work) {
    ASSERT_NE(work.external, nullptr);
    for (const ExternalSpan& span : work.external->spans) seen.push_back(span.name);
    EXPECT_EQ(work.start, 0);
    EXPECT_EQ(work.end, 90);
  });
  c.clock->end(*time, 90, {{"send to 1", 0, 40}, {"receive from 1", 10, 90}});
  c.clock->totals();
  c.clock->totals();
  EXPECT_EQ(seen, (std::vector<std::string>{"send to 1", "receive from 1"}));
}

TEST(ExternalClock, DevicesWaitForEachOthersExternalWork) {
  ClockDriver a, b;
  Time onA, onB;
  a.transfer(1, 40);
  Ticket first = a.external(1, onA);
  b.waitFor(1, a, first);
  b.transfer(1, 5);
  Ticket second = b.external(1, onB);
  a.waitFor(2, b, second);
  Ticket last = a.transfer(2, 7);
  a.run(*onA, 60);
  EXPECT_EQ(b.clock->arrival(*onB), 105);
  b.clock->end(*onB, 200, {});
  expectSpan(a.span(last), 200, 207);
}

TEST(ExternalClock, ALookAtAnEndIsALookAtAllThatItWaitedFor) {
  // In either order: the later of two pieces of one queue's work counts.
  for (bool laterFirst : {false, true}) {
    ClockDriver c;
    Time one, two;
    Ticket first = c.external(1, one), second = c.external(1, two);
    c.waitFor(2, laterFirst ? second : first);
    c.waitFor(2, laterFirst ? first : second);
    Ticket last = c.transfer(2, 5);
    EXPECT_FALSE(c.clock->seen(first));
    c.run(*one, 10);
    c.run(*two, 10);
    expectSpan(c.span(last), 20, 25);
    EXPECT_TRUE(c.clock->seen(first));
    EXPECT_TRUE(c.clock->seen(second));
  }
}

/// Streams of a training step: compute, one communicator, an optimizer that waits for both. Each
/// external work is started when its dependencies are done, as a queue does, but at a moment that
/// `chance` decides; so is the moment at which its end is told.
class TrainingProgram {
 public:
  explicit TrainingProgram(uint32_t seed) : random_(seed) {}

  std::vector<Picoseconds> run() {
    for (int step = 0; step < 4; ++step) {
      for (int layer = 0; layer < 8; ++layer) {
        Ticket gradient = c_.transfer(kCompute, 100 + 37 * ((layer + step) % 3), 0, 0, Resource::kMme);
        c_.transfer(kCompute, 30, 0, 0, Resource::kDma);
        c_.waitFor(kNetwork, gradient);
        Time time;
        Ticket sum = c_.external(kNetwork, time);
        works_.push_back({time, 50 + 90 * (layer % 4)});
        maybeProgress();
        // What needs the sum competes with the backward pass that goes on.
        c_.waitFor(kOptimizer, sum);
        lastUpdate_ = c_.transfer(kOptimizer, 45, 0, layer % 2, Resource::kDma);
        Ticket copy = c_.transfer(kCopies, 20, 0, 1, Resource::kDma);
        maybeProgress();
        // The program watches its copies while sums are under way, in steps that begin when the
        // ones before are over.
        if (step != 2) ends_.push_back(c_.span(copy).end);
      }
      // The next step computes with the updated weights.
      c_.waitFor(kCompute, lastUpdate_);
      Ticket mark = c_.add(kCompute, TimedMarker{});
      if (step % 2 == 0) {
        // The program waits for the step: it is done on the host, and looked at.
        while (next_ < works_.size()) progress();
        ends_.push_back(c_.span(mark).end);
      }
      tickets_.push_back(mark);
    }
    while (next_ < works_.size()) progress();
    for (Ticket ticket : tickets_) ends_.push_back(c_.span(ticket).end);
    ends_.push_back(c_.clock->totals().end);
    for (Picoseconds busy : c_.clock->totals().busy) ends_.push_back(busy);
    return ends_;
  }

 private:
  static constexpr QueueId kCompute = 1, kNetwork = 2, kOptimizer = 3, kCopies = 4;
  struct Work {
    Time time;
    Picoseconds duration = 0;
    bool started = false;
  };
  void maybeProgress() {
    for (uint32_t n = random_() % 4; n > 0 && next_ < works_.size(); --n) progress();
  }
  /// One step of the communicator: an arrival, or an end.
  void progress() {
    Work& work = works_[next_];
    if (!work.started && random_() % 2) {
      work.started = true;
      c_.clock->arrival(*work.time);
      return;
    }
    c_.run(*work.time, work.duration);
    ++next_;
  }

  std::mt19937 random_;
  ClockDriver c_{4};
  std::vector<Work> works_;
  size_t next_ = 0;
  Ticket lastUpdate_ = 0;
  std::vector<Ticket> tickets_;
  std::vector<Picoseconds> ends_;
};

TEST(ExternalClock, TheHostsSpeedChangesNoTime) {
  const std::vector<Picoseconds> expected = TrainingProgram(0).run();
  for (uint32_t seed = 1; seed < 200; ++seed) ASSERT_EQ(TrainingProgram(seed).run(), expected);
}

TEST(ExternalClock, CommunicatorsThatCrossGoOn) {
  // Two queues, each with external work of two communicators; the ends come in any order.
  for (bool swap : {false, true}) {
    ClockDriver c;
    Time a1, b1, a2, b2;
    Ticket first = c.external(1, a1);
    c.external(2, b1);
    c.waitFor(2, first);
    c.external(2, a2);
    c.waitFor(1, 2);
    Ticket last = c.external(1, b2);
    if (swap) {
      c.run(*b1, 10);
      c.run(*a1, 20);
    } else {
      c.run(*a1, 20);
      c.run(*b1, 10);
    }
    c.run(*a2, 5);
    c.run(*b2, 5);
    EXPECT_EQ(a2->arrival, 20);
    expectSpan(c.span(last), 20, 25);
  }
}

TEST(ExternalClock, OthersGoOnWithoutAnEndThatIsNotKnown) {
  ClockDriver c;
  Time never, second;
  c.external(1, never);
  c.external(1, second);
  Ticket beside = c.transfer(2, 10);
  expectSpan(c.span(beside), 0, 10);
  EXPECT_FALSE(second->arrived);
}

TEST(ExternalClock, AThousandInARowAreCheap) {
  ClockDriver c;
  std::vector<Time> times(20000);
  Ticket last = 0;
  for (Time& time : times) last = c.external(1, time);
  for (Time& time : times) c.run(*time, 7);
  expectSpan(c.span(last), 7 * (20000 - 1), 7 * 20000);
}

}  // namespace
}  // namespace hpu::driver
