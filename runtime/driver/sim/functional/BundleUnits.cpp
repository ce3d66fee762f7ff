// SPDX-License-Identifier: Apache-2.0
// How a bundle is executed: merged block by block; a chain of products stage by stage, each merged; or, where the
// dataflow does not allow that, one op after another and, with SRAM rings, slice by slice as the device does.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/StatusMacros.h"
#include "runtime/driver/sim/functional/MmeUnit.h"
#include "runtime/driver/sim/functional/Unit.h"

namespace hpu::sim {
namespace {

using recipe::Op;
using recipe::Operand;

/// Host memory for what the stages of one chain hand on as a whole; chains that need more run slice by slice.
constexpr uint64_t kHandedOnBytes = uint64_t{256} << 20;

/// Reads and writes of an op.
template <typename AnyOperand>
struct OperandList {
  std::vector<AnyOperand*> inputs, outputs;
};
using OpOperands = OperandList<const Operand>;

/// Those of a const op are const.
template <typename AnyOp>
auto operandsOf(AnyOp& op) {
  OperandList<std::conditional_t<std::is_const_v<AnyOp>, const Operand, Operand>> list;
  if (op.engine == Engine::kMme) {
    list.inputs = {&op.mme.a, &op.mme.b};
    list.outputs = {&op.mme.c};
  } else if (op.engine == Engine::kTpc) {
    for (auto& operand : op.tpc.inputs) list.inputs.push_back(&operand);
    for (auto& operand : op.tpc.outputs) list.outputs.push_back(&operand);
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
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return a.strides[x] > a.strides[y]; });
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

using Ops = std::vector<const Op*>;

/// Ops of a bundle as one unit; null when their dataflow has to be kept slice by slice.
StatusOr<std::unique_ptr<MmeUnit>> tryMerge(BuildContext& context, const Ops& ops, bool singleImage) {
  const recipe::Program& program = context.program;
  std::unique_ptr<MmeUnit> none;
  const Op& mme = *ops[0];
  if (mme.engine != Engine::kMme || isRing(mme.mme.a) || isRing(mme.mme.b)) return none;
  BlockLimits limits;
  limits.singleImage = singleImage;
  std::vector<const Operand*> written{&mme.mme.c}, read{&mme.mme.a, &mme.mme.b};
  if (mayOverlap(mme.mme.c, mme.mme.a)) return none;
  for (size_t i = 1; i < ops.size(); ++i) {
    const Op& op = *ops[i];
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
        if (!isRing(*output) && !isRing(*earlier) && mayOverlap(*output, *earlier) && !sameView(*output, *earlier))
          return none;
    }
    for (const Operand* input : operands.inputs)
      for (const Operand* output : operands.outputs)
        if (!isRing(*input) && !isRing(*output) && !sameView(*input, *output) && mayOverlap(*input, *output))
          return none;
    read.insert(read.end(), operands.inputs.begin(), operands.inputs.end());
    written.insert(written.end(), operands.outputs.begin(), operands.outputs.end());
  }

  OpSlice whole = wholeOp(mme);
  // Every ring becomes a local tensor; `locals` lists the operands that wrote them.
  std::vector<const Operand*> locals;
  auto operandFor = [&](const Operand& operand) -> ChainedOperand {
    for (size_t i = locals.size(); i-- > 0;)
      if (isRing(operand) && sameView(*locals[i], operand)) return {static_cast<int>(i), BufferRef{operand.section, 0}};
    return {-1, bufferRef(operand, whole)};
  };
  if (isRing(mme.mme.c)) locals.push_back(&mme.mme.c);
  HPU_ASSIGN(std::unique_ptr<MmeUnit> unit, makeMmeUnit(context, mme, whole, limits, operandFor(mme.mme.c)));
  if (isRing(mme.mme.c) && !unit->addLocal(mme.mme.c.strides, elementSize(mme.mme.c.type))) return none;
  for (size_t i = 1; i < ops.size(); ++i) {
    const Op& op = *ops[i];
    const recipe::Kernel& kernel = program.kernels[op.tpc.kernel];
    OpOperands operands = operandsOf(op);
    if (operands.inputs.size() + operands.outputs.size() > MmeUnit::kMaxOperands) return none;
    std::vector<ChainedOperand> chained;
    for (const Operand* input : operands.inputs) chained.push_back(operandFor(*input));
    for (const Operand* output : operands.outputs) {
      bool known =
          std::any_of(locals.begin(), locals.end(), [&](const Operand* local) { return sameView(*local, *output); });
      if (isRing(*output) && !known) {
        locals.push_back(output);
        if (!unit->addLocal(output->strides, elementSize(output->type))) return none;
      }
      chained.push_back(operandFor(*output));
    }
    unit->addKernel(kernel, context.code.function(op.tpc.kernel), std::move(chained));
  }
  HPU_RETURN_IF_ERROR(unit->prepareWeights(context));
  return unit;
}

/// The ops as one unit with the name, or null.
StatusOr<std::unique_ptr<const Unit>> merge(BuildContext& context, const Ops& ops, const std::string& name) {
  for (bool singleImage : {false, true}) {
    HPU_ASSIGN(std::unique_ptr<MmeUnit> merged, tryMerge(context, ops, singleImage));
    if (!merged) continue;
    merged->setName((ops.size() > 1 ? "mme+tpc " : "mme ") + name);
    return std::unique_ptr<const Unit>(std::move(merged));
  }
  return std::unique_ptr<const Unit>();
}

/// By op and slice of a bundle: the command that says which box that is.
using SliceBoxes = std::map<std::pair<uint32_t, uint32_t>, std::vector<const recipe::Command*>>;

SliceBoxes sliceBoxes(const recipe::Program& program, uint32_t bundleIndex) {
  SliceBoxes boxes;
  for (const recipe::Queue& queue : program.queues)
    for (const recipe::Command& command : queue.commands)
      if (command.bundle == bundleIndex) boxes[{command.op, command.slice}].push_back(&command);
  return boxes;
}

/// Stages of a chain: an MME op and the TPC ops over its index space that follow it (point by point, as all ops of a
/// bundle do, or along dims that they want whole), or a TPC op by itself.
std::vector<std::vector<uint32_t>> stagesOf(const recipe::Program& program, const recipe::Bundle& bundle) {
  std::vector<std::vector<uint32_t>> stages;
  for (uint32_t index : bundle.ops) {
    const Op& op = program.ops[index];
    const Op* head = stages.empty() ? nullptr : &program.ops[stages.back()[0]];
    bool joins = head && head->engine == Engine::kMme && op.engine == Engine::kTpc && op.space == head->space;
    if (joins)
      stages.back().push_back(index);
    else
      stages.push_back({index});
  }
  return stages;
}

/// A ring that one stage fills for another one to read.
struct HandedOn {
  Operand ring;             ///< As the writer sees it.
  uint64_t offset = 0;      ///< In the memory for all of it.
  std::vector<int64_t> at;  ///< By slice: where its tile starts, in bytes from the first one.
};

/// Bytes of one tile's first element for each slice, as `op` counts them; empty when they are unclear.
std::vector<int64_t> tileStarts(const SliceBoxes& boxes, uint32_t opIndex, const Operand& operand, uint32_t slices) {
  std::vector<int64_t> starts;
  for (uint32_t slice = 0; slice < slices; ++slice) {
    auto found = boxes.find({opIndex, slice});
    if (found == boxes.end() || found->second.size() != 1) return {};
    starts.push_back(found->second[0]->lo[operand.ring.dim] * operand.strides[operand.ring.dim] *
                     elementSize(operand.type));
  }
  return starts;
}

/// The operand without its ring, if it then is a plain tensor whose slowest dimension is the ring's.
std::optional<Operand> unrolled(const Operand& operand) {
  Operand whole = operand;
  whole.ring = {};
  Operand tile = whole;
  tile.sizes[operand.ring.dim] = 1;
  uint64_t reach = recipe::operandSpanBytes(tile);
  auto step =
      static_cast<uint64_t>(operand.strides[operand.ring.dim]) * static_cast<uint64_t>(elementSize(operand.type));
  if (reach > step) return std::nullopt;
  return whole;
}

/// A chain whose stages each run on all of their slices: what they hand on then needs memory for all of it, beside the
/// program's sections. False when the rings do not allow that or it would be too large; nothing is appended then.
StatusOr<bool> appendStages(BuildContext& context, uint32_t bundleIndex, UnitList& units) {
  const recipe::Program& program = context.program;
  const recipe::Bundle& bundle = program.bundles[bundleIndex];
  const std::vector<std::vector<uint32_t>> stages = stagesOf(program, bundle);
  const SliceBoxes boxes = sliceBoxes(program, bundleIndex);
  const auto memory = static_cast<uint32_t>(program.sections.size());
  auto sameRing = [](const Operand& a, const Operand& b) {
    return a.section == b.section && a.offset == b.offset && a.ring.slots == b.ring.slots &&
           a.ring.slotBytes == b.ring.slotBytes && a.type == b.type;
  };
  // Copies of the ops, in which rings between stages are plain tensors.
  std::vector<Ops> merged;
  std::vector<std::unique_ptr<Op>> copies;
  std::vector<HandedOn> rings;
  uint64_t bytes = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    merged.emplace_back();
    for (size_t i = 0; i < stages[s].size(); ++i) {
      const uint32_t index = stages[s][i];
      copies.push_back(std::make_unique<Op>(program.ops[index]));
      Op& op = *copies.back();
      merged.back().push_back(&op);
      auto readOutside = [&](const Operand& written) {
        for (size_t later = s + 1; later < stages.size(); ++later)
          for (uint32_t reader : stages[later])
            for (const Operand* input : operandsOf(program.ops[reader]).inputs)
              if (isRing(*input) && sameRing(*input, written)) return true;
        return false;
      };
      auto writtenInside = [&](const Operand& input) {
        for (size_t earlier = 0; earlier < i; ++earlier)
          for (const Operand* output : operandsOf(program.ops[stages[s][earlier]]).outputs)
            if (isRing(*output) && sameView(*output, input)) return true;
        return false;
      };
      const auto operands = operandsOf(op);
      for (Operand* input : operands.inputs) {
        if (!isRing(*input) || writtenInside(*input)) continue;
        auto from = std::find_if(rings.rbegin(), rings.rend(),
                                 [&](const HandedOn& ring) { return sameRing(ring.ring, *input); });
        std::optional<Operand> whole = unrolled(*input);
        if (from == rings.rend() || !whole || tileStarts(boxes, index, *input, bundle.slices) != from->at ||
            recipe::operandSpanBytes(*whole) > recipe::operandSpanBytes(*unrolled(from->ring)))
          return false;
        whole->section = memory;
        whole->offset = from->offset;
        *input = *whole;
      }
      for (Operand* output : operands.outputs) {
        if (!isRing(*output)) continue;
        if (!readOutside(*output)) {
          if (program.ops[stages[s][0]].engine == Engine::kMme) continue;
          return false;  // Nobody reads it, and it has no room for more than its tiles.
        }
        std::optional<Operand> whole = unrolled(*output);
        HandedOn ring{*output, bytes, tileStarts(boxes, index, *output, bundle.slices)};
        if (!whole || ring.at.empty()) return false;
        const uint64_t size = recipe::operandSpanBytes(*whole);
        if (size > kHandedOnBytes || bytes + size > kHandedOnBytes) return false;
        whole->section = memory;
        whole->offset = bytes;
        bytes += (size + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
        rings.push_back(std::move(ring));
        *output = *whole;
      }
    }
  }
  UnitList made;
  for (const Ops& ops : merged) {
    std::unique_ptr<const Unit> unit;
    if (ops[0]->engine == Engine::kMme) {
      HPU_ASSIGN(unit, merge(context, ops, ops[0]->name));
      if (!unit) return false;
    } else if (ops.size() > 1) {
      return false;
    } else {
      HPU_ASSIGN(unit, makeOpUnit(context, *ops[0], wholeOp(*ops[0])));
    }
    made.push_back(std::move(unit));
  }
  context.handedOnBytes = std::max(context.handedOnBytes, bytes);
  std::move(made.begin(), made.end(), std::back_inserter(units));
  return true;
}

Status appendSlices(BuildContext& context, uint32_t bundleIndex, UnitList& units) {
  const recipe::Program& program = context.program;
  const recipe::Bundle& bundle = program.bundles[bundleIndex];
  const SliceBoxes boxes = sliceBoxes(program, bundleIndex);
  std::vector<bool> runs(bundle.ops.size(), false);
  for (uint32_t slice = 0; slice < bundle.slices; ++slice) {
    for (size_t i = 0; i < bundle.ops.size(); ++i) {
      auto found = boxes.find({bundle.ops[i], slice});
      if (found == boxes.end()) continue;
      runs[i] = true;
      for (const recipe::Command* command : found->second) {
        HPU_ASSIGN(auto unit, makeOpUnit(context, program.ops[bundle.ops[i]], {command->lo, command->hi, slice}));
        units.push_back(std::move(unit));
      }
    }
  }
  for (size_t i = 0; i < bundle.ops.size(); ++i)
    if (!runs[i])
      return invalidArgument("bundle '" + bundle.name +
                             "' passes data through SRAM rings, but no command "
                             "runs its op '" +
                             program.ops[bundle.ops[i]].name + "'");
  return okStatus();
}

}  // namespace

Status appendBundleUnits(BuildContext& context, uint32_t bundleIndex, UnitList& units) {
  const recipe::Program& program = context.program;
  const recipe::Bundle& bundle = program.bundles[bundleIndex];
  if (bundle.ops.empty()) return okStatus();
  Ops ops;
  bool rings = false;
  for (uint32_t opIndex : bundle.ops) {
    ops.push_back(&program.ops[opIndex]);
    OpOperands operands = operandsOf(*ops.back());
    for (const auto* list : {&operands.inputs, &operands.outputs})
      for (const Operand* operand : *list) rings |= isRing(*operand);
  }
  HPU_ASSIGN(std::unique_ptr<const Unit> merged, merge(context, ops, bundle.name));
  if (merged) {
    units.push_back(std::move(merged));
    return okStatus();
  }
  if (rings) {
    HPU_ASSIGN(bool staged, appendStages(context, bundleIndex, units));
    return staged ? okStatus() : appendSlices(context, bundleIndex, units);
  }
  for (const Op* op : ops) {
    HPU_ASSIGN(auto unit, makeOpUnit(context, *op, wholeOp(*op)));
    units.push_back(std::move(unit));
  }
  return okStatus();
}

}  // namespace hpu::sim
