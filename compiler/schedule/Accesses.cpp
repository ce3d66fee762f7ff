// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/Accesses.h"

#include "compiler/dialect/hpu/HpuTypes.h"

using namespace mlir;
using hpu::sched::OperandAttr;

namespace hpu::schedule {
namespace {

using Box = SmallVector<int64_t>;

Access wholeAccess(OperandAttr operand, int64_t slice, bool write) {
  Box lo(operand.getSizes().size(), 0), hi(operand.getSizes());
  if (!operand.getRing().empty()) {
    // Only one slot of a ring is there at a time; its whole extent is the safe answer.
    int64_t slots = operand.getRing()[0], bytes = operand.getRing()[2];
    return {operand.getSection(), operand.getOffset(), operand.getOffset() + slots * bytes, write};
  }
  return boxAccess(operand, lo, hi, slice, write);
}

/// The part of a broadcast operand that box lo..hi of the index space reads (dims aligned at the right).
Access broadcastAccess(OperandAttr operand, const SliceAccess& slice, bool write) {
  size_t rank = operand.getSizes().size(), skip = slice.lo.size() - rank;
  Box lo(rank), hi(rank);
  for (size_t d = 0; d < rank; ++d) {
    bool one = operand.getSizes()[d] == 1;
    lo[d] = one ? 0 : slice.lo[skip + d];
    hi[d] = one ? 1 : slice.hi[skip + d];
  }
  return boxAccess(operand, lo, hi, slice.slice, write);
}

/// Input rows [from, to) of a convolution that output rows [lo, hi) read.
std::pair<int64_t, int64_t> inputRows(sched::MmeOp op, int64_t dim, int64_t lo, int64_t hi) {
  int64_t extent = op.getA().getSizes()[2 + dim];
  if (op.getKind() != sched::MmeKind::conv2d) return {0, extent};
  int64_t stride = (*op.getStrides())[dim], dilation = (*op.getDilations())[dim], pad = (*op.getPads())[dim];
  int64_t reach = dilation * (op.getB().getSizes()[2 + dim] - 1);
  int64_t from = std::clamp<int64_t>(lo * stride - pad, 0, extent - 1);
  int64_t to = std::clamp<int64_t>((hi - 1) * stride - pad + reach + 1, from + 1, extent);
  return {from, to};
}

}  // namespace

Access boxAccess(OperandAttr operand, ArrayRef<int64_t> lo, ArrayRef<int64_t> hi, int64_t slice, bool write) {
  int64_t bytes = elementSize(ir::elementType(operand.getElement())), first = 0, last = 0;
  for (size_t d = 0; d < lo.size(); ++d) {
    int64_t from = lo[d], to = hi[d];
    if (!operand.getRing().empty() && static_cast<int64_t>(d) == operand.getRing()[1]) {
      to -= from;
      from = 0;
    }
    first += from * operand.getStrides()[d];
    last += (to - 1) * operand.getStrides()[d];
  }
  int64_t base = operand.getOffset();
  if (!operand.getRing().empty()) base += slice % operand.getRing()[0] * operand.getRing()[2];
  return {operand.getSection(), base + first * bytes, base + (last + 1) * bytes, write};
}

std::vector<Access> mmeAccesses(sched::MmeOp op, const SliceAccess& slice) {
  std::vector<Access> accesses;
  size_t rank = slice.lo.size();
  OperandAttr a = op.getA();
  Box lo(a.getSizes().size(), 0), hi(a.getSizes());
  if (op.getKind() == sched::MmeKind::gemm) {
    for (size_t d = 0; d + 1 < rank; ++d) {
      lo[d] = slice.lo[d];
      hi[d] = slice.hi[d];
    }
  } else {
    lo[0] = slice.lo[0];
    hi[0] = slice.hi[0];
    for (int dim = 0; dim < 2; ++dim) std::tie(lo[2 + dim], hi[2 + dim]) = inputRows(op, dim, slice.lo[2 + dim], slice.hi[2 + dim]);
  }
  accesses.push_back(boxAccess(a, lo, hi, slice.slice, false));
  if (!op.getPackedB()) {
    OperandAttr b = op.getB();
    Box bLo(b.getSizes().size(), 0), bHi(b.getSizes());
    if (op.getKind() == sched::MmeKind::gemm)
      for (size_t d = 0; d + 2 < rank; ++d) {
        bLo[d] = slice.lo[d];
        bHi[d] = slice.hi[d];
      }
    accesses.push_back(boxAccess(b, bLo, bHi, slice.slice, false));
  }
  accesses.push_back(boxAccess(op.getC(), slice.lo, slice.hi, slice.slice, true));
  return accesses;
}

std::vector<Access> tpcAccesses(sched::TpcOp op, const SliceAccess& slice, bool elementwise) {
  std::vector<Access> accesses;
  for (Attribute input : op.getInputs()) {
    auto operand = cast<OperandAttr>(input);
    // A ring tile holds just the slice.
    bool own = (elementwise || !operand.getRing().empty()) && operand.getSizes().size() <= slice.lo.size();
    accesses.push_back(own ? broadcastAccess(operand, slice, false) : wholeAccess(operand, slice.slice, false));
  }
  for (Attribute output : op.getOutputs()) {
    auto operand = cast<OperandAttr>(output);
    bool own = operand.getSizes().size() == slice.lo.size();
    accesses.push_back(own ? boxAccess(operand, slice.lo, slice.hi, slice.slice, true)
                           : wholeAccess(operand, slice.slice, true));
  }
  return accesses;
}

std::vector<Access> dmaAccesses(sched::DmaOp op, const SliceAccess& slice) {
  return {boxAccess(op.getSrc(), slice.lo, slice.hi, slice.slice, false),
          boxAccess(op.getDst(), slice.lo, slice.hi, slice.slice, true)};
}

}  // namespace hpu::schedule
