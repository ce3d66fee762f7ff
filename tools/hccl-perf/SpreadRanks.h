// SPDX-License-Identifier: Apache-2.0
// SpreadRanks: the rank that a launcher made this hccl-perf, of a job on several machines. The one thing to know: the
// ranks meet at HCCL_COMM_ID and tell each other nothing but through their communicator, the results too.
#pragma once

#include <vector>

#include "hpu/collectives.h"
#include "hpu/status.h"
#include "tools/hccl-perf/RankResults.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

/// Runs this rank of options.ranks; on rank 0 `report` is called as with runLocalRanks. Errors: kInvalidArgument
/// (HCCL_COMM_ID is not set), this rank's, which names others where they are the cause.
Status runSpreadRank(const collectives::LauncherEnvironment& launch, const std::vector<Workload>& works,
                     const RankOptions& options, const Report& report);

}  // namespace hpu::tools
