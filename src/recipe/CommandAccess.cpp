// SPDX-License-Identifier: Apache-2.0
#include "recipe/CommandAccess.h"

#include <algorithm>
#include <initializer_list>

namespace hpu::recipe {

namespace {

struct Range {
  int64_t lo = 0, hi = 0;
};

/// Of dimension `extent` of the input, what outputs lo..hi of a convolution's spatial dimension read.
Range inputRange(const MmeDesc& mme, size_t i, Range out) {
  const int64_t extent = mme.a.sizes[2 + i];
  const int64_t reach = mme.dilations[i] * (mme.b.sizes[2 + i] - 1);
  Range in;
  if (mme.kind == MmeKind::kConv2d) {
    in.lo = out.lo * mme.strides[i] - mme.padBegin[i];
    in.hi = (out.hi - 1) * mme.strides[i] - mme.padBegin[i] + reach + 1;
  } else {
    // Output o gets from input j where o = j * stride + tap * dilation - pad.
    in.lo = (out.lo + mme.padBegin[i] - reach) / mme.strides[i];
    in.hi = (out.hi - 1 + mme.padBegin[i]) / mme.strides[i] + 1;
  }
  in.lo = std::clamp<int64_t>(in.lo, 0, extent - 1);
  in.hi = std::clamp<int64_t>(in.hi, in.lo + 1, extent);
  return in;
}

class Collector {
 public:
  Collector(const Program& program, const Command& command, std::vector<Access>& accesses, const KernelReads* reads)
      : program_(program), command_(command), accesses_(accesses), reads_(reads) {}

  void collect() {
    const Op& op = program_.ops[command_.op];
    switch (op.engine) {
      case Engine::kMme:
        return mme(op.mme);
      case Engine::kTpc:
        return tpc(op);
      default:
        if (!op.dma.fill) sliced(op.dma.src, false);
        sliced(op.dma.dst, true);
    }
  }

 private:
  void mme(const MmeDesc& mme) {
    const size_t rank = mme.c.sizes.size();
    whole(mme.a);
    if (mme.kind == MmeKind::kGemm) {
      std::copy_n(command_.lo.begin(), rank - 1, lo_.begin());
      std::copy_n(command_.hi.begin(), rank - 1, hi_.begin());
      add(mme.a, false);
      if (mme.packing == BPacking::kStrided) {
        whole(mme.b);
        std::copy_n(command_.lo.begin(), rank - 2, lo_.begin());
        std::copy_n(command_.hi.begin(), rank - 2, hi_.begin());
        lo_[rank - 1] = command_.lo[rank - 1];
        hi_[rank - 1] = command_.hi[rank - 1];
        add(mme.b, false);
      }
    } else {
      lo_[0] = command_.lo[0];
      hi_[0] = command_.hi[0];
      for (size_t i = 0; i < 2; ++i) {
        Range in = inputRange(mme, i, {command_.lo[2 + i], command_.hi[2 + i]});
        lo_[2 + i] = in.lo;
        hi_[2 + i] = in.hi;
      }
      add(mme.a, false);
      whole(mme.b);
      if (mme.packing == BPacking::kStrided) add(mme.b, false);
    }
    sliced(mme.c, true);
  }

  void tpc(const Op& op) {
    for (size_t i = 0; i < op.tpc.inputs.size(); ++i) {
      const Operand& input = op.tpc.inputs[i];
      whole(input);
      if (reads_) {
        narrow(input, (*reads_)[op.tpc.kernel][i]);
      } else if (command_.bundle != kNone) {
        narrow(input, op.space);
      }
      if (input.ring.slots) narrowTo(input.ring.dim, input.ring.dim);
      add(input, false);
    }
    for (const Operand& output : op.tpc.outputs) {
      whole(output);
      if (output.sizes == op.space) narrow(output, op.space);
      if (output.ring.slots) narrowTo(output.ring.dim, output.ring.dim);
      add(output, true);
    }
  }

  void whole(const Operand& operand) {
    lo_.fill(0);
    std::copy(operand.sizes.begin(), operand.sizes.end(), hi_.begin());
  }
  void narrowTo(size_t operandDim, size_t spaceDim) {
    lo_[operandDim] = command_.lo[spaceDim];
    hi_[operandDim] = command_.hi[spaceDim];
  }
  /// Dimensions as large as those of the index space, aligned at the right, follow it.
  void narrow(const Operand& operand, const std::vector<int64_t>& space) {
    if (operand.sizes.size() > space.size()) return;
    const size_t skip = space.size() - operand.sizes.size();
    for (size_t d = 0; d < operand.sizes.size(); ++d) {
      if (operand.sizes[d] == space[skip + d]) narrowTo(d, skip + d);
    }
  }
  void narrow(const Operand& operand, const std::vector<DimRead>& reads) {
    for (size_t d = 0; d < operand.sizes.size() && d < reads.size(); ++d) {
      const DimRead& read = reads[d];
      const int64_t size = operand.sizes[d];
      if (read.dim < 0 || size == 0) continue;
      const auto dim = static_cast<size_t>(read.dim);
      lo_[d] = std::clamp<int64_t>(read.scale * command_.lo[dim] + read.low, 0, size - 1);
      hi_[d] = std::clamp<int64_t>(read.scale * (command_.hi[dim] - 1) + read.high + 1, lo_[d] + 1, size);
    }
  }
  /// An operand whose dimensions are those of the index space.
  void sliced(const Operand& operand, bool write) {
    std::copy(command_.lo.begin(), command_.lo.end(), lo_.begin());
    std::copy(command_.hi.begin(), command_.hi.end(), hi_.begin());
    add(operand, write);
  }

  void add(const Operand& operand, bool write) {
    SectionKind kind = program_.sections[operand.section].kind;
    if (kind == SectionKind::kConst || kind == SectionKind::kInput || isEmpty(operand)) return;
    const size_t rank = operand.sizes.size();
    accesses_.push_back(
        {memoryBox(operand, {lo_.data(), rank}, {hi_.data(), rank}, command_.slice), write, operand.ring.slots != 0});
  }

  const Program& program_;
  const Command& command_;
  std::vector<Access>& accesses_;
  const KernelReads* reads_;
  std::array<int64_t, kMaxRank> lo_{}, hi_{};
};

}  // namespace

void appendAccesses(const Program& program, const Command& command, std::vector<Access>& accesses,
                    const KernelReads* reads) {
  Collector(program, command, accesses, reads).collect();
}

void appendOperands(const Op& op, std::vector<const Operand*>& reads, std::vector<const Operand*>& writes) {
  switch (op.engine) {
    case Engine::kMme:
      reads.insert(reads.end(), {&op.mme.a, &op.mme.b});
      writes.push_back(&op.mme.c);
      return;
    case Engine::kDma:
      if (!op.dma.fill) reads.push_back(&op.dma.src);
      writes.push_back(&op.dma.dst);
      return;
    default:
      for (const Operand& operand : op.tpc.inputs) reads.push_back(&operand);
      for (const Operand& operand : op.tpc.outputs) writes.push_back(&operand);
  }
}

const Operand* operandAt(const Op& op, uint32_t number) {
  auto at = [&](std::initializer_list<const Operand*> list) {
    return number < list.size() ? list.begin()[number] : nullptr;
  };
  switch (op.engine) {
    case Engine::kMme:
      return at({&op.mme.a, &op.mme.b, &op.mme.c});
    case Engine::kDma:
      return op.dma.fill ? at({&op.dma.dst}) : at({&op.dma.src, &op.dma.dst});
    default: {
      const size_t inputs = op.tpc.inputs.size();
      if (number < inputs) return &op.tpc.inputs[number];
      return number - inputs < op.tpc.outputs.size() ? &op.tpc.outputs[number - inputs] : nullptr;
    }
  }
}

Operand* operandAt(Op& op, uint32_t number) {
  return const_cast<Operand*>(operandAt(static_cast<const Op&>(op), number));
}

}  // namespace hpu::recipe
