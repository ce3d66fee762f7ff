// SPDX-License-Identifier: Apache-2.0
// The inner loops of reductions by CPU level, so that tests can run each one; all give the same
// bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/CpuFeatures.h"
#include "collectives/reduction/Reduction.h"

namespace hpu::collectives {

/// The most sources of one call of a kernel.
inline constexpr int kMaxSources = 64;

struct KernelCall {
  const Source* sources = nullptr;
  int numSources = 0;
  std::byte* dst = nullptr;
  int64_t count = 0;
  bool dstPartial = false;
  int32_t divisor = 1;
  bool stream = false;
};
using Kernel = void (*)(const KernelCall&);

/// For all types but fp8; kAverage is kSum. `plain`: no source is partial or scaled. The CPU must
/// have the level.
Kernel reductionKernel(base::CpuLevel level, ElementType type, ReduceOp op, bool plain);
/// Copies with stores around the caches, where the level has such.
using StreamCopy = void (*)(std::byte* dst, const std::byte* src, int64_t bytes);
StreamCopy streamCopy(base::CpuLevel level);

/// reduce() on a level.
void reduceAt(base::CpuLevel level, const Reduce& what, const Source* sources, int64_t numSources);

}  // namespace hpu::collectives
