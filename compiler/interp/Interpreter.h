// SPDX-License-Identifier: Apache-2.0
// The reference interpreter of the hpu dialect: the oracle for folding, for tests and for hpu-verify.
// The one thing to know: floats of every type are computed in double and each op's result is rounded once
// to its element type; tensors are logical and row-major, whatever layout a type carries.
//
//   HPU_ASSIGN(auto outputs, interp::evaluateFunction(function, inputs));
#pragma once

#include <functional>

#include "compiler/interp/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Operation.h"
#include "shape/DimExpr.h"

namespace hpu::interp {

/// Sees each result of each op, also of ops inside of bundles and clusters, in program order.
using Observer = std::function<void(mlir::Operation* op, unsigned result, const Tensor& value)>;

/// The results of one op of the dialect. `bindings` gives the sizes of named free dimensions. A failure
/// is reported as a diagnostic of the op.
mlir::FailureOr<llvm::SmallVector<Tensor>> evaluateOp(mlir::Operation* op, llvm::ArrayRef<Tensor> inputs,
                                                      const shape::SymbolBindings& bindings = {},
                                                      const Observer& observer = {});

/// Runs a function with one block. Free dimensions of its arguments take the sizes of the inputs. Values
/// are released after their last use. Errors: kInvalidArgument (inputs that do not fit, a failing op; the
/// message names the node), kResourceExhausted. Thread-safe for different contexts.
StatusOr<std::vector<Tensor>> evaluateFunction(mlir::func::FuncOp function, const std::vector<Tensor>& inputs,
                                               const Observer& observer = {});

/// About how many elements the interpreter goes through for the op (static shapes), each multiplication of a product as
/// an eighth: what folding is limited by.
int64_t foldingWork(mlir::Operation* op);

/// Evaluates the ops of a straight-line range whose operands are all in `values` or made by the range;
/// adds every result to `values`. What folding uses.
mlir::LogicalResult evaluateRange(mlir::Block::iterator begin, mlir::Block::iterator end,
                                  llvm::DenseMap<mlir::Value, Tensor>& values,
                                  const shape::SymbolBindings& bindings = {});

}  // namespace hpu::interp
