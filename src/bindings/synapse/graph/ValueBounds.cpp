// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/ValueBounds.h"

#include <algorithm>

#include "bindings/synapse/graph/GuidList.h"
#include "bindings/synapse/graph/MemoryLayout.h"

namespace hpu::synapse {
namespace {

constexpr uint32_t kHostToDeviceTensor = 6;

}  // namespace

bool hasValueBounds(const TensorDescription& tensor) {
  if (tensor.type != kHostToDeviceTensor || !tensor.hostData || tensor.maxSizes.empty()) return false;
  const uint64_t bytes = bytesOf(tensor.maxSizes, tensor.hostType ? tensor.hostType : tensor.dataType);
  return bytes > 0 && tensor.hostData->size() == 2 * bytes;
}

bool readsBounds(const GraphDescription& graph, const NodeDescription& node) {
  StatusOr<ParsedGuid> guid = parseGuid(node.guid);
  const bool isStrided = guid.ok() && (guid->info->name == "strided_view" || guid->info->name == "strided_insert");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoTensor) continue;
    const TensorDescription& tensor = graph.tensors[static_cast<size_t>(node.inputs[i])];
    if (hasValueBounds(tensor)) return true;
    if (isStrided && i >= 2 && !tensor.minSizes.empty() && tensor.minSizes != tensor.maxSizes) return true;
  }
  return false;
}

bool readsBounds(const GraphDescription& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const NodeDescription& node) { return readsBounds(graph, node); });
}

}  // namespace hpu::synapse
