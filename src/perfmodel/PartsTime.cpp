// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/PartsTime.h"

#include <algorithm>

#include "base/StatusMacros.h"
#include "recipe/Parts.h"

namespace hpu::perfmodel {
namespace {

/// How often it counts.
uint64_t tripsOf(const recipe::Part& part) {
  return recipe::isUnbounded(part) ? 1 : part.trips;
}

double decisionsUs(const recipe::Part& part) {
  const int64_t decisions = partDecisions(part.count.section != recipe::kNone, part.condition.section != recipe::kNone,
                                          tripsOf(part), tripsOf(part));
  return static_cast<double>(decisions) * (kPartDecision / 1e6);
}

class Collector {
 public:
  Collector(const arch::TargetDesc& target, const arch::ClockProfile& clock) : target_(target), clock_(clock) {}

  /// `runs`: how often the program runs in all.
  Status add(const recipe::Program& program, uint64_t runs) {
    if (program.parts.empty()) return addLeaf(program, runs);
    for (const recipe::Part& part : program.parts) {
      uint64_t all = 0;
      if (__builtin_mul_overflow(runs, tripsOf(part), &all)) all = UINT64_MAX;
      const int64_t decisions = partDecisions(part.count.section != recipe::kNone,
                                              part.condition.section != recipe::kNone, tripsOf(part), tripsOf(part));
      wait(decisions, runs);
      HPU_RETURN_IF_ERROR(add(*part.program, all));
    }
    return okStatus();
  }

  ProgramBreakdown finish() {
    std::stable_sort(result_.ops.begin(), result_.ops.end(), [](const ProgramOp& a, const ProgramOp& b) {
      return a.work.critical != b.work.critical ? a.work.critical > b.work.critical : a.work.busy > b.work.busy;
    });
    return std::move(result_);
  }

 private:
  /// No more than takes kLongestCommand.
  static int64_t bounded(uint64_t runs, Picoseconds each) {
    return static_cast<int64_t>(
        std::min<uint64_t>(runs, static_cast<uint64_t>(kLongestCommand / std::max<Picoseconds>(each, 1))));
  }

  void wait(int64_t decisions, uint64_t runs) {
    if (decisions == 0) return;
    const Picoseconds each = bounded(static_cast<uint64_t>(decisions), kPartDecision) * kPartDecision;
    const Picoseconds time = each * bounded(runs, each);
    result_.whole.deviceTime += time;
    result_.whole.criticalGaps += time;
    for (EngineBreakdown& engine : result_.whole.engines) engine.idle += time;
  }

  Status addLeaf(const recipe::Program& program, uint64_t runs) {
    const std::vector<TimedQueue> queues = timedQueues(program, target_, clock_);
    TimedLaunch launch;
    launch.queues = &queues;
    launch.numSignals = program.numSignals;
    HPU_ASSIGN(TimelineResult timeline, simulate(target_, clock_, {launch}));
    const Breakdown one = breakDown(program, queues, timeline);
    const int64_t times = bounded(runs, one.deviceTime);
    auto addTerms = [&](Terms& sum, const Terms& terms) {
      for (size_t t = 0; t < terms.size(); ++t) sum[t] += terms[t] * times;
    };
    auto addBytes = [&](Bytes& sum, const Bytes& bytes) {
      sum.hbm += bytes.hbm * times;
      sum.sram += bytes.sram * times;
    };
    Breakdown& all = result_.whole;
    all.deviceTime += one.deviceTime * times;
    all.criticalGaps += one.criticalGaps * times;
    for (size_t e = 0; e < all.engines.size(); ++e) {
      EngineBreakdown& engine = all.engines[e];
      engine.commands += one.engines[e].commands * times;
      engine.busy += one.engines[e].busy * times;
      engine.idle += one.engines[e].idle * times;
      addTerms(engine.terms, one.engines[e].terms);
      addBytes(engine.bytes, one.engines[e].bytes);
      addTerms(all.critical[e], one.critical[e]);
    }
    for (const OpBreakdown& op : one.ops) {
      OpBreakdown& own = result_.ops.emplace_back(ProgramOp{&program, {}}).work;
      own.op = op.op;
      own.commands = op.commands * times;
      own.busy = op.busy * times;
      own.critical = op.critical * times;
      addTerms(own.terms, op.terms);
      addBytes(own.bytes, op.bytes);
    }
    return okStatus();
  }

  const arch::TargetDesc& target_;
  const arch::ClockProfile& clock_;
  ProgramBreakdown result_;
};

}  // namespace

int64_t partDecisions(bool hasCount, bool hasCondition, uint64_t trips, uint64_t iterations) {
  const uint64_t checks = hasCondition ? iterations + (iterations < trips ? 1 : 0) : 0;
  return static_cast<int64_t>(checks) + (hasCount ? 1 : 0);
}

recipe::Estimates estimateOfParts(const recipe::Program& holder) {
  recipe::Estimates sum;
  for (const recipe::Part& part : holder.parts) {
    const recipe::Estimates one =
        part.program->parts.empty() ? part.program->estimates : estimateOfParts(*part.program);
    const auto trips = static_cast<double>(tripsOf(part));
    sum.deviceTimeUs += trips * one.deviceTimeUs + decisionsUs(part);
    if (!recipe::isDecided(part)) sum.lowerBoundUs += trips * one.lowerBoundUs;
    sum.largestLiveSetBytes = std::max(sum.largestLiveSetBytes, one.largestLiveSetBytes);
    sum.sramPeakBytes = std::max(sum.sramPeakBytes, one.sramPeakBytes);
  }
  return sum;
}

StatusOr<ProgramBreakdown> breakDown(const recipe::Program& program, const arch::TargetDesc& target,
                                     const arch::ClockProfile& clock) {
  Collector collector(target, clock);
  HPU_RETURN_IF_ERROR(collector.add(program, 1));
  return collector.finish();
}

}  // namespace hpu::perfmodel
