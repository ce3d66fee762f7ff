// SPDX-License-Identifier: Apache-2.0
// What a TPC's local memory does for window ops: an operand whose elements several taps read is brought in and
// widened once, and read from there. The one thing to know: this is how the TPC's code is priced; host code reads
// its operands directly, since a CPU's cache does the same.
#pragma once

#include "compiler/kernels/KernelPlan.h"
#include "recipe/Recipe.h"

namespace hpu::kernels {

/// Whether the elements of a load are read at least twice, by the taps of a window, and a window of them fits local
/// memory.
bool isStaged(const KernelPlan& plan, int prim);

/// What bringing in the staged loads costs over the whole index space, in the units of recipe::TpcCost but not a
/// point: global loads, conversions, and stores to local memory.
recipe::TpcCost stagingCost(const PlannedKernel& kernel);

}  // namespace hpu::kernels
