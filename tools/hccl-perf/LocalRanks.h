// SPDX-License-Identifier: Apache-2.0
// LocalRanks: the ranks of one hccl-perf on this machine, as processes or as threads. The one thing
// to know: processes are forked before this one has any thread.
#pragma once

#include <string>
#include <vector>

#include "hpu/status.h"
#include "tools/hccl-perf/RankResults.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

/// Which of so many nodes a rank is on, the first ones having one more when they do not divide evenly.
int nodeOfRank(int rank, int ranks, int nodes);
/// What HPU_NODE is for ranks of that node: the user's own with a number.
std::string nodeName(int node);

/// Runs all ranks, those of several nodes each with its HPU_NODE; `report` is called on the calling thread as soon as
/// all have measured a workload, in order. Errors: the first rank's that failed, with its number (the others are
/// ended); kDeadlineExceeded, naming the ranks that gave nothing; kCancelled when interrupted, with what was measured
/// until then reported.
Status runLocalRanks(const std::vector<Workload>& works, const RankOptions& options, const Report& report);

}  // namespace hpu::tools
