// SPDX-License-Identifier: Apache-2.0
// When joining pays: whenever something flows between them, and nothing else has to wait for it. A joined edge saves a
// launch and the writing and reading of a tensor in HBM, and costs nothing that the model of the device knows: the
// unit's ops would each issue the same instructions and load the same other operands alone. So nothing is priced here;
// what units cost is asked in tile.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/fuse/Fuse.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::fuse {

namespace {

/// The first op in program order that needs `op`'s result outside of the group, seen through views; null: none does.
Operation* firstReaderOutside(const Group& group, Operation* op) {
  Operation* first = nullptr;
  SmallVector<Operation*> open(op->getUsers());
  while (!open.empty()) {
    Operation* user = open.pop_back_val();
    if (group.contains(user)) continue;
    auto hpuOp = dyn_cast<HpuOp>(user);
    if (hpuOp && hpuOp.isView())
      llvm::append_range(open, user->getUsers());
    else if (!first || user->isBeforeInBlock(first))
      first = user;
  }
  return first;
}

}  // namespace

bool worthJoining(const Group& group, Operation* op, std::string* why) {
  auto isMember = [&](Value v) { return v.getDefiningOp() && group.contains(v.getDefiningOp()); };
  if (llvm::any_of(op->getOperands(), isMember)) return true;
  if (llvm::none_of(op->getUsers(), [&](Operation* user) { return group.contains(user); })) {
    if (why) *why = "nothing flows between them";
    return false;
  }
  Operation* other = firstReaderOutside(group, op);
  if (!other || group.ops.back()->isBeforeInBlock(other)) return true;
  if (why) *why = "another reader of its result would wait for the unit";
  return false;
}

}  // namespace hpu::fuse
