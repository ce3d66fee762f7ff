// SPDX-License-Identifier: Apache-2.0
#include "compiler/interp/Flow.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Kernels.h"
#include "compiler/support/Cancellation.h"

namespace hpu::interp {

using namespace mlir;

namespace {

class BlockEvaluator {
 public:
  BlockEvaluator(Block& block, const shape::SymbolBindings& bindings, const Observer& observer)
      : block_(block), bindings_(bindings), observer_(observer) {
    for (Operation& op : block)
      for (Value operand : op.getOperands()) lastUse_[operand] = &op;
  }

  FlowResults run(ArrayRef<Tensor> arguments) {
    for (auto [argument, input] : llvm::zip(block_.getArguments(), arguments)) values_[argument] = input;
    for (Operation& op : block_.without_terminator()) {
      SmallVector<Tensor> operands = operandsOf(&op);
      FailureOr<SmallVector<Tensor>> results = evaluateOp(&op, operands, bindings_, observer_);
      if (failed(results)) return failure();
      operands.clear();
      for (Value operand : op.getOperands())
        if (lastUse_.lookup(operand) == &op) values_.erase(operand);
      for (auto [result, value] : llvm::zip(op.getResults(), *results))
        if (lastUse_.count(result)) values_[result] = value;
    }
    return operandsOf(block_.getTerminator());
  }

 private:
  SmallVector<Tensor> operandsOf(Operation* op) {
    SmallVector<Tensor> operands;
    for (Value operand : op->getOperands()) operands.push_back(values_.lookup(operand));
    return operands;
  }

  Block& block_;
  const shape::SymbolBindings& bindings_;
  const Observer& observer_;
  DenseMap<Value, Operation*> lastUse_;
  DenseMap<Value, Tensor> values_;
};

FlowResults evaluateLoop(ir::LoopOp op, ArrayRef<Tensor> inputs, const shape::SymbolBindings& bindings,
                         const Observer& observer) {
  auto take = [&](size_t count) {
    ArrayRef<Tensor> taken = inputs.take_front(count);
    inputs = inputs.drop_front(count);
    return taken;
  };
  auto trips = static_cast<int64_t>(op.getTrips());
  if (op.getCount()) trips = std::min(trips, take(1)[0].integer(0));
  bool holds = true;
  if (op.getCondition()) holds = take(1)[0].integer(0) != 0;
  SmallVector<Tensor> carried(take(op.getCarried().size()));
  const ArrayRef<Tensor> scanned = take(op.getScanned().size()), captured = inputs;
  SmallVector<Tensor> collected;
  for (Value value : op.getCollected()) {
    StatusOr<TensorType> type = concreteType(cast<RankedTensorType>(value.getType()));
    StatusOr<Tensor> made = type.ok() ? makeTensor(type->element, type->shape) : StatusOr<Tensor>(type.status());
    if (!made.ok()) return op.emitError(made.status().message());
    collected.push_back(std::move(*made));
  }
  const auto most = static_cast<int64_t>(op.getTrips());
  for (int64_t k = 0; k < trips && holds; ++k) {
    if (support::isCancelled()) return op.emitError("cancelled");
    SmallVector<Tensor> arguments = carried;
    for (auto [i, whole] : llvm::enumerate(scanned)) {
      const TensorType type{whole.element(), Shape(whole.shape().begin() + 1, whole.shape().end())};
      const int64_t row = op.getScannedBackwards()[i] ? most - 1 - k : k;
      arguments.push_back(Tensor::copyOf(type, whole.data() + row * type.bytes()));
    }
    llvm::append_range(arguments, captured);
    FlowResults yielded = evaluateBlock(op.getBody().front(), arguments, bindings, observer);
    if (failed(yielded)) return failure();
    ArrayRef<Tensor> results = *yielded;
    if (op.getCondition()) {
      holds = results[0].integer(0) != 0;
      results = results.drop_front();
    }
    carried.assign(results.begin(), results.begin() + static_cast<ptrdiff_t>(carried.size()));
    for (auto [i, slice] : llvm::enumerate(results.drop_front(carried.size()))) {
      const int64_t row = op.getCollectedBackwards()[i] ? most - 1 - k : k;
      std::memcpy(collected[i].writable() + row * slice.bytes(), slice.data(), static_cast<size_t>(slice.bytes()));
    }
  }
  llvm::append_range(carried, collected);
  return carried;
}

}  // namespace

FlowResults evaluateBlock(Block& block, ArrayRef<Tensor> arguments, const shape::SymbolBindings& bindings,
                          const Observer& observer) {
  return BlockEvaluator(block, bindings, observer).run(arguments);
}

std::optional<FlowResults> evaluateFlow(Operation* op, ArrayRef<Tensor> inputs, const shape::SymbolBindings& bindings,
                                        const Observer& observer) {
  if (isa<ir::BundleOp, ir::ClusterOp>(op)) return evaluateBlock(op->getRegion(0).front(), inputs, bindings, observer);
  if (auto loop = dyn_cast<ir::LoopOp>(op)) return evaluateLoop(loop, inputs, bindings, observer);
  auto branch = dyn_cast<ir::IfOp>(op);
  if (!branch) return std::nullopt;
  Region& taken = inputs[0].integer(0) != 0 ? branch.getThen() : branch.getOtherwise();
  return evaluateBlock(taken.front(), inputs.drop_front(), bindings, observer);
}

}  // namespace hpu::interp
