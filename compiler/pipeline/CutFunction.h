// SPDX-License-Identifier: Apache-2.0
// CutFunction: which ops of a function with loops and branches run between which of these.
// The one thing to know: flow op k runs behind segment k and ahead of segment k + 1; an op is in the first segment that
// has its operands. What follows from constants is in no segment: it is made again where it is read.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace hpu::pipeline {

class CutFunction {
 public:
  explicit CutFunction(mlir::func::FuncOp function);

  mlir::func::FuncOp function() const { return function_; }
  mlir::Block& block() const { return function_->getRegion(0).front(); }
  llvm::ArrayRef<mlir::Operation*> flows() const { return flows_; }
  llvm::ArrayRef<mlir::Operation*> segment(unsigned k) const { return segments_[k]; }
  /// The value is made again wherever it is read.
  static bool isCopied(mlir::Value value);
  /// Values that the ops of segment k read and do not make, in the order of the reads.
  llvm::SmallVector<mlir::Value> readsOf(unsigned k) const;
  /// An op of segment k makes it.
  bool isOf(mlir::Value value, unsigned k) const;
  /// ... and an op that is not in the segment reads it, which may be the return.
  bool isHandedOn(mlir::Value value, unsigned k) const;

 private:
  mlir::func::FuncOp function_;
  llvm::SmallVector<mlir::Operation*> flows_;
  llvm::SmallVector<llvm::SmallVector<mlir::Operation*>> segments_;
  llvm::DenseMap<mlir::Operation*, unsigned> segmentOf_;
};

/// A module whose `main` takes `inputs` and returns `results`, which copies of `ops` make.
mlir::OwningOpRef<mlir::ModuleOp> makePiece(const std::string& name, mlir::Location location,
                                            llvm::ArrayRef<mlir::Value> inputs, llvm::ArrayRef<mlir::Operation*> ops,
                                            llvm::ArrayRef<mlir::Value> results);

}  // namespace hpu::pipeline
