// SPDX-License-Identifier: Apache-2.0
// Exports: what hccl-sim writes for other programs: Chakra's documents and a plan's steps with their times.
// The one thing to know: whether a file can be written is found out before anything is simulated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "tools/hccl-sim/Simulation.h"

namespace hpu::tools {

/// Files of more ranks are written only for those that are named.
inline constexpr int32_t kMostExportedRanks = 64;

/// All ranks, or those of the list. Errors: kInvalidArgument beyond kMostExportedRanks.
StatusOr<std::vector<int32_t>> exportedRanks(const std::string& option, const std::vector<int32_t>& asked,
                                             int32_t ranks);

/// "PREFIX.17.json"
std::string chakraPath(const std::string& prefix, int32_t rank);
/// One document for each of `ranks`. Errors: kResourceExhausted (too many steps of all ranks).
StatusOr<std::vector<std::string>> chakraDocuments(const SimResult& result, const std::vector<int32_t>& ranks);

/// Steps of `ranks`, whose spans the result has: a head, then a line a step.
std::string scheduleText(const SimResult& result, const std::vector<int32_t>& ranks);

}  // namespace hpu::tools
