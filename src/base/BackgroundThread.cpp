// SPDX-License-Identifier: Apache-2.0
#include "base/BackgroundThread.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/Abandon.h"
#include "base/ExitGate.h"
#include "base/Thread.h"

namespace hpu::base {

struct BackgroundThread::Jobs final : StopsAtExit {
  struct Job {
    const void* owner;
    std::function<void()> run;
  };
  std::mutex mutex;  // Guards what follows.
  std::condition_variable changed, idle;
  std::deque<Job> waiting;
  const void* running = nullptr;  ///< The owner of the job that runs.
  bool stopping = false;
  std::thread thread;

  void loop();
  void stop() noexcept;
  void beginExit() noexcept override { stop(); }
  bool awaitExit(std::chrono::steady_clock::time_point until) noexcept override {
    std::unique_lock lock(mutex);
    return idle.wait_until(lock, until, [&] { return !running; });
  }
  bool workAtExit() override { return false; }
  const char* nameAtExit() const noexcept override { return "a job of a background thread"; }
};

void BackgroundThread::Jobs::loop() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stopping || !waiting.empty(); });
    if (stopping) return;
    Job job = std::move(waiting.front());
    waiting.pop_front();
    running = job.owner;
    lock.unlock();
    job.run();
    job.run = nullptr;  // What it holds is let go before anybody is told that it is over.
    lock.lock();
    running = nullptr;
    idle.notify_all();
  }
}

void BackgroundThread::Jobs::stop() noexcept {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
}

BackgroundThread::BackgroundThread(const char* name) : name_(name), jobs_(std::make_shared<Jobs>()) {
  stopAtExit(jobs_);
  if (isExiting()) jobs_->stop();  // Perhaps it was too late to be told.
}

BackgroundThread::~BackgroundThread() {
  if (!birthplace_.isHere()) {
    abandon(jobs_);  // The thread is the parent's.
    return;
  }
  jobs_->stop();
  std::thread thread;
  {
    std::lock_guard lock(jobs_->mutex);
    thread = std::move(jobs_->thread);
  }
  if (thread.joinable()) thread.join();
}

bool BackgroundThread::add(const void* owner, std::function<void()> job) {
  if (!birthplace_.isHere()) return false;
  {
    std::lock_guard lock(jobs_->mutex);
    if (jobs_->stopping) return false;
    if (!jobs_->thread.joinable()) {
      try {
        jobs_->thread = startThread(name_, [jobs = jobs_] { jobs->loop(); });
      } catch (const std::system_error&) {
        return false;
      }
    }
    jobs_->waiting.push_back({owner, std::move(job)});
  }
  jobs_->changed.notify_one();
  return true;
}

void BackgroundThread::drop(const void* owner) {
  if (!birthplace_.isHere()) return;
  std::deque<Jobs::Job> dropped;  // Let go after the lock.
  std::unique_lock lock(jobs_->mutex);
  for (size_t i = jobs_->waiting.size(); i-- > 0;) {
    if (jobs_->waiting[i].owner != owner) continue;
    dropped.push_back(std::move(jobs_->waiting[i]));
    jobs_->waiting.erase(jobs_->waiting.begin() + static_cast<int64_t>(i));
  }
  jobs_->idle.wait(lock, [&] { return jobs_->running != owner; });
}

}  // namespace hpu::base
