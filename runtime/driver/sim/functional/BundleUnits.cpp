// SPDX-License-Identifier: Apache-2.0
// How a bundle is executed: merged block by block, or, where its dataflow does not allow that, one
// op after another and, with SRAM rings, slice by slice as the device does.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/StatusMacros.h"
#include "runtime/driver/sim/functional/MmeUnit.h"
#include "runtime/driver/sim/functional/Unit.h"

namespace hpu::sim {
namespace {

using recipe::Op;
using recipe::Operand;

/// Reads and writes of an op, the written ones last.
struct OpOperands {
  std::vector<const Operand*> inputs, outputs;
};

OpOperands operandsOf(const Op& op) {
  OpOperands list;
  if (op.engine == Engine::kMme) {
    list.inputs = {&op.mme.a, &op.mme.b};
    list.outputs = {&op.mme.c};
  } else if (op.engine == Engine::kTpc) {
    for (const Operand& operand : op.tpc.inputs) list.inputs.push_back(&operand);
    for (const Operand& operand : op.tpc.outputs) list.outputs.push_back(&operand);
  } else {
    if (!op.dma.fill) list.inputs = {&op.dma.src};
    list.outputs = {&op.dma.dst};
  }
  return list;
}

bool isRing(const Operand& operand) {
  return operand.ring.slots != 0;
}

bool sameView(const Operand& a, const Operand& b) {
  return a.section == b.section && a.offset == b.offset && a.type == b.type && a.sizes == b.sizes &&
         a.strides == b.strides && a.ring == b.ring;
}

/// Do the bytes from first to last element touch? (Interleaved views may be reported though they do
/// not.)
bool spansTouch(const Operand& a, const Operand& b) {
  return a.section == b.section && a.offset < b.offset + recipe::operandSpanBytes(b) &&
         b.offset < a.offset + recipe::operandSpanBytes(a);
}

/// May two views share an element? Views of one tensor's dims, shifted along one of them (the parts
/// of a concatenation), are told apart exactly.
bool mayOverlap(const Operand& a, const Operand& b) {
  if (!spansTouch(a, b)) return false;
  const int64_t size = elementSize(a.type);
  if (a.type != b.type || a.strides != b.strides || a.sizes.size() != b.sizes.size()) return true;
  auto distance = static_cast<int64_t>(b.offset - a.offset);
  if (distance % size != 0) return true;
  distance /= size;
  const Operand& first = distance >= 0 ? a : b;
  const Operand& second = distance >= 0 ? b : a;
  distance = std::abs(distance);
  // Both must be boxes of a common grid: each stride a multiple of the next smaller one, and no box
  // wider than what the next larger stride leaves.
  std::vector<size_t> order;
  for (size_t d = 0; d < a.strides.size(); ++d)
    if (a.strides[d] != 0 && (a.sizes[d] > 1 || b.sizes[d] > 1)) order.push_back(d);
  std::sort(order.begin(), order.end(),
            [&](size_t x, size_t y) { return a.strides[x] > a.strides[y]; });
  int64_t room = INT64_MAX;  // Points of the dimension that fit below the next larger stride.
  for (size_t i = 0; i < order.size(); ++i) {
    size_t d = order[i];
    int64_t stride = a.strides[d];
    if (i > 0) {
      if (a.strides[order[i - 1]] % stride != 0) return true;
      room = a.strides[order[i - 1]] / stride;
    }
    int64_t shift = distance / stride;
    distance %= stride;
    if (shift + second.sizes[d] > room || first.sizes[d] > room) return true;
    if (shift >= first.sizes[d]) return false;
  }
  return distance == 0;
}

/// The bundle as one unit; null when its dataflow has to be kept slice by slice.
StatusOr<std::unique_ptr<MmeUnit>> tryMerge(BuildContext& context, const recipe::Bundle& bundle,
                                            bool singleImage) {
  const recipe::Program& program = context.program;
  std::unique_ptr<MmeUnit> none;
  const Op& mme = program.ops[bundle.ops[0]];
  if (mme.engine != Engine::kMme || isRing(mme.mme.a) || isRing(mme.mme.b)) return none;
  BlockLimits limits;
  limits.singleImage = singleImage;
  std::vector<const Operand*> written{&mme.mme.c}, read{&mme.mme.a, &mme.mme.b};
  if (mayOverlap(mme.mme.c, mme.mme.a)) return none;
  for (size_t i = 1; i < bundle.ops.size(); ++i) {
    const Op& op = program.ops[bundle.ops[i]];
    if (op.engine != Engine::kTpc || op.space != mme.space) return none;
    limits.wholeDims |= program.kernels[op.tpc.kernel].wholeDims;
    OpOperands operands = operandsOf(op);
    // A kernel sees what earlier ones of the same block wrote, and of no other block: it must read
    // the very view that was written. Nothing may be overwritten that a later block still reads.
    for (const Operand* input : operands.inputs) {
      bool produced = false;
      for (const Operand* output : written) {
        if (sameView(*input, *output)) {
          produced = true;
        } else if (isRing(*input) == isRing(*output) && mayOverlap(*input, *output)) {
          return none;
        }
      }
      if (isRing(*input) && !produced) return none;
    }
    for (const Operand* output : operands.outputs) {
      if (output->sizes != mme.space) return none;
      for (const Operand* earlier : read)
        if (!isRing(*output) && mayOverlap(*output, *earlier) &&
            (earlier == &mme.mme.a || earlier == &mme.mme.b || !sameView(*output, *earlier)))
          return none;
      for (const Operand* earlier : written)
        if (!isRing(*output) && !isRing(*earlier) && mayOverlap(*output, *earlier) &&
            !sameView(*output, *earlier))
          return none;
    }
    for (const Operand* input : operands.inputs)
      for (const Operand* output : operands.outputs)
        if (!isRing(*input) && !isRing(*output) && !sameView(*input, *output) &&
            mayOverlap(*input, *output))
          return none;
    read.insert(read.end(), operands.inputs.begin(), operands.inputs.end());
    written.insert(written.end(), operands.outputs.begin(), operands.outputs.end());
  }

  OpSlice whole = wholeOp(mme);
  // Every ring becomes a local tensor; `locals` lists the operands that wrote them.
  std::vector<const Operand*> locals;
  auto operandFor = [&](const Operand& operand) -> ChainedOperand {
    for (size_t i = locals.size(); i-- > 0;)
      if (isRing(operand) && sameView(*locals[i], operand))
        return {static_cast<int>(i), BufferRef{operand.section, 0}};
    return {-1, bufferRef(operand, whole)};
  };
  if (isRing(mme.mme.c)) locals.push_back(&mme.mme.c);
  HPU_ASSIGN(std::unique_ptr<MmeUnit> unit,
             makeMmeUnit(context, mme, whole, limits, operandFor(mme.mme.c)));
  if (isRing(mme.mme.c) && !unit->addLocal(mme.mme.c.strides, elementSize(mme.mme.c.type)))
    return none;
  for (size_t i = 1; i < bundle.ops.size(); ++i) {
    const Op& op = program.ops[bundle.ops[i]];
    const recipe::Kernel& kernel = program.kernels[op.tpc.kernel];
    OpOperands operands = operandsOf(op);
    if (operands.inputs.size() + operands.outputs.size() > MmeUnit::kMaxOperands) return none;
    std::vector<ChainedOperand> chained;
    for (const Operand* input : operands.inputs) chained.push_back(operandFor(*input));
    for (const Operand* output : operands.outputs) {
      bool known = std::any_of(locals.begin(), locals.end(),
                               [&](const Operand* local) { return sameView(*local, *output); });
      if (isRing(*output) && !known) {
        locals.push_back(output);
        if (!unit->addLocal(output->strides, elementSize(output->type))) return none;
      }
      chained.push_back(operandFor(*output));
    }
    unit->addKernel(context.code.function(op.tpc.kernel), std::move(chained), kernel.scratchBytes);
  }
  HPU_RETURN_IF_ERROR(unit->prepareWeights(context));
  return unit;
}

/// The commands of a bundle's op, by slice: where the boxes of its slices are written down.
struct SliceBox {
  uint32_t op = 0, slice = 0;
  const recipe::Command* command = nullptr;
};

Status appendSlices(BuildContext& context, uint32_t bundleIndex, UnitList& units) {
  const recipe::Program& program = context.program;
  const recipe::Bundle& bundle = program.bundles[bundleIndex];
  std::vector<SliceBox> boxes;
  for (const recipe::Queue& queue : program.queues)
    for (const recipe::Command& command : queue.commands)
      if (command.bundle == bundleIndex) boxes.push_back({command.op, command.slice, &command});
  for (uint32_t slice = 0; slice < bundle.slices; ++slice) {
    for (uint32_t opIndex : bundle.ops) {
      const Op& op = program.ops[opIndex];
      for (const SliceBox& box : boxes) {
        if (box.op != opIndex || box.slice != slice) continue;
        HPU_ASSIGN(auto unit, makeOpUnit(context, op, {box.command->lo, box.command->hi, slice}));
        units.push_back(std::move(unit));
      }
    }
  }
  for (uint32_t opIndex : bundle.ops)
    if (std::none_of(boxes.begin(), boxes.end(),
                     [&](const SliceBox& b) { return b.op == opIndex; }))
      return invalidArgument("bundle '" + bundle.name +
                             "' passes data through SRAM rings, but no command "
                             "runs its op '" +
                             program.ops[opIndex].name + "'");
  return okStatus();
}

}  // namespace

Status appendBundleUnits(BuildContext& context, uint32_t bundleIndex, UnitList& units) {
  const recipe::Program& program = context.program;
  const recipe::Bundle& bundle = program.bundles[bundleIndex];
  if (bundle.ops.empty()) return okStatus();
  for (bool singleImage : {false, true}) {
    HPU_ASSIGN(std::unique_ptr<MmeUnit> merged, tryMerge(context, bundle, singleImage));
    if (merged) {
      merged->setName((bundle.ops.size() > 1 ? "mme+tpc " : "mme ") + bundle.name);
      units.push_back(std::move(merged));
      return okStatus();
    }
  }
  bool rings = false;
  for (uint32_t opIndex : bundle.ops) {
    OpOperands operands = operandsOf(program.ops[opIndex]);
    for (const auto* list : {&operands.inputs, &operands.outputs})
      for (const Operand* operand : *list) rings |= isRing(*operand);
  }
  if (rings) return appendSlices(context, bundleIndex, units);
  for (uint32_t opIndex : bundle.ops) {
    const Op& op = program.ops[opIndex];
    HPU_ASSIGN(auto unit, makeOpUnit(context, op, wholeOp(op)));
    units.push_back(std::move(unit));
  }
  return okStatus();
}

}  // namespace hpu::sim
