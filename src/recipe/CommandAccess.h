// SPDX-License-Identifier: Apache-2.0
// What memory a command reads and writes: its op's operands, narrowed to its slice where the op's meaning
// says which elements a slice touches.
// The one thing to know: narrowing is conservative. A TPC input is narrowed as `KernelReads` says; without
// that only inside a bundle, where ops are elementwise over the index space.
#pragma once

#include <vector>

#include "recipe/MemoryBox.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

struct Access {
  MemoryBox box;
  bool write = false;
  bool ring = false;
};

/// What a kernel reads along one dimension of an input for the point i of its index space: elements
/// scale * i[dim] + low to scale * i[dim] + high, as far as there are any. dim < 0: maybe all.
struct DimRead {
  int32_t dim = -1;
  int64_t scale = 0, low = 0, high = 0;
  bool operator==(const DimRead&) const = default;
};
/// By input and its dimension.
using InputReads = std::vector<std::vector<DimRead>>;
/// By kernel. The compiler knows this; it is not part of a recipe.
using KernelReads = std::vector<InputReads>;

/// Appends the accesses of a command of a verified program, except to sections that nobody writes
/// (constants, inputs). A packed weight is a constant, so packing needs no care.
void appendAccesses(const Program& program, const Command& command, std::vector<Access>& accesses,
                    const KernelReads* reads = nullptr);

/// All operands of an op: those that it reads, then those that it writes.
void appendOperands(const Op& op, std::vector<const Operand*>& reads, std::vector<const Operand*>& writes);

/// Operand `number` of an op, counted inputs first (Patch): a, b, c of an MME op, src, dst of a copy, dst of a fill;
/// null when it has fewer.
const Operand* operandAt(const Op& op, uint32_t number);
Operand* operandAt(Op& op, uint32_t number);

}  // namespace hpu::recipe
