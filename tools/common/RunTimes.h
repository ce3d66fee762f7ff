// SPDX-License-Identifier: Apache-2.0
// RunTimes: runs of one program, timed on both clocks.
// The one thing to know: host time includes the copies to and from the device; device time is modelled and is
// measured by events around each part. Uses the public API only, so that it links with either form of the runtime.
//
//   HPU_ASSIGN(RunTimes times, timeRuns(device, 1, 10, [&](const Event* marks) { return runOnce(marks); }));
#pragma once

#include <functional>
#include <vector>

#include "hpu/device.h"
#include "hpu/event.h"
#include "tools/common/Json.h"

namespace hpu::tools {

/// Figures of the timed runs.
struct RunTimes {
  std::vector<double> hostMs;          ///< Copies, launch and wait, one entry a run.
  double deviceUs = 0;                 ///< Of one launch, mean.
  double h2dUs = 0, d2hUs = 0;         ///< Device time of the copies of one run, mean.
  double busy[kNumEngines] = {};       ///< Fraction of the launches' device time in which the engine works.
  int64_t h2dBytes = 0, d2hBytes = 0;  ///< Of one run.

  double hostPercentile(double percent) const;
  double hostMin() const { return hostPercentile(0); }
  double runsPerSecond() const;
};

/// The events of a timed run, recorded between its parts: copies to the device, the launch, copies back.
enum RunMark { kRunStart, kRunUploaded, kRunLaunched, kRunDownloaded, kNumRunMarks };
/// One run to its end, recording `marks` (kNumRunMarks events) unless it is null.
using RunOnce = std::function<Status(const Event* marks)>;

/// `warmup` runs, then `iterations` timed ones; `stopped` is asked before each run: true ends the runs there, and the
/// times are of those that ran, if any. Nothing else uses the device meanwhile. Errors: those of `runOnce`.
StatusOr<RunTimes> timeRuns(const Device& device, int warmup, int iterations, const RunOnce& runOnce,
                            const std::function<bool()>& stopped = {});

/// The keys of hpu-run: host_latency_ms, device_time_us, engine_busy, throughput and more. An
/// engine that the target lacks is null.
void addTimes(Json& json, const RunTimes& times, Target target);

}  // namespace hpu::tools
