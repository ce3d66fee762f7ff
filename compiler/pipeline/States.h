// SPDX-License-Identifier: Apache-2.0
// CompileOptions::states on a module: which input and output of the function are one tensor in memory, and how large.
#pragma once

#include <map>
#include <string>

#include "hpu/status.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::pipeline {

/// Marks the pairs (dialect/hpu/States.h), after sizes are known or have bounds. Errors: kInvalidArgument (no such
/// input or output, types that differ, a size without a bound, a tensor in two pairs).
Status bindStates(mlir::func::FuncOp function, const std::map<std::string, std::string>& states);

/// After the phase precision: a state that is converted when it is read, and converted back when it is returned, has
/// the narrower type in memory.
void narrowStates(mlir::func::FuncOp function);

}  // namespace hpu::pipeline
