// SPDX-License-Identifier: Apache-2.0
// EngineTimeline: when one engine of the device clock is taken, and the first gap that fits new
// work. The one thing to know: what was reserved never moves; only the most recent gaps are
// remembered, and everything before floor() counts as taken.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "perfmodel/EngineCost.h"

namespace hpu::driver {

using perfmodel::Picoseconds;

struct TimeSpan {
  Picoseconds start = 0, end = 0;
  bool operator==(const TimeSpan&) const = default;
};

/// Not thread-safe; the device clock's lock guards it.
class EngineTimeline {
 public:
  /// Remembers between maxSpans / 2 and maxSpans separate spans.
  explicit EngineTimeline(size_t maxSpans = 8192) : maxSpans_(maxSpans) {}

  /// Takes the first `duration` (>= 0) at or after `ready` in which the engine is free, and returns
  /// its start. Work without duration takes nothing.
  Picoseconds reserve(Picoseconds ready, Picoseconds duration);
  /// Takes spans[i] shifted by `offset`. They are in order and start at or after lastEnd().
  void append(std::span<const TimeSpan> spans, Picoseconds offset);

  Picoseconds lastEnd() const { return spans_.empty() ? floor_ : spans_.back().end; }
  Picoseconds floor() const { return floor_; }
  /// In order; touching spans are merged.
  const std::vector<TimeSpan>& spans() const { return spans_; }

 private:
  void insert(size_t position, TimeSpan span);
  void forgetOldest();
  size_t maxSpans_;
  Picoseconds floor_ = 0;
  std::vector<TimeSpan> spans_;
};

}  // namespace hpu::driver
