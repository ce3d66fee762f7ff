// SPDX-License-Identifier: Apache-2.0
// MmeUnit: an MME op with the TPC ops that consume it, computed block by block in the host's
// caches. The one thing to know: intermediates that live in SRAM rings exist only as one block in a
// worker's scratch; kernels address them with the tensor's own strides, from an origin moved
// accordingly.
#pragma once

#include <memory>
#include <vector>

#include "runtime/driver/sim/functional/MmePlan.h"
#include "runtime/driver/sim/functional/Unit.h"

namespace hpu::sim {

/// A tensor of which only the current block exists.
struct LocalTensor {
  std::vector<int64_t> strides;  ///< Elements, by dimension of the MME's C.
  int64_t elementSize = 4;
  uint64_t scratchOffset = 0;
};

/// An operand of a chained kernel: a local tensor, or memory when `local` is negative.
struct ChainedOperand {
  int local = -1;
  BufferRef memory;
};

struct ChainedKernel {
  HpuKernelFn function = nullptr;
  std::vector<ChainedOperand> operands;  ///< Inputs, then outputs.
  std::vector<int64_t> dims;             ///< What it gets as HpuKernelArgs::dims.
  uint64_t scratchOffset = 0;
};

class MmeUnit final : public Unit {
 public:
  /// Operands of a chained kernel at most.
  static constexpr size_t kMaxOperands = 64;

  /// `constantB`: B's bytes in the program when the plan wants them packed once; else null.
  MmeUnit(MmePlan plan, BufferRef a, BufferRef b, ChainedOperand c, const std::byte* constantB);
  /// A tensor that lives in scratch: false when `strides` do not tell the points of a block apart.
  bool addLocal(const std::vector<int64_t>& strides, int64_t elementSize);
  void addKernel(const recipe::Kernel& kernel, HpuKernelFn function, std::vector<ChainedOperand> operands);
  /// Packs constant weights for all runs, where the unit was made for that. Call once, when it is
  /// complete. Errors: kResourceExhausted.
  Status prepareWeights(BuildContext& context);
  void run(const RunContext& context) const override;
  const MmePlan& plan() const { return plan_; }

 private:
  void stage(const MmeBuffers& buffers, int threads) const;
  void runBlocks(const RunContext& context, const MmeBuffers& buffers, int slot, class BlockCursor& cursor) const;

  int threads(const RunContext& context) const;

  MmePlan plan_;
  int64_t work_;
  BufferRef a_, b_;
  ChainedOperand c_;
  std::vector<LocalTensor> locals_;
  std::vector<ChainedKernel> kernels_;
  ScratchLayout scratch_;
  const std::byte* constantB_;
  std::shared_ptr<const HostBuffer> prepared_;  ///< What became of it; other programs' units may have it, too.
};

/// The unit of an MME op, without kernels; it will pack constant weights ahead when the budget
/// allows. The op's ring operands are addressed as in `slice`; `c` says where C goes.
StatusOr<std::unique_ptr<MmeUnit>> makeMmeUnit(BuildContext& context, const recipe::Op& op, const OpSlice& slice,
                                               BlockLimits limits, const ChainedOperand& c);

}  // namespace hpu::sim
