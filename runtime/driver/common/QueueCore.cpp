// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/common/QueueCore.h"

#include <exception>
#include <iterator>
#include <new>

#include "base/Abandon.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/PerThread.h"
#include "base/Thread.h"

namespace hpu::driver {
namespace {

// A queue that has had work which took longer is not helped with: the switch of threads that help
// saves is nothing to such work, and the next may overrun the helper's deadline.
constexpr std::chrono::milliseconds kLongWork{100};
// How long a device that closes waits for external work that it has cancelled.
constexpr std::chrono::seconds kCancelPatience(1);

/// Work items that the current thread is inside of, by core: a drain on a worker thread must not
/// wait for the item that it is part of.
struct InsideItem {
  const void* core;
  const void* queue;
  Ticket ticket;
  bool bodyDone;  ///< It is only letting go of what it owned.
};
struct Inside {
  std::vector<InsideItem> items;
};
std::vector<InsideItem>& inside() {
  return base::perThread<Inside>().items;
}

}  // namespace

// ---- Scheduling
// ------------------------------------------------------------------------------------

/// Makes sure that somebody will look at the ready list.
void QueueExecutor::Core::ensureWorker() {
  if (idleWorkers > wakesPending) {
    ++wakesPending;
    workAvailable.notify_one();
    return;
  }
  if (static_cast<int>(workers.size()) >= maxWorkers || stopping) return;
  try {
    workers.reserve(workers.size() + 1);  // A thread that runs has a place to go.
    workers.push_back(base::startThread("hpu-stream", [self = shared_from_this()] { self->workerLoop(); }));
  } catch (const std::exception&) {
    // With at least one worker the work is done all the same; submit reports the case of none.
  }
}

/// External work goes first: it only begins here, and others may wait for it elsewhere.
void QueueExecutor::Core::putReady(const std::shared_ptr<Queue>& queue) {
  queue->state = QueueState::kReady;
  queue->place.front() = queue;
  const bool first = std::holds_alternative<External>(queue->items.front().work);
  ready.splice(first ? ready.begin() : ready.end(), queue->place);
}

/// The first of the ready list, which is not empty.
std::shared_ptr<QueueExecutor::Core::Queue> QueueExecutor::Core::takeReady() {
  std::shared_ptr<Queue> queue = std::move(ready.front());
  queue->place.splice(queue->place.begin(), ready, ready.begin());
  return queue;
}

/// The same for a queue that somebody else holds, too.
void QueueExecutor::Core::takeFromReady(Queue& queue) {
  auto at = std::find_if(ready.begin(), ready.end(), [&](const auto& entry) { return entry.get() == &queue; });
  queue.place.splice(queue.place.begin(), ready, at);
  queue.place.front().reset();
}

void QueueExecutor::Core::makeReady(const std::shared_ptr<Queue>& queue) {
  putReady(queue);
  ensureWorker();
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
  Lock lock(mutex);
  while (true) {
    while (ready.empty() && !stopping) {
      ++idleWorkers;
      workAvailable.wait(lock);
      --idleWorkers;
      wakesPending = std::max(wakesPending - 1, 0);
    }
    if (stopping) return;
    runHead(lock, takeReady());
  }
}

void QueueExecutor::Core::unpark(const std::shared_ptr<Queue>& queue, Ticket head) {
  Lock lock(mutex);
  // A reset may have dropped that wait, and the queue may be parked at another one.
  if (queue->state != QueueState::kParked || stopping || queue->items.front().ticket != head) return;
  queue->items.front().released = true;
  makeReady(queue);
}

/// True when the queue's head is a launch that does not begin: the queue is parked then.
bool QueueExecutor::Core::holdForGate(const std::shared_ptr<Queue>& queue) {
  Item& head = queue->items.front();
  if (!gate || draining || !std::holds_alternative<Launch>(head.work) || !gate(head.work)) return false;
  queue->state = QueueState::kParked;
  queue->held = true;
  return true;
}

/// True when the queue's head is a WaitFor that must wait: the queue is parked then.
bool QueueExecutor::Core::holdForWait(Lock& lock, const std::shared_ptr<Queue>& queue) {
  Item& head = queue->items.front();
  auto* wait = std::get_if<WaitFor>(&head.work);
  if (!wait || head.released) return false;
  if (!wait->other) {
    auto it = outstanding.find(wait->ticket);
    if (it == outstanding.end()) return false;
    queue->state = QueueState::kParked;
    it->second.callbacks.push_back([core = weak_from_this(), queue, ticket = head.ticket] {
      if (auto alive = core.lock()) alive->unpark(queue, ticket);
    });
    return true;
  }
  queue->state = QueueState::kParked;
  Ticket own = head.ticket;
  std::shared_ptr<DriverDevice> other = wait->other;
  Ticket ticket = wait->ticket;
  lock.unlock();
  // The other device calls back without its locks held, perhaps at once.
  other->whenDone(ticket, [core = weak_from_this(), queue, own] {
    if (auto alive = core.lock()) alive->unpark(queue, own);
  });
  other.reset();
  lock.lock();
  return true;
}

/// Does the head item of a queue that the caller took from the ready list.
void QueueExecutor::Core::runHead(Lock& lock, const std::shared_ptr<Queue>& queue) {
  queue->state = QueueState::kRunning;
  if (holdForGate(queue) || holdForWait(lock, queue)) return;
  Item item = std::move(queue->items.front());
  queue->items.pop_front();
  queue->running = item.ticket;
  queue->runningName = workName(item.work);
  const Status cause = (item.report ? *item.report : *queue).failureBefore(item.ticket);
  Status status = skipped(*queue, item, cause);
  const auto* away = std::get_if<External>(&item.work);
  if (away && status.ok()) {
    std::unique_ptr<InProgress> progress(new (std::nothrow) InProgress);
    if (progress) {
      progress->item = std::move(item);
      return startExternal(lock, queue, std::move(progress));
    }
    status = resourceExhausted("out of host memory");
  }
  lock.unlock();

  const auto start = base::Deadline::Clock::now();
  inside().push_back({this, queue.get(), item.ticket, false});
  if (away) {
    external.skip(*away, item.ticket, status);
  } else if (const auto* wait = std::get_if<WaitFor>(&item.work)) {
    if (cause.ok()) status = waitedFor(*wait);
    if (!status.ok()) status = inContext(*queue, item, status.withContext("the work that it waited for failed"));
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
    if (!status.ok()) status = inContext(*queue, item, status);
  }
  for (uint32_t i = 0; i < item.signals; ++i) completeSignal(queue, item, i, cause.ok() ? status : cause);
  inside().pop_back();
  const bool tookLong = base::Deadline::Clock::now() - start > kLongWork;
  conclude(lock, queue, std::move(item), std::move(status), tookLong);
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

/// What the ticket of a wait, which is done, failed with. Without the lock.
Status QueueExecutor::Core::waitedFor(const WaitFor& wait) const {
  if (wait.onlyOrder) return okStatus();
  if (wait.other) return wait.other->failure(wait.ticket);
  Lock lock(mutex);
  return failureOf(wait.ticket);
}

/// Under the lock.
Status QueueExecutor::Core::failureOf(Ticket ticket) const {
  auto it = failures.find(ticket);
  return it == failures.end() ? okStatus() : it->second;
}

/// The work of an item is over: lets go of what it owned, and says so. Takes the lock, which the
/// caller does not have.
void QueueExecutor::Core::conclude(Lock& lock, const std::shared_ptr<Queue>& queue, Item item, Status status,
                                   bool tookLong) {
  inside().push_back({this, queue.get(), item.ticket, true});
  // Before anybody can see that the work is done, so that a thread which waited for it finds the
  // memory free. May destroy the device.
  item.keepAlive.reset();
  item.work = Marker{};
  inside().pop_back();
  advanced.fetch_add(1, std::memory_order_relaxed);
  lock.lock();
  queue->hasLongWork |= tookLong;
  finish(lock, queue, item, std::move(status));
}

// ---- External work
// ------------------------------------------------------------------------------------

/// Gives external work its turn; it may end at once.
void QueueExecutor::Core::startExternal(Lock& lock, const std::shared_ptr<Queue>& queue,
                                        std::unique_ptr<InProgress> progress) {
  const Ticket ticket = progress->item.ticket;
  External away = std::get<External>(progress->item.work);
  queue->external = std::move(progress);
  queue->state = QueueState::kExternal;
  lock.unlock();
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
  away.work.reset();  // Who sees that the work is done finds it let go.
  const bool tookLong = base::Deadline::Clock::now() - start > kLongWork;
  lock.lock();
  queue->hasLongWork |= tookLong;
  InProgress* now = queue->external.get();
  if (!now || now->item.ticket != ticket) return;  // The device was closed meanwhile.
  now->starting = false;
  if (!begun.ok() && !now->complete) {
    now->complete = true;
    now->status = std::move(begun);
  }
  if (now->complete) return finishExternal(lock, queue);
  if (!now->cancelled.ok()) {
    const Status why = now->cancelled;
    away = std::get<External>(now->item.work);
    lock.unlock();
    away.work->cancel(why);
    away.work.reset();
    lock.lock();
    return;
  }
  wakeHelpers();
}

void QueueExecutor::Core::completeExternal(const std::shared_ptr<Queue>& queue, Ticket ticket, Status status) {
  Lock lock(mutex);
  InProgress* now = queue->external.get();
  if (!now || now->item.ticket != ticket || now->complete) return;
  now->complete = true;
  now->status = std::move(status);
  if (now->starting) return;
  finishExternal(lock, queue);
  // A thread that helped this very work looks at the ready list next. One that helps other work may
  // do so for long, perhaps until something is done that waits here.
  if (base::perThread<Lending>().queue != queue.get()) runExternal(lock, queue);
}

/// Gives the external work that is next on a queue its turn, as long as that is next; a worker does
/// what else is ready. It takes no longer than to wake one.
void QueueExecutor::Core::runExternal(Lock& lock, const std::shared_ptr<Queue>& queue) {
  while (queue->state == QueueState::kReady && !stopping &&
         std::holds_alternative<External>(queue->items.front().work)) {
    takeFromReady(*queue);
    runHead(lock, queue);
  }
  if (!ready.empty()) ensureWorker();
}

void QueueExecutor::Core::finishExternal(Lock& lock, const std::shared_ptr<Queue>& queue) {
  std::unique_ptr<InProgress> ended = std::move(queue->external);
  queue->state = QueueState::kRunning;
  Status status = std::move(ended->status);
  if (!status.ok()) status = inContext(*queue, ended->item, status);
  lock.unlock();
  conclude(lock, queue, std::move(ended->item), std::move(status), false);
}

/// Threads that wait may find external work to help.
void QueueExecutor::Core::wakeHelpers() {
  if (waitingThreads == 0) return;
  for (const auto& [id, queue] : queues)
    if (queue->waiters > 0) queue->progress.notify_all();
}

/// Not ok for work that is not to run: what it needs is probably not there, because work before it
/// failed (`cause`) and nobody had been told when it was enqueued.
Status QueueExecutor::Core::skipped(const Queue& queue, const Item& item, const Status& cause) const {
  if (cause.ok() || std::holds_alternative<WaitFor>(item.work)) return okStatus();
  // What was recorded stands for the work before it.
  if (std::holds_alternative<Marker>(item.work)) return cause;
  return Status::because(cause, StatusCode::kAborted,
                         base::strCat(workName(item.work), item.label.empty() ? "" : " '", item.label,
                                      item.label.empty() ? "" : "'", " on queue '", queue.name, "' of ", deviceName,
                                      " was not run: work before it on the queue failed: ", cause.message()));
}

/// Keeps the first failure of a queue for whoever asks.
void QueueExecutor::Core::keepError(Queue& queue, Ticket ticket, const Status& status) {
  if (status.ok() || !queue.error.ok() || ticket < queue.skipBefore) return;
  queue.error = status;
  queue.errorTicket = ticket;
}

/// A signal of a launch that still runs is done, or the launch ended without it. At most once each.
void QueueExecutor::Core::completeSignal(const std::shared_ptr<Queue>& queue, const Item& item, uint32_t signal,
                                         const Status& status) {
  const Ticket ticket = item.ticket + 1 + signal;
  std::vector<std::function<void()>> callbacks;
  {
    Lock lock(mutex);
    auto it = outstanding.find(ticket);
    if (it == outstanding.end()) return;
    callbacks = std::move(it->second.callbacks);
    if (!status.ok() && !it->second.forgotten) failures.emplace(ticket, status);
    outstanding.erase(it);
    keepError(item.report ? *item.report : *queue, item.ticket, status);
    if (queue->waiters > 0) queue->progress.notify_all();
    if (draining && outstanding.size() <= drainTarget) drained.notify_all();
  }
  for (auto& callback : callbacks) callback();
}

void QueueExecutor::Core::finish(Lock& lock, const std::shared_ptr<Queue>& queue, const Item& item, Status status) {
  std::vector<std::function<void()>> callbacks;
  const Ticket ticket = item.ticket;
  if (auto it = outstanding.find(ticket); it != outstanding.end()) {
    callbacks = std::move(it->second.callbacks);
    if (!status.ok() && !it->second.forgotten) failures.emplace(ticket, status);
    outstanding.erase(it);
  }
  keepError(item.report ? *item.report : *queue, ticket, status);
  if (draining && outstanding.size() <= drainTarget) drained.notify_all();
  if (!callbacks.empty()) {
    if (queue->waiters > 0) queue->progress.notify_all();
    lock.unlock();
    // As in conclude: what the callbacks let go of may destroy the device.
    inside().push_back({this, queue.get(), ticket, true});
    for (auto& callback : callbacks) callback();
    callbacks.clear();
    inside().pop_back();
    lock.lock();
  }
  settle(queue);
  if (queue->waiters > 0) queue->progress.notify_all();
}

void QueueExecutor::Core::addCallback(Ticket ticket, std::function<void()> callback) {
  {
    Lock lock(mutex);
    auto it = outstanding.find(ticket);
    if (it != outstanding.end()) {
      it->second.callbacks.push_back(std::move(callback));
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

/// Under the lock; returns the new ticket. The queue is not made ready yet. Throws std::bad_alloc:
/// nothing has changed then.
Ticket QueueExecutor::Core::append(const std::shared_ptr<Queue>& queue, Work& work,
                                   std::shared_ptr<const void>& keepAlive, std::string& label, bool forgotten) {
  uint32_t signals = 0;
  if (const auto* launch = std::get_if<Launch>(&work)) signals = static_cast<uint32_t>(launch->signals.size());
  const Ticket ticket = nextTicket, end = ticket + 1 + signals;
  Item& item = queue->items.emplace_back();
  try {
    for (Ticket t = ticket; t < end; ++t) outstanding.emplace(t, Outstanding{queue, forgotten, {}});
  } catch (...) {
    for (Ticket t = ticket; t < end; ++t) outstanding.erase(t);
    queue->items.pop_back();
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

/// Under the lock: undoes the last append, which was to this queue. What the work owns goes back to
/// the caller, who lets go of it without the lock.
void QueueExecutor::Core::takeBack(Queue& queue, Work& work, std::shared_ptr<const void>& keepAlive) noexcept {
  Item& item = queue.items.back();
  work = std::move(item.work);
  keepAlive = std::move(item.keepAlive);
  for (Ticket t = item.ticket; t < nextTicket; ++t) outstanding.erase(t);
  nextTicket = item.ticket;
  queue.items.pop_back();
}

Status QueueExecutor::Core::noMemory() const {
  return resourceExhausted("out of host memory for the queues of " + deviceName);
}

std::string QueueExecutor::Core::closedText() const {
  return base::strCat(deviceName, " was closed before the work was done");
}

/// Tells external work that is in progress when the time of a drain is over, and waits a moment
/// longer for it: it may use the device's memory.
void QueueExecutor::Core::cancelAtEnd(Lock& lock) {
  std::vector<std::shared_ptr<ExternalWork>> running;
  for (const auto& [id, queue] : queues)
    if (queue->external && !queue->external->starting)
      running.push_back(std::get<External>(queue->external->item.work).work);
  if (running.empty()) return;
  const Status why = cancelled(closedText());
  lock.unlock();
  for (const auto& work : running) work->cancel(why);
  running.clear();
  lock.lock();
  drained.wait_for(lock, kCancelPatience, [&] {
    return std::none_of(queues.begin(), queues.end(),
                        [](const auto& entry) { return entry.second->external != nullptr; });
  });
}

/// Runs or waits for what is left, then stops the workers.
void QueueExecutor::Core::drain() {
  if (process != ::getpid()) {
    // A forked child lets go of what is its parent's: neither the threads nor the work are here.
    base::abandon(workers);
    return;
  }
  auto deadline = base::Deadline::fromMs(-1);
  base::Deadline until = deadline.ok() ? *deadline : base::Deadline::afterMs(600000);
  Lock lock(mutex);
  draining = true;
  for (auto& [id, queue] : queues)
    if (std::exchange(queue->held, false)) makeReady(queue);
  drainTarget = 0;
  std::vector<std::function<void()>> callbacks;
  for (const InsideItem& item : inside()) {
    if (item.core != this) continue;
    if (!item.bodyDone) {
      ++drainTarget;
      continue;
    }
    if (auto it = outstanding.find(item.ticket); it != outstanding.end()) {
      std::move(it->second.callbacks.begin(), it->second.callbacks.end(), std::back_inserter(callbacks));
      outstanding.erase(it);
    }
    // What is queued behind it, which did not hold the device (markers, say), waits for this
    // thread.
    for (auto& [id, queue] : queues)
      if (queue.get() == item.queue && queue->state == QueueState::kRunning && !queue->items.empty()) {
        settle(queue);
        break;
      }
  }
  lock.unlock();
  for (auto& callback : callbacks) callback();
  lock.lock();
  while (outstanding.size() > drainTarget && !until.expired()) {
    // Help: this may be the only worker thread there is.
    if (!ready.empty()) {
      runHead(lock, takeReady());
      continue;
    }
    auto next = std::min(until.time(), base::Deadline::Clock::now() + std::chrono::milliseconds(20));
    for (const auto& [id, queue] : queues) {
      if (!helpable(*queue)) continue;
      lend(lock, std::shared_ptr<Queue>(queue), next);
      break;
    }
    if (ready.empty() && outstanding.size() > drainTarget) drained.wait_until(lock, next);
  }
  cancelAtEnd(lock);
  size_t dropped = outstanding.size() - std::min(outstanding.size(), drainTarget);
  stopping = true;
  while (!ready.empty()) takeReady();
  std::vector<std::shared_ptr<Queue>> rest;
  std::vector<Item> unbegun;
  std::vector<std::unique_ptr<InProgress>> lost;
  for (auto& entry : queues) {
    Queue& queue = *entry.second;
    if (queue.external) lost.push_back(std::move(queue.external));
    for (Item& item : queue.items)
      if (std::holds_alternative<External>(item.work)) unbegun.push_back(std::move(item));
    rest.push_back(entry.second);
  }
  queues.clear();
  std::vector<std::thread> threads = std::move(workers);
  workers.clear();
  workAvailable.notify_all();
  lock.unlock();
  if (dropped > 0)
    HPU_LOG(kError, base::strCat(deviceName, " was closed with ", dropped, " pieces of work that were not done after ",
                                 until.totalMs(), " ms"));
  for (const Item& item : unbegun) external.skip(std::get<External>(item.work), item.ticket, cancelled(closedText()));
  unbegun.clear();
  lost.clear();
  for (std::thread& thread : threads) {
    // The thread's own copy of the core keeps it valid until it has left its loop.
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();
    else
      thread.join();
  }
}

}  // namespace hpu::driver
