// SPDX-License-Identifier: Apache-2.0
// KeepList: which ops stay in f32 when the rest becomes narrow: a default list for each precision and
// what the user adds, by the op's mnemonic or by the node's name.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "hpu/types.h"
#include "mlir/IR/Operation.h"

namespace hpu::precision {

/// Mnemonics that keep f32 operands and results. Positions lose their value beyond 256 in bf16, so
/// functions of them stay; so do logarithms of probabilities. f16 adds what leaves its range: powers,
/// exponentials, reciprocals, and sums.
const std::vector<std::string>& defaultKeepF32(Precision precision);

class KeepList {
 public:
  KeepList(Precision precision, const std::vector<std::string>& added);
  /// Why the op stays in f32: "kept by default", "kept as asked"; null when it does not.
  const char* reason(mlir::Operation* op);
  /// Entries of the user that are no op of the dialect and met no node.
  std::vector<std::string> unknown(mlir::MLIRContext* context) const;

 private:
  const std::vector<std::string>& defaults_;
  std::set<std::string> added_, met_;
};

}  // namespace hpu::precision
