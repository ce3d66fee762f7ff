// SPDX-License-Identifier: Apache-2.0
// Ops of the user's own: functions in MLIR, or kernels in object code, that stand for nodes of an ONNX model
// (docs/custom-ops.md).
// The one thing to know: a function is a pattern. For each node it is converted anew, from the types of the node's
// operands, so one function serves all sizes; its ops are fused, priced and traced as those of the node.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/import/Importer.h"
#include "compiler/import/NodeContext.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::importer {

/// The version of the form that files declare: `module attributes {hpu.custom_ops = 1 : i64}`.
inline constexpr int64_t kCustomOpsVersion = 1;

class CustomOps {
 public:
  /// Errors: those of reading a file, kFailedPrecondition (another version), kInvalidArgument, naming file and
  /// function.
  static StatusOr<CustomOps> load(mlir::MLIRContext& context, const std::vector<std::string>& paths);
  CustomOps();
  ~CustomOps();
  CustomOps(CustomOps&&) noexcept;

  bool has(llvm::StringRef domain, llvm::StringRef op) const { return find(domain, op) != nullptr; }
  /// Sets the outputs of a node of an op that there is; what is wrong is recorded.
  void convert(NodeContext& node) const;

 private:
  struct Op;
  struct Arguments;
  struct File;
  Status addOp(const File& file, mlir::func::FuncOp function);
  const Op* find(llvm::StringRef domain, llvm::StringRef op) const;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<Op> ops_;
};

}  // namespace hpu::importer
