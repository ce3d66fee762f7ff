// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Doorbell.h"

#include <sched.h>

#include <algorithm>

#include "base/Futex.h"

namespace hpu::collectives::shm {
namespace {

// Looking around pays when the peer answers within what falling asleep and being woken costs.
constexpr std::chrono::microseconds kLookAround{30};
// How long a core is passed on before its thread sleeps.
constexpr std::chrono::microseconds kCedeFor{60};
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

void Doorbell::ring(bool urgent) {
  constexpr uint32_t kUrgent = 1 << 16;
  const uint32_t step = urgent ? kUrgent : 1;
  const uint32_t count = changes.fetch_add(step, std::memory_order_seq_cst) + step;
  const uint64_t who = sleepers.load(std::memory_order_seq_cst);
  if (who == 0 || static_cast<int32_t>(count - static_cast<uint32_t>(who)) < 0 ||
      sleepers.exchange(0, std::memory_order_seq_cst) == 0)
    return;
  wakes.fetch_add(1, std::memory_order_seq_cst);
  base::futexWake(wakes);
}

/// One thread of a rank is enough.
bool Waiter::lookAround(uint32_t target, Clock::time_point until) {
  if (looking_.exchange(true, std::memory_order_acquire)) return reached(target);
  const auto end = std::min(until, Clock::now() + kLookAround);
  do {
    for (int i = 0; i < 64 && !reached(target); ++i) pauseCpu();
  } while (!reached(target) && Clock::now() < end);
  looking_.store(false, std::memory_order_release);
  return reached(target);
}

/// Lets other threads run before sleeping: when all that wait for a core are ranks, passing it on
/// costs a tenth of being put to sleep and woken for each message; and ranks that stay runnable are
/// spread over the cores, while those that wake each other tend to stay on one. Where others
/// compute, it would cost their whole time slice, while a sleeper is let in at once when woken: then
/// it is not done for a while.
bool Waiter::cede(uint32_t target, Clock::time_point until) {
  if (uint32_t left = skip_.load(std::memory_order_relaxed); left > 0) {
    skip_.store(left - 1, std::memory_order_relaxed);
    return reached(target);
  }
  const uint32_t pause = std::max(pause_.load(std::memory_order_relaxed), kMinPause);
  auto before = Clock::now();
  const auto end = std::min(until, before + kCedeFor);
  while (!reached(target) && before < end) {
    ::sched_yield();
    const auto after = Clock::now();
    if (after - before > kLongCede) {
      skip_.store(pause, std::memory_order_relaxed);
      pause_.store(std::min(2 * pause, kMaxPause), std::memory_order_relaxed);
      return reached(target);
    }
    if (reached(target)) pause_.store(pause - pause / 8, std::memory_order_relaxed);
    before = after;
  }
  return reached(target);
}

void Waiter::wait(uint32_t seen, Clock::time_point until, uint32_t atLeast, bool mayLook) {
  const uint32_t target = seen + atLeast;
  if (mayLook && lookAround(target, until)) return;
  if (cede(target, until)) return;
  const uint32_t wakes = doorbell_.wakes.load(std::memory_order_seq_cst);
  // Of several sleepers the earliest one counts.
  uint64_t who = doorbell_.sleepers.load(std::memory_order_seq_cst);
  while ((who == 0 || !isReached(target, static_cast<uint32_t>(who))) &&
         !doorbell_.sleepers.compare_exchange_weak(who, Doorbell::kAsleep | target, std::memory_order_seq_cst)) {
  }
  if (isReached(doorbell_.changes.load(std::memory_order_seq_cst), target)) return;
  base::futexWait(doorbell_.wakes, wakes, until);
}

}  // namespace hpu::collectives::shm
