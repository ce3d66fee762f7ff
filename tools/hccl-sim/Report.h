// SPDX-License-Identifier: Apache-2.0
// Report: hccl-sim's results as tables for people and as JSON.
// The one thing to know: every figure is one of our model, and the head line and "modelled" say so.
#pragma once

#include <string>
#include <vector>

#include "tools/common/Json.h"
#include "tools/common/Table.h"
#include "tools/hccl-sim/Simulation.h"

namespace hpu::tools {

/// "# all_reduce of float, 16 nodes x 8 = 128 devices, hls-3 (gaudi3); all times are modelled"
std::string headText(const std::vector<SimResult>& results);

/// One line a result: size, count, time, bandwidths, share of the bound, algorithm.
Table resultsTable(const std::vector<SimResult>& results);

/// What the columns of a comparison are.
enum class Side : uint8_t { kAlgorithms, kNodes, kFabrics };
/// Results beside each other: a row for each of the rest, a column for each algorithm, node count or changed fabric,
/// with its time, busbw and ratio to the first (algorithms: to the fastest).
Table sideBySide(const std::vector<SimResult>& results, Side side);

/// The keys of results[]. A result without a plan has the algorithm's name and nulls.
Json resultJson(const SimResult& result);

}  // namespace hpu::tools
