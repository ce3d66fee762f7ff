// SPDX-License-Identifier: Apache-2.0
// Checks a model's graph before anything is built: names, order, declared types.
// The one thing to know: all faults are found at once, and those of the nodes can still be looked for
// behind them: names that a fault leaves without a value are listed, and the nodes are in an order in
// which every other value is defined before it is used.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/import/ImportState.h"
#include "compiler/import/OnnxModel.h"

namespace hpu::importer {

struct GraphFaults {
  std::vector<Issue> issues;
  std::set<std::string> lost;  ///< Names that are undefined, ambiguous, in a cycle or of an impossible shape.
};

/// Faults of the whole graph: duplicate and undefined names, cycles, missing outputs, bad dimensions.
/// Sorts the nodes of `model` topologically (the order of independent nodes is kept; those of a cycle
/// and behind it come last).
GraphFaults checkGraph(OnnxModel& model);

}  // namespace hpu::importer
