// SPDX-License-Identifier: Apache-2.0
// Phase fuse. In: normalised hpu ops at function level. Out: units, views and constants only, proven by
// hpu-verify-fused. Stop after it with --stop-after=fuse.
// MME ops first take what can follow them through SRAM; the remaining TPC ops then form clusters. A group takes what
// reads its results first, and then what its members read.
#include "compiler/fuse/Fuse.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/support/Units.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"

#include <deque>
#include <map>
#include <set>

using namespace mlir;
using namespace hpu::ir;

namespace hpu::fuse {
namespace {

/// Ops that make a unit of their own or a place in one; copies are units already.
bool needsUnit(Operation* op) {
  auto hpuOp = dyn_cast<HpuOp>(op);
  return hpuOp && !hpuOp.isView() && !isUnit(op);
}

Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

struct Earlier {
  bool operator()(Operation* a, Operation* b) const { return a->isBeforeInBlock(b); }
};

class Fuser {
 public:
  Fuser(Block& block, const FuseOptions& options) : block_(block), options_(options) {}

  void run() {
    for (Operation& op : llvm::make_early_inc_range(llvm::reverse(block_)))
      if (isOpTriviallyDead(&op)) op.erase();
    SmallVector<Operation*> order;
    for (Operation& op : block_.without_terminator())
      if (needsUnit(&op)) order.push_back(&op);
    before_ = order.size();
    for (EngineKind engine : {EngineKind::Mme, EngineKind::Tpc})
      for (Operation* op : order)
        if (!units_.contains(op) && cast<HpuOp>(op).getEngine() == engine) grow(op);
    for (const Group& group : groups_) makeUnit(group);
    // Units stand where their last member stood; users of an earlier member may come before.
    sortTopologically(&block_);
    summarise();
  }

 private:
  void grow(Operation* seed) {
    Operation* horizon = horizonOf(seed);
    Group& group = groups_.emplace_back();
    group.horizon = horizon;
    add(group, seed);
    bool changed = options_.group;
    while (changed) {
      changed = false;
      for (Operation* candidate : candidates(group)) {
        std::string why;
        noteHorizon(group, candidate);
        if (!joins(group, candidate, &why)) {
          missed(group, candidate, why);
          continue;
        }
        add(group, candidate);
        changed = true;
        break;
      }
    }
    keepMmeResultInside(group);
    span(group);
  }

  bool joins(const Group& group, Operation* op, std::string* why) const {
    return canJoin(group, op, units_, options_, why) && worthJoining(group, op, why) &&
           !widensForOthers(group, op, why);
  }

  /// A cast to a wider float costs nothing where it is read and twice the traffic where it is stored: it joins its
  /// readers.
  bool widensForOthers(const Group& group, Operation* op, std::string* why) const {
    auto castOp = dyn_cast<CastOp>(op);
    auto from = castOp ? dyn_cast<FloatType>(elementOf(castOp.getX())) : FloatType();
    auto to = castOp ? dyn_cast<FloatType>(castOp.getTo()) : FloatType();
    if (!from || !to || from.getWidth() >= to.getWidth()) return false;
    Group with = group;
    with.ops.push_back(op);
    llvm::sort(with.ops, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
    bool isRead = llvm::any_of(op->getUsers(), [&](Operation* user) {
      return units_.contains(user) || !needsUnit(user) ||
             (canJoin(with, user, units_, options_, nullptr) && worthJoining(with, user, nullptr));
    });
    if (!isRead && why) *why = "what reads it in f32 widens it";
    return !isRead;
  }

  void add(Group& group, Operation* op) {
    group.ops.push_back(op);
    llvm::sort(group.ops, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
    if (!group.root && !cast<HpuOp>(op).isElementwise()) group.root = op;
    units_[op] = &group;
  }

  /// A producer stands ahead of the group, and so may what depends on it.
  void noteHorizon(Group& group, Operation* op) {
    Operation* horizon = horizonOf(op);
    if (horizon->isBeforeInBlock(group.horizon)) group.horizon = horizon;
  }

  /// The first op that may depend on what `seed` becomes: units that stand on both sides of it pull ops ahead of it
  /// behind it.
  Operation* horizonOf(Operation* seed) {
    auto span = spanAround(seed);
    return span == spans_.end() ? seed : span->first;
  }

  /// The span that has ops on both sides of `op`, if any.
  std::map<Operation*, Operation*, Earlier>::iterator spanAround(Operation* op) {
    auto span = spans_.lower_bound(op);
    if (span == spans_.begin() || !op->isBeforeInBlock((--span)->second)) return spans_.end();
    return span;
  }

  /// Notes where a group begins and ends, as one with all that it overlaps.
  void span(const Group& group) {
    Operation *first = group.ops.front(), *last = group.ops.back();
    if (first == last) return;
    if (auto around = spanAround(first); around != spans_.end()) first = around->first;
    auto span = spans_.lower_bound(first);
    while (span != spans_.end() && span->first->isBeforeInBlock(last)) {
      if (last->isBeforeInBlock(span->second)) last = span->second;
      span = spans_.erase(span);
    }
    spans_[first] = last;
  }

  bool isFree(Operation* op) const { return op && op->getBlock() == &block_ && !units_.contains(op) && needsUnit(op); }

  /// Readers of the group's results in program order, and then producers of what it reads, the nearest ones first. What
  /// the epilogue of an MME op reads is better computed while that op runs.
  SmallVector<Operation*> candidates(const Group& group) const {
    llvm::SetVector<Operation*> users, producers;
    const bool isBundle = group.root && cast<HpuOp>(group.root).getEngine() == EngineKind::Mme;
    for (Operation* member : group.ops) {
      for (Operation* user : member->getUsers())
        if (isFree(user)) users.insert(user);
      for (Value operand : member->getOperands())
        if (Operation* producer = operand.getDefiningOp(); !isBundle && isFree(producer)) producers.insert(producer);
    }
    producers.set_subtract(users);
    SmallVector<Operation*> all = users.takeVector(), ahead = producers.takeVector();
    llvm::sort(all, Earlier());
    llvm::sort(ahead, [](Operation* a, Operation* b) { return b->isBeforeInBlock(a); });
    llvm::append_range(all, ahead);
    return all;
  }

  /// A ring in SRAM has no reader outside; if one could not join, the MME op stays alone.
  void keepMmeResultInside(Group& group) {
    if (!group.root || cast<HpuOp>(group.root).getEngine() != EngineKind::Mme || group.ops.size() == 1) return;
    bool escapes = llvm::any_of(group.root->getUsers(), [&](Operation* user) { return !group.contains(user); });
    if (!escapes) return;
    for (Operation* member : group.ops)
      if (member != group.root) units_.erase(member);
    group.ops.assign(1, group.root);
  }

  void makeUnit(const Group& group) {
    llvm::SetVector<Value> inputs;
    SmallVector<Value> outputs;
    SmallVector<Location> locations;
    for (Operation* member : group.ops) {
      locations.push_back(member->getLoc());
      for (Value operand : member->getOperands())
        if (!operand.getDefiningOp() || !group.contains(operand.getDefiningOp())) inputs.insert(operand);
      for (Value result : member->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation* user) { return !group.contains(user); }))
          outputs.push_back(result);
    }
    // The last member's result is the index space that slices are cut from.
    std::reverse(outputs.begin(), outputs.end());
    OpBuilder builder(group.ops.back());
    builder.setInsertionPointAfter(group.ops.back());
    bool bundle = group.root && cast<HpuOp>(group.root).getEngine() == EngineKind::Mme;
    OperationState state(builder.getFusedLoc(locations),
                         bundle ? BundleOp::getOperationName() : ClusterOp::getOperationName());
    state.addOperands(inputs.getArrayRef());
    state.addTypes(ValueRange(outputs).getTypes());
    state.addRegion();
    Operation* unit = builder.create(state);
    Block* body = builder.createBlock(&unit->getRegion(0));
    IRMapping mapping;
    for (Value input : inputs) mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
    for (Operation* member : group.ops) builder.clone(*member, mapping);
    SmallVector<Value> yielded;
    for (Value output : outputs) yielded.push_back(mapping.lookup(output));
    YieldOp::create(builder, unit->getLoc(), yielded);
    for (auto [from, to] : llvm::zip(outputs, unit->getResults())) from.replaceAllUsesWith(to);
    for (Operation* member : llvm::reverse(group.ops)) member->erase();
    (bundle && group.ops.size() > 1 ? bundles_ : bundle ? mmeOnly_ : clusters_) += 1;
    if (options_.report)
      *options_.report +=
          (bundle ? "bundle   " : "cluster  ") + unitName(unit) + "  " + std::to_string(group.ops.size()) + " ops\n";
  }

  void missed(const Group& group, Operation* op, const std::string& why) {
    if (!options_.report || !reported_.insert({group.ops.front(), op}).second) return;
    auto sources = sourceNames(op->getLoc());
    std::string name = sources.empty() ? op->getName().stripDialect().str() : sources.front().node;
    std::string root = sourceNames(group.ops.front()->getLoc()).empty()
                           ? group.ops.front()->getName().stripDialect().str()
                           : sourceNames(group.ops.front()->getLoc()).front().node;
    misses_ += "missed   " + name + " with " + root + ": " + why + "\n";
  }

  void summarise() {
    if (options_.report) *options_.report += misses_;
    if (!options_.summary) return;
    *options_.summary = std::to_string(before_) + " -> " + std::to_string(bundles_ + mmeOnly_ + clusters_) +
                        " units (" + std::to_string(bundles_) + " MME+TPC, " + std::to_string(mmeOnly_) + " MME, " +
                        std::to_string(clusters_) + " TPC)";
  }

  Block& block_;
  const FuseOptions& options_;
  std::deque<Group> groups_;  ///< Never move: units_ points at them.
  Membership units_;
  /// First and last ops of the groups so far, each with what it overlaps: none overlaps another.
  std::map<Operation*, Operation*, Earlier> spans_;
  std::set<std::pair<Operation*, Operation*>> reported_;
  std::string misses_;
  int64_t before_ = 0, bundles_ = 0, mmeOnly_ = 0, clusters_ = 0;
};

class FusePass : public PassWrapper<FusePass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FusePass)
  explicit FusePass(FuseOptions options) : options_(std::move(options)) {}
  StringRef getArgument() const override { return "hpu-fuse"; }
  StringRef getDescription() const override { return "Groups ops into bundles and clusters"; }
  void runOnOperation() override { Fuser(getOperation().getBody().front(), options_).run(); }

 private:
  FuseOptions options_;
};

class VerifyFusedPass : public PassWrapper<VerifyFusedPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyFusedPass)
  StringRef getArgument() const override { return "hpu-verify-fused"; }
  StringRef getDescription() const override { return "Checks that only units, views and constants are left"; }
  void runOnOperation() override {
    for (Operation& op : getOperation().getBody().front().without_terminator()) {
      auto hpuOp = dyn_cast<HpuOp>(&op);
      if (isUnit(&op) || isa<ConstantOp>(op) || (hpuOp && hpuOp.isView())) continue;
      op.emitOpError("is outside of a unit after fuse");
      signalPassFailure();
    }
  }
};

}  // namespace

std::unique_ptr<Pass> createFusePass(FuseOptions options) {
  return std::make_unique<FusePass>(std::move(options));
}
std::unique_ptr<Pass> createVerifyFusedPass() {
  return std::make_unique<VerifyFusedPass>();
}

}  // namespace hpu::fuse
