// SPDX-License-Identifier: Apache-2.0
// Reads the plan back from the IR.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/memory/Memory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::memory {

Sections sectionsOf(func::FuncOp function) {
  return {function.getNumArguments(), function.getNumResults()};
}

std::optional<Location> locate(Value value) {
  std::optional<StridedView> view = resolveView(value);
  if (!view) return std::nullopt;
  auto elementBytes = elementSize(elementType(cast<RankedTensorType>(value.getType()).getElementType()));
  Location location{0, view->offset * elementBytes, *view};
  if (auto argument = dyn_cast<BlockArgument>(view->base)) {
    const std::optional<StateMemory> state = stateOfArgument(argument);
    location.section = state ? sectionsOf(cast<func::FuncOp>(argument.getOwner()->getParentOp())).inputs + state->result
                             : argument.getArgNumber();
    return location;
  }
  Operation* def = view->base.getDefiningOp();
  auto buffers = def->getAttrOfType<DenseI64ArrayAttr>(kBuffersAttr);
  if (!buffers) return std::nullopt;
  unsigned index = cast<OpResult>(view->base).getResultNumber();
  location.section = buffers[2 * index];
  location.offset += buffers[2 * index + 1];
  return location;
}

std::optional<SymLocation> locateSymbolic(Value value) {
  std::optional<SymView> view = resolveSymView(value);
  if (!view) return std::nullopt;
  const int64_t elementBytes = elementSize(elementType(cast<RankedTensorType>(value.getType()).getElementType()));
  SymLocation location{-1, view->offset * elementBytes, *view};
  auto result = dyn_cast<OpResult>(view->base);
  auto storages = result ? result.getOwner()->getAttrOfType<ArrayAttr>(kStoragesAttr) : ArrayAttr();
  if (!storages || result.getResultNumber() >= storages.size()) return location;
  auto own = cast<DictionaryAttr>(storages[result.getResultNumber()]);
  location.storage = own.getAs<IntegerAttr>("storage").getInt();
  const int64_t start = own.getAs<IntegerAttr>("start").getInt();
  location.offset += numberOf({start, own.getAs<StringAttr>("name")}) * elementBytes;
  return location;
}

namespace {

std::optional<RingInfo> readRing(Operation* unit, const char* name) {
  auto ring = unit->getAttrOfType<DenseI64ArrayAttr>(name);
  if (!ring || ring.size() != 4) return std::nullopt;
  return RingInfo{ring[0], ring[1], ring[2], ring[3]};
}

}  // namespace

std::optional<RingInfo> ringOf(Operation* bundle) {
  return readRing(bundle, kRingAttr);
}
std::optional<RingInfo> chainRingOf(Operation* unit) {
  return readRing(unit, kChainRingAttr);
}

}  // namespace hpu::memory
