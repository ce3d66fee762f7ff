// SPDX-License-Identifier: Apache-2.0
// Tensors that a launch changes in place: an argument and a result of the function that are one piece of memory.
// The one thing to know: it is dense for its capacity, not for the sizes of the argument or result, so that rows keep
// their places while these grow.
#pragma once

#include <optional>

#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::ir {

/// On a module: by name of an input, what it is where a launch gives nothing.
inline constexpr llvm::StringLiteral kDefaultsAttr = "hpu.defaults";

/// On an argument the number of the result that is the same memory, on a result that of the argument (i64).
inline constexpr const char* kStateAttr = "hpu.state";
/// On both: the sizes for which it is dense (a DenseI64ArrayAttr).
inline constexpr const char* kCapacityAttr = "hpu.capacity";
/// On a sched.program: its states, each a dictionary of `input`, `output` and `capacity`.
inline constexpr const char* kStatesAttr = "hpu.states";

/// On a unit that updates a state where it lies, as the phase layout decides: the number of the function's result that
/// the state is (i64). Its own result is that state, or what the next such unit updates.
inline constexpr const char* kUpdatesAttr = "hpu.updates";

struct StateMemory {
  unsigned argument = 0, result = 0;
  llvm::ArrayRef<int64_t> capacity;
  llvm::SmallVector<int64_t> strides() const;  ///< Elements.
  int64_t elements() const;
};

std::optional<StateMemory> stateOfArgument(mlir::Value value);
std::optional<StateMemory> stateOfResult(mlir::func::FuncOp function, unsigned result);
/// The state that a unit updates in place (kUpdatesAttr).
std::optional<StateMemory> stateUpdatedBy(mlir::Operation* unit);
/// All of a function, by result.
llvm::SmallVector<StateMemory> statesOf(mlir::func::FuncOp function);
void addState(mlir::func::FuncOp function, unsigned argument, unsigned result, llvm::ArrayRef<int64_t> capacity);

}  // namespace hpu::ir
