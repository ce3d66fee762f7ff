// SPDX-License-Identifier: Apache-2.0
// The parts of QueueExecutor::Core in which a thread of the host waits: for a ticket, and for a
// reset.
#include <sched.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/FloatEnvironment.h"
#include "base/Format.h"
#include "base/PerThread.h"
#include "base/Spin.h"
#include "runtime/driver/Callback.h"
#include "runtime/driver/WorkCalls.h"
#include "runtime/driver/WorkVisitor.h"
#include "runtime/driver/common/QueueCore.h"

namespace hpu::driver {
namespace {

using Clock = base::Deadline::Clock;

// A thread with less time than this does no work of the queue, which might take longer, ...
constexpr int64_t kHelpMs = 60000;
// ... but for a queue whose work has taken no more than such a part of the time, and when what is next is no more than
// that was, or little. (External work only begins on the thread.)
constexpr int kHelpPart = 16;
constexpr int kMoreWork = 2;
constexpr int64_t kLittleWorkPs = 10'000'000;  // 10 us of the engines are some ms of the host.
constexpr int64_t kLittleCopy = int64_t{1} << 20;
// How long before its deadline a wait looks whether external work advances, and how often after it.
constexpr int64_t kProbeMs = 5000;
// How long a wait looks for the end of work that another thread does before it sleeps.
constexpr std::chrono::microseconds kWaiterLooksFor{20};
// While the process exits: how often a thread that waits looks for work that has become ready.
constexpr std::chrono::milliseconds kExitLook{2};

/// Whether a piece of work takes the host about as long as others that the queue has had, of which the longest of late
/// is known. Nothing is known of a queue with few launches.
template <typename Queue>
bool isLikeOthers(const Queue& queue, const Work& work) {
  if (queue.launches < kKnownLaunches) return false;
  return visitWork(
      work, [&](const Launch& launch) { return launch.workPs <= std::max(kMoreWork * queue.largestPs, kLittleWorkPs); },
      [](const CopyToDevice& copy) { return copy.bytes <= kLittleCopy; },
      [](const CopyToHost& copy) { return copy.bytes <= kLittleCopy; },
      [](const CopyOnDevice& copy) { return copy.bytes <= kLittleCopy; },
      [](const Fill& fill) { return fill.bytes <= kLittleCopy; }, [](const CopyMany&) { return false; },
      [](const auto&) { return true; });
}

}  // namespace

/// The queue whose external work is what `queue` stands at, itself or through waits of this device;
/// null when it is something else.
std::shared_ptr<QueueExecutor::Core::Queue> QueueExecutor::Core::inTheWay(const std::shared_ptr<Queue>& queue) {
  std::shared_ptr<Queue> at = queue;
  // Tickets that are waited for are earlier ones: this ends.
  while (at->state == QueueState::kParked && at->parkedAt == ParkedAt::kWait) {
    const auto* wait = std::get_if<WaitFor>(&at->items.front().work);
    if (!wait || wait->other) return nullptr;
    Outstanding* awaited = outstanding.find(wait->ticket);
    if (!awaited) return nullptr;
    at = awaited->queue;
  }
  return at->external ? at : nullptr;
}

bool QueueExecutor::Core::helpable(const Queue& queue) {
  return queue.external && !queue.external->starting && !queue.external->helped;
}

/// The calling thread is to help the queue's external work, which must be helpable.
QueueExecutor::Core::Loan QueueExecutor::Core::borrow(const std::shared_ptr<Queue>& queue) {
  queue->external->helped = true;
  const Item& item = queue->external->item;
  return {queue, item.ticket, std::get<External>(item.work).work};
}

void QueueExecutor::Core::lend(Loan loan, Clock::time_point until) {
  const void*& lending = base::perThread<Lending>().queue;
  const void* outer = std::exchange(lending, loan.queue.get());
  CallbackScope scope(Callback::kWork);
  {
    base::FloatScope floats;
    helpWork(*loan.work, until);
  }
  lending = outer;
  loan.work.reset();
  Section section(*this);
  InProgress* helped = loan.queue->external.get();
  if (!helped || helped->item.ticket != loan.ticket) return;
  helped->helped = false;
  if (Clock::now() < until) return;
  ++helped->handovers;
  wakeHelpers();
}

/// What a thread that waits does when there is nothing to do, by the policy: sleeps until the queue advances, or looks
/// around for a moment. Says whether it is `until` by now.
std::cv_status QueueExecutor::Core::standBy(Section& section, Queue& queue, Clock::time_point until,
                                            WaitPolicy policy) {
  if (policy != WaitPolicy::kSpin && policy != WaitPolicy::kYield) return section.wait(queue.progress, until);
  const std::atomic<uint64_t>& advanced = section.core().advanced;
  const uint64_t seen = advanced.load(std::memory_order_relaxed);
  // It looks under the lock now and then: the end of work is seen there a moment after `advanced` tells of it.
  const Clock::time_point end = std::min(until, Clock::now() + kWaiterLooksFor);
  section.unlock();
  do {
    if (policy == WaitPolicy::kYield)
      ::sched_yield();
    else
      base::cpuRelax();
  } while (advanced.load(std::memory_order_relaxed) == seen && Clock::now() < end);
  section.lock();
  return Clock::now() < until ? std::cv_status::no_timeout : std::cv_status::timeout;
}

/// Waits until `ticket`, one of `queue`, is done. With WaitPolicy::kHelp the calling thread does the queue's work as
/// long as no worker has taken it (two switches of threads less for who waits at once), and helps
/// external work. False: not done at the deadline, and no external work that it stands at
/// advances.
bool QueueExecutor::Core::await(const std::shared_ptr<Queue>& queue, Ticket ticket, const base::Deadline& deadline) {
  /// How far the external work is that the queue stands at.
  struct Advance {
    Ticket ticket = 0;  ///< Of the external work; 0 when there is none.
    uint64_t value = 0;
    bool known = false;
  };
  const auto probe = std::chrono::milliseconds(std::min(deadline.totalMs() / 2, kProbeMs));
  Clock::time_point until = deadline.time() - probe;
  const Clock::time_point lookUntil = std::min(until, Clock::now() + kWaiterLooksFor);
  bool last = probe.count() == 0;  // `until` is the deadline, or after it.
  Advance before;
  Ticket lentTo = 0;
  uint64_t handover = 0;
  bool worked = false, finished = true;
  const WaitPolicy policy = waitPolicy.load(std::memory_order_relaxed);
  const bool helps = policy == WaitPolicy::kHelp;
  Section section(*this);
  // What this thread put into the ready list was left to it.
  auto leaveWork = [&] {
    if (std::exchange(worked, false) && !ready.empty()) ensureWorker();
  };
  auto mayRun = [&] {
    if (exiting || !helps || queue->state != QueueState::kReady || queue->hasLongWork) return false;
    const int64_t remainingMs = deadline.remainingMs();
    const Work& work = queue->items.front().work;
    if (std::holds_alternative<External>(work)) return remainingMs >= 1;
    return remainingMs >= kHelpMs ||
           (kHelpPart * queue->longest <= std::chrono::milliseconds(remainingMs) && isLikeOthers(*queue, work));
  };
  ++waitingThreads;
  ++queue->waiters;
  while (outstanding.contains(ticket)) {
    if (mayRun()) {
      takeFromReady(*queue);
      Turn turn = begin(queue);
      section.unlock();
      perform(std::move(turn));
      section.lock();
      worked = true;
      continue;
    }
    leaveWork();
    if (exiting) {
      if (deadline.expired()) {
        finished = false;
        break;
      }
      // The ticket may wait for work of any queue, on any device.
      bool worked = false;
      if (base::isExitThread()) {
        section.unlock();
        worked = base::workAtExit();
        section.lock();
      }
      if (!worked && outstanding.contains(ticket))
        section.wait(queue->progress, std::min(deadline.time(), Clock::now() + kExitLook));
      continue;
    }
    std::shared_ptr<Queue> way = inTheWay(queue);
    if (helps && way && helpable(*way) && Clock::now() < until &&
        (lentTo != way->external->item.ticket || handover != way->external->handovers)) {
      lentTo = way->external->item.ticket;
      handover = way->external->handovers;
      Loan loan = borrow(way);
      section.unlock();
      lend(std::move(loan), until);
      section.lock();
      worked = true;
      continue;
    }
    way.reset();
    if (helps && queue->state == QueueState::kRunning && Clock::now() < lookUntil) {
      const uint64_t seen = advanced.load(std::memory_order_relaxed);
      section.unlock();
      base::spinUntil(lookUntil, [&] { return advanced.load(std::memory_order_relaxed) != seen; });
      section.lock();
      continue;
    }
    hurry();
    if (standBy(section, *queue, until, policy) == std::cv_status::no_timeout) continue;
    if (!outstanding.contains(ticket)) break;
    Advance now;
    now.known = true;
    if ((way = inTheWay(queue))) {
      now.ticket = way->external->item.ticket;
      std::shared_ptr<ExternalWork> work = std::get<External>(way->external->item.work).work;
      section.unlock();
      now.value = progressOf(*work);
      work.reset();
      way.reset();
      section.lock();
    }
    if (!outstanding.contains(ticket)) break;
    const bool advances = before.known && now.value != 0 && (now.ticket != before.ticket || now.value != before.value);
    if (last && !advances) {
      finished = false;
      break;
    }
    before = now;
    until = last ? Clock::now() + probe : deadline.time();
    last = true;
  }
  --queue->waiters;
  --waitingThreads;
  leaveWork();
  return finished;
}

/// What the queue is at, for who waited in vain.
std::string QueueExecutor::Core::standing(const std::shared_ptr<Queue>& queue) {
  if (auto way = inTheWay(queue)) {
    const std::string& label = way->external->item.label;
    return base::strCat(workName(way->external->item.work), label.empty() ? "" : " '", label, label.empty() ? "" : "'",
                        way == queue ? "" : base::strCat(" on queue '", way->name, "'"), " is in progress");
  }
  return queue->state == QueueState::kParked ? "it waits for work that is not done" : "it is still working";
}

/// Takes what a queue holds besides the item that runs; its tickets are done then.
std::vector<QueueExecutor::Core::Item> QueueExecutor::Core::dropQueued(Queue& queue) {
  std::vector<Item> dropped;
  dropped.reserve(queue.items.size());
  queue.items.forEach([&](Item& item) { dropped.push_back(std::move(item)); });
  queue.items.clear();
  return dropped;
}

Status QueueExecutor::Core::reset(const base::Deadline& deadline,
                                  base::FunctionRef<void(const std::vector<Ticket>&)> dropping) {
  std::vector<Item> dropped;
  Callbacks callbacks;
  std::vector<std::shared_ptr<Queue>> all;
  std::vector<std::shared_ptr<ExternalWork>> inProgress;
  const Status interrupted = cancelled(base::strCat("it was interrupted by a reset of ", deviceName));
  Section section(*this);
  ++resetting;
  // What begins in its caller's thread, under its caller's locks, is cancelled from here.
  for (bool begins = true; begins && !deadline.expired();) {
    begins = false;
    for (const auto& entry : queues)
      if (entry.second->beginsInSubmit) {
        const std::shared_ptr<Queue> queue = entry.second;
        begins = true;
        ++queue->waiters;
        while (queue->beginsInSubmit && section.wait(queue->progress, deadline.time()) == std::cv_status::no_timeout) {
        }
        --queue->waiters;
        break;
      }
  }
  const Ticket until = nextTicket;  // What is submitted from now on is not part of this.
  sealSoon();
  for (auto& entry : queues) all.push_back(entry.second);
  for (const auto& queue : all) {
    std::vector<Item> items = dropQueued(*queue);
    for (Item& item : items) {
      for (Ticket ticket = item.ticket; ticket <= item.ticket + item.signals; ++ticket) {
        Outstanding* entry = outstanding.find(ticket);
        if (!entry) continue;
        for (auto& callback : entry->callbacks) callbacks.push_back(std::move(callback));
        if (!entry->forgotten)
          failures.emplace(ticket,
                           cancelled(base::strCat(workName(item.work), " on queue '", queue->name, "' of ", deviceName,
                                                  " was dropped by a reset of the device"))
                               .withWork({deviceIndex, queue->name, std::string(workName(item.work)), item.label, {}}));
        outstanding.erase(ticket);
      }
      dropped.push_back(std::move(item));
    }
    if (queue->state == QueueState::kReady) takeFromReady(*queue);
    if (queue->external) {
      if (queue->external->starting)
        queue->external->cancelled = interrupted;
      else
        inProgress.push_back(std::get<External>(queue->external->item.work).work);
    } else if (queue->state != QueueState::kRunning) {
      settle(queue);
    }
    queue->progress.notify_all();
  }
  if (draining && outstanding.size() <= drainTarget) drained.notify_all();
  section.unlock();
  std::optional<CallbackScope> scope(Callback::kWork);
  std::vector<Ticket> tickets;
  tickets.reserve(dropped.size());
  for (const Item& item : dropped) tickets.push_back(item.ticket);
  dropping(tickets);
  for (const Item& item : dropped)
    if (const auto* away = std::get_if<External>(&item.work))
      external.skip(*away, item.ticket, cancelled(base::strCat("it was dropped by a reset of ", deviceName)));
  for (const auto& work : inProgress) cancelWork(*work, interrupted);
  inProgress.clear();
  seal();
  dropped.clear();  // Lets go of what the work owned, which may be memory.
  for (auto& callback : callbacks) callback();
  callbacks.clear();
  scope.reset();
  section.lock();
  Status status;
  for (const auto& queue : all) {
    // Its head was taken before the reset, or is newer than it.
    auto over = [&] {
      const bool busy = queue->state == QueueState::kRunning || queue->state == QueueState::kExternal;
      return !busy || queue->running >= until;
    };
    ++queue->waiters;
    while (!over() && section.wait(queue->progress, deadline.time()) == std::cv_status::no_timeout) {
    }
    const bool ended = over();
    --queue->waiters;
    if (!ended && status.ok())
      status = deadlineExceeded(
          base::strCat(deviceName, " cannot be reset: ", queue->runningName,
                       queue->external ? base::strCat(" '", queue->external->item.label, "'") : "", " on queue '",
                       queue->name, "' did not end within ", deadline.totalMs(), " ms"));
    if (queue->errorTicket < until) queue->error = Status();
  }
  --resetting;
  return status;
}

}  // namespace hpu::driver
