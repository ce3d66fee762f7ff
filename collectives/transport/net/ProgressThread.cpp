// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/ProgressThread.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "base/Thread.h"

namespace hpu::collectives::net {

// ---- What the thread looks at -------------------------------------------------------------------

namespace {
constexpr uint64_t kWakeKey = 0;  ///< Of nothing that is served.
}

Status Progress::open() {
  epoll_ = Descriptor::open([] { return ::epoll_create1(EPOLL_CLOEXEC); });
  if (epoll_) wake_ = Descriptor::open([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!wake_) return resourceExhausted("cannot create the network's descriptors: " + base::errnoText(errno));
  if (watch(kWakeKey, wake_.fd(), 0, EPOLLIN)) return okStatus();
  return resourceExhausted("cannot watch the network's descriptors");
}

uint64_t Progress::add(std::shared_ptr<Served> served) {
  std::lock_guard lock(mutex_);
  if (over_) return 0;
  const uint64_t key = nextKey_++;
  entries_[key].served = std::move(served);
  return key;
}

void Progress::remove(uint64_t key) {
  std::shared_ptr<Served> served;  // Goes outside of the lock.
  std::lock_guard lock(mutex_);
  auto it = entries_.find(key);
  if (it == entries_.end()) return;
  served = std::move(it->second.served);
  times_.erase({it->second.when, key});
  if (it->second.lingers) --lingering_;
  entries_.erase(it);
  if (stopping_) wakeLocked();
}

bool Progress::watch(uint64_t key, int fd, uint32_t before, uint32_t events) {
  if (before == events) return true;
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  const int operation = before == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  return ::epoll_ctl(epoll_.fd(), operation, fd, &event) == 0;
}

void Progress::poke(uint64_t key) {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(key);
  if (it == entries_.end() || std::exchange(it->second.poked, true)) return;
  poked_.push_back(key);
  wakeLocked();
}

void Progress::wakeAt(uint64_t key, Clock::time_point when) {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(key);
  if (it == entries_.end()) return;
  times_.erase({it->second.when, key});
  it->second.when = when;
  if (when == Clock::time_point::max()) return;
  times_.emplace(when, key);
  if (times_.begin()->second == key) wakeLocked();
}

void Progress::setLingering(uint64_t key) {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(key);
  if (it != entries_.end() && !std::exchange(it->second.lingers, true)) ++lingering_;
}

void Progress::stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  wakeLocked();
}

void Progress::wakeLocked() {
  // The thread itself looks again before it sleeps.
  if (over_ || isHere() || std::exchange(awake_, true)) return;
  const uint64_t one = 1;
  if (::write(wake_.fd(), &one, sizeof one) < 0 && errno != EAGAIN)
    HPU_LOG(kError, "cannot wake the network's thread: " + base::errnoText(errno));
}

// ---- The thread ---------------------------------------------------------------------------------

void Progress::serve(uint64_t key, uint32_t ready) {
  std::shared_ptr<Served> served;
  {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(key);
    if (it == entries_.end()) return;
    served = it->second.served;
  }
  served->serve(ready);
}

std::vector<uint64_t> Progress::takeDue() {
  std::lock_guard lock(mutex_);
  awake_ = true;  // Whoever pokes from now on needs not wake it: it looks again before it sleeps.
  std::vector<uint64_t> due;
  due.swap(poked_);
  for (uint64_t key : due)
    if (auto it = entries_.find(key); it != entries_.end()) it->second.poked = false;
  const auto now = Clock::now();
  while (!times_.empty() && times_.begin()->first <= now) {
    const uint64_t key = times_.begin()->second;
    times_.erase(times_.begin());
    entries_[key].when = Clock::time_point::max();
    due.push_back(key);
  }
  return due;
}

int Progress::timeoutMsLocked() const {
  if (!poked_.empty()) return 0;
  if (times_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(times_.begin()->first - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX));
}

void Progress::run() {
  thread_ = std::this_thread::get_id();
  std::array<epoll_event, 64> events;
  for (;;) {
    int timeout;
    {
      std::lock_guard lock(mutex_);
      if (stopping_ && lingering_ == 0) break;
      timeout = timeoutMsLocked();
      awake_ = timeout == 0;
    }
    const int count = ::epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), timeout);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kWakeKey) {
        uint64_t ignored;
        while (::read(wake_.fd(), &ignored, sizeof ignored) > 0) {
        }
      } else {
        serve(events[i].data.u64, events[i].events);
      }
    }
    for (uint64_t key : takeDue()) serve(key, 0);
  }
  std::unordered_map<uint64_t, Entry> left;
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    left.swap(entries_);
    times_.clear();
    lingering_ = 0;
  }
  const Status why = unavailable("this program is ending");
  for (auto& [key, entry] : left) entry.served->endWith(why);
  left.clear();
  epoll_.close();  // Now: who joins this thread may come late.
  std::lock_guard lock(mutex_);
  wake_.close();
}

// ---- Its life -----------------------------------------------------------------------------------

namespace {

struct Running {
  std::shared_ptr<Progress> progress;
  std::thread thread;
  bool left = false;   ///< The last handle was destroyed on this very thread, so nobody has joined it.
  std::mutex joining;  // One joins, others wait for it.

  void join() {
    std::lock_guard lock(joining);
    if (thread.joinable()) thread.join();
  }
};

struct Global {
  std::mutex mutex;  // Guards all; taken before a progress's.
  std::weak_ptr<ProgressThread> current;
  std::vector<std::shared_ptr<Running>> threads;  ///< Each from its start until it is joined.
  bool ending = false;

  void forget(const std::shared_ptr<Running>& one) {
    std::lock_guard lock(mutex);
    std::erase(threads, one);
  }
};
Global& global() {
  static Global* instance = new Global;  // Threads may outlive statics.
  return *instance;
}

/// Neither threads nor what they serve are looked at in the child: their locks may be held for ever.
void childAfterFork() {
  base::abandon(global().threads);
  base::abandon(global().current);
  global().mutex.unlock();
}

/// No thread outlives the program, or the library when it is unloaded. A static of the library and not an exit handler
/// made with the first thread: a program's own statics may hold networks and still end them in order.
struct JoinAtExit {
  ~JoinAtExit() {
    std::vector<std::shared_ptr<Running>> threads;
    {
      std::lock_guard lock(global().mutex);
      global().ending = true;
      threads = global().threads;
    }
    for (auto& one : threads) one->progress->stop();
    for (auto& one : threads) {
      if (one->progress->isHere()) continue;
      one->join();
      global().forget(one);
    }
  }
} joinAtExit;

}  // namespace

StatusOr<std::shared_ptr<ProgressThread>> ProgressThread::acquire() {
  std::vector<std::shared_ptr<Running>> left;
  std::shared_ptr<ProgressThread> handle;
  {
    std::lock_guard lock(global().mutex);
    if (auto current = global().current.lock()) return current;
    if (global().ending) return failedPrecondition("this program is ending: no network can be used any more");
    static constexpr base::ForkHandlers kHandlers = {[] { global().mutex.lock(); }, [] { global().mutex.unlock(); },
                                                     childAfterFork};
    if (!base::atFork(base::ForkRank::kNetwork, kHandlers)) return resourceExhausted("cannot register a fork handler");
    HPU_RETURN_IF_ERROR(Descriptor::prepare());
    for (const auto& one : global().threads)
      if (one->left && !one->progress->isHere()) left.push_back(one);
    auto running = std::make_shared<Running>();
    running->progress = base::makeProcessOwned<Progress>();
    HPU_RETURN_IF_ERROR(running->progress->open());
    try {
      running->thread = base::startThread("hpu-network", [progress = running->progress] { progress->run(); });
    } catch (const std::system_error&) {
      return resourceExhausted("cannot start the network's thread");
    }
    handle = base::makeProcessOwned<ProgressThread>(running->progress);
    global().threads.push_back(std::move(running));
    global().current = handle;
  }
  for (const auto& one : left) {
    one->join();
    global().forget(one);
  }
  return handle;
}

ProgressThread::~ProgressThread() {
  std::shared_ptr<Running> running;
  {
    std::lock_guard lock(global().mutex);
    for (const auto& one : global().threads)
      if (one->progress == progress_) running = one;
    if (!running) return;  // Joined at exit.
    running->left = progress_->isHere();
  }
  progress_->stop();
  if (running->left) return;
  running->join();
  global().forget(running);
}

}  // namespace hpu::collectives::net
