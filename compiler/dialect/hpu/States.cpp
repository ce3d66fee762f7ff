// SPDX-License-Identifier: Apache-2.0
#include "compiler/dialect/hpu/States.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace hpu::ir {

SmallVector<int64_t> StateMemory::strides() const {
  SmallVector<int64_t> strides(capacity.size(), 1);
  for (size_t d = capacity.size(); d-- > 1;) strides[d - 1] = strides[d] * capacity[d];
  return strides;
}

int64_t StateMemory::elements() const {
  int64_t elements = 1;
  for (int64_t size : capacity) elements *= size;
  return elements;
}

std::optional<StateMemory> stateOfArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  if (!function) return std::nullopt;
  const unsigned index = argument.getArgNumber();
  auto result = function.getArgAttrOfType<IntegerAttr>(index, kStateAttr);
  auto capacity = function.getArgAttrOfType<DenseI64ArrayAttr>(index, kCapacityAttr);
  if (!result || !capacity) return std::nullopt;
  return StateMemory{index, static_cast<unsigned>(result.getInt()), capacity};
}

std::optional<StateMemory> stateOfResult(func::FuncOp function, unsigned result) {
  auto argument = function.getResultAttrOfType<IntegerAttr>(result, kStateAttr);
  auto capacity = function.getResultAttrOfType<DenseI64ArrayAttr>(result, kCapacityAttr);
  if (!argument || !capacity) return std::nullopt;
  return StateMemory{static_cast<unsigned>(argument.getInt()), result, capacity};
}

std::optional<StateMemory> stateUpdatedBy(Operation* unit) {
  auto result = unit->getAttrOfType<IntegerAttr>(kUpdatesAttr);
  auto function = dyn_cast_or_null<func::FuncOp>(unit->getParentOp());
  if (!result || !function || result.getInt() < 0 || result.getInt() >= function.getNumResults()) return std::nullopt;
  return stateOfResult(function, static_cast<unsigned>(result.getInt()));
}

SmallVector<StateMemory> statesOf(func::FuncOp function) {
  SmallVector<StateMemory> states;
  for (unsigned result = 0; result < function.getNumResults(); ++result)
    if (std::optional<StateMemory> state = stateOfResult(function, result)) states.push_back(*state);
  return states;
}

void addState(func::FuncOp function, unsigned argument, unsigned result, ArrayRef<int64_t> capacity) {
  Builder b(function.getContext());
  const DenseI64ArrayAttr sizes = b.getDenseI64ArrayAttr(capacity);
  function.setArgAttr(argument, kStateAttr, b.getI64IntegerAttr(result));
  function.setArgAttr(argument, kCapacityAttr, sizes);
  function.setResultAttr(result, kStateAttr, b.getI64IntegerAttr(argument));
  function.setResultAttr(result, kCapacityAttr, sizes);
}

}  // namespace hpu::ir
