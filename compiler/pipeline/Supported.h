// SPDX-License-Identifier: Apache-2.0
// What the engines cannot do, found on the retyped graph and reported all at once with the nodes' names, before any
// phase that would meet one of them alone.
#pragma once

#include <vector>

#include "hpu/compiler.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::arch {
struct TargetDesc;
}

namespace hpu::pipeline {

/// OK, or kUnimplemented with a line a node; those are appended to `unsupported` too (if not null).
Status checkSupported(mlir::func::FuncOp function, const arch::TargetDesc& target,
                      std::vector<UnsupportedNode>* unsupported);

}  // namespace hpu::pipeline
