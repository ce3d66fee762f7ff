// SPDX-License-Identifier: Apache-2.0
// Futex: sleeping at a word of memory, which may be shared with other processes, until somebody changes it and wakes
// those who sleep. The one thing to know: a wait also ends early now and then (signals), so look again after it.
//
//   const uint32_t seen = word.load();
//   if (!isOver()) base::futexWait(word, seen, until);       // Who ends it counts the word up, then wakes.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hpu::base {

/// Sleeps while the word is `seen`, until futexWake or `until`. Any thread may call.
void futexWait(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::steady_clock::time_point until) noexcept;
/// Wakes all that sleep at the word, of all processes. Any thread may call.
void futexWake(const std::atomic<uint32_t>& word) noexcept;
/// The point in time for system calls that take one of CLOCK_MONOTONIC; never before 0.
timespec monotonicTime(std::chrono::steady_clock::time_point at) noexcept;

}  // namespace hpu::base
