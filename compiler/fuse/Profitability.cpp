// SPDX-License-Identifier: Apache-2.0
// When joining pays. A joined edge saves writing and reading a tensor in HBM; what it can cost is a value
// that must be written anyway (it escapes) and operands that are read at once.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/fuse/Fuse.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::fuse {

bool worthJoining(const Group& group, Operation* op, std::string* why) {
  // A TPC kernel has at most 16 tensors (see src/arch): leave room for two outputs.
  llvm::SmallPtrSet<Value, 16> inputs;
  auto count = [&](Operation* member) {
    for (Value operand : member->getOperands()) {
      Operation* def = operand.getDefiningOp();
      if (!def || (!group.contains(def) && def != op)) inputs.insert(operand);
    }
  };
  for (Operation* member : group.ops) count(member);
  count(op);
  if (inputs.size() > 14) {
    if (why) *why = "a TPC kernel has at most 16 tensors";
    return false;
  }
  bool connected =
      llvm::any_of(op->getOperands(), [&](Value v) { return v.getDefiningOp() && group.contains(v.getDefiningOp()); });
  if (!connected && why) *why = "nothing flows between them";
  return connected;
}

}  // namespace hpu::fuse
