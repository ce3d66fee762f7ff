// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/MmeUnit.h"

#include <algorithm>
#include <utility>

#include "base/StatusMacros.h"
#include "runtime/driver/sim/functional/WorkSharing.h"

namespace hpu::sim {

MmeUnit::MmeUnit(MmePlan plan, BufferRef a, BufferRef b, ChainedOperand c, const std::byte* constantB)
    : plan_(std::move(plan)), work_(plan_.work()), a_(a), b_(b), c_(c), constantB_(constantB) {
  sharedBytes_ = plan_.sharedBytes();
  scratch_.add(plan_.scratchBytes());
  scratchBytes_ = scratch_.bytes();
}

bool MmeUnit::addLocal(const std::vector<int64_t>& strides, int64_t elementSize) {
  int64_t extents[recipe::kMaxRank];
  plan_.maxBox(extents);
  std::vector<std::pair<int64_t, int64_t>> dims;  // Stride, extent.
  for (size_t d = 0; d < strides.size(); ++d)
    if (extents[d] > 1) dims.emplace_back(strides[d], extents[d]);
  std::sort(dims.begin(), dims.end());
  int64_t span = 1;
  for (auto [stride, extent] : dims) {
    if (stride < span) return false;
    span += (extent - 1) * stride;
  }
  // One cache line more: a kernel may not touch it, but the next piece does not share the line.
  LocalTensor local{strides, elementSize, 0};
  local.scratchOffset = scratch_.add(static_cast<uint64_t>(span * elementSize) + 64);
  locals_.push_back(std::move(local));
  scratchBytes_ = scratch_.bytes();
  return true;
}

void MmeUnit::addKernel(const recipe::Kernel& kernel, HpuKernelFn function, std::vector<ChainedOperand> operands) {
  kernels_.push_back({function, std::move(operands), kernel.dims, scratch_.add(kernel.scratchBytes)});
  scratchBytes_ = scratch_.bytes();
}

Status MmeUnit::prepareWeights(BuildContext& context) {
  if (!constantB_) return okStatus();
  HPU_ASSIGN(prepared_, context.weights.get(plan_.stagedKey(constantB_), plan_.sharedBytes(), [&](std::byte* shared) {
    MmeBuffers buffers;
    buffers.b = constantB_;
    buffers.shared = shared;
    stage(buffers, context.threads);
  }));
  context.preparedBudget -= std::min(context.preparedBudget, plan_.sharedBytes());
  sharedBytes_ = 0;
  return okStatus();
}

void MmeUnit::stage(const MmeBuffers& buffers, int threads) const {
  shareBlocks(plan_.stageItems(), threads, [&](int, BlockCursor& cursor) {
    for (int64_t item = cursor.next(); item >= 0; item = cursor.next()) plan_.stage(item, buffers);
  });
}

void MmeUnit::runBlocks(const RunContext& context, const MmeBuffers& shared, int slot, BlockCursor& cursor) const {
  MmeBuffers buffers = shared;
  std::byte* scratch = context.scratchOf(slot);
  StripCache strips;
  int64_t lo[recipe::kMaxRank], hi[recipe::kMaxRank];
  void* pointers[kMaxOperands];
  auto address = [&](const ChainedOperand& operand) -> std::byte* {
    if (operand.local < 0) return operand.memory.in(context);
    const LocalTensor& local = locals_[static_cast<size_t>(operand.local)];
    int64_t origin = 0;
    for (size_t d = 0; d < local.strides.size(); ++d) origin += lo[d] * local.strides[d];
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(scratch + local.scratchOffset) -
                                        static_cast<uintptr_t>(origin * local.elementSize));
  };
  for (int64_t block = cursor.next(); block >= 0; block = cursor.next()) {
    plan_.blockBox(block, lo, hi);
    buffers.c = address(c_);
    plan_.run(block, buffers, scratch, strips);
    for (const ChainedKernel& kernel : kernels_) {
      for (size_t i = 0; i < kernel.operands.size(); ++i) pointers[i] = address(kernel.operands[i]);
      HpuKernelArgs args{pointers, lo, hi, kernel.dims.data(), scratch + kernel.scratchOffset};
      kernel.function(&args);
    }
  }
}

/// So many that each has some 20 us to do: to wake one up takes several.
int MmeUnit::threads(const RunContext& context) const {
  constexpr int64_t kWorkPerThread = 512 << 10;
  return static_cast<int>(std::clamp<int64_t>(work_ / kWorkPerThread, 1, context.threads));
}

void MmeUnit::run(const RunContext& context) const {
  MmeBuffers buffers;
  buffers.a = a_.in(context);
  buffers.b = b_.in(context);
  // Of blocks that only read it from now on.
  buffers.shared = prepared_ ? prepared_->data() : nullptr;
  if (!buffers.shared && plan_.stageItems() > 0) {
    buffers.shared = context.shared;
    stage(buffers, threads(context));
  }
  shareBlocks(plan_.blocks(), threads(context),
              [&](int slot, BlockCursor& cursor) { runBlocks(context, buffers, slot, cursor); });
}

namespace {

/// The bytes of a packed constant in the program itself; null when `b` is none.
const std::byte* packedConstant(const recipe::Program& program, const recipe::MmeDesc& mme) {
  const recipe::Operand& b = mme.b;
  if (mme.packing != recipe::BPacking::kBlocked) return nullptr;
  for (const recipe::ConstantBlob& blob : program.constants)
    if (blob.section == b.section && blob.offset <= b.offset && b.offset < blob.offset + blob.bytes)
      return reinterpret_cast<const std::byte*>(blob.data) + (b.offset - blob.offset);
  return nullptr;
}

}  // namespace

StatusOr<std::unique_ptr<MmeUnit>> makeMmeUnit(BuildContext& context, const recipe::Op& op, const OpSlice& slice,
                                               BlockLimits limits, const ChainedOperand& c) {
  const std::byte* constant = packedConstant(context.program, op.mme);
  const bool whole = slice.lo == wholeOp(op).lo && slice.hi == op.space;
  limits.preparedWeights = constant != nullptr && whole;
  auto made = MmePlan::create(op.mme, slice.lo, slice.hi, limits);
  if (made.ok() && limits.preparedWeights && made->sharedBytes() > context.preparedBudget) {
    limits.preparedWeights = false;
    made = MmePlan::create(op.mme, slice.lo, slice.hi, limits);
  }
  if (!made.ok()) return made.status().withContext("MME op '" + op.name + "'");
  return std::make_unique<MmeUnit>(std::move(made).value(), bufferRef(op.mme.a, slice), bufferRef(op.mme.b, slice), c,
                                   limits.preparedWeights ? constant : nullptr);
}

}  // namespace hpu::sim
