// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic that many parts need.
// The one thing to know: divisors are positive.
#pragma once

#include <cstdint>

namespace hpu::base {

/// a / b, rounded up; b > 0. Does not overflow.
constexpr int64_t ceilDiv(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}

/// a / b, rounded down; b > 0. Does not overflow.
constexpr int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

}  // namespace hpu::base
