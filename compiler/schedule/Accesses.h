// SPDX-License-Identifier: Apache-2.0
// Which bytes a slice of a descriptor reads and writes: the input of dependency tracking.
#pragma once

#include <vector>

#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/schedule/Dependencies.h"

namespace hpu::schedule {

/// A descriptor's slice. Operands of an `elementwise` TPC kernel are touched only in the slice's own (broadcast) box,
/// those of another kernel wholly, but for ring tiles.
struct SliceAccess {
  llvm::ArrayRef<int64_t> lo, hi;
  int64_t slice = 0;
};

std::vector<Access> mmeAccesses(sched::MmeOp op, const SliceAccess& slice);
std::vector<Access> tpcAccesses(sched::TpcOp op, const SliceAccess& slice, bool elementwise);
std::vector<Access> dmaAccesses(sched::DmaOp op, const SliceAccess& slice);

/// The bytes from the first to one past the last element of box lo..hi of an operand (in its own dims).
Access boxAccess(sched::OperandAttr operand, llvm::ArrayRef<int64_t> lo, llvm::ArrayRef<int64_t> hi, int64_t slice,
                 bool write);

}  // namespace hpu::schedule
