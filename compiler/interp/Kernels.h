// SPDX-License-Identifier: Apache-2.0
// The families of ops that the interpreter evaluates, one function and one file each; internal.
// The one thing to know: operands have passed type inference, so shapes fit; each function returns the
// result, or nothing when the op is of another family.
#pragma once

#include <optional>

#include "compiler/interp/Tensor.h"
#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/Operation.h"
#include "shape/DimExpr.h"

namespace hpu::interp {

using Evaluated = std::optional<StatusOr<Tensor>>;

/// Unary, binary, comparison, selection, cast, batch_norm.
Evaluated evaluateElementwise(mlir::Operation* op, llvm::ArrayRef<Tensor> inputs);
/// Reductions, softmax, layer and instance norm.
Evaluated evaluateReduction(mlir::Operation* op, llvm::ArrayRef<Tensor> inputs);
/// Pooling and resize. `bindings` size the free dims.
Evaluated evaluateWindow(mlir::Operation* op, llvm::ArrayRef<Tensor> inputs, const shape::SymbolBindings& bindings);
/// matmul, conv2d, conv_transpose2d.
Evaluated evaluateMme(mlir::Operation* op, llvm::ArrayRef<Tensor> inputs);
/// reshape, transpose, slice, expand, concat, pad, gather, relayout. `bindings` size the free dims.
Evaluated evaluateMovement(mlir::Operation* op, llvm::ArrayRef<Tensor> inputs, const shape::SymbolBindings& bindings);

/// Sizes of the named free dims from the bindings; what remains free is ShapedType::kDynamic.
Shape bindShape(llvm::ArrayRef<int64_t> sizes, std::optional<mlir::ArrayAttr> symbols,
                const shape::SymbolBindings& bindings);
/// A tensor of zeros after checkSize.
StatusOr<Tensor> makeTensor(ElementType element, const Shape& shape);
/// All elements widened to double.
std::vector<double> toDoubles(const Tensor& tensor);
/// NumPy broadcasting of concrete shapes; nullopt when they do not fit.
std::optional<Shape> broadcast(llvm::ArrayRef<Tensor> inputs);

}  // namespace hpu::interp
