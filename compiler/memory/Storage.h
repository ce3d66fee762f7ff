// SPDX-License-Identifier: Apache-2.0
// Which results of units share bytes: parts of a concatenation that are written where it lies, results that replace a
// dying operand, and the live range of what they share.
// The one thing to know: a *storage* is a block of HBM that the planner moves as a whole; each result is a window of
// one, dense from its start on unless `hpu.strides` on its unit says otherwise.
#pragma once

#include <string>
#include <vector>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "plan/Planner.h"
#include "shape/SymInt.h"

namespace hpu::memory {

struct Storage {
  plan::Buffer live;                       ///< Bytes, first step that writes it, last step that reads it.
  shape::SymInt bytes = 0;                 ///< `live.bytes`, with its expression.
  int64_t output = -1;                     ///< It is this output of the function; -1: workspace.
  llvm::SmallVector<mlir::Value> members;  ///< Results that lie in it; empty when it was merged into another one.
};

struct Window {
  size_t storage = 0;
  shape::SymInt offset = 0;  ///< Elements from the storage's start.
};

struct StorageOptions {
  bool share = true;  ///< false: every result has its own storage.
  /// Concatenations are written in place only while what is alive together stays below this (or below what it was).
  int64_t liveSetGoal = 0;
};

struct StoragePlan {
  std::vector<mlir::Operation*> units;  ///< In program order; a step is an index into them.
  llvm::DenseMap<mlir::Operation*, int64_t> step;
  llvm::MapVector<mlir::Value, Window> windows;  ///< By result of a unit.
  std::vector<Storage> storages;
  int64_t concatsInPlace = 0;  ///< Concatenations of which nothing is copied.
  int64_t partsInPlace = 0, partsCopied = 0;
  int64_t resultsInPlace = 0;      ///< Results that take the place of an operand.
  std::vector<std::string> notes;  ///< A line for each part that is copied and why, and each result in place.
};

/// Live ranges, then sharing. Sets `hpu.strides` on the units whose results are parts of a larger storage.
StoragePlan planStorages(mlir::func::FuncOp function, const StorageOptions& options);

/// The last step that reads a unit's result through any view; its own step when nobody does. `step` numbers units.
llvm::DenseMap<mlir::Value, int64_t> lastReads(mlir::func::FuncOp function,
                                               const llvm::DenseMap<mlir::Operation*, int64_t>& step);

/// Whether a result of `unit` may be written over `operand`, point by point: every op of the unit that reads it does so
/// at the point that it writes (or, for a softmax or norm, within the row), and nothing else of the unit reads those
/// bytes. Strides and live ranges are not looked at.
bool readsWhereItWrites(mlir::Operation* unit, mlir::OpOperand& operand);

}  // namespace hpu::memory
