// SPDX-License-Identifier: Apache-2.0
// Deadline: a point on the monotonic host clock at which a wait gives up.
// The one thing to know: every wait of OpenHPU has one; `Deadline::fromMs(-1)` takes
// HPU_WAIT_TIMEOUT_MS.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/Settings.h"
#include "hpu/status.h"

namespace hpu::base {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// `ms` from now; 0 polls.
  static Deadline afterMs(int64_t ms) {
    constexpr int64_t kLongestMs = int64_t{1} << 40;  // 35 years; time_point arithmetic stays in range.
    ms = std::clamp<int64_t>(ms, 0, kLongestMs);
    return Deadline(Clock::now() + std::chrono::milliseconds(ms), ms);
  }
  /// As an API's deadlineMs: >= 0 from now, < 0 HPU_WAIT_TIMEOUT_MS. Errors: a bad setting.
  static StatusOr<Deadline> fromMs(int64_t ms) {
    if (ms >= 0) return afterMs(ms);
    auto configured = settings::getInt(Setting::HPU_WAIT_TIMEOUT_MS);
    if (!configured.ok()) return configured.status();
    return afterMs(*configured);
  }

  Clock::time_point time() const { return time_; }
  int64_t totalMs() const { return totalMs_; }  ///< What it was made with, for messages.
  bool expired() const { return Clock::now() >= time_; }
  /// Milliseconds left, rounded up; 0 when expired.
  int64_t remainingMs() const {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(time_ - Clock::now()).count();
    return std::max<int64_t>(left, 0);
  }

 private:
  Deadline(Clock::time_point time, int64_t totalMs) : time_(time), totalMs_(totalMs) {}
  Clock::time_point time_;
  int64_t totalMs_;
};

}  // namespace hpu::base
