// SPDX-License-Identifier: Apache-2.0
// Which physical order each unit wants for its results: the algebra of the layout phase.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Operation.h"

namespace hpu::layout {

using Order = llvm::SmallVector<int64_t>;

/// Logical NCHW stored channels-last.
Order channelsLast();
Order rowMajor(int64_t rank);
/// Dims sorted by stride, largest first; dims of size 1 and ties keep their logical order.
Order orderOfStrides(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides);

/// The op of a unit that fixes its index space: the MME op, the reduction, the window op, or null.
mlir::Operation* rootOf(mlir::Operation* unit);

/// The operand of a unit whose elements its result has but for those that the unit stores (a scatter's data); null of
/// other units, which write all of their results.
mlir::OpOperand* updatedBy(mlir::Operation* unit);

/// The order that result `index` of a unit should have, given that its operands' orders are settled.
Order preferredOrder(mlir::Operation* unit, unsigned index);

}  // namespace hpu::layout
