// SPDX-License-Identifier: Apache-2.0
// Resolves chains of view ops (reshape, transpose, slice, expand) to strided windows of a base value.
// The one thing to know: a value that does not resolve needs an hpu.relayout first.
#pragma once

#include <optional>

#include "compiler/dialect/hpu/HpuTypes.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Value.h"

namespace hpu::ir {

/// Elements of `base` (in its own dense physical order) that a value consists of.
template <typename Number>
struct BasicView {
  mlir::Value base;
  Number offset = 0;  ///< Elements from the base's first one.
  llvm::SmallVector<Number> sizes, strides;
};
/// At the representatives, where sizes are given late; and with expressions.
using StridedView = BasicView<int64_t>;
using SymView = BasicView<shape::SymInt>;

/// At the representatives.
llvm::SmallVector<int64_t> valuesOf(llvm::ArrayRef<shape::SymInt> numbers);

/// On a unit: the strides of each result that is not dense (an empty list for one that is), as the phase memory writes
/// them for a result that is part of a larger buffer, and layout for one that is a state (dialect/hpu/States.h).
inline constexpr const char* kStridesAttr = "hpu.strides";
/// Beside it, the texts of strides that follow from sizes that are given late ("" for others).
inline constexpr const char* kStrideNamesAttr = "hpu.stride_names";

/// A whole base value: its sizes and its strides, those of kStridesAttr or dense ones.
StridedView baseView(mlir::Value value);
SymView baseSymView(mlir::Value value);

/// The strides that make sizes/strides look like `shape`, row-major: possible when every group of old dims that is
/// merged is contiguous among itself.
std::optional<llvm::SmallVector<int64_t>> reshapeStrides(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides,
                                                         llvm::ArrayRef<int64_t> shape);
std::optional<SymInts> reshapeStrides(llvm::ArrayRef<shape::SymInt> sizes, llvm::ArrayRef<shape::SymInt> strides,
                                      llvm::ArrayRef<shape::SymInt> shape);

/// The view that `op` (a view op) makes of `in`, or nullopt when strides cannot express it.
std::optional<StridedView> applyView(mlir::Operation* op, const StridedView& in);
std::optional<SymView> applyView(mlir::Operation* op, const SymView& in);

/// Follows view ops from `value` down to a function argument, a constant or a unit's result. nullopt also when strides
/// express it at the representatives only.
std::optional<StridedView> resolveView(mlir::Value value);
std::optional<SymView> resolveSymView(mlir::Value value);

/// What a chain of views starts from.
mlir::Value baseOf(mlir::Value value);
/// The strides that the base of `value` needs for `value` to have `strides`: view ops turned round. Only views that
/// show every element of the base can be.
std::optional<SymInts> stridesOfBase(mlir::Value value, SymInts strides);
/// Those of dimensions of size 1 do not matter.
bool sameStrides(llvm::ArrayRef<shape::SymInt> sizes, llvm::ArrayRef<shape::SymInt> a, llvm::ArrayRef<shape::SymInt> b);
/// Writes kStridesAttr and kStrideNamesAttr for a unit's result; no strides: it is dense.
void setStrides(mlir::Value value, llvm::ArrayRef<shape::SymInt> strides);

/// Whether both have as many elements, at all sizes that are given late.
bool haveSameCount(mlir::Value a, mlir::Value b);
/// True when the view covers its elements densely in row-major order from offset 0 on.
bool isDenseRowMajor(const StridedView& view);

}  // namespace hpu::ir
