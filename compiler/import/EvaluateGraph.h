// SPDX-License-Identifier: Apache-2.0
// Runs an hpu::Graph through the reference interpreter; for tools, free of MLIR.
// The one thing to know: the observer names results by the node of the source model that they come from.
//
//   HPU_ASSIGN(auto outputs, interp::evaluateGraph(graph, inputs));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/interp/Tensor.h"
#include "hpu/graph.h"

namespace hpu::interp {

/// One result of the graph while it runs.
struct NodeResult {
  std::string node;    ///< As in the source model; a node may give several results one after another.
  std::string source;  ///< The source model's op: "Conv".
  std::string op;      ///< Ours: "conv2d".
};

using GraphObserver = std::function<void(const NodeResult&, const Tensor&)>;

/// The outputs of the graph for `inputs` in the order of graph.inputs(). Errors as evaluateFunction.
/// Constants are not shown to the observer. Calls for one graph run one after another.
StatusOr<std::vector<Tensor>> evaluateGraph(const Graph& graph, const std::vector<Tensor>& inputs,
                                            const GraphObserver& observer = {});

}  // namespace hpu::interp
