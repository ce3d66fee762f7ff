// SPDX-License-Identifier: Apache-2.0
// States that scatters update: which of them need no copy, and the order of units that makes this right.
// The one thing to know: a scatter writes over the state as it was, so whatever reads that comes before it, or reads a
// copy that was made before it.
#pragma once

#include <string>

#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/States.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace hpu::layout {

/// A state and the scatters that turn what it was into what it is after the launch, each with the strides that its
/// result has in the state's memory.
struct UpdatedState {
  ir::StateMemory state;
  llvm::SmallVector<std::pair<mlir::Operation*, ir::SymInts>> updates;  ///< In their order.
};

/// The states of a function of units whose new value is the old one but for scatters, each of which updates all of what
/// the one before it has left, through views that keep every element.
llvm::SmallVector<UpdatedState> updatedStates(mlir::func::FuncOp function);

/// Marks the updates (ir::kUpdatesAttr) and gives their results the state's strides. Units that read what an update
/// writes over are moved ahead of it with what they need; where one follows from the update, `copy` is called for the
/// operand by which it reads, and inserts an hpu.relayout of it before its owner.
void updateInPlace(mlir::func::FuncOp function, llvm::ArrayRef<UpdatedState> states,
                   llvm::function_ref<void(mlir::OpOperand&, const std::string& why)> copy);

}  // namespace hpu::layout
