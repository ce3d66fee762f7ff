// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/LoneNodes.h"

#include <map>

#include "bindings/synapse/lowering/GraphLowering.h"

namespace hpu::synapse {

std::optional<Shapes> LoneNodes::infer(size_t n, const Shapes& inputs, const Shapes& results) {
  if (++asked_ > kMostAsked) return std::nullopt;
  GraphDescription alone;
  alone.target = graph_.target;
  alone.inference = graph_.inference;
  alone.nodes.push_back(graph_.nodes[n]);
  NodeDescription& node = alone.nodes.front();
  node.after.clear();
  std::map<int32_t, int32_t> moved;
  auto move = [&](std::vector<int32_t>& operands, const Shapes& sizes, bool isResult) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == kNoTensor) continue;
      auto [at, isNew] = moved.try_emplace(operands[i], static_cast<int32_t>(alone.tensors.size()));
      const auto t = static_cast<size_t>(operands[i]);
      operands[i] = at->second;
      if (!isNew) continue;
      TensorDescription& tensor = alone.tensors.emplace_back(graph_.tensors[t]);
      const bool isValue = tensor.section == kNoSection || graph_.sections[tensor.section].isConst ||
                           !graph_.sections[tensor.section].persistent;
      if (!isValue || isResult) tensor.hostData = nullptr;
      tensor.section = kNoSection;
      if (!tensor.hostData) tensor.strides.clear();
      tensor.permutation.clear();
      if (tensor.dataType == 0) tensor.dataType = (*types_)[t];
      tensor.maxSizes = tensor.minSizes = sizes[i];
    }
  };
  move(node.inputs, inputs, false);
  move(node.outputs, results, true);
  const ChangingSizes examples;
  StatusOr<LoweredGraph> lowered = lowerGraph(alone, {}, /*inferenceOnly=*/true, changing_ ? &examples : nullptr);
  if (!lowered.ok()) {
    why_ = Status(StatusCode::kUnimplemented, lowered.status().message());
    return std::nullopt;
  }
  Shapes found;
  for (int32_t t : node.outputs)
    found.push_back(t == kNoTensor ? Dims() : lowered->sizes[static_cast<size_t>(t)].value_or(Dims()));
  return found;
}

}  // namespace hpu::synapse
