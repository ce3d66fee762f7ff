// SPDX-License-Identifier: Apache-2.0
// Who drives: at any time at most one thread *drives*, that is, looks at the state of operations
// and moves bytes; it holds no lock while it does. A thread that finds another one driving leaves a
// request (`again_`) and the driver goes round once more; collectives beyond those that are enough
// ahead just lie there until somebody drives. At most one thread *leads*: it sleeps on the
// transport's changes and drives when there are any; a waiting host thread (help) takes the lead
// from the progress thread. The number of changes is read before each round, so what happens during
// a round ends the sleep after it.
#include "collectives/executor/Executor.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

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
constexpr auto kPatience = std::chrono::microseconds(100);
/// How often the progress thread looks whether host threads still lead: the longer they do, the
/// more rarely.
constexpr Clock::duration kLookPeriod = std::chrono::microseconds(500);
constexpr Clock::duration kLookPeriodMost = std::chrono::milliseconds(4);
/// What begin() may use of its caller's time while more could be done at once. Of what SharedWork
/// runs, nothing: others can do it as well.
constexpr auto kInlineBudget = std::chrono::microseconds(500);

struct Begun {
  std::variant<CollectiveOperation, TransferOperation> operation;
  OperationDone done;
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<Transport> transport, std::string label);

  void begin(Begun begun);
  void help(Clock::time_point until, const std::function<bool()>& stop);
  void abort(const Status& why);
  Status health() const;
  uint64_t progress() const { return peers_.progress(); }
  /// Ends everything and the progress thread.
  void shutDown();

 private:
  enum class Leader : uint8_t { kNone, kThread, kHelper };
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
  Round round(Limits& limits, std::span<Begun> begun, const Status& failure);
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
  std::vector<Begun> begun_;         // Not seen by a driver yet.
  size_t operations_ = 0;            // Not finished, whether seen or not.
  Status failure_;                   // Why later operations fail.
  std::atomic<bool> failed_{false};  // The same, without the lock.
  bool driving_ = false, again_ = false, stopping_ = false;
  bool full_ = false;  // Of the collectives, when somebody drove last: operations_ is not 0.
  Leader leader_ = Leader::kNone;
  bool leaderSleeps_ = false, threadSleeps_ = false;  // On the transport.
  Sleep sleep_, threadSleep_;                         // The leader's, the progress thread's.
  /// Host threads have led lately, and the progress thread looks now and then whether they still
  /// do: it need not be woken for each operation.
  bool helped_ = false, threadLooks_ = false;
  Clock::duration lookPeriod_{};
  Clock::time_point lastBegun_;
  int helpers_ = 0;
  std::thread thread_;  // From when it is first needed.

  std::atomic<bool> interrupt_{false};  // Rounds end soon: there is something new.

  // The driver's.
  CollectiveQueue collectives_;
  TransferRun transfers_;
  std::vector<FinishedOperation> finished_;
  std::vector<Begun> taken_;  // From begun_; empty but while it looks at them.
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

void Core::begin(Begun begun) {
  Lock lock(mutex_);
  if (!failure_.ok()) {
    OperationResult result;
    result.status = failure_;
    lock.unlock();
    std::visit([](auto& operation) { operation.keepAlive.reset(); }, begun.operation);
    begun.done(std::move(result));
    return;
  }
  const auto* collective = std::get_if<CollectiveOperation>(&begun.operation);
  const bool inLine = !collective || !collective->direct;
  begun_.push_back(std::move(begun));
  ++operations_;
  lastBegun_ = Clock::now();
  if (!inLine && full_) return;  // Whoever drives next takes it along.
  if (driving_) {
    again_ = true;
    interrupt_.store(true, std::memory_order_relaxed);
    return;
  }
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

/// Goes round until nothing moves or the limits say so; true when there is more to do at once.
/// `sleep`: what to wait for after that.
bool Core::drive(Lock& lock, Limits& limits, Sleep& sleep) {
  driving_ = true;
  for (;;) {
    again_ = false;
    interrupt_.store(false, std::memory_order_relaxed);
    begun_.swap(taken_);
    const Status failure = failure_;
    lock.unlock();
    sleep = {transport_->changes(), {}};
    const Round result = round(limits, taken_, failure);
    taken_.clear();
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
      if (driving_) {  // Another thread took over.
        again_ = true;
        sleep = {transport_->changes(), {}};
        return false;
      }
      driving_ = true;
      if (operations_ == 0 && begun_.empty()) break;
      if (limits.pause() && !interrupt_.load(std::memory_order_relaxed)) {
        driving_ = false;
        return true;
      }
      continue;
    }
    if (again_ || !begun_.empty()) continue;
    if (result == Round::kMoved && !limits.pause()) continue;
    if (result != Round::kIdle) {
      driving_ = false;
      return true;
    }
    break;
  }
  driving_ = false;
  return false;
}

/// Calls `done` of what has finished, without the lock and the driver's role.
void Core::callFinished(Lock& lock) {
  std::vector<FinishedOperation> finished = std::exchange(finished_, {});
  operations_ -= finished.size();
  driving_ = false;
  lock.unlock();
  auto& above = callingBack();
  above.push_back(this);
  for (FinishedOperation& one : finished) one.done(std::move(one.result));
  above.pop_back();
  finished.clear();
  lock.lock();
  // Whoever waits in help() asks whether it was its operation.
  if (helpers_ > 0) {
    helpersWake_.notify_all();
    if (leader_ == Leader::kHelper && leaderSleeps_) transport_->wake();
  }
}

/// Leaves the work to whoever leads, or makes somebody lead.
void Core::passOn(Lock& lock, bool runnable, const Sleep& sleep) {
  if (operations_ == 0) return;
  if (leader_ != Leader::kNone) {
    if (leaderSleeps_ && (runnable || sleep.before(sleep_))) transport_->wake();
    return;
  }
  if (helpers_ > 0) {
    helpersWake_.notify_one();
    return;
  }
  if (threadSleeps_) {  // A helper took its lead.
    if (runnable || sleep.before(threadSleep_)) transport_->wake();
    return;
  }
  if (helped_ && threadLooks_) return;
  if (!thread_.joinable() && !stopping_) {
    try {
      thread_ = base::startThread("hpu-collective", [core = shared_from_this()] { core->lead({}, nullptr); });
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
    transport_->waitForChange(sleep.seen, std::min(until, Clock::now() + kPatience), sleep.needed.together);
    if (transport_->changes() - sleep.seen >= least) return;
  }
  transport_->waitForChange(sleep.seen, until, least);
}

/// The loop of the progress thread (stop is null), and of help().
void Core::lead(Clock::time_point until, const std::function<bool()>* stop) {
  const Leader self = stop ? Leader::kHelper : Leader::kThread;
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
    const bool leadable = leader_ == Leader::kNone || (stop && leader_ == Leader::kThread && leaderSleeps_);
    if (operations_ == 0 || !leadable || (!stop && helpers_ > 0)) {
      if (stop) {
        helpersWake_.wait_until(lock, std::min(until, Clock::now() + kCheckPeriod));
      } else {
        waitAsThread(lock);
      }
      continue;
    }
    leader_ = self;
    leaderSleeps_ = false;
    if (!stop) lookPeriod_ = {};  // Nobody helped.
    Sleep sleep;
    bool runnable = false;
    helped_ = stop != nullptr;
    if (driving_) {
      sleep.seen = transport_->changes();
      again_ = true;
    } else {
      Limits limits(*this, stop);
      runnable = drive(lock, limits, sleep);
    }
    const bool handOver = stopping_ || (!stop && helpers_ > 0);
    if (!runnable && operations_ > 0 && begun_.empty() && !handOver) {
      leaderSleeps_ = true;
      sleep_ = sleep;
      if (!stop) {
        threadSleeps_ = true;
        threadSleep_ = sleep;
      }
      const auto wakeUp = Clock::now() + kCheckPeriod;
      lock.unlock();
      sleepUntil(stop ? std::min(until, wakeUp) : wakeUp, sleep);
      lock.lock();
      if (!stop) threadSleeps_ = false;
    }
    if (leader_ == self) {  // A helper may have taken it meanwhile.
      leader_ = Leader::kNone;
      leaderSleeps_ = false;
    }
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
    threadLooks_ = true;
    const auto longer = std::clamp(2 * lookPeriod_, kLookPeriod, kLookPeriodMost);
    lookPeriod_ = helpers_ > 0 ? longer : kLookPeriod;
    threadWake_.wait_until(lock, now + lookPeriod_);
    threadLooks_ = false;
  } else {
    threadWake_.wait(lock);
  }
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
  if (driving_) {
    again_ = true;
    interrupt_.store(true, std::memory_order_relaxed);
    return;
  }
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
    if (threadSleeps_) transport_->wake();
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
    batch->operation.keepAlive.reset();
    finished_.push_back({std::move(batch->done), {why, {}, {}, {}, {}}});
  }
}

/// Pushes everything once; true when it paused.
bool Core::pushAll(Limits& limits, bool& moved, Status& failed) {
  bool paused = false;
  std::vector<std::shared_ptr<TransferBatch>> finished;
  failed = transfers_.push(limits, moved, paused, finished);
  for (auto& batch : finished) {
    OperationResult result;
    result.peers = std::move(batch->results);
    batch->operation.keepAlive.reset();
    finished_.push_back({std::move(batch->done), std::move(result)});
  }
  if (failed.ok() && !paused) failed = collectives_.push(limits, moved, paused, finished_);
  return paused;
}

/// One look at everything.
Core::Round Core::round(Limits& limits, std::span<Begun> begun, const Status& failure) {
  Status failed;
  for (Begun& one : begun) {
    if (auto* collective = std::get_if<CollectiveOperation>(&one.operation)) {
      collectives_.add(std::move(*collective), std::move(one.done));
      continue;
    }
    auto batch = std::make_shared<TransferBatch>();
    batch->operation = std::move(std::get<TransferOperation>(one.operation));
    batch->done = std::move(one.done);
    batch->begun = Clock::now();
    if (batch->operation.transfers.empty()) {
      batch->operation.keepAlive.reset();
      finished_.push_back({std::move(batch->done), {}});
      continue;
    }
    Status status = failure.ok() && failed.ok() ? transfers_.begin(batch) : okStatus();
    if (!failure.ok() || !failed.ok() || !status.ok()) {
      if (failed.ok()) failed = failure.ok() ? status : failure;
      batch->operation.keepAlive.reset();
      const Status why = failure.ok() ? failed.withContext(label_) : failure;
      finished_.push_back({std::move(batch->done), {why, {}, {}, {}, {}}});
    }
  }
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
    setTimeout(operation);
    core()->begin({std::move(operation), std::move(done)});
  }
  void begin(TransferOperation operation, OperationDone done) override {
    setTimeout(operation);
    core()->begin({std::move(operation), std::move(done)});
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
      value = configured.ok() ? *configured : otherwise;  // Who creates a communicator has said what is wrong.
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
