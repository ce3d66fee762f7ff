// SPDX-License-Identifier: Apache-2.0
// LaunchedRanks: the rank that somebody's launcher (mpirun, torchrun, srun) made this hccl-perf.
// The one thing to know: rank 0 prints; it has a name on this machine that follows from the
// launcher's job, where the others get the communicator's id and the pipe for their results.
#pragma once

#include <string>
#include <vector>

#include "base/FunctionRef.h"
#include "hpu/collectives.h"
#include "hpu/status.h"
#include "tools/common/Cli.h"
#include "tools/hccl-perf/RankResults.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

/// Where the ranks of a job meet: the same text for all of them and no other job. `get` gives a
/// variable's text or null.
std::string jobName(const collectives::LauncherEnvironment& launch, base::FunctionRef<const char*(const char*)> get);

/// Runs this rank of options.ranks; on rank 0 `report` is called as with runLocalRanks. Other ranks
/// give kUserError when they failed and rank 0 knows. Errors: on rank 0 those of all; elsewhere
/// what rank 0 could not be told.
StatusOr<ExitCode> runLaunchedRank(const collectives::LauncherEnvironment& launch, const std::vector<Workload>& works,
                                   const RankOptions& options, const Report& report);

}  // namespace hpu::tools
