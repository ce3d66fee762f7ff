// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduction/Kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "numerics/SmallFloat.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hpu::collectives {

namespace scalar {

constexpr int kBytes = 16;
constexpr bool kCanStream = false;
typedef uint32_t Lanes __attribute__((vector_size(16)));
typedef uint16_t Halves __attribute__((vector_size(8)));
typedef float Floats __attribute__((vector_size(16)));

static inline Lanes expand16(const std::byte* src) {
  uint16_t codes[4];
  std::memcpy(codes, src, sizeof(codes));
  return Lanes{codes[0], codes[1], codes[2], codes[3]};
}
static inline Halves narrow16(Lanes lanes) {
  Halves codes;
  for (int i = 0; i < 4; ++i) codes[i] = static_cast<uint16_t>(lanes[i]);
  return codes;
}
static inline Floats expandHalf(const std::byte* src) {
  const Lanes codes = expand16(src);
  Floats values;
  for (int i = 0; i < 4; ++i) values[i] = numerics::f16ToF32(static_cast<uint16_t>(codes[i]));
  return values;
}
static inline Halves narrowHalf(Floats values) {
  Halves codes;
  for (int i = 0; i < 4; ++i) codes[i] = numerics::f32ToF16(values[i]);
  return codes;
}
template <typename V>
static inline void streamVector(std::byte* dst, V value) {
  std::memcpy(dst, &value, sizeof(value));
}
static inline void fence() {}
#include "collectives/reduction/Kernels.inc"

}  // namespace scalar

#if defined(__x86_64__)

// Functions between these pragmas are compiled for the named features and only called on CPUs that
// have them. Vector values never cross a call that is not inlined.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif
namespace v3 {

constexpr int kBytes = 32;
constexpr bool kCanStream = true;
typedef uint32_t Lanes __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(32)));

static inline Lanes expand16(const std::byte* src) {
  return (Lanes)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
}
/// The low halves of the lanes; they fit, so saturation changes nothing.
static inline __m128i narrow16(Lanes lanes) {
  return _mm_packus_epi32(_mm256_castsi256_si128((__m256i)lanes), _mm256_extracti128_si256((__m256i)lanes, 1));
}
static inline Floats expandHalf(const std::byte* src) {
  return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
}
static inline __m128i narrowHalf(Floats values) {
  return _mm256_cvtps_ph((__m256)values, _MM_FROUND_TO_NEAREST_INT);
}
template <typename V>
static inline void streamVector(std::byte* dst, V value) {
  if constexpr (sizeof(V) == 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(dst), (__m128i)value);
  } else {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst), (__m256i)value);
  }
}
static inline void fence() {
  _mm_sfence();
}
#include "collectives/reduction/Kernels.inc"

}  // namespace v3
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif
namespace v4 {

constexpr int kBytes = 64;
constexpr bool kCanStream = true;
typedef uint32_t Lanes __attribute__((vector_size(64)));
typedef float Floats __attribute__((vector_size(64)));

static inline Lanes expand16(const std::byte* src) {
  return (Lanes)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(src)));
}
static inline __m256i narrow16(Lanes lanes) {
  return _mm512_cvtepi32_epi16((__m512i)lanes);
}
static inline Floats expandHalf(const std::byte* src) {
  return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(src)));
}
static inline __m256i narrowHalf(Floats values) {
  return _mm512_cvtps_ph((__m512)values, _MM_FROUND_TO_NEAREST_INT);
}
template <typename V>
static inline void streamVector(std::byte* dst, V value) {
  if constexpr (sizeof(V) == 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst), (__m256i)value);
  } else {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), (__m512i)value);
  }
}
static inline void fence() {
  _mm_sfence();
}
#include "collectives/reduction/Kernels.inc"

}  // namespace v4
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

Kernel reductionKernel(base::CpuLevel level, ElementType type, ReduceOp op, bool plain) {
#if defined(__x86_64__)
  if (level == base::CpuLevel::kV4) return v4::pick(type, op, plain);
  if (level == base::CpuLevel::kV3) return v3::pick(type, op, plain);
#endif
  return scalar::pick(type, op, plain);
}

StreamCopy streamCopy(base::CpuLevel level) {
#if defined(__x86_64__)
  if (level == base::CpuLevel::kV4) return v4::copyAround;
  if (level == base::CpuLevel::kV3) return v3::copyAround;
#endif
  return scalar::copyAround;
}

}  // namespace hpu::collectives
