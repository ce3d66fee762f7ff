// SPDX-License-Identifier: Apache-2.0
// Computes an op on a finer shape of its result: the step that all moves of reshapes are made of. The one
// thing to know: the values and their order stay, so a reshape of the new result is the old one.
#pragma once

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/normalize/DimGroups.h"
#include "mlir/IR/PatternMatch.h"

namespace hpu::normalize {

/// As many dims as a recipe's operands have (recipe::kMaxRank).
inline constexpr size_t kMaxDims = 8;

/// Runs on an engine, as opposed to views, constants and arguments (`op` null).
bool isDeviceOp(mlir::Operation* op);
/// An elementwise op that treats all dims alike.
bool isPointwise(mlir::Operation* op);
/// A softmax or a layer norm.
bool isRowOp(mlir::Operation* op);

/// Whether `op` can be computed with its result's dims split as `groups` says: its shapes are static, and what it sums
/// or normalises over, or multiplies by a matrix, stays in one dim each.
bool canSplit(mlir::Operation* op, const DimGroups& groups);

/// The same op on the finer shape, ahead of `op`; operands become reshapes at `loc` where they need it. `op` remains.
mlir::Value splitOp(mlir::PatternRewriter& rewriter, mlir::Operation* op, const DimGroups& groups, mlir::Location loc);

}  // namespace hpu::normalize
