// SPDX-License-Identifier: Apache-2.0
// PlanCache: what was made of the schedules that were run last, so that a repeated call does not
// make it again.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/schedule/Schedule.h"

namespace hpu::collectives {

/// Used by one thread at a time.
template <typename Made>
class PlanCache {
 public:
  /// `make`: a shared_ptr<const Made> of the schedule.
  template <typename Make>
  std::shared_ptr<const Made> get(const std::shared_ptr<const Schedule>& schedule, Make&& make) {
    constexpr size_t kPlans = 64;
    if (!entries_.empty() && entries_.front().schedule == schedule) return entries_.front().made;
    auto it =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.schedule == schedule; });
    if (it == entries_.end()) {
      if (entries_.size() == kPlans) entries_.pop_back();
      it = entries_.insert(entries_.begin(), {schedule, make()});
    } else {
      std::rotate(entries_.begin(), it, it + 1);
      it = entries_.begin();
    }
    return it->made;
  }

 private:
  struct Entry {
    std::shared_ptr<const Schedule> schedule;  ///< Kept, so its address names it.
    std::shared_ptr<const Made> made;
  };
  std::vector<Entry> entries_;  // The last used first.
};

}  // namespace hpu::collectives
