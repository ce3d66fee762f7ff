// SPDX-License-Identifier: Apache-2.0
// Who drives: at any time at most one thread *drives*, that is, looks at the state of operations
// and moves bytes; it holds no lock while it does. A thread that finds another one driving leaves a
// request (Driving::kAgain) and the driver goes round once more; collectives beyond those that are
// enough ahead just lie there until somebody drives. At most one thread *leads*: it sleeps on the
// transport's changes and drives when there are any; a waiting host thread (help) takes the lead
// from the progress thread. The number of changes is read before each round, so what happens during
// a round ends the sleep after it.
//
//   Driving: kNobody -> kGoesRound <-> kAgain (something is new) -> kNobody
//   Leader:  kNone -> kThread <-> kThreadAsleep -> kNone
//            kNone, kThreadAsleep -> kHelper <-> kHelperAsleep -> kNone
//   Thread:  kNotStarted -> kAtWork <-> kIdle (until it is told), kLooks (tells itself now and then),
//            kAsleep (on the transport; a helper may have taken its lead) -> kAtWork -> it ends
#include "collectives/executor/Executor.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/Cpus.h"
#include "base/Format.h"
#include "base/PerThread.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/Thread.h"
#include "collectives/executor/CollectiveQueue.h"
#include "collectives/executor/Peers.h"
#include "collectives/executor/TransferRun.h"

namespace hpu::collectives {
namespace {

/// Peers are looked at this often even when nothing changes.
constexpr auto kCheckPeriod = std::chrono::milliseconds(50);
/// How long messages that had better come together are waited for.
constexpr auto kLaneSleep = std::chrono::microseconds(100);
/// How often the progress thread looks whether host threads still lead: the longer they do, the
/// more rarely.
constexpr Clock::duration kLookPeriod = std::chrono::microseconds(500);
constexpr Clock::duration kLookPeriodMost = std::chrono::milliseconds(4);
/// What begin() may use of its caller's time while more could be done at once. Of what SharedWork
/// runs, nothing: others can do it as well.
constexpr auto kInlineBudget = std::chrono::microseconds(500);

/// Slots that are kept for operations to come.
constexpr size_t kMostFree = 256;

struct BegunTransfers {
  TransferOperation operation;
  OperationDone done;
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<Transport> transport, std::string label);

  void begin(TransferOperation operation, OperationDone done);
  void add(DescribeOperation describe, OperationDone&& done);
  /// Whether something was begun that drive() is to look at.
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void drive();
  void help(Clock::time_point until, const std::function<bool()>& stop);
  void abort(const Status& why);
  Status health() const;
  uint64_t progress() const { return peers_.progress(); }
  /// Ends everything and the progress thread.
  void shutDown();

 private:
  enum class Driving : uint8_t { kNobody, kGoesRound, kAgain };
  enum class Leader : uint8_t { kNone, kThread, kThreadAsleep, kHelper, kHelperAsleep };
  enum class Thread : uint8_t { kNotStarted, kAtWork, kIdle, kLooks, kAsleep };
  using Lock = std::unique_lock<std::mutex>;

  /// Limits of one drive.
  struct Limits : Pace {
    Limits(const Core& core, const std::function<bool()>* stop) : core(core), stop(stop) {}
    bool pause() override {
      return core.interrupt_.load(std::memory_order_relaxed) || (stop && (*stop)()) ||
             (budgeted && Clock::now() >= budget);
    }
    const Core& core;
    const std::function<bool()>* stop;
    bool budgeted = false;
    Clock::time_point budget;
  };

  /// How a look at everything ended: nothing to do, something was done, or there is more to do.
  enum class Round : uint8_t { kIdle, kMoved, kPaused };

  /// Until when a leader sleeps: the changes since `seen`.
  struct Sleep {
    uint32_t seen = 0;
    ChangesNeeded needed;
    bool before(const Sleep& other) const {
      return static_cast<int32_t>(seen + needed.least - other.seen - other.needed.least) < 0 ||
             (needed.patience.count() > 0 && other.needed.patience.count() == 0);
    }
  };

  bool drive(Lock& lock, Limits& limits, Sleep& sleep);
  Round round(Limits& limits, const Status& failure);
  void goRoundAgain();
  bool leaderSleeps() const { return leader_ == Leader::kThreadAsleep || leader_ == Leader::kHelperAsleep; }
  bool isNew() const { return !collectivesBegun_.empty() || !transfersBegun_.empty(); }
  void end(TransferBatch& batch, Status status, std::vector<OperationResult::Peer> peers);
  bool pushAll(Limits& limits, bool& moved, Status& failed);
  void failAll(const Status& why);
  void callFinished(Lock& lock);
  void passOn(Lock& lock, bool runnable, const Sleep& sleep);
  void waitAsThread(Lock& lock);
  void sleepUntil(Clock::time_point until, const Sleep& sleep);
  void lead(Clock::time_point until, const std::function<bool()>* stop);
  static std::vector<const Core*>& callingBack();

  const std::shared_ptr<Transport> transport_;
  const std::string label_;
  const bool crowded_;  // More ranks than cores.
  Peers peers_;

  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable helpersWake_, threadWake_;
  Ring<std::unique_ptr<OperationSlot>> collectivesBegun_;  // Not seen by a driver yet.
  std::vector<BegunTransfers> transfersBegun_;             // The same.
  bool inLine_ = false;    // Something of both is not run by SharedWork: who begins it drives.
  size_t operations_ = 0;  // Not finished, whether seen or not.
  FinishedOperations free_;
  FinishedOperations spare_;         // Empty, for its memory.
  Status failure_;                   // Why later operations fail.
  std::atomic<bool> failed_{false};  // The same, without the lock.
  Driving driving_ = Driving::kNobody;
  Leader leader_ = Leader::kNone;
  Thread threadIs_ = Thread::kNotStarted;
  bool stopping_ = false;      // The progress thread is to end.
  bool full_ = false;          // Of the collectives, when somebody drove last: operations_ is not 0.
  Sleep sleep_, threadSleep_;  // The leader's, the progress thread's; while they are asleep.
  /// Host threads have led lately: the progress thread looks now and then whether they still do, and
  /// need not be woken for each operation.
  bool helped_ = false;
  Clock::duration lookPeriod_{};
  Clock::time_point lastBegun_;  // Of what somebody was to drive for.
  int helpers_ = 0;
  std::thread thread_;  // From when it is first needed.

  std::atomic<bool> interrupt_{false};  // Rounds end soon: there is something new.
  // What was begun needs a drive(): no thread is bound to come by and take it along. Set under the mutex.
  std::atomic<bool> wanted_{false};

  // The driver's.
  CollectiveQueue collectives_;
  TransferRun transfers_;
  FinishedOperations finished_;
  // What was begun; empty but while it looks at them.
  Ring<std::unique_ptr<OperationSlot>> collectivesTaken_;
  std::vector<BegunTransfers> transfersTaken_;
};

Core::Core(std::shared_ptr<Transport> transport, std::string label)
    : transport_(std::move(transport)),
      label_(std::move(label)),
      crowded_(transport_->ranks() > base::allowedCpus()),
      peers_(*transport_),
      collectives_(peers_),
      transfers_(peers_) {}

/// The executors whose operations' `done` this thread is in: their loops further up go on with what
/// is begun from there, so that a long queue of operations needs no deep stack.
std::vector<const Core*>& Core::callingBack() {
  struct Above {
    std::vector<const Core*> cores;
  };
  return base::perThread<Above>().cores;  // Statics' destructors end operations, too.
}

Status Core::health() const {
  if (!failed_.load(std::memory_order_acquire)) return okStatus();
  std::lock_guard lock(mutex_);
  return failure_;
}

void Core::begin(TransferOperation operation, OperationDone done) {
  {
    std::lock_guard lock(mutex_);
    transfersBegun_.push_back({std::move(operation), std::move(done)});
    ++operations_;
    inLine_ = true;
    wanted_.store(true, std::memory_order_relaxed);
    lastBegun_ = Clock::now();
  }
  drive();
}

void Core::add(DescribeOperation describe, OperationDone&& done) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<OperationSlot> slot;
  if (free_.empty()) {
    slot = std::make_unique<OperationSlot>();
  } else {
    slot = std::move(free_.back());
    free_.pop_back();
  }
  describe(slot->operation);
  inLine_ |= !slot->operation.direct;
  slot->done = std::move(done);
  collectivesBegun_.push(std::move(slot));
  ++operations_;
  if (!inLine_ && full_ && failure_.ok()) return;  // The thread that drives next takes it along.
  wanted_.store(true, std::memory_order_relaxed);
  lastBegun_ = Clock::now();
}

/// After something was begun.
void Core::drive() {
  Lock lock(mutex_);
  wanted_.store(false, std::memory_order_relaxed);
  if (!isNew()) return;  // Somebody has taken it along.
  const bool inLine = std::exchange(inLine_, false);
  if (driving_ != Driving::kNobody) return goRoundAgain();
  const auto& above = callingBack();
  if (std::find(above.begin(), above.end(), this) != above.end()) return;
  Limits limits(*this, nullptr);
  limits.budgeted = true;
  limits.budget = lastBegun_;
  if (inLine) limits.budget += kInlineBudget;
  Sleep sleep;
  const bool runnable = drive(lock, limits, sleep);
  passOn(lock, runnable, sleep);
}

/// Under the lock, while another thread drives.
void Core::goRoundAgain() {
  driving_ = Driving::kAgain;
  interrupt_.store(true, std::memory_order_relaxed);
}

/// Goes round until nothing moves or the limits say so; true when there is more to do at once.
/// `sleep`: what to wait for after that.
bool Core::drive(Lock& lock, Limits& limits, Sleep& sleep) {
  for (;;) {
    driving_ = Driving::kGoesRound;
    interrupt_.store(false, std::memory_order_relaxed);
    collectivesBegun_.swap(collectivesTaken_);
    transfersBegun_.swap(transfersTaken_);
    const Status failure = failure_;
    lock.unlock();
    sleep = {transport_->changes(), {}};
    const Round result = round(limits, failure);
    if (result == Round::kIdle && !collectives_.empty()) {
      const ChangesNeeded needed = collectives_.changesNeeded();
      sleep.needed.patience = needed.patience;
      // Transfers go on with any change.
      if (transfers_.idle()) sleep.needed = needed;
    }
    lock.lock();
    full_ = collectives_.full();
    if (!finished_.empty()) {
      callFinished(lock);
      if (driving_ != Driving::kNobody) {  // Another thread took over.
        driving_ = Driving::kAgain;
        sleep = {transport_->changes(), {}};
        return false;
      }
      if (operations_ == 0 && !isNew()) return false;
      if (limits.pause() && !interrupt_.load(std::memory_order_relaxed)) return true;
      continue;
    }
    if (driving_ == Driving::kAgain || isNew()) continue;
    if (result == Round::kMoved && !limits.pause()) continue;
    driving_ = Driving::kNobody;
    return result != Round::kIdle;
  }
}

/// Calls `done` of what has finished, without the lock and the driver's role.
void Core::callFinished(Lock& lock) {
  FinishedOperations finished = std::move(finished_);
  finished_ = std::move(spare_);
  operations_ -= finished.size();
  driving_ = Driving::kNobody;
  lock.unlock();
  auto& above = callingBack();
  above.push_back(this);
  for (const auto& one : finished) {
    // What it holds goes before anybody else has the slot.
    OperationDone done = std::move(one->done);
    done(one->result);
  }
  above.pop_back();
  lock.lock();
  for (auto& one : finished)
    if (free_.size() < kMostFree) free_.push_back(std::move(one));
  finished.clear();
  if (spare_.capacity() < finished.capacity()) spare_ = std::move(finished);
  // Each thread that waits in help() asks whether it was its operation.
  if (helpers_ > 0) {
    helpersWake_.notify_all();
    if (leader_ == Leader::kHelperAsleep) transport_->wake();
  }
}

/// Leaves the work to whoever leads, or makes somebody lead.
void Core::passOn(Lock& lock, bool runnable, const Sleep& sleep) {
  if (operations_ == 0) return;
  if (leader_ != Leader::kNone) {
    if (leaderSleeps() && (runnable || sleep.before(sleep_))) transport_->wake();
    return;
  }
  if (helpers_ > 0) {
    helpersWake_.notify_one();
    return;
  }
  if (threadIs_ == Thread::kAsleep) {  // A helper took its lead.
    if (runnable || sleep.before(threadSleep_)) transport_->wake();
    return;
  }
  if (helped_ && threadIs_ == Thread::kLooks) return;
  if (threadIs_ == Thread::kNotStarted && !stopping_) {
    try {
      thread_ = base::startThread("hpu-collective", [core = shared_from_this()] { core->lead({}, nullptr); });
      threadIs_ = Thread::kAtWork;
    } catch (const std::system_error&) {
      lock.unlock();
      abort(resourceExhausted("the system has no thread for the progress of the communicator"));
      lock.lock();
      return;
    }
  }
  threadWake_.notify_one();
}

/// With more ranks than cores a moment of patience saves being woken for each message of several.
void Core::sleepUntil(Clock::time_point until, const Sleep& sleep) {
  const uint32_t least = sleep.needed.least;
  if (sleep.needed.patience.count() > 0) {
    until = std::min(until, Clock::now() + sleep.needed.patience);
  }
  if (crowded_ && sleep.needed.together > least) {
    transport_->waitForChange(sleep.seen, std::min(until, Clock::now() + kLaneSleep), sleep.needed.together);
    if (transport_->changes() - sleep.seen >= least) return;
  }
  transport_->waitForChange(sleep.seen, until, least);
}

/// The loop of the progress thread (stop is null), and of help().
void Core::lead(Clock::time_point until, const std::function<bool()>* stop) {
  const Leader self = stop ? Leader::kHelper : Leader::kThread;
  const Leader asleep = stop ? Leader::kHelperAsleep : Leader::kThreadAsleep;
  Lock lock(mutex_);
  if (stop) ++helpers_;
  for (;;) {
    if (stop) {
      lock.unlock();
      const bool enough = Clock::now() >= until || (*stop)();
      lock.lock();
      if (enough) break;
    } else if (stopping_) {
      break;
    }
    const bool leadable = leader_ == Leader::kNone || (stop && leader_ == Leader::kThreadAsleep);
    if (operations_ == 0 || !leadable || (!stop && helpers_ > 0)) {
      if (stop) {
        helpersWake_.wait_until(lock, std::min(until, Clock::now() + kCheckPeriod));
      } else {
        waitAsThread(lock);
      }
      continue;
    }
    leader_ = self;
    if (!stop) lookPeriod_ = {};  // No thread helped.
    Sleep sleep;
    bool runnable = false;
    helped_ = stop != nullptr;
    // Its driver takes along what is new, and needs the lock for it.
    const bool isDriven = driving_ != Driving::kNobody;
    if (isDriven) {
      sleep.seen = transport_->changes();
      driving_ = Driving::kAgain;
    } else {
      Limits limits(*this, stop);
      runnable = drive(lock, limits, sleep);
    }
    const bool handOver = stopping_ || (!stop && helpers_ > 0);
    if (!runnable && operations_ > 0 && (isDriven || !isNew()) && !handOver) {
      leader_ = asleep;
      sleep_ = sleep;
      if (!stop) {
        threadIs_ = Thread::kAsleep;
        threadSleep_ = sleep;
      }
      const auto wakeUp = Clock::now() + kCheckPeriod;
      lock.unlock();
      sleepUntil(stop ? std::min(until, wakeUp) : wakeUp, sleep);
      lock.lock();
      if (!stop) threadIs_ = Thread::kAtWork;
    }
    // A helper may have taken it from the thread meanwhile.
    if (leader_ == self || leader_ == asleep) leader_ = Leader::kNone;
    if (!stop && helpers_ > 0) helpersWake_.notify_one();
  }
  if (stop) --helpers_;
  passOn(lock, true, {});
}

/// Until somebody says that there is something to lead. While host threads do that, and operations
/// are begun, a look now and then costs less than being told each time.
void Core::waitAsThread(Lock& lock) {
  constexpr auto kLookFor = std::chrono::milliseconds(200);
  const auto now = Clock::now();
  if (helped_ && now - lastBegun_ < kLookFor) {
    threadIs_ = Thread::kLooks;
    const auto longer = std::clamp(2 * lookPeriod_, kLookPeriod, kLookPeriodMost);
    lookPeriod_ = helpers_ > 0 ? longer : kLookPeriod;
    threadWake_.wait_until(lock, now + lookPeriod_);
  } else {
    threadIs_ = Thread::kIdle;
    threadWake_.wait(lock);
  }
  threadIs_ = Thread::kAtWork;
}

void Core::help(Clock::time_point until, const std::function<bool()>& stop) {
  lead(until, &stop);
}

void Core::abort(const Status& why) {
  const Status reason = why.ok() ? aborted("the communicator was aborted") : why;
  Lock lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = reason.withContext(label_);
  failed_.store(true, std::memory_order_release);
  interrupt_.store(true, std::memory_order_relaxed);
  lock.unlock();
  transport_->abort(reason);
  lock.lock();
  if (driving_ != Driving::kNobody) return goRoundAgain();
  Limits limits(*this, nullptr);
  Sleep sleep;
  const bool runnable = drive(lock, limits, sleep);
  passOn(lock, runnable, sleep);
}

void Core::shutDown() {
  bool busy;
  {
    std::lock_guard lock(mutex_);
    busy = operations_ > 0;
  }
  if (busy) abort(aborted("the communicator was destroyed"));
  std::thread thread;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    thread = std::move(thread_);
    threadWake_.notify_all();
    if (threadIs_ == Thread::kAsleep) transport_->wake();
  }
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();  // It holds what it uses.
  } else {
    thread.join();
  }
}

void Core::failAll(const Status& why) {
  collectives_.failAll(why, finished_);
  for (auto& batch : transfers_.takeAll()) {
    end(*batch, why, {});
  }
}

void Core::end(TransferBatch& batch, Status status, std::vector<OperationResult::Peer> peers) {
  batch.operation.keepAlive = {};
  auto slot = std::make_unique<OperationSlot>();
  slot->done = std::move(batch.done);
  slot->result.status = std::move(status);
  slot->result.peers = std::move(peers);
  finished_.push_back(std::move(slot));
}

/// Pushes everything once; true when it paused.
bool Core::pushAll(Limits& limits, bool& moved, Status& failed) {
  bool paused = false;
  std::vector<std::shared_ptr<TransferBatch>> finished;
  failed = transfers_.push(limits, moved, paused, finished);
  for (auto& batch : finished) end(*batch, okStatus(), std::move(batch->results));
  if (failed.ok() && !paused) failed = collectives_.push(limits, moved, paused, finished_);
  return paused;
}

/// One look at everything.
Core::Round Core::round(Limits& limits, const Status& failure) {
  Status failed;
  while (!collectivesTaken_.empty()) collectives_.add(collectivesTaken_.pop());
  for (BegunTransfers& one : transfersTaken_) {
    auto batch = std::make_shared<TransferBatch>();
    batch->operation = std::move(one.operation);
    batch->done = std::move(one.done);
    batch->begun = Clock::now();
    if (batch->operation.transfers.empty()) {
      end(*batch, okStatus(), {});
      continue;
    }
    Status status = failure.ok() && failed.ok() ? transfers_.begin(batch) : okStatus();
    if (!failure.ok() || !failed.ok() || !status.ok()) {
      if (failed.ok()) failed = failure.ok() ? status : failure;
      end(*batch, failure.ok() ? failed.withContext(label_) : failure, {});
    }
  }
  transfersTaken_.clear();
  if (!failure.ok()) {
    failAll(failure);
    return Round::kIdle;
  }
  bool moved = false, paused = false;
  if (failed.ok()) paused = pushAll(limits, moved, failed);
  if (failed.ok() && !moved && !paused) {
    peers_.look();
    auto check = [&] {
      Status status = collectives_.checkPeers();
      return status.ok() ? transfers_.checkPeers() : status;
    };
    // What a peer did before it went is heard first.
    if (Status status = check(); !status.ok()) {
      paused = pushAll(limits, moved, failed);
      if (failed.ok() && !moved && !paused) failed = check();
    }
  }
  if (failed.ok()) return paused ? Round::kPaused : moved ? Round::kMoved : Round::kIdle;
  Status reason;
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = failed.withContext(label_);
    failed_.store(true, std::memory_order_release);
    reason = failure_;
  }
  transport_->abort(failed);
  failAll(reason);
  return Round::kIdle;
}

class ExecutorHandle : public Executor {
 public:
  ExecutorHandle(std::shared_ptr<Transport> transport, std::string label)
      : core_(std::make_shared<Core>(std::move(transport), std::move(label))) {}
  ~ExecutorHandle() override { core_->shutDown(); }

  void begin(CollectiveOperation operation, OperationDone done) override {
    add([&](CollectiveOperation& place) { place = std::move(operation); }, std::move(done));
    drive();
  }
  void begin(TransferOperation operation, OperationDone done) override {
    setTimeout(operation);
    core()->begin(std::move(operation), std::move(done));
  }
  void add(DescribeOperation describe, OperationDone done) override {
    core_->add(
        [&](CollectiveOperation& operation) {
          describe(operation);
          setTimeout(operation);
        },
        std::move(done));
  }
  void drive() override {
    if (core_->wanted()) core()->drive();  // What the calling thread has begun it has seen.
  }
  void help(Clock::time_point until, const std::function<bool()>& stop) override { core()->help(until, stop); }
  void abort(const Status& why) override { core()->abort(why); }
  Status health() const override { return core_->health(); }
  uint64_t progress() const override { return core_->progress(); }

 private:
  static void setTimeout(OperationCommon& operation) {
    auto fill = [](int64_t& value, Setting setting, int64_t otherwise) {
      if (value >= 0) return;
      auto configured = settings::getInt(setting);
      value = configured.ok() ? *configured : otherwise;  // The creation of the communicator has refused a bad one.
    };
    fill(operation.timeoutMs, Setting::HPU_COMM_TIMEOUT_MS, 30000);
    fill(operation.deadlineMs, Setting::HPU_COMM_DEADLINE_MS, 1800000);
  }
  /// A copy: what is called back may let go of this object.
  std::shared_ptr<Core> core() const { return core_; }
  const std::shared_ptr<Core> core_;
};

}  // namespace

std::shared_ptr<Executor> Executor::create(std::shared_ptr<Transport> transport, std::string label) {
  return std::make_shared<ExecutorHandle>(std::move(transport), std::move(label));
}

}  // namespace hpu::collectives
