// SPDX-License-Identifier: Apache-2.0
#include "runtime/event/EventWatcher.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/ExitGate.h"
#include "base/Futex.h"
#include "base/Thread.h"
#include "runtime/stream/HostCalls.h"

namespace hpu {
namespace {

using Clock = std::chrono::steady_clock;

// How long the thread stays when there is nothing to wait for: the next wait saves its start.
constexpr std::chrono::seconds kIdle{1};
// How often it looks at events when the kernel cannot wait for them all.
constexpr std::chrono::milliseconds kLook{1};

/// linux/futex.h has it from 5.16 on.
struct Futex {
  uint64_t value, address;
  uint32_t flags, reserved;
};
constexpr uint32_t kFutexOf32Bits = 2;
constexpr size_t kMostFutexes = 128;
#ifdef SYS_futex_waitv
constexpr long kFutexWaitv = SYS_futex_waitv;
#else
constexpr long kFutexWaitv = 449;  // On all architectures.
#endif

/// Of one process. When that exits the thread ends, and the thread that exits looks when it waits.
struct Watches final : base::StopsAtExit {
  struct Watch {
    uint64_t number;
    std::shared_ptr<const OpenedEvent> event;
    uint64_t record;
    EventWatcher::Told told;
  };
  std::mutex mutex;  // Guards what follows.
  std::vector<Watch> list;
  uint64_t next = 1;
  bool running = false, exiting = false;
  std::condition_variable stopped;  // It is not running.
  std::atomic<uint32_t> added{0};   // A futex.

  using Events = std::vector<std::pair<std::shared_ptr<const OpenedEvent>, uint32_t>>;
  using Over = std::vector<std::pair<EventWatcher::Told, Status>>;
  void run();
  bool look(bool owners, Events& events, Over& over);
  static void tell(Over& over);
  void beginExit() noexcept override;
  bool awaitExit(Clock::time_point until) noexcept override;
  bool workAtExit() override;
  bool waitForAny(uint32_t seen, const Events& events, Clock::time_point until);
};

/// False: the kernel has no such call.
bool Watches::waitForAny(uint32_t seen, const Events& events, Clock::time_point until) {
  Futex futexes[kMostFutexes];
  size_t count = 0;
  futexes[count++] = {seen, reinterpret_cast<uint64_t>(&added), kFutexOf32Bits, 0};
  for (const auto& [event, changes] : events) {
    if (count == kMostFutexes) break;
    futexes[count++] = {changes, reinterpret_cast<uint64_t>(&event->changes()), kFutexOf32Bits, 0};
  }
  const timespec when = base::monotonicTime(until);
  return ::syscall(kFutexWaitv, futexes, count, 0, &when, CLOCK_MONOTONIC) >= 0 || errno == EAGAIN || errno == EINTR ||
         errno == ETIMEDOUT;
}

/// What is over goes into `over`, and what is not into `events`, with what its changes were before. `owners`: looks
/// whether processes are alive, too. False: without memory; nothing has happened.
bool Watches::look(bool owners, Events& events, Over& over) {
  std::lock_guard lock(mutex);
  try {
    events.reserve(list.size());
    over.reserve(list.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (size_t i = 0; i < list.size();) {
    Watch& watch = list[i];
    // Before the outcome: what changes after that wakes the thread.
    const uint32_t changes = watch.event->changes().load(std::memory_order_seq_cst);
    std::optional<Status> outcome;
    try {
      outcome = owners ? watch.event->outcomeOrGone(watch.record) : watch.event->outcome(watch.record);
    } catch (const std::bad_alloc&) {
      // The next look finds it.
    }
    if (!outcome) {
      events.emplace_back(watch.event, changes);
      ++i;
      continue;
    }
    over.emplace_back(std::move(watch.told), std::move(*outcome));
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

void Watches::tell(Over& over) {
  for (auto& [told, status] : over) {
    told(status);
    told = nullptr;
  }
  over.clear();
}

void Watches::beginExit() noexcept {
  {
    std::lock_guard lock(mutex);
    exiting = true;
  }
  added.fetch_add(1, std::memory_order_seq_cst);
  base::futexWake(added);
}

bool Watches::awaitExit(Clock::time_point until) noexcept {
  std::unique_lock lock(mutex);
  return stopped.wait_until(lock, until, [&] { return !running; });
}

bool Watches::workAtExit() {
  Events events;
  Over over;
  if (!look(/*owners=*/true, events, over) || over.empty()) return false;
  tell(over);
  return true;
}

void Watches::run() {
  Events events;
  Over over;
  Clock::time_point ownersAt = Clock::now() + kLookAfterOwner;
  bool idled = false;
  while (true) {
    const uint32_t seen = added.load(std::memory_order_seq_cst);
    const bool owners = Clock::now() >= ownersAt;
    if (owners) ownersAt = Clock::now() + kLookAfterOwner;
    events.clear();
    {
      std::lock_guard lock(mutex);
      if (exiting) {
        running = false;
        stopped.notify_all();
        return;
      }
    }
    if (!look(owners, events, over)) {
      base::futexWait(added, seen, Clock::now() + kLook);  // The host has no memory just now.
      continue;
    }
    {
      std::lock_guard lock(mutex);
      if (list.empty() && over.empty() && idled) {
        running = false;
        stopped.notify_all();
        return;
      }
    }
    idled = false;
    if (!over.empty()) {
      tell(over);
      continue;
    }
    if (events.empty()) {
      base::futexWait(added, seen, Clock::now() + kIdle);
      idled = added.load(std::memory_order_seq_cst) == seen;
      continue;
    }
    const Clock::time_point soon = Clock::now() + kLook;
    if (!waitForAny(seen, events, events.size() < kMostFutexes ? ownersAt : soon)) base::futexWait(added, seen, soon);
  }
}

/// One for the process, made when it is first asked for, by `make`; a forked child has none of its parent's. Never
/// destroyed.
template <typename T>
T& ofThisProcess(T* (*make)()) {
  static T* ours = nullptr;
  static uint64_t generation = 0;
  {
    std::lock_guard lock(base::processMutex());
    if (ours && generation == base::processGeneration()) return *ours;
  }
  std::unique_ptr<T> made(make());  // It may take that lock.
  std::lock_guard lock(base::processMutex());
  if (generation != base::processGeneration()) base::abandon(ours);
  generation = base::processGeneration();
  if (!ours) ours = made.release();  // Else another thread was faster.
  return *ours;
}

Watches& watches() {
  return *ofThisProcess<std::shared_ptr<Watches>>([] {
    auto* made = new std::shared_ptr<Watches>(std::make_shared<Watches>());  // Its thread may outlive main().
    base::stopAtExit(*made);
    if (base::isExiting()) (*made)->beginExit();  // Perhaps it was too late to be told.
    return made;
  });
}

/// The thread for functions, as long as any is to be called.
std::shared_ptr<HostCalls> programCalls() {
  struct Calls {
    std::mutex mutex;
    std::weak_ptr<HostCalls> calls;
  };
  Calls& of = ofThisProcess<Calls>([] { return new Calls; });
  std::lock_guard lock(of.mutex);
  std::shared_ptr<HostCalls> now = of.calls.lock();
  if (!now) {
    now = std::make_shared<HostCalls>();
    of.calls = now;
  }
  return now;
}

class OpenedEventWait final : public ExternalWork {
 public:
  OpenedEventWait(std::shared_ptr<const OpenedEvent> event, uint64_t record, bool onlyOrder)
      : event_(std::move(event)), record_(record), onlyOrder_(onlyOrder) {}
  std::string name() const override { return "event of another process"; }
  void start(std::shared_ptr<ExternalTurn> turn) override {
    turn_ = turn;
    try {
      watch_ = EventWatcher::watch(event_, record_, [turn = std::move(turn), onlyOrder = onlyOrder_](const Status& is) {
        turn->complete(onlyOrder ? okStatus() : is, 0);
      });
    } catch (const std::bad_alloc&) {
      if (auto mine = turn_.lock()) mine->complete(resourceExhausted("out of host memory"), 0);
    }
  }
  void skipped(const Status&) override {}
  void cancel(const Status& why) override {
    std::shared_ptr<ExternalTurn> turn = turn_.lock();
    if (turn && EventWatcher::forget(watch_)) turn->complete(why, 0);
  }

 private:
  const std::shared_ptr<const OpenedEvent> event_;
  const uint64_t record_;
  const bool onlyOrder_;
  // Of start(), after which cancel() may come.
  std::weak_ptr<ExternalTurn> turn_;
  uint64_t watch_ = 0;
};

}  // namespace

uint64_t EventWatcher::watch(std::shared_ptr<const OpenedEvent> event, uint64_t record, Told told) {
  if (std::optional<Status> now = event->outcome(record)) {
    told(*now);
    return 0;
  }
  Watches& ours = watches();
  uint64_t number = 0;
  {
    std::lock_guard lock(ours.mutex);
    if (!ours.running && !ours.exiting) {
      try {
        base::startThread("hpu-events", [&ours] { ours.run(); }).detach();
        ours.running = true;
      } catch (const std::system_error&) {
      }
    }
    if (ours.running || ours.exiting) {
      number = ours.next++;
      ours.list.push_back({number, std::move(event), record, std::move(told)});
    }
  }
  if (number == 0) {
    told(resourceExhausted("the system has no thread to wait for an event of another process with"));
    return 0;
  }
  ours.added.fetch_add(1, std::memory_order_seq_cst);
  base::futexWake(ours.added);
  return number;
}

bool EventWatcher::forget(uint64_t number) {
  Watches& ours = watches();
  Told told;  // Let go after the lock.
  std::lock_guard lock(ours.mutex);
  auto it = std::find_if(ours.list.begin(), ours.list.end(), [&](const auto& watch) { return watch.number == number; });
  if (it == ours.list.end()) return false;
  told.swap(it->told);
  ours.list.erase(it);
  return true;
}

std::shared_ptr<ExternalWork> openedEventWait(std::shared_ptr<const OpenedEvent> event, uint64_t record,
                                              bool onlyOrder) {
  return std::make_shared<OpenedEventWait>(std::move(event), record, onlyOrder);
}

void tellWhenOver(std::shared_ptr<const OpenedEvent> event, uint64_t record, std::function<void(const Status&)> told) {
  std::shared_ptr<HostCalls> calls = programCalls();
  // The function has a share: so the last one goes on the thread of the calls, and nobody waits for that.
  auto call = completionCall(calls, [told = std::move(told), calls](const Status& status) { told(status); });
  // What a completion is skipped with is what it tells.
  EventWatcher::watch(std::move(event), record,
                      [call = std::move(call)](const Status& status) { call->skipped(status); });
}

}  // namespace hpu
