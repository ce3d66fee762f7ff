// SPDX-License-Identifier: Apache-2.0
// The innermost loop of window ops: several outputs side by side, whose windows are whole along the
// row, are computed together, so that weights are loaded once and the sums are independent.
#include "compiler/kernels/LoopEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace hpu::kernels {

using Cmp = VectorMath::Cmp;

/// Along `dim`: groups of windowOutputs where they fit, single outputs at the edges.
void LoopEmitter::windowRow(int dim) {
  int64_t group = traits_.windowOutputs;
  const SymInt whole = plan_->windowHigh - plan_->windowLow, groups = whole.floorDiv(group);
  const bool anySize = !whole.isConstant() && !traits_.forCost;
  if (!anySize && groups.value() <= 0) {
    loop(dim, low(dim), high(dim), {}, [&](llvm::ArrayRef<Value>) {
      rows();
      return Values();
    });
    return;
  }
  Scope saved = scope_;
  Value savedIndex = index_[dim];
  Value start = low(dim), end = high(dim);
  // Groups may start in [windowLow, lastGroup).
  Value first = number(plan_->windowLow);
  Value lastGroup = m_.sub(m_.min(end, number(plan_->windowHigh)), m_.constantInt(m_.i64(), group - 1));
  auto whileOp = scf::WhileOp::create(b_, loc_, TypeRange{m_.i64()}, ValueRange{start});
  OpBuilder::InsertionGuard guard(b_);
  Block* before = b_.createBlock(&whileOp.getBefore(), {}, {m_.i64()}, {loc_});
  Value more = m_.compare(Cmp::Lt, before->getArgument(0), end);
  scf::ConditionOp::create(b_, loc_, more, before->getArguments());

  Block* after = b_.createBlock(&whileOp.getAfter(), {}, {m_.i64()}, {loc_});
  Value at = after->getArgument(0);
  Value fits = m_.andI(m_.compare(Cmp::Ge, at, first), m_.compare(Cmp::Lt, at, lastGroup));
  auto ifOp = scf::IfOp::create(b_, loc_, TypeRange{m_.i64()}, fits, /*withElseRegion=*/true);
  // The loop runs once a group or single output; each branch counts for its own.
  const SymInt singles = symbolicExtent(*plan_, dim) - groups * group;
  setTrips(whileOp, 1, 1);
  setTrips(ifOp, groups, static_cast<double>(groups.value()));
  setTrips(ifOp, singles, static_cast<double>(singles.value()), /*isElse=*/true);

  b_.setInsertionPointToEnd(ifOp.thenBlock());
  windowOutputs(at, group);
  scf::YieldOp::create(b_, loc_, ValueRange{m_.add(at, m_.constantInt(m_.i64(), group))});

  b_.setInsertionPointToEnd(ifOp.elseBlock());
  scope_ = saved;
  scope_.available |= 1u << dim;
  index_[dim] = at;
  rows();
  scf::YieldOp::create(b_, loc_, ValueRange{m_.add(at, m_.constantInt(m_.i64(), 1))});

  b_.setInsertionPointToEnd(after);
  scf::YieldOp::create(b_, loc_, ifOp.getResults());
  scope_ = std::move(saved);
  index_[dim] = savedIndex;
}

/// `count` outputs from `first` on; their windows are whole along the row.
void LoopEmitter::windowOutputs(Value first, int64_t count) {
  int dim = plan_->windowDim;
  llvm::SmallVector<Value, 8> at;
  for (int64_t u = 0; u < count; ++u) at.push_back(u == 0 ? first : m_.add(first, m_.constantInt(m_.i64(), u)));
  // What varies with the output is known in a scope of its own.
  auto inOutput = [&](int64_t u, auto&& body) {
    Scope shared = scope_;
    Value before = index_[dim];
    scope_.available |= 1u << dim;
    index_[dim] = at[u];
    body();
    scope_ = std::move(shared);
    index_[dim] = before;
  };
  llvm::SmallVector<int> roots;
  llvm::SmallVector<Accumulator, 4> accumulators = accumulatorsOf(0, roots);
  size_t each = 0;
  Values init;
  for (const Accumulator& acc : accumulators) each += acc.values;
  for (int64_t u = 0; u < count; ++u)
    for (const Accumulator& acc : accumulators) init.append(neutral(acc));
  wholeWindow_ = true;
  together_ = count;
  Values results = rowLoops(0, plan_->rowOrder, roots, init, [&](llvm::ArrayRef<Value> old) {
    hoist(roots);
    Values updated;
    for (int64_t u = 0; u < count; ++u)
      inOutput(u, [&] {
        for (const Accumulator& acc : accumulators) {
          updated.append(combine(acc, old.take_front(acc.values)));
          old = old.drop_front(acc.values);
        }
      });
    return updated;
  });
  wholeWindow_ = false;
  together_ = 1;
  llvm::SmallVector<int> stored = storeRoots();
  hoist(stored);
  for (int64_t u = 0; u < count; ++u)
    inOutput(u, [&] {
      llvm::ArrayRef<Value> mine = llvm::ArrayRef<Value>(results).slice(u * each, each);
      for (const Accumulator& acc : accumulators) {
        finish(acc, Values(mine.take_front(acc.values)));
        mine = mine.drop_front(acc.values);
      }
      storeAll(llvm::to_vector(llvm::seq<int>(0, static_cast<int>(plan_->stores.size()))));
    });
}

}  // namespace hpu::kernels
