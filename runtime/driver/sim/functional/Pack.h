// SPDX-License-Identifier: Apache-2.0
// Copies between strided tensors of any MME type and the dense f32 panels that the micro-kernels
// read. The one thing to know: plain functions without state; narrow types are widened exactly and
// rounded to nearest even, with NaN kept quiet (src/numerics).
#pragma once

#include <cstdint>

#include "hpu/types.h"

namespace hpu::sim {

/// What the MME multiplies (f32, bf16, f16, the fp8 types), and what it stores (f32, bf16, f16).
bool isFactorType(ElementType type);
bool isProductType(ElementType type);

/// dst[r * dstStride + c] = src[r * rowStride + c * columnStride] for rows x columns elements of
/// a factor type.
void packMatrix(const void* src, ElementType type, int64_t rows, int64_t columns, int64_t rowStride,
                int64_t columnStride, float* dst, int64_t dstStride);

/// dst[(t * depth + k) * dstStride + c] = src[k * rowStride + c * columnStride + t] for the first `taps` of `window`
/// taps, which lie next to each other.
void packWindow(const void* src, ElementType type, int64_t window, int64_t taps, int64_t depth, int64_t columns,
                int64_t rowStride, int64_t columnStride, float* dst, int64_t dstStride);

/// dst[r * rowStride + c * columnStride] = src[r * srcStride + c], rounded to a product type.
void storeMatrix(const float* src, int64_t srcStride, int64_t rows, int64_t columns, void* dst, ElementType type,
                 int64_t rowStride, int64_t columnStride);

/// Pulls `bytes` bytes towards the second-level cache.
inline void prefetchToL2(const void* address, int64_t bytes) {
  const char* from = static_cast<const char*>(address);
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

}  // namespace hpu::sim
