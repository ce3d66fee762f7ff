// SPDX-License-Identifier: Apache-2.0
// What callers ask of the clock. Each look resolves under the clocks' lock, all that was submitted before it first, and
// a look of the program moves the next one that is due.
#include "runtime/driver/clock/DeviceClock.h"

#include <new>
#include <unordered_set>
#include <utility>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Spin.h"

namespace hpu::driver {

std::mutex& DeviceClock::domain() {
  // Never destroyed: device objects may outlive static destructors.
  static std::mutex* mutex = [] {
    base::atFork(base::ForkRank::kDeviceClocks, base::forkHandlersOf<domain>());
    return new std::mutex;
  }();
  return *mutex;
}

void DeviceClock::addQueue(QueueId queue, const std::string& name) {
  std::lock_guard lock(domain());
  queues_[queue].name = name;
}

void DeviceClock::closeQueue(QueueId queue) {
  std::lock_guard lock(domain());
  closed_.push_back(queue);
  std::lock_guard inbox(inboxMutex_);
  foreseen_.erase(queue);
}

void DeviceClock::catchUp() {
  if (!lookDue_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(domain());
  try {
    Clocks visiting{this};
    advance(0, visiting);
    forgetClosed();
  } catch (const std::bad_alloc&) {
    // What was submitted stays so; the next look makes up for it.
  }
}

Picoseconds DeviceClock::arrival(ExternalTime& time) {
  std::lock_guard lock(domain());
  Clocks visiting{this};
  if (!time.arrived) advance(time.ticket, visiting);
  if (!time.arrived) {
    allow(time.queue, time.ticket - 1, visiting);
    settle(visiting);
  }
  forgetClosed();
  if (time.arrived) return time.arrival;
  // Clocks that wait for each other in a circle: the queue has come this far.
  auto it = queues_.find(time.queue);
  return it == queues_.end() ? 0 : it->second.end;
}

void DeviceClock::end(ExternalTime& time, Picoseconds end, std::vector<ExternalSpan> spans) {
  std::lock_guard lock(domain());
  time.ended = true;
  time.end = end;
  time.spans = std::move(spans);
}

void DeviceClock::end(ExternalTime& time, std::vector<uint64_t> iterations) {
  std::lock_guard lock(domain());
  time.ended = true;
  time.iterations = std::move(iterations);
}

void DeviceClock::skip(ExternalTime& time) {
  std::lock_guard lock(domain());
  time.ended = time.skipped = true;
}

void DeviceClock::drop(const std::vector<Ticket>& tickets) {
  if (tickets.empty()) return;
  std::unordered_set<Ticket> gone(tickets.begin(), tickets.end());
  std::lock_guard lock(domain());
  stage();
  auto dropIn = [&](base::Fifo<Pending>& items) {
    items.forEach([&](Pending& pending) {
      if (!gone.count(pending.item.ticket)) return;
      pending.item.work = TimedMarker{};
      pending.external.reset();
    });
  };
  dropIn(staged_);
  for (QueueId id : active_) dropIn(queues_[id].items);
  std::lock_guard inbox(inboxMutex_);
  for (Ticket ticket : tickets) externals_.erase(ticket);
  // Nothing of what was to come comes: what is submitted now has the device to itself.
  foreseen_.clear();
  ports_.clear();
}

StatusOr<DeviceClock::Span> DeviceClock::span(Ticket ticket) {
  std::shared_ptr<const TimeNode> wanted = node(ticket);
  if (!wanted)
    return notFound(base::strCat("ticket ", ticket,
                                 " has no device time: it was never submitted, or "
                                 "was forgotten"));
  programLooks();
  std::lock_guard lock(domain());
  see(*wanted);
  Clocks visiting{this};
  advance(wanted->ticket, visiting);
  if (!wanted->resolved) allow(wanted->queue, wanted->ticket, visiting);
  settle(visiting);
  forgetClosed();
  if (!wanted->resolved)
    return failedPrecondition(base::strCat(
        "ticket ", ticket, " has no time yet: it waits for another device's work, or for external work, without one"));
  return Span{wanted->start, wanted->end};
}

DeviceClock::Totals DeviceClock::totals() {
  programLooks();
  std::lock_guard lock(domain());
  Clocks visiting{this};
  advance(UINT64_MAX, visiting);
  for (QueueId id : active_) queues_[id].items.forEach([](Pending& pending) { pending.allowed = true; });
  settle(visiting);
  forgetClosed();
  return totals_;
}

DeviceClock::Totals DeviceClock::resolvedTotals() {
  std::lock_guard lock(domain());
  return totals_;
}

void DeviceClock::setObserver(Observer observer) {
  std::lock_guard lock(domain());
  observer_ = std::move(observer);
}

void DeviceClock::forgetClosed() {
  std::erase_if(closed_, [&](QueueId id) {
    auto it = queues_.find(id);
    if (it != queues_.end() && !it->second.items.empty()) return false;
    for (size_t i = 0; i < staged_.size(); ++i)
      if (staged_[i].item.queue == id) return false;
    if (it != queues_.end()) queues_.erase(it);
    std::lock_guard inbox(inboxMutex_);
    dependents_.erase(id);
    return true;
  });
}

}  // namespace hpu::driver
