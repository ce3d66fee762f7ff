// SPDX-License-Identifier: Apache-2.0
// The parts of QueueExecutor::Core for work that others do: its start, what is added to it while it is open, its end.
#include <exception>
#include <new>
#include <utility>

#include "base/PerThread.h"
#include "runtime/driver/Callback.h"
#include "runtime/driver/WorkCalls.h"
#include "runtime/driver/common/QueueCore.h"

namespace hpu::driver {

/// More may be added to `work`, which was submitted last, from now on. There is room in `unsealed`.
void QueueExecutor::Core::keepOpen(std::shared_ptr<ExternalWork> work, const std::shared_ptr<Queue>& queue,
                                   Ticket ticket, int64_t earliestNs) noexcept {
  open = {std::move(work), queue, earliestNs};
  openTicket.store(ticket, std::memory_order_relaxed);
}

/// Nothing more is added to what is open; null when nothing is. It has to be told so without locks.
std::shared_ptr<ExternalWork> QueueExecutor::Core::takeOpen() {
  openTicket.store(0, std::memory_order_relaxed);
  return std::exchange(open, {}).work;
}

/// Without locks: work that is over takes on no more, and needs not be told.
void QueueExecutor::Core::closed(Ticket ticket) {
  if (openTicket.load(std::memory_order_relaxed) != ticket) return;
  std::shared_ptr<ExternalWork> work;
  auto lock = look();
  if (openTicket.load(std::memory_order_relaxed) == ticket) work = takeOpen();
}

/// takeOpen() for a caller who has locks: a worker tells the work, or whoever waits.
void QueueExecutor::Core::sealSoon() {
  if (!open.work) return;
  unsealed.push_back(takeOpen());
  anyUnsealed.store(true, std::memory_order_relaxed);
  anyReady.store(true, std::memory_order_relaxed);
  ensureWorker();
}

/// One that is to be told that nothing more is added to it; null when there is none.
std::shared_ptr<ExternalWork> QueueExecutor::Core::takeUnsealed() {
  if (unsealed.empty()) return nullptr;
  std::shared_ptr<ExternalWork> work = std::move(unsealed.back());
  unsealed.pop_back();
  anyUnsealed.store(!unsealed.empty(), std::memory_order_relaxed);
  noteReady();
  return work;
}

/// Tells all that is open, or was, that nothing more is added to it.
void QueueExecutor::Core::seal() {
  if (openTicket.load(std::memory_order_relaxed) == 0 && !anyUnsealed.load(std::memory_order_relaxed)) return;
  while (true) {
    std::shared_ptr<ExternalWork> work;
    {
      auto lock = look();
      work = takeOpen();
      if (!work) work = takeUnsealed();
    }
    if (!work) return;
    CallbackScope scope(Callback::kWork);
    sealWork(*work);
    work.reset();
  }
}

/// Gives external work its turn; it may end at once. `next` as of perform.
void QueueExecutor::Core::startExternal(const std::shared_ptr<Queue>& queue, External away, Ticket ticket, Turn* next) {
  const auto start = base::Deadline::Clock::now();
  Status begun;
  Complete complete;
  bool within = false;
  try {
    inside().push_back({this, queue.get(), ticket, false});
    within = true;
    complete = [core = weak_from_this(), queue, ticket](Status status) {
      if (auto alive = core.lock()) alive->completeExternal(queue, ticket, std::move(status));
    };
  } catch (const std::bad_alloc&) {
    begun = resourceExhausted("out of host memory");
    external.skip(away, ticket, begun);
  }
  try {
    if (begun.ok()) begun = external.begin(away, ticket, std::move(complete));
  } catch (const std::bad_alloc&) {
    begun = resourceExhausted("out of host memory");
  } catch (...) {
    begun = internalError("an exception reached the queue");
  }
  if (within) inside().pop_back();
  away.work.reset();  // Before the work is seen to be done: its owner may go then.
  const bool tookLong = base::Deadline::Clock::now() - start > kLongWork;
  std::unique_ptr<InProgress> ended;
  Status why;  // Not ok: it is to be cancelled.
  {
    Section section(*this);
    queue->hasLongWork |= tookLong;
    InProgress* now = queue->external.get();
    if (!now || now->item.ticket != ticket) return;  // The device was closed meanwhile.
    now->starting = false;
    if (!begun.ok() && !now->complete) {
      now->complete = true;
      now->status = std::move(begun);
    }
    if (now->complete) {
      ended = takeEnded(*queue);
    } else if (!now->cancelled.ok()) {
      why = now->cancelled;
      away = std::get<External>(now->item.work);
    } else {
      wakeHelpers();
    }
  }
  if (ended) return conclude(queue, std::move(ended->item), std::move(ended->status), {}, next);
  if (!why.ok()) cancelWork(*away.work, why);
}

void QueueExecutor::Core::completeExternal(const std::shared_ptr<Queue>& queue, Ticket ticket, Status status) {
  std::unique_ptr<InProgress> ended;
  {
    Section section(*this);
    InProgress* now = queue->external.get();
    if (!now || now->item.ticket != ticket || now->complete) return;
    now->complete = true;
    now->status = std::move(status);
    if (now->starting) return;
    ended = takeEnded(*queue);
  }
  CallbackScope scope(Callback::kWork);  // The thread is the work's own.
  // A thread that helped this very work looks at the ready list next. One that helps other work may
  // do so for long, perhaps until something is done that waits here.
  const bool goesOn = base::perThread<Lending>().queue != queue.get();
  Turn next;
  conclude(queue, std::move(ended->item), std::move(ended->status), {}, goesOn ? &next : nullptr);
  if (goesOn) beginExternals(std::move(next));
}

/// Does a turn of external work, or none, and gives the work behind it its turn as long as that is external, too; a
/// worker does what else is ready. It takes no longer than to wake one.
void QueueExecutor::Core::beginExternals(Turn turn) {
  while (turn.kind != Turn::Kind::kNothing) {
    Turn next;
    perform(std::move(turn), &next);
    turn = std::move(next);
  }
  Section section(*this);
  if (!ready.empty()) ensureWorker();
}

/// Takes external work that is complete off its queue, with what it ended with.
std::unique_ptr<QueueExecutor::Core::InProgress> QueueExecutor::Core::takeEnded(Queue& queue) {
  std::unique_ptr<InProgress> ended = std::move(queue.external);
  queue.state = QueueState::kRunning;
  if (!ended->status.ok()) ended->status = inContext(queue, ended->item, ended->status);
  return ended;
}

/// Threads that wait may find external work to help.
void QueueExecutor::Core::wakeHelpers() {
  if (waitingThreads == 0) return;
  for (const auto& [id, queue] : queues)
    if (queue->waiters > 0) queue->progress.notify_all();
}

}  // namespace hpu::driver
