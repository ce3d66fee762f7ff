// SPDX-License-Identifier: Apache-2.0
// shareGraph: a graph for a compilation that goes on beside the program, which may let go of its own.
// The one thing to know: it is the same graph; nobody changes it meanwhile.
#pragma once

#include "hpu/graph.h"

namespace hpu::importer {

/// Errors: kFailedPrecondition (it was moved from).
StatusOr<Graph> shareGraph(const Graph& graph);

}  // namespace hpu::importer
