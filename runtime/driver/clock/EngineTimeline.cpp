// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/clock/EngineTimeline.h"

#include <algorithm>

namespace hpu::driver {

Picoseconds EngineTimeline::reserve(Picoseconds ready, Picoseconds duration) {
  Picoseconds start = std::max(ready, floor_);
  // The first span that ends after `start` is the first that can be in the way.
  auto next = std::upper_bound(spans_.begin(), spans_.end(), start,
                               [](Picoseconds time, const TimeSpan& span) { return time < span.end; });
  while (next != spans_.end() && next->start < start + std::max<Picoseconds>(duration, 1)) {
    if (duration == 0 && next->start >= start) break;
    start = next->end;
    ++next;
  }
  if (duration > 0) insert(static_cast<size_t>(next - spans_.begin()), {start, start + duration});
  return start;
}

/// `position` is where the span belongs; merges with touching neighbours.
void EngineTimeline::insert(size_t position, TimeSpan span) {
  bool touchesBefore = position > 0 && spans_[position - 1].end == span.start;
  bool touchesAfter = position < spans_.size() && spans_[position].start == span.end;
  if (touchesBefore && touchesAfter) {
    spans_[position - 1].end = spans_[position].end;
    spans_.erase(spans_.begin() + static_cast<std::ptrdiff_t>(position));
  } else if (touchesBefore) {
    spans_[position - 1].end = span.end;
  } else if (touchesAfter) {
    spans_[position].start = span.start;
  } else {
    spans_.insert(spans_.begin() + static_cast<std::ptrdiff_t>(position), span);
    forgetOldest();
  }
}

void EngineTimeline::append(std::span<const TimeSpan> spans, Picoseconds offset) {
  for (const TimeSpan& span : spans) {
    TimeSpan shifted{span.start + offset, span.end + offset};
    if (!spans_.empty() && spans_.back().end == shifted.start)
      spans_.back().end = shifted.end;
    else
      spans_.push_back(shifted);
  }
  forgetOldest();
}

void EngineTimeline::forgetOldest() {
  if (spans_.size() <= maxSpans_) return;
  size_t count = spans_.size() - maxSpans_ / 2;
  floor_ = std::max(floor_, spans_[count - 1].end);
  spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace hpu::driver
