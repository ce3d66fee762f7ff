// SPDX-License-Identifier: Apache-2.0
// When joining pays: whenever something flows between them. A joined edge saves a launch and the writing and reading of
// a tensor in HBM, and costs nothing that the model of the device knows: the unit's ops would each issue the same
// instructions and load the same other operands alone. So nothing is priced here; what units cost is asked in tile.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/fuse/Fuse.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::fuse {

bool worthJoining(const Group& group, Operation* op, std::string* why) {
  bool connected =
      llvm::any_of(op->getOperands(), [&](Value v) { return v.getDefiningOp() && group.contains(v.getDefiningOp()); });
  if (!connected && why) *why = "nothing flows between them";
  return connected;
}

}  // namespace hpu::fuse
