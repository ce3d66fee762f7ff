// SPDX-License-Identifier: Apache-2.0
// What everything that multiplies two tensors and sums up does with operands of different types.
#pragma once

#include "bindings/synapse/lowering/Lowering.h"

namespace hpu::synapse {

/// Casts a, the node's input ia, and b to one type: of two different floats f32, which has the numbers of both; of two
/// integers the wider one. A failure for a float and an integer.
bool inOneType(NodeContext& c, Value& a, size_t ia, Value& b, size_t ib);

}  // namespace hpu::synapse
