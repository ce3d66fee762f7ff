// SPDX-License-Identifier: Apache-2.0
// Bounds, lanes and loops.
#include "compiler/kernels/LoopEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace hpu::kernels {

using Cmp = VectorMath::Cmp;

void emitKernel(ModuleOp module, StringRef name, const PlannedKernel& kernel, const VariantTraits& traits,
                std::vector<SymInt>* trips) {
  OpBuilder b(module.getBodyRegion());
  Location loc = b.getUnknownLoc();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer});
  b.setInsertionPointToEnd(module.getBody());
  auto function = LLVM::LLVMFuncOp::create(b, loc, name, type);
  Block* entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  VectorMath math(b, loc, entry);
  LLVM::ReturnOp ret = LLVM::ReturnOp::create(b, loc, ValueRange());
  b.setInsertionPoint(ret);
  LoopEmitter emitter(math, module, traits, entry->getArgument(0), kernel, entry, trips);
  for (auto [i, piece] : llvm::enumerate(kernel.pieces))
    emitter.emit(traits.forCost ? piece : piece.hostPlan(), static_cast<int>(i));
}

LoopEmitter::LoopEmitter(VectorMath& math, ModuleOp module, const VariantTraits& traits, Value args,
                         const PlannedKernel& kernel, Block* entry, std::vector<SymInt>* trips)
    : m_(math),
      b_(math.builder()),
      loc_(math.loc()),
      module_(module),
      traits_(traits),
      entry_(entry),
      args_(args),
      kernel_(kernel),
      trips_(trips) {
  loadPointers(args, kernel.numInputs + kernel.numOutputs, static_cast<int>(kernel.rank));
}

void LoopEmitter::emit(const KernelPlan& plan, int piece) {
  plan_ = &plan;
  piece_ = piece;
  scope_ = Scope();
  tables_.clear();
  kept_.clear();
  index_.fill({});
  // An index that is always 0 is known everywhere.
  for (size_t d = 0; d < plan.dims.size(); ++d)
    if (!plan.dims[d].runs()) scope_.available |= 1u << d;
  setBounds();
  chooseLanes();
  inTables_.clear();
  sharedRows_.clear();
  if (hasHostTables())
    chunks(0);
  else
    parallel(0);
}

/// Fewer lanes than the variant's where these would stay empty; each vector costs as 16 lanes by
/// itself.
void LoopEmitter::chooseLanes() {
  int v = plan_->vectorDim;
  lanes_ = 1;
  if (v < 0) return;
  double length = extent(*plan_, v), best = 0;
  if (!plan_->dims[v].row) length *= static_cast<double>(mergedExtent_.value());
  int64_t most = traits_.lanes;
  for (int64_t lanes = most; lanes >= 8; lanes /= 2) {
    double cost = std::ceil(length / static_cast<double>(lanes)) * static_cast<double>(lanes + 16);
    if (lanes != most && cost >= best) continue;
    lanes_ = lanes;
    best = cost;
  }
}

// ---- Bounds
// -------------------------------------------------------------------------------------------

void LoopEmitter::setBounds() {
  const KernelPlan& plan = *plan_;
  lowOf_.assign(plan.dims.size(), {});
  highOf_.assign(plan.dims.size(), {});
  for (int d : plan.parallelOrder) {
    lowOf_[d] = lo_[d];
    highOf_[d] = hi_[d];
    if (!isZero(plan.boxLow[d])) lowOf_[d] = m_.max(lo_[d], number(plan.boxLow[d]));
    if (plan.boxHigh[d] != plan.dims[d].size) highOf_[d] = m_.min(hi_[d], number(plan.boxHigh[d]));
    // A slice may lie outside of the piece.
    if (highOf_[d] != hi_[d] || lowOf_[d] != lo_[d]) highOf_[d] = m_.max(highOf_[d], lowOf_[d]);
  }
  mergedExtent_ = 1;
  if (mergeable() == 0) return;
  // Where a slice has the inner dims whole, their elements follow one another: the loop over the
  // vector dim then runs over all of them, and the outer loops run once at index 0.
  size_t last = plan.parallelOrder.size() - 1;
  int v = plan.parallelOrder[last];
  Value one = m_.constantInt(m_.i64(), 1), zero = m_.constantInt(m_.i64(), 0);
  Value whole;
  llvm::SmallVector<SymInt, 4> elements;
  Value lowV = lowOf_[v], highV = highOf_[v];
  const llvm::SmallVector<Value> low = lowOf_, high = highOf_;
  bool staticallyWhole = true;
  for (int i = 1; i <= mergeable(); ++i) {
    int inner = plan.parallelOrder[last - i + 1], outer = plan.parallelOrder[last - i];
    const SymInt& size = plan.dims[inner].size;
    elements.push_back(size);
    Value innerWhole = m_.andI(m_.compare(Cmp::Eq, low[inner], zero), m_.compare(Cmp::Eq, high[inner], number(size)));
    whole = whole ? m_.andI(whole, innerWhole) : innerWhole;
    lowV = m_.select(whole, m_.mul(low[outer], number(elements)), lowV);
    highV = m_.select(whole, m_.mul(high[outer], number(elements)), highV);
    // An outer dim that is empty stays so: its range is then the vector dim's, which is empty too.
    lowOf_[outer] = m_.select(whole, zero, low[outer]);
    highOf_[outer] = m_.select(whole, one, high[outer]);
    staticallyWhole &= isZero(plan.boxLow[inner]) && plan.boxHigh[inner] == size;
    if (staticallyWhole) mergedExtent_ *= plan.boxHigh[outer] - plan.boxLow[outer];
  }
  lowOf_[v] = lowV;
  highOf_[v] = highV;
}

/// Whether a row's bounds are other ones for each output.
bool LoopEmitter::isCut(const IterDim& dim) const {
  bool isWhole = wholeWindow_ && dim.anchor == plan_->windowDim;
  return dim.isCut() && !isWhole && !loadsBeyondTensors();
}

Value LoopEmitter::low(int dim) {
  const IterDim& d = plan_->dims[dim];
  if (!d.row) return lowOf_[dim];
  if (!isCut(d)) return m_.constantInt(m_.i64(), 0);
  // A window that lies beyond the operand has no taps: its first one is not past its last one.
  if (d.taps) return m_.min(tapAt(*d.taps, d.anchor, d.taps->low), tapAt(*d.taps, d.anchor, d.taps->high));
  Affine at;
  if (d.anchor >= 0) at.coef[d.anchor] = 1;
  return LLVM::LoadOp::create(b_, loc_, m_.i64(), address(-1, tableBase(d.lowTable), at, 8, false), 8);
}
Value LoopEmitter::high(int dim) {
  const IterDim& d = plan_->dims[dim];
  if (!d.row) return highOf_[dim];
  if (!isCut(d)) return number(d.size);
  if (d.taps) return tapAt(*d.taps, d.anchor, d.taps->high);
  Affine at;
  if (d.anchor >= 0) at.coef[d.anchor] = 1;
  return LLVM::LoadOp::create(b_, loc_, m_.i64(), address(-1, tableBase(d.highTable), at, 8, false), 8);
}

/// Says how often a loop's body (or a branch) runs in the whole index space.
void LoopEmitter::setTrips(Operation* op, const SymInt& trips, double atRepresentatives, bool isElse) {
  op->setAttr(isElse ? kElseTripsAttr : kTripsAttr, b_.getF64FloatAttr(atRepresentatives));
  if (trips.isConstant() || !trips_) return;
  auto it = llvm::find(*trips_, trips);
  op->setAttr(isElse ? kLateElseTripsAttr : kLateTripsAttr, b_.getI64IntegerAttr(it - trips_->begin()));
  if (it == trips_->end()) trips_->push_back(trips);
}

// ---- Loops
// --------------------------------------------------------------------------------------------

/// What a store needs: its value, and what says where it goes.
void LoopEmitter::appendRoots(const Store& store, llvm::SmallVector<int>& roots) {
  roots.push_back(store.prim);
  if (store.condition >= 0) roots.push_back(store.condition);
  for (const Term& term : store.address.terms) roots.push_back(term.prim);
}

llvm::SmallVector<int> LoopEmitter::storeRoots() const {
  llvm::SmallVector<int> roots;
  for (const Store& store : plan_->stores) appendRoots(store, roots);
  return roots;
}

void LoopEmitter::parallel(size_t level) {
  if (level == plan_->parallelOrder.size()) {
    rows();
    return;
  }
  llvm::SmallVector<int> roots = storeRoots();
  hoist(roots);
  int dim = plan_->parallelOrder[level];
  if (dim == plan_->windowDim) {
    windowRow(dim);
    return;
  }
  const bool sharesRows = hasHostTables() && !plan_->sharedRows.empty() && level + 2 == plan_->parallelOrder.size();
  if (sharesRows) forgetRows();
  loop(dim, low(dim), high(dim), {}, [&](llvm::ArrayRef<Value>) {
    if (sharesRows) bringRows();
    parallel(level + 1);
    if (sharesRows) sharedRows_.clear();
    return Values();
  });
}

void LoopEmitter::rows() {
  if (plan_->pickDim >= 0) return picks();
  for (int pass = 0; pass < plan_->stages; ++pass) reducePass(pass);
  llvm::SmallVector<int, 4> inRow, once;
  for (auto [i, s] : llvm::enumerate(plan_->stores))
    (s.dims & plan_->rowDims ? inRow : once).push_back(static_cast<int>(i));
  storeAll(once);
  if (!inRow.empty()) {
    llvm::SmallVector<int> roots;
    for (int i : inRow) appendRoots(plan_->stores[i], roots);
    rowLoops(0, plan_->rowOrder, roots, {}, [&](llvm::ArrayRef<Value>) {
      storeAll(inRow);
      return Values();
    });
  }
  kept_.clear();
}

/// All values first: an output may lie where an input is that another output is computed from.
void LoopEmitter::storeAll(llvm::ArrayRef<int> indices) {
  for (int i : indices) eval(plan_->stores[i].prim);
  for (int i : indices) store(plan_->stores[i], i);
}

LoopEmitter::Values LoopEmitter::rowLoops(size_t level, llvm::ArrayRef<int> order, llvm::ArrayRef<int> roots,
                                          llvm::ArrayRef<Value> init, const Body& body) {
  if (level == order.size()) return body(init);
  hoist(roots);
  int dim = order[level];
  return loop(dim, low(dim), high(dim), init, [&](llvm::ArrayRef<Value> accumulators) {
    return rowLoops(level + 1, order, roots, accumulators, body);
  });
}

LoopEmitter::Values LoopEmitter::loop(int dim, Value low, Value high, llvm::ArrayRef<Value> init, const Body& body) {
  Scope saved = scope_;
  Value savedIndex = index_[dim];
  Values results =
      dim == plan_->vectorDim ? vectorLoop(dim, low, high, init, body) : scalarLoop(dim, low, high, init, body);
  scope_ = std::move(saved);
  index_[dim] = savedIndex;
  return results;
}

LoopEmitter::Values LoopEmitter::scalarLoop(int dim, Value low, Value high, llvm::ArrayRef<Value> init,
                                            const Body& body) {
  auto loopOp = scf::ForOp::create(b_, loc_, low, high, m_.constantInt(m_.i64(), 1), ValueRange(init));
  // Dims that are merged into the vector loop run once.
  bool merged = false;
  for (int i = 1; i <= mergeable(); ++i) merged |= plan_->parallelOrder[plan_->parallelOrder.size() - 1 - i] == dim;
  const bool runsOnce = merged && mergedExtent_.value() > 1;
  setTrips(loopOp, runsOnce ? 1 : symbolicExtent(*plan_, dim), runsOnce ? 1.0 : extent(*plan_, dim));
  if (isTap(dim)) loopOp->setAttr(kUnrolledAttr, b_.getUnitAttr());
  OpBuilder::InsertionGuard guard(b_);
  // With results the terminator is ours to add.
  if (init.empty())
    b_.setInsertionPoint(loopOp.getBody()->getTerminator());
  else
    b_.setInsertionPointToEnd(loopOp.getBody());
  index_[dim] = loopOp.getInductionVar();
  scope_.available |= 1u << dim;
  Values accumulators(loopOp.getRegionIterArgs().begin(), loopOp.getRegionIterArgs().end());
  Values results = body(accumulators);
  if (!init.empty()) scf::YieldOp::create(b_, loc_, ValueRange(results));
  return Values(loopOp.getResults().begin(), loopOp.getResults().end());
}

LoopEmitter::Values LoopEmitter::vectorLoop(int dim, Value low, Value high, llvm::ArrayRef<Value> init,
                                            const Body& body) {
  const IterDim& iter = plan_->dims[dim];
  Scope outer = scope_;
  scope_.available |= 1u << dim;
  Scope inner = scope_;
  const SymInt length = symbolicExtent(*plan_, dim) * (iter.row ? 1 : mergedExtent_);
  const SymInt trips = SymInt::max(1, length.ceilDiv(kTpcLanes));
  // Code for any size has both. The cost is that of the code for the representatives.
  const bool anySize = !length.isConstant() && !traits_.forCost;
  bool mainRuns = anySize || length.value() >= lanes_ || (!iter.row && mergeable() > 0);
  bool tailRuns = anySize || !(iter.row && iter.size.value() % lanes_ == 0);

  Values results(init.begin(), init.end());
  Value tailStart = low;
  if (mainRuns) {
    Value span = m_.andI(m_.sub(high, low), m_.constantInt(m_.i64(), -lanes_));
    tailStart = m_.add(low, span);
    auto loopOp = scf::ForOp::create(b_, loc_, low, tailStart, m_.constantInt(m_.i64(), lanes_), ValueRange(init));
    setTrips(loopOp, trips, static_cast<double>(trips.value()));
    OpBuilder::InsertionGuard guard(b_);
    if (init.empty())
      b_.setInsertionPoint(loopOp.getBody()->getTerminator());
    else
      b_.setInsertionPointToEnd(loopOp.getBody());
    index_[dim] = loopOp.getInductionVar();
    Values accumulators(loopOp.getRegionIterArgs().begin(), loopOp.getRegionIterArgs().end());
    Values yielded = body(accumulators);
    if (!init.empty()) scf::YieldOp::create(b_, loc_, ValueRange(yielded));
    results.assign(loopOp.getResults().begin(), loopOp.getResults().end());
  }
  if (!tailRuns) return results;

  Value more = m_.compare(Cmp::Lt, tailStart, high);
  auto ifOp = scf::IfOp::create(b_, loc_, TypeRange(ValueRange(results)), more, !results.empty());
  // On a TPC the lanes of the last vector are masked; the main loop's trips count that vector.
  if (mainRuns)
    setTrips(ifOp, 0, 0);
  else
    setTrips(ifOp, trips, static_cast<double>(trips.value()));
  OpBuilder::InsertionGuard guard(b_);
  if (results.empty())
    b_.setInsertionPoint(ifOp.thenYield());
  else
    b_.setInsertionPointToEnd(ifOp.thenBlock());
  scope_ = inner;
  index_[dim] = tailStart;
  scope_.active = m_.sub(high, tailStart);
  Type lane32 = VectorType::get({lanes_}, m_.i32());
  Value count = m_.broadcast(m_.truncate(scope_.active, m_.i32()), lanes_);
  scope_.mask = m_.compare(Cmp::Lt, m_.iota(lane32), count);
  Values yielded = body(results);
  if (!results.empty()) {
    scf::YieldOp::create(b_, loc_, ValueRange(yielded));
    b_.setInsertionPointToEnd(ifOp.elseBlock());
    scf::YieldOp::create(b_, loc_, ValueRange(results));
  }
  scope_ = outer;
  return Values(ifOp.getResults().begin(), ifOp.getResults().end());
}

}  // namespace hpu::kernels
