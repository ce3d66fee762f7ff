// SPDX-License-Identifier: Apache-2.0
// ProgressThread: the one thread of a process that serves the sockets of all its networks.
// The one thing to know: whatever is served runs on that thread, one after the other, and must not wait. The thread
// ends with its last handle, at the latest with the program; a forked child has its own.
//
//   HPU_ASSIGN(auto thread, ProgressThread::acquire());
//   uint64_t key = thread->progress()->add(connection);
//   thread->progress()->watch(key, fd, 0, EPOLLIN);  // connection->serve(EPOLLIN) comes
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/transport/net/Descriptor.h"
#include "hpu/status.h"

namespace hpu::collectives::net {

/// Something that the thread serves. Without a lock of the thread.
class Served {
 public:
  virtual ~Served() = default;
  /// `ready`: what epoll says; 0 when it was poked or its time has come. Some work at a time: others wait.
  virtual void serve(uint32_t ready) = 0;
  /// The thread ends, and this is the last call.
  virtual void endWith(const Status& why) = 0;
};

/// What the thread looks at. Any thread may call, except where it is said. It lives until all that is served by it and
/// all handles are gone.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  Status open();
  /// Keeps `served` until remove() or the thread's end. 0: the thread has ended.
  uint64_t add(std::shared_ptr<Served> served);
  void remove(uint64_t key);
  /// Looks for `events` (level-triggered; 0: for none) at `fd`, which had `before` until now. False: no memory for it.
  bool watch(uint64_t key, int fd, uint32_t before, uint32_t events);
  /// serve(0) comes soon.
  void poke(uint64_t key);
  /// serve(0) comes at `when`, once; replaces the one before. max(): never.
  void wakeAt(uint64_t key, Clock::time_point when);
  /// The thread's end waits for its removal.
  void setLingering(uint64_t key);
  /// The thread's body, and its end.
  void run();
  void stop();
  /// The calling thread is the progress thread.
  bool isHere() const { return thread_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

 private:
  struct Entry {
    std::shared_ptr<Served> served;
    Clock::time_point when = Clock::time_point::max();
    bool poked = false, lingers = false;
  };
  void wakeLocked();
  void serve(uint64_t key, uint32_t ready);
  /// What was poked or is due now.
  std::vector<uint64_t> takeDue();
  int timeoutMsLocked() const;

  Descriptor epoll_, wake_;
  std::atomic<std::thread::id> thread_{};
  std::mutex mutex_;  // Guards what follows.
  bool stopping_ = false, over_ = false;
  bool awake_ = false;  ///< The wake descriptor is written, or the thread will look before it sleeps.
  uint64_t nextKey_ = 1;
  int lingering_ = 0;
  std::unordered_map<uint64_t, Entry> entries_;
  std::vector<uint64_t> poked_;
  std::set<std::pair<Clock::time_point, uint64_t>> times_;
};

/// A handle of the thread.
class ProgressThread {
 public:
  /// The process's; its thread is started when nobody has one. Errors: kResourceExhausted, kFailedPrecondition (the
  /// program is ending).
  static StatusOr<std::shared_ptr<ProgressThread>> acquire();
  explicit ProgressThread(std::shared_ptr<Progress> progress) : progress_(std::move(progress)) {}
  /// Of the last one: waits until what lingers is over, unless it is destroyed on the thread itself.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  const std::shared_ptr<Progress>& progress() const { return progress_; }

 private:
  std::shared_ptr<Progress> progress_;
};

}  // namespace hpu::collectives::net
