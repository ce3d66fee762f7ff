// SPDX-License-Identifier: Apache-2.0
// LocalRanks: the ranks of one hccl-perf on this machine, as processes or as threads, and their
// results. The one thing to know: processes are forked before this one has any thread.
#pragma once

#include <functional>
#include <vector>

#include "hpu/status.h"
#include "hpu/target.h"
#include "tools/hccl-perf/RankRun.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

struct RankOptions {
  int ranks = 2;
  bool threads = false;
  Target target = Target::kGaudi2;
  int64_t timeoutMs = 600000;  ///< Without a result of any rank.
  std::string tunerTable;
  RunOptions run;
};

/// Of all ranks together: the slowest rank's times, the sum of the wrong elements.
struct Combined {
  size_t work = 0;
  bool inPlace = false;
  Measurement result;
};

/// Runs all ranks; `report` is called on the calling thread as soon as all have measured a
/// workload, in order. Errors: the first rank's that failed, with its number (the others are
/// ended); kDeadlineExceeded, naming the ranks that gave nothing.
Status runLocalRanks(const std::vector<Workload>& works, const RankOptions& options,
                     const std::function<void(const Combined&)>& report);

}  // namespace hpu::tools
