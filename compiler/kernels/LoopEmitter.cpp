// SPDX-License-Identifier: Apache-2.0
// Loops and passes; values are evaluated where they are first needed, or hoisted before a loop.
#include "compiler/kernels/LoopEmitter.h"

#include "compiler/kernels/Staging.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace hpu::kernels {

using Cmp = VectorMath::Cmp;

void emitKernel(ModuleOp module, StringRef name, const PlannedKernel& kernel, const VariantTraits& traits) {
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
  LoopEmitter emitter(math, module, traits, entry->getArgument(0), kernel.numInputs + kernel.numOutputs,
                      static_cast<int>(kernel.rank), entry);
  for (auto [i, piece] : llvm::enumerate(kernel.pieces)) emitter.emit(piece, kernel.numInputs, static_cast<int>(i));
}

LoopEmitter::LoopEmitter(VectorMath& math, ModuleOp module, const VariantTraits& traits, Value args, int operands,
                         int rank, Block* entry)
    : m_(math), b_(math.builder()), loc_(math.loc()), module_(module), traits_(traits), entry_(entry) {
  loadPointers(args, operands, rank);
}

void LoopEmitter::emit(const KernelPlan& plan, int numInputs, int piece) {
  plan_ = &plan;
  numInputs_ = numInputs;
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
  parallel(0);
}

/// Fewer lanes than the variant's where these would stay empty; each vector costs as 16 lanes by
/// itself.
void LoopEmitter::chooseLanes() {
  int v = plan_->vectorDim;
  lanes_ = 1;
  if (v < 0) return;
  double length = extent(*plan_, v) * (plan_->dims[v].row ? 1 : mergedExtent_), best = 0;
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
    if (plan.boxLow[d] != 0) lowOf_[d] = m_.max(lo_[d], m_.integer(lo_[d], plan.boxLow[d]));
    if (plan.boxHigh[d] != plan.dims[d].size) highOf_[d] = m_.min(hi_[d], m_.integer(hi_[d], plan.boxHigh[d]));
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
  int64_t elements = 1;
  Value lowV = lowOf_[v], highV = highOf_[v];
  const llvm::SmallVector<Value> low = lowOf_, high = highOf_;
  bool staticallyWhole = true;
  for (int i = 1; i <= mergeable(); ++i) {
    int inner = plan.parallelOrder[last - i + 1], outer = plan.parallelOrder[last - i];
    int64_t size = plan.dims[inner].size;
    elements *= size;
    Value innerWhole =
        m_.andI(m_.compare(Cmp::Eq, low[inner], zero), m_.compare(Cmp::Eq, high[inner], m_.integer(zero, size)));
    whole = whole ? m_.andI(whole, innerWhole) : innerWhole;
    lowV = m_.select(whole, m_.mul(low[outer], m_.integer(zero, elements)), lowV);
    highV = m_.select(whole, m_.mul(high[outer], m_.integer(zero, elements)), highV);
    // An outer dim that is empty stays so: its range is then the vector dim's, which is empty too.
    lowOf_[outer] = m_.select(whole, zero, low[outer]);
    highOf_[outer] = m_.select(whole, one, high[outer]);
    staticallyWhole &= plan.boxLow[inner] == 0 && plan.boxHigh[inner] == size;
    if (staticallyWhole) mergedExtent_ *= static_cast<double>(plan.boxHigh[outer] - plan.boxLow[outer]);
  }
  lowOf_[v] = lowV;
  highOf_[v] = highV;
}

Value LoopEmitter::low(int dim) {
  const IterDim& d = plan_->dims[dim];
  if (!d.row) return lowOf_[dim];
  if (d.lowTable < 0 || traits_.forCost || (wholeWindow_ && d.anchor == plan_->windowDim))
    return m_.constantInt(m_.i64(), 0);
  Affine at;
  if (d.anchor >= 0) at.coef[d.anchor] = 1;
  return LLVM::LoadOp::create(b_, loc_, m_.i64(), address(-1, tableBase(d.lowTable), at, 8, false), 8);
}
Value LoopEmitter::high(int dim) {
  const IterDim& d = plan_->dims[dim];
  if (!d.row) return highOf_[dim];
  // A TPC's loads outside of a tensor give a value that changes nothing: no bounds.
  if (d.highTable < 0 || traits_.forCost || (wholeWindow_ && d.anchor == plan_->windowDim))
    return m_.constantInt(m_.i64(), d.size);
  Affine at;
  if (d.anchor >= 0) at.coef[d.anchor] = 1;
  return LLVM::LoadOp::create(b_, loc_, m_.i64(), address(-1, tableBase(d.highTable), at, 8, false), 8);
}

// ---- Loops
// --------------------------------------------------------------------------------------------

llvm::SmallVector<int> LoopEmitter::storeRoots() const {
  llvm::SmallVector<int> roots;
  for (const Store& store : plan_->stores) roots.push_back(store.prim);
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
  loop(dim, low(dim), high(dim), {}, [&](llvm::ArrayRef<Value>) {
    parallel(level + 1);
    return Values();
  });
}

void LoopEmitter::rows() {
  for (int pass = 0; pass < plan_->stages; ++pass) reducePass(pass);
  llvm::SmallVector<int, 4> inRow, once;
  for (auto [i, s] : llvm::enumerate(plan_->stores))
    (s.dims & plan_->rowDims ? inRow : once).push_back(static_cast<int>(i));
  storeAll(once);
  if (!inRow.empty()) {
    llvm::SmallVector<int> roots;
    for (int i : inRow) roots.push_back(plan_->stores[i].prim);
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
  loopOp->setAttr(kTripsAttr, b_.getF64FloatAttr(merged && mergedExtent_ > 1 ? 1.0 : extent(*plan_, dim)));
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
  double length = iter.row ? extent(*plan_, dim) : extent(*plan_, dim) * mergedExtent_;
  double trips = std::max(1.0, std::ceil(length / static_cast<double>(kTpcLanes)));
  bool mainRuns = length >= static_cast<double>(lanes_) || (!iter.row && mergeable() > 0);
  bool tailRuns = !(iter.row && iter.size % lanes_ == 0);

  Values results(init.begin(), init.end());
  Value tailStart = low;
  if (mainRuns) {
    Value span = m_.andI(m_.sub(high, low), m_.constantInt(m_.i64(), -lanes_));
    tailStart = m_.add(low, span);
    auto loopOp = scf::ForOp::create(b_, loc_, low, tailStart, m_.constantInt(m_.i64(), lanes_), ValueRange(init));
    loopOp->setAttr(kTripsAttr, b_.getF64FloatAttr(trips));
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
  ifOp->setAttr(kTripsAttr, b_.getF64FloatAttr(mainRuns ? 0.0 : trips));
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

// ---- Values
// -------------------------------------------------------------------------------------------

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
  bool ready = (prim.deps & ~scope_.available) == 0 && prim.kind != Prim::Kind::Reduce;
  if (!kept_.contains(p)) {
    for (int operand : prim.operands) ready &= hoistOne(operand, seen);
    for (const Term& term : prim.address.terms) ready &= hoistOne(term.prim, seen);
  }
  seen[p] = ready;
  if (ready && prim.kind != Prim::Kind::Constant) eval(p);
  if (!ready && prim.kind == Prim::Kind::Load && !kept_.contains(p))
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

Value LoopEmitter::compute(int p) {
  const Prim& prim = plan_->prims[p];
  Type type = computeType(b_.getContext(), prim.type);
  switch (prim.kind) {
    case Prim::Kind::Constant:
      return isFloatType(prim.type) ? m_.constant(type, prim.number) : m_.constantInt(type, prim.integer);
    case Prim::Kind::Load:
      break;
    case Prim::Kind::Reduce:
      llvm_unreachable("a reduction is done before its pass's results are used");
    case Prim::Kind::Lane:
      break;
  }
  if (kept_.contains(p)) {
    Type kept = alongLanes(p) ? vectorType(type) : type;
    return local(LLVM::LoadOp::create(b_, loc_, kept, scratchAddress(p), 4)).getRes();
  }
  Value value;
  if (prim.kind == Prim::Kind::Load) {
    value = load(p);
  } else {
    bool vector = alongLanes(p);
    llvm::SmallVector<Value, 3> operands;
    for (int operand : prim.operands) operands.push_back(vector ? vectorOf(operand) : eval(operand));
    value = prim.op->emit(m_, operands, {prim.in, prim.type, prim.params});
  }
  if (isKept(p)) {
    keeping_.insert(p);
    local(LLVM::StoreOp::create(b_, loc_, value, scratchAddress(p), 4));
  }
  return value;
}

// ---- Reductions
// ---------------------------------------------------------------------------------------

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
  bool product = prim.reduce == ReduceKind::Sum && source.kind == Prim::Kind::Lane &&
                 StringRef(source.op->name) == "mul" && isFloatType(source.type) && !isKept(operand) &&
                 !scope_.values.count(operand);
  if (product) {
    auto factor = [&](int p) { return acc.vector ? vectorOf(p) : eval(p); };
    Value sum = m_.fma(factor(source.operands[0]), factor(source.operands[1]), old[0]);
    if (traits_.forCost && reducesNarrow(*plan_, prim))
      sum.getDefiningOp()->setAttr(kInstructionsAttr, b_.getF64FloatAttr(kNarrowReduction));
    updated.push_back(sum);
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
    if (traits_.forCost && reducesNarrow(*plan_, prim))
      updated = {m_.asOneInstruction([&] { return merge(prim, old, now)[0]; }, kNarrowReduction)};
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

/// Instructions for a row with which a TPC combines the lanes of one accumulator into a value in all lanes. Rows that
/// fit local memory together are combined in pairs, so that fewer vectors are left at each step.
static double tpcFoldInstructions(const KernelPlan& plan) {
  constexpr int kMostRows = 8, kSteps = 6;             // Of 64 lanes; the accumulators stay in registers.
  constexpr double kPair = 3, kStep = 2, kSpread = 1;  // Two shuffles and the op; a shuffle and the op; a shuffle.
  int64_t bytes = std::max<int64_t>(plan.tpcSlots * slotBytes(plan), 1);
  int rows = 1, levels = 0;
  while (rows < kMostRows && 2 * rows * bytes <= kMaxScratchBytes - kTableBytes) rows *= 2, ++levels;
  if (rows == 1) return kStep * kSteps;
  return (kPair * (rows - 1) + kStep * (kSteps - levels) + kSpread * rows) / rows;
}

LoopEmitter::Values LoopEmitter::acrossLanes(const Prim& prim, Values values) {
  if (traits_.forCost && values.size() == 1) {
    Value result = m_.asOneInstruction([&] { return foldLanes(prim, values)[0]; }, tpcFoldInstructions(*plan_));
    return {vector::ExtractOp::create(b_, loc_, result, 0)};
  }
  values = foldLanes(prim, std::move(values));
  for (Value& value : values) value = vector::ExtractOp::create(b_, loc_, value, 0);
  return values;
}

/// Halves the vectors until one lane is left.
LoopEmitter::Values LoopEmitter::foldLanes(const Prim& prim, Values values) {
  for (int64_t width = lanes_ / 2; width >= 1; width /= 2) {
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
    values = merge(prim, a, b);
  }
  return values;
}

}  // namespace hpu::kernels
