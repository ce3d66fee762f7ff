// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Doorbell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace hpu::collectives::shm {
namespace {

using Clock = std::chrono::steady_clock;

// Looking around pays when the peer answers within what falling asleep and being woken costs.
constexpr std::chrono::microseconds kLookAround{30};
// Times that a core is passed on before its thread sleeps.
constexpr int kCedes = 4;
// A core that was ceded for longer went to somebody who computes.
constexpr std::chrono::microseconds kLongCede{250};
// Waits without ceding after that.
constexpr uint32_t kMinPause = 64, kMaxPause = 1 << 14;

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Doorbell::ring() {
  changes.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping.load(std::memory_order_seq_cst) == 0 ||
      sleeping.exchange(0, std::memory_order_seq_cst) == 0)
    return;
  // Not private: the sleeper may be in another process.
  ::syscall(SYS_futex, &changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// One thread of a rank is enough.
bool Waiter::lookAround(uint32_t seen, Clock::time_point until) {
  if (!looksAround_ || looking_.exchange(true, std::memory_order_acquire)) return changed(seen);
  const auto end = std::min(until, Clock::now() + kLookAround);
  do {
    for (int i = 0; i < 64 && !changed(seen); ++i) pauseCpu();
  } while (!changed(seen) && Clock::now() < end);
  looking_.store(false, std::memory_order_release);
  return changed(seen);
}

/// Lets other threads run before sleeping: when all that wait for a core are ranks, passing it on a
/// few times costs a tenth of being put to sleep and woken for each message. Where others compute,
/// it would cost their whole time slice, while a sleeper is let in at once when woken: then it is
/// not done for a while.
bool Waiter::cede(uint32_t seen) {
  if (uint32_t left = skip_.load(std::memory_order_relaxed); left > 0) {
    skip_.store(left - 1, std::memory_order_relaxed);
    return changed(seen);
  }
  const uint32_t pause = std::max(pause_.load(std::memory_order_relaxed), kMinPause);
  for (int i = 0; i < kCedes && !changed(seen); ++i) {
    auto before = Clock::now();
    ::sched_yield();
    if (Clock::now() - before > kLongCede) {
      skip_.store(pause, std::memory_order_relaxed);
      pause_.store(std::min(2 * pause, kMaxPause), std::memory_order_relaxed);
      return changed(seen);
    }
    if (changed(seen)) pause_.store(pause - pause / 8, std::memory_order_relaxed);
  }
  return changed(seen);
}

void Waiter::wait(uint32_t seen, Clock::time_point until) {
  if (lookAround(seen, until) || cede(seen)) return;
  doorbell_.sleeping.store(1, std::memory_order_seq_cst);
  if (doorbell_.changes.load(std::memory_order_seq_cst) != seen) return;
  auto at = std::max<int64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch()).count(), 0);
  timespec when{};
  when.tv_sec = at / 1000000000;
  when.tv_nsec = at % 1000000000;
  // The bitset variant takes a point in time of the monotonic clock.
  ::syscall(SYS_futex, &doorbell_.changes, FUTEX_WAIT_BITSET, seen, &when, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

}  // namespace hpu::collectives::shm
