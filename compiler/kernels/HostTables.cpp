// SPDX-License-Identifier: Apache-2.0
// The host's code that keeps tables and rows in local memory (PlanTables.cpp): a chunk of their dims at a time, it
// fills the tables, runs the loops, and brings a row when its key is another one than that of the row in its slot.
#include "compiler/kernels/LoopEmitter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace hpu::kernels {

using Cmp = VectorMath::Cmp;

/// Loops over the chunks of `dim` and those after it.
void LoopEmitter::chunks(int dim) {
  const auto count = static_cast<int>(plan_->dims.size());
  while (dim < count && !(plan_->chunkedDims >> dim & 1)) ++dim;
  if (dim == count) {
    fillTables();
    parallel(0);
    return;
  }
  const Value low = lowOf_[dim], high = highOf_[dim], length = m_.constantInt(m_.i64(), kHostChunk);
  auto loopOp = scf::ForOp::create(b_, loc_, low, high, length);
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPoint(loopOp.getBody()->getTerminator());
  lowOf_[dim] = loopOp.getInductionVar();
  highOf_[dim] = m_.min(m_.add(lowOf_[dim], length), high);
  chunks(dim + 1);
  lowOf_[dim] = low;
  highOf_[dim] = high;
}

/// The place of the present index in what `base` has for a chunk of `dim`.
Value LoopEmitter::atIndex(Value base, int dim, int64_t elementBytes) {
  return gep(base, m_.mul(m_.sub(index_[dim], lowOf_[dim]), m_.constantInt(m_.i64(), elementBytes)));
}

void LoopEmitter::fillTables() {
  for (int dim : plan_->parallelOrder) {
    llvm::SmallVector<const HostTable*> tables;
    llvm::SmallVector<int> roots;
    for (const HostTable& table : plan_->hostTables) {
      if (table.dim != dim) continue;
      tables.push_back(&table);
      roots.push_back(table.prim);
    }
    if (tables.empty()) continue;
    hoist(roots);
    loop(dim, lowOf_[dim], highOf_[dim], {}, [&](llvm::ArrayRef<Value>) {
      for (const HostTable* table : tables) {
        const int64_t bytes = registerBytes(plan_->prims[table->prim].type);
        const Value base = gep(scratch_, m_.constantInt(m_.i64(), table->offset));
        LLVM::StoreOp::create(b_, loc_, eval(table->prim), atIndex(base, dim, bytes), static_cast<unsigned>(bytes));
      }
      return Values();
    });
    for (const HostTable* table : tables) inTables_[table->prim] = table;
  }
}

/// Before the loop from key to key: other dims have moved on.
void LoopEmitter::forgetRows() {
  for (const SharedRows& group : plan_->sharedRows)
    for (int64_t slot = 0; slot < 2; ++slot)
      LLVM::StoreOp::create(b_, loc_, m_.constantInt(m_.i64(), -1),
                            gep(scratch_, m_.constantInt(m_.i64(), group.keys + 8 * slot)), 8);
}

void LoopEmitter::bringRows() {
  llvm::SmallVector<int> roots;
  for (const SharedRows& group : plan_->sharedRows)
    for (const KeyedRow& row : group.rows) roots.push_back(row.prim);
  hoist(roots);
  for (const SharedRows& group : plan_->sharedRows)
    for (const KeyedRow& row : group.rows) bringRow(group, row);
}

void LoopEmitter::bringRow(const SharedRows& group, const KeyedRow& row) {
  const int dim = plan_->vectorDim;
  const int64_t bytes = registerBytes(plan_->prims[row.prim].type);
  const Value key = eval(row.key), slot = m_.andI(key, m_.constantInt(m_.i64(), 1));
  const Value keyAt = gep(scratch_, m_.add(m_.shl(slot, 3), m_.constantInt(m_.i64(), group.keys)));
  const Value slotAt = gep(
      scratch_, m_.add(m_.mul(slot, m_.constantInt(m_.i64(), group.slotBytes)), m_.constantInt(m_.i64(), group.slots)));
  const Value isOther = m_.compare(Cmp::Ne, LLVM::LoadOp::create(b_, loc_, m_.i64(), keyAt, 8).getResult(), key);
  const Scope saved = scope_;
  auto ifOp = scf::IfOp::create(b_, loc_, TypeRange(), isOther, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPoint(ifOp.thenYield());
    LLVM::StoreOp::create(b_, loc_, key, keyAt, 8);
    loop(dim, lowOf_[dim], highOf_[dim], {}, [&](llvm::ArrayRef<Value>) {
      LLVM::StoreOp::create(b_, loc_, vectorOf(row.prim), atIndex(slotAt, dim, bytes), static_cast<unsigned>(bytes));
      return Values();
    });
  }
  scope_ = saved;
  sharedRows_[row.prim] = slotAt;
}

LoopEmitter::Value LoopEmitter::tableOrRow(int p) {
  const Prim& prim = plan_->prims[p];
  const int64_t bytes = registerBytes(prim.type);
  const Type element = computeType(b_.getContext(), prim.type), type = alongLanes(p) ? vectorType(element) : element;
  Value at;
  if (auto it = sharedRows_.find(p); it != sharedRows_.end()) {
    at = atIndex(it->second, plan_->vectorDim, bytes);
  } else {
    const HostTable& table = *inTables_.lookup(p);
    at = atIndex(gep(scratch_, m_.constantInt(m_.i64(), table.offset)), table.dim, bytes);
  }
  return LLVM::LoadOp::create(b_, loc_, type, at, static_cast<unsigned>(bytes));
}

}  // namespace hpu::kernels
