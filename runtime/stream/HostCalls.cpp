// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/HostCalls.h"

#include <atomic>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/Log.h"
#include "base/ProgramCall.h"
#include "base/Thread.h"

namespace hpu {
namespace {

thread_local bool tOnThread = false;

/// What a function of the program throws goes no further.
template <typename Function>
Status guarded(std::string_view name, Function&& function) {
  const bool before = std::exchange(tOnThread, true);
  Status status = base::callProgram(name, function);
  tOnThread = before;
  return status;
}

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
      Status status = guarded("Stream::callHost", function);
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
      Status thrown = guarded("Stream::onDone", [&] { told(status); });
      if (!thrown.ok()) HPU_LOG(kError, thrown.message());
    });
  }
  const std::shared_ptr<HostCalls> calls_;
  std::function<void(const Status&)> told_;
};

}  // namespace

struct HostCalls::Queue {
  std::mutex mutex;  // Guards the following.
  std::condition_variable changed;
  std::deque<std::function<void()>> functions;
  bool closing = false;
  std::thread thread;
};

HostCalls::HostCalls() : queue_(std::make_shared<Queue>()) {}

HostCalls::~HostCalls() {
  std::thread thread;
  {
    std::lock_guard lock(queue_->mutex);
    queue_->closing = true;
    thread = std::move(queue_->thread);
  }
  queue_->changed.notify_one();
  if (!thread.joinable()) return;
  // A function let go of the device: the thread that runs it has its share of the queue, and ends when that is empty.
  if (thread.get_id() == std::this_thread::get_id())
    thread.detach();
  else
    thread.join();
}

bool HostCalls::onThread() {
  return tOnThread;
}

void HostCalls::run(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    queue->changed.wait(lock, [&] { return queue->closing || !queue->functions.empty(); });
    if (queue->functions.empty()) return;
    std::function<void()> function = std::move(queue->functions.front());
    queue->functions.pop_front();
    lock.unlock();
    function();
    function = nullptr;  // What it has kept alive may be the device.
    lock.lock();
  }
}

void HostCalls::add(std::function<void()> function) {
  {
    std::lock_guard lock(queue_->mutex);
    if (!queue_->thread.joinable()) {
      try {
        queue_->thread = base::startThread("hpu-host-calls", [queue = queue_] { run(queue); });
      } catch (const std::system_error&) {
        HPU_LOG(kWarning, "there is no thread for host functions; one runs where its stream's work ends");
      }
    }
    if (queue_->thread.joinable()) {
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
