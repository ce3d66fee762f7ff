// SPDX-License-Identifier: Apache-2.0
// What memory a command reads and writes: its op's operands, narrowed to its slice where the op's meaning
// says which elements a slice touches.
// The one thing to know: narrowing is conservative. A TPC input is narrowed only inside a bundle, where
// ops are elementwise over the index space; elsewhere a kernel may read any of it.
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

/// Appends the accesses of a command of a verified program, except to sections that nobody writes
/// (constants, inputs). A packed weight is a constant, so packing needs no care.
void appendAccesses(const Program& program, const Command& command, std::vector<Access>& accesses);

/// All operands of an op: those that it reads, then those that it writes.
void appendOperands(const Op& op, std::vector<const Operand*>& reads,
                    std::vector<const Operand*>& writes);

}  // namespace hpu::recipe
