// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/LaunchPlans.h"

#include <algorithm>
#include <utility>

namespace hpu {

bool LaunchPlan::isFor(const LaunchArguments& arguments) const {
  return workspace == arguments.workspace && inputs == arguments.inputs && outputs == arguments.outputs;
}

std::shared_ptr<const LaunchPlan> LaunchPlans::find(const LaunchArguments& arguments) const {
  std::lock_guard lock(mutex_);
  for (const auto& known : plans_)
    if (known->isFor(arguments)) return known;
  return nullptr;
}

void LaunchPlans::keep(std::shared_ptr<const LaunchPlan> plan, const LaunchArguments& arguments) {
  std::shared_ptr<const LaunchPlan> replaced;  // Let go after the lock.
  std::lock_guard lock(mutex_);
  auto same = std::find_if(plans_.begin(), plans_.end(), [&](const auto& known) { return known->isFor(arguments); });
  if (same == plans_.end()) {
    if (plans_.size() < kMost) plans_.resize(plans_.size() + 1);
    same = plans_.begin() + static_cast<std::ptrdiff_t>(next_++ % plans_.size());
  }
  replaced = std::exchange(*same, std::move(plan));
}

}  // namespace hpu
