// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/Unit.h"

#include <string>
#include <utility>

#include "base/StatusMacros.h"
#include "runtime/driver/sim/functional/DmaUnit.h"
#include "runtime/driver/sim/functional/MmeUnit.h"
#include "runtime/driver/sim/functional/TpcUnit.h"

namespace hpu::sim {

OpSlice wholeOp(const recipe::Op& op) {
  return {std::vector<int64_t>(op.space.size(), 0), op.space, 0};
}

BufferRef bufferRef(const recipe::Operand& operand, const OpSlice& slice) {
  BufferRef ref{operand.section, static_cast<int64_t>(operand.offset)};
  const recipe::Ring& ring = operand.ring;
  if (ring.slots == 0) return ref;
  ref.offset += static_cast<int64_t>(slice.slice % ring.slots) * static_cast<int64_t>(ring.slotBytes);
  if (ring.dim < slice.lo.size() && ring.dim < operand.strides.size())
    ref.offset -= slice.lo[ring.dim] * operand.strides[ring.dim] * elementSize(operand.type);
  return ref;
}

StatusOr<std::unique_ptr<const Unit>> makeOpUnit(BuildContext& context, const recipe::Op& op, const OpSlice& slice) {
  std::unique_ptr<Unit> unit;
  switch (op.engine) {
    case Engine::kMme: {
      HPU_ASSIGN(std::unique_ptr<MmeUnit> mme, makeMmeUnit(context, op, slice, {}, {-1, bufferRef(op.mme.c, slice)}));
      HPU_RETURN_IF_ERROR(mme->prepareWeights(context));
      unit = std::move(mme);
      break;
    }
    case Engine::kTpc:
      unit = std::make_unique<TpcUnit>(context.program.kernels[op.tpc.kernel], context.code.function(op.tpc.kernel),
                                       op.tpc, slice);
      break;
    case Engine::kDma:
      unit = std::make_unique<DmaUnit>(op.dma, slice);
      break;
    case Engine::kNic:
      return unimplemented("op '" + op.name + "' runs on engine " + std::string(engineName(op.engine)) +
                           ", which recipes have no ops for");
  }
  unit->setName(std::string(engineName(op.engine)) + " " + op.name);
  return std::unique_ptr<const Unit>(std::move(unit));
}

}  // namespace hpu::sim
