// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/SizeForecast.h"

#include <algorithm>
#include <utility>

namespace hpu {
namespace {

/// a + times * step, element by element; empty when it is not representable.
std::vector<int64_t> moved(const std::vector<int64_t>& a, const std::vector<int64_t>& step, int64_t times) {
  std::vector<int64_t> result(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t distance = 0;
    if (__builtin_mul_overflow(step[i], times, &distance) || __builtin_add_overflow(a[i], distance, &result[i]))
      return {};
  }
  return result;
}

}  // namespace

bool SizeForecast::known(const Sizes& sizes) const {
  return !sizes.empty() && std::find(latest_.begin(), latest_.end(), sizes) != latest_.end();
}

/// Sets step_ to a step that leads to `sizes`; false: there is none.
bool SizeForecast::findStep(const Sizes& sizes) {
  for (auto before = latest_.rbegin(); before != latest_.rend(); ++before) {
    if (before->size() != sizes.size()) continue;
    const Sizes step = moved(sizes, *before, -1);
    bool equal = std::any_of(step.begin(), step.end(), [](int64_t change) { return change != 0; });
    for (size_t back = 2; back < kSteps && equal; ++back)
      equal = known(moved(sizes, step, -static_cast<int64_t>(back)));
    if (!equal) continue;
    step_ = step;
    return true;
  }
  return step_.size() == sizes.size() && known(moved(sizes, step_, -1));
}

std::optional<std::vector<Shape>> SizeForecast::next(const std::vector<Shape>& shapes) {
  Sizes sizes;
  for (const Shape& shape : shapes) sizes.insert(sizes.end(), shape.begin(), shape.end());
  if (sizes.empty()) return std::nullopt;
  const Sizes following = findStep(sizes) ? moved(sizes, step_, 1) : Sizes();
  // Launches of one size in turn with others are no news.
  if (!known(sizes)) {
    latest_.push_back(std::move(sizes));
    if (latest_.size() > kMost) latest_.pop_front();
  }
  if (following.empty() || std::any_of(following.begin(), following.end(), [](int64_t size) { return size < 0; }))
    return std::nullopt;
  std::vector<Shape> result;
  auto size = following.begin();
  for (const Shape& shape : shapes) {
    result.emplace_back(size, size + static_cast<int64_t>(shape.size()));
    size += static_cast<int64_t>(shape.size());
  }
  return result;
}

}  // namespace hpu
