// SPDX-License-Identifier: Apache-2.0
// Casts and additions of values in const sections, done when the graph is compiled.
// The one thing to know: the tensor that had the operand's value has the result's afterwards, with its type and sizes,
// so a section is as large as what the device reads of it, and programs upload that.
#pragma once

#include "bindings/synapse/graph/GraphDescription.h"

namespace hpu::synapse {

/// Leaves nodes that it has nothing to do with, or that the compiler will complain of, as they are.
void foldConstants(GraphDescription& graph);

}  // namespace hpu::synapse
