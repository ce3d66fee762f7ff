// SPDX-License-Identifier: Apache-2.0
// Which ops and commands of a program write its outputs, and which of them last.
// The one thing to know: an output is done when its last writers are, perhaps long before the
// program ends.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/CommandRef.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// The outputs that an op writes, by index; each once. The program must be verified.
std::vector<uint32_t> outputsWritten(const Program& program, const Op& op);

/// By output: the last command of each queue that writes it; empty for one that nothing writes (it
/// has no elements). The program must be verified.
std::vector<std::vector<CommandRef>> lastWriters(const Program& program);

}  // namespace hpu::recipe
