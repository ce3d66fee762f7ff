// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/common/QueueExecutor.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/Deadline.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/StatusMacros.h"

namespace hpu::driver {
namespace {

// A thread with less time than this only waits: the work that it would help with might take longer.
constexpr int64_t kHelpMs = 60000;

enum class QueueState : uint8_t {
  kIdle,     ///< Nothing to do.
  kReady,    ///< In the ready list.
  kRunning,  ///< A thread works on its head.
  kParked,   ///< Its head is a WaitFor whose ticket is not done.
};

}  // namespace

std::string_view workName(const Work& work) {
  static constexpr std::string_view kNames[] = {"copy to device", "copy to host", "copy on device",
                                                "fill",           "launch",       "wait",
                                                "marker",         "copies",       "memory check"};
  return kNames[work.index()];
}

struct QueueExecutor::Core : std::enable_shared_from_this<Core> {
  struct Item {
    Ticket ticket = 0;
    Work work;
    std::shared_ptr<const void> keepAlive;
    std::string label;
    uint32_t signals = 0;   ///< Of a launch: as many tickets follow its own.
    bool released = false;  ///< Of a WaitFor: what it waited for is done.
  };
  struct Queue {
    QueueId id = 0;
    std::string name;
    QueueState state = QueueState::kIdle;
    bool closing = false;
    bool held = false;             ///< Parked at a launch that the gate does not let begin.
    int waiters = 0;               ///< Threads in wait() for one of its tickets, or in reset().
    Ticket running = 0;            ///< What a thread works on, in the state kRunning.
    std::string_view runningName;  ///< Its workName.
    std::deque<Item> items;
    Status error;  ///< First failure not yet taken.
    Ticket errorTicket = 0;
    Ticket skipBefore = 0;  ///< Work before it was enqueued behind a failure that was taken since.
    std::condition_variable progress;
  };
  struct Outstanding {
    std::shared_ptr<Queue> queue;
    bool forgotten = false;
    std::vector<std::function<void()>> callbacks;
  };

  Core(std::string name, int workers, Body work, Gate hold)
      : deviceName(std::move(name)),
        maxWorkers(std::max(1, workers)),
        body(std::move(work)),
        gate(std::move(hold)) {}

  const std::string deviceName;
  const int maxWorkers;
  Body body;
  Gate gate;

  mutable std::mutex mutex;  // Guards everything below.
  std::condition_variable workAvailable, drained;
  std::unordered_map<QueueId, std::shared_ptr<Queue>> queues;
  std::unordered_map<Ticket, Outstanding> outstanding;
  std::unordered_map<Ticket, Status> failures;  ///< Of done tickets that are not forgotten.
  std::deque<std::shared_ptr<Queue>> ready;
  std::vector<std::thread> workers;
  Ticket nextTicket = 1;
  QueueId nextQueue = 1;
  int idleWorkers = 0, wakesPending = 0;  // A woken worker stays idle until it has the mutex.
  size_t drainTarget =
      0;  ///< With `draining`: outstanding tickets that the drain need not wait for.
  bool draining = false, stopping = false;

  using Lock = std::unique_lock<std::mutex>;

  void makeReady(const std::shared_ptr<Queue>& queue);
  void ensureWorker();
  void workerLoop();
  void runHead(Lock& lock, const std::shared_ptr<Queue>& queue);
  bool holdForGate(const std::shared_ptr<Queue>& queue);
  bool holdForWait(Lock& lock, const std::shared_ptr<Queue>& queue);
  void unpark(const std::shared_ptr<Queue>& queue, Ticket head);
  std::vector<Item> dropQueued(Queue& queue);
  void completeSignal(const std::shared_ptr<Queue>& queue, Ticket launch, uint32_t signal,
                      const Status& status);
  void keepError(Queue& queue, Ticket ticket, const Status& status);
  Status skipped(const Queue& queue, const Item& item) const;
  Status checkWait(const Work& work) const;
  Ticket append(const std::shared_ptr<Queue>& queue, Work work,
                std::shared_ptr<const void> keepAlive, std::string label, bool forgotten);
  void finish(Lock& lock, const std::shared_ptr<Queue>& queue, Ticket ticket, Status status);
  void settle(const std::shared_ptr<Queue>& queue);
  void addCallback(Ticket ticket, std::function<void()> callback);
  void help(Lock& lock, const std::shared_ptr<Queue>& queue, Ticket ticket,
            const base::Deadline& deadline);
  void drain();
  Status reset(const base::Deadline& deadline,
               base::FunctionRef<void(const std::vector<Ticket>&)> dropping);
};

namespace {
/// Work items that the current thread is inside of, by core: a drain on a worker thread must not
/// wait for the item that it is part of.
thread_local std::vector<const void*> tlsInside;
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
    workers.emplace_back([self = shared_from_this()] { self->workerLoop(); });
  } catch (const std::system_error&) {
    // With at least one worker the work is done all the same; submit reports the case of none.
  }
}

void QueueExecutor::Core::makeReady(const std::shared_ptr<Queue>& queue) {
  queue->state = QueueState::kReady;
  ready.push_back(queue);
  ensureWorker();
}

/// After the head of a queue was taken off: what is the queue now?
void QueueExecutor::Core::settle(const std::shared_ptr<Queue>& queue) {
  if (!queue->items.empty()) {
    // The calling thread looks at the ready list next, so nobody needs to be woken.
    queue->state = QueueState::kReady;
    ready.push_back(queue);
    return;
  }
  queue->state = QueueState::kIdle;
  if (queue->closing) {
    if (!queue->error.ok())
      HPU_LOG(kError, base::strCat("queue '", queue->name, "' of ", deviceName,
                                   " was closed with an error that nobody asked for: ",
                                   queue->error.message()));
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
    std::shared_ptr<Queue> queue = std::move(ready.front());
    ready.pop_front();
    runHead(lock, queue);
  }
}

void QueueExecutor::Core::unpark(const std::shared_ptr<Queue>& queue, Ticket head) {
  Lock lock(mutex);
  // A reset may have dropped that wait, and the queue may be parked at another one.
  if (queue->state != QueueState::kParked || stopping || queue->items.front().ticket != head)
    return;
  queue->items.front().released = true;
  makeReady(queue);
}

/// True when the queue's head is a launch that does not begin: the queue is parked then.
bool QueueExecutor::Core::holdForGate(const std::shared_ptr<Queue>& queue) {
  Item& head = queue->items.front();
  if (!gate || draining || !std::holds_alternative<Launch>(head.work) || !gate(head.work))
    return false;
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
  Status status = skipped(*queue, item);
  lock.unlock();

  tlsInside.push_back(this);
  if (status.ok() && !std::holds_alternative<WaitFor>(item.work)) {
    try {
      status = body(item.work, item.label, [&](uint32_t signal) {
        if (signal < item.signals) completeSignal(queue, item.ticket, signal, okStatus());
      });
    } catch (const std::bad_alloc&) {
      status = resourceExhausted("out of host memory");
    } catch (...) {
      status = internalError("an exception reached the queue");
    }
    if (!status.ok())
      status = status.withContext(base::strCat(workName(item.work), item.label.empty() ? "" : " '",
                                               item.label, item.label.empty() ? "" : "'",
                                               " on queue '", queue->name, "' of ", deviceName));
  }
  for (uint32_t i = 0; i < item.signals; ++i) completeSignal(queue, item.ticket, i, status);
  // Before anybody can see that the work is done, so that a thread which waited for it finds the
  // memory free. May destroy the device.
  item.keepAlive.reset();
  item.work = Marker{};
  tlsInside.pop_back();

  lock.lock();
  finish(lock, queue, item.ticket, std::move(status));
}

/// Not ok for work that is not to run: what it needs is probably not there, because work before it
/// failed and nobody had been told when it was enqueued.
Status QueueExecutor::Core::skipped(const Queue& queue, const Item& item) const {
  if (queue.error.ok() && item.ticket >= queue.skipBefore) return okStatus();
  if (std::holds_alternative<WaitFor>(item.work) || std::holds_alternative<Marker>(item.work))
    return okStatus();
  return aborted(base::strCat(workName(item.work), item.label.empty() ? "" : " '", item.label,
                              item.label.empty() ? "" : "'", " on queue '", queue.name, "' of ",
                              deviceName, " was not run: work before it on the queue failed"));
}

/// Keeps the first failure of a queue for whoever asks.
void QueueExecutor::Core::keepError(Queue& queue, Ticket ticket, const Status& status) {
  if (status.ok() || !queue.error.ok() || ticket < queue.skipBefore) return;
  queue.error = status;
  queue.errorTicket = ticket;
}

/// A signal of a launch that still runs is done, or the launch ended without it. At most once each.
void QueueExecutor::Core::completeSignal(const std::shared_ptr<Queue>& queue, Ticket launch,
                                         uint32_t signal, const Status& status) {
  const Ticket ticket = launch + 1 + signal;
  std::vector<std::function<void()>> callbacks;
  {
    Lock lock(mutex);
    auto it = outstanding.find(ticket);
    if (it == outstanding.end()) return;
    callbacks = std::move(it->second.callbacks);
    if (!status.ok() && !it->second.forgotten) failures.emplace(ticket, status);
    outstanding.erase(it);
    keepError(*queue, launch, status);
    if (queue->waiters > 0) queue->progress.notify_all();
    if (draining && outstanding.size() <= drainTarget) drained.notify_all();
  }
  for (auto& callback : callbacks) callback();
}

void QueueExecutor::Core::finish(Lock& lock, const std::shared_ptr<Queue>& queue, Ticket ticket,
                                 Status status) {
  std::vector<std::function<void()>> callbacks;
  if (auto it = outstanding.find(ticket); it != outstanding.end()) {
    callbacks = std::move(it->second.callbacks);
    if (!status.ok() && !it->second.forgotten) failures.emplace(ticket, status);
    outstanding.erase(it);
  }
  keepError(*queue, ticket, status);
  if (draining && outstanding.size() <= drainTarget) drained.notify_all();
  settle(queue);
  if (queue->waiters > 0) queue->progress.notify_all();
  if (callbacks.empty()) return;
  lock.unlock();
  for (auto& callback : callbacks) callback();
  callbacks.clear();
  lock.lock();
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
  return invalidArgument(base::strCat("cannot wait for ticket ", wait->ticket, " of ", deviceName,
                                      ": it was never submitted"));
}

/// Under the lock; returns the new ticket. The queue is not made ready yet.
Ticket QueueExecutor::Core::append(const std::shared_ptr<Queue>& queue, Work work,
                                   std::shared_ptr<const void> keepAlive, std::string label,
                                   bool forgotten) {
  uint32_t signals = 0;
  if (const auto* launch = std::get_if<Launch>(&work))
    signals = static_cast<uint32_t>(launch->signals.size());
  Ticket ticket = nextTicket;
  nextTicket += 1 + signals;
  for (Ticket t = ticket; t < nextTicket; ++t) {
    Outstanding& entry = outstanding[t];
    entry.queue = queue;
    entry.forgotten = forgotten;
  }
  queue->items.push_back(
      {ticket, std::move(work), std::move(keepAlive), std::move(label), signals});
  return ticket;
}

/// Does the queue's work up to `ticket` on the calling thread, as long as no worker has taken it:
/// two switches of threads less for who waits at once.
void QueueExecutor::Core::help(Lock& lock, const std::shared_ptr<Queue>& queue, Ticket ticket,
                               const base::Deadline& deadline) {
  auto mayHelp = [&] {
    return queue->state == QueueState::kReady && outstanding.count(ticket) != 0 &&
           deadline.remainingMs() >= kHelpMs;
  };
  if (!mayHelp()) return;
  while (mayHelp()) {
    ready.erase(std::find(ready.begin(), ready.end(), queue));
    runHead(lock, queue);
  }
  // What was put back into the ready list meanwhile was left to this thread.
  if (!ready.empty()) ensureWorker();
}

/// Runs or waits for what is left, then stops the workers.
void QueueExecutor::Core::drain() {
  auto deadline = base::Deadline::fromMs(-1);
  base::Deadline until = deadline.ok() ? *deadline : base::Deadline::afterMs(600000);
  Lock lock(mutex);
  draining = true;
  for (auto& [id, queue] : queues)
    if (std::exchange(queue->held, false)) makeReady(queue);
  drainTarget = static_cast<size_t>(std::count(tlsInside.begin(), tlsInside.end(), this));
  while (outstanding.size() > drainTarget && !until.expired()) {
    // Help: this may be the only worker thread there is.
    if (!ready.empty()) {
      std::shared_ptr<Queue> queue = std::move(ready.front());
      ready.pop_front();
      runHead(lock, queue);
      continue;
    }
    drained.wait_until(
        lock, std::min(until.time(), base::Deadline::Clock::now() + std::chrono::milliseconds(20)));
  }
  size_t dropped = outstanding.size() - std::min(outstanding.size(), drainTarget);
  stopping = true;
  ready.clear();
  std::vector<std::shared_ptr<Queue>> rest;
  for (auto& entry : queues) rest.push_back(entry.second);
  queues.clear();
  std::vector<std::thread> threads = std::move(workers);
  workers.clear();
  workAvailable.notify_all();
  lock.unlock();
  if (dropped > 0)
    HPU_LOG(kError,
            base::strCat(deviceName, " was closed with ", dropped,
                         " pieces of work that were not done after ", until.totalMs(), " ms"));
  for (std::thread& thread : threads) {
    // The thread's own copy of the core keeps it valid until it has left its loop.
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();
    else
      thread.join();
  }
}

/// Takes what a queue holds besides the item that runs; its tickets are done then.
std::vector<QueueExecutor::Core::Item> QueueExecutor::Core::dropQueued(Queue& queue) {
  std::vector<Item> dropped(std::make_move_iterator(queue.items.begin()),
                            std::make_move_iterator(queue.items.end()));
  queue.items.clear();
  return dropped;
}

Status QueueExecutor::Core::reset(const base::Deadline& deadline,
                                  base::FunctionRef<void(const std::vector<Ticket>&)> dropping) {
  std::vector<Item> dropped;
  std::vector<std::function<void()>> callbacks;
  std::vector<std::shared_ptr<Queue>> all;
  Lock lock(mutex);
  const Ticket until = nextTicket;  // What is submitted from now on is not part of this.
  for (auto& entry : queues) all.push_back(entry.second);
  for (const auto& queue : all) {
    std::vector<Item> items = dropQueued(*queue);
    for (Item& item : items) {
      for (Ticket ticket = item.ticket; ticket <= item.ticket + item.signals; ++ticket) {
        auto it = outstanding.find(ticket);
        for (auto& callback : it->second.callbacks) callbacks.push_back(std::move(callback));
        if (!it->second.forgotten)
          failures.emplace(ticket, cancelled(base::strCat(
                                       workName(item.work), " on queue '", queue->name, "' of ",
                                       deviceName, " was dropped by a reset of the device")));
        outstanding.erase(it);
      }
      dropped.push_back(std::move(item));
    }
    if (queue->state == QueueState::kReady)
      ready.erase(std::find(ready.begin(), ready.end(), queue));
    queue->held = false;
    if (queue->state != QueueState::kRunning) settle(queue);
    queue->progress.notify_all();
  }
  if (draining && outstanding.size() <= drainTarget) drained.notify_all();
  lock.unlock();
  std::vector<Ticket> tickets;
  tickets.reserve(dropped.size());
  for (const Item& item : dropped) tickets.push_back(item.ticket);
  dropping(tickets);
  dropped.clear();  // Lets go of what the work owned, which may be memory.
  for (auto& callback : callbacks) callback();
  lock.lock();
  Status status;
  for (const auto& queue : all) {
    // Its head was taken before the reset, or is newer than it.
    auto over = [&] { return queue->state != QueueState::kRunning || queue->running >= until; };
    ++queue->waiters;
    bool ended = queue->progress.wait_until(lock, deadline.time(), over);
    --queue->waiters;
    if (!ended && status.ok())
      status = deadlineExceeded(base::strCat(deviceName, " cannot be reset: ", queue->runningName,
                                             " on queue '", queue->name, "' did not end within ",
                                             deadline.totalMs(), " ms"));
    if (queue->errorTicket < until) queue->error = Status();
  }
  return status;
}

// ---- The interface
// ---------------------------------------------------------------------------------

QueueExecutor::QueueExecutor(std::string deviceName, int maxWorkers, Body body, Gate gate)
    : core_(std::make_shared<Core>(std::move(deviceName), maxWorkers, std::move(body),
                                   std::move(gate))) {}

QueueExecutor::~QueueExecutor() {
  core_->drain();
}

StatusOr<QueueId> QueueExecutor::createQueue(const std::string& name) {
  auto queue = std::make_shared<Core::Queue>();
  Core::Lock lock(core_->mutex);
  if (core_->workers.empty()) core_->ensureWorker();
  if (core_->workers.empty())
    return resourceExhausted("cannot start a worker thread for " + core_->deviceName +
                             ": the system has no more threads");
  queue->id = core_->nextQueue++;
  queue->name = name.empty() ? "queue " + std::to_string(queue->id) : name;
  core_->queues.emplace(queue->id, queue);
  return queue->id;
}

void QueueExecutor::destroyQueue(QueueId id) {
  Core::Lock lock(core_->mutex);
  auto it = core_->queues.find(id);
  if (it == core_->queues.end()) return;
  std::shared_ptr<Core::Queue> queue = it->second;
  queue->closing = true;
  if (queue->state == QueueState::kIdle) core_->settle(queue);
}

StatusOr<Ticket> QueueExecutor::submit(QueueId id, Work work, std::shared_ptr<const void> keepAlive,
                                       std::string label,
                                       base::FunctionRef<void(Ticket)> accepted) {
  Core::Lock lock(core_->mutex);
  auto it = core_->queues.find(id);
  if (it == core_->queues.end() || it->second->closing)
    return notFound(base::strCat(core_->deviceName, " has no queue ", id));
  HPU_RETURN_IF_ERROR(core_->checkWait(work));
  const std::shared_ptr<Core::Queue>& queue = it->second;
  Ticket ticket =
      core_->append(queue, std::move(work), std::move(keepAlive), std::move(label), false);
  accepted(ticket);
  if (queue->state == QueueState::kIdle) core_->makeReady(queue);
  return ticket;
}

StatusOr<std::vector<Ticket>> QueueExecutor::submitBatch(
    std::vector<Entry> entries, base::FunctionRef<void(const std::vector<Ticket>&)> accepted) {
  std::vector<Ticket> tickets(entries.size());
  std::vector<std::shared_ptr<Core::Queue>> queues(entries.size());
  Core::Lock lock(core_->mutex);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (i > 0 && entry.queue == entries[i - 1].queue) {
      queues[i] = queues[i - 1];
    } else {
      auto it = core_->queues.find(entry.queue);
      if (it == core_->queues.end() || it->second->closing)
        return notFound(
            base::strCat("item ", i, ": ", core_->deviceName, " has no queue ", entry.queue));
      queues[i] = it->second;
    }
    Status status;
    if (entry.waitItem == BatchItem::kNone) status = core_->checkWait(entry.work);
    if (!status.ok()) return status.withContext(base::strCat("item ", i));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    if (auto* wait = std::get_if<WaitFor>(&entry.work); wait && entry.waitItem < i) {
      wait->ticket = tickets[entry.waitItem];
      if (entry.waitSignal != BatchItem::kNone) wait->ticket += 1 + entry.waitSignal;
    }
    tickets[i] = core_->append(queues[i], std::move(entry.work), std::move(entry.keepAlive),
                               std::move(entry.label), !entry.kept);
  }
  accepted(tickets);
  for (const auto& queue : queues)
    if (queue->state == QueueState::kIdle) core_->makeReady(queue);
  return tickets;
}

bool QueueExecutor::done(Ticket ticket) const {
  Core::Lock lock(core_->mutex);
  return ticket < core_->nextTicket && !core_->outstanding.count(ticket);
}

Status QueueExecutor::wait(Ticket ticket, int64_t deadlineMs) {
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(deadlineMs));
  Core::Lock lock(core_->mutex);
  if (ticket == 0 || ticket >= core_->nextTicket)
    return invalidArgument(base::strCat("cannot wait for ticket ", ticket, " of ",
                                        core_->deviceName, ": it was never submitted"));
  if (auto it = core_->outstanding.find(ticket); it != core_->outstanding.end()) {
    std::shared_ptr<Core::Queue> queue = it->second.queue;
    core_->help(lock, queue, ticket, deadline);
    ++queue->waiters;
    bool finished = queue->progress.wait_until(
        lock, deadline.time(), [&] { return core_->outstanding.count(ticket) == 0; });
    --queue->waiters;
    if (!finished && queue->held)
      return deadlineExceeded(base::strCat(
          "queue '", queue->name, "' of ", core_->deviceName, " did not reach ticket ", ticket,
          " within ", deadline.totalMs(), " ms: a launch",
          queue->items.front().label.empty() ? "" : " of '", queue->items.front().label,
          queue->items.front().label.empty() ? "" : "'",
          " does not end. Reset the device (Device::reset)"));
    if (!finished)
      return deadlineExceeded(
          base::strCat("queue '", queue->name, "' of ", core_->deviceName, " did not reach ticket ",
                       ticket, " within ", deadline.totalMs(), " ms; ",
                       queue->state == QueueState::kParked ? "it waits for work that is not done"
                                                           : "it is still working",
                       ", with ", queue->items.size(),
                       " pieces of work queued. Wait longer (HPU_WAIT_TIMEOUT_MS) or look for a "
                       "wait that is never "
                       "satisfied"));
  }
  auto failure = core_->failures.find(ticket);
  return failure == core_->failures.end() ? okStatus() : failure->second;
}

void QueueExecutor::whenDone(Ticket ticket, std::function<void()> callback) {
  core_->addCallback(ticket, std::move(callback));
}

Status QueueExecutor::takeError(QueueId id, Ticket upTo) {
  Core::Lock lock(core_->mutex);
  auto it = core_->queues.find(id);
  if (it == core_->queues.end()) return okStatus();
  Core::Queue& queue = *it->second;
  if (queue.error.ok() || queue.errorTicket > upTo) return okStatus();
  queue.skipBefore = core_->nextTicket;
  return std::exchange(queue.error, Status());
}

Status QueueExecutor::reset(int64_t deadlineMs,
                            base::FunctionRef<void(const std::vector<Ticket>&)> dropping) {
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(deadlineMs));
  return core_->reset(deadline, dropping);
}

void QueueExecutor::forget(Ticket ticket) {
  Core::Lock lock(core_->mutex);
  auto it = core_->outstanding.find(ticket);
  if (it != core_->outstanding.end())
    it->second.forgotten = true;
  else
    core_->failures.erase(ticket);
}

QueueExecutor::Load QueueExecutor::load() const {
  Core::Lock lock(core_->mutex);
  return {static_cast<int64_t>(core_->outstanding.size()),
          static_cast<int64_t>(core_->queues.size())};
}

Ticket QueueExecutor::lastTicket() const {
  Core::Lock lock(core_->mutex);
  return core_->nextTicket - 1;
}

}  // namespace hpu::driver
