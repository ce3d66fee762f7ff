// SPDX-License-Identifier: Apache-2.0
// Export: a schedule for people (a table of its steps) and for other programs (Chakra execution
// traces, which astra-sim and others read).
// The one thing to know: exportChakra and importChakra are inverse to each other; what is imported
// has not been checked (checkSchedule).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/schedule/Schedule.h"
#include "collectives/schedule/Timing.h"
#include "collectives/topology/LinkModel.h"
#include "hpu/status.h"

namespace hpu::collectives {

struct TextOptions {
  int rank = -1;                     ///< Only this rank's steps; -1: all.
  const LinkModel* links = nullptr;  ///< With modelled start and end, all ranks arriving at once.
};
/// A head of a few lines, then one line a step.
std::string exportText(const Schedule& schedule, const TextOptions& options = {});

/// One JSON document a rank, in the form that Chakra's feeder reads ("workload_graph"; name the
/// files PREFIX.RANK.json). Sends and receives are COMM_SEND_NODE and COMM_RECV_NODE, matched by
/// comm_src, comm_dst and comm_tag; copies and reductions are COMP_NODE with their modelled runtime
/// in microseconds, rounded up. (Chakra's MEM nodes mean remote memory.) What Chakra has no name
/// for is in "openhpu" objects, which its readers skip. The schedule has passed its check.
/// With `ranks`, only their documents, in that order.
std::vector<std::string> exportChakra(const Schedule& schedule, const LinkModel& links,
                                      std::span<const int32_t> ranks = {});

/// From all ranks' documents, in any order. Errors: kInvalidArgument, naming the document and node
/// and what is wrong; documents of other programs lack the "openhpu" objects.
StatusOr<Schedule> importChakra(std::span<const std::string> documents);

}  // namespace hpu::collectives
