// SPDX-License-Identifier: Apache-2.0
// LocalRanks: the ranks of one hccl-perf on this machine, as processes or as threads. The one thing
// to know: processes are forked before this one has any thread.
#pragma once

#include <vector>

#include "hpu/status.h"
#include "tools/hccl-perf/RankResults.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

/// Runs all ranks; `report` is called on the calling thread as soon as all have measured a
/// workload, in order. Errors: the first rank's that failed, with its number (the others are
/// ended); kDeadlineExceeded, naming the ranks that gave nothing.
Status runLocalRanks(const std::vector<Workload>& works, const RankOptions& options, const Report& report);

}  // namespace hpu::tools
