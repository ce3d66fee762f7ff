// SPDX-License-Identifier: Apache-2.0
#include "compiler/layout/Orders.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Views.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::layout {

Order channelsLast() {
  return {0, 2, 3, 1};
}
Order rowMajor(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

Order orderOfStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  // Dims of size 1 stay where they are: sort only the others among their own places.
  Order order = rowMajor(sizes.size()), real;
  for (int64_t d : order)
    if (sizes[d] != 1) real.push_back(d);
  Order sorted = real;
  llvm::stable_sort(sorted, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  for (auto [place, dim] : llvm::zip(real, sorted)) order[place] = dim;
  return order;
}

Operation* rootOf(Operation* unit) {
  if (unit->getNumRegions() == 0) return unit;
  for (Operation& op : unit->getRegion(0).front().without_terminator())
    if (!cast<HpuOp>(op).isElementwise()) return &op;
  return nullptr;
}

OpOperand* updatedBy(Operation* unit) {
  Operation* root = isa<ClusterOp>(unit) ? rootOf(unit) : nullptr;
  if (!isa_and_nonnull<ScatterNdOp, ScatterElementsOp>(root)) return nullptr;
  auto data = dyn_cast<BlockArgument>(root->getOperand(0));
  return data ? &unit->getOpOperand(data.getArgNumber()) : nullptr;
}

namespace {

/// Follows a result through its only use to the function's return: such a value is best row-major
/// at once.
bool isReturnedDirectly(Value value) {
  return value.hasOneUse() && isa<func::ReturnOp>(*value.getUsers().begin());
}

/// A matmul's C can be written in any order of its outer dims, so that a following transpose is a
/// view of a row-major tensor: attention's [B, H, S, D] -> [B, S, H, D].
Order matmulOrder(Value result) {
  int64_t rank = tensorOf(result).getRank();
  if (result.hasOneUse())
    if (auto transpose = dyn_cast<TransposeOp>(*result.getUsers().begin()))
      if (transpose.getPerm().back() == rank - 1) return Order(transpose.getPerm());
  return rowMajor(rank);
}

/// The order of an operand: the first of those that have the result's shape, else, where operands
/// of other shapes join, of the largest (a squeeze-and-excitation gate of one pixel has none to
/// give).
Order inheritedOrder(Operation* unit, Value result) {
  const bool joins = isa<ConcatOp>(unit) || unit->getNumRegions() != 0;
  Order order = rowMajor(tensorOf(result).getRank());
  int64_t largest = 0;
  for (Value operand : unit->getOperands()) {
    if (operand.getDefiningOp<ConstantOp>()) continue;
    if (tensorOf(operand).getRank() != tensorOf(result).getRank()) continue;
    std::optional<StridedView> view = resolveView(operand);
    if (!view || llvm::is_contained(view->strides, 0)) continue;
    if (tensorOf(operand).getShape() == tensorOf(result).getShape()) return orderOfStrides(view->sizes, view->strides);
    const int64_t elements = tensorOf(operand).getNumElements();
    if (!joins || elements <= largest) continue;
    largest = elements;
    order = orderOfStrides(view->sizes, view->strides);
  }
  return order;
}

}  // namespace

Order preferredOrder(Operation* unit, unsigned index) {
  Value result = unit->getResult(index);
  int64_t rank = tensorOf(result).getRank();
  if (isReturnedDirectly(result)) return rowMajor(rank);
  Operation* root = rootOf(unit);
  if (!root) return inheritedOrder(unit, result);
  return TypeSwitch<Operation*, Order>(root)
      .Case<Conv2dOp, ConvTranspose2dOp, MaxPool2dOp, AvgPool2dOp>([](Operation*) { return channelsLast(); })
      .Case<ResizeOp, InstanceNormOp>(  // of any rank
          [&](Operation*) { return rank == 4 ? channelsLast() : inheritedOrder(unit, result); })
      .Case<MatMulOp>([&](Operation*) { return matmulOrder(result); })
      .Case<GatherOp, GatherElementsOp>([&](Operation*) { return rowMajor(rank); })
      .Case<RelayoutOp>([&](RelayoutOp op) { return physicalOrder(tensorOf(op.getResult())); })
      .Default([&](Operation*) { return inheritedOrder(unit, result); });
}

}  // namespace hpu::layout
