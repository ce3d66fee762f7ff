// SPDX-License-Identifier: Apache-2.0
// A reduction of much to little in two steps: TPCs share results, not what a result is made of, so the pooling of a
// whole image by few channels would keep most of them idle.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/fuse/Fuse.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::fuse {
namespace {

/// Two registers for each TPC of the largest target are enough results to share.
constexpr int64_t kEnoughResults = 2 * 64 * 64;
/// A second kernel is not worth its launch for less.
constexpr int64_t kMuchReduced = 256;

/// The result of a sum's first step is f32 whatever the tensors are: it is rounded once, as a sum in one step is.
template <typename Op>
void split(Op op) {
  auto from = cast<RankedTensorType>(op.getX().getType());
  auto to = cast<RankedTensorType>(op.getType());
  Type element = from.getElementType();
  // A mean of integers is truncated: a mean of such means is another number.
  if (isa<ReduceMeanOp>(op) && !isa<FloatType>(element)) return;
  SmallVector<int64_t> axes;
  int64_t reduced = 1;
  for (int64_t axis : op.getAxes())
    if (from.getDimSize(axis) > 1) {
      axes.push_back(axis);
      reduced *= from.getDimSize(axis);
    }
  llvm::sort(axes);  // A model may name them in any order; the outermost one stays for the second step.
  if (axes.size() < 2 || reduced < kMuchReduced || to.getNumElements() >= kEnoughResults) return;
  SmallVector<int64_t> shape(from.getShape()), rest(ArrayRef<int64_t>(axes).drop_front());
  for (int64_t axis : rest) shape[axis] = 1;

  OpBuilder builder(op);
  auto step = [&](Value x, ArrayRef<int64_t> sizes, Type stored, DenseI64ArrayAttr over, BoolAttr keepdims) -> Value {
    auto type = RankedTensorType::get(sizes, stored);
    if constexpr (requires { op.getTo(); }) {
      const bool isOther = stored != cast<RankedTensorType>(x.getType()).getElementType();
      return Op::create(builder, op.getLoc(), type, x, over, keepdims, isOther ? TypeAttr::get(stored) : TypeAttr());
    } else {
      return Op::create(builder, op.getLoc(), type, x, over, keepdims);
    }
  };
  constexpr bool kSums = requires { op.getTo(); };
  const bool isNarrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  Value partial = step(op.getX(), shape, kSums && isNarrow ? builder.getF32Type() : element,
                       builder.getDenseI64ArrayAttr(rest), builder.getBoolAttr(true));
  op.replaceAllUsesWith(step(partial, to.getShape(), to.getElementType(), op.getAxesAttr(), op.getKeepdimsAttr()));
  op.erase();
}

struct SplitReductionsPass : PassWrapper<SplitReductionsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitReductionsPass)
  StringRef getArgument() const final { return "hpu-split-reductions"; }
  StringRef getDescription() const final { return "Reductions of much to little in two steps"; }
  void runOnOperation() override {
    for (Operation& op : llvm::make_early_inc_range(getOperation().getBody().front()))
      TypeSwitch<Operation*>(&op).Case<ReduceMeanOp, ReduceSumOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp>(
          [](auto reduction) { split(reduction); });
  }
};

}  // namespace

std::unique_ptr<Pass> createSplitReductionsPass() {
  return std::make_unique<SplitReductionsPass>();
}

}  // namespace hpu::fuse
