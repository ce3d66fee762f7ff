// SPDX-License-Identifier: Apache-2.0
// Shape rules that a node on data and its twin on shape tensors share. Failures go to the context.
#pragma once

#include <vector>

#include "bindings/synapse/lowering/Lowering.h"

namespace hpu::synapse {

/// perm[d]: which dim of the operand is dim d of the result.
std::vector<int64_t> transposeParams(NodeContext& c, int64_t rank);
Shape expandDimsShape(NodeContext& c, const Shape& from);
Shape squeezeShape(NodeContext& c, const Shape& from);
Shape flattenShape(NodeContext& c, const Shape& from);
/// The lengths of a split's results along `axis`, from their declared sizes; one that says nothing gets the rest.
/// `sums`: together they must be the operand's.
std::vector<int64_t> splitSizes(NodeContext& c, const Shape& from, int64_t axis, bool sums);

}  // namespace hpu::synapse
