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
  ref.offset +=
      static_cast<int64_t>(slice.slice % ring.slots) * static_cast<int64_t>(ring.slotBytes);
  if (ring.dim < slice.lo.size() && ring.dim < operand.strides.size())
    ref.offset -= slice.lo[ring.dim] * operand.strides[ring.dim] * elementSize(operand.type);
  return ref;
}

StatusOr<std::unique_ptr<const Unit>> makeOpUnit(const recipe::Program& program,
                                                 const recipe::Op& op, const OpSlice& slice,
                                                 const KernelCode& code) {
  switch (op.engine) {
    case Engine::kMme: {
      auto plan = MmePlan::create(op.mme, slice.lo, slice.hi, {});
      if (!plan.ok()) return plan.status().withContext("MME op '" + op.name + "'");
      return std::unique_ptr<const Unit>(std::make_unique<MmeUnit>(
          std::move(plan).value(), bufferRef(op.mme.a, slice), bufferRef(op.mme.b, slice),
          ChainedOperand{-1, bufferRef(op.mme.c, slice)}));
    }
    case Engine::kTpc:
      return std::unique_ptr<const Unit>(std::make_unique<TpcUnit>(
          program.kernels[op.tpc.kernel], code.function(op.tpc.kernel), op.tpc, slice));
    case Engine::kDma:
      return std::unique_ptr<const Unit>(std::make_unique<DmaUnit>(op.dma, slice));
    case Engine::kNic:
      break;
  }
  return unimplemented("op '" + op.name + "' runs on engine " + std::string(engineName(op.engine)) +
                       ", which recipes have no ops for");
}

}  // namespace hpu::sim
