// SPDX-License-Identifier: Apache-2.0
// Runs: what a command line asks for, as a list of operations to price: each size on each node count, fabric and
// algorithm.
// The one thing to know: everything that can be wrong with the command line is found here, before anything is priced.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/target.h"
#include "tools/hccl-sim/Arguments.h"
#include "tools/hccl-sim/Report.h"
#include "tools/hccl-sim/Simulation.h"

namespace hpu::tools {

/// As they are on the command line.
struct SimArguments {
  std::string op, target = "gaudi2", topology, algorithm, type = "float", sweep;
  std::vector<std::string> nodes, compare, whatIfs, late, ranks;
  bool targetGiven = false;
  int ranksPerNode = 0;
  int64_t root = 0, shift = 1, senders = 8;
  bool sendersGiven = false, shiftGiven = false, rootGiven = false;
  std::vector<int64_t> sizes;
  std::string chakra, schedule, draw;
  bool noFold = false, explain = false;
  bool exports() const { return !chakra.empty() || !schedule.empty() || !draw.empty(); }
};

struct Run {
  std::shared_ptr<const Site> site;
  Work work;
  std::string algorithm;  ///< Empty: the best.
  std::vector<int64_t> arrivalPs;
};

struct Runs {
  std::vector<Run> runs;
  /// With several algorithms, fabrics or node counts: what the columns are.
  bool isComparison = false;
  Side side = Side::kNodes;
  bool comparesAlgorithms = false;     ///< An algorithm that does not do the operation is a line without figures.
  std::vector<int32_t> exportedRanks;  ///< Whose steps are exported.
  std::vector<std::string> notes;      ///< What was assumed.
};

/// Errors: kInvalidArgument, kNotFound, naming the option.
StatusOr<Runs> runsOf(const SimArguments& arguments);
/// One of them; ports and spans as exports and explanations need them. kUnimplemented becomes a result without a plan
/// when algorithms are compared.
StatusOr<SimResult> priceRun(const Runs& runs, const Run& run, const SimArguments& arguments);

}  // namespace hpu::tools
