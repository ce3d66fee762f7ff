// SPDX-License-Identifier: Apache-2.0
// tensorOf: the tensor type of a value, which every value of the hpu dialect has.
// The one thing to know: it asserts that; ask mlir::dyn_cast where a value may be another's.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace hpu::ir {

inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

}  // namespace hpu::ir
