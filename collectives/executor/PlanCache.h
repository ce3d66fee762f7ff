// SPDX-License-Identifier: Apache-2.0
// PlanCache: the plans of the schedules that were run last, so that a repeated call is not lowered
// again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/executor/Lowering.h"

namespace hpu::collectives {

/// Used by one thread at a time.
class PlanCache {
 public:
  PlanCache(int rank, int64_t smallBytes) : rank_(rank), smallBytes_(smallBytes) {}
  /// A plan keeps its schedule alive, so a schedule's address names it as long as the plan is here.
  std::shared_ptr<const Plan> get(const std::shared_ptr<const Schedule>& schedule) {
    constexpr size_t kPlans = 64;
    auto it = std::find_if(plans_.begin(), plans_.end(),
                           [&](const auto& plan) { return plan->schedule == schedule; });
    if (it == plans_.end()) {
      if (plans_.size() == kPlans) plans_.pop_back();
      it = plans_.insert(plans_.begin(), lowerSchedule(schedule, rank_, smallBytes_));
    } else {
      std::rotate(plans_.begin(), it, it + 1);
      it = plans_.begin();
    }
    return *it;
  }

 private:
  const int rank_;
  const int64_t smallBytes_;
  std::vector<std::shared_ptr<const Plan>> plans_;  // The last used first.
};

}  // namespace hpu::collectives
