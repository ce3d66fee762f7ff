// SPDX-License-Identifier: Apache-2.0
// GraphLowering: a GraphDescription as an hpu::Graph, with the sizes and types of every tensor.
// The one thing to know: every faulty node is reported, a line each; nodes that only lack a faulty one's result are
// not.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"
#include "hpu/graph.h"
#include "hpu/status.h"

namespace hpu::synapse {

struct LoweredGraph {
  std::unique_ptr<Graph> graph;
  std::vector<int32_t> inputs, outputs;  ///< Tensor indices in the order of the graph's inputs and outputs.
  std::vector<size_t> inputRanks;        ///< Of the graph's inputs: a tensor with gaps is all of its memory.
  /// By tensor index: sizes in SynapseAI's order and synDataType, inferred or declared. No sizes: nothing says.
  std::vector<std::optional<std::vector<uint64_t>>> sizes;
  std::vector<uint32_t> types;
  std::string log;
};

/// Of a graph that is lowered for several sizes of its inputs, which must come to the same ops.
struct ChangingSizes {
  std::vector<std::vector<uint64_t>> largest;  ///< By tensor, how large its sizes get; empty: nothing says.
};

/// `actualSizes` by tensor index, or empty: CompileRequest::actualSizes.
/// `inferenceOnly`: no outputs are needed, and a tensor without value or section counts as given.
/// `changing`: no op may be chosen by a size; must live until this returns.
/// Errors: the code that all faulty nodes share (kUnimplemented, kResourceExhausted ...), else kInvalidArgument.
StatusOr<LoweredGraph> lowerGraph(const GraphDescription& graph, const std::vector<std::vector<uint64_t>>& actualSizes,
                                  bool inferenceOnly, const ChangingSizes* changing = nullptr);

}  // namespace hpu::synapse
