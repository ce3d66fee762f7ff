// SPDX-License-Identifier: Apache-2.0
// Phase layout. In: units. Out: the same units, with an #hpu.layout on each result that is not row-major, and
// hpu.relayout where strides do not suffice; proven by hpu-verify-layout. Stop after it with --stop-after=layout.
#include "compiler/layout/Layout.h"

#include "base/OptionNames.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Orders.h"
#include "compiler/layout/UpdatedStates.h"
#include "compiler/layout/Views.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::layout {
namespace {

/// Gives a value another order, inside its unit and in the units that use it.
void setOrder(Value value, ArrayRef<int64_t> order) {
  RankedTensorType type = withOrder(tensorOf(value), order);
  if (type == value.getType()) return;
  value.setType(type);
  if (Operation* def = value.getDefiningOp(); def && def->getNumRegions() == 1) {
    unsigned index = cast<OpResult>(value).getResultNumber();
    def->getRegion(0).front().getTerminator()->getOperand(index).setType(type);
  }
  for (OpOperand& use : value.getUses())
    if (use.getOwner()->getNumRegions() == 1 && isUnit(use.getOwner()))
      use.getOwner()->getRegion(0).front().getArgument(use.getOperandNumber()).setType(type);
}

class LayoutAssigner {
 public:
  LayoutAssigner(func::FuncOp function, const LayoutOptions& options) : function_(function), options_(options) {}

  LogicalResult run() {
    placeStates();
    for (Operation& op : llvm::make_early_inc_range(function_.getBody().front().without_terminator())) {
      if (!isUnit(&op)) continue;
      for (OpOperand& operand : op.getOpOperands())
        if (failed(settleOperand(operand))) return failure();
      if (!options_.optimize || isa<RelayoutOp>(op) || op.hasAttr(kStridesAttr)) continue;
      for (OpOperand& operand : op.getOpOperands())
        if (isReturned(operand.get()) && leapsThrough(operand)) readReturnedCopy(operand);
      for (OpResult result : op.getResults()) setOrder(result, preferredOrder(&op, result.getResultNumber()));
      alignConstants(&op);
    }
    if (failed(settleReturns())) return failure();
    countFolded();
    if (options_.summary)
      *options_.summary = std::to_string(kept_) + " relayouts kept, " + std::to_string(folded_) + " views folded";
    return success();
  }

 private:
  /// What a state is after the launch lies where it was before: a concatenation that appends to it leaves the old rows
  /// where they are, and writes the new ones behind; scatters write the elements that change. Everything else is copied
  /// there, behind all that reads the old state.
  void placeStates() {
    Operation* terminator = function_.getBody().front().getTerminator();
    // Outputs that are states as they were, or views of them: copied before the copies below, one of which may
    // overwrite what they read.
    for (OpOperand& returned : terminator->getOpOperands()) {
      const std::optional<StateMemory> read = stateOfArgument(baseOf(returned.get()));
      const std::optional<StateMemory> own = stateOfResult(function_, returned.getOperandNumber());
      if (!read || (own && returned.get() == function_.getArgument(own->argument))) continue;
      makeResolvable(returned.get(), terminator);
      replaceByRelayout(returned, rowMajor(tensorOf(returned.get()).getRank()),
                        "it is of a state that may be overwritten before it is copied");
    }
    const SmallVector<UpdatedState> updated = updatedStates(function_);
    updateInPlace(function_, updated, [&](OpOperand& read, const std::string& why) {
      replaceByRelayout(read, rowMajor(tensorOf(read.get()).getRank()), why);
    });
    for (const StateMemory& state : statesOf(function_)) {
      OpOperand& returned = terminator->getOpOperand(state.result);
      if (llvm::any_of(updated, [&](const UpdatedState& each) { return each.state.result == state.result; })) {
        returned_.insert(baseOf(returned.get()));
        reportState(state, "is updated in place");
        continue;
      }
      if (returned.get() == function_.getArgument(state.argument)) {
        reportState(state, "stays as it is");
        continue;
      }
      SymInts strides;
      for (int64_t stride : state.strides()) strides.push_back(stride);
      const Value base = baseOf(returned.get());
      if (appendsTo(base, returned.get(), state, strides) && returned_.insert(base).second) {
        reportState(state, "is appended to in place");
        setOrder(base, rowMajor(tensorOf(base).getRank()));
        setStrides(base, *stridesOfBase(returned.get(), strides));
        continue;
      }
      makeResolvable(returned.get(), terminator);
      replaceByRelayout(returned, rowMajor(tensorOf(returned.get()).getRank()),
                        "a state is copied to its place when nothing appends to it or updates it there");
      setStrides(returned.get(), strides);
      returned_.insert(returned.get());
      reportState(state, "is computed elsewhere and copied at the end");
    }
  }

  void reportState(const StateMemory& state, const char* what) {
    if (!options_.report) return;
    auto name = function_.getArgAttrOfType<StringAttr>(state.argument, "hpu.name");
    *options_.report += "state    " + (name ? name.str() : std::to_string(state.argument)) + " " + what + "\n";
  }

  /// `base`, which is returned as `value`, is a concatenation whose first part is the state as it was.
  bool appendsTo(Value base, Value value, const StateMemory& state, const SymInts& strides) {
    auto concat = base.getDefiningOp<ConcatOp>();
    if (!concat) return false;
    const std::optional<SymInts> own = stridesOfBase(value, strides);
    const std::optional<SymView> first = resolveSymView(concat.getInputs().front());
    return own && first && first->base == function_.getArgument(state.argument) && first->offset == 0 &&
           first->sizes == symSizes(tensorOf(concat.getInputs().front())) &&
           symElements(tensorOf(first->base)) == symElements(tensorOf(concat.getInputs().front())) &&
           sameStrides(first->sizes, first->strides, *own) &&
           tensorOf(base).getElementType() == tensorOf(first->base).getElementType();
  }

  /// Only what strides say at the representatives, and not for all sizes, cannot be read when it is dense.
  static LogicalResult cannotRead(OpOperand& operand) {
    const RankedTensorType type = tensorOf(operand.get());
    std::vector<base::OptionEntry> sizes;
    for (const shape::SymInt& size : symSizes(type))
      if (!size.isConstant() && !size.isUnknown())
        for (const std::string& name : size.expr()->symbols())
          if (llvm::none_of(sizes, [&](const base::OptionEntry& entry) { return entry.first == name; }))
            sizes.emplace_back(name, "SIZE");
    Operation* view = operand.get().getDefiningOp();
    return withCode(StatusCode::kUnimplemented, operand.getOwner()->emitOpError())
           << "reads " << typeToString(type) << (view ? " of " + unitName(view) : std::string())
           << " through views that strides do not express for all sizes that are given late; give "
           << (sizes.size() == 1 ? "it a size: " : "one of these a size: ") << base::optionEntries("dims", sizes);
  }

  LogicalResult settleOperand(OpOperand& operand) {
    makeResolvable(operand.get(), operand.getOwner());
    std::optional<StridedView> view = resolveView(operand.get());
    Operation* unit = operand.getOwner();
    if (!view) return cannotRead(operand);
    Operation* root = unit->getNumRegions() ? rootOf(unit) : nullptr;
    if (!root || cast<HpuOp>(root).getEngine() != EngineKind::Mme || view->base.getDefiningOp<ConstantOp>())
      return success();
    // Which operand of the MME op is it?
    Value argument = unit->getRegion(0).front().getArgument(operand.getOperandNumber());
    if (!llvm::is_contained(root->getOperands(), argument)) return success();
    size_t rank = view->sizes.size();
    auto unitStride = [&](size_t d) { return view->strides[d] == 1 || view->sizes[d] == 1; };
    if (isa<MatMulOp>(root)) {
      // One of the matrix dims must be contiguous: the transpose flags choose which.
      if (!unitStride(rank - 1) && !unitStride(rank - 2))
        replaceByRelayout(operand, rowMajor(rank), "no matrix dimension is contiguous");
    } else if (argument == root->getOperand(0)) {
      // A few channels (an image) are read strided; more of them have to be contiguous.
      if (!unitStride(1) && view->sizes[1] > 4 && options_.optimize)
        replaceByRelayout(operand, channelsLast(), "a convolution reads its channels contiguously");
    }
    return success();
  }

  /// Does all that comes of a kernel end in outputs, which are row-major, by way of kernels that are elementwise?
  static bool endsInOutputs(Operation* unit, llvm::SmallPtrSetImpl<Operation*>& seen) {
    if (!isa<ClusterOp>(unit) || rootOf(unit)) return false;
    if (!seen.insert(unit).second) return true;
    return llvm::all_of(unit->getUsers(),
                        [&](Operation* user) { return isa<func::ReturnOp>(user) || endsInOutputs(user, seen); });
  }

  /// Are the elements of an operand apart in the order of a kernel whose results are, or become, outputs?
  static bool leapsThrough(OpOperand& operand) {
    const RankedTensorType type = tensorOf(operand.get());
    llvm::SmallPtrSet<Operation*, 8> seen;
    if (type.getRank() == 0 || type.getShape().back() == 1 || !endsInOutputs(operand.getOwner(), seen)) return false;
    const std::optional<StridedView> view = resolveView(operand.get());
    return view && view->strides.back() > 1;
  }

  bool isReturned(Value value) const {
    return returnedCopies_.contains(value) || llvm::any_of(value.getUsers(), llvm::IsaPred<func::ReturnOp>);
  }

  /// An operand that is itself returned is copied for that in any case: this unit, and those behind it that would leap
  /// through it, read the copy.
  void readReturnedCopy(OpOperand& operand) {
    const Value value = operand.get();
    if (auto copy = returnedCopies_.find(value); copy != returnedCopies_.end()) {
      operand.set(copy->second);
      operand.getOwner()->getRegion(0).front().getArgument(operand.getOperandNumber()).setType(copy->second.getType());
      return;
    }
    for (OpOperand& returned : function_.getBody().front().getTerminator()->getOpOperands()) {
      if (returned.get() != value || stateOfResult(function_, returned.getOperandNumber())) continue;
      replaceByRelayout(operand, rowMajor(tensorOf(value).getRank()),
                        "it is returned in this order, as its reader's results are");
      returned.set(operand.get());
      returnedCopies_[value] = operand.get();
      return;
    }
  }

  /// Inserts a copy ahead of the first view op that strides cannot express.
  void makeResolvable(Value value, Operation* user) {
    SmallVector<Operation*> chain;
    for (Value v = value; Operation* def = v.getDefiningOp(); v = def->getOperand(0)) {
      auto op = dyn_cast<HpuOp>(def);
      if (!op || !op.isView()) break;
      chain.push_back(def);
    }
    for (Operation* op : llvm::reverse(chain))
      if (!resolveView(op->getResult(0)))
        replaceByRelayout(op->getOpOperand(0), rowMajor(tensorOf(op->getOperand(0)).getRank()),
                          "strides cannot express the " + op->getName().stripDialect().str());
  }

  void replaceByRelayout(OpOperand& operand, ArrayRef<int64_t> order, const std::string& why) {
    OpBuilder builder(operand.getOwner());
    RankedTensorType type = withOrder(tensorOf(operand.get()), order);
    auto copy = RelayoutOp::create(builder, operand.get().getLoc(), type, operand.get());
    operand.set(copy.getResult());
    if (operand.getOwner()->getNumRegions() == 1 && isUnit(operand.getOwner()))
      operand.getOwner()->getRegion(0).front().getArgument(operand.getOperandNumber()).setType(type);
    ++kept_;
    if (options_.report)
      *options_.report +=
          "kept     relayout of " + typeToString(type) + " for " + unitName(operand.getOwner()) + ": " + why + "\n";
  }

  /// A constant that a TPC kernel reads gets the order in which the kernel walks; each user its own copy.
  void alignConstants(Operation* unit) {
    if (!isa<ClusterOp, BundleOp>(unit)) return;
    Operation* root = rootOf(unit);
    for (OpOperand& operand : unit->getOpOperands()) {
      auto constant = operand.get().getDefiningOp<ConstantOp>();
      if (!constant) continue;
      Value argument = unit->getRegion(0).front().getArgument(operand.getOperandNumber());
      int64_t rank = tensorOf(argument).getRank();
      Order order;
      if (auto conv = dyn_cast_or_null<Conv2dOp>(root);
          conv && conv.getEngine() == EngineKind::Tpc && argument == conv.getW())
        order = {2, 3, 1, 0};  // depthwise: all channels of a tap beside each other
      else if (root && cast<HpuOp>(root).getEngine() == EngineKind::Mme &&
               llvm::is_contained(root->getOperands(), argument))
        continue;  // packed when the recipe is written
      else if (rank == tensorOf(unit->getResult(0)).getRank())
        order = physicalOrder(tensorOf(unit->getResult(0)));
      else
        continue;
      RankedTensorType type = withOrder(tensorOf(argument), order);
      if (type == argument.getType()) continue;
      OpBuilder builder(constant);
      auto copy = ConstantOp::create(builder, constant.getLoc(), type, constant.getValue());
      operand.set(copy.getResult());
      argument.setType(type);
      if (constant->use_empty()) constant.erase();
    }
  }

  LogicalResult settleReturns() {
    Operation* terminator = function_.getBody().front().getTerminator();
    llvm::SmallPtrSet<Operation*, 8> taken;
    for (OpOperand& operand : terminator->getOpOperands()) {
      if (stateOfResult(function_, operand.getOperandNumber())) continue;  // placeStates
      makeResolvable(operand.get(), terminator);
      std::optional<StridedView> view = resolveView(operand.get());
      if (!view) return cannotRead(operand);
      Operation* def = view->base.getDefiningOp();
      bool own = def && isUnit(def) && isDenseRowMajor(*view) && haveSameCount(view->base, operand.get()) &&
                 (def->getNumResults() > 1 || taken.insert(def).second) && !returned_.contains(view->base);
      if (own) returned_.insert(view->base);
      // The same bytes may carry another order (one pixel, channels-last); the signature says row-major. (Behind a
      // view, the view's own type says it.)
      if (own && view->base == operand.get()) setOrder(view->base, rowMajor(tensorOf(view->base).getRank()));
      if (!own)
        replaceByRelayout(operand, rowMajor(tensorOf(operand.get()).getRank()),
                          "an output is dense, row-major and a buffer of its own");
    }
    return success();
  }

  void countFolded() {
    for (Operation& op : function_.getBody().front())
      if (auto hpuOp = dyn_cast<HpuOp>(&op); hpuOp && hpuOp.isView()) ++folded_;
  }

  func::FuncOp function_;
  const LayoutOptions& options_;
  llvm::DenseSet<Value> returned_;
  llvm::DenseMap<Value, Value> returnedCopies_;  ///< Of values that kernels read as they are returned.
  int64_t kept_ = 0, folded_ = 0;
};

class LayoutPass : public PassWrapper<LayoutPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LayoutPass)
  explicit LayoutPass(LayoutOptions options) : options_(options) {}
  StringRef getArgument() const override { return "hpu-layout"; }
  StringRef getDescription() const override { return "Assigns physical orders and inserts relayouts"; }
  void runOnOperation() override {
    if (failed(LayoutAssigner(getOperation(), options_).run())) signalPassFailure();
  }

 private:
  LayoutOptions options_;
};

class VerifyLayoutPass : public PassWrapper<VerifyLayoutPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyLayoutPass)
  StringRef getArgument() const override { return "hpu-verify-layout"; }
  StringRef getDescription() const override { return "Checks that every operand of a unit is a strided view"; }
  void runOnOperation() override {
    for (Operation& op : getOperation().getBody().front()) {
      if (!isUnit(&op) && !isa<func::ReturnOp>(op)) continue;
      llvm::DenseSet<Value> returned;
      for (OpOperand& operand : op.getOpOperands()) {
        std::optional<StridedView> view = resolveView(operand.get());
        const std::optional<StateMemory> state =
            isUnit(&op) ? std::nullopt : stateOfResult(getOperation(), operand.getOperandNumber());
        if (state && view && returned.insert(view->base).second && isInPlace(operand, *view, *state)) continue;
        if (!view || state || (!isUnit(&op) && !isDenseRowMajor(*view)))
          return fail(op, "operand " + typeToString(tensorOf(operand.get())) + " is not a strided view after layout");
        if (!isUnit(&op) && !(returned.insert(view->base).second && ownBuffer(operand, *view)))
          return fail(op, "output " + std::to_string(operand.getOperandNumber()) + " is not a buffer of its own");
      }
    }
  }

 private:
  /// The state as it was, or a unit's result that lies as it does.
  bool isInPlace(OpOperand& output, const StridedView& view, const StateMemory& state) {
    if (output.get() == getOperation().getArgument(state.argument)) return true;
    const SmallVector<int64_t> strides = state.strides();
    for (auto [d, size] : llvm::enumerate(view.sizes))
      if (size != 1 && view.strides[d] != strides[d]) return false;
    return view.offset == 0 && ownBuffer(output, view);
  }
  static bool ownBuffer(OpOperand& output, const StridedView& view) {
    Operation* def = view.base.getDefiningOp();
    return def && isUnit(def) && haveSameCount(view.base, output.get());
  }
  void fail(Operation& op, const std::string& what) {
    op.emitOpError(what);
    signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> createLayoutPass(LayoutOptions options) {
  return std::make_unique<LayoutPass>(options);
}
std::unique_ptr<Pass> createVerifyLayoutPass() {
  return std::make_unique<VerifyLayoutPass>();
}

}  // namespace hpu::layout
