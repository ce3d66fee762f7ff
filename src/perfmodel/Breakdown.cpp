// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/Breakdown.h"

#include <algorithm>

#include "perfmodel/CriticalPath.h"

namespace hpu::perfmodel {
namespace {

void add(Terms& sum, const Terms& terms) {
  for (size_t t = 0; t < terms.size(); ++t) sum[t] += terms[t];
}

}  // namespace

Breakdown breakDown(const recipe::Program& program, const std::vector<TimedQueue>& queues,
                    const TimelineResult& timeline) {
  Breakdown out;
  out.deviceTime = timeline.end;
  out.ops.resize(program.ops.size());
  for (uint32_t i = 0; i < out.ops.size(); ++i) out.ops[i].op = i;

  struct Place {
    uint32_t queue, command;
  };
  std::vector<PathSlice> slices;
  std::vector<Place> places;
  for (uint32_t q = 0; q < queues.size(); ++q) {
    auto e = static_cast<uint32_t>(queues[q].engine) % kNumEngines;
    for (uint32_t c = 0; c < queues[q].commands.size(); ++c) {
      const Interval& interval = timeline.intervals[0][q][c];
      const Bytes& bytes = queues[q].commands[c].cost.bytes;
      EngineBreakdown& engine = out.engines[e];
      OpBreakdown& op = out.ops[program.queues[q].commands[c].op];
      ++engine.commands, ++op.commands;
      engine.busy += interval.end - interval.start;
      op.busy += interval.end - interval.start;
      add(engine.terms, interval.terms);
      add(op.terms, interval.terms);
      engine.bytes.hbm += bytes.hbm, engine.bytes.sram += bytes.sram;
      op.bytes.hbm += bytes.hbm, op.bytes.sram += bytes.sram;
      slices.push_back({e, interval.start, interval.end});
      places.push_back({q, c});
    }
  }
  for (EngineBreakdown& engine : out.engines) {
    engine.idle = out.deviceTime;
    for (Picoseconds term : engine.terms) engine.idle -= term;
  }
  out.criticalGaps = out.deviceTime;
  for (uint32_t i : criticalPath(slices)) {
    auto [q, c] = places[i];
    Terms terms = timeline.intervals[0][q][c].terms;
    terms[static_cast<size_t>(Term::kSync)] = 0;  // What it waited for is the rest of the path.
    add(out.critical[slices[i].engine], terms);
    Picoseconds time = slices[i].end - slices[i].start;
    out.ops[program.queues[q].commands[c].op].critical += time;
    out.criticalGaps -= time;
  }
  std::stable_sort(out.ops.begin(), out.ops.end(), [](const OpBreakdown& a, const OpBreakdown& b) {
    return std::pair(a.critical, a.busy) > std::pair(b.critical, b.busy);
  });
  return out;
}

}  // namespace hpu::perfmodel
