// SPDX-License-Identifier: Apache-2.0
// Random models for tests of the phases, and an executor that believes nothing but addresses.
#pragma once

#include <random>
#include <vector>

#include "compiler/interp/Tensor.h"
#include "hpu/status.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

namespace hpu::test {

/// A module with a function @main of up to `ops` ops over small f32 tensors: elementwise ones, matrix products,
/// convolutions, pooling, softmax, reductions, concatenation and every view. The same seed gives the same module.
mlir::OwningOpRef<mlir::ModuleOp> randomModule(mlir::MLIRContext& context, unsigned seed, int ops);

/// Inputs for @main, from -2 to 2.
std::vector<interp::Tensor> randomInputs(mlir::func::FuncOp function, unsigned seed);

/// Runs a function after the phase memory as the device would: every unit reads its operands from the bytes that
/// views and addresses name, and writes its results to theirs; the workspace starts as noise.
StatusOr<std::vector<interp::Tensor>> runByAddress(mlir::func::FuncOp function,
                                                   const std::vector<interp::Tensor>& inputs);

}  // namespace hpu::test
