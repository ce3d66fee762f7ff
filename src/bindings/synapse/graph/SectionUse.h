// SPDX-License-Identifier: Apache-2.0
// SectionUse: which nodes use the same bytes of a section, one of them writing, and whether their order is said.
// The one thing to know: what counts are the bytes of each tensor's elements at its largest sizes: tensors with strides
// may lie between each other's elements.
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// Two nodes that use bytes [begin, end) of a section; `first` was created before `second`.
struct SectionConflict {
  size_t first = 0, second = 0;  ///< Indices into GraphDescription::nodes.
  int32_t firstTensor = kNoTensor, secondTensor = kNoTensor;
  bool firstWrites = false, secondWrites = false;  ///< At least one.
  uint64_t begin = 0, end = 0;                     ///< The first bytes that both use.
};

/// All pairs of different nodes, ordered or not, and of the tensors by which they meet.
std::vector<SectionConflict> sectionConflicts(const GraphDescription& graph);

/// That such nodes have an order, by data or by control dependencies. A node that reads what the section held before
/// the launch, and was created before the node that writes there, has one: it reads first. Errors: kInvalidArgument,
/// naming the nodes, the tensors and the bytes of each pair that has none.
Status checkSectionOrder(const GraphDescription& graph);

}  // namespace hpu::synapse
