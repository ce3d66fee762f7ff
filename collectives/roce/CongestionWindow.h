// SPDX-License-Identifier: Apache-2.0
// CongestionWindow: how many packets a connection may have on their way after its peer has told of congestion.
// The one thing to know: each notification (at most one a period counts) shrinks the window by half of `alpha`, the
// share of periods that had one lately; without any it comes back: half of what was lost in each of the first periods,
// then step by step. This is DCQCN (Zhu et al., SIGCOMM 2015, section 3) with a window in place of a rate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/roce/Verbs.h"

namespace hpu::roce {

class CongestionWindow {
 public:
  /// `most`: packets without congestion.
  explicit CongestionWindow(uint32_t most) : most_(most), window_(most), target_(most) {}

  /// The peer has told of congestion.
  void notified(TimeNs now) {
    ++notifications_;
    cut(now);
  }
  /// A packet was lost: some buffer on the way was full, most of all the peer's own.
  void lost(TimeNs now) { cut(now); }
  /// The time goes on.
  void advance(TimeNs now);
  /// At least 1.
  uint32_t packets() const { return std::max<uint32_t>(1, static_cast<uint32_t>(window_)); }
  uint64_t notifications() const { return notifications_; }

 private:
  void cut(TimeNs now);

  static constexpr double kGain = 1.0 / 256;         // The paper's g.
  static constexpr TimeNs kPeriodNs = 55'000;        // The paper's timers of alpha and of the increase.
  static constexpr TimeNs kNotificationNs = 50'000;  // The paper's least time between notifications of a flow.
  static constexpr int kFastPeriods = 5;             // The paper's F.
  static constexpr double kSteps = 128;              // Additive increase: so many steps from nothing to the most.

  const double most_;
  double window_, target_;
  double alpha_ = 1;
  int periods_ = 0;  // Since the last cut.
  TimeNs cutAt_ = 0, periodAt_ = 0;
  bool cut_ = false;
  uint64_t notifications_ = 0;
};

}  // namespace hpu::roce
