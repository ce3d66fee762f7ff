// SPDX-License-Identifier: Apache-2.0
#include "compiler/layout/Chains.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/layout/Orders.h"
#include "compiler/support/Units.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace hpu::ir {
namespace {

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Calls visit for each operand that reads `value` through any view; views themselves are not readers.
void forEachRead(Value value, llvm::function_ref<void(OpOperand&)> visit) {
  for (OpOperand& use : value.getUses()) {
    auto op = dyn_cast<HpuOp>(use.getOwner());
    if (op && op.isView() && !isUnit(use.getOwner()))
      forEachRead(use.getOwner()->getResult(0), visit);
    else
      visit(use);
  }
}

/// Another unit than `reader` writes over the value, where it lies.
bool isUpdatedElsewhere(Value value, Operation* reader) {
  bool isUpdated = false;
  forEachRead(value, [&](OpOperand& read) {
    Operation* unit = read.getOwner();
    isUpdated |= unit != reader && stateUpdatedBy(unit) && layout::updatedBy(unit) == &read;
  });
  return isUpdated;
}

/// The dimension of the index space of `op` along which it reads dimension `dim` of an operand point by point.
std::optional<int64_t> spaceDim(OpOperand& operand, const SymView& view, int64_t dim) {
  Operation* op = operand.getOwner();
  const unsigned number = operand.getOperandNumber();
  const auto rank = static_cast<int64_t>(view.sizes.size());
  if (auto matmul = dyn_cast<MatMulOp>(op)) {
    const int64_t added = static_cast<int64_t>(shapeOf(matmul.getResult()).size()) - rank;
    if (added < 0 || rank < 2 || dim >= (number == 0 ? rank - 1 : rank - 2)) return std::nullopt;
    return dim + added;
  }
  if (auto conv = dyn_cast<Conv2dOp>(op)) {
    if (number != 0) return std::nullopt;
    if (dim == 0) return 0;
    if (dim < 2) return std::nullopt;
    const int64_t i = dim - 2;
    bool pointwise = conv.getStrides()[i] == 1 && conv.getPads()[i] == 0 && conv.getPads()[2 + i] == 0 &&
                     shapeOf(op->getOperand(1))[dim] == 1;
    return pointwise ? std::optional(dim) : std::nullopt;
  }
  if (isa<ConvTranspose2dOp>(op)) return number == 0 && dim == 0 ? std::optional<int64_t>(0) : std::nullopt;
  if (cast<HpuOp>(op).getEngine() != EngineKind::Tpc) return std::nullopt;
  return dim;
}

}  // namespace

std::optional<ChainLink> chainOf(Operation* unit) {
  auto attribute = unit->getAttrOfType<DenseI64ArrayAttr>(kChainAttr);
  if (!attribute || attribute.size() != 2) return std::nullopt;
  return ChainLink{attribute[0], attribute[1]};
}

void setChain(Operation* unit, ChainLink link) {
  unit->setAttr(kChainAttr, DenseI64ArrayAttr::get(unit->getContext(), {link.dim, link.slots}));
}

static RankedTensorType slicedType(RankedTensorType type, int64_t dim) {
  SmallVector<int64_t> order = {dim};
  for (int64_t d : physicalOrder(type))
    if (d != dim) order.push_back(d);
  return withOrder(type, order);
}
SymInts symSlicedStrides(RankedTensorType type, int64_t dim) {
  return symDenseStrides(slicedType(type, dim));
}

std::optional<SymView> resolveOver(Value value, Value base, ArrayRef<shape::SymInt> strides) {
  SmallVector<Operation*> views;
  for (; value != base; value = views.back()->getOperand(0)) {
    auto op = dyn_cast_or_null<HpuOp>(value.getDefiningOp());
    if (!op || !op.isView()) return std::nullopt;
    views.push_back(op);
  }
  std::optional<SymView> view = SymView{base, 0, symSizes(cast<RankedTensorType>(base.getType())), SymInts(strides)};
  for (Operation* op : llvm::reverse(views))
    if (!(view = applyView(op, *view))) return std::nullopt;
  return view;
}

std::optional<int64_t> slowestDim(const SymView& view) {
  const shape::SymInt elements = symElements(cast<RankedTensorType>(view.base.getType()));
  shape::SymInt shown = 1;
  std::optional<int64_t> slowest;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    shown *= view.sizes[d];
    if (!(view.sizes[d] == 1) && !(view.sizes[d] == 0) && view.sizes[d] * view.strides[d] == elements) slowest = d;
  }
  return view.offset == 0 && shown == elements ? slowest : std::nullopt;
}

Operation* onlyReader(Operation* unit, std::string* why) {
  auto refuse = [&](const char* text) -> Operation* {
    if (why) *why = text;
    return nullptr;
  };
  if (!isa<BundleOp, ClusterOp>(unit) || unit->getNumResults() != 1) return refuse("it has several results");
  // Tiles that are placed at launch have a dimension to be cut along.
  if (shapeOf(unit->getResult(0)).empty() && unit->getParentOfType<ModuleOp>()->hasAttr(kSamplesAttr))
    return refuse("it is a single number");
  Operation* reader = nullptr;
  bool several = false;
  forEachRead(unit->getResult(0), [&](OpOperand& read) {
    several |= reader && reader != read.getOwner();
    reader = read.getOwner();
  });
  if (several) return refuse("several units read it");
  if (!reader || !isa<BundleOp, ClusterOp>(reader)) return refuse("a copy or the caller reads it");
  // It would be moved to its reader, perhaps behind that.
  for (Value operand : unit->getOperands())
    if (isUpdatedElsewhere(baseOf(operand), unit)) return refuse("it reads a state that is updated in place");
  // Its data may be copied first, and what it does not update has to stay.
  if (layout::updatedBy(unit) || layout::updatedBy(reader)) return refuse("a scatter updates a tensor in HBM");
  return reader;
}

std::optional<int64_t> followingDim(Operation* producer, int64_t dim, Operation* reader) {
  Value result = producer->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  if (dim < 0 || dim >= type.getRank()) return std::nullopt;
  const SymInts strides = symSlicedStrides(type, dim);
  const SymInts space = symSizes(cast<RankedTensorType>(reader->getResult(0).getType()));
  std::optional<int64_t> following;
  bool agree = true;
  forEachRead(result, [&](OpOperand& read) {
    if (read.getOwner() != reader) return void(agree = false);
    std::optional<SymView> view = resolveOver(read.get(), result, strides);
    std::optional<int64_t> slowest = view ? slowestDim(*view) : std::nullopt;
    if (!slowest) return void(agree = false);
    for (OpOperand& use : reader->getRegion(0).front().getArgument(read.getOperandNumber()).getUses()) {
      auto op = dyn_cast<HpuOp>(use.getOwner());
      std::optional<int64_t> along = op ? spaceDim(use, *view, *slowest) : std::nullopt;
      // A TPC op reads what lies along its index space, point by point or row by row.
      if (op && op.getEngine() == EngineKind::Tpc) agree &= view->sizes == space;
      agree &= along && *along < static_cast<int64_t>(space.size()) && space[*along] == view->sizes[*slowest] &&
               (!following || *following == *along);
      following = along;
    }
  });
  return agree ? following : std::nullopt;
}

SmallVector<Turn> turnsOf(ArrayRef<Operation*> units) {
  SmallVector<Turn> turns;
  for (auto [number, unit] : llvm::enumerate(units)) {
    const auto now = static_cast<int64_t>(number);
    std::optional<ChainLink> before = number ? chainOf(units[number - 1]) : std::nullopt;
    turns.push_back({before && before->interleaved() ? turns.back().first : now, now});
  }
  for (size_t number = turns.size(); number-- > 1;)
    if (turns[number].first < static_cast<int64_t>(number)) turns[number - 1].last = turns[number].last;
  return turns;
}

}  // namespace hpu::ir
