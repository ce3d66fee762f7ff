// SPDX-License-Identifier: Apache-2.0
// What a kernel costs on a TPC, read from its vector-level IR.
// The one thing to know: a value is counted as often as it is computed when the kernel runs over
// its whole index space, in 256-byte vectors, divided by the number of index-space points.
#pragma once

#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "recipe/Recipe.h"
#include "shape/SymInt.h"

namespace hpu::kernels {

/// An access to a TPC's local memory holds its slot for one cycle, one to global memory for four; both are counted
/// in accesses to global memory.
inline constexpr double kLocalAccess = 0.25;

/// A part of what a kernel costs over its whole index space: so many issue slots, times the product of the trips.
struct CostTerm {
  recipe::TpcCost slots;
  std::vector<shape::SymInt> trips;  ///< No constants.
};

/// Costs of the only function of `module` (the output of emitKernel), per index-space point:
/// - loads, stores: accesses of a vector register; 8-byte elements count twice, 2-byte ones half, those marked
///   kLocalAttr so many kLocalAccess.
/// - vectorOps: arithmetic, compares, selects and conversions of vectors, likewise by element size. What a TPC has one
///   instruction for counts once (VectorMath::asOneInstruction; a comparison that only selects); scalars are operands
///   of vector instructions as they are. Division and square root count 8 (the TPC iterates on a table look-up), an
///   integer division 32.
/// - scalarOps: arithmetic, loads and stores of scalars, one for each loop iteration; a vector whose lanes are read at
/// a
///   stride is 64 of them. Indices and addresses are not counted.
recipe::TpcCost kernelCost(mlir::ModuleOp module, double points);
/// The same over the whole index space, whatever its sizes are; `trips`: what emitKernel has filled in.
std::vector<CostTerm> kernelCostTerms(mlir::ModuleOp module, llvm::ArrayRef<shape::SymInt> trips);

}  // namespace hpu::kernels
