// SPDX-License-Identifier: Apache-2.0
#include "tools/common/RunTimes.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "arch/TargetDesc.h"
#include "base/StatusMacros.h"

namespace hpu::tools {

double RunTimes::hostPercentile(double percent) const {
  if (hostMs.empty()) return 0;
  std::vector<double> sorted = hostMs;
  std::sort(sorted.begin(), sorted.end());
  // The smallest time that at least `percent` of the runs did not exceed.
  auto rank = static_cast<int64_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<int64_t>(rank - 1, 0, static_cast<int64_t>(sorted.size()) - 1)];
}

double RunTimes::runsPerSecond() const {
  double total = 0;
  for (double ms : hostMs) total += ms;
  return total > 0 ? 1000 * static_cast<double>(hostMs.size()) / total : 0;
}

StatusOr<RunTimes> timeRuns(const Device& device, int warmup, int iterations, const RunOnce& runOnce,
                            const std::function<bool()>& stopped) {
  using Clock = std::chrono::steady_clock;
  auto goesOn = [&] { return !stopped || !stopped(); };
  for (int i = 0; i < warmup && goesOn(); ++i) HPU_RETURN_IF_ERROR(runOnce(nullptr));
  RunTimes times;
  Event marks[kNumRunMarks];
  DeviceCounters before = device.counters();
  double launches = 0;
  for (int i = 0; i < iterations && goesOn(); ++i) {
    auto start = Clock::now();
    HPU_RETURN_IF_ERROR(runOnce(marks));
    times.hostMs.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    int64_t spans[kNumRunMarks - 1];
    for (int m = 0; m + 1 < kNumRunMarks; ++m) {
      HPU_ASSIGN(spans[m], marks[m + 1].elapsedNsSince(marks[m]));
    }
    times.h2dUs += static_cast<double>(spans[kRunStart]) / 1e3;
    launches += static_cast<double>(spans[kRunUploaded]);
    times.d2hUs += static_cast<double>(spans[kRunLaunched]) / 1e3;
  }
  DeviceCounters after = device.counters();
  auto count = static_cast<double>(std::max<size_t>(times.hostMs.size(), 1));
  times.deviceUs = launches / 1e3 / count;
  times.h2dUs /= count;
  times.d2hUs /= count;
  times.h2dBytes = (after.h2dBytes - before.h2dBytes) / static_cast<int64_t>(count);
  times.d2hBytes = (after.d2hBytes - before.d2hBytes) / static_cast<int64_t>(count);
  for (int e = 0; e < kNumEngines; ++e)
    if (launches > 0) times.busy[e] = static_cast<double>(after.busyNs[e] - before.busyNs[e]) / launches;
  return times;
}

void addTimes(Json& json, const RunTimes& times, Target target) {
  json.set("iterations", static_cast<int64_t>(times.hostMs.size()));
  json["host_latency_ms"]
      .set("p50", times.hostPercentile(50))
      .set("p90", times.hostPercentile(90))
      .set("p99", times.hostPercentile(99))
      .set("min", times.hostMin());
  json.set("device_time_us", times.deviceUs);
  json.set("h2d_us", times.h2dUs).set("d2h_us", times.d2hUs);
  json.set("h2d_bytes", times.h2dBytes).set("d2h_bytes", times.d2hBytes);
  bool hasDma = arch::targetDesc(target).numDmas > 0;
  Json& busy = json["engine_busy"];
  for (Engine engine : {Engine::kMme, Engine::kTpc, Engine::kDma}) {
    bool there = engine != Engine::kDma || hasDma;
    busy.set(engineName(engine), there ? Json(times.busy[static_cast<int>(engine)]) : Json());
  }
  json.set("throughput", times.runsPerSecond());
}

}  // namespace hpu::tools
