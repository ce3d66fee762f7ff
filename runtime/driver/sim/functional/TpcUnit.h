// SPDX-License-Identifier: Apache-2.0
// TpcUnit: a TPC op, its index space cut into calls of the native kernel that run in parallel.
// The one thing to know: dimensions that the kernel wants whole are never cut.
#pragma once

#include <vector>

#include "runtime/driver/sim/functional/Unit.h"

namespace hpu::sim {

class TpcUnit final : public Unit {
 public:
  TpcUnit(const recipe::Kernel& kernel, HpuKernelFn function, const recipe::TpcDesc& desc, const OpSlice& slice);
  void run(const RunContext& context) const override;
  int64_t blocks() const { return blocks_; }

 private:
  HpuKernelFn function_;
  std::vector<BufferRef> operands_;
  std::vector<int64_t> lo_, hi_;
  std::vector<int64_t> dims_;    ///< What the kernel gets as HpuKernelArgs::dims.
  std::vector<int64_t> part_;    ///< Extent of a call's box, by dimension.
  std::vector<int64_t> counts_;  ///< How many parts a dimension has.
  std::vector<size_t> order_;    ///< Dimensions, those with the largest output strides first.
  int64_t blocks_ = 1;
};

}  // namespace hpu::sim
