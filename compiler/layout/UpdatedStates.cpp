// SPDX-License-Identifier: Apache-2.0
#include "compiler/layout/UpdatedStates.h"

#include <vector>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Orders.h"
#include "compiler/layout/Views.h"
#include "compiler/support/Units.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::layout {
namespace {

/// The operand that `unit` updates, when its only result is just the scatter's and nothing else of it reads the data.
OpOperand* updatedAlone(Operation* unit) {
  OpOperand* data = unit && unit->getNumResults() == 1 ? updatedBy(unit) : nullptr;
  if (!data) return nullptr;
  Block& body = unit->getRegion(0).front();
  const bool isAlone = body.getArgument(data->getOperandNumber()).hasOneUse() &&
                       body.getTerminator()->getOperand(0) == rootOf(unit)->getResult(0) &&
                       tensorOf(data->get()).getElementType() == tensorOf(unit->getResult(0)).getElementType();
  return isAlone ? data : nullptr;
}

/// The updates that lead from the state as it was to what is returned; none where something else does, too.
std::optional<UpdatedState> updatesOf(func::FuncOp function, const StateMemory& state) {
  const Value before = function.getArgument(state.argument);
  Value value = function.getBody().front().getTerminator()->getOperand(state.result);
  SymInts strides, whole;
  for (int64_t stride : state.strides()) whole.push_back(stride);
  strides = whole;
  UpdatedState found{state, {}};
  while (true) {
    const Value base = baseOf(value);
    std::optional<SymInts> own = stridesOfBase(value, strides);
    if (!own) return std::nullopt;
    if (base == before) {
      if (found.updates.empty() || !sameStrides(symSizes(tensorOf(before)), *own, whole)) return std::nullopt;
      return found;
    }
    OpOperand* data = updatedAlone(base.getDefiningOp());
    if (!data) return std::nullopt;
    found.updates.insert(found.updates.begin(), {base.getDefiningOp(), *own});
    value = data->get();
    strides = *own;
  }
}

/// Calls visit for each operand of a unit or of the return that reads `value` through any view.
void eachRead(Value value, llvm::function_ref<void(OpOperand&)> visit) {
  for (OpOperand& use : value.getUses()) {
    auto op = dyn_cast<HpuOp>(use.getOwner());
    if (op && op.isView() && !isUnit(use.getOwner()))
      eachRead(use.getOwner()->getResult(0), visit);
    else
      visit(use);
  }
}

/// The order of the units of a function, with more than what operands ask for.
class UnitOrder {
 public:
  explicit UnitOrder(Block& block) : block_(block) {}

  void add(Operation* first, Operation* then) {
    before_[then].push_back(first);
    behind_[first].push_back(then);
  }

  /// All that has to come after `op`, and `op`.
  llvm::DenseSet<Operation*> behind(Operation* op) const {
    llvm::DenseSet<Operation*> found = {op};
    SmallVector<Operation*> open = {op};
    while (!open.empty()) {
      Operation* next = open.pop_back_val();
      const auto reach = [&](Operation* other) {
        if (found.insert(other).second) open.push_back(other);
      };
      for (Operation* user : next->getUsers()) reach(user);
      if (auto more = behind_.find(next); more != behind_.end())
        for (Operation* other : more->second) reach(other);
    }
    return found;
  }

  /// Moves what comes too late ahead, with all that it needs, and leaves everything else where it is.
  void apply() {
    std::vector<Operation*> order;
    llvm::DenseSet<Operation*> done;
    const auto needed = [&](Operation* op) -> Operation* {
      const auto isLeft = [&](Operation* other) {
        return other && other->getBlock() == &block_ && !done.contains(other);
      };
      for (Value operand : op->getOperands())
        if (isLeft(operand.getDefiningOp())) return operand.getDefiningOp();
      if (auto more = before_.find(op); more != before_.end())
        for (Operation* other : more->second)
          if (isLeft(other)) return other;
      return nullptr;
    };
    for (Operation& op : block_) {
      std::vector<Operation*> open = {&op};
      while (!open.empty()) {
        Operation* next = open.back();
        if (Operation* first = done.contains(next) ? nullptr : needed(next)) {
          open.push_back(first);
          continue;
        }
        open.pop_back();
        if (done.insert(next).second) order.push_back(next);
      }
    }
    for (Operation* op : order) op->moveBefore(&block_, block_.end());
  }

 private:
  Block& block_;
  llvm::DenseMap<Operation*, SmallVector<Operation*>> before_, behind_;
};

}  // namespace

SmallVector<UpdatedState> updatedStates(func::FuncOp function) {
  SmallVector<UpdatedState> states;
  for (const StateMemory& state : statesOf(function))
    if (std::optional<UpdatedState> updated = updatesOf(function, state)) states.push_back(*updated);
  return states;
}

void updateInPlace(func::FuncOp function, ArrayRef<UpdatedState> states,
                   llvm::function_ref<void(OpOperand&, const std::string& why)> copy) {
  if (states.empty()) return;
  UnitOrder order(function.getBody().front());
  Builder builder(function.getContext());
  for (const UpdatedState& updated : states) {
    Value value = function.getArgument(updated.state.argument);
    for (const auto& [unit, strides] : updated.updates) {
      OpOperand* data = updatedBy(unit);
      SmallVector<OpOperand*> reads;
      eachRead(value, [&](OpOperand& read) {
        if (&read != data) reads.push_back(&read);
      });
      const llvm::DenseSet<Operation*> behind = order.behind(unit);
      for (OpOperand* read : reads) {
        if (behind.contains(read->getOwner()))
          copy(*read, "it reads a state of before " + unitName(unit) + ", and runs after it");
        Operation* reader = behind.contains(read->getOwner()) ? read->get().getDefiningOp() : read->getOwner();
        order.add(reader, unit);
      }
      value = unit->getResult(0);
      setStrides(value, strides);
      unit->setAttr(kUpdatesAttr, builder.getI64IntegerAttr(updated.state.result));
    }
  }
  order.apply();
}

}  // namespace hpu::layout
