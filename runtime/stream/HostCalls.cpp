// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/HostCalls.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/ExitGate.h"
#include "base/Log.h"
#include "base/ProgramCall.h"
#include "base/Thread.h"
#include "runtime/driver/Callback.h"

namespace hpu {
namespace {

class HostCall final : public ExternalWork {
 public:
  HostCall(std::shared_ptr<HostCalls> calls, std::function<Status()> function, std::string name)
      : calls_(std::move(calls)), function_(std::move(function)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void start(std::shared_ptr<ExternalTurn> turn) override {
    {
      std::lock_guard lock(mutex_);
      turn_ = turn;
    }
    calls_->add([turn = std::move(turn), state = state_, function = std::move(function_)] {
      if (state->exchange(kRunning) == kCancelled) return;
      Status status;
      {
        CallbackScope scope(Callback::kFunction);
        status = base::callProgram("Stream::callHost", function);
      }
      turn->complete(std::move(status), turn->arrivalPs());
    });
  }
  void skipped(const Status&) override { function_ = nullptr; }
  /// One that runs ends by itself; the reset waits for it.
  void cancel(const Status& why) override {
    int expected = kWaiting;
    if (!state_->compare_exchange_strong(expected, kCancelled)) return;
    std::shared_ptr<ExternalTurn> turn;
    {
      std::lock_guard lock(mutex_);
      turn = turn_.lock();
    }
    if (turn) turn->complete(why, 0);
  }

 private:
  enum : int { kWaiting, kRunning, kCancelled };
  const std::shared_ptr<HostCalls> calls_;
  std::function<Status()> function_;
  const std::string name_;
  const std::shared_ptr<std::atomic<int>> state_ = std::make_shared<std::atomic<int>>(kWaiting);
  std::mutex mutex_;  // Guards the turn.
  std::weak_ptr<ExternalTurn> turn_;
};

class CompletionCall final : public ExternalWork {
 public:
  CompletionCall(std::shared_ptr<HostCalls> calls, std::function<void(const Status&)> told)
      : calls_(std::move(calls)), told_(std::move(told)) {}
  std::string name() const override { return "completion"; }
  void start(std::shared_ptr<ExternalTurn> turn) override {
    tell(okStatus());
    turn->complete(okStatus(), turn->arrivalPs());
  }
  void skipped(const Status& why) override { tell(why); }
  void cancel(const Status&) override {}  // Its turn is over when start() returns.

 private:
  void tell(Status status) {
    calls_->add([told = std::move(told_), status = std::move(status)] {
      CallbackScope scope(Callback::kFunction);
      base::callProgramOrLog("Stream::onDone", [&] { told(status); });
    });
  }
  const std::shared_ptr<HostCalls> calls_;
  std::function<void(const Status&)> told_;
};

}  // namespace

struct HostCalls::Queue final : base::StopsAtExit {
  std::mutex mutex;  // Guards the following.
  std::condition_variable changed, idle;
  std::deque<std::function<void()>> functions;
  bool closing = false, exiting = false;
  std::thread thread;
  std::thread::id runs;  ///< Who is inside of a function; none: nobody.

  void loop();
  bool runNext(std::unique_lock<std::mutex>& lock);
  void beginExit() noexcept override;
  bool awaitExit(std::chrono::steady_clock::time_point until) noexcept override;
  bool workAtExit() override;
};

HostCalls::HostCalls() : queue_(std::make_shared<Queue>()) {
  base::stopAtExit(queue_);
  if (base::isExiting()) queue_->beginExit();  // Perhaps it was too late to be told.
}

HostCalls::~HostCalls() {
  std::thread thread;
  {
    std::lock_guard lock(queue_->mutex);
    queue_->closing = true;
    thread = std::move(queue_->thread);
  }
  queue_->changed.notify_one();
  // A function let go of the device: the thread that runs it has its share of the queue, and ends when that is empty.
  if (thread.joinable() && thread.get_id() == std::this_thread::get_id())
    thread.detach();
  else if (thread.joinable())
    thread.join();
  // The thread has left them when the process began to exit.
  if (!base::isExitThread()) return;
  while (queue_->workAtExit()) {
  }
}

/// The first function, without the lock, which the caller has; false: there is none.
bool HostCalls::Queue::runNext(std::unique_lock<std::mutex>& lock) {
  if (functions.empty()) return false;
  // Also for the end of what a function has kept alive, which may be the device.
  CallbackScope scope(Callback::kFunction);
  std::function<void()> function = std::move(functions.front());
  functions.pop_front();
  const std::thread::id outer = std::exchange(runs, std::this_thread::get_id());
  lock.unlock();
  function();
  function = nullptr;
  lock.lock();
  runs = outer;
  if (exiting) idle.notify_all();
  return true;
}

void HostCalls::Queue::loop() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return closing || exiting || !functions.empty(); });
    if (exiting || !runNext(lock)) return;
  }
}

void HostCalls::Queue::beginExit() noexcept {
  {
    std::lock_guard lock(mutex);
    exiting = true;
  }
  changed.notify_all();
}

bool HostCalls::Queue::awaitExit(std::chrono::steady_clock::time_point until) noexcept {
  std::unique_lock lock(mutex);
  return idle.wait_until(lock, until, [&] { return runs == std::thread::id() || runs == std::this_thread::get_id(); });
}

bool HostCalls::Queue::workAtExit() {
  std::unique_lock lock(mutex);
  return runNext(lock);
}

void HostCalls::add(std::function<void()> function) {
  {
    std::lock_guard lock(queue_->mutex);
    if (!queue_->thread.joinable() && !queue_->exiting) {
      try {
        queue_->thread = base::startThread("hpu-host-calls", [queue = queue_] { queue->loop(); });
      } catch (const std::system_error&) {
        HPU_LOG(kWarning, "there is no thread for host functions; one runs where its stream's work ends");
      }
    }
    if (queue_->thread.joinable() || queue_->exiting) {
      queue_->functions.push_back(std::move(function));
      function = nullptr;
    }
  }
  queue_->changed.notify_one();
  if (function) function();
}

std::shared_ptr<ExternalWork> hostCall(std::shared_ptr<HostCalls> calls, std::function<Status()> function,
                                       std::string name) {
  return std::make_shared<HostCall>(std::move(calls), std::move(function), std::move(name));
}

std::shared_ptr<ExternalWork> completionCall(std::shared_ptr<HostCalls> calls,
                                             std::function<void(const Status&)> told) {
  return std::make_shared<CompletionCall>(std::move(calls), std::move(told));
}

}  // namespace hpu
