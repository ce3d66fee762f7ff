// SPDX-License-Identifier: Apache-2.0
// An op whose operands are all constants becomes a constant, computed by the reference interpreter.
// The one thing to know: views of large constants stay symbolic, because the phase layout turns
// them into strides of the packed weights.
#include "compiler/dialect/hpu/TensorBytes.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "compiler/support/Cancellation.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

/// Views of constants up to this size are folded: what is this small is not worth a stride.
constexpr int64_t kSmallViewBytes = 64 << 10;

/// Why folding would cost more than it gains; null when it is worth it.
const char* objection(Operation* op, int64_t maxFoldedBytes) {
  int64_t result = tensorBytes(op->getResult(0).getType()), operands = 0;
  for (Type type : op->getOperandTypes()) operands += tensorBytes(type);
  if (result > maxFoldedBytes && result >= operands) return "the constant would be too large";
  if (isa<TransposeOp>(op) && result > kSmallViewBytes) return "a transposed weight stays a view";
  if (isa<ExpandOp>(op) && result > operands && result > kSmallViewBytes) return "an expanded constant stays a view";
  return nullptr;
}

struct FoldConstantOp : OpInterfaceRewritePattern<HpuOp> {
  FoldConstantOp(MLIRContext* context, int64_t maxFoldedBytes, std::shared_ptr<int64_t> budget,
                 std::shared_ptr<int64_t> work)
      : OpInterfaceRewritePattern(context),
        maxFoldedBytes_(maxFoldedBytes),
        budget_(std::move(budget)),
        work_(std::move(work)) {}

  LogicalResult matchAndRewrite(HpuOp op, PatternRewriter& rewriter) const override {
    const bool isFolded = op->getNumOperands() > 0 || isa<RangeOp>(op);
    if (op->getNumResults() != 1 || !isFolded || op->getNumRegions() != 0 || isa<ReshapeOp>(op))
      return rewriter.notifyMatchFailure(op, "not a folded kind of op");
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || !type.hasStaticShape() || dependsOnSamples(op, type))
      return rewriter.notifyMatchFailure(op, "the result has sizes that are given late");
    for (Value operand : op->getOperands())
      if (!constantOf(operand)) return rewriter.notifyMatchFailure(op, "an operand is not constant");
    if (support::isCancelled()) return rewriter.notifyMatchFailure(op, "the compilation was cancelled");
    if (const char* why = objection(op, maxFoldedBytes_)) return rewriter.notifyMatchFailure(op, why);
    // The data of constants that others have replaced lives as long as the context does.
    const int64_t bytes = tensorBytes(type);
    const int64_t work = interp::foldingWork(op);
    if (bytes > *budget_ || work > *work_)
      return rewriter.notifyMatchFailure(op, "enough has been folded in this function");
    *work_ -= work;
    SmallVector<interp::Tensor> inputs;
    for (Value operand : op->getOperands()) {
      StatusOr<interp::Tensor> tensor = interp::tensorOf(constantOf(operand).getValue());
      if (!tensor.ok()) return rewriter.notifyMatchFailure(op, tensor.status().message());
      inputs.push_back(*tensor);
    }
    // An op that cannot be evaluated (an index outside, say) stays and fails where it is run.
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic&) { return success(); });
    FailureOr<SmallVector<interp::Tensor>> results = interp::evaluateOp(op, inputs);
    if (failed(results)) return rewriter.notifyMatchFailure(op, "the interpreter refuses it");
    *budget_ -= bytes;
    ElementsAttr value = interp::attributeOf(op->getContext(), results->front(), "folded");
    rewriter.replaceOpWithNewOp<ConstantOp>(op, type, value);
    return success();
  }
  int64_t maxFoldedBytes_;
  std::shared_ptr<int64_t> budget_;  ///< Bytes that may still be made.
  std::shared_ptr<int64_t> work_;    ///< What the interpreter may still do (interp::foldingWork).
};

}  // namespace

void populateFoldConstantPatterns(RewritePatternSet& patterns, int64_t maxFoldedBytes, int64_t modelBytes) {
  constexpr int64_t kFoldBudget = int64_t{1} << 30, kFoldWork = int64_t{1} << 25;
  patterns.add<FoldConstantOp>(patterns.getContext(), maxFoldedBytes,
                               std::make_shared<int64_t>(kFoldBudget + 4 * modelBytes),
                               std::make_shared<int64_t>(kFoldWork + 8 * modelBytes));
}

}  // namespace hpu::normalize
