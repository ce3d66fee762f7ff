// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/LowerBound.h"

#include <algorithm>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorBytes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/kernels/KernelWork.h"
#include "compiler/support/IdlePool.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::pipeline {
namespace {

ElementType elementOf(Value value) {
  return elementType(tensorOf(value).getElementType());
}
double bytesOf(Value value) {
  return double(tensorBytes(value));
}

bool onMme(Operation* op) {
  auto hpuOp = dyn_cast_or_null<HpuOp>(op);
  return hpuOp && hpuOp.getEngine() == EngineKind::Mme;
}

bool isFloatCast(Operation* op) {
  return isa<CastOp>(op) && isa<FloatType>(tensorOf(op->getOperand(0)).getElementType()) &&
         isa<FloatType>(tensorOf(op->getResult(0)).getElementType());
}

/// Ops that need not be TPC work: views, copies that DMAs or strides can do, and conversions between floats, which
/// ride on the MME's output and on the TPCs' accesses.
bool passesThrough(Operation* op) {
  auto hpuOp = dyn_cast<HpuOp>(op);
  if (!hpuOp) return false;
  return hpuOp.isView() || hpuOp.getEngine() == EngineKind::Dma ||
         isa<SliceOp, PadOp, GatherOp, GatherElementsOp, ScatterNdOp, ScatterElementsOp, RelayoutOp>(op) ||
         isFloatCast(op);
}

bool onTpc(Operation* op) {
  auto hpuOp = dyn_cast_or_null<HpuOp>(op);
  return hpuOp && hpuOp.getEngine() == EngineKind::Tpc && !passesThrough(op);
}

/// Multiply-accumulates of an MME op: points of the result times what each sums up.
double macs(Operation* op) {
  double points = tensorOf(op->getResult(0)).getNumElements();
  if (isa<MatMulOp>(op)) return points * tensorOf(op->getOperand(0)).getShape().back();
  RankedTensorType weights = tensorOf(op->getOperand(1));
  if (isa<Conv2dOp>(op)) return points * weights.getNumElements() / weights.getDimSize(0);
  // Every input element meets every weight of its channel.
  return double(tensorOf(op->getOperand(0)).getNumElements()) * weights.getNumElements() / weights.getDimSize(0);
}

/// What a value is made of, seen through copies and views: the values behind it, with the bytes of each that can
/// matter (a slice needs less than the whole, a broadcast no more than there is).
void forEachSource(Value value, llvm::function_ref<void(Value, double)> visit) {
  SmallVector<std::pair<Value, double>, 4> work = {{value, bytesOf(value)}};
  llvm::SmallDenseSet<Value, 8> seen;
  while (!work.empty()) {
    auto [at, most] = work.pop_back_val();
    if (!seen.insert(at).second) continue;
    double bytes = std::min(most, bytesOf(at));
    Operation* op = at.getDefiningOp();
    if (!op || !passesThrough(op)) {
      visit(at, bytes);
      continue;
    }
    for (OpOperand& operand : op->getOpOperands()) {
      bool isIndices = isa<GatherOp, GatherElementsOp>(op) && operand.getOperandNumber() != 0;
      work.push_back({operand.get(), isIndices ? bytesOf(operand.get()) : bytes});
    }
  }
}

/// TPC ops that a kernel could fuse: connected through anything but the MME. What such a region takes from outside
/// must be loaded once, and what leaves it must be stored once, however it is cut into kernels.
class Regions {
 public:
  explicit Regions(func::FuncOp function) {
    for (Operation& op : function.getBody().front()) {
      if (onTpc(&op)) {
        regions_.insert(&op);
        for (Value operand : op.getOperands())
          forEachSource(operand, [&](Value source, double) {
            if (onTpc(source.getDefiningOp())) regions_.unionSets(&op, source.getDefiningOp());
          });
      }
    }
    for (Operation& op : function.getBody().front()) {
      if (onTpc(&op))
        for (Value operand : op.getOperands()) addInput(&op, operand);
      else if (onMme(&op) || isa<func::ReturnOp>(op))
        for (Value operand : op.getOperands()) addOutput(operand);
    }
  }

  double loadBytes() const { return sum(loaded_); }
  double storeBytes() const { return sum(stored_); }

 private:
  using Sums = llvm::MapVector<std::pair<Operation*, Value>, double>;

  void addInput(Operation* op, Value operand) {
    forEachSource(operand, [&](Value source, double bytes) {
      if (onTpc(source.getDefiningOp())) return;
      double& most = loaded_[{regions_.getLeaderValue(op), source}];
      most = std::max(most, bytes);
    });
  }
  void addOutput(Value operand) {
    forEachSource(operand, [&](Value source, double bytes) {
      if (!onTpc(source.getDefiningOp())) return;
      double& most = stored_[{nullptr, source}];
      most = std::max(most, bytes);
    });
  }
  static double sum(const Sums& sums) {
    double total = 0;
    for (const auto& [key, bytes] : sums) total += bytes;
    return total;
  }

  llvm::EquivalenceClasses<Operation*> regions_;
  Sums loaded_, stored_;
};

/// Inputs, constants and outputs once. Of a table that is only looked up in, no more than is looked up.
double requiredBytes(func::FuncOp function) {
  auto needed = [](Value value) {
    double lookedUp = 0;
    for (OpOperand& use : value.getUses()) {
      if (!isa<GatherOp, GatherElementsOp>(use.getOwner()) || use.getOperandNumber() != 0) return bytesOf(value);
      lookedUp += bytesOf(use.getOwner()->getResult(0));
    }
    return std::min(lookedUp, bytesOf(value));
  };
  double bytes = 0;
  llvm::SmallPtrSet<Attribute, 16> seen;
  for (Value argument : function.getArguments()) bytes += needed(argument);
  for (Operation& op : function.getBody().front()) {
    if (auto constant = dyn_cast<ConstantOp>(op); constant && seen.insert(constant.getValue()).second)
      bytes += needed(constant.getResult());
    if (!isa<func::ReturnOp>(op)) continue;
    llvm::SmallPtrSet<Value, 8> results(op.operand_begin(), op.operand_end());
    for (Value result : results) bytes += bytesOf(result);
  }
  return bytes;
}

}  // namespace

double LowerBound::us() const {
  return std::max({mmeUs, tpcUs, hbmUs});
}

const char* LowerBound::boundBy() const {
  return mmeUs >= us() ? "mme" : tpcUs >= us() ? "tpc" : "hbm";
}

LowerBound lowerBound(func::FuncOp function, const arch::TargetDesc& target) {
  LowerBound bound;
  const arch::ClockProfile& clock = target.clock();
  const support::IdlePool<kernels::WorkCounter>::Lease counter = support::IdlePool<kernels::WorkCounter>::take();
  for (Operation& op : function.getBody().front()) {
    if (onMme(&op)) {
      double cost = target.mmeCostPerK(elementOf(op.getOperand(0)));
      const double count = macs(&op);
      bound.macs += count;
      bound.mmeUs += count * cost / (double(target.mmeMacs()) * clock.mmeGhz * 1e3);
    } else if (onTpc(&op)) {
      // An op that no kernel can do is refused by a later phase.
      StatusOr<double> vectorOps = counter->vectorOps(&op);
      if (vectorOps.ok()) bound.tpcVectorOps += *vectorOps;
    }
  }
  Regions regions(function);
  bound.tpcLoads = regions.loadBytes() / target.tpcVectorBytes;
  bound.tpcStores = regions.storeBytes() / target.tpcVectorBytes;
  double access = double(target.tpcCyclesPerAccess) * std::max(bound.tpcLoads, bound.tpcStores);
  bound.tpcUs = std::max(bound.tpcVectorOps, access) / (double(target.numTpcs) * clock.tpcGhz * 1e3);
  bound.hbmBytes = requiredBytes(function);
  bound.hbmUs = bound.hbmBytes / (target.hbmBytesPerNs * 1e3);
  return bound;
}

}  // namespace hpu::pipeline
