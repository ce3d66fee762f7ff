// SPDX-License-Identifier: Apache-2.0
// tensorBytes: what a tensor takes in memory when it is dense.
// The one thing to know: the shape must be static.
#pragma once

#include <cstdint>

#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"

namespace hpu::ir {

/// Of one element of a tensor.
inline int64_t elementBytes(mlir::RankedTensorType type) {
  return elementSize(elementType(type.getElementType()));
}
inline int64_t tensorBytes(mlir::Type type) {
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  return tensor.getNumElements() * elementBytes(tensor);
}
inline int64_t tensorBytes(mlir::Value value) {
  return tensorBytes(value.getType());
}

}  // namespace hpu::ir
