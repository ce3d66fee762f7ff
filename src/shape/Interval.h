// SPDX-License-Identifier: Apache-2.0
// Interval: what a size can be, from a least to a largest value.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

namespace hpu::shape {

/// Closed; an end that is kNoLow or kNoHigh has no limit. Results of arithmetic contain every result of values of the
/// operands, and may be wider.
struct Interval {
  static constexpr int64_t kNoLow = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kNoHigh = std::numeric_limits<int64_t>::max();

  int64_t low = kNoLow;
  int64_t high = kNoHigh;

  bool isPoint() const { return low == high && low != kNoLow && low != kNoHigh; }
  bool contains(int64_t value) const { return low <= value && value <= high; }
  bool operator==(const Interval&) const = default;
};

Interval operator+(Interval a, Interval b);
Interval operator-(Interval a);
Interval operator*(Interval a, Interval b);
/// Of quotients rounded down. Without limits where the divisor can be less than 1.
Interval floorDiv(Interval a, Interval b);
Interval max(Interval a, Interval b);
Interval min(Interval a, Interval b);
/// The least interval with both.
Interval hull(Interval a, Interval b);

/// What a free dimension can be of which nothing else is said.
inline constexpr Interval kAnySize{0, Interval::kNoHigh};

/// Of free dimensions, by name; those that are not named have kAnySize.
using SymbolBounds = std::map<std::string, Interval>;

}  // namespace hpu::shape
