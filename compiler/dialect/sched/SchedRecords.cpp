// SPDX-License-Identifier: Apache-2.0
#include "compiler/dialect/sched/SchedRecords.h"

#include "compiler/dialect/hpu/HpuTypes.h"

using namespace mlir;

namespace hpu::sched {

recipe::Operand toOperand(OperandAttr operand) {
  recipe::Operand result;
  result.section = operand.getSection();
  result.offset = operand.getOffset();
  result.type = ir::elementType(operand.getElement());
  result.sizes.assign(operand.getSizes().begin(), operand.getSizes().end());
  result.strides.assign(operand.getStrides().begin(), operand.getStrides().end());
  if (ArrayRef<int64_t> ring = operand.getRing(); ring.size() == 3)
    result.ring = {static_cast<uint32_t>(ring[0]), static_cast<uint32_t>(ring[1]), static_cast<uint64_t>(ring[2])};
  return result;
}

recipe::MmeDesc toMmeDesc(MmeOp op) {
  recipe::MmeDesc mme;
  mme.kind = static_cast<recipe::MmeKind>(op.getKind());
  mme.packing = op.getPackedB() ? recipe::BPacking::kBlocked : recipe::BPacking::kStrided;
  mme.a = toOperand(op.getA());
  mme.b = toOperand(op.getB());
  mme.c = toOperand(op.getC());
  mme.groups = op.getGroups();
  mme.packingFactor = op.getPackingFactor();
  for (int i = 0; i < 2; ++i) {
    if (op.getStrides()) mme.strides[i] = (*op.getStrides())[i];
    if (op.getDilations()) mme.dilations[i] = (*op.getDilations())[i];
    if (!op.getPads()) continue;
    mme.padBegin[i] = (*op.getPads())[i];
    mme.padEnd[i] = (*op.getPads())[2 + i];
  }
  return mme;
}

}  // namespace hpu::sched
