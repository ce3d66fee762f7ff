// SPDX-License-Identifier: Apache-2.0
// Ops with bodies: units, loops and branches; internal to the interpreter.
#pragma once

#include "compiler/interp/Interpreter.h"

namespace hpu::interp {

using FlowResults = mlir::FailureOr<llvm::SmallVector<Tensor>>;

/// What the terminator of a straight-line block reads, for these arguments. Values are dropped after their last use.
FlowResults evaluateBlock(mlir::Block& block, llvm::ArrayRef<Tensor> arguments, const shape::SymbolBindings& bindings,
                          const Observer& observer);

/// Units, hpu.loop and hpu.if; rows that a loop collects of iterations that do not run are zeros. nullopt: the op is
/// another one.
std::optional<FlowResults> evaluateFlow(mlir::Operation* op, llvm::ArrayRef<Tensor> inputs,
                                        const shape::SymbolBindings& bindings, const Observer& observer);

}  // namespace hpu::interp
