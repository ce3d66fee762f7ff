// SPDX-License-Identifier: Apache-2.0
// RankRun: what one rank of hccl-perf does: buffers, a checked run, timed runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/status.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

struct RunOptions {
  int iterations = 20, warmup = 5;
  bool check = true;      ///< One run with known data, before the timed ones.
  bool blocking = false;  ///< Wait for each operation instead of for all of them.
  /// Asked before the measurement of this number; all ranks must be told the same. None: always true.
  std::function<bool(size_t)> mayStart;
};

/// Of one workload, in or out of place, on one rank.
struct Measurement {
  double wallUs = 0;    ///< Of one operation.
  double deviceUs = 0;  ///< The same, modelled.
  int64_t wrong = -1;   ///< -1: not checked.
};

/// Makes the calls of all workloads in their order; `report(index, inPlace, measurement)` after
/// each. Errors of the first call that fails, with the workload.
Status runRank(hpu::Device device, collectives::Communicator comm, const std::vector<Workload>& works,
               const RunOptions& options, const std::function<Status(size_t, bool, const Measurement&)>& report);

}  // namespace hpu::tools
