// SPDX-License-Identifier: Apache-2.0
// Kernels in object code that stand for nodes: what a function without a body says of one (docs/custom-ops.md).
#pragma once

#include <string>
#include <vector>

#include "compiler/import/NodeContext.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::importer {

/// The attributes of hpu.native, as a function has them.
struct NativeCode {
  std::string object, objectV4, entry;
  mlir::AffineMap sizes;
  Ints reads, whole;
  std::vector<double> cost;
  int64_t scratchBytes = 0;
};

/// Reads the attributes and the object files, which lie in the folder of the file `path`, and links them once. Errors:
/// kInvalidArgument (an attribute, code that cannot be a kernel), those of reading a file.
StatusOr<NativeCode> readNativeCode(mlir::func::FuncOp function, const std::string& path);

/// The op of a node; null after a failure, which is the node's.
Value placeNative(NodeContext& node, const std::string& name, mlir::func::FuncOp function, const NativeCode& code,
                  const std::vector<Value>& operands, const Ints& params);

}  // namespace hpu::importer
