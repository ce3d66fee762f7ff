// SPDX-License-Identifier: Apache-2.0
// The first elements of few long rows in two steps: a row is one TPC's work, so one of a million elements would keep
// all others idle. Parts of it have as many first elements, and the first ones of the row are among these, whose order
// is that of their places where they are equal.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/fuse/Fuse.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::fuse {
namespace {

/// Shorter parts are not worth two more launches, and parts of which more is picked not worth the second step.
constexpr int64_t kLeastPart = 4096, kPickedOfPart = 16;
/// What ordering a picked element costs beside looking at one.
constexpr int64_t kPick = 64;

/// Into how many equal parts rows of so many elements are cut; 1: they stay whole. TPCs take parts in rounds, and the
/// second step has as many elements as are picked of all parts.
int64_t partsOf(int64_t rows, int64_t size, int64_t count, int64_t tpcs) {
  if (rows < 1 || rows >= tpcs) return 1;
  int64_t best = 1, least = INT64_MAX;
  for (int64_t parts = 2; size / parts >= std::max(kLeastPart, kPickedOfPart * count); ++parts) {
    if (size % parts != 0) continue;
    const int64_t rounds = (rows * parts + tpcs - 1) / tpcs;
    const int64_t cost = rounds * (size / parts + kPick * count) + parts * count;
    if (cost < least) best = parts, least = cost;
  }
  return best;
}

void split(TopIndicesOp op, int64_t tpcs) {
  auto from = cast<RankedTensorType>(op.getX().getType()), to = cast<RankedTensorType>(op.getType());
  constexpr int64_t kMostRank = 7;  // A dim is added.
  if (!from.hasStaticShape() || !to.hasStaticShape() || from.getRank() > kMostRank) return;
  for (const SymDim& dim : symShape(from))
    if (dim.isNamed()) return;
  const auto axis = static_cast<int64_t>(op.getAxis());
  const int64_t size = from.getDimSize(axis), count = to.getDimSize(axis);
  if (count < 1 || symShape(to)[static_cast<size_t>(axis)].isNamed()) return;
  const int64_t parts = partsOf(from.getNumElements() / size, size, count, tpcs);
  if (parts == 1) return;

  OpBuilder builder(op);
  Location loc = op.getLoc();
  Type i64 = builder.getI64Type(), element = from.getElementType();
  auto named = [&](StringRef name, Attribute value) { return builder.getNamedAttr(name, value); };
  auto make = [&](StringRef name, ValueRange operands, ArrayRef<int64_t> sizes, Type type,
                  ArrayRef<NamedAttribute> attributes = {}) {
    OperationState state(loc, ("hpu." + name).str());
    state.addOperands(operands);
    state.addTypes(RankedTensorType::get(sizes, type));
    state.addAttributes(attributes);
    return builder.create(state)->getResult(0);
  };
  auto reshape = [&](Value x, ArrayRef<int64_t> sizes) {
    return make("reshape", x, sizes, cast<RankedTensorType>(x.getType()).getElementType(),
                named("shape", builder.getDenseI64ArrayAttr(sizes)));
  };
  auto firstOf = [&](Value x, ArrayRef<int64_t> sizes, int64_t along) {
    return make("top_indices", x, sizes, i64,
                {named("axis", builder.getI64IntegerAttr(along)), named("sizes", builder.getDenseI64ArrayAttr({count})),
                 named("largest", op.getLargestAttr())});
  };
  auto pick = [&](Value x, Value indices, int64_t along) {
    return make("gather_elements", {x, indices}, cast<RankedTensorType>(indices.getType()).getShape(),
                cast<RankedTensorType>(x.getType()).getElementType(), named("axis", builder.getI64IntegerAttr(along)));
  };
  auto number = [&](int64_t value) {
    auto type = RankedTensorType::get({}, i64);
    return make("constant", {}, {}, i64, named("value", DenseElementsAttr::get(type, value)));
  };
  SmallVector<int64_t> cut(from.getShape()), some(from.getShape()), all(from.getShape());
  cut[axis] = size / parts;
  some[axis] = count;
  all[axis] = parts * count;
  cut.insert(cut.begin() + axis, parts);
  some.insert(some.begin() + axis, parts);
  Value x = reshape(op.getX(), cut);
  Value inPart = firstOf(x, some, axis + 1);
  Value values = reshape(pick(x, inPart, axis + 1), all);
  Value which = firstOf(values, to.getShape(), axis);
  // Of what is picked, place `which` in the row of candidates: those of a part follow one another.
  Value within = pick(reshape(inPart, all), which, axis);
  Value part = make("div", {which, number(count)}, to.getShape(), i64);
  Value start = make("mul", {part, number(size / parts)}, to.getShape(), i64);
  Value result = make("add", {within, start}, to.getShape(), i64);
  for (Operation* user : llvm::make_early_inc_range(op.getResult().getUsers())) {
    auto gather = dyn_cast<GatherElementsOp>(user);
    if (gather && gather.getOperand(0) == Value(op.getX()) && gather.getOperand(1) == Value(op.getResult()) &&
        gather.getAxis() == op.getAxis() && gather.getType() == RankedTensorType::get(to.getShape(), element)) {
      builder.setInsertionPoint(gather);
      gather.replaceAllUsesWith(pick(values, which, axis));
      gather.erase();
    }
  }
  op.replaceAllUsesWith(result);
  op.erase();
}

struct SplitOrdersPass : PassWrapper<SplitOrdersPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitOrdersPass)
  explicit SplitOrdersPass(int64_t numTpcs) : tpcs(numTpcs) {}
  StringRef getArgument() const final { return "hpu-split-orders"; }
  StringRef getDescription() const final { return "The first of few long rows from the first of their parts"; }
  void runOnOperation() override {
    SmallVector<TopIndicesOp> orders;
    getOperation().walk([&](TopIndicesOp op) { orders.push_back(op); });
    for (TopIndicesOp op : orders) split(op, tpcs);
  }
  int64_t tpcs;
};

}  // namespace

std::unique_ptr<Pass> createSplitOrdersPass(int64_t numTpcs) {
  return std::make_unique<SplitOrdersPass>(numTpcs);
}

}  // namespace hpu::fuse
