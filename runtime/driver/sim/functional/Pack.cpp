// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/Pack.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "numerics/Convert.h"
#include "runtime/driver/sim/functional/Transpose.h"

#if defined(__x86_64__)
#include <immintrin.h>
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

/// rowsOf(c0)()[c] = src[(c0 + c) * srcStride + r], widened: rowsOf(c0) gives the destination's rows from column c0 on.
template <typename From, typename RowsOf>
void transposeFrom(const From* src, int64_t srcStride, int64_t rows, int64_t columns, RowsOf&& rowsOf) {
  constexpr int64_t kRun = 128;
  for (int64_t c0 = 0; c0 < columns; c0 += kTransposedColumns) {
    const int64_t count = std::min(kTransposedColumns, columns - c0);
    auto next = rowsOf(c0);
    const From* from = src + c0 * srcStride;
    if constexpr (std::is_same_v<From, float>) {
      transposeColumns(from, srcStride, rows, count, next);
    } else {
      float wide[kTransposedColumns * kRun];
      for (int64_t r = 0; r < rows; r += kRun) {
        const int64_t run = std::min(kRun, rows - r);
        for (int64_t c = 0; c < count; ++c) copyRun(from + c * srcStride + r, run, wide + c * kRun);
        transposeColumns(wide, kRun, run, count, next);
      }
    }
  }
}

/// Rows at equal distances.
struct EvenRows {
  float* row;
  int64_t stride;
  float* operator()() { return std::exchange(row, row + stride); }
};

/// Rows of [tap][k] in the order of k, then the tap; those of taps that nobody asks for go to `spare`.
struct TapRows {
  float* dst;
  float* spare;
  int64_t window, taps, tapStride, rowStride, tap = 0;
  float* operator()() {
    float* row = tap < taps ? dst + tap * tapStride : spare;
    if (++tap == window) {
      tap = 0;
      dst += rowStride;
    }
    return row;
  }
};

template <typename From>
void packTaps(const From* src, int64_t window, int64_t taps, int64_t depth, int64_t columns, int64_t rowStride,
              int64_t columnStride, float* dst, int64_t dstStride) {
  const int64_t tapStride = depth * dstStride;
  if (rowStride == window) {
    float spare[kTransposedColumns];
    transposeFrom(src, columnStride, depth * window, columns,
                  [&](int64_t c) { return TapRows{dst + c, spare, window, taps, tapStride, dstStride}; });
    return;
  }
  for (int64_t k = 0; k < depth; ++k)
    transposeFrom(src + k * rowStride, columnStride, taps, columns,
                  [&](int64_t c) { return EvenRows{dst + k * dstStride + c, tapStride}; });
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
  if constexpr (std::is_same_v<From, float>)
    if (rowStride == 1 && columns >= 2 && columns <= 4 && dstStride == columns)
      return interleave(src, columnStride, rows, columns, dst);
  if (rowStride == 1)
    return transposeFrom(src, columnStride, rows, columns, [&](int64_t c) { return EvenRows{dst + c, dstStride}; });
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

/// Calls f with a null pointer to elements of a factor type.
template <typename F>
void withElement(ElementType type, F&& f) {
  switch (type) {
    case ElementType::kBF16:
      return f(static_cast<const Bf16*>(nullptr));
    case ElementType::kF16:
      return f(static_cast<const F16*>(nullptr));
    case ElementType::kF8E4M3:
      return f(static_cast<const F8<numerics::Fp8Format::kE4M3Fn>*>(nullptr));
    case ElementType::kF8E4M3Ieee:
      return f(static_cast<const F8<numerics::Fp8Format::kE4M3Ieee>*>(nullptr));
    case ElementType::kF8E5M2:
      return f(static_cast<const F8<numerics::Fp8Format::kE5M2>*>(nullptr));
    default:
      return f(static_cast<const float*>(nullptr));
  }
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
  withElement(type, [&](auto* none) {
    pack(static_cast<decltype(none)>(src), rows, columns, rowStride, columnStride, dst, dstStride);
  });
}

void packWindow(const void* src, ElementType type, int64_t window, int64_t taps, int64_t depth, int64_t columns,
                int64_t rowStride, int64_t columnStride, float* dst, int64_t dstStride) {
  withElement(type, [&](auto* none) {
    packTaps(static_cast<decltype(none)>(src), window, taps, depth, columns, rowStride, columnStride, dst, dstStride);
  });
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
