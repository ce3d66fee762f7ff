// SPDX-License-Identifier: Apache-2.0
// LoneNodes: what sizes the results of one node of a graph have, for any sizes of its operands.
// The one thing to know: the node is lowered in a graph of its own, which takes about a fifth of a millisecond.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"
#include "hpu/status.h"

namespace hpu::synapse {

using Dims = std::vector<uint64_t>;  ///< In SynapseAI's order.
using Shapes = std::vector<Dims>;    ///< By operand or by tensor; empty: to be inferred.

class LoneNodes {
 public:
  explicit LoneNodes(const GraphDescription& graph) : graph_(graph) {}

  /// By tensor, its synDataType; has to outlive the calls of infer.
  void setTypes(const std::vector<uint32_t>* types) { types_ = types; }
  /// Whether sizes are examples (ChangingSizes); they are unless this says otherwise.
  void setChanging(bool changing) { changing_ = changing; }

  /// Sizes of a node's results for those of its operands; nullopt: it refuses them, and why() says it.
  std::optional<Shapes> infer(size_t node, const Shapes& inputs, const Shapes& results);

  const Status& why() const { return why_; }  ///< kUnimplemented, of the last one that was refused.
  /// Whether so many were asked that all are refused from now on.
  bool isTired() const { return asked_ > kMostAsked; }

 private:
  static constexpr size_t kMostAsked = 20000;

  const GraphDescription& graph_;
  const std::vector<uint32_t>* types_ = nullptr;
  bool changing_ = true;
  Status why_;
  size_t asked_ = 0;
};

}  // namespace hpu::synapse
