// SPDX-License-Identifier: Apache-2.0
// What a TPC's local memory does for operands that are read again and again: the elements that several taps of a window
// meet, and small tables (a bias, a norm's scale) that serve many rows. Each is brought in and widened once, and read
// from there. The one thing to know: this is how the TPC's code is priced; host code reads its operands directly,
// since a CPU's cache does the same.
#pragma once

#include "compiler/kernels/KernelCost.h"
#include "compiler/kernels/KernelPlan.h"
#include "recipe/Recipe.h"

namespace hpu::kernels {

/// Local memory that is kept free for tables.
inline constexpr int64_t kTableBytes = 16 * 1024;

/// Whether a load's operand serves so many rows that it is a table, and `copies` of it fit.
bool isTable(const KernelPlan& plan, const Prim& load, int64_t copies = 1);

/// Whether a load is one of those, and what it brings in fits local memory.
bool isStaged(const KernelPlan& plan, int prim);

/// Whether the lanes of a load are looked up by a table that names neighbours only (a resize): the row lies in local
/// memory and its elements are shuffled into place.
bool isShuffled(const KernelPlan& plan, int prim);
/// Vector instructions that do so: two shuffles in each half of a register, of two loads that are merged.
inline constexpr double kShuffleInstructions = 4;

/// Of 64 vectors of 64 lanes, turning rows into columns in local memory: six steps of two instructions a vector.
inline constexpr double kTurnInstructions = 12;
/// Whether an access whose lanes lie at a stride meets whole vectors of memory together with its neighbours along
/// another dim, so that a TPC turns them in local memory instead of accessing them one by one.
bool isTurned(const KernelPlan& plan, const Affine& address);

/// Whether a staged load stays as narrow as it is: it only feeds sums of narrow products.
bool isStagedNarrow(const KernelPlan& plan, int prim);

/// With their inputs and weights, so many sums of a window op fit a TPC's 40 vector registers.
inline constexpr int64_t kTpcWindowOutputs = 8;
/// Of the reads that `outputs` neighbours along the dim of a window make through a staged load, the part that differs:
/// the rest is still in registers.
double differentReads(const KernelPlan& plan, int prim, int64_t outputs);

/// What bringing in the staged loads costs over the whole index space, in the units of recipe::TpcCost but not a
/// point: global loads, conversions, and stores to local memory. `terms`: gets the same for all sizes.
recipe::TpcCost stagingCost(const PlannedKernel& kernel, std::vector<CostTerm>* terms = nullptr);

}  // namespace hpu::kernels
