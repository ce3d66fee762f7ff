// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/clock/LaunchTimeline.h"

#include <algorithm>
#include <utility>

#include "base/StatusMacros.h"
#include "recipe/Parts.h"
#include "runtime/driver/clock/LaunchParts.h"

namespace hpu::driver {
namespace {

using perfmodel::Interval;
using perfmodel::TimedCommand;
using perfmodel::TimedLaunch;
using perfmodel::TimedQueue;

std::vector<TimeSpan> mergedSpans(std::vector<TimeSpan> spans) {
  std::sort(spans.begin(), spans.end(), [](const TimeSpan& a, const TimeSpan& b) { return a.start < b.start; });
  std::vector<TimeSpan> merged;
  for (const TimeSpan& span : spans) {
    if (!merged.empty() && span.start <= merged.back().end)
      merged.back().end = std::max(merged.back().end, span.end);
    else
      merged.push_back(span);
  }
  return merged;
}

bool enginesAreIdle(const LaunchTimeline& timeline, Picoseconds ready, const EngineTimeline* engines) {
  for (int e = 0; e < kNumEngines; ++e)
    if (!timeline.taken[e].empty() && engines[e].lastEnd() > ready + timeline.taken[e].front().start) return false;
  return true;
}

/// Places the commands one by one, in the order of the undisturbed launch, each into the first gap
/// of its engine once its waits are satisfied.
class Replay {
 public:
  Replay(const LaunchTimeline& timeline, Picoseconds ready, EngineTimeline* engines)
      : timeline_(timeline), ready_(ready), engines_(engines) {
    signals_.resize(timeline.numSignals);
    heads_.assign(timeline.queues.size(), 0);
    queueEnd_.assign(timeline.queues.size(), ready);
  }

  LaunchPlacement run() {
    auto moved = std::make_shared<QueueIntervals>(timeline_.intervals.size());
    for (size_t q = 0; q < moved->size(); ++q) (*moved)[q].resize(timeline_.intervals[q].size());
    LaunchPlacement placement{ready_, INT64_MAX, ready_, nullptr};
    while (true) {
      size_t q = nextQueue();
      if (q == timeline_.queues.size()) break;
      Interval& interval = (*moved)[q][heads_[q]];
      placeHead(q, interval);
      placement.start = std::min(placement.start, interval.start + ready_);
      placement.end = std::max(placement.end, interval.end + ready_);
    }
    placement.start = std::min(placement.start, placement.end);
    placement.moved = std::move(moved);
    return placement;
  }

 private:
  /// The queue whose head comes first in the undisturbed launch among those whose waits are
  /// satisfied; the number of queues when all are empty. The timeline exists, so some head is
  /// always ready.
  size_t nextQueue() const {
    size_t best = timeline_.queues.size();
    for (size_t q = 0; q < heads_.size(); ++q) {
      if (heads_[q] == timeline_.queues[q].commands.size()) continue;
      if (best != timeline_.queues.size() && !comesBefore(q, best)) continue;
      if (satisfied(timeline_.queues[q].commands[heads_[q]])) best = q;
    }
    return best;
  }

  bool comesBefore(size_t a, size_t b) const {
    return timeline_.intervals[a][heads_[a]].start < timeline_.intervals[b][heads_[b]].start;
  }

  bool satisfied(const TimedCommand& command) const {
    for (const recipe::Wait& wait : command.waits)
      if (signals_[wait.signal].size() < wait.value) return false;
    return true;
  }

  void placeHead(size_t q, Interval& interval) {
    const TimedQueue& queue = timeline_.queues[q];
    const TimedCommand& command = queue.commands[heads_[q]];
    const Interval& alone = timeline_.intervals[q][heads_[q]];
    Picoseconds canStart = queueEnd_[q];
    for (const recipe::Wait& wait : command.waits)
      if (wait.value > 0) canStart = std::max(canStart, signals_[wait.signal][wait.value - 1]);
    Picoseconds duration = alone.end - alone.start;
    Picoseconds start = engines_[static_cast<int>(queue.engine)].reserve(canStart, duration);
    Picoseconds end = start + duration;
    interval.ready = queueEnd_[q] - ready_;
    interval.start = start - ready_;
    interval.end = end - ready_;
    interval.terms = alone.terms;
    // Everything but the waiting is as in the undisturbed launch; the engine's other work is
    // waiting too.
    interval.terms[static_cast<size_t>(perfmodel::Term::kSync)] += (start - queueEnd_[q]) - (alone.start - alone.ready);
    queueEnd_[q] = end;
    if (command.signal != recipe::kNone) {
      auto& times = signals_[command.signal];
      times.insert(std::upper_bound(times.begin(), times.end(), end), end);
    }
    ++heads_[q];
  }

  const LaunchTimeline& timeline_;
  Picoseconds ready_;
  EngineTimeline* engines_;
  std::vector<std::vector<Picoseconds>> signals_;  ///< Sorted times at which each signal counted up.
  std::vector<size_t> heads_;
  std::vector<Picoseconds> queueEnd_;
};

/// All but the last writers.
StatusOr<std::shared_ptr<LaunchTimeline>> timelineOf(std::vector<TimedQueue> queues, uint32_t numSignals,
                                                     const arch::TargetDesc& target, const arch::ClockProfile& clock) {
  auto result = std::make_shared<LaunchTimeline>();
  result->queues = std::move(queues);
  result->numSignals = numSignals;
  TimedLaunch launch;
  launch.queues = &result->queues;
  launch.numSignals = numSignals;
  HPU_ASSIGN(perfmodel::TimelineResult timeline, perfmodel::simulate(target, clock, {launch}));
  result->intervals = std::move(timeline.intervals[0]);
  result->start = timeline.launchStart[0];
  result->end = timeline.launchEnd[0];
  for (size_t q = 0; q < result->queues.size(); ++q) {
    int engine = static_cast<int>(result->queues[q].engine);
    for (const Interval& interval : result->intervals[q]) {
      ++result->commands;
      result->busy[engine] += interval.end - interval.start;
      result->work += interval.end - interval.start - interval.terms[static_cast<size_t>(perfmodel::Term::kOverhead)];
      if (interval.end > interval.start) result->taken[engine].push_back({interval.start, interval.end});
    }
  }
  for (auto& spans : result->taken) spans = mergedSpans(std::move(spans));
  return result;
}

StatusOr<std::shared_ptr<const LaunchTimeline>> timelineOfParts(const recipe::Program& program,
                                                                const arch::TargetDesc& target,
                                                                const arch::ClockProfile& clock,
                                                                perfmodel::CostMemo* costs, bool saysIterations) {
  auto result = std::make_shared<LaunchTimeline>();
  result->writingParts = recipe::lastWritingParts(program);
  bool hasStart = false;
  for (const recipe::Part& part : program.parts) {
    PartTimeline& own = result->parts.emplace_back();
    own.program = part.program;
    HPU_ASSIGN(own.timeline, LaunchTimeline::create(*part.program, target, clock, costs, saysIterations));
    // Of one without a bound nobody says how often it runs: it counts once, as where the compiler adds up times.
    own.trips = !saysIterations && recipe::isUnbounded(part) ? 1 : part.trips;
    own.hasCount = part.count.section != recipe::kNone;
    own.hasCondition = part.condition.section != recipe::kNone;
    own.isAwaited = saysIterations && recipe::isDecided(part);
    result->isAwaited |= own.isAwaited || own.timeline->isAwaited;
    const uint64_t iterations = own.isAwaited ? 0 : own.trips;
    const LaunchTimeline& one = *own.timeline;
    const bool decides = own.decisions(iterations) > 0;
    if (!hasStart && (iterations > 0 || decides)) {
      hasStart = true;
      result->start = result->end + (decides ? 0 : one.start);
    }
    result->end = atMost(Wide{result->end} + own.decisions(iterations) + Wide{one.end} * iterations);
    result->work = atMost(Wide{result->work} + Wide{one.work} * iterations);
    result->commands = atMost(Wide{result->commands} + Wide{one.commands} * iterations);
    for (int e = 0; e < kNumEngines; ++e)
      result->busy[e] = atMost(Wide{result->busy[e]} + Wide{one.busy[e]} * iterations);
    result->partEnds.push_back(result->end);
  }
  if (!hasStart) result->start = result->end;
  return std::shared_ptr<const LaunchTimeline>(std::move(result));
}

}  // namespace

StatusOr<std::shared_ptr<const LaunchTimeline>> LaunchTimeline::create(const recipe::Program& program,
                                                                       const arch::TargetDesc& target,
                                                                       const arch::ClockProfile& clock,
                                                                       perfmodel::CostMemo* costs,
                                                                       bool saysIterations) {
  if (!program.parts.empty()) return timelineOfParts(program, target, clock, costs, saysIterations);
  HPU_ASSIGN(auto result,
             timelineOf(perfmodel::timedQueues(program, target, clock, costs), program.numSignals, target, clock));
  result->lastWriters = recipe::lastWriters(program);
  return std::shared_ptr<const LaunchTimeline>(std::move(result));
}

Picoseconds LaunchTimeline::outputEnd(size_t output, const LaunchPlacement& placement) const {
  if (!parts.empty()) {
    const uint32_t part = output < writingParts.size() ? writingParts[output] : recipe::kNone;
    if (part == recipe::kNone) return placement.start;
    return placement.partEnds.empty() ? placement.offset + partEnds[part] : placement.partEnds[part];
  }
  Picoseconds end = placement.start;
  if (output >= lastWriters.size()) return end;
  const QueueIntervals& places = placement.intervals(*this);
  for (const recipe::CommandRef& ref : lastWriters[output])
    end = std::max(end, placement.offset + places[ref.queue][ref.command].end);
  return end;
}

StatusOr<std::shared_ptr<const LaunchTimeline>> LaunchTimeline::create(std::vector<TimedQueue> queues,
                                                                       uint32_t numSignals,
                                                                       const arch::TargetDesc& target,
                                                                       const arch::ClockProfile& clock) {
  HPU_ASSIGN(auto result, timelineOf(std::move(queues), numSignals, target, clock));
  return std::shared_ptr<const LaunchTimeline>(std::move(result));
}

LaunchPlacement placeLaunch(const LaunchTimeline& timeline, Picoseconds ready, EngineTimeline* engines) {
  if (!enginesAreIdle(timeline, ready, engines)) return Replay(timeline, ready, engines).run();
  for (int e = 0; e < kNumEngines; ++e) engines[e].append(timeline.taken[e], ready);
  return {ready, ready + timeline.start, ready + timeline.end, nullptr};
}

}  // namespace hpu::driver
