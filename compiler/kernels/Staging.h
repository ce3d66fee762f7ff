// SPDX-License-Identifier: Apache-2.0
// What a TPC's local memory does for operands that are read again and again: the elements that several taps of a window
// meet, and small tables (a bias, a norm's scale) that serve many rows. Each is brought in and widened once, and read
// from there. The one thing to know: this is how the TPC's code is priced; host code reads its operands directly,
// since a CPU's cache does the same.
#pragma once

#include "compiler/kernels/KernelPlan.h"
#include "recipe/Recipe.h"

namespace hpu::kernels {

/// Local memory that is kept free for tables.
inline constexpr int64_t kTableBytes = 16 * 1024;

/// Whether a load is one of those, and what it brings in fits local memory.
bool isStaged(const KernelPlan& plan, int prim);

/// Whether a staged load stays as narrow as it is: it only feeds sums of narrow products.
bool isStagedNarrow(const KernelPlan& plan, int prim);

/// Of the reads that `outputs` neighbours along the plan's windowDim make through a staged load, the part that differs:
/// the rest is still in registers.
double differentReads(const KernelPlan& plan, int prim, int64_t outputs);

/// What bringing in the staged loads costs over the whole index space, in the units of recipe::TpcCost but not a
/// point: global loads, conversions, and stores to local memory.
recipe::TpcCost stagingCost(const PlannedKernel& kernel);

}  // namespace hpu::kernels
