// SPDX-License-Identifier: Apache-2.0
// ValueBounds: operands of nodes that a compilation knows bounds of, and a launch the values.
// The one thing to know: bounds are those of an address, not an order: a maximum may be below its minimum, and all
// maxima together may be a place outside of a tensor. Nothing is computed with them.
#pragma once

#include "bindings/synapse/graph/GraphDescription.h"

namespace hpu::synapse {

/// Whether the tensor is a host-to-device tensor whose value is two: maxima, then minima.
bool hasValueBounds(const TensorDescription& tensor);

/// Whether a node of the graph knows bounds only: of such a tensor, of strides or an offset that shape tensors of free
/// sizes say, or of pieces of a split whose largest sizes do not sum.
bool readsBounds(const GraphDescription& graph, const NodeDescription& node);
bool readsBounds(const GraphDescription& graph);

}  // namespace hpu::synapse
