// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/clock/LaunchParts.h"

#include <algorithm>

#include "base/Format.h"
#include "perfmodel/PartsTime.h"

namespace hpu::driver {
namespace {

using base::strCat;

class Placer {
 public:
  Placer(Picoseconds ready, EngineTimeline* engines, const std::vector<uint64_t>* iterations,
         base::FunctionRef<void(const PartRun&)> placed)
      : now_(ready), engines_(engines), iterations_(iterations), placed_(placed) {}

  PartsPlacement run(const LaunchTimeline& timeline) {
    result_.whole.offset = now_;
    parts(timeline, "", &result_.whole.partEnds);
    result_.whole.end = now_;
    result_.whole.start = started_ ? start_ : now_;
    return std::move(result_);
  }

 private:
  /// `ends`: null, or what takes the end of each part.
  void parts(const LaunchTimeline& timeline, const std::string& path, std::vector<Picoseconds>* ends) {
    for (size_t p = 0; p < timeline.parts.size(); ++p) {
      if (!failed_) part(timeline.parts[p], strCat(path, path.empty() ? "" : "/", "part ", p));
      if (ends) ends->push_back(now_);
    }
  }

  void part(const PartTimeline& part, const std::string& path) {
    uint64_t count = part.trips;
    if (part.isAwaited && iterations_) {
      // A launch that failed tells of no part behind the failure.
      if (next_ == iterations_->size()) {
        failed_ = true;
        return;
      }
      count = (*iterations_)[next_++];
    }
    const bool told = part.timeline->isAwaited && iterations_;
    if (part.hasCount) decide();
    for (uint64_t i = 0; i < count && !failed_; ++i) {
      if (left_ == 0 && count > 1 && !told) {
        rest(part, count - i, strCat(path, " [", i, "..", count - 1, "]"));
        break;
      }
      if (part.hasCondition) decide();
      iteration(part, strCat(path, " [", i, "]"));
    }
    // The one that ended it.
    if (part.hasCondition && count < part.trips && !failed_) decide();
  }

  void decide() {
    begin(now_);
    now_ += perfmodel::kPartDecision;
  }

  /// The first thing that the launch does begins.
  void begin(Picoseconds start) {
    if (!started_) start_ = start;
    started_ = true;
  }

  void iteration(const PartTimeline& part, const std::string& path) {
    const LaunchTimeline& timeline = *part.timeline;
    if (!timeline.parts.empty()) return parts(timeline, path, nullptr);
    const LaunchPlacement placement = placeLaunch(timeline, now_, engines_);
    note(part, path, placement.start, placement.end, &placement);
    for (int e = 0; e < kNumEngines; ++e) result_.busy[e] = atMost(Wide{result_.busy[e]} + timeline.busy[e]);
    result_.commands = atMost(Wide{result_.commands} + timeline.commands);
    left_ -= left_ > 0 ? 1 : 0;
  }

  /// `count` iterations as one, when all engines that they use are free.
  void rest(const PartTimeline& part, uint64_t count, const std::string& path) {
    const LaunchTimeline& timeline = *part.timeline;
    const Picoseconds decision = part.hasCondition ? perfmodel::kPartDecision : 0;
    const Picoseconds lasts = atMost(Wide{timeline.end + decision} * count);
    Picoseconds start = now_;
    for (int e = 0; e < kNumEngines; ++e)
      if (timeline.busy[e] > 0) start = std::max(start, engines_[e].lastEnd());
    for (int e = 0; e < kNumEngines; ++e) {
      if (timeline.busy[e] > 0) engines_[e].reserve(start, lasts);
      result_.busy[e] = atMost(Wide{result_.busy[e]} + Wide{timeline.busy[e]} * count);
    }
    result_.commands = atMost(Wide{result_.commands} + Wide{timeline.commands} * count);
    note(part, path, start, start + lasts, nullptr);
  }

  void note(const PartTimeline& part, const std::string& path, Picoseconds start, Picoseconds end,
            const LaunchPlacement* placement) {
    begin(start);
    placed_({part, path, now_, start, end, placement});
    now_ = end;
  }

  Picoseconds now_;
  EngineTimeline* const engines_;
  const std::vector<uint64_t>* const iterations_;
  size_t next_ = 0;  ///< Of iterations_.
  base::FunctionRef<void(const PartRun&)> placed_;
  uint64_t left_ = kMostPlacedParts;
  bool started_ = false, failed_ = false;
  Picoseconds start_ = 0;
  PartsPlacement result_;
};

}  // namespace

Picoseconds PartTimeline::decisions(uint64_t iterations) const {
  return atMost(Wide{perfmodel::partDecisions(hasCount, hasCondition, trips, iterations)} * perfmodel::kPartDecision);
}

PartsPlacement placeParts(const LaunchTimeline& timeline, Picoseconds ready, EngineTimeline* engines,
                          const std::vector<uint64_t>* iterations, base::FunctionRef<void(const PartRun&)> placed) {
  return Placer(ready, engines, iterations, placed).run(timeline);
}

}  // namespace hpu::driver
