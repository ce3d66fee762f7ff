// SPDX-License-Identifier: Apache-2.0
// The phase fuse: groups the ops of a function into units (bundles and clusters).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Operation.h"

namespace mlir {
class Pass;
}

namespace hpu::fuse {

struct FuseOptions {
  bool group = true;  ///< false: one op a unit (-O0).
  /// Whether the TPC ops can be one kernel; `why` says why not. The kernel compiler's own test.
  std::function<bool(llvm::ArrayRef<mlir::Operation*>, std::string*)> canFormKernel;
  std::string* report = nullptr;   ///< A line a unit, if wanted.
  std::string* summary = nullptr;  ///< "212 -> 41 units (12 MME+TPC ...)".
};

std::unique_ptr<mlir::Pass> createFusePass(FuseOptions options);
/// hpu-split-reductions, ahead of it: reductions of much to little in two steps, so that all TPCs take part.
std::unique_ptr<mlir::Pass> createSplitReductionsPass();
/// hpu-split-orders, likewise: the first of few long rows are found among the first of their parts, as many as keep
/// all TPCs of the target busy.
std::unique_ptr<mlir::Pass> createSplitOrdersPass(int64_t numTpcs);
/// Post-condition: everything at function level is a unit, a view, a constant or the terminator.
std::unique_ptr<mlir::Pass> createVerifyFusedPass();

// ---- The three parts, for the pass and its tests -----------------------------------------------------

/// A set of ops that will be one unit. `root` is the op that fixes the index space (an MME op, a reduction,
/// a window op), or null while only elementwise ops are in it.
struct Group {
  llvm::SmallVector<mlir::Operation*> ops;  ///< In program order.
  mlir::Operation* root = nullptr;
  mlir::Operation* horizon = nullptr;  ///< What stands ahead of it cannot depend on the group.
  bool contains(mlir::Operation* op) const { return llvm::is_contained(ops, op); }
};

/// The group of each op that has one. A unit runs as a whole, so what depends on one member waits for all.
using Membership = llvm::DenseMap<mlir::Operation*, const Group*>;

/// Legality: can `op` join, without a cycle through the units around it and as part of one kernel?
bool canJoin(const Group& group, mlir::Operation* op, const Membership& units, const FuseOptions& options,
             std::string* why);
/// Profitability: does joining save device time? Where something flows between them.
bool worthJoining(const Group& group, mlir::Operation* op, std::string* why);

}  // namespace hpu::fuse
