// SPDX-License-Identifier: Apache-2.0
// Chained units: a unit's result that stays in SRAM until its only reader, the next unit, has used it up.
// The one thing to know: both units are cut into as many slices, and slice i of the reader reads just what slice i of
// the producer writes, so the result never exists as a whole: it lies in a ring of a few tiles.
//
//   %0 = hpu.bundle (...) {hpu.chain = array<i64: 1, 2>, tile = ...}   // two tiles, cut along dimension 1
#pragma once

#include <optional>

#include "compiler/layout/Views.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace hpu::ir {

/// On a unit: [dim, slots] of its only result. One slot is all of the result; then the units are not sliced together.
inline constexpr const char* kChainAttr = "hpu.chain";

struct ChainLink {
  int64_t dim = 0, slots = 0;
  /// The units take turns, slice by slice.
  bool interleaved() const { return slots > 1; }
};
std::optional<ChainLink> chainOf(mlir::Operation* unit);
void setChain(mlir::Operation* unit, ChainLink link);

/// Element strides of a tensor of which only slices along `dim` exist: dense, with `dim` the slowest. They do not
/// depend on how large a slice is.
SymInts symSlicedStrides(mlir::RankedTensorType type, int64_t dim);

/// The view `value` of `base` (a result that is not dense, but has these strides); nullopt when strides cannot say it
/// for all sizes.
std::optional<SymView> resolveOver(mlir::Value value, mlir::Value base, llvm::ArrayRef<shape::SymInt> strides);

/// The dimension of a view of all elements that is the slowest in memory, whatever the sizes are; nullopt when it is no
/// such view.
std::optional<int64_t> slowestDim(const SymView& view);

/// The only unit that reads the unit's only result, through views; null when there is none, and why.
mlir::Operation* onlyReader(mlir::Operation* unit, std::string* why = nullptr);

/// The dimension of the reader's index space that follows dimension `dim` of what `producer` makes, for all sizes:
/// whoever cuts both there, in the same proportion, has slices that depend on one slice each, as far as the kernels'
/// reads allow.
std::optional<int64_t> followingDim(mlir::Operation* producer, int64_t dim, mlir::Operation* reader);

/// By unit of a function, numbered in program order: the first and the last unit that it takes turns with.
struct Turn {
  int64_t first = 0, last = 0;
};
llvm::SmallVector<Turn> turnsOf(llvm::ArrayRef<mlir::Operation*> units);

}  // namespace hpu::ir
