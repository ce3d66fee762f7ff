// SPDX-License-Identifier: Apache-2.0
// FreeSizes: a graph whose tensors have least and largest sizes as an hpu::Graph of free dimensions.
// The one thing to know: nodes are lowered for fixed sizes; here the whole graph is lowered for several, and what
// differs has to follow from the free dimensions (hpu/size_examples.h). Where it does not, the graph is
// one that has a program for each of its sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bindings/synapse/lowering/GraphLowering.h"
#include "hpu/types.h"

namespace hpu::synapse {

struct FreeGraph {
  LoweredGraph lowered;                     ///< Its graph has free dimensions; its sizes are the largest ones.
  std::map<std::string, DimBounds> bounds;  ///< Of all of them.
  /// By tensor index, for tensors that no node produces: by dimension in SynapseAI's order the free dimension that it
  /// is, "" for one of fixed size. Empty where all are fixed.
  std::vector<std::vector<std::string>> dims;
};

/// Sizes that differ between minSizes and maxSizes are free, and are one dimension where the graph only fits together
/// when they are equal. `all`: every size but 0 and 1 of what no node produces is free, whatever its bounds, and
/// results follow. Errors: kUnimplemented with the reason, or what is wrong with the graph at its largest sizes.
StatusOr<FreeGraph> lowerFree(const GraphDescription& graph, bool all);

}  // namespace hpu::synapse
