// SPDX-License-Identifier: Apache-2.0
// QueueExecutor::Core: the queues, the ready list and the workers behind QueueExecutor.
// The one thing to know: workers share it, so that it outlives an executor that is destroyed on one
// of its own workers.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/Deadline.h"
#include "runtime/driver/common/QueueExecutor.h"

namespace hpu::driver {

enum class QueueState : uint8_t {
  kIdle,      ///< Nothing to do.
  kReady,     ///< In the ready list.
  kRunning,   ///< A thread works on its head.
  kParked,    ///< Its head is a WaitFor whose ticket is not done.
  kExternal,  ///< Its head was external work, which is in progress somewhere.
};

/// The queue whose external work the current thread helps; null: it does not.
struct Lending {
  const void* queue = nullptr;
};

struct QueueExecutor::Core : std::enable_shared_from_this<Core> {
  struct Queue;
  struct Item {
    Ticket ticket = 0;
    Work work;
    std::shared_ptr<const void> keepAlive;
    std::string label;
    uint32_t signals = 0;           ///< Of a launch: as many tickets follow its own.
    std::shared_ptr<Queue> report;  ///< Has the failure instead of the item's queue; may be null.
    bool released = false;          ///< Of a WaitFor: what it waited for is done.
  };
  /// External work whose turn has come and that is not complete.
  struct InProgress {
    Item item;
    bool starting = true;   ///< start() has not returned; who called it goes on.
    bool complete = false;  ///< With `starting`: it ends with `status` then.
    Status status;
    Status cancelled;        ///< With `starting`: not ok when it is to be cancelled then.
    bool helped = false;     ///< A thread is in help().
    uint64_t handovers = 0;  ///< Helpers that ran out of time: another thread may help again.
  };
  struct Queue {
    QueueId id = 0;
    std::string name;
    QueueState state = QueueState::kIdle;
    bool closing = false;
    bool hasLongWork = false;      ///< It has run some: nobody helps with it.
    bool held = false;             ///< Parked at a launch that the gate does not let begin.
    bool beginsInSubmit = false;   ///< The thread that submits gives its external work its turn.
    int waiters = 0;               ///< Threads in wait() for one of its tickets, or in reset().
    Ticket running = 0;            ///< What a thread works on, in the state kRunning.
    std::string_view runningName;  ///< Its workName.
    std::deque<Item> items;
    /// Its place in `ready`, when it is not there: so that it is made ready without an allocation.
    std::list<std::shared_ptr<Queue>> place{1};
    std::unique_ptr<InProgress> external;  ///< In the state kExternal.
    Status error;                          ///< First failure not yet taken.
    Ticket errorTicket = 0;
    Ticket skipBefore = 0;  ///< Work before it was enqueued behind a failure that was taken since, ...
    Status taken;           ///< ... which was this one.
    std::condition_variable progress;

    /// The failure that work is behind; ok when none. Of work that is not begun.
    Status failureBefore(Ticket ticket) const { return error.ok() && ticket < skipBefore ? taken : error; }

    /// What is last on it, when that is external work and not to be skipped.
    const ExternalWork* lastExternal() const {
      const Item* last = !items.empty() ? &items.back() : external ? &external->item : nullptr;
      if (!last || !failureBefore(last->ticket).ok()) return nullptr;
      const auto* away = std::get_if<External>(&last->work);
      return away ? away->work.get() : nullptr;
    }
  };
  struct Outstanding {
    std::shared_ptr<Queue> queue;
    bool forgotten = false;
    std::vector<std::function<void()>> callbacks;
  };

  Core(std::string name, int index, int workers, Body work, Gate hold, ExternalHooks hooks)
      : deviceName(std::move(name)),
        deviceIndex(index),
        maxWorkers(std::max(1, workers)),
        body(std::move(work)),
        gate(std::move(hold)),
        external(std::move(hooks)) {}

  const pid_t process = ::getpid();  ///< Whose threads the workers are.
  const std::string deviceName;
  const int deviceIndex;
  const int maxWorkers;
  Body body;
  Gate gate;
  ExternalHooks external;

  std::atomic<int> running{0};        ///< Pieces of work that a thread is inside of.
  std::atomic<uint64_t> advanced{0};  ///< Pieces that are done, and looks at some that ran.

  mutable std::mutex mutex;  // Guards everything below.
  std::condition_variable workAvailable, drained;
  std::unordered_map<QueueId, std::shared_ptr<Queue>> queues;
  std::unordered_map<Ticket, Outstanding> outstanding;
  std::unordered_map<Ticket, Status> failures;  ///< Of done tickets that are not forgotten.
  std::list<std::shared_ptr<Queue>> ready;
  std::vector<std::thread> workers;
  Ticket nextTicket = 1;
  QueueId nextQueue = 1;
  int waitingThreads = 0;                 ///< In await().
  int idleWorkers = 0, wakesPending = 0;  // A woken worker stays idle until it has the mutex.
  size_t drainTarget = 0;                 ///< With `draining`: outstanding tickets that the drain need not wait for.
  bool draining = false, stopping = false;

  using Lock = std::unique_lock<std::mutex>;

  void putReady(const std::shared_ptr<Queue>& queue);
  std::shared_ptr<Queue> takeReady();
  void takeFromReady(Queue& queue);
  void makeReady(const std::shared_ptr<Queue>& queue);
  void ensureWorker();
  void workerLoop();
  void runHead(Lock& lock, const std::shared_ptr<Queue>& queue);
  bool holdForGate(const std::shared_ptr<Queue>& queue);
  bool holdForWait(Lock& lock, const std::shared_ptr<Queue>& queue);
  void unpark(const std::shared_ptr<Queue>& queue, Ticket head);
  std::vector<Item> dropQueued(Queue& queue);
  void completeSignal(const std::shared_ptr<Queue>& queue, const Item& item, uint32_t signal, const Status& status);
  void keepError(Queue& queue, Ticket ticket, const Status& status);
  Status skipped(const Queue& queue, const Item& item, const Status& cause) const;
  Status waitedFor(const WaitFor& wait) const;
  Status failureOf(Ticket ticket) const;
  Status checkWait(const Work& work) const;
  Ticket append(const std::shared_ptr<Queue>& queue, Work& work, std::shared_ptr<const void>& keepAlive,
                std::string& label, bool forgotten);
  void takeBack(Queue& queue, Work& work, std::shared_ptr<const void>& keepAlive) noexcept;
  Status noMemory() const;
  void finish(Lock& lock, const std::shared_ptr<Queue>& queue, const Item& item, Status status);
  void settle(const std::shared_ptr<Queue>& queue);
  void addCallback(Ticket ticket, std::function<void()> callback);
  Status inContext(const Queue& queue, const Item& item, const Status& status) const;
  void conclude(Lock& lock, const std::shared_ptr<Queue>& queue, Item item, Status status, bool tookLong);

  void startExternal(Lock& lock, const std::shared_ptr<Queue>& queue, std::unique_ptr<InProgress> progress);
  void completeExternal(const std::shared_ptr<Queue>& queue, Ticket ticket, Status status);
  void finishExternal(Lock& lock, const std::shared_ptr<Queue>& queue);
  void runExternal(Lock& lock, const std::shared_ptr<Queue>& queue);
  void wakeHelpers();
  std::string closedText() const;
  void cancelAtEnd(Lock& lock);

  // QueueWait.cpp.
  struct Advance {
    Ticket ticket = 0;  ///< Of the external work; 0 when there is none.
    uint64_t value = 0;
    bool known = false;
  };
  std::shared_ptr<Queue> inTheWay(const std::shared_ptr<Queue>& queue) const;
  static bool helpable(const Queue& queue);
  void lend(Lock& lock, const std::shared_ptr<Queue>& queue, base::Deadline::Clock::time_point until);
  Advance advance(Lock& lock, const std::shared_ptr<Queue>& queue);
  bool await(Lock& lock, const std::shared_ptr<Queue>& queue, Ticket ticket, const base::Deadline& deadline);
  std::string standing(const std::shared_ptr<Queue>& queue) const;
  void drain();
  Status reset(const base::Deadline& deadline, base::FunctionRef<void(const std::vector<Ticket>&)> dropping);
};

}  // namespace hpu::driver
