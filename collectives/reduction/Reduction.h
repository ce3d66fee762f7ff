// SPDX-License-Identifier: Apache-2.0
// Reduction: element-wise reductions of several sources in one pass, vectorised.
// The one thing to know: sources are combined in their order, 16- and 8-bit floats in f32 and
// rounded once (ties to even), so equal inputs give equal bits everywhere; the caller's rounding
// and flush modes play no part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hpu/collectives.h"
#include "hpu/types.h"

namespace hpu::collectives {

/// The type of partial results: f32 for f16, bf16 and fp8; the type itself for all others (integers
/// wrap).
ElementType accumulatorType(ElementType type);
/// The ten types of HCCL, and the three fp8 formats.
bool canReduce(ElementType type);

struct Source {
  const std::byte* data = nullptr;  ///< Any alignment.
  bool partial = false;             ///< Of the accumulator's type, else the data's.
  double scale = 1;                 ///< A contribution is multiplied by it first (not a partial); of integers 1.
};
struct Reduce {
  ElementType type = ElementType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;
  std::byte* dst = nullptr;  ///< Any alignment; may be one of the sources, of the same element size.
  bool dstPartial = false;
  /// Of a dst that is not partial: the result is divided by it (kAverage: the number of ranks).
  /// Integers: truncated towards zero.
  int32_t divisor = 1;
  /// The destination is one of many megabytes that are written before any is read: its stores go
  /// around the caches.
  bool stream = false;
};
/// NaN: sum and prod as IEEE; min and max give NaN when any source is; every NaN of a result is the
/// positive quiet one without payload. -0 < +0 for min and max. Beyond the largest finite value is
/// infinity (NaN in f8e4m3, which has none). Any thread may call; any number of sources (up to 64
/// take one pass over the data). A type that canReduce refuses is a bug of the caller.
void reduce(const Reduce& what, std::span<const Source> sources);

/// A plain move; the ranges are distinct or equal.
void copyBytes(std::byte* dst, const std::byte* src, int64_t bytes, bool stream = false);

}  // namespace hpu::collectives
