// SPDX-License-Identifier: Apache-2.0
// The module of the program whose ops a thread records: what traces call their work.
// The one thing to know: a scope is part of a graph's key, so that graphs of equal structure keep their names apart; it
// is set while a profiler asks for names, else no one sets it.
#pragma once

#include <cstdint>
#include <string>

#include "hpu_torch/api.h"

namespace hpu_torch {

/// Of the calling thread; empty: none. "layer1.0.conv1".
HPU_TORCH_API void setScope(const std::string& name);
int64_t currentScope();                ///< A number for it; 0: none.
std::string scopeName(int64_t scope);  ///< Any thread.

}  // namespace hpu_torch
