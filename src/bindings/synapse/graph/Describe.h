// SPDX-License-Identifier: Apache-2.0
// From graph objects to the plain data that is compiled, and its structural key.
// The one thing to know: a description has the tensors and sections that nodes use, in the order of their
// first use, so that graphs built in another order but of one structure are equal.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/Hash.h"
#include "bindings/synapse/graph/GraphDescription.h"
#include "bindings/synapse/graph/MemoryLayout.h"
#include "bindings/synapse/graph/Objects.h"
#include "hpu/status.h"

namespace hpu::synapse {

struct DescribedGraph {
  GraphDescription graph;
  std::vector<std::shared_ptr<TensorObject>> tensors;     ///< By index into graph.tensors.
  std::vector<std::optional<base::Hash128>> valueHashes;  ///< By tensor: of its hostData, where it is known.
  bool dynamic = false;                                   ///< A tensor has free sizes.
};

/// The mutex of the graph is held. Values in caller's memory are copied. Errors: kInvalidArgument (a section
/// with an offset for nothing, a value of the wrong size ...), each naming the tensor.
StatusOr<DescribedGraph> describe(GraphObject& graph);

/// Equal for graphs that compile to the same program: names, ids, groups of sections and addresses do not
/// count. With `names`, those of nodes and tensors do. `valueHashes`: DescribedGraph's; other values are hashed here.
/// Without `sizes` also for graphs whose sizes differ, but in which ones are 0 or 1 and in those of values.
base::Hash128 structureKey(const GraphDescription& graph, bool names,
                           const std::vector<std::optional<base::Hash128>>& valueHashes = {}, bool sizes = true);

/// Elements of the largest tensor; the bytes that it takes, with what its strides leave out. Saturates at UINT64_MAX.
uint64_t maxElements(const TensorDescription& tensor);
uint64_t maxBytes(const TensorDescription& tensor);
bool isDynamic(const TensorDescription& tensor);
bool isShapeTensor(const TensorDescription& tensor);

}  // namespace hpu::synapse
