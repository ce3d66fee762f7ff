// SPDX-License-Identifier: Apache-2.0
// Scheduling: the ready list, the workers, and how an item begins, runs and ends.
#include "runtime/driver/common/QueueCore.h"

#include <sched.h>
#include <sys/prctl.h>

#include <exception>
#include <new>

#include "base/Format.h"
#include "base/Log.h"
#include "base/PerThread.h"
#include "base/Thread.h"
#include "runtime/driver/Callback.h"
#include "runtime/driver/WorkCalls.h"

namespace hpu::driver {
namespace {

// To wake a worker costs the thread that enqueues about ten microseconds. So a worker without work looks for some
// without a pause at first, then one of them does so again and again for a while, and only then is it to be woken.
constexpr std::chrono::microseconds kLookFor{25};
// A nap in vain is followed by one twice as long: work waits for no longer than there was none before it, and long
// operations of threads that wait are not disturbed many times.
constexpr std::chrono::microseconds kNap{50}, kLongestNap{800};
constexpr std::chrono::milliseconds kNapFor{10};
// A worker that finds some lets the thread that enqueues get on before it takes the lock from it: that one comes with
// more, or waits and does the work itself.
constexpr std::chrono::microseconds kLetBe{5};

}  // namespace

std::vector<InsideItem>& inside() {
  struct Inside {
    std::vector<InsideItem> items;
  };
  return base::perThread<Inside>().items;
}

/// Makes sure that somebody will look at the ready list.
void QueueExecutor::Core::ensureWorker() {
  if (looking > 0 || sleeping == 0) return;
  --sleeping;
  ++looking;
  ++wakes;
  ++wakesToSend;
}

/// A thread that waits, or asks, does not wait for the end of a nap.
void QueueExecutor::Core::hurry() {
  if (napping && (!ready.empty() || !unsealed.empty())) hurried.notify_one();
}

/// So that as many can work at a time, or as many as the system lets. True when there are any.
bool QueueExecutor::Core::startWorkers(int wanted) {
  while (true) {
    try {
      {
        Section section(*this);
        if (workersStarted >= std::min(wanted, maxWorkers) || stopping || exiting) return workersStarted > 0 || exiting;
        ++workersStarted;
        workers.reserve(static_cast<size_t>(maxWorkers));  // A thread that runs has a place to go.
      }
      std::thread worker = base::startThread("hpu-stream", [self = shared_from_this()] { self->workerLoop(); });
      Section section(*this);
      workers.push_back(std::move(worker));
    } catch (const std::exception&) {
      Section section(*this);
      return --workersStarted > 0;
    }
  }
}

/// External work goes first: it only begins here, and others may wait for it elsewhere.
void QueueExecutor::Core::putReady(const std::shared_ptr<Queue>& queue) {
  queue->state = QueueState::kReady;
  queue->place.front() = queue;
  const bool first = std::holds_alternative<External>(queue->items.front().work);
  ready.splice(first ? ready.begin() : ready.end(), queue->place);
  anyReady.store(true, std::memory_order_relaxed);
}

/// The first of the ready list, which is not empty.
std::shared_ptr<QueueExecutor::Core::Queue> QueueExecutor::Core::takeReady() {
  std::shared_ptr<Queue> queue = std::move(ready.front());
  queue->place.splice(queue->place.begin(), ready, ready.begin());
  noteReady();
  return queue;
}

/// The same for a queue that somebody else holds, too.
void QueueExecutor::Core::takeFromReady(Queue& queue) {
  auto at = std::find_if(ready.begin(), ready.end(), [&](const auto& entry) { return entry.get() == &queue; });
  queue.place.splice(queue.place.begin(), ready, at);
  queue.place.front().reset();
  noteReady();
}

void QueueExecutor::Core::noteReady() {
  anyReady.store(!ready.empty() || !unsealed.empty() || stopping || exiting, std::memory_order_relaxed);
}

void QueueExecutor::Core::makeReady(const std::shared_ptr<Queue>& queue) {
  putReady(queue);
  ensureWorker();
}

/// settle(), but for external work that is next: that is begun, as `next`, for the calling thread when it asks for it.
void QueueExecutor::Core::settleOrBegin(const std::shared_ptr<Queue>& queue, Turn* next) {
  // Not by way of the ready list: a worker that looks for work there would take it from who is here already.
  if (next && !stopping && mayTakeTurns() && !queue->items.empty() &&
      std::holds_alternative<External>(queue->items.front().work))
    *next = begin(queue);
  else
    settle(queue);
}

/// After the head of a queue was taken off: what is the queue now?
void QueueExecutor::Core::settle(const std::shared_ptr<Queue>& queue) {
  if (!queue->items.empty()) {
    // The calling thread looks at the ready list next, so nobody needs to be woken.
    putReady(queue);
    return;
  }
  queue->state = QueueState::kIdle;
  if (queue->closing) {
    if (!queue->error.ok())
      HPU_LOG(kError, base::strCat("queue '", queue->name, "' of ", deviceName,
                                   " was closed with an error that nobody asked for: ", queue->error.message()));
    queues.erase(queue->id);
  }
}

void QueueExecutor::Core::workerLoop() {
  // A worker that wakes on the CPU of the thread that enqueued does not push it aside. Without the right to it nothing
  // is lost but that.
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_BATCH, &none);
  (void)::prctl(PR_SET_TIMERSLACK, 1000);  // Nanoseconds: naps are no longer than they are meant to be.
  while (std::optional<Turn> turn = awaitTurn()) perform(std::move(*turn));
}

/// The next turn for a worker; none when it is to end.
std::optional<QueueExecutor::Core::Turn> QueueExecutor::Core::awaitTurn() {
  Section section(*this);
  ++looking;
  auto idleSince = base::Deadline::Clock::now();
  auto nap = kNap;
  uint64_t seen = advanced.load(std::memory_order_relaxed);
  while (ready.empty() && unsealed.empty() && !stopping && !exiting) {
    const auto now = base::Deadline::Clock::now();
    if (now < idleSince + kLookFor) {
      section.unlock();
      if (base::spinUntil(idleSince + kLookFor, [&] { return anyReady.load(std::memory_order_relaxed); }))
        base::spinUntil(base::Deadline::Clock::now() + kLetBe,
                        [&] { return !anyReady.load(std::memory_order_relaxed); });
      section.lock();
      continue;
    }
    // As long as threads that wait do the work themselves, more of it is to come.
    if (const uint64_t done = advanced.load(std::memory_order_relaxed); std::exchange(seen, done) != done) {
      idleSince = now - kLookFor;
      nap = kNap;
    }
    if (!napping && now < idleSince + kNapFor) {
      napping = true;
      section.wait(hurried, now + nap);
      napping = false;
      nap = std::min(2 * nap, kLongestNap);
      continue;
    }
    --looking;
    ++sleeping;
    while (wakes == 0 && !stopping && !exiting) section.wait(workAvailable);
    // The thread that woke it has counted it in `looking` already.
    if (wakes > 0) {
      --wakes;
    } else {
      --sleeping;
      ++looking;
    }
    idleSince = base::Deadline::Clock::now();
  }
  --looking;
  if (stopping || exiting) return std::nullopt;
  Turn turn;
  if (std::shared_ptr<ExternalWork> work = takeUnsealed()) {
    turn.kind = Turn::Kind::kSeal;
    turn.away.work = std::move(work);
    turn.taken = Taken(*this);
  } else {
    turn = begin(takeReady());
  }
  if (!ready.empty() || !unsealed.empty()) ensureWorker();
  return turn;
}

void QueueExecutor::Core::unpark(const std::shared_ptr<Queue>& queue, Ticket head) {
  Section section(*this);
  // A reset may have dropped that wait, and the queue may be parked at another one.
  if (queue->state != QueueState::kParked || queue->parkedAt != ParkedAt::kWait || stopping ||
      queue->items.front().ticket != head)
    return;
  queue->items.front().released = true;
  makeReady(queue);
}

void QueueExecutor::Core::park(Queue& queue, ParkedAt at) {
  queue.state = QueueState::kParked;
  queue.parkedAt = at;
}

/// True when the queue's head is a WaitFor that must wait: the queue is parked then.
bool QueueExecutor::Core::parkForWait(const std::shared_ptr<Queue>& queue, Turn& turn) {
  const Item& head = queue->items.front();
  const auto* wait = std::get_if<WaitFor>(&head.work);
  if (!wait || head.released) return false;
  if (wait->other) {
    // The other device may call back at once, with its locks and not with ours.
    turn.kind = Turn::Kind::kAskOther;
    turn.other = wait->other;
    turn.ticket = wait->ticket;
    turn.head = head.ticket;
  } else {
    Outstanding* awaited = outstanding.find(wait->ticket);
    if (!awaited) return false;
    awaited->callbacks.push_back([core = weak_from_this(), queue, ticket = head.ticket] {
      if (auto alive = core.lock()) alive->unpark(queue, ticket);
    });
  }
  park(*queue, ParkedAt::kWait);
  return true;
}

/// True when the queue's head is a launch that does not begin now: the queue is parked then. Else its program is busy.
bool QueueExecutor::Core::parkForLaunch(const std::shared_ptr<Queue>& queue) {
  Item& head = queue->items.front();
  const auto* launch = std::get_if<Launch>(&head.work);
  if (!launch) return false;
  try {
    for (Busy& program : busy) {
      if (program.program != launch->program) continue;
      program.parked.push_back(queue);
      park(*queue, ParkedAt::kProgram);
      return true;
    }
    if (gate && !draining && gate(head.work)) {
      park(*queue, ParkedAt::kGate);
      return true;
    }
    busy.push_back({launch->program, {}});
    head.running = launch->program;
  } catch (const std::bad_alloc&) {
    // It may wait for the other launch on a worker.
  }
  return false;
}

/// A launch of the program is over: those that are parked for it try again, in their order.
void QueueExecutor::Core::freeProgram(std::optional<ProgramId> program) {
  if (!program) return;
  auto it = std::find_if(busy.begin(), busy.end(), [&](const Busy& entry) { return entry.program == program; });
  const std::vector<std::shared_ptr<Queue>> parked = std::move(it->parked);
  busy.erase(it);
  for (const auto& queue : parked)
    if (queue->state == QueueState::kParked && queue->parkedAt == ParkedAt::kProgram) makeReady(queue);
}

/// Takes the head of a queue, which is not in the ready list, for the calling thread.
QueueExecutor::Core::Turn QueueExecutor::Core::begin(const std::shared_ptr<Queue>& queue) {
  Turn turn;
  turn.queue = queue;
  turn.taken = Taken(*this);
  if (parkForWait(queue, turn)) return turn;
  Item& head = queue->items.front();
  turn.cause = (head.report ? *head.report : *queue).failureBefore(head.ticket);
  if (turn.cause.ok() && parkForLaunch(queue)) return turn;
  turn.status = skipped(*queue, head, turn.cause);
  queue->state = QueueState::kRunning;
  queue->running = head.ticket;
  queue->runningName = workName(head.work);
  turn.kind = Turn::Kind::kRun;
  turn.item = std::move(head);
  queue->items.popFront();
  const auto* away = std::get_if<External>(&turn.item.work);
  if (!away || !turn.status.ok()) return turn;
  std::unique_ptr<InProgress> progress(new (std::nothrow) InProgress);
  if (!progress) {
    turn.status = resourceExhausted("out of host memory");
    return turn;
  }
  turn.kind = Turn::Kind::kStart;
  turn.ticket = turn.item.ticket;
  turn.away = *away;
  progress->item = std::move(turn.item);
  queue->external = std::move(progress);
  queue->state = QueueState::kExternal;
  return turn;
}

/// Does a turn. `next`, if not null: gets the turn of external work that is behind it on its queue and may begin.
void QueueExecutor::Core::perform(Turn turn, Turn* next) {
  CallbackScope scope(Callback::kWork);
  switch (turn.kind) {
    case Turn::Kind::kNothing:
      return;
    case Turn::Kind::kAskOther:
      return turn.other->whenDone(turn.ticket, [core = weak_from_this(), queue = turn.queue, head = turn.head] {
        if (auto alive = core.lock()) alive->unpark(queue, head);
      });
    case Turn::Kind::kStart:
      return startExternal(turn.queue, std::move(turn.away), turn.ticket, next);
    case Turn::Kind::kSeal:
      return sealWork(*turn.away.work);
    case Turn::Kind::kRun:
      return run(std::move(turn), next);
  }
}

/// Does an item, or skips it. `next` as of perform.
void QueueExecutor::Core::run(Turn turn, Turn* next) {
  Queue& queue = *turn.queue;
  Item& item = turn.item;
  Status status = std::move(turn.status);
  const auto start = base::Deadline::Clock::now();
  inside().push_back({this, &queue, item.ticket, false});
  if (const auto* away = std::get_if<External>(&item.work)) {
    external.skip(*away, item.ticket, status);
  } else if (const auto* wait = std::get_if<WaitFor>(&item.work)) {
    if (turn.cause.ok()) status = waitedFor(*wait);
    if (!status.ok()) status = inContext(queue, item, status.withContext("the work that it waited for failed"));
  } else if (status.ok()) {
    running.fetch_add(1, std::memory_order_relaxed);
    try {
      status = body(item.work, item.label, [&](uint32_t signal) {
        if (signal < item.signals) completeSignal(queue, item, signal, okStatus());
      });
    } catch (const std::bad_alloc&) {
      status = resourceExhausted("out of host memory");
    } catch (...) {
      status = internalError("an exception reached the queue");
    }
    running.fetch_sub(1, std::memory_order_relaxed);
    if (!status.ok()) status = inContext(queue, item, status);
  }
  for (uint32_t i = 0; i < item.signals; ++i) completeSignal(queue, item, i, turn.cause.ok() ? status : turn.cause);
  inside().pop_back();
  conclude(turn.queue, std::move(item), std::move(status), base::Deadline::Clock::now() - start, next);
}

/// The failure as one of this item, or, of a wait, as the one of other work that it is.
Status QueueExecutor::Core::inContext(const Queue& queue, const Item& item, const Status& status) const {
  Status result =
      status.withContext(base::strCat(workName(item.work), item.label.empty() ? "" : " '", item.label,
                                      item.label.empty() ? "" : "'", " on queue '", queue.name, "' of ", deviceName));
  WorkFailure failure = status.work() ? *status.work() : WorkFailure();
  if (!failure.operation.empty()) return result;
  failure.device = deviceIndex;
  failure.stream = queue.name;
  failure.operation = workName(item.work);
  failure.label = item.label;
  return result.withWork(std::move(failure));
}

/// What the ticket of a wait, which is done, failed with.
Status QueueExecutor::Core::waitedFor(const WaitFor& wait) {
  if (wait.onlyOrder) return okStatus();
  if (wait.other) return wait.other->failure(wait.ticket);
  auto lock = look();
  return failureOf(wait.ticket);
}

Status QueueExecutor::Core::failureOf(Ticket ticket) const {
  auto it = failures.find(ticket);
  return it == failures.end() ? okStatus() : it->second;
}

/// The work of an item is over: lets go of what it owned, and says so. `next` as of perform.
void QueueExecutor::Core::conclude(const std::shared_ptr<Queue>& queue, Item item, Status status,
                                   base::Deadline::Clock::duration took, Turn* next) {
  const auto* launch = std::get_if<Launch>(&item.work);
  const int64_t launchPs = launch ? launch->workPs : Queue::kNoLaunch;
  inside().push_back({this, queue.get(), item.ticket, true});
  // Before anybody can see that the work is done, so that a thread which waited for it finds the
  // memory free. May destroy the device.
  item.keepAlive.reset();
  closed(item.ticket);
  item.work = Marker{};
  inside().pop_back();
  advanced.fetch_add(1, std::memory_order_relaxed);
  Callbacks callbacks;
  NewError error;
  {
    Section section(*this);
    queue->ran(took, launchPs);
    freeProgram(item.running);
    callbacks = finish(*queue, item, status, error);
    if (callbacks.empty()) settleOrBegin(queue, next);
    if (queue->waiters > 0) queue->progress.notify_all();
  }
  tell(error);
  if (callbacks.empty()) return;
  // As above: what the callbacks let go of may destroy the device.
  inside().push_back({this, queue.get(), item.ticket, true});
  for (auto& callback : callbacks) callback();
  callbacks.clear();
  inside().pop_back();
  Section section(*this);
  settleOrBegin(queue, next);
  if (queue->waiters > 0) queue->progress.notify_all();
}

/// Not ok for work that is not to run: what it needs is probably not there, because work before it
/// failed (`cause`) and nobody had been told when it was enqueued.
Status QueueExecutor::Core::skipped(const Queue& queue, const Item& item, const Status& cause) const {
  if (cause.ok() || std::holds_alternative<WaitFor>(item.work)) return okStatus();
  // What was recorded stands for the work before it.
  if (std::holds_alternative<Marker>(item.work)) return cause;
  if (const auto* away = std::get_if<External>(&item.work); away && away->isReport) return cause;
  return Status::because(cause, StatusCode::kAborted,
                         base::strCat(workName(item.work), item.label.empty() ? "" : " '", item.label,
                                      item.label.empty() ? "" : "'", " on queue '", queue.name, "' of ", deviceName,
                                      " was not run: work before it on the queue failed: ", cause.message()));
}

/// Keeps the first failure of a queue for whoever asks. Returns it when it is to be told.
QueueExecutor::Core::NewError QueueExecutor::Core::keepError(Queue& queue, Ticket ticket, const Status& status) {
  if (status.ok() || !queue.error.ok() || ticket < queue.skipBefore) return {};
  queue.error = status;
  queue.errorTicket = ticket;
  if (!failed || stopping || (resetting > 0 && status.code() == StatusCode::kCancelled)) return {};
  return {queue.name, status};
}

void QueueExecutor::Core::tell(const NewError& error) const {
  if (!error.status.ok()) failed(error.queue, error.status);
}

/// A signal of a launch that still runs is done, or the launch ended without it. At most once each.
void QueueExecutor::Core::completeSignal(Queue& queue, const Item& item, uint32_t signal, const Status& status) {
  const Ticket ticket = item.ticket + 1 + signal;
  Callbacks callbacks;
  NewError error;
  {
    Section section(*this);
    Outstanding* entry = outstanding.find(ticket);
    if (!entry) return;
    callbacks = std::move(entry->callbacks);
    if (!status.ok() && !entry->forgotten) failures.emplace(ticket, status);
    outstanding.erase(ticket);
    error = keepError(item.report ? *item.report : queue, item.ticket, status);
    if (queue.waiters > 0) queue.progress.notify_all();
    if (draining && outstanding.size() <= drainTarget) drained.notify_all();
  }
  tell(error);
  for (auto& callback : callbacks) callback();
}

/// The item's ticket is done. Its callbacks are returned, to be called without the lock.
QueueExecutor::Core::Callbacks QueueExecutor::Core::finish(Queue& queue, const Item& item, const Status& status,
                                                           NewError& error) {
  Callbacks callbacks;
  if (Outstanding* entry = outstanding.find(item.ticket)) {
    callbacks = std::move(entry->callbacks);
    if (!status.ok() && !entry->forgotten) failures.emplace(item.ticket, status);
    outstanding.erase(item.ticket);
  }
  error = keepError(item.report ? *item.report : queue, item.ticket, status);
  if (draining && outstanding.size() <= drainTarget) drained.notify_all();
  return callbacks;
}

void QueueExecutor::Core::addCallback(Ticket ticket, std::function<void()> callback) {
  {
    Section section(*this);
    if (Outstanding* entry = outstanding.find(ticket)) {
      entry->callbacks.push_back(std::move(callback));
      if (ticket == openTicket.load(std::memory_order_relaxed)) sealSoon();
      return;
    }
  }
  callback();
}

Status QueueExecutor::Core::checkWait(const Work& work) const {
  const auto* wait = std::get_if<WaitFor>(&work);
  if (!wait || wait->other || (wait->ticket > 0 && wait->ticket < nextTicket)) return okStatus();
  return invalidArgument(
      base::strCat("cannot wait for ticket ", wait->ticket, " of ", deviceName, ": it was never submitted"));
}

/// Returns the new ticket. The queue is not made ready yet. Throws std::bad_alloc:
/// nothing has changed then.
Ticket QueueExecutor::Core::append(const std::shared_ptr<Queue>& queue, Work& work,
                                   std::shared_ptr<const void>& keepAlive, std::string& label, bool forgotten) {
  uint32_t signals = 0;
  if (const auto* launch = std::get_if<Launch>(&work)) signals = static_cast<uint32_t>(launch->signals.size());
  const Ticket ticket = nextTicket, end = ticket + 1 + signals;
  Item& item = queue->items.push(Item());
  try {
    for (Ticket t = ticket; t < end; ++t) {
      Outstanding& entry = outstanding.add(t);
      entry.queue = queue;
      entry.forgotten = forgotten;
    }
  } catch (...) {
    for (Ticket t = ticket; t < end; ++t) outstanding.erase(t);
    queue->items.popBack();
    throw;
  }
  nextTicket = end;
  item.ticket = ticket;
  item.work = std::move(work);
  item.keepAlive = std::move(keepAlive);
  item.label = std::move(label);
  item.signals = signals;
  return ticket;
}

/// Undoes the last append, which was to this queue. What the work owns goes back to
/// the caller, who lets go of it without the lock.
void QueueExecutor::Core::takeBack(Queue& queue, Work& work, std::shared_ptr<const void>& keepAlive) noexcept {
  Item& item = queue.items.back();
  work = std::move(item.work);
  keepAlive = std::move(item.keepAlive);
  for (Ticket t = item.ticket; t < nextTicket; ++t) outstanding.erase(t);
  nextTicket = item.ticket;
  queue.items.popBack();
}

Status QueueExecutor::Core::noMemory() const {
  return resourceExhausted("out of host memory for the queues of " + deviceName);
}

std::string QueueExecutor::Core::closedText() const {
  return base::strCat(deviceName, " was closed before the work was done");
}

}  // namespace hpu::driver
