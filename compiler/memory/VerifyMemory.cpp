// SPDX-License-Identifier: Apache-2.0
// The post-condition of the phase memory. It follows contents instead of live ranges, and knows nothing of storages:
// from the step that writes a result to the last step that reads those bytes, no other unit may write one of them.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/layout/Chains.h"
#include "compiler/memory/Memory.h"
#include "compiler/memory/Storage.h"
#include "compiler/support/Units.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "recipe/MemoryBox.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::memory {
namespace {

recipe::Operand operandOf(Value value, const Location& location) {
  recipe::Operand operand;
  operand.section = location.section;
  operand.offset = location.offset;
  operand.type = elementType(cast<RankedTensorType>(value.getType()).getElementType());
  operand.sizes.assign(location.view.sizes.begin(), location.view.sizes.end());
  operand.strides.assign(location.view.strides.begin(), location.view.strides.end());
  return operand;
}

/// What a unit's result occupies.
struct Placed {
  Value value;
  Operation* unit = nullptr;
  int64_t written = 0, lastRead = 0;
  recipe::MemoryBox box;
};

class VerifyMemoryPass : public PassWrapper<VerifyMemoryPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyMemoryPass)
  explicit VerifyMemoryPass(int64_t sramBytes) : sramBytes_(sramBytes) {}
  StringRef getArgument() const override { return "hpu-verify-memory"; }
  StringRef getDescription() const override { return "Checks that nothing is written over what is still read"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    llvm::DenseMap<Operation*, int64_t> step;
    SmallVector<Operation*> units;
    for (Operation& op : function.getBody().front())
      if (isUnit(&op)) units.push_back(&op);
    for (auto [number, unit] : llvm::enumerate(units)) step[unit] = number;
    llvm::DenseMap<Value, int64_t> last = lastReads(function, step);
    // Units that take turns run at once.
    for (auto [turn, unit] : llvm::zip(turnsOf(units), units)) step[unit] = turn.last;
    std::vector<Placed> placed;
    Sections sections = sectionsOf(function);
    auto workspace = function->getAttrOfType<IntegerAttr>(kWorkspaceAttr);
    for (Operation& op : function.getBody().front()) {
      if (!step.contains(&op)) continue;
      if (chainOf(&op)) {
        if (const char* why = chainFault(units, &op)) return fail(op.getResult(0), why);
        continue;
      }
      for (Value value : op.getResults()) {
        std::optional<Location> location = locate(value);
        if (!location) return fail(value, "has no address");
        if (cast<RankedTensorType>(value.getType()).getNumElements() == 0) continue;
        Placed now{value, &op, step[&op], last[value], recipe::wholeBox(operandOf(value, *location))};
        bool inWorkspace = location->section == sections.workspace();
        if (inWorkspace && workspace && now.box.end > static_cast<uint64_t>(workspace.getInt()))
          return fail(value, "is beyond the workspace");
        // A number has no strides that would say that it is part of a concatenation.
        bool isNumber = cast<RankedTensorType>(value.getType()).getRank() == 0;
        if (inWorkspace && !isNumber && !op.hasAttr(kStridesAttr) && now.box.begin % recipe::kAlignment)
          return fail(value, "is not aligned");
        placed.push_back(now);
      }
      if (auto ring = ringOf(&op);
          ring && (ring->offset < 0 || ring->offset + ring->slots * ring->slotBytes > sramBytes_))
        return fail(op.getResult(0), "has SRAM tiles beyond the capacity");
    }
    // A concatenation that finds a part in place goes on reading what the part's producer wrote.
    for (size_t i = placed.size(); i-- > 0;)
      if (auto concat = dyn_cast<ConcatOp>(placed[i].unit))
        for (Value part : concat.getInputs())
          if (isInPlace(concat, part))
            for (Placed& earlier : placed)
              if (earlier.value == resolveView(part)->base)
                earlier.lastRead = std::max(earlier.lastRead, placed[i].lastRead);
    for (const Placed& held : placed)
      for (const Placed& writer : placed) {
        if (writer.unit == held.unit && writer.value == held.value) continue;
        if (writer.written < held.written || writer.written > held.lastRead || recipe::disjoint(held.box, writer.box))
          continue;
        if (auto concat = dyn_cast<ConcatOp>(writer.unit); concat && keeps(concat, held)) continue;
        if (writer.written == held.lastRead && replaces(writer) && !readByTurns(units, step, writer)) continue;
        return fail(writer.value, "overlaps a buffer that is alive with it");
      }
    for (const Placed& writer : placed)
      for (const StateMemory& state : statesOf(function))
        if (writer.box.section == sections.inputs + state.result &&
            isReadAfter(units, step, writer, function.getArgument(state.argument)))
          return fail(writer.value, "overwrites a state that is still read");
  }

 private:
  /// A unit that runs with the writer, or after it, reads of the state as it was what the writer writes.
  static bool isReadAfter(ArrayRef<Operation*> units, llvm::DenseMap<Operation*, int64_t>& step, const Placed& writer,
                          BlockArgument state) {
    SmallVector<recipe::MemoryBox> written;
    if (auto concat = dyn_cast<ConcatOp>(writer.unit)) {
      for (size_t i = 0; i < concat.getInputs().size(); ++i)
        if (!isPart(concat, i)) written.push_back(recipe::wholeBox(partOf(concat, i)));
    } else {
      written.push_back(writer.box);
    }
    const bool updates = replaces(writer);
    for (Operation* unit : units) {
      if (step[unit] < writer.written || (unit == writer.unit && updates)) continue;
      for (Value operand : unit->getOperands()) {
        if (baseOf(operand) != state || cast<RankedTensorType>(operand.getType()).getNumElements() == 0) continue;
        const recipe::MemoryBox read = recipe::wholeBox(operandOf(operand, *locate(operand)));
        if (llvm::any_of(written, [&](const recipe::MemoryBox& box) { return !recipe::disjoint(read, box); }))
          return true;
      }
    }
    return false;
  }

  /// What is wrong with the SRAM tiles of a chained unit; null when nothing is. No tile of the units up to its reader
  /// may lie where they do.
  const char* chainFault(ArrayRef<Operation*> units, Operation* unit) const {
    std::optional<RingInfo> own = chainRingOf(unit);
    std::optional<ChainLink> link = chainOf(unit);
    if (!own || own->slots != link->slots || own->dim != link->dim) return "is chained, but has no SRAM tiles for it";
    auto endOf = [](const RingInfo& ring) { return ring.offset + ring.slots * ring.slotBytes; };
    if (own->offset < 0 || own->offset % recipe::kAlignment || endOf(*own) > sramBytes_)
      return "has SRAM tiles beyond the capacity";
    int64_t elements = cast<RankedTensorType>(unit->getResult(0).getType()).getNumElements(), tile = elements;
    if (auto cut = unit->getAttrOfType<TileAttr>("tile"); cut && link->interleaved()) {
      tile = 1;
      for (int64_t size : cut.getSizes()) tile *= size;
    }
    if (tile * elementSize(elementType(cast<RankedTensorType>(unit->getResult(0).getType()).getElementType())) >
        own->slotBytes)
      return "has SRAM tiles that are too small";
    size_t at = llvm::find(units, unit) - units.begin();
    if (at + 1 >= units.size() || onlyReader(unit) != units[at + 1])
      return "is chained, but the next unit is not its only reader";
    auto meets = [&](const std::optional<RingInfo>& ring) {
      return ring && ring->offset < endOf(*own) && own->offset < endOf(*ring);
    };
    Operation* reader = units[at + 1];
    if (meets(ringOf(unit)) || meets(ringOf(reader)) || meets(chainRingOf(reader)))
      return "shares SRAM tiles with its reader";
    return nullptr;
  }

  /// A unit that takes turns with the writer reads the bytes that it writes.
  static bool readByTurns(ArrayRef<Operation*> units, llvm::DenseMap<Operation*, int64_t>& step, const Placed& writer) {
    for (Operation* unit : units) {
      if (unit == writer.unit || step[unit] != writer.written) continue;
      for (Value operand : unit->getOperands()) {
        std::optional<Location> location = locate(operand);
        if (location && !recipe::disjoint(recipe::wholeBox(operandOf(operand, *location)), writer.box)) return true;
      }
    }
    return false;
  }

  /// Where part `index` of a concatenation has to be.
  static recipe::Operand partOf(ConcatOp concat, size_t index) {
    Location whole = *locate(concat.getResult());
    size_t axis = concat.getAxis();
    recipe::Operand operand = operandOf(concat.getResult(), whole);
    for (size_t i = 0; i < index; ++i)
      operand.offset += cast<RankedTensorType>(concat.getInputs()[i].getType()).getDimSize(axis) *
                        operand.strides[axis] * elementSize(operand.type);
    operand.sizes[axis] = cast<RankedTensorType>(concat.getInputs()[index].getType()).getDimSize(axis);
    return operand;
  }
  static bool isPart(ConcatOp concat, size_t index) {
    Value part = concat.getInputs()[index];
    std::optional<Location> location = locate(part);
    if (!location || (isa<BlockArgument>(location->view.base) && !stateOfArgument(location->view.base))) return false;
    recipe::Operand here = operandOf(part, *location), there = partOf(concat, index);
    if (here.section != there.section || here.offset != there.offset || here.type != there.type) return false;
    for (size_t d = 0; d < here.sizes.size(); ++d)
      if (here.sizes[d] != 1 && here.strides[d] != there.strides[d]) return false;
    return true;
  }
  static bool isInPlace(ConcatOp concat, Value part) {
    for (size_t i = 0; i < concat.getInputs().size(); ++i)
      if (concat.getInputs()[i] == part && isPart(concat, i)) return true;
    return false;
  }

  /// The concatenation copies nothing over `held`: where it would, the part is there already.
  static bool keeps(ConcatOp concat, const Placed& held) {
    for (size_t i = 0; i < concat.getInputs().size(); ++i) {
      if (cast<RankedTensorType>(concat.getInputs()[i].getType()).getNumElements() == 0) continue;
      if (!isPart(concat, i) && !recipe::disjoint(recipe::wholeBox(partOf(concat, i)), held.box)) return false;
    }
    return true;
  }

  /// Of the bytes that the writer writes it reads just the same view, point by point.
  static bool replaces(const Placed& writer) {
    std::optional<Location> result = locate(writer.value);
    int64_t readers = 0;
    bool same = false;
    for (OpOperand& operand : writer.unit->getOpOperands()) {
      std::optional<Location> location = locate(operand.get());
      if (!location || location->section != result->section) continue;
      recipe::MemoryBox box = recipe::wholeBox(operandOf(operand.get(), *location));
      if (recipe::disjoint(box, recipe::wholeBox(operandOf(writer.value, *result)))) continue;
      ++readers;
      same = location->offset == result->offset && location->view.sizes == result->view.sizes &&
             sameStrides(location->view, result->view) && readsWhereItWrites(writer.unit, operand);
    }
    return readers == 1 && same;
  }

  /// Those of dimensions of size 1 do not matter.
  static bool sameStrides(const StridedView& a, const StridedView& b) {
    for (size_t d = 0; d < a.sizes.size(); ++d)
      if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
    return true;
  }

  void fail(Value value, const char* what) {
    value.getDefiningOp()->emitOpError() << "buffer " << what;
    signalPassFailure();
  }
  int64_t sramBytes_;
};

}  // namespace

std::unique_ptr<Pass> createVerifyMemoryPass(int64_t sramBytes) {
  return std::make_unique<VerifyMemoryPass>(sramBytes);
}

}  // namespace hpu::memory
