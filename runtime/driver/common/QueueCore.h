// SPDX-License-Identifier: Apache-2.0
// QueueExecutor::Core: the queues, the ready list and the workers behind QueueExecutor.
// The one thing to know: a thread takes a *turn* under the lock (begin) and does it without (perform); no function is
// handed a lock. Workers share the core, so that it outlives an executor that is destroyed on one of its own workers.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/Deadline.h"
#include "base/ExitGate.h"
#include "base/Fifo.h"
#include "base/Spin.h"
#include "runtime/driver/TicketTable.h"
#include "runtime/driver/common/QueueExecutor.h"

namespace hpu::driver {

enum class QueueState : uint8_t {
  kIdle,      ///< Nothing to do.
  kReady,     ///< In the ready list.
  kRunning,   ///< A thread works on its head.
  kParked,    ///< Its head does not begin yet: see ParkedAt.
  kExternal,  ///< Its head was external work, which is in progress somewhere.
};

/// What a parked queue stands at.
enum class ParkedAt : uint8_t {
  kWait,     ///< A WaitFor whose ticket is not done.
  kGate,     ///< A launch that the gate does not let begin.
  kProgram,  ///< A launch of a program that another launch runs just now: one at a time, or they would wait on workers.
};

/// The queue whose external work the current thread helps; null: it does not.
struct Lending {
  const void* queue = nullptr;
};

/// A work item that a thread is inside of: a drain on a worker thread must not wait for the item that it is part of.
struct InsideItem {
  const void* core;
  const void* queue;
  Ticket ticket;
  bool bodyDone;  ///< It is only letting go of what it owned.
};
/// Those of the calling thread, of all cores.
std::vector<InsideItem>& inside();

/// A queue that has had work which took longer is not helped with: the switch of threads that help saves is nothing to
/// such work, and the next may overrun the helper's deadline.
inline constexpr std::chrono::milliseconds kLongWork{100};
/// As many launches of a queue show how long its work takes.
inline constexpr int kKnownLaunches = 8;

struct QueueExecutor::Core : std::enable_shared_from_this<Core>, base::StopsAtExit {
  struct Queue;
  struct Item {
    Ticket ticket = 0;
    Work work;
    std::shared_ptr<const void> keepAlive;
    std::string label;
    uint32_t signals = 0;              ///< Of a launch: as many tickets follow its own.
    std::shared_ptr<Queue> report;     ///< Has the failure instead of the item's queue; may be null.
    bool released = false;             ///< Of a WaitFor: what it waited for is done.
    std::optional<ProgramId> running;  ///< Of a launch that was begun: its program, which is `busy`.
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
    ParkedAt parkedAt = ParkedAt::kWait;  ///< In the state kParked.
    bool closing = false;
    bool hasLongWork = false;                   ///< It has run some: nobody helps with it.
    int launches = 0;                           ///< That it has run, up to kKnownLaunches.
    base::Deadline::Clock::duration longest{};  ///< Of its pieces of work; forgotten as more of them take less.
    int64_t largestPs = 0;                      ///< Launch::workPs of its launches, likewise.
    bool beginsInSubmit = false;                ///< The thread that submits gives its external work its turn.
    int waiters = 0;                            ///< Threads in wait() for one of its tickets, or in reset().
    Ticket running = 0;                         ///< What a thread works on, in the state kRunning.
    std::string_view runningName;               ///< Its workName.
    base::Fifo<Item> items;
    /// Its place in `ready`, when it is not there: so that it is made ready without an allocation.
    std::list<std::shared_ptr<Queue>> place{1};
    std::unique_ptr<InProgress> external;  ///< In the state kExternal.
    Status error;                          ///< First failure not yet taken.
    Ticket errorTicket = 0;
    Ticket skipBefore = 0;  ///< Work before it was enqueued behind a failure that was taken since, ...
    Status taken;           ///< ... which was this one.
    std::condition_variable progress;

    static constexpr int64_t kNoLaunch = -1;
    /// A piece of its work is over. `workPs`: as Launch's, or kNoLaunch.
    void ran(base::Deadline::Clock::duration took, int64_t workPs) {
      hasLongWork |= took > kLongWork;
      longest = std::max(took, longest - longest / 64);
      if (workPs == kNoLaunch) return;
      launches = std::min(launches + 1, kKnownLaunches);
      largestPs = std::max(workPs, largestPs - largestPs / 64);
    }
    bool held() const { return state == QueueState::kParked && parkedAt == ParkedAt::kGate; }
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
  /// Extendable work that was submitted last, and what it depends on that more can be added.
  struct Open {
    std::shared_ptr<ExternalWork> work;
    std::shared_ptr<Queue> queue;
    int64_t earliestNs = 0;
  };
  struct Outstanding {
    std::shared_ptr<Queue> queue;
    bool forgotten = false;
    std::vector<std::function<void()>> callbacks;
  };
  using Callbacks = std::vector<std::function<void()>>;
  /// An error that a queue has now, to be told without the lock.
  struct NewError {
    std::string queue;
    Status status;
  };

  /// Counts the turns that threads have taken on and not done, from under the lock that gave them: the exit of the
  /// process waits for them. Stays with its thread.
  class Taken {
   public:
    Taken() = default;
    explicit Taken(Core& core) : core_(&core) { core.count(1); }
    Taken(Taken&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
    Taken& operator=(Taken&& other) noexcept {
      std::swap(core_, other.core_);
      return *this;
    }
    ~Taken() {
      if (core_) core_->count(-1);
    }

   private:
    Core* core_ = nullptr;
  };

  /// What a thread has taken on under the lock, to be done without it.
  struct Turn {
    enum class Kind : uint8_t {
      kNothing,   ///< The queue is parked.
      kRun,       ///< `item` is to be done, or skipped with `status`.
      kStart,     ///< The queue's external work is to be started.
      kAskOther,  ///< Another device is to tell when `ticket` is done; the queue is parked.
      kSeal,      ///< `away` is to be told that nothing more is added to it.
    };
    Kind kind = Kind::kNothing;
    std::shared_ptr<Queue> queue;
    Item item;
    Status cause;                         ///< The failure that the item is behind.
    Status status;                        ///< Not ok: the item is not run.
    Ticket ticket = 0;                    ///< Of kStart: the work's own. Of kAskOther: the other device's.
    Ticket head = 0;                      ///< Of kAskOther: the wait's.
    External away;                        ///< Of kStart and kSeal.
    std::shared_ptr<DriverDevice> other;  ///< Of kAskOther.
    Taken taken;
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
  std::function<void(const std::string&, const Status&)> failed;  ///< See QueueExecutor::setFailed.

  std::atomic<int> running{0};        ///< Pieces of work that a thread is inside of.
  std::atomic<uint64_t> advanced{0};  ///< Pieces that are done, and looks at some that ran.
  std::atomic<bool> anyReady{false};  ///< There is something for a worker to do, or to stop for: for who spins.
  std::atomic<Ticket> openTicket{0};  ///< Of `open`; 0: there is none.
  std::atomic<bool> anyUnsealed{false};
  std::atomic<int> taken{0};  ///< See Taken.

  mutable std::mutex mutex;  // Guards everything below.
  std::condition_variable workAvailable, hurried, drained;
  std::unordered_map<QueueId, std::shared_ptr<Queue>> queues;
  TicketTable<Outstanding> outstanding;
  std::unordered_map<Ticket, Status> failures;  ///< Of done tickets that are not forgotten.
  std::list<std::shared_ptr<Queue>> ready;
  /// Programs that a launch runs, with the queues that are parked for it.
  struct Busy {
    ProgramId program = 0;
    std::vector<std::shared_ptr<Queue>> parked;
  };
  std::vector<Busy> busy;
  Open open;
  std::vector<std::shared_ptr<ExternalWork>>
      unsealed;  ///< Not open any more, and not told so yet; has room for `open`.
  std::vector<std::thread> workers;
  int workersStarted = 0;  ///< Also those that are being started.
  Ticket nextTicket = 1;
  QueueId nextQueue = 1;
  int waitingThreads = 0;                                 ///< In await().
  std::atomic<WaitPolicy> waitPolicy{WaitPolicy::kHelp};  ///< What these do; never kDefault. Also without the lock.
  // Whenever something is ready, a worker looks for it (`looking`), or all are at work and look when they are done.
  int looking = 0;         ///< Workers that look for work, without a pause or at the end of a nap, or are woken to.
  bool napping = false;    ///< One of these naps, for a moment, until it is `hurried`.
  int sleeping = 0;        ///< Workers that sleep until `wakes` lets one go.
  int wakes = 0;           ///< Sleepers that may go and have not yet.
  int wakesToSend = 0;     ///< Of these: whoever has the lock notifies when it is unlocked.
  size_t drainTarget = 0;  ///< With `draining`: outstanding tickets that the drain need not wait for.
  bool draining = false, stopping = false;
  int resetting = 0;     ///< Threads in reset(): what ends as cancelled has failed by it.
  bool exiting = false;  ///< The process exits: only the thread that does takes turns.

  /// The lock, for a scope. Workers for what was made ready in it are woken when it is unlocked.
  class Section {
   public:
    explicit Section(Core& core) : core_(core), lock_(base::lockSoon(core.mutex)) {}
    ~Section() {
      if (lock_.owns_lock()) unlock();
    }
    void lock() { lock_ = base::lockSoon(core_.mutex); }
    void unlock() {
      const int wakes = std::exchange(core_.wakesToSend, 0);
      lock_.unlock();
      for (int i = 0; i < wakes; ++i) core_.workAvailable.notify_one();
    }
    /// Sleeps until the condition variable is notified or it is `until`.
    std::cv_status wait(std::condition_variable& changed, base::Deadline::Clock::time_point until) {
      for (int i = std::exchange(core_.wakesToSend, 0); i > 0; --i) core_.workAvailable.notify_one();
      return changed.wait_until(lock_, until);
    }
    void wait(std::condition_variable& changed) { changed.wait(lock_); }
    Core& core() const { return core_; }

   private:
    Core& core_;
    std::unique_lock<std::mutex> lock_;
  };
  /// For who only looks.
  std::unique_lock<std::mutex> look() const { return base::lockSoon(mutex); }

  // Under the lock.
  void putReady(const std::shared_ptr<Queue>& queue);
  std::shared_ptr<Queue> takeReady();
  void takeFromReady(Queue& queue);
  void makeReady(const std::shared_ptr<Queue>& queue);
  void ensureWorker();
  void hurry();
  void noteReady();
  void keepOpen(std::shared_ptr<ExternalWork> work, const std::shared_ptr<Queue>& queue, Ticket ticket,
                int64_t earliestNs) noexcept;
  std::shared_ptr<ExternalWork> takeOpen();
  std::shared_ptr<ExternalWork> takeUnsealed();
  void sealSoon();
  Turn begin(const std::shared_ptr<Queue>& queue);
  bool parkForWait(const std::shared_ptr<Queue>& queue, Turn& turn);
  bool parkForLaunch(const std::shared_ptr<Queue>& queue);
  void park(Queue& queue, ParkedAt at);
  void freeProgram(std::optional<ProgramId> program);
  Callbacks finish(Queue& queue, const Item& item, const Status& status, NewError& error);
  void settle(const std::shared_ptr<Queue>& queue);
  void settleOrBegin(const std::shared_ptr<Queue>& queue, Turn* next);
  std::vector<Item> dropQueued(Queue& queue);
  void tell(const NewError& error) const;
  NewError keepError(Queue& queue, Ticket ticket, const Status& status);
  Status failureOf(Ticket ticket) const;
  Status checkWait(const Work& work) const;
  Ticket append(const std::shared_ptr<Queue>& queue, Work& work, std::shared_ptr<const void>& keepAlive,
                std::string& label, bool forgotten);
  void takeBack(Queue& queue, Work& work, std::shared_ptr<const void>& keepAlive) noexcept;
  std::unique_ptr<InProgress> takeEnded(Queue& queue);
  void wakeHelpers();
  std::shared_ptr<Queue> inTheWay(const std::shared_ptr<Queue>& queue);
  std::string standing(const std::shared_ptr<Queue>& queue);

  // Of what does not change.
  Status skipped(const Queue& queue, const Item& item, const Status& cause) const;
  Status inContext(const Queue& queue, const Item& item, const Status& status) const;
  Status noMemory() const;
  std::string closedText() const;
  static bool helpable(const Queue& queue);

  // Without the lock, which they take themselves.
  bool startWorkers(int wanted);
  void workerLoop();
  std::optional<Turn> awaitTurn();
  void perform(Turn turn, Turn* next = nullptr);
  void run(Turn turn, Turn* next);
  void startExternal(const std::shared_ptr<Queue>& queue, External away, Ticket ticket, Turn* next);
  void conclude(const std::shared_ptr<Queue>& queue, Item item, Status status, base::Deadline::Clock::duration took,
                Turn* next);
  void unpark(const std::shared_ptr<Queue>& queue, Ticket head);
  void completeSignal(Queue& queue, const Item& item, uint32_t signal, const Status& status);
  void completeExternal(const std::shared_ptr<Queue>& queue, Ticket ticket, Status status);
  void beginExternals(Turn turn);
  Status waitedFor(const WaitFor& wait);
  void addCallback(Ticket ticket, std::function<void()> callback);
  void cancelAtEnd();
  void seal();
  void closed(Ticket ticket);

  // QueueExit.cpp: the process exits.
  void count(int change) noexcept;
  void beginExit() noexcept override;
  bool awaitExit(std::chrono::steady_clock::time_point until) noexcept override;
  bool workAtExit() override;
  /// Under the lock: whether the calling thread may take turns.
  bool mayTakeTurns() const { return !exiting || base::isExitThread(); }

  // QueueWait.cpp: threads of the host that wait.
  /// External work that a thread helps, from borrow() on.
  struct Loan {
    std::shared_ptr<Queue> queue;
    Ticket ticket = 0;
    std::shared_ptr<ExternalWork> work;
  };
  Loan borrow(const std::shared_ptr<Queue>& queue);               ///< Under the lock.
  void lend(Loan loan, base::Deadline::Clock::time_point until);  ///< Without.
  bool await(const std::shared_ptr<Queue>& queue, Ticket ticket, const base::Deadline& deadline);
  static std::cv_status standBy(Section& section, Queue& queue, base::Deadline::Clock::time_point until,
                                WaitPolicy policy);
  void drain();
  Status reset(const base::Deadline& deadline, base::FunctionRef<void(const std::vector<Ticket>&)> dropping);
};

}  // namespace hpu::driver
