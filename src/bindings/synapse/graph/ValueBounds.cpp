// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/ValueBounds.h"

#include <algorithm>
#include <cstring>

#include "bindings/synapse/graph/GuidList.h"
#include "bindings/synapse/graph/MemoryLayout.h"

namespace hpu::synapse {
namespace {

constexpr uint32_t kHostToDeviceTensor = 6;

bool isFree(const TensorDescription& tensor) {
  return !tensor.minSizes.empty() && tensor.minSizes != tensor.maxSizes;
}

/// Whether the largest pieces of a split are more, or less, than there is of its operand.
bool hasOpenPieces(const GraphDescription& graph, const NodeDescription& node) {
  uint32_t axis = 0;
  if (node.inputs.empty() || node.inputs[0] == kNoTensor || node.params.size() < sizeof axis) return false;
  std::memcpy(&axis, node.params.data(), sizeof axis);
  const TensorDescription& whole = graph.tensors[static_cast<size_t>(node.inputs[0])];
  if (axis >= whole.maxSizes.size()) return false;
  bool isAnyFree = false;
  unsigned __int128 total = 0;
  for (int32_t t : node.outputs) {
    if (t == kNoTensor) return false;
    const TensorDescription& piece = graph.tensors[static_cast<size_t>(t)];
    if (piece.maxSizes.size() != whole.maxSizes.size()) return false;
    isAnyFree |= isFree(piece);
    total += piece.maxSizes[axis];
  }
  return isAnyFree && total != whole.maxSizes[axis];
}

}  // namespace

bool hasValueBounds(const TensorDescription& tensor) {
  if (tensor.type != kHostToDeviceTensor || !tensor.hostData || tensor.maxSizes.empty()) return false;
  const uint64_t bytes = bytesOf(tensor.maxSizes, tensor.hostType ? tensor.hostType : tensor.dataType);
  return bytes > 0 && tensor.hostData->size() == 2 * bytes;
}

bool readsBounds(const GraphDescription& graph, const NodeDescription& node) {
  StatusOr<ParsedGuid> guid = parseGuid(node.guid);
  const bool isStrided = guid.ok() && (guid->info->name == "strided_view" || guid->info->name == "strided_insert");
  if (guid.ok() && guid->info->name == "split" && hasOpenPieces(graph, node)) return true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoTensor) continue;
    const TensorDescription& tensor = graph.tensors[static_cast<size_t>(node.inputs[i])];
    if (hasValueBounds(tensor)) return true;
    if (isStrided && i >= 2 && isFree(tensor)) return true;
  }
  return false;
}

bool readsBounds(const GraphDescription& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const NodeDescription& node) { return readsBounds(graph, node); });
}

}  // namespace hpu::synapse
