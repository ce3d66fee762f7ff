// SPDX-License-Identifier: Apache-2.0
// Doorbell: a number in shared memory that others count up, and sleeping until it has come to
// something.
// The one thing to know: whoever goes to sleep says so before he looks at the number a last time;
// whoever counts it up looks for sleepers after that: one of both sees the other. A thread that takes a
// sleeper's word back changes the futex after that, so a sleeper whose word is gone does not sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hpu::collectives::shm {

struct Doorbell {
  std::atomic<uint32_t> changes;
  std::atomic<uint32_t> wakes;     ///< The futex: how often sleepers were woken.
  std::atomic<uint64_t> sleepers;  ///< 0, or kAsleep and the number that the first one waits for.
  static constexpr uint64_t kAsleep = uint64_t{1} << 32;
  /// By anybody who has it mapped. Urgent: counts as more changes than anybody waits for.
  void ring(bool urgent = false);
};

/// The side of the owner; any of its threads.
class Waiter {
 public:
  explicit Waiter(Doorbell& doorbell) : doorbell_(doorbell) {}
  /// Until the number is `atLeast` past `seen`, or `until`. Returns early now and then.
  /// `mayLook`: nobody who is waited for needs the caller's core, so a moment of it takes nothing.
  void wait(uint32_t seen, std::chrono::steady_clock::time_point until, uint32_t atLeast, bool mayLook);

 private:
  using Clock = std::chrono::steady_clock;
  /// What is waited for: the number, from which on it is enough.
  bool reached(uint32_t target) const { return isReached(doorbell_.changes.load(std::memory_order_acquire), target); }
  static bool isReached(uint32_t count, uint32_t target) { return static_cast<int32_t>(count - target) >= 0; }
  bool lookAround(uint32_t target, Clock::time_point until);
  bool cede(uint32_t target, Clock::time_point until);
  Doorbell& doorbell_;
  std::atomic<bool> looking_{false};  // A thread looks around.
  // Waits that go to sleep at once, and how many that will be after the next core that was ceded in
  // vain.
  std::atomic<uint32_t> skip_{0}, pause_{0};
};

}  // namespace hpu::collectives::shm
