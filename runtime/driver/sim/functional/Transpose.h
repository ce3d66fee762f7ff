// SPDX-License-Identifier: Apache-2.0
// Transposing copies of 4-byte elements, sixteen columns at a time: whole cache lines are read and written.
// The one thing to know: bits are moved as they are; source and destination must not overlap.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/CpuFeatures.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hpu::sim {

/// Columns that one pass over the rows takes: a cache line of the destination.
inline constexpr int64_t kTransposedColumns = 16;

/// May 8 x 8 blocks go through AVX2's registers?
inline bool hasAvx2() {
#if defined(__x86_64__)
  static const bool has = [] {
    auto level = base::usableCpuLevel();
    return (level.ok() ? *level : base::detectCpuLevel()) >= base::CpuLevel::kV3;
  }();
  return has;
#else
  return false;
#endif
}

#if defined(__x86_64__)
/// to[i][c] = src[c * srcStride + i] for 8 x 8 elements.
__attribute__((target("avx2"))) inline void transpose8x8(const float* src, int64_t srcStride, float* const* to,
                                                         int64_t column) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(src + i * srcStride);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to[i] + column, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to[i + 4] + column, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#endif

/// next()[c] = src[c * srcStride + r] for r = 0, 1, ... and `columns` <= kTransposedColumns: `next` gives the rows of
/// the destination in their order.
template <typename Next>
void transposeColumns(const float* src, int64_t srcStride, int64_t rows, int64_t columns, Next&& next) {
  int64_t r = 0;
#if defined(__x86_64__)
  if (columns >= 8 && hasAvx2()) {
    for (; r + 8 <= rows; r += 8) {
      float* to[8];
      for (float*& row : to) row = next();
      int64_t c = 0;
      for (; c + 8 <= columns; c += 8) transpose8x8(src + c * srcStride + r, srcStride, to, c);
      for (; c < columns; ++c)
        for (int i = 0; i < 8; ++i) std::memcpy(to[i] + c, src + c * srcStride + r + i, sizeof(float));
    }
  }
#endif
  for (; r < rows; ++r) {
    float* to = next();
    for (int64_t c = 0; c < columns; ++c) std::memcpy(to + c, src + c * srcStride + r, sizeof(float));
  }
}

/// dst[r * dstStride + c] = src[c * srcStride + r] for rows x columns elements.
inline void transpose(const float* src, int64_t srcStride, int64_t rows, int64_t columns, float* dst,
                      int64_t dstStride) {
  for (int64_t c = 0; c < columns; c += kTransposedColumns) {
    float* row = dst + c;
    transposeColumns(src + c * srcStride, srcStride, rows,
                     columns - c < kTransposedColumns ? columns - c : kTransposedColumns,
                     [&] { return std::exchange(row, row + dstStride); });
  }
}

}  // namespace hpu::sim
