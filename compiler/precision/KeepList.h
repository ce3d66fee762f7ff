// SPDX-License-Identifier: Apache-2.0
// KeepList: the ops and nodes that a user keeps in f32 when the rest becomes narrow, by the op's mnemonic or by the
// node's name. (What keeps f32 by itself says so through HpuOp::getNarrowing.)
#pragma once

#include <set>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "mlir/IR/Operation.h"

namespace hpu::precision {

class KeepList {
 public:
  explicit KeepList(const std::vector<std::string>& names) : names_(names.begin(), names.end()) {}
  bool contains(mlir::Operation* op) const;

 private:
  std::set<std::string> names_;
};

/// kInvalidArgument for the first name that is neither an op of the hpu dialect nor a node below `root`, with the names
/// that are nearest to it. To be asked while every node of the model is there: before the phase normalize.
Status checkKeepList(mlir::Operation* root, const std::vector<std::string>& names);

}  // namespace hpu::precision
