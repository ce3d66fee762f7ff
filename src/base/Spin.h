// SPDX-License-Identifier: Apache-2.0
// Spinning for what takes less time than a switch of threads: a lock that is held for a few hundred instructions,
// work that comes in a moment.
// The one thing to know: a thread that sleeps on a lock is back tens of microseconds after it is free. Nothing here
// spins with one CPU, and fewer threads of the process than there are CPUs spin for work: others have better use for
// them.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include "base/Cpus.h"

namespace hpu::base {

/// Tells the CPU that this is a loop that waits.
inline void cpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// The lock of a mutex that nobody holds for long.
inline std::unique_lock<std::mutex> lockSoon(std::mutex& mutex) {
  constexpr int kTries = 200;
  for (int i = 0; i < (allowedCpus() > 1 ? kTries : 1); ++i) {
    if (mutex.try_lock()) return {mutex, std::adopt_lock};
    cpuRelax();
  }
  return std::unique_lock(mutex);
}

namespace internal {
inline std::atomic<int> spinning{0};
}  // namespace internal

/// Until `ready()` or `until`, or at once when enough threads spin; whether it is ready. `ready` is cheap, takes no
/// locks and throws nothing.
template <typename Ready>
bool spinUntil(std::chrono::steady_clock::time_point until, const Ready& ready) {
  constexpr int kLooks = 16;  // Between two looks at the clock.
  bool found = ready();
  if (found || allowedCpus() == 1) return found;
  if (internal::spinning.fetch_add(1, std::memory_order_relaxed) < allowedCpus() - 1) {
    do {
      for (int i = 0; i < kLooks && !found; ++i) {
        cpuRelax();
        found = ready();
      }
    } while (!found && std::chrono::steady_clock::now() < until);
  }
  internal::spinning.fetch_sub(1, std::memory_order_relaxed);
  return found;
}

}  // namespace hpu::base
