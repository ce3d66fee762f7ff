// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/Pack.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/CpuFeatures.h"
#include "numerics/Convert.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HPU_AVX2 __attribute__((target("avx2,fma")))
#endif

namespace hpu::sim {
namespace {

// Elements as they lie in memory, so that overloads tell the formats apart.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
template <numerics::Fp8Format format>
struct F8 {
  uint8_t bits;
};

float load(float value) {
  return value;
}
float load(Bf16 value) {
  return numerics::bf16ToF32(value.bits);
}
float load(F16 value) {
  return numerics::f16ToF32(value.bits);
}
template <numerics::Fp8Format format>
float load(F8<format> value) {
  return numerics::fp8ToF32(format, value.bits);
}
void store(float value, float* to) {
  *to = value;
}
void store(float value, Bf16* to) {
  to->bits = numerics::f32ToBf16(value);
}
void store(float value, F16* to) {
  to->bits = numerics::f32ToF16(value);
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
void copyRun(const Bf16* src, int64_t n, float* dst) {
  numerics::bf16ToF32(&src->bits, dst, static_cast<size_t>(n));
}
void copyRun(const F16* src, int64_t n, float* dst) {
  numerics::f16ToF32(&src->bits, dst, static_cast<size_t>(n));
}
template <numerics::Fp8Format format>
void copyRun(const F8<format>* src, int64_t n, float* dst) {
  numerics::fp8ToF32(format, &src->bits, dst, static_cast<size_t>(n));
}
void copyRun(const float* src, int64_t n, Bf16* dst) {
  numerics::f32ToBf16(src, &dst->bits, static_cast<size_t>(n));
}
void copyRun(const float* src, int64_t n, F16* dst) {
  numerics::f32ToF16(src, &dst->bits, static_cast<size_t>(n));
}

/// dst[r * dstStride + c] = src[c * srcStride + r]: 8 x 8 blocks, what is left element by element.
void transpose(const float* src, int64_t srcStride, int64_t rows, int64_t columns, float* dst, int64_t dstStride) {
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
void pack(const From* src, int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride, float* dst,
          int64_t dstStride) {
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
    for (int64_t r = 0; r < rows; ++r) dst[r * dstStride + c] = load(src[r * rowStride + c * columnStride]);
}

template <typename To>
void unpack(const float* src, int64_t srcStride, int64_t rows, int64_t columns, To* dst, int64_t rowStride,
            int64_t columnStride) {
  if (columnStride == 1 || columns == 1) {
    for (int64_t r = 0; r < rows; ++r) copyRun(src + r * srcStride, columns, dst + r * rowStride);
    return;
  }
  if constexpr (std::is_same_v<To, float>) {
    if (rowStride == 1) return transpose(src, srcStride, columns, rows, dst, columnStride);
  }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) store(src[r * srcStride + c], dst + r * rowStride + c * columnStride);
}

}  // namespace

bool isProductType(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBF16 || type == ElementType::kF16;
}
bool isFactorType(ElementType type) {
  return isProductType(type) || numerics::isFp8(type);
}

void packMatrix(const void* src, ElementType type, int64_t rows, int64_t columns, int64_t rowStride,
                int64_t columnStride, float* dst, int64_t dstStride) {
  auto packAs = [&](auto element) {
    pack(static_cast<const decltype(element)*>(src), rows, columns, rowStride, columnStride, dst, dstStride);
  };
  switch (type) {
    case ElementType::kBF16:
      return packAs(Bf16{});
    case ElementType::kF16:
      return packAs(F16{});
    case ElementType::kF8E4M3:
      return packAs(F8<numerics::Fp8Format::kE4M3Fn>{});
    case ElementType::kF8E4M3Ieee:
      return packAs(F8<numerics::Fp8Format::kE4M3Ieee>{});
    case ElementType::kF8E5M2:
      return packAs(F8<numerics::Fp8Format::kE5M2>{});
    default:
      return packAs(float{});
  }
}

void storeMatrix(const float* src, int64_t srcStride, int64_t rows, int64_t columns, void* dst, ElementType type,
                 int64_t rowStride, int64_t columnStride) {
  auto unpackAs = [&](auto element) {
    unpack(src, srcStride, rows, columns, static_cast<decltype(element)*>(dst), rowStride, columnStride);
  };
  switch (type) {
    case ElementType::kBF16:
      return unpackAs(Bf16{});
    case ElementType::kF16:
      return unpackAs(F16{});
    default:
      return unpackAs(float{});
  }
}

}  // namespace hpu::sim
