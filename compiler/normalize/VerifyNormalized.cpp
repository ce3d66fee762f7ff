// SPDX-License-Identifier: Apache-2.0
// The post-condition of normalize: what the later phases rely on not to meet.
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "compiler/normalize/ViewFacts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

bool hasKnownLoc(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) return llvm::any_of(fused.getLocations(), hasKnownLoc);
  return !isa<UnknownLoc>(loc);
}

/// Why the op must not be there; empty when it is fine.
std::string objection(Operation* op) {
  if (isIdentityView(op)) return "changes nothing and should have been removed";
  if (isStackedView(op)) return "should have been merged with the same op below it";
  if (auto norm = dyn_cast<BatchNormOp>(op)) {
    bool constant = llvm::all_of(ValueRange{norm.getScale(), norm.getBias(), norm.getMean(), norm.getVariance()},
                                 [](Value v) { return floatsOf(v).has_value(); });
    if (constant) return "has constant statistics and should have been folded";
  }
  if (!hasKnownLoc(op->getLoc())) return "has an unknown location";
  return {};
}

struct VerifyNormalizedPass : PassWrapper<VerifyNormalizedPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyNormalizedPass)
  StringRef getArgument() const final { return "hpu-verify-normalized"; }
  StringRef getDescription() const final { return "Proves the post-condition of the phase normalize"; }
  void runOnOperation() override {
    bool failed = false;
    for (Operation& op : getOperation().getBody().front().without_terminator()) {
      std::string text = objection(&op);
      if (text.empty()) continue;
      op.emitOpError(text);
      failed = true;
    }
    if (failed) signalPassFailure();
    markAllAnalysesPreserved();
  }
};

}  // namespace

std::unique_ptr<Pass> createVerifyNormalizedPass() {
  return std::make_unique<VerifyNormalizedPass>();
}

}  // namespace hpu::normalize
