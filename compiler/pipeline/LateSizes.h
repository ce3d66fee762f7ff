// SPDX-License-Identifier: Apache-2.0
// What the pipeline does for sizes that are given late, from import to the recipe (docs/architecture.md).
// The one thing to know: begin() looks whether the module has such sizes; if not, nothing else is called.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "arch/TargetDesc.h"
#include "compiler/import/NamedSizes.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/pipeline/Pipeline.h"
#include "hpu/compiler.h"
#include "hpu/status.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "recipe/Recipe.h"

namespace mlir {
class OpPassManager;
}

namespace hpu::pipeline {

class LateSizes {
 public:
  explicit LateSizes(const CompileOptions& options) : options_(options) {}

  /// On the module as import leaves it: finds what its operands ask of each other, and the sizes that `tile` and later
  /// phases choose for. Errors: kUnimplemented for IR that a later phase has left, and those of NamedSizes.h.
  Status begin(mlir::ModuleOp module, Phase first);
  bool isUsed() const { return !samples_.empty(); }

  /// A copy that has the sizes which later phases choose for, in place of representatives.
  StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> sized(mlir::ModuleOp module) const;
  /// Ahead of `tile`: gives the module those sizes, and finds how smaller and larger ones would be cut; `addTile` adds
  /// the phase.
  Status bind(mlir::ModuleOp module, llvm::function_ref<void(mlir::OpPassManager&)> addTile);
  /// After it: writes on the units how these sizes have them cut, the largest ones last.
  void recordTiles(mlir::ModuleOp module) const;
  /// Completes the program that `emit` has made, and tries it at the ends of its bounds. Errors: kInternal when an
  /// instance does not verify, and those of emit::dynamicOf.
  Status complete(mlir::ModuleOp module, const arch::TargetDesc& target, recipe::Program& program) const;

  std::vector<kernels::SymbolicFacts> kernels;  ///< By kernel; the phase kernels fills it.

 private:
  using Sizes = std::map<std::string, int64_t>;
  /// Slices along each dimension of every unit, by its number; empty when units are not those that were numbered.
  using Slices = std::vector<llvm::SmallVector<int64_t>>;
  Slices slicesOf(mlir::ModuleOp module) const;

  const CompileOptions& options_;
  std::vector<importer::SizeGuard> guards_;
  Sizes samples_;  ///< That phases choose for.
  Sizes largest_;
  std::vector<std::pair<Sizes, Slices>> others_;  ///< By rising product, the largest sizes last.
  size_t units_ = 0;                              ///< That are numbered.
};

}  // namespace hpu::pipeline
