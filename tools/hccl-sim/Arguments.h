// SPDX-License-Identifier: Apache-2.0
// Arguments: the texts of hccl-sim's command line as values: lists of nodes and ranks, arrivals, what-ifs.
// The one thing to know: everything here is checked against what is there, and the errors name the option.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/fabric/Fabric.h"
#include "hpu/status.h"

namespace hpu::tools {

/// More devices are refused: not every collective has a plan for them.
inline constexpr int64_t kMostDevices = 16384;

/// "2", "4", "128". Errors: kInvalidArgument (none, not a number, below 1, twice).
StatusOr<std::vector<int32_t>> parseNodeCounts(const std::vector<std::string>& texts);
/// Errors: kInvalidArgument naming the limit.
Status checkDevices(int64_t nodes, int64_t devicesPerNode);

/// "0,3,8-15": ascending, each once. Errors: kInvalidArgument (no such rank).
StatusOr<std::vector<int32_t>> parseRanks(const std::vector<std::string>& texts, int32_t ranks);
/// "RANK:US" each; by rank, empty when there are none. Errors: kInvalidArgument.
StatusOr<std::vector<int64_t>> parseArrivals(const std::vector<std::string>& texts, int32_t ranks);

/// One change of a fabric: "rails-down=NODE:RAIL", "slow-node=NODE:FACTOR", "oversubscription=X", "nodes-per-leaf=K",
/// "message_us=X" and the other constants by their names.
struct WhatIf {
  std::string name, value;
  std::string text() const { return name + "=" + value; }
};
StatusOr<WhatIf> parseWhatIf(const std::string& text);
/// "NAME=V,V,V": a what-if for each value.
StatusOr<std::vector<WhatIf>> parseSweep(const std::string& text);
/// The fabric with all of them; `nodes` of it are in use. What had to be assumed is added to `notes`. Errors:
/// kInvalidArgument (a name that is none, a node or rail that is not there, a value that cannot be).
StatusOr<collectives::Fabric> changed(collectives::Fabric fabric, int32_t nodes, const std::vector<WhatIf>& changes,
                                      std::vector<std::string>& notes);

}  // namespace hpu::tools
