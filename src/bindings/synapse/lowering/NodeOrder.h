// SPDX-License-Identifier: Apache-2.0
// The order in which a graph's nodes take effect: data and control dependencies first, then creation.
#pragma once

#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// Indices into graph.nodes. A node that reads and writes one tensor reads what was there before.
/// Errors: kInvalidArgument for a cycle, a tensor that two nodes write, an index outside of graph.tensors, an
/// unknown id in NodeDescription::after; the message names the nodes.
StatusOr<std::vector<size_t>> orderNodes(const GraphDescription& graph);

}  // namespace hpu::synapse
