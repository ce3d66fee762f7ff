// SPDX-License-Identifier: Apache-2.0
// Reductions: a pass over the row for each stage of them, in registers, and the lanes of a register combined.
#include "compiler/kernels/LoopEmitter.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace hpu::kernels {

using Cmp = VectorMath::Cmp;

llvm::SmallVector<LoopEmitter::Accumulator, 4> LoopEmitter::accumulatorsOf(int pass, llvm::SmallVector<int>& roots) {
  llvm::SmallVector<Accumulator, 4> accumulators;
  bool laneRow = plan_->vectorDim >= 0 && plan_->dims[plan_->vectorDim].row;
  for (size_t p = 0; p < plan_->prims.size(); ++p) {
    const Prim& prim = plan_->prims[p];
    if (!plan_->reachable[p] || prim.kind != Prim::Kind::Reduce || prim.stage != pass + 1) continue;
    bool vector = laneRow || alongLanes(prim.operands[0]);
    accumulators.push_back({static_cast<int>(p), vector, prim.reduce == ReduceKind::ArgMax ? 2 : 1});
    roots.push_back(prim.operands[0]);
  }
  return accumulators;
}

void LoopEmitter::reducePass(int pass) {
  llvm::SmallVector<int> roots;
  llvm::SmallVector<Accumulator, 4> accumulators = accumulatorsOf(pass, roots);
  Values init;
  for (const Accumulator& acc : accumulators) init.append(neutral(acc));
  keeping_.clear();
  Values results = rowLoops(0, plan_->rowOrder, roots, init, [&](llvm::ArrayRef<Value> old) {
    Values updated;
    for (const Accumulator& acc : accumulators) {
      updated.append(combine(acc, old.take_front(acc.values)));
      old = old.drop_front(acc.values);
    }
    return updated;
  });
  kept_.insert(keeping_.begin(), keeping_.end());
  llvm::ArrayRef<Value> rest = results;
  for (const Accumulator& acc : accumulators) {
    finish(acc, Values(rest.take_front(acc.values)));
    rest = rest.drop_front(acc.values);
  }
}

/// What a loop has accumulated becomes the value of the reduction.
void LoopEmitter::finish(const Accumulator& acc, Values values) {
  const Prim& prim = plan_->prims[acc.prim];
  if (plan_->vectorDim >= 0 && plan_->dims[plan_->vectorDim].row) values = acrossLanes(prim, values);
  Value result = values.back();
  scope_.values[acc.prim] = m_.shaped(result, computeType(b_.getContext(), prim.type)) == result.getType()
                                ? result
                                : m_.extend(result, m_.i64(), true);
}

LoopEmitter::Values LoopEmitter::neutral(const Accumulator& acc) {
  const Prim& prim = plan_->prims[acc.prim];
  ElementType element = plan_->prims[prim.operands[0]].type;
  Type type = computeType(b_.getContext(), element);
  if (acc.vector) type = vectorType(type);
  bool isFloat = isFloatType(element), isSigned = isSignedType(element);
  int64_t bits = elementSize(element) * 8;
  Values result;
  switch (prim.reduce) {
    case ReduceKind::Sum:
      result.push_back(m_.constant(type, 0));
      break;
    case ReduceKind::Prod:
      result.push_back(m_.constant(type, 1));
      break;
    case ReduceKind::Max:
    case ReduceKind::ArgMax:
      result.push_back(isFloat ? m_.constant(type, -INFINITY)
                               : m_.constantInt(type, isSigned ? static_cast<int64_t>(uint64_t{1} << (bits - 1)) : 0));
      break;
    case ReduceKind::Min:
      result.push_back(
          isFloat ? m_.constant(type, INFINITY)
                  : m_.constantInt(type, isSigned ? static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1) : -1));
      break;
  }
  if (prim.reduce == ReduceKind::ArgMax)
    result.push_back(m_.constantInt(acc.vector ? vectorType(m_.i32()) : m_.i32(), 0));
  return result;
}

LoopEmitter::Values LoopEmitter::combine(const Accumulator& acc, llvm::ArrayRef<Value> old) {
  const Prim& prim = plan_->prims[acc.prim];
  int operand = prim.operands[0];
  const Prim& source = plan_->prims[operand];
  Values updated;
  // A product of floats that is only summed needs no register of its own.
  bool product = prim.reduce == ReduceKind::Sum && source.kind == Prim::Kind::Lane && source.op->is<ir::MulOp>() &&
                 isFloatType(source.type) && !isKept(operand) && !scope_.values.count(operand);
  if (product) {
    auto factor = [&](int p) { return acc.vector ? vectorOf(p) : eval(p); };
    Value a = factor(source.operands[0]), b = factor(source.operands[1]);
    updated.push_back(priced(Step::kElement, prim, [&] { return m_.fma(a, b, old[0]); }));
  } else {
    Values now = {acc.vector ? vectorOf(operand) : eval(operand)};
    if (prim.reduce == ReduceKind::ArgMax) {
      // Positions along the only reduced dim.
      int dim = llvm::countr_zero(prim.reduceDims);
      Value at = m_.truncate(index_[dim] ? index_[dim] : m_.constantInt(m_.i64(), 0), m_.i32());
      if (acc.vector) at = m_.broadcast(at, lanes_);
      if (acc.vector && dim == plan_->vectorDim) at = m_.add(at, m_.iota(vectorType(m_.i32())));
      now.push_back(at);
    }
    if (now.size() == 1)
      updated = {priced(Step::kElement, prim, [&] { return merge(prim, old, now)[0]; })};
    else
      updated = merge(prim, old, now);
  }
  bool laneRow = plan_->vectorDim >= 0 && plan_->dims[plan_->vectorDim].row;
  if (laneRow && scope_.mask)
    for (auto [value, before] : llvm::zip(updated, old)) value = m_.select(scope_.mask, value, before);
  return updated;
}

LoopEmitter::Values LoopEmitter::merge(const Prim& prim, llvm::ArrayRef<Value> a, llvm::ArrayRef<Value> b) {
  ElementType element = plan_->prims[prim.operands[0]].type;
  bool isSigned = isSignedType(element);
  switch (prim.reduce) {
    case ReduceKind::Sum:
      return {m_.add(a[0], b[0])};
    case ReduceKind::Prod:
      return {m_.mul(a[0], b[0])};
    case ReduceKind::Max:
      return {m_.max(a[0], b[0], isSigned)};
    case ReduceKind::Min:
      return {m_.min(a[0], b[0], isSigned)};
    case ReduceKind::ArgMax:
      break;
  }
  // The first of the largest; the first NaN before all.
  Value larger = m_.compare(Cmp::Gt, b[0], a[0], isSigned), equal = m_.compare(Cmp::Eq, b[0], a[0]);
  if (isFloatType(element)) {
    Value nanA = m_.isNan(a[0]), nanB = m_.isNan(b[0]);
    larger = m_.orI(larger, m_.andI(nanB, m_.xorI(nanA, m_.integer(nanA, 1))));
    equal = m_.orI(equal, m_.andI(nanA, nanB));
  }
  Value take = m_.orI(larger, m_.andI(equal, m_.compare(Cmp::Lt, b[1], a[1])));
  return {m_.select(take, b[0], a[0]), m_.select(take, b[1], a[1])};
}

LoopEmitter::Values LoopEmitter::acrossLanes(const Prim& prim, Values values) {
  if (values.size() == 1)
    values = {priced(Step::kAcrossLanes, prim, [&] { return foldLanes(prim, values)[0]; })};
  else
    values = foldLanes(prim, std::move(values));
  for (Value& value : values) value = vector::ExtractOp::create(b_, loc_, value, 0);
  return values;
}

/// Halves the vectors until one lane is left.
LoopEmitter::Values LoopEmitter::foldLanes(const Prim& prim, Values values) {
  for (int64_t width = lanes_ / 2; width >= 1; width /= 2) {
    auto [a, b] = halves(values, width);
    values = merge(prim, a, b);
  }
  return values;
}

std::pair<LoopEmitter::Values, LoopEmitter::Values> LoopEmitter::halves(llvm::ArrayRef<Value> values, int64_t width) {
  llvm::SmallVector<int64_t> lower, upper;
  for (int64_t i = 0; i < width; ++i) {
    lower.push_back(i);
    upper.push_back(width + i);
  }
  Values a, b;
  for (Value value : values) {
    a.push_back(vector::ShuffleOp::create(b_, loc_, value, value, lower));
    b.push_back(vector::ShuffleOp::create(b_, loc_, value, value, upper));
  }
  return {a, b};
}

// ---- Picks -----------------------------------------------------------------------------------------

/// One pass over the row for each pick: the first of the largest keys behind the one before, in the order of falling
/// keys and, among equal ones, of rising positions. What was picked last is all that is remembered.
void LoopEmitter::picks() {
  const Store& stored = plan_->stores[0];
  const int key = plan_->prims[stored.prim].operands[0], place = plan_->placeDim;
  const ElementType element = plan_->prims[key].type;
  const bool isSigned = isSignedType(element);
  const int64_t bits = elementSize(element) * 8;
  Type keyType = computeType(b_.getContext(), element), at = m_.i32();
  if (alongLanes(key) && plan_->vectorDim != plan_->pickDim) {
    keyType = vectorType(keyType);
    at = vectorType(at);
  }
  const uint64_t top = uint64_t{1} << (bits - 1);
  Value before = m_.constantInt(keyType, isSigned ? static_cast<int64_t>(top - 1) : -1);
  Values init = {before, m_.constantInt(at, -1)};
  const SymInt& count = plan_->dims[place].size;
  Value zero = m_.constantInt(m_.i64(), 0), one = m_.constantInt(m_.i64(), 1);
  auto loopOp = scf::ForOp::create(b_, loc_, zero, number(count), one, ValueRange(init));
  setTrips(loopOp, count, static_cast<double>(count.value()));
  Scope saved = scope_;
  {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToEnd(loopOp.getBody());
    index_[place] = loopOp.getInductionVar();
    scope_.available |= 1u << place;
    Values next = nextPick(key, isSigned, {loopOp.getRegionIterArgs()[0], loopOp.getRegionIterArgs()[1]});
    scope_.values[stored.prim] = m_.extend(next[1], m_.i64(), true);
    storeAll({0});
    scf::YieldOp::create(b_, loc_, ValueRange(next));
  }
  scope_ = std::move(saved);
  index_[place] = {};
}

LoopEmitter::Values LoopEmitter::nextPick(int key, bool isSigned, llvm::ArrayRef<Value> before) {
  const int row = plan_->pickDim;
  const bool alongRow = plan_->vectorDim == row, isVector = alongRow || alongLanes(key);
  Type keyType = computeType(b_.getContext(), plan_->prims[key].type), at = m_.i32();
  if (isVector) {
    keyType = vectorType(keyType);
    at = vectorType(at);
  }
  Values last(before.begin(), before.end());
  if (alongRow)
    for (Value& value : last) value = m_.broadcast(value, lanes_);
  // Of the better one: the larger key, then the lower position; -1 is none.
  auto better = [&](llvm::ArrayRef<Value> a, llvm::ArrayRef<Value> b) -> Values {
    Value none = m_.compare(Cmp::Lt, a[1], m_.integer(a[1], 0));
    Value first = m_.andI(m_.compare(Cmp::Eq, a[0], b[0]), m_.compare(Cmp::Lt, b[1], a[1]));
    Value wins = m_.orI(none, m_.orI(m_.compare(Cmp::Gt, b[0], a[0], isSigned), first));
    wins = m_.andI(wins, m_.compare(Cmp::Ge, b[1], m_.integer(b[1], 0)));
    return {m_.select(wins, b[0], a[0]), m_.select(wins, b[1], a[1])};
  };
  Values init = {m_.constantInt(keyType, 0), m_.constantInt(at, -1)};
  Values best = rowLoops(0, plan_->rowOrder, {key}, init, [&](llvm::ArrayRef<Value> old) -> Values {
    Value now = isVector ? vectorOf(key) : eval(key);
    Value position = m_.truncate(index_[row] ? index_[row] : m_.constantInt(m_.i64(), 0), m_.i32());
    if (isVector) position = m_.broadcast(position, lanes_);
    if (alongRow) position = m_.add(position, m_.iota(vectorType(m_.i32())));
    Value later = m_.andI(m_.compare(Cmp::Eq, now, last[0]), m_.compare(Cmp::Gt, position, last[1]));
    Value open = m_.orI(m_.compare(Cmp::Lt, now, last[0], isSigned), later);
    // Positions rise: of equal keys the one that is held is the first.
    Value none = m_.compare(Cmp::Lt, old[1], m_.integer(old[1], 0));
    Value wins = m_.andI(open, m_.orI(none, m_.compare(Cmp::Gt, now, old[0], isSigned)));
    if (alongRow && scope_.mask) wins = m_.andI(wins, scope_.mask);
    return {m_.select(wins, now, old[0]), m_.select(wins, position, old[1])};
  });
  if (!alongRow) return best;
  for (int64_t width = lanes_ / 2; width >= 1; width /= 2) {
    auto [a, b] = halves(best, width);
    best = better(a, b);
  }
  for (Value& value : best) value = vector::ExtractOp::create(b_, loc_, value, 0);
  return best;
}

}  // namespace hpu::kernels
