// SPDX-License-Identifier: Apache-2.0
// Values of a plan: evaluated where they are first needed, or hoisted before a loop.
#include "compiler/kernels/LoopEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace hpu::kernels {

bool LoopEmitter::alongLanes(int prim) const {
  return plan_->vectorDim >= 0 && (plan_->prims[prim].deps >> plan_->vectorDim & 1);
}

Type LoopEmitter::vectorType(Type element) const {
  return VectorType::get({lanes_}, element);
}

void LoopEmitter::hoist(llvm::ArrayRef<int> roots) {
  llvm::DenseMap<int, bool> seen;
  for (int root : roots) hoistOne(root, seen);
}

/// True when the value can be computed here; then it is, unless it is a constant.
bool LoopEmitter::hoistOne(int p, llvm::DenseMap<int, bool>& seen) {
  if (scope_.values.count(p)) return true;
  if (auto it = seen.find(p); it != seen.end()) return it->second;
  const Prim& prim = plan_->prims[p];
  bool ready = (prim.deps & ~scope_.available) == 0 && prim.kind != Prim::Kind::Reduce && prim.kind != Prim::Kind::Pick;
  const bool isRead = kept_.contains(p) || isTableOrRow(p);
  if (!isRead && !isTabulated(p)) {
    for (int operand : prim.operands) ready &= hoistOne(operand, seen);
    for (const Term& term : prim.address.terms) ready &= hoistOne(term.prim, seen);
  }
  seen[p] = ready;
  if (ready && prim.kind != Prim::Kind::Constant) eval(p);
  if (!ready && prim.kind == Prim::Kind::Load && !isRead)
    address(p, prim.table >= 0 ? tableBase(prim.table) : operands_[prim.source], prim.address,
            prim.table >= 0 ? elementSize(plan_->tables[prim.table].type) : elementSize(prim.type), true);
  return ready;
}

Value LoopEmitter::eval(int p) {
  if (auto it = scope_.values.find(p); it != scope_.values.end()) return it->second;
  Value value = compute(p);
  scope_.values[p] = value;
  return value;
}

Value LoopEmitter::vectorOf(int p) {
  Value value = eval(p);
  if (isa<VectorType>(value.getType())) return value;
  if (auto it = scope_.broadcast.find(p); it != scope_.broadcast.end()) return it->second;
  Value spread = m_.broadcast(value, lanes_);
  scope_.broadcast[p] = spread;
  return spread;
}

/// As the constant that it is in a kernel of fixed sizes.
Value LoopEmitter::sizeValue(const Prim& prim) {
  Type type = computeType(b_.getContext(), prim.type);
  const int64_t value = prim.size.value();
  if (traits_.forCost)
    return isFloatType(prim.type) ? m_.constant(type, static_cast<double>(value)) : m_.constantInt(type, value);
  Value late = number(prim.size);
  return isFloatType(prim.type) ? m_.toFloat(late, type, true) : m_.resizeInt(late, type, true);
}

Value LoopEmitter::tapCount(const Prim& prim) {
  const TapBounds& taps = *prim.taps;
  Value first = tapAt(taps, prim.anchor, taps.low), last = tapAt(taps, prim.anchor, taps.high);
  return m_.toFloat(m_.max(m_.sub(last, first), m_.constantInt(m_.i64(), 1)), m_.f32(), true);
}

Value LoopEmitter::compute(int p) {
  const Prim& prim = plan_->prims[p];
  Type type = computeType(b_.getContext(), prim.type);
  switch (prim.kind) {
    case Prim::Kind::Constant:
      return isFloatType(prim.type) ? m_.constant(type, prim.number) : m_.constantInt(type, prim.integer);
    case Prim::Kind::Size:
      return sizeValue(prim);
    case Prim::Kind::TapCount:
      return tapCount(prim);
    case Prim::Kind::Index:
    case Prim::Kind::Load:
      break;
    case Prim::Kind::Pick:
    case Prim::Kind::Reduce:
      llvm_unreachable("a reduction is done before its pass's results are used");
    case Prim::Kind::Lane:
      break;
  }
  if (kept_.contains(p)) {
    Type kept = alongLanes(p) ? vectorType(type) : type;
    return local(LLVM::LoadOp::create(b_, loc_, kept, scratchAddress(p), 4)).getRes();
  }
  if (isTableOrRow(p)) return tableOrRow(p);
  Value value;
  if (isTabulated(p)) {
    value = tabulated(p);
  } else if (prim.kind == Prim::Kind::Load) {
    value = load(p);
  } else if (prim.kind == Prim::Kind::Index) {
    value = position(prim.address, alongLanes(p));
  } else {
    bool vector = alongLanes(p);
    llvm::SmallVector<Value, 3> operands;
    auto add = [&](int operand) { operands.push_back(vector ? vectorOf(operand) : eval(operand)); };
    if (prim.isFused && !traits_.forCost) {
      for (int factor : plan_->prims[prim.operands[0]].operands) add(factor);
      add(prim.operands[1]);
      value = m_.fma(operands[0], operands[1], operands[2]);
    } else {
      for (int operand : prim.operands) add(operand);
      value = prim.op->emit(m_, operands, {prim.in, prim.type, prim.params});
    }
  }
  if (isKept(p)) {
    keeping_.insert(p);
    local(LLVM::StoreOp::create(b_, loc_, value, scratchAddress(p), 4));
  }
  return value;
}

}  // namespace hpu::kernels
