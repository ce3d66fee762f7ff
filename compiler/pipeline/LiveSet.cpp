// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/LiveSet.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorBytes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Views.h"
#include "recipe/Recipe.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::pipeline {
namespace {

int64_t alignedBytes(Value value) {
  int64_t bytes = tensorBytes(value);
  int64_t unit = recipe::kAlignment;
  return (bytes + unit - 1) / unit * unit;
}

/// A reshape that joins a repeated dimension with another one: no layout lets strides show that, so it has bytes of its
/// own.
bool repeats(Operation* op) {
  if (!isa<ReshapeOp>(op)) return false;
  std::optional<StridedView> in = resolveView(op->getOperand(0));
  if (!in || applyView(op, *in)) return false;
  for (auto [size, stride] : llvm::zip(in->sizes, in->strides))
    if (size > 1 && stride == 0) return true;
  return false;
}

bool isView(Operation* op) {
  auto hpuOp = dyn_cast_or_null<HpuOp>(op);
  return hpuOp && hpuOp.isView() && !repeats(op);
}

/// What a view shows; other values are themselves.
Value baseOf(Value value) {
  while (Operation* def = value.getDefiningOp()) {
    if (!isView(def)) break;
    value = def->getOperand(0);
  }
  return value;
}

}  // namespace

int64_t largestLiveSetBytes(func::FuncOp function) {
  Block& block = function.getBody().front();
  llvm::DenseSet<Value> outputs;
  for (Value value : block.getTerminator()->getOperands()) {
    Value base = baseOf(value);
    if (tensorOf(base).getNumElements() == tensorOf(value).getNumElements()) outputs.insert(base);
  }
  auto counts = [&](Value value) {
    Operation* def = value.getDefiningOp();
    return def && !isa<ConstantOp>(def) && !outputs.contains(value);
  };
  llvm::DenseMap<Value, Operation*> lastReader;
  for (Operation& op : block)
    for (Value operand : op.getOperands())
      if (!isView(&op)) lastReader[baseOf(operand)] = &op;
  int64_t alive = 0, most = 0;
  for (Operation& op : block) {
    if (isView(&op)) continue;
    int64_t unread = 0;
    for (Value result : op.getResults()) {
      if (!counts(result)) continue;
      alive += alignedBytes(result);
      if (!lastReader.contains(result)) unread += alignedBytes(result);
    }
    most = std::max(most, alive);
    alive -= unread;
    llvm::SmallPtrSet<void*, 8> seen;
    for (Value operand : op.getOperands()) {
      Value base = baseOf(operand);
      if (seen.insert(base.getAsOpaquePointer()).second && counts(base) && lastReader.lookup(base) == &op)
        alive -= alignedBytes(base);
    }
  }
  return most;
}

}  // namespace hpu::pipeline
