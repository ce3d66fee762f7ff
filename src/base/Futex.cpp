// SPDX-License-Identifier: Apache-2.0
#include "base/Futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace hpu::base {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

timespec monotonicTime(std::chrono::steady_clock::time_point at) noexcept {
  constexpr int64_t kNsPerSecond = 1000000000;
  const auto ns =
      std::max<int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count(), 0);
  timespec time{};
  time.tv_sec = ns / kNsPerSecond;
  time.tv_nsec = ns % kNsPerSecond;
  return time;
}

// Neither call is private: the other side may be in another process.

void futexWait(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::steady_clock::time_point until) noexcept {
  const timespec at = monotonicTime(until);
  // The bitset variant takes a point in time of the monotonic clock.
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, &at, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futexWake(const std::atomic<uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hpu::base
