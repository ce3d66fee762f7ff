// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/LowerBound.h"

#include "compiler/dialect/hpu/HpuOps.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::pipeline {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
double bytesOf(Value value) {
  return double(typeOf(value).getNumElements()) * elementSize(elementType(typeOf(value).getElementType()));
}

/// Multiply-accumulates of an MME op: points of the result times what each sums up.
double macs(Operation* op) {
  double points = typeOf(op->getResult(0)).getNumElements();
  if (isa<MatMulOp>(op)) return points * typeOf(op->getOperand(0)).getShape().back();
  RankedTensorType weights = typeOf(op->getOperand(1));
  if (isa<Conv2dOp>(op)) return points * weights.getNumElements() / weights.getDimSize(0);
  // Every input element meets every weight of its channel.
  return double(typeOf(op->getOperand(0)).getNumElements()) * weights.getNumElements() / weights.getDimSize(0);
}

}  // namespace

double LowerBound::us() const { return std::max({mmeUs, tpcUs, hbmUs}); }

LowerBound lowerBound(func::FuncOp function, const arch::TargetDesc& target) {
  LowerBound bound;
  const arch::ClockProfile& clock = target.clock();
  const arch::MmeGeometry& array = target.mmeGeometries.front();
  double hbmBytes = 0;
  for (Value argument : function.getArguments()) hbmBytes += bytesOf(argument);
  for (Operation& op : function.getBody().front()) {
    if (isa<func::ReturnOp>(op))
      for (Value result : op.getOperands()) hbmBytes += bytesOf(result);
    if (isa<ConstantOp>(op)) hbmBytes += bytesOf(op.getResult(0));
    auto hpuOp = dyn_cast<HpuOp>(&op);
    if (!hpuOp || hpuOp.isView()) continue;
    if (hpuOp.getEngine() == EngineKind::Mme) {
      double cost = target.mmeCostPerK(elementType(typeOf(op.getResult(0)).getElementType()));
      bound.mmeUs += macs(&op) * cost / (double(array.width) * array.height * clock.mmeGhz * 1e3);
    } else if (hpuOp.getEngine() == EngineKind::Tpc) {
      double vectors = bytesOf(op.getResult(0)) / target.tpcVectorBytes;
      bound.tpcUs += vectors / (target.numTpcs * clock.tpcGhz * 1e3);
    }
  }
  bound.hbmUs = hbmBytes / (target.hbmBytesPerNs * 1e3);
  return bound;
}

}  // namespace hpu::pipeline
