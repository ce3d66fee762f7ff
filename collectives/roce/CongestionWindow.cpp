// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/CongestionWindow.h"

namespace hpu::roce {

void CongestionWindow::cut(TimeNs now) {
  advance(now);
  if (cut_ && now - cutAt_ < kNotificationNs) return;
  target_ = window_;
  window_ = std::max(1.0, window_ * (1 - alpha_ / 2));
  alpha_ = (1 - kGain) * alpha_ + kGain;
  cut_ = true;
  cutAt_ = periodAt_ = now;
  periods_ = 0;
}

void CongestionWindow::advance(TimeNs now) {
  if (!cut_) return;
  while (now - periodAt_ >= kPeriodNs) {
    periodAt_ += kPeriodNs;
    alpha_ *= 1 - kGain;
    if (++periods_ > kFastPeriods) target_ = std::min(most_, target_ + most_ / kSteps);
    window_ = (window_ + target_) / 2;
    if (target_ >= most_ && most_ - window_ < 0.5) {
      // Nothing is left of it but alpha, which a connection that was quiet for long has forgotten, too.
      window_ = target_ = most_;
      periodAt_ = now;
      cut_ = false;
    }
    if (!cut_) break;
  }
}

}  // namespace hpu::roce
