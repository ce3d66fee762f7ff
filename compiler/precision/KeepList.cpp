// SPDX-License-Identifier: Apache-2.0
#include "compiler/precision/KeepList.h"

#include "compiler/support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;

namespace hpu::precision {

const std::vector<std::string>& defaultKeepF32(Precision precision) {
  static const std::vector<std::string> none;
  static const std::vector<std::string> bf16 = {"sin", "cos", "log_softmax", "batch_norm"};
  static const std::vector<std::string> f16 = {"sin", "cos", "log_softmax", "batch_norm", "exp",
                                               "log", "pow", "reciprocal",  "reduce_sum", "reduce_prod"};
  if (precision == Precision::kF32) return none;
  return precision == Precision::kF16 ? f16 : bf16;
}

KeepList::KeepList(Precision precision, const std::vector<std::string>& added)
    : defaults_(defaultKeepF32(precision)), added_(added.begin(), added.end()) {}

const char* KeepList::reason(Operation* op) {
  std::string mnemonic = op->getName().stripDialect().str();
  if (!added_.empty()) {
    if (added_.count(mnemonic)) return met_.insert(mnemonic), "kept as asked";
    for (const ir::SourceName& name : ir::sourceNames(op->getLoc()))
      if (added_.count(name.node)) return met_.insert(name.node), "kept as asked";
  }
  return llvm::is_contained(defaults_, mnemonic) ? "kept by default" : nullptr;
}

std::vector<std::string> KeepList::unknown(MLIRContext* context) const {
  std::vector<std::string> names;
  for (const std::string& name : added_)
    if (!met_.count(name) && !RegisteredOperationName::lookup("hpu." + name, context)) names.push_back(name);
  return names;
}

}  // namespace hpu::precision
