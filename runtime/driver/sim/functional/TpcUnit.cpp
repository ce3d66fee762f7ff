// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/TpcUnit.h"

#include <algorithm>
#include <numeric>

#include "base/Math.h"
#include "runtime/driver/sim/functional/WorkSharing.h"

namespace hpu::sim {
namespace {

using base::ceilDiv;

/// Points (or input elements, where a point reads many) of one call: some 10 us of work.
constexpr int64_t kWorkPerCall = 32768;
/// Of the dimension that is contiguous in memory a call takes at least this much.
constexpr int64_t kMinContiguous = 256;

/// Elements of the operand that differ in address.
int64_t distinctElements(const recipe::Operand& operand) {
  int64_t count = 1;
  for (size_t d = 0; d < operand.sizes.size(); ++d)
    if (operand.strides[d] != 0) count *= operand.sizes[d];
  return count;
}

}  // namespace

TpcUnit::TpcUnit(const recipe::Kernel& kernel, HpuKernelFn function, const recipe::TpcDesc& desc, const OpSlice& slice)
    : function_(function), lo_(slice.lo), hi_(slice.hi), dims_(kernel.dims) {
  const size_t rank = lo_.size();
  int64_t points = 1, whole = 1, elements = 1;
  for (size_t d = 0; d < rank; ++d) points *= hi_[d] - lo_[d];
  for (const auto* list : {&desc.inputs, &desc.outputs}) {
    for (const recipe::Operand& operand : *list) {
      operands_.push_back(bufferRef(operand, slice));
      elements = std::max(elements, distinctElements(operand));
    }
  }
  const recipe::Operand& out = desc.outputs[0];
  for (int64_t size : out.sizes) whole *= size;
  // The slice's share of the largest operand, or its points.
  auto share = static_cast<double>(points) / static_cast<double>(std::max<int64_t>(whole, 1));
  auto work = static_cast<int64_t>(std::max(static_cast<double>(points), static_cast<double>(elements) * share));
  int64_t wanted = ceilDiv(work, kWorkPerCall);

  order_.resize(rank);
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return out.strides[a] > out.strides[b]; });
  part_.resize(rank);
  counts_.assign(rank, 1);
  for (size_t d = 0; d < rank; ++d) part_[d] = hi_[d] - lo_[d];
  for (size_t i = 0; i < rank && wanted > 1; ++i) {
    size_t d = order_[i];
    if (kernel.wholeDims >> d & 1 || part_[d] <= 1) continue;
    int64_t extent = part_[d], most = extent;
    if (out.strides[d] == 1) most = std::max<int64_t>(extent / kMinContiguous, 1);
    part_[d] = ceilDiv(extent, std::min(wanted, most));
    counts_[d] = ceilDiv(extent, part_[d]);
    blocks_ *= counts_[d];
    wanted = ceilDiv(wanted, counts_[d]);
  }
  scratchBytes_ = kernel.scratchBytes;
}

void TpcUnit::run(const RunContext& context) const {
  std::vector<void*> pointers;
  pointers.reserve(operands_.size());
  for (const BufferRef& operand : operands_) pointers.push_back(operand.in(context));
  shareBlocks(blocks_, context.threads, [&](int slot, BlockCursor& cursor) {
    int64_t lo[recipe::kMaxRank], hi[recipe::kMaxRank];
    HpuKernelArgs args{pointers.data(), lo, hi, dims_.data(), context.scratchOf(slot)};
    for (int64_t block = cursor.next(); block >= 0; block = cursor.next()) {
      int64_t rest = block;
      for (size_t i = order_.size(); i-- > 0;) {
        size_t d = order_[i];
        lo[d] = lo_[d] + rest % counts_[d] * part_[d];
        hi[d] = std::min(lo[d] + part_[d], hi_[d]);
        rest /= counts_[d];
      }
      function_(&args);
    }
  });
}

}  // namespace hpu::sim
