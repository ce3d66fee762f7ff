// SPDX-License-Identifier: Apache-2.0
#include "shape/Interval.h"

#include <algorithm>

namespace hpu::shape {
namespace {

constexpr int64_t kLow = Interval::kNoLow, kHigh = Interval::kNoHigh;

bool isLimit(int64_t value) {
  return value != kLow && value != kHigh;
}

/// The end of a bound that is beyond 64 bits is no limit.
int64_t clampEnd(__int128 value) {
  return value <= kLow ? kLow : value >= kHigh ? kHigh : static_cast<int64_t>(value);
}

/// `without`: what a sum is in which one is without limit.
int64_t addEnds(int64_t a, int64_t b, int64_t without) {
  if (!isLimit(a) || !isLimit(b)) return without;
  return clampEnd(static_cast<__int128>(a) + b);
}

int64_t multiplyEnds(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (!isLimit(a) || !isLimit(b)) return (a < 0) == (b < 0) ? kHigh : kLow;
  return clampEnd(static_cast<__int128>(a) * b);
}

/// b >= 1.
int64_t divideEnd(int64_t a, int64_t b) {
  if (b == kHigh) return a < 0 ? (a == kLow ? kLow : -1) : (a == kHigh ? kHigh : 0);
  if (!isLimit(a)) return a;
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace

Interval operator+(Interval a, Interval b) {
  return {addEnds(a.low, b.low, kLow), addEnds(a.high, b.high, kHigh)};
}

Interval operator-(Interval a) {
  auto negated = [](int64_t value) { return value == kLow ? kHigh : value == kHigh ? kLow : -value; };
  return {negated(a.high), negated(a.low)};
}

Interval operator*(Interval a, Interval b) {
  const auto [low, high] = std::minmax({multiplyEnds(a.low, b.low), multiplyEnds(a.low, b.high),
                                        multiplyEnds(a.high, b.low), multiplyEnds(a.high, b.high)});
  return {low, high};
}

Interval floorDiv(Interval a, Interval b) {
  if (b.low < 1) return {};
  return {std::min(divideEnd(a.low, b.low), divideEnd(a.low, b.high)),
          std::max(divideEnd(a.high, b.low), divideEnd(a.high, b.high))};
}

Interval max(Interval a, Interval b) {
  return {std::max(a.low, b.low), std::max(a.high, b.high)};
}

Interval min(Interval a, Interval b) {
  return {std::min(a.low, b.low), std::min(a.high, b.high)};
}

Interval hull(Interval a, Interval b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

}  // namespace hpu::shape
