// SPDX-License-Identifier: Apache-2.0
// When an op may join a group: no cycle through the outside, and the engine rules.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/fuse/Fuse.h"
#include "compiler/support/Units.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::fuse {
namespace {

/// True when `value` is computed, directly or not, from a member of the group, seen from outside it. Units count as
/// a whole: two of them that each read an early result of the other would wait for ever.
bool dependsOn(Value value, const Group& group, const Membership& units) {
  llvm::SmallPtrSet<Operation*, 32> visited;
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Operation* def = open.pop_back_val().getDefiningOp();
    if (!def || !visited.insert(def).second) continue;
    if (group.contains(def)) return true;
    if (def->isBeforeInBlock(group.horizon)) continue;
    const Group* unit = units.lookup(def);
    if (!unit)
      llvm::append_range(open, def->getOperands());
    else
      for (Operation* member : unit->ops) llvm::append_range(open, member->getOperands());
  }
  return false;
}

/// True when `op` is a producer that members of the group read, and they read what is computed from it elsewhere, too.
bool feedsFromOutside(const Group& group, Operation* op, const Membership& units) {
  auto isMember = [&](Operation* user) { return group.contains(user); };
  if (llvm::none_of(op->getUsers(), isMember) || llvm::all_of(op->getUsers(), isMember)) return false;
  Group alone;
  alone.ops = {op};
  alone.horizon = group.horizon;
  for (Operation* member : group.ops)
    for (Value operand : member->getOperands()) {
      Operation* def = operand.getDefiningOp();
      if (def && def != op && !group.contains(def) && dependsOn(operand, alone, units)) return true;
    }
  return false;
}

/// The operands and results of the ops as one kernel.
size_t kernelTensors(ArrayRef<Operation*> ops) {
  llvm::SmallPtrSet<Value, 16> tensors;
  for (Operation* op : ops) {
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(ops, operand.getDefiningOp())) tensors.insert(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation* user) { return !llvm::is_contained(ops, user); }))
        tensors.insert(result);
  }
  return tensors.size();
}

bool refuse(std::string* why, const char* text) {
  if (why) *why = text;
  return false;
}

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Whether a row op (softmax, a norm) can follow the MME op of a group slice by slice: its rows lie along dimensions
/// that are never cut. The channels of a grouped convolution are: the groups are products of their own. The kernel
/// compiler says whether two of them go together.
bool keepsSlices(const Group& group, HpuOp op) {
  if (!isa<SoftmaxOp, LogSoftmaxOp, LayerNormOp>(op.getOperation())) return false;
  uint32_t rank = shapeOf(group.root->getResult(0)).size();
  if (auto conv = dyn_cast<Conv2dOp>(group.root); conv && conv.getGroups() != 1) return false;
  if (auto conv = dyn_cast<ConvTranspose2dOp>(group.root); conv && conv.getGroups() != 1) return false;
  uint32_t wide = isa<MatMulOp>(group.root) ? 1u << (rank - 1) : 1u << 1;
  return (op.getWholeDims() & ~wide) == 0;
}

/// The elements of an order's operand that the order names: the order has them at hand.
bool isPick(const Group& group, Operation* op) {
  auto picks = dyn_cast<GatherElementsOp>(op);
  auto top = dyn_cast_or_null<TopIndicesOp>(group.root);
  // Without indices to be stored an order has no memory for long rows, so their length has to be known.
  if (top && top->hasOneUse() &&
      symShape(cast<RankedTensorType>(top.getX().getType()))[static_cast<size_t>(top.getAxis())].isNamed())
    return false;
  return picks && top && group.ops.size() == 1 && picks->getOperand(0) == Value(top.getX()) &&
         picks->getOperand(1) == Value(top.getResult()) && picks.getAxis() == top.getAxis();
}

}  // namespace

bool canJoin(const Group& group, Operation* op, const Membership& units, const FuseOptions& options, std::string* why) {
  auto hpuOp = dyn_cast<HpuOp>(op);
  if (!hpuOp || hpuOp.isView() || isa<ConstantOp>(op)) return refuse(why, "it is not a device op");
  if (hpuOp.getEngine() != EngineKind::Tpc) return refuse(why, "it runs on another engine");

  if (isPick(group, op)) return !options.canFormKernel || options.canFormKernel({group.root, op}, why);
  bool elementwise = hpuOp.isElementwise();
  bool afterMme = group.root && cast<HpuOp>(group.root).getEngine() == EngineKind::Mme;
  if (!elementwise && group.root && !(afterMme && keepsSlices(group, hpuOp)))
    return refuse(why, "the unit already has an op that fixes its index space");

  // The index space is the root's result; elementwise members must have just that shape.
  ArrayRef<int64_t> space = shapeOf((group.root ? group.root : group.ops.front())->getResult(0));
  if (elementwise) {
    if (shapeOf(op->getResult(0)) != space) return refuse(why, "its result has another shape");
  } else if (shapeOf(op->getOperand(0)) != space || shapeOf(op->getResult(0)) != space) {
    // A root may take the group's ops as producers of its (same-shaped) input and keep the index space.
    return refuse(why, "its index space is another one");
  }

  for (Value operand : op->getOperands()) {
    if (operand.getDefiningOp() && group.contains(operand.getDefiningOp())) {
      if (shapeOf(operand) != space) return refuse(why, "it broadcasts a value of the unit");
      continue;
    }
    if (dependsOn(operand, group, units)) return refuse(why, "an operand depends on the unit's own result");
  }
  if (feedsFromOutside(group, op, units)) return refuse(why, "the unit also reads what another unit makes of it");
  // An MME result must stay in SRAM: all its users have to be in the bundle.
  if (afterMme) {
    Value result = group.root->getResult(0);
    for (Operation* user : result.getUsers())
      if (user != op && !group.contains(user)) {
        auto userOp = dyn_cast<HpuOp>(user);
        if (!userOp || !userOp.isElementwise() || shapeOf(user->getResult(0)) != space)
          return refuse(why, "the MME's result is also used outside");
      }
  }
  SmallVector<Operation*> tpcOps;
  for (Operation* member : group.ops)
    if (cast<HpuOp>(member).getEngine() == EngineKind::Tpc) tpcOps.push_back(member);
  tpcOps.push_back(op);
  llvm::sort(tpcOps, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  if (const size_t tensors = kernelTensors(tpcOps); tensors > kMaxKernelTensors) {
    if (why)
      *why = "the kernel would have " + std::to_string(tensors) + " tensors, at most " +
             std::to_string(kMaxKernelTensors) + " are possible";
    return false;
  }
  return !options.canFormKernel || options.canFormKernel(tpcOps, why);
}

}  // namespace hpu::fuse
