// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "hpu/telemetry.h"

namespace hpu::telemetry {
namespace {

double share(int64_t part, int64_t whole) {
  if (part <= 0 || whole <= 0) return 0;
  return std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
}

double perSecond(int64_t amount, int64_t ns) {
  return amount <= 0 || ns <= 0 ? 0 : static_cast<double>(amount) / static_cast<double>(ns) * 1e9;
}

double busiest(const double (&engine)[kNumEngines]) {
  return *std::max_element(std::begin(engine), std::end(engine));
}

/// Idle power and, in proportion to the busiest engine, what is between it and the cap.
double modelledWatts(const Board& facts, double utilization) {
  return facts.idleWatts + (facts.capWatts - facts.idleWatts) * utilization;
}

/// The counters of an acquisition that has just begun.
node::DeviceStatus atAcquisition(const node::DeviceStatus& status) {
  node::DeviceStatus start;
  start.index = status.index;
  start.target = status.target;
  start.acquiredAtNs = start.updatedAtNs = status.acquiredAtNs;
  return start;
}

bool continues(const node::DeviceStatus& before, const node::DeviceStatus& after) {
  const DeviceCounters &a = before.counters, &b = after.counters;
  bool falls = b.deviceNs < a.deviceNs || b.h2dBytes < a.h2dBytes || b.d2hBytes < a.d2hBytes;
  for (int e = 0; e < kNumEngines; ++e) falls |= b.busyNs[e] < a.busyNs[e];
  return before.owner.pid == after.owner.pid && before.acquiredAtNs == after.acquiredAtNs && !falls;
}

Readings between(const node::DeviceStatus& before, const node::DeviceStatus& after) {
  Readings readings;
  const Board& facts = board(after.target);
  const DeviceCounters &a = before.counters, &b = after.counters;
  readings.deviceNs = b.deviceNs - a.deviceNs;
  readings.hostNs = std::max<int64_t>(0, after.updatedAtNs - before.updatedAtNs);
  for (int e = 0; e < kNumEngines; ++e) readings.engine[e] = share(b.busyNs[e] - a.busyNs[e], readings.deviceNs);
  readings.utilization = busiest(readings.engine);
  readings.receivedPerSecond = perSecond(b.h2dBytes - a.h2dBytes, readings.deviceNs);
  readings.sentPerSecond = perSecond(b.d2hBytes - a.d2hBytes, readings.deviceNs);
  readings.watts = modelledWatts(facts, readings.utilization);
  readings.celsius = facts.idleCelsius + facts.celsiusPerWatt * (readings.watts - facts.idleWatts);
  return readings;
}

}  // namespace

Readings read(const node::DeviceStatus& before, const node::DeviceStatus& after) {
  bool owned = after.owner.pid != 0;
  bool joined = continues(before, after);
  bool waiting = joined && owned && after.queuedWork > 0 && after.counters.deviceNs == before.counters.deviceNs;
  bool whole = owned && (!joined || waiting);
  Readings readings = between(whole || !joined ? atAcquisition(after) : before, after);
  readings.sinceAcquired = whole;

  // The energy of the whole acquisition follows its mean utilisation.
  const DeviceCounters& total = after.counters;
  int64_t mostBusy = *std::max_element(std::begin(total.busyNs), std::end(total.busyNs));
  readings.joules =
      modelledWatts(board(after.target), share(mostBusy, total.deviceNs)) * static_cast<double>(total.deviceNs) / 1e9;

  readings.thermalThrottled = after.faults[static_cast<int>(node::Fault::kThermal)] > 0;
  StatusOr<Clocks> clock = clocks(after.target, after.clockProfile);
  readings.powerThrottled = clock.ok() && clock->derated() && readings.engine[static_cast<int>(Engine::kMme)] > 0;
  return readings;
}

Readings readSinceAcquired(const node::DeviceStatus& status) {
  Readings readings = read(atAcquisition(status), status);
  readings.sinceAcquired = status.owner.pid != 0;
  return readings;
}

int64_t powerViolationNs(const node::DeviceStatus& status) {
  StatusOr<Clocks> clock = clocks(status.target, status.clockProfile);
  return clock.ok() && clock->derated() ? status.counters.busyNs[static_cast<int>(Engine::kMme)] : 0;
}

}  // namespace hpu::telemetry
