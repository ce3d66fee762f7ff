// SPDX-License-Identifier: Apache-2.0
// ClockDriver: a device clock with a ticket counter, and short ways to submit.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/driver/clock/DeviceClock.h"

namespace hpu::driver {

class ClockDriver {
 public:
  using Span = DeviceClock::Span;

  explicit ClockDriver(int queues = 3) {
    for (int q = 1; q <= queues; ++q) clock->addQueue(static_cast<QueueId>(q), "queue " + std::to_string(q));
  }

  Ticket add(QueueId queue, TimedWork work, Picoseconds earliest = 0, int priority = 0) {
    ClockItem item;
    item.ticket = next_++;
    item.queue = queue;
    item.priority = priority;
    item.earliest = earliest;
    item.work = std::move(work);
    clock->submit(std::move(item));
    return next_ - 1;
  }
  Ticket transfer(QueueId queue, Picoseconds duration, Picoseconds earliest = 0, int priority = 0,
                  Resource resource = Resource::kDma) {
    TimedTransfer work;
    work.resource = resource;
    work.cost.alone = work.cost.compute = duration;
    work.bytes = duration;
    return add(queue, std::move(work), earliest, priority);
  }
  void skipTickets(Ticket count) { next_ += count; }
  Ticket waitFor(QueueId queue, Ticket ticket) { return add(queue, TimedWait{clock->node(ticket), {}}); }
  Ticket waitFor(QueueId queue, ClockDriver& other, Ticket ticket) {
    return add(queue, TimedWait{other.clock->nodeForOther(ticket), other.clock});
  }
  /// External work; `time` is what to say its end to.
  Ticket external(QueueId queue, std::shared_ptr<ExternalTime>& time) {
    Ticket ticket = add(queue, TimedExternal{});
    time = clock->takeExternal(ticket);
    return ticket;
  }
  /// The external work takes its turn and ends `duration` later.
  void run(ExternalTime& time, Picoseconds duration) { clock->end(time, clock->arrival(time) + duration, {}); }
  Span span(Ticket ticket) {
    auto result = clock->span(ticket);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : Span{-1, -1};
  }

  std::shared_ptr<DeviceClock> clock = std::make_shared<DeviceClock>();

 private:
  Ticket next_ = 1;
};

inline void expectSpan(DeviceClock::Span span, Picoseconds start, Picoseconds end) {
  EXPECT_EQ(span.start, start);
  EXPECT_EQ(span.end, end);
}

}  // namespace hpu::driver
