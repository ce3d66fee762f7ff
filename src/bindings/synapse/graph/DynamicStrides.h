// SPDX-License-Identifier: Apache-2.0
// DynamicStrides: the layout of persistent tensors of changing sizes for programs that want each element at one place
// whatever a launch's sizes are (GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS=0).
#pragma once

#include "bindings/synapse/graph/GraphDescription.h"

namespace hpu::synapse {

/// Gives persistent data tensors the strides of their largest sizes, where launches of smaller ones would lie
/// otherwise: not where the slowest size alone changes, nor where strides are given. A memory order becomes strides,
/// too.
void strideByLargest(GraphDescription& graph);

}  // namespace hpu::synapse
