// SPDX-License-Identifier: Apache-2.0
// Resolves chains of view ops (reshape, transpose, slice, expand) to strided windows of a base value.
// The one thing to know: a value that does not resolve needs an hpu.relayout first.
#pragma once

#include <optional>

#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Value.h"

namespace hpu::ir {

/// Elements of `base` (in its own dense physical order) that a value consists of.
struct StridedView {
  mlir::Value base;
  int64_t offset = 0;  ///< Elements from the base's first one.
  llvm::SmallVector<int64_t> sizes, strides;
};

/// On a unit: the strides of each result that is not dense (an empty list for one that is), as the phase memory writes
/// them for a result that is part of a larger buffer.
inline constexpr const char* kStridesAttr = "hpu.strides";

/// A whole base value: its sizes and its strides, those of kStridesAttr or dense ones.
StridedView baseView(mlir::Value value);

/// The strides that make sizes/strides look like `shape`, row-major: possible when every group of old dims that is
/// merged is contiguous among itself.
std::optional<llvm::SmallVector<int64_t>> reshapeStrides(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides,
                                                         llvm::ArrayRef<int64_t> shape);

/// The view that `op` (a view op) makes of `in`, or nullopt when strides cannot express it.
std::optional<StridedView> applyView(mlir::Operation* op, const StridedView& in);

/// Follows view ops from `value` down to a function argument, a constant or a unit's result.
std::optional<StridedView> resolveView(mlir::Value value);

/// True when the view covers its elements densely in row-major order from offset 0 on.
bool isDenseRowMajor(const StridedView& view);

}  // namespace hpu::ir
