// SPDX-License-Identifier: Apache-2.0
// Seeds of random node types, as compose/Random.h takes them.
#pragma once

#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Random.h"

namespace hpu::synapse {

using compose::keptMask;
using compose::RandomWords;
using compose::randomWords;
using compose::uniformOf;

/// The seed as randomWords takes it: operand `input` if the node has it, else `otherwise`.
Value seedOf(NodeContext& c, size_t input, uint32_t otherwise);

}  // namespace hpu::synapse
