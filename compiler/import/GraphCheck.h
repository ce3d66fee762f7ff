// SPDX-License-Identifier: Apache-2.0
// Checks a model's graph before anything is built: names, order, declared types.
// The one thing to know: all faults are found at once; on success the nodes are in an order in which
// every value is defined before it is used.
#pragma once

#include <vector>

#include "compiler/import/ImportState.h"
#include "compiler/import/OnnxModel.h"

namespace hpu::importer {

/// Faults of the whole graph: duplicate and undefined names, cycles, missing outputs, bad dimensions.
/// Sorts the nodes of `model` topologically (the order of independent nodes is kept).
std::vector<Issue> checkGraph(OnnxModel& model);

}  // namespace hpu::importer
