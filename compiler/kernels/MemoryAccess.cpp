// SPDX-License-Identifier: Apache-2.0
// Addresses, loads and stores: contiguous, strided, looked up, masked; and the conversion between
// what memory holds and what registers hold.
#include "compiler/kernels/LoopEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace hpu::kernels {

using Cmp = VectorMath::Cmp;

// Offsets in HpuKernelArgs.
constexpr int64_t kArgBuffers = 0, kArgLo = 8, kArgHi = 16, kArgDims = 24, kArgScratch = 32;

void LoopEmitter::loadPointers(Value args, int operands, int rank) {
  Type pointer = args.getType();
  auto at = [&](Value base, int64_t offset, Type type) -> Value {
    return LLVM::LoadOp::create(b_, loc_, type, gep(base, m_.constantInt(m_.i64(), offset)), 8);
  };
  Value buffers = at(args, kArgBuffers, pointer);
  for (int i = 0; i < operands; ++i) operands_.push_back(at(buffers, 8 * i, pointer));
  if (rank > 0) {
    Value lo = at(args, kArgLo, pointer), hi = at(args, kArgHi, pointer);
    for (int d = 0; d < rank; ++d) {
      lo_.push_back(at(lo, 8 * d, m_.i64()));
      hi_.push_back(at(hi, 8 * d, m_.i64()));
    }
  }
  scratch_ = at(args, kArgScratch, pointer);
}

Value LoopEmitter::lateNumber(const SymInt& number) {
  const auto at = static_cast<size_t>(llvm::find(kernel_.dims, number) - kernel_.dims.begin());
  assert(at < kernel_.dims.size() && "planKernel lists what code reads");
  Value& value = numbers_[{{at}, 1}];
  if (value) return value;
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPoint(scratch_.getDefiningOp());  // The last op of the entry: all loops follow it.
  Value& dims = numbers_[{{}, 1}];
  if (!dims) dims = LLVM::LoadOp::create(b_, loc_, args_.getType(), gep(args_, m_.constantInt(m_.i64(), kArgDims)), 8);
  return value = LLVM::LoadOp::create(b_, loc_, m_.i64(),
                                      gep(dims, m_.constantInt(m_.i64(), 8 * static_cast<int64_t>(at))), 8);
}

Value LoopEmitter::number(llvm::ArrayRef<SymInt> factors, int64_t constant) {
  llvm::SmallVector<const SymInt*, 4> late;
  for (const SymInt& factor : factors) {
    // Any place costs as much as another, so the cost's code has the representatives.
    if (factor.isConstant() || traits_.forCost)
      constant *= factor.value();
    else
      late.push_back(&factor);
  }
  if (late.empty() || constant == 0) return m_.constantInt(m_.i64(), constant);
  std::pair<std::vector<size_t>, int64_t> key{{}, constant};
  llvm::SmallVector<Value, 4> values;
  for (const SymInt* factor : late) {
    values.push_back(lateNumber(*factor));
    key.first.push_back(static_cast<size_t>(llvm::find(kernel_.dims, *factor) - kernel_.dims.begin()));
  }
  Value& product = numbers_[key];
  if (product) return product;
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPoint(scratch_.getDefiningOp());
  Value result = values.front();
  for (Value value : llvm::drop_begin(values)) result = m_.mul(result, value);
  if (constant != 1) result = m_.mul(result, m_.constantInt(m_.i64(), constant));
  return product = result;
}

/// ceil((bound - start) / dilation) of the window that starts at p * stride - padBegin, between 0 and its taps.
Value LoopEmitter::tapAt(const TapBounds& taps, int anchor, const SymInt& bound) {
  Value at = m_.add(number(bound), m_.constantInt(m_.i64(), taps.padBegin + taps.dilation - 1));
  if (anchor >= 0 && index_[anchor]) at = m_.sub(at, m_.mul(index_[anchor], m_.constantInt(m_.i64(), taps.stride)));
  Value zero = m_.constantInt(m_.i64(), 0);
  at = m_.max(at, zero);
  if (taps.dilation != 1) at = m_.divInt(at, m_.constantInt(m_.i64(), taps.dilation), true);
  return m_.min(at, m_.constantInt(m_.i64(), taps.kernel));
}

/// The number that an address is, before it counts elements.
Value LoopEmitter::position(const Affine& affine, bool vector) {
  Value sum = number(affine.constant), lanes;
  for (int d = 0; d < static_cast<int>(plan_->dims.size()); ++d)
    if (!isZero(affine.coef[d]) && index_[d]) sum = m_.add(sum, m_.mul(index_[d], number(affine.coef[d])));
  auto addLanes = [&](Value value) { lanes = lanes ? m_.add(lanes, value) : value; };
  for (const Term& term : affine.terms) {
    if (alongLanes(term.prim))
      addLanes(m_.mul(eval(term.prim), m_.broadcast(number(term.factor), lanes_)));
    else
      sum = m_.add(sum, m_.mul(eval(term.prim), number(term.factor)));
  }
  if (!vector) return sum;
  const SymInt& step = affine.coef[plan_->vectorDim];
  if (!isZero(step)) addLanes(strided(step, 1));
  return lanes ? m_.add(lanes, m_.broadcast(sum, lanes_)) : m_.broadcast(sum, lanes_);
}

/// A vector <0, 1, 2, ...> times a number and a factor.
Value LoopEmitter::strided(const SymInt& step, int64_t factor) {
  Type type = vectorType(m_.i64());
  if (step.isConstant() || traits_.forCost) return m_.iota(type, step.value() * factor);
  return m_.mul(m_.iota(type), m_.broadcast(number(step, factor), lanes_));
}

Value LoopEmitter::gep(Value pointer, Value byteOffset) {
  Type result = pointer.getType();
  if (auto vector = dyn_cast<VectorType>(byteOffset.getType())) result = VectorType::get(vector.getShape(), result);
  return LLVM::GEPOp::create(b_, loc_, result, b_.getI8Type(), pointer, ValueRange(byteOffset));
}

/// base + affine, as far as its dims are known here (all of them unless `partial`); `key` names
/// whose address it is, so that inner scopes go on from it. Terms along the lanes are left to
/// laneOffsets.
Value LoopEmitter::address(int key, Value base, const Affine& affine, int64_t elementBytes, bool partial) {
  constexpr int kAnonymous = -1;
  Scope::Partial known =
      key != kAnonymous && scope_.addresses.count(key) ? scope_.addresses.lookup(key) : Scope::Partial();
  Value offset;
  auto addTo = [&](Value value) { offset = offset ? m_.add(offset, value) : value; };
  if (!known.pointer) {
    known.pointer = base;
    if (!isZero(affine.constant)) addTo(number(affine.constant, elementBytes));
  }
  for (int d = 0; d < static_cast<int>(plan_->dims.size()); ++d) {
    if (isZero(affine.coef[d]) || !index_[d] || known.dims >> d & 1) continue;
    if (!(scope_.available >> d & 1)) continue;
    addTo(m_.mul(index_[d], number(affine.coef[d], elementBytes)));
    known.dims |= 1u << d;
  }
  if (!known.terms) {
    bool ready = true;
    for (const Term& term : affine.terms) ready &= !partial || scope_.values.count(term.prim) > 0;
    if (ready) {
      for (const Term& term : affine.terms)
        if (!alongLanes(term.prim)) addTo(m_.mul(eval(term.prim), number(term.factor, elementBytes)));
      known.terms = true;
    }
  }
  if (offset) known.pointer = gep(known.pointer, offset);
  if (key != kAnonymous) scope_.addresses[key] = known;
  return known.pointer;
}

/// Byte offsets of the lanes from address(): null when they lie at a constant stride.
Value LoopEmitter::laneOffsets(const Affine& affine, int64_t elementBytes) {
  Value offsets;
  for (const Term& term : affine.terms) {
    if (!alongLanes(term.prim)) continue;
    Value value = eval(term.prim);
    const bool isConstant = term.factor.isConstant() || traits_.forCost;
    value = m_.mul(value, isConstant ? m_.integer(value, term.factor.value() * elementBytes)
                                     : m_.broadcast(number(term.factor, elementBytes), lanes_));
    offsets = offsets ? m_.add(offsets, value) : value;
  }
  const SymInt stride = plan_->vectorDim < 0 ? 0 : affine.coef[plan_->vectorDim];
  if (offsets && !isZero(stride)) offsets = m_.add(offsets, strided(stride, elementBytes));
  return offsets;
}

Value LoopEmitter::tableBase(int table) {
  Value& base = tables_[table];
  if (base) return base;
  const Table& data = plan_->tables[table];
  bool isFloat = data.type == ElementType::kF32;
  Type element = isFloat ? m_.f32() : m_.i64();
  auto count = static_cast<int64_t>(isFloat ? data.floats.size() : data.ints.size());
  auto tensor = RankedTensorType::get({count}, element);
  Attribute value = isFloat ? Attribute(DenseElementsAttr::get(tensor, llvm::ArrayRef<float>(data.floats)))
                            : Attribute(DenseElementsAttr::get(tensor, llvm::ArrayRef<int64_t>(data.ints)));
  std::string name = "table" + std::to_string(piece_) + "_" + std::to_string(table);
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(module_.getBody());
  auto global = LLVM::GlobalOp::create(b_, loc_, LLVM::LLVMArrayType::get(element, static_cast<unsigned>(count)),
                                       /*isConstant=*/true, LLVM::Linkage::Internal, name, value, 64);
  b_.setInsertionPointToStart(entry_);
  base = LLVM::AddressOfOp::create(b_, loc_, global);
  return base;
}

Type LoopEmitter::storageType(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return m_.f32();
    case ElementType::kF64:
      return m_.f64();
    case ElementType::kF16:
      return b_.getF16Type();
    default:
      return b_.getIntegerType(static_cast<unsigned>(elementSize(type)) * 8);
  }
}

Value LoopEmitter::fromStorage(Value stored, ElementType type) {
  if (numerics::isFp8(type)) return m_.fromFp8Bits(stored, numerics::fp8Format(type));
  switch (type) {
    case ElementType::kBF16:
      return m_.fromBf16Bits(stored);
    case ElementType::kF16:
      return m_.extendF(stored, m_.f32());
    case ElementType::kBool:
      return m_.compare(Cmp::Ne, stored, m_.integer(stored, 0));
    default:
      return stored;
  }
}

Value LoopEmitter::toStorage(Value value, ElementType type) {
  if (numerics::isFp8(type)) return m_.fp8Bits(value, numerics::fp8Format(type));
  switch (type) {
    case ElementType::kBF16:
      return m_.bf16Bits(value);
    case ElementType::kF16:
      return m_.truncateF(value, b_.getF16Type());
    case ElementType::kBool:
      return m_.extend(value, b_.getI8Type(), false);
    default:
      return value;
  }
}

Value LoopEmitter::laneCount() {
  return scope_.active ? scope_.active : m_.constantInt(m_.i64(), lanes_);
}

/// 64 lanes of at most 8 bytes on the stack, for accesses that no vector instruction does.
Value LoopEmitter::stackBuffer(int which) {
  if (stack_[which]) return stack_[which];
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(entry_);
  Value size = LLVM::ConstantOp::create(b_, loc_, m_.i64(), b_.getI64IntegerAttr(1));
  auto type = LLVM::LLVMArrayType::get(b_.getI8Type(), kMaxLanes * 8);
  stack_[which] =
      LLVM::AllocaOp::create(b_, loc_, operands_.empty() ? scratch_.getType() : operands_[0].getType(), type, size, 64);
  return stack_[which];
}

void LoopEmitter::laneLoop(const std::function<void(Value)>& body) {
  auto loopOp = scf::ForOp::create(b_, loc_, m_.constantInt(m_.i64(), 0), laneCount(), m_.constantInt(m_.i64(), 1));
  loopOp->setAttr(kTripsAttr, b_.getF64FloatAttr(kTpcLanes));
  loopOp->setAttr(kUnrolledAttr, b_.getUnitAttr());
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPoint(loopOp.getBody()->getTerminator());
  body(loopOp.getInductionVar());
}

Value LoopEmitter::load(int p) {
  const Prim& prim = plan_->prims[p];
  int64_t bytes = elementSize(prim.type);
  Value base = prim.table >= 0 ? tableBase(prim.table) : operands_[prim.source];
  if (!alongLanes(p)) {
    Value pointer = address(p, base, prim.address, bytes, false);
    Value stored = LLVM::LoadOp::create(b_, loc_, storageType(prim.type), pointer, static_cast<unsigned>(bytes));
    return fromStorage(stored, prim.type);
  }
  if (Value loaded = tpcLoad(p, base)) return loaded;
  Value offsets = laneOffsets(prim.address, bytes);
  Value pointer = address(p, base, prim.address, bytes, false);
  return fromStorage(loadVector(pointer, prim.type, offsets, prim.address.coef[plan_->vectorDim]), prim.type);
}

Value LoopEmitter::loadVector(Value pointer, ElementType type, Value byteOffsets, const SymInt& laneStride) {
  Type element = storageType(type);
  Type vector = vectorType(element);
  auto bytes = static_cast<unsigned>(elementSize(type));
  bool wide = bytes >= 4;
  bool contiguous = !byteOffsets && laneStride == 1;
  if (contiguous && !scope_.mask) return LLVM::LoadOp::create(b_, loc_, vector, pointer, bytes);
  if (contiguous && (wide || traits_.narrowMasks))
    return LLVM::MaskedLoadOp::create(b_, loc_, vector, pointer, scope_.mask, m_.constant(vector, 0), bytes);
  if (!contiguous && wide) {
    Value offsets = byteOffsets ? byteOffsets : strided(laneStride, bytes);
    Value mask = scope_.mask ? scope_.mask : m_.constantInt(vectorType(b_.getI1Type()), 1);
    return LLVM::masked_gather::create(b_, loc_, vector, gep(pointer, offsets), mask,
                                       ValueRange(m_.constant(vector, 0)), bytes);
  }
  // Lane by lane through the stack.
  Value buffer = stackBuffer(0), offsetBuffer;
  if (byteOffsets) {
    offsetBuffer = stackBuffer(1);
    LLVM::StoreOp::create(b_, loc_, byteOffsets, offsetBuffer, 64);
  }
  laneLoop([&](Value lane) {
    Value offset;
    if (byteOffsets) {
      Value at = gep(offsetBuffer, m_.shl(lane, 3));
      offset = LLVM::LoadOp::create(b_, loc_, m_.i64(), at, 8);
    } else {
      offset = m_.mul(lane, number(laneStride, bytes));
    }
    Value value = LLVM::LoadOp::create(b_, loc_, element, gep(pointer, offset), bytes);
    Value to = gep(buffer, m_.mul(lane, m_.constantInt(m_.i64(), bytes)));
    LLVM::StoreOp::create(b_, loc_, value, to, bytes);
  });
  return LLVM::LoadOp::create(b_, loc_, vector, buffer, 64);
}

/// Under its condition, if that is one for all lanes.
void LoopEmitter::store(const Store& store, int index) {
  for (const Term& term : store.address.terms) eval(term.prim);
  if (store.condition < 0 || alongLanes(store.condition)) return storeAlways(store, index);
  Value holds = eval(store.condition);
  if (plan_->vectorDim >= 0 && (store.dims >> plan_->vectorDim & 1)) vectorOf(store.prim);
  Scope saved = scope_;
  auto ifOp = scf::IfOp::create(b_, loc_, TypeRange(), holds, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPoint(ifOp.thenYield());
    storeAlways(store, index);
  }
  scope_ = std::move(saved);
}

void LoopEmitter::storeAlways(const Store& store, int index) {
  auto bytes = static_cast<unsigned>(elementSize(store.type));
  int v = plan_->vectorDim;
  // Keys of stores follow those of prims.
  int key = static_cast<int>(plan_->prims.size()) + index;
  Value base = operands_[kernel_.numInputs + store.output];
  bool vector = v >= 0 && (store.dims >> v & 1);
  if (!vector) {
    Value value = toStorage(eval(store.prim), store.type);
    LLVM::StoreOp::create(b_, loc_, value, address(key, base, store.address, bytes, false), bytes);
    return;
  }
  Value value = toStorage(vectorOf(store.prim), store.type);
  const SymInt& stride = store.address.coef[v];
  Value offsets = laneOffsets(store.address, bytes);
  if (!offsets && tpcStore(store, value, base)) return;
  Value pointer = address(key, base, store.address, bytes, false);
  bool wide = bytes >= 4;
  const bool isContiguous = stride == 1 && !offsets && (store.condition < 0 || !alongLanes(store.condition));
  if (isContiguous && !scope_.mask) {
    LLVM::StoreOp::create(b_, loc_, value, pointer, bytes);
    return;
  }
  if (isContiguous && (wide || traits_.narrowMasks)) {
    LLVM::MaskedStoreOp::create(b_, loc_, value, pointer, scope_.mask, bytes);
    return;
  }
  storeLanes(store, value, pointer, offsets);
}

/// Lane by lane through the stack.
void LoopEmitter::storeLanes(const Store& store, Value value, Value pointer, Value offsets) {
  auto bytes = static_cast<unsigned>(elementSize(store.type));
  const SymInt& stride = store.address.coef[plan_->vectorDim];
  const bool isConditional = store.condition >= 0 && alongLanes(store.condition);
  if (isConditional && !offsets) offsets = strided(stride, bytes);
  Value buffer = stackBuffer(0), offsetBuffer;
  LLVM::StoreOp::create(b_, loc_, value, buffer, 64);
  if (offsets) {
    // No element is there.
    if (isConditional) offsets = m_.select(vectorOf(store.condition), offsets, m_.integer(offsets, INT64_MIN));
    offsetBuffer = stackBuffer(1);
    LLVM::StoreOp::create(b_, loc_, offsets, offsetBuffer, 64);
  }
  Type element = storageType(store.type);
  laneLoop([&](Value lane) {
    Value from = gep(buffer, m_.mul(lane, m_.constantInt(m_.i64(), bytes)));
    Value lanes = LLVM::LoadOp::create(b_, loc_, element, from, bytes);
    Value offset = offsets ? LLVM::LoadOp::create(b_, loc_, m_.i64(), gep(offsetBuffer, m_.shl(lane, 3)), 8).getRes()
                           : m_.mul(lane, number(stride, bytes));
    auto storeOne = [&] { LLVM::StoreOp::create(b_, loc_, lanes, gep(pointer, offset), bytes); };
    if (!isConditional) return storeOne();
    auto ifOp = scf::IfOp::create(b_, loc_, TypeRange(), m_.compare(Cmp::Ne, offset, m_.integer(offset, INT64_MIN)),
                                  /*withElseRegion=*/false);
    b_.setInsertionPoint(ifOp.thenYield());
    storeOne();
  });
}

/// Where a kept value lies: rows of the slot, then lanes when these are not along the row.
Value LoopEmitter::scratchAddress(int p) {
  if (traits_.forCost) return scratch_;  // One place costs as much as another.
  const KernelPlan& plan = *plan_;
  bool alongRow = plan.vectorDim >= 0 && plan.dims[plan.vectorDim].row;
  int64_t elementBytes = plan.slotElementBytes * (alongRow ? 1 : kMaxLanes);
  Value offset = m_.constantInt(m_.i64(), plan.prims[p].scratch * slotBytes(plan));
  llvm::SmallVector<SymInt, 4> inner;
  for (int d : llvm::reverse(plan.rowOrder)) {
    if (index_[d]) offset = m_.add(offset, m_.mul(index_[d], number(inner, elementBytes)));
    inner.push_back(plan.dims[d].size);
  }
  return gep(scratch_, offset);
}

}  // namespace hpu::kernels
