// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/Pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/CpuFeatures.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HPU_AVX2 __attribute__((target("avx2,fma")))
#endif

namespace hpu::sim {
namespace {

float widen(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

uint16_t narrow(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float load(float value) {
  return value;
}
float load(uint16_t value) {
  return widen(value);
}
void store(float value, float* to) {
  *to = value;
}
void store(float value, uint16_t* to) {
  *to = narrow(value);
}

bool hasAvx2() {
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
HPU_AVX2 void widenRun(const uint16_t* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i));
    __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), wide);
  }
  for (; i < n; ++i) dst[i] = widen(src[i]);
}

HPU_AVX2 void narrowRun(const float* src, int64_t n, uint16_t* dst) {
  const __m256i one = _mm256_set1_epi32(1), bias = _mm256_set1_epi32(0x7fff);
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), infinity = _mm256_set1_epi32(0x7f800000);
  const __m256i quiet = _mm256_set1_epi32(0x400000);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i));
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(bias, odd));
    __m256i nan = _mm256_cmpgt_epi32(_mm256_and_si256(bits, magnitude), infinity);
    rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(bits, quiet), nan);
    rounded = _mm256_srli_epi32(rounded, 16);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), _mm256_castsi256_si128(packed));
  }
  for (; i < n; ++i) dst[i] = narrow(src[i]);
}

/// dst[r][c] = src[c][r] for 8 x 8 f32.
HPU_AVX2 void transpose8x8(const float* src, int64_t srcStride, float* dst, int64_t dstStride) {
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
    _mm256_storeu_ps(dst + i * dstStride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(dst + (i + 4) * dstStride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#endif

/// dst[r * columns + c] = src[c * srcStride + r] for 2 to 4 columns (the colours of an image).
void interleave(const float* src, int64_t srcStride, int64_t rows, int64_t columns, float* dst) {
  int64_t r = 0;
#if defined(__x86_64__)
  // Four rows at a time; a store of four elements spills over into the next row, which comes after
  // it.
  for (; r + 8 <= rows; r += 4) {
    __m128 c0 = _mm_loadu_ps(src + r), c1 = _mm_loadu_ps(src + srcStride + r);
    __m128 c2 = columns > 2 ? _mm_loadu_ps(src + 2 * srcStride + r) : c1;
    __m128 c3 = columns > 3 ? _mm_loadu_ps(src + 3 * srcStride + r) : c2;
    _MM_TRANSPOSE4_PS(c0, c1, c2, c3);
    float* out = dst + r * columns;
    _mm_storeu_ps(out, c0);
    _mm_storeu_ps(out + columns, c1);
    _mm_storeu_ps(out + 2 * columns, c2);
    _mm_storeu_ps(out + 3 * columns, c3);
  }
#endif
  for (; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) dst[r * columns + c] = src[c * srcStride + r];
}

void copyRun(const float* src, int64_t n, float* dst) {
  std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
}
void copyRun(const uint16_t* src, int64_t n, float* dst) {
#if defined(__x86_64__)
  if (hasAvx2()) return widenRun(src, n, dst);
#endif
  for (int64_t i = 0; i < n; ++i) dst[i] = widen(src[i]);
}
void copyRun(const float* src, int64_t n, uint16_t* dst) {
#if defined(__x86_64__)
  if (hasAvx2()) return narrowRun(src, n, dst);
#endif
  for (int64_t i = 0; i < n; ++i) dst[i] = narrow(src[i]);
}

/// dst[r * dstStride + c] = src[c * srcStride + r]: 8 x 8 blocks, what is left element by element.
void transpose(const float* src, int64_t srcStride, int64_t rows, int64_t columns, float* dst,
               int64_t dstStride) {
  int64_t fullRows = 0, fullColumns = 0;
#if defined(__x86_64__)
  if (hasAvx2()) {
    fullRows = rows & ~int64_t{7};
    fullColumns = columns & ~int64_t{7};
    for (int64_t r = 0; r < fullRows; r += 8)
      for (int64_t c = 0; c < fullColumns; c += 8)
        transpose8x8(src + c * srcStride + r, srcStride, dst + r * dstStride + c, dstStride);
  }
#endif
  for (int64_t c = fullColumns; c < columns; ++c)
    for (int64_t r = 0; r < fullRows; ++r) dst[r * dstStride + c] = src[c * srcStride + r];
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = fullRows; r < rows; ++r) dst[r * dstStride + c] = src[c * srcStride + r];
}

template <typename From>
void pack(const From* src, int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride,
          float* dst, int64_t dstStride) {
  if (columns == 1 && dstStride == 1) {  // One long row.
    columns = rows;
    columnStride = rowStride;
    rows = 1;
  }
  if (columnStride == 1 || columns == 1) {
    if (rowStride == columns && dstStride == columns) {
      copyRun(src, rows * columns, dst);
      return;
    }
    for (int64_t r = 0; r < rows; ++r) copyRun(src + r * rowStride, columns, dst + r * dstStride);
    return;
  }
  if constexpr (std::is_same_v<From, float>) {
    if (rowStride == 1) {
      if (columns >= 2 && columns <= 4 && dstStride == columns)
        return interleave(src, columnStride, rows, columns, dst);
      return transpose(src, columnStride, rows, columns, dst, dstStride);
    }
  }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r)
      dst[r * dstStride + c] = load(src[r * rowStride + c * columnStride]);
}

template <typename To>
void unpack(const float* src, int64_t srcStride, int64_t rows, int64_t columns, To* dst,
            int64_t rowStride, int64_t columnStride) {
  if (columnStride == 1 || columns == 1) {
    for (int64_t r = 0; r < rows; ++r) copyRun(src + r * srcStride, columns, dst + r * rowStride);
    return;
  }
  if constexpr (std::is_same_v<To, float>) {
    if (rowStride == 1) return transpose(src, srcStride, columns, rows, dst, columnStride);
  }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r)
      store(src[r * srcStride + c], dst + r * rowStride + c * columnStride);
}

}  // namespace

void packMatrix(const void* src, ElementType type, int64_t rows, int64_t columns, int64_t rowStride,
                int64_t columnStride, float* dst, int64_t dstStride) {
  if (type == ElementType::kBF16) {
    pack(static_cast<const uint16_t*>(src), rows, columns, rowStride, columnStride, dst, dstStride);
  } else {
    pack(static_cast<const float*>(src), rows, columns, rowStride, columnStride, dst, dstStride);
  }
}

void storeMatrix(const float* src, int64_t srcStride, int64_t rows, int64_t columns, void* dst,
                 ElementType type, int64_t rowStride, int64_t columnStride) {
  if (type == ElementType::kBF16) {
    unpack(src, srcStride, rows, columns, static_cast<uint16_t*>(dst), rowStride, columnStride);
  } else {
    unpack(src, srcStride, rows, columns, static_cast<float*>(dst), rowStride, columnStride);
  }
}

}  // namespace hpu::sim
