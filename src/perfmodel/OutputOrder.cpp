// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/OutputOrder.h"

#include <algorithm>
#include <numeric>

#include "perfmodel/Timeline.h"
#include "recipe/OutputWriters.h"
#include "recipe/Parts.h"

namespace hpu::perfmodel {

StatusOr<std::vector<uint32_t>> outputOrder(const recipe::Program& program) {
  std::vector<uint32_t> order(program.outputs.size());
  std::iota(order.begin(), order.end(), 0);
  if (!program.parts.empty()) {
    // By the part that is over; what none writes is there from the start.
    std::vector<uint32_t> parts = recipe::lastWritingParts(program);
    for (uint32_t& part : parts) ++part;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return parts[a] < parts[b]; });
    return order;
  }
  const arch::TargetDesc& target = arch::targetDesc(program.target);
  std::vector<TimedQueue> queues = timedQueues(program, target, target.clock());
  TimedLaunch launch;
  launch.queues = &queues;
  launch.numSignals = program.numSignals;
  auto timeline = simulate(target, target.clock(), {launch});
  if (!timeline.ok()) return timeline.status();
  std::vector<Picoseconds> ends;
  for (const auto& writers : recipe::lastWriters(program)) {
    Picoseconds end = timeline->launchStart[0];
    for (const recipe::CommandRef& ref : writers)
      end = std::max(end, timeline->intervals[0][ref.queue][ref.command].end);
    ends.push_back(end);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return ends[a] < ends[b]; });
  return order;
}

}  // namespace hpu::perfmodel
