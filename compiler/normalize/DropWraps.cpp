// SPDX-License-Identifier: Apache-2.0
// Indices may count from the end, so importers choose between an index and the index plus the size. Of indices that are
// never negative (places of a search, of the largest elements) the choice goes, and with it the size, which is a
// kernel's result where it is known at launch only. Where sizes are fixed, recipes stay as they are.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

/// So many ops are looked through.
constexpr int kMostSteps = 64;

bool startsAtLeastAtZero(RangeOp op) {
  const SymDim start = namedShape(op.getStarts(), op.getStartSymbols())[0];
  if (const auto expr = exprOf(start)) return expr->interval(sizeBounds(op)).low >= 0;
  return false;
}

bool areNeverNegative(Value value, int& steps);

bool allNeverNegative(ValueRange values, int& steps) {
  return llvm::all_of(values, [&](Value value) { return areNeverNegative(value, steps); });
}

/// Whether no element of an integer tensor is below 0, as far as the ops that make it tell.
bool areNeverNegative(Value value, int& steps) {
  auto type = dyn_cast<IntegerType>(tensorOf(value).getElementType());
  Operation* def = value.getDefiningOp();
  if (!type || !def || ++steps > kMostSteps) return false;
  if (type.getWidth() == 1 || type.isUnsigned()) return true;
  if (constantOf(value)) {
    const std::optional<double> number = splatOf(value);
    return number && *number >= 0;
  }
  if (isa<TopIndicesOp, ArgMaxOp>(def)) return true;
  if (auto range = dyn_cast<RangeOp>(def)) {
    // Of numbers that a narrow integer may not have, what is left is any.
    return type.getWidth() >= 32 && range.getSteps()[0] >= 0 && startsAtLeastAtZero(range);
  }
  if (auto cast = dyn_cast<CastOp>(def)) {
    auto from = dyn_cast<IntegerType>(tensorOf(cast.getX()).getElementType());
    if (!from || !areNeverNegative(cast.getX(), steps)) return false;
    // An unsigned number may have the bit that is a sign in as many bits.
    return from.isUnsigned() ? from.getWidth() < type.getWidth() : from.getWidth() <= type.getWidth();
  }
  if (auto choice = dyn_cast<WhereOp>(def)) return allNeverNegative({choice.getA(), choice.getB()}, steps);
  if (auto scatter = dyn_cast<ScatterElementsOp>(def))
    return scatter.getMode() == ScatterMode::replace &&
           allNeverNegative({scatter.getData(), scatter.getUpdates()}, steps);
  if (isa<GatherOp, GatherElementsOp>(def)) return areNeverNegative(def->getOperand(0), steps);
  if (isa<ConcatOp, MinOp, DivOp>(def)) return allNeverNegative(def->getOperands(), steps);
  if (auto remainder = dyn_cast<ModOp>(def)) return areNeverNegative(remainder.getRhs(), steps);  // As its sign is.
  if (isa<ReshapeOp, TransposeOp, SliceOp, ExpandOp>(def)) return areNeverNegative(def->getOperand(0), steps);
  return false;
}

/// where(x < 0, anything, x).
struct DropWrap : OpRewritePattern<WhereOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(WhereOp op, PatternRewriter& rewriter) const override {
    auto less = op.getCondition().getDefiningOp<LessOp>();
    if (!less || less.getLhs() != op.getB() || splatOf(less.getRhs()) != 0.0 || op.getType() != op.getB().getType())
      return rewriter.notifyMatchFailure(op, "no choice by an index's sign");
    if (!dependsOnSamples(op, tensorOf(op.getResult()))) return rewriter.notifyMatchFailure(op, "its sizes are fixed");
    int steps = 0;
    if (!areNeverNegative(op.getB(), steps)) return rewriter.notifyMatchFailure(op, "the index may be negative");
    rewriter.replaceOp(op, op.getB());
    return success();
  }
};

}  // namespace

void populateDropWrapPatterns(RewritePatternSet& patterns) {
  patterns.add<DropWrap>(patterns.getContext());
}

}  // namespace hpu::normalize
