// SPDX-License-Identifier: Apache-2.0
// The largest live set of a graph, from the unfused graph alone: it never sees units, buffers or a schedule.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::pipeline {

/// The most bytes that are alive together when the ops of `function` (as after `precision`) run one after another. A
/// value is alive from the op that computes it to the last op that reads it or a view of it; while an op runs, its
/// operands and its result are all alive. A view has no bytes but where no layout could show it through strides:
/// repeated elements that a reshape joins with others (the heads of grouped attention). Inputs, constants and outputs
/// lie in sections of their own and do not count, as they do not count in a recipe's workspace. Each value counts in
/// whole units of the device's alignment (256 bytes).
int64_t largestLiveSetBytes(mlir::func::FuncOp function);

}  // namespace hpu::pipeline
