// SPDX-License-Identifier: Apache-2.0
// Sharing is decided in two passes over the units: concatenations from the last to the first, so that a concatenation
// that is itself a part of a later one lies where that one wants it; then results in place of operands, in program
// order. Legality and rewriting are apart: a window is tried, every reader is asked, and it is taken back if one of
// them could no longer read.
#include "compiler/memory/Storage.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/dialect/hpu/TensorBytes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Chains.h"
#include "compiler/layout/Orders.h"
#include "compiler/layout/Views.h"
#include "compiler/support/Units.h"
#include "recipe/Recipe.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::memory {
namespace {

/// Parts whose contiguous runs are shorter are read much worse than copies of them (a memory access is of this size).
constexpr int64_t kLeastRunBytes = 64;

using Strides = SymInts;
using shape::SymInt;

/// Calls visit for each operand of a unit or of the return that reads `value` through any view.
void forEachRead(Value value, llvm::function_ref<void(OpOperand&)> visit) {
  for (OpOperand& use : value.getUses()) {
    auto op = dyn_cast<HpuOp>(use.getOwner());
    if (op && op.isView() && !isUnit(use.getOwner()))
      forEachRead(use.getOwner()->getResult(0), visit);
    else
      visit(use);
  }
}

/// The op of `unit` that reads `operand` on the MME, if one does.
bool feedsMme(OpOperand& operand) {
  Operation* unit = operand.getOwner();
  if (!isa<BundleOp>(unit)) return false;
  Value argument = unit->getRegion(0).front().getArgument(operand.getOperandNumber());
  return llvm::any_of(argument.getUsers(),
                      [](Operation* user) { return cast<HpuOp>(user).getEngine() == EngineKind::Mme; });
}

class Sharing {
 public:
  Sharing(func::FuncOp function, StoragePlan& plan, const StorageOptions& options)
      : function_(function),
        plan_(plan),
        options_(options),
        last_(lastReads(function, plan.step)),
        turns_(turnsOf(plan.units)) {}

  void run() {
    Operation* end = function_.getBody().front().getTerminator();
    for (OpOperand& operand : end->getOpOperands()) outputs_[baseOf(operand.get())] = operand.getOperandNumber();
    for (Operation* unit : plan_.units) {
      // A state's are those of the phase layout.
      const bool isState = llvm::any_of(unit->getResults(), [&](Value value) { return stateOf(value); });
      if (!isState) {
        unit->removeAttr(kStridesAttr);
        unit->removeAttr(kStrideNamesAttr);
      }
      if (std::optional<ChainLink> link = chainOf(unit)) {  // SRAM tiles (Rings.cpp).
        if (link->interleaved())
          setStrides(unit->getResult(0), symSlicedStrides(tensorOf(unit->getResult(0)), link->dim));
        continue;
      }
      for (Value value : unit->getResults()) {
        const std::optional<StateMemory> state = stateOf(value);
        // All updates of a state lie where it does.
        if (auto same = states_.find(state ? state->result : 0); state && same != states_.end()) {
          joinState(value, same->second);
          continue;
        }
        plan_.windows[value] = {plan_.storages.size(), 0};
        // What takes turns reads and writes from the first one's first slice to the last one's last.
        const Turn& turn = turns_[plan_.step[unit]];
        const SymInt bytes = symElements(tensorOf(value)) * elementBytes(tensorOf(value));
        Storage storage{{tensorBytes(value), turn.first, std::max(turn.last, last_[value])}, bytes, -1, {value}};
        if (auto found = outputs_.find(value); found != outputs_.end()) storage.output = found->second;
        if (state) {
          states_[state->result] = plan_.storages.size();
          storage.output = state->result;
          storage.bytes = state->elements() * elementBytes(tensorOf(value));
          storage.live.bytes = storage.bytes.value();
        }
        plan_.storages.push_back(storage);
      }
    }
    if (!options_.share) return;
    goal_ = std::max(options_.liveSetGoal, liveSet());
    std::vector<ConcatOp> concats;  // placeConcat may take the whole plan back.
    for (Operation* unit : llvm::reverse(plan_.units))
      if (auto concat = dyn_cast<ConcatOp>(unit)) concats.push_back(concat);
    for (ConcatOp concat : concats) placeConcat(concat);
    for (Operation* unit : plan_.units) placeOverOperand(unit);
    countParts();
  }

 private:
  /// The state that a unit's result is, or is on the way to be.
  std::optional<StateMemory> stateOf(Value value) {
    if (Operation* unit = value.getDefiningOp())
      if (std::optional<StateMemory> updated = stateUpdatedBy(unit)) return updated;
    auto found = outputs_.find(value);
    return found == outputs_.end() ? std::nullopt : stateOfResult(function_, found->second);
  }

  void joinState(Value value, size_t index) {
    Storage& storage = plan_.storages[index];
    const Turn& turn = turns_[plan_.step[value.getDefiningOp()]];
    storage.live.begin = std::min(storage.live.begin, turn.first);
    storage.live.end = std::max(storage.live.end, std::max(turn.last, last_[value]));
    storage.members.push_back(value);
    plan_.windows[value] = {index, 0};
  }

  Storage& storageOf(Value value) { return plan_.storages[plan_.windows[value].storage]; }

  /// A result whose storage is its own alone and dense.
  bool isAlone(Value value) {
    auto found = plan_.windows.find(value);
    return found != plan_.windows.end() && plan_.storages[found->second.storage].members.size() == 1;
  }

  int64_t liveSet() const {
    std::vector<plan::Buffer> buffers;
    for (const Storage& storage : plan_.storages)
      if (!storage.members.empty() && storage.output < 0) buffers.push_back(storage.live);
    return plan::largestLiveSet(buffers, recipe::kAlignment);
  }

  // ---- Concatenations --------------------------------------------------------------------------------

  void placeConcat(ConcatOp concat) {
    Value whole = concat.getResult();
    if (tensorOf(whole).getNumElements() == 0) return;
    // Should the plan become too large with it, everything is as it was.
    StoragePlan before = plan_;
    bool placed = joinParts(concat) || writeParts(concat);
    if (!placed || liveSet() <= goal_) return;
    for (auto& [value, window] : plan_.windows) {
      if (before.windows[value].storage == window.storage && before.windows[value].offset == window.offset) continue;
      setStrides(value, {});
    }
    // Parts were alone before, and dense; none of them moved from one window to another.
    std::vector<std::string> notes = std::move(plan_.notes);
    plan_ = std::move(before);
    plan_.notes = std::move(notes);
    plan_.notes.push_back("copied   all parts of " + unitName(concat) +
                          ": in place they would be alive longer and raise "
                          "the largest live set");
  }

  /// The parts already lie one behind the other in a larger concatenation (a dense block's): then so does this one.
  bool joinParts(ConcatOp concat) {
    Value whole = concat.getResult();
    if (!isAlone(whole) || storageOf(whole).output >= 0) return false;
    size_t axis = concat.getAxis();
    std::optional<Window> first;
    Strides strides;
    SymInt next = 0;
    for (Value part : concat.getInputs()) {
      std::optional<SymView> view = resolveSymView(part);
      auto window = plan_.windows.find(view->base);
      // What a state was between two updates does not stay.
      if (window == plan_.windows.end() || isAlone(view->base) || stateUpdatedBy(view->base.getDefiningOp()))
        return false;
      const SymInt offset = window->second.offset + view->offset;
      if (!first) {
        first = Window{window->second.storage, offset};
        strides = view->strides;
      } else if (window->second.storage != first->storage || !(offset == next) ||
                 !sameStrides(view->sizes, view->strides, strides)) {
        return false;
      }
      // A dimension of one element has any stride; another part may know it.
      for (size_t d = 0; d < strides.size(); ++d)
        if (!(view->sizes[d] == 1)) strides[d] = view->strides[d];
      next = offset + view->sizes[axis] * strides[axis];
    }
    if (!first || tensorOf(whole).getElementType() != tensorOf(concat.getInputs()[0]).getElementType()) return false;
    return move(whole, *first, strides).empty();
  }

  /// Each part that can be is written where the concatenation lies.
  bool writeParts(ConcatOp concat) {
    Value whole = concat.getResult();
    Strides strides = baseSymView(whole).strides;
    Window at = plan_.windows[whole];
    bool any = false;
    for (Value part : concat.getInputs()) {
      std::string why = writePart(concat, part, at, strides);
      if (why.empty())
        any = true;
      else
        plan_.notes.push_back("copied   part " +
                              unitName(baseOf(part).getDefiningOp() ? baseOf(part).getDefiningOp() : concat) + " of " +
                              unitName(concat) + ": " + why);
      at.offset += symSizes(tensorOf(part))[concat.getAxis()] * strides[concat.getAxis()];
    }
    return any;
  }

  /// "" when it was done, else why not.
  std::string writePart(ConcatOp concat, Value part, Window at, const Strides& strides) {
    Value base = baseOf(part);
    Operation* def = base.getDefiningOp();
    if (std::optional<StateMemory> state = stateOfArgument(base); state && isThere(part, *state, concat)) return "";
    if (!def || !isUnit(def)) return def ? "it is a constant" : "it is an input of the model";
    if (tensorOf(part).getNumElements() == 0) return "it is empty";
    if (!isAlone(base)) return "it lies in another buffer already";
    if (storageOf(base).output >= 0) return "it is an output of the model";
    std::optional<Strides> own = stridesOfBase(part, strides);
    if (!own || tensorOf(base).getNumElements() != tensorOf(part).getNumElements())
      return "it is a part of its producer's result";
    if (llvm::is_contained(*own, SymInt(0))) return "it repeats elements";
    int64_t readers = 0;
    forEachRead(base, [&](OpOperand& read) { readers += read.getOwner() != concat; });
    if (readers > 0 && runBytes(base, *own) < kLeastRunBytes)
      return "its runs of " + std::to_string(runBytes(base, *own)) + " bytes would slow its other readers down";
    return move(base, at, *own);
  }

  /// The state that the concatenation appends to.
  bool isThere(Value part, const StateMemory& state, ConcatOp concat) {
    const std::optional<StateMemory> whole = stateOf(concat.getResult());
    return whole && whole->argument == state.argument && part == concat.getInputs().front();
  }

  /// Bytes that lie one behind the other.
  static int64_t runBytes(Value value, ArrayRef<SymInt> strides) {
    SmallVector<std::pair<int64_t, int64_t>> dims;
    for (auto [size, stride] : llvm::zip(tensorOf(value).getShape(), strides))
      if (size != 1) dims.emplace_back(stride.value(), size);
    llvm::sort(dims);
    int64_t run = 1;
    for (auto [stride, size] : dims)
      if (stride == run)
        run *= size;
      else
        break;
    return run * elementBytes(tensorOf(value));
  }

  /// Makes `value` a window, unless one of its readers could no longer read it: then says so and changes nothing.
  std::string move(Value value, Window window, const Strides& strides) {
    SmallVector<std::pair<OpOperand*, std::optional<SymView>>> reads;
    forEachRead(value, [&](OpOperand& read) { reads.emplace_back(&read, resolveSymView(read.get())); });
    setStrides(value, strides);
    for (auto& [read, before] : reads) {
      std::optional<SymView> now = resolveSymView(read->get());
      bool holds = now && before && !isa<func::ReturnOp>(read->getOwner());
      // The MME wants the same dimension contiguous as before.
      for (size_t d = 0; holds && d < now->sizes.size() && feedsMme(*read); ++d)
        holds = now->sizes[d] == 1 || !(before->strides[d] == 1) || now->strides[d] == 1;
      if (holds) continue;
      setStrides(value, {});
      return "strides could not express how " + unitName(read->getOwner()) + " reads it";
    }
    Storage& from = storageOf(value);
    Storage& to = plan_.storages[window.storage];
    to.live.begin = std::min(to.live.begin, from.live.begin);
    to.live.end = std::max(to.live.end, from.live.end);
    to.members.push_back(value);
    from.members.clear();
    plan_.windows[value] = window;
    return "";
  }

  void countParts() {
    for (Operation* unit : plan_.units) {
      auto concat = dyn_cast<ConcatOp>(unit);
      if (!concat) continue;
      int64_t copied = 0, parts = concat.getInputs().size();
      for (Value part : concat.getInputs()) {
        auto window = plan_.windows.find(baseOf(part));
        const std::optional<StateMemory> state = stateOfArgument(baseOf(part));
        bool inside =
            (state && isThere(part, *state, concat)) ||
            (window != plan_.windows.end() && window->second.storage == plan_.windows[concat.getResult()].storage);
        copied += !inside;
      }
      plan_.partsCopied += copied;
      plan_.partsInPlace += parts - copied;
      plan_.concatsInPlace += copied == 0;
    }
  }

  // ---- Results in place of operands -------------------------------------------------------------------

  void placeOverOperand(Operation* unit) {
    if (unit->getNumResults() != 1 || !isAlone(unit->getResult(0))) return;
    Value result = unit->getResult(0);
    SymView written = baseSymView(result);
    for (OpOperand& operand : unit->getOpOperands()) {
      if (!readsWhereItWrites(unit, operand)) continue;
      std::optional<SymView> read = resolveSymView(operand.get());
      auto window = plan_.windows.find(read->base);
      if (window == plan_.windows.end() || !(read->offset == 0) || read->sizes != written.sizes ||
          read->strides != written.strides ||
          tensorOf(read->base).getElementType() != tensorOf(result).getElementType() ||
          tensorOf(read->base).getNumElements() != tensorOf(result).getNumElements())
        continue;
      size_t from = plan_.windows[result].storage, to = window->second.storage;
      Storage &own = plan_.storages[from], &other = plan_.storages[to];
      // Everything in the operand's storage has to be dead after this unit, and be whole (no part of something).
      if (from == to || other.live.end != plan_.step[unit] || other.output >= 0 || !(other.bytes == own.bytes))
        continue;
      // By another operand, or by a unit that takes turns with this one.
      const Turn& turn = turns_[plan_.step[unit]];
      bool readTwice = false;
      for (int64_t step = turn.first; step <= turn.last; ++step)
        for (OpOperand& more : plan_.units[step]->getOpOperands()) {
          auto found = plan_.windows.find(baseOf(more.get()));
          readTwice |= &more != &operand && found != plan_.windows.end() && found->second.storage == to;
        }
      if (readTwice) continue;
      other.live.end = own.live.end;
      other.output = own.output;
      other.members.push_back(result);
      own.members.clear();
      plan_.windows[result] = {to, 0};
      ++plan_.resultsInPlace;
      plan_.notes.push_back("in place " + unitName(unit) + " over the result of " +
                            unitName(read->base.getDefiningOp()));
      return;
    }
  }

  func::FuncOp function_;
  StoragePlan& plan_;
  const StorageOptions& options_;
  llvm::DenseMap<Value, int64_t> last_;
  SmallVector<Turn> turns_;                  ///< By step.
  llvm::DenseMap<Value, int64_t> outputs_;   ///< By what is returned, through views.
  llvm::DenseMap<unsigned, size_t> states_;  ///< Their storages, by output.
  int64_t goal_ = 0;
};

}  // namespace

llvm::DenseMap<Value, int64_t> lastReads(func::FuncOp function, const llvm::DenseMap<Operation*, int64_t>& step) {
  llvm::DenseMap<Value, int64_t> last;
  for (Operation& op : function.getBody().front()) {
    auto found = step.find(&op);
    if (found == step.end() && !isa<func::ReturnOp>(op)) continue;
    int64_t now = found == step.end() ? static_cast<int64_t>(step.size()) : found->second;
    for (Value operand : op.getOperands()) last[baseOf(operand)] = now;
    for (Value result : op.getResults()) last[result] = now;
  }
  // Readers that take turns are done when the last of them is.
  SmallVector<Operation*> units(step.size());
  for (auto [unit, number] : step) units[number] = unit;
  SmallVector<Turn> turns = turnsOf(units);
  for (auto& [value, now] : last)
    if (now < static_cast<int64_t>(turns.size())) now = turns[now].last;
  return last;
}

bool readsWhereItWrites(Operation* unit, OpOperand& operand) {
  if (!isa<BundleOp, ClusterOp>(unit) || unit->getNumResults() != 1) return false;
  if (tensorOf(operand.get()).getShape() != tensorOf(unit->getResult(0)).getShape()) return false;
  Value own = unit->getRegion(0).front().getArgument(operand.getOperandNumber());
  if (OpOperand* updated = layout::updatedBy(unit)) return &operand == updated && own.hasOneUse();
  auto byRow = [](Operation* op) { return isa<SoftmaxOp, LogSoftmaxOp, LayerNormOp, InstanceNormOp>(op); };
  Operation* root = layout::rootOf(unit);
  if (root && !byRow(root) && cast<HpuOp>(root).getEngine() != EngineKind::Mme) return false;
  for (OpOperand& use : own.getUses()) {
    Operation* op = use.getOwner();
    bool first = use.getOperandNumber() == 0;
    if (isa<YieldOp>(op)) return false;
    // A norm's vectors lie along other dims than its data.
    if (byRow(op) || isa<BatchNormOp>(op)) {
      if (!first) return false;
    } else if (!cast<HpuOp>(op).isElementwise()) {
      return false;
    }
    if (tensorOf(op->getResult(0)).getShape() != tensorOf(own).getShape()) return false;
  }
  return true;
}

StoragePlan planStorages(func::FuncOp function, const StorageOptions& options) {
  StoragePlan plan;
  for (Operation& op : function.getBody().front())
    if (isUnit(&op)) {
      plan.step[&op] = plan.units.size();
      plan.units.push_back(&op);
    }
  Sharing(function, plan, options).run();
  return plan;
}

}  // namespace hpu::memory
