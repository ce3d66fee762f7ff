// SPDX-License-Identifier: Apache-2.0
// Between tensors and MLIR's element attributes.
// The one thing to know: large constants are resources whose blob is the tensor's own memory, so neither
// direction copies them; a tensor read from a resource is valid as long as the context.
#pragma once

#include "compiler/interp/Tensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace hpu::interp {

/// Constants of at most this many elements are plain dense attributes, so that IR prints nicely.
inline constexpr int64_t kInlineElements = 64;

/// The elements of a constant: of a resource without a copy. Errors: kInvalidArgument (a kind of
/// attribute or element type that we do not have, a resource without data or of another size).
StatusOr<Tensor> tensorOf(mlir::ElementsAttr value);

/// A dense attribute, or for more than kInlineElements elements a resource named `name` (made unique)
/// that keeps the tensor's memory alive.
mlir::ElementsAttr attributeOf(mlir::MLIRContext* context, const Tensor& tensor, llvm::StringRef name);

/// The tensor type of a static ranked type; kInvalidArgument for free dimensions or unknown elements.
StatusOr<TensorType> concreteType(mlir::Type type);
/// A row-major ranked type of the tensor's shape.
mlir::RankedTensorType mlirType(mlir::MLIRContext* context, const TensorType& type);

}  // namespace hpu::interp
