// SPDX-License-Identifier: Apache-2.0
// Where a TPC's code is not the host's: emitted for the cost only, never run. What is loaded where makes no difference
// to a cost, so addresses are any.
#include "compiler/kernels/LoopEmitter.h"
#include "compiler/kernels/Staging.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace hpu::kernels {

/// Instructions for a row with which a TPC combines the lanes of one accumulator into a value in all lanes. Rows that
/// fit local memory together are combined in pairs, so that fewer vectors are left at each step.
static double tpcFoldInstructions(const KernelPlan& plan) {
  constexpr int kMostRows = 8, kSteps = 6;             // Of 64 lanes; the accumulators stay in registers.
  constexpr double kPair = 3, kStep = 2, kSpread = 1;  // Two shuffles and the op; a shuffle and the op; a shuffle.
  int64_t bytes = std::max<int64_t>(plan.tpcSlots * slotBytes(plan, plan.rowElements.value()), 1);
  int rows = 1, levels = 0;
  while (rows < kMostRows && 2 * rows * bytes <= kMaxScratchBytes - kTableBytes) rows *= 2, ++levels;
  if (rows == 1) return kStep * kSteps;
  return (kPair * (rows - 1) + kStep * (kSteps - levels) + kSpread * rows) / rows;
}

Value LoopEmitter::priced(Step step, const Prim& reduction, llvm::function_ref<Value()> build) {
  if (!traits_.forCost) return build();
  if (step == Step::kAcrossLanes) return m_.asOneInstruction(build, tpcFoldInstructions(*plan_));
  return reducesNarrow(*plan_, reduction) ? m_.asOneInstruction(build, kNarrowReduction) : build();
}

/// From local memory, or by rearranging what lies there.
Value LoopEmitter::tpcLoad(int p, Value base) {
  if (!traits_.forCost) return {};
  const Prim& prim = plan_->prims[p];
  Type lanes = vectorType(computeType(b_.getContext(), prim.type));
  if (isStaged(*plan_, p)) {
    double share = isStagedNarrow(*plan_, p) ? static_cast<double>(elementSize(prim.type)) / 4 : 1;
    return local(LLVM::LoadOp::create(b_, loc_, lanes, scratch_, 4), differentReads(*plan_, p, together_) * share)
        .getRes();
  }
  if (prim.table >= 0) return local(LLVM::LoadOp::create(b_, loc_, lanes, base, 4)).getRes();
  if (isShuffled(*plan_, p)) {
    Value stored = local(LLVM::LoadOp::create(b_, loc_, vectorType(m_.f32()), scratch_, 4), 2).getRes();
    return rearranged(stored, kShuffleInstructions);
  }
  if (prim.address.coef[plan_->vectorDim] == 1 || !isTurned(*plan_, prim.address)) return {};
  return fromStorage(turned(LLVM::LoadOp::create(b_, loc_, vectorType(storageType(prim.type)), base, 1).getRes()),
                     prim.type);
}

Value LoopEmitter::tabulated(int p) {
  Type type = computeType(b_.getContext(), plan_->prims[p].type);
  if (!alongLanes(p)) return LLVM::LoadOp::create(b_, loc_, type, scratch_, 8);
  return local(LLVM::LoadOp::create(b_, loc_, vectorType(type), scratch_, 4)).getRes();
}

bool LoopEmitter::tpcStore(const Store& store, Value value, Value base) {
  if (!traits_.forCost || store.address.coef[plan_->vectorDim] == 1 || !isTurned(*plan_, store.address)) return false;
  LLVM::StoreOp::create(b_, loc_, turned(value), base, 1);
  return true;
}

/// Into local memory, and out of it as the columns of 64 such vectors.
Value LoopEmitter::turned(Value rows) {
  local(LLVM::StoreOp::create(b_, loc_, rows, scratch_, 1));
  Value columns = local(LLVM::LoadOp::create(b_, loc_, rows.getType(), scratch_, 1)).getRes();
  return rearranged(columns, kTurnInstructions);
}

/// Lanes moved by so many instructions; where they go makes no difference to the cost.
Value LoopEmitter::rearranged(Value lanes, double instructions) {
  auto sameLanes = llvm::to_vector(llvm::seq<int64_t>(0, lanes_));
  return m_.asOneInstruction([&] { return vector::ShuffleOp::create(b_, loc_, lanes, lanes, sameLanes).getResult(); },
                             instructions);
}

}  // namespace hpu::kernels
