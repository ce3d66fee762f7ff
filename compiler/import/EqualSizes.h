// SPDX-License-Identifier: Apache-2.0
// Free dimensions that a model asks to be equal though they have two names, "seq" of one input and "mask_len" of
// another; sizes that were made one by a reshape are each joined with their own. The one thing to know: they have one
// representative, so the model's operands fit together; a guard makes launches check it, and later phases know one of
// the names only.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "shape/DimExpr.h"

namespace hpu::importer {

class EqualSizes {
 public:
  /// What elementwise ops, products and joins of the function ask.
  explicit EqualSizes(mlir::func::FuncOp main);
  /// Free dimensions that the model joins with a number other than 1, by name; the first one where it has several.
  std::map<std::string, int64_t> fixed() const;
  /// The one that stands for it: the first by name of those that are equal.
  std::string standFor(std::string name) const;
  /// Writes down the pairs of names that both are among `sizes`.
  void record(mlir::ModuleOp module, const shape::SymbolBindings& sizes) const;

 private:
  struct Finder;
  std::map<std::string, std::string> same_;
  std::map<std::string, int64_t> numbers_;  ///< By name, of what operands ask.
};

/// What record() has written down.
std::vector<std::pair<std::string, std::string>> equalSizes(mlir::ModuleOp module);

/// Sizes of the inputs that are among equalSizes() get the name that `same` has for them.
void renameInputs(mlir::ModuleOp module, const std::map<std::string, std::string>& same);
/// The names that an input's sizes were declared with, "" for numbers, where renameInputs has given them others; else
/// null. Launches say their sizes by these.
mlir::ArrayAttr declaredSizes(mlir::ModuleOp module, llvm::StringRef input);

}  // namespace hpu::importer
