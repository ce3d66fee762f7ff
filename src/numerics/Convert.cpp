// SPDX-License-Identifier: Apache-2.0
#include "numerics/Convert.h"

#include "numerics/ConvertKernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hpu::numerics {

namespace scalar {

static void bf16ToF32(const uint16_t* src, float* dst, size_t count) {
  for (size_t i = 0; i < count; ++i) dst[i] = numerics::bf16ToF32(src[i]);
}
static void f32ToBf16(const float* src, uint16_t* dst, size_t count) {
  for (size_t i = 0; i < count; ++i) dst[i] = numerics::f32ToBf16(src[i]);
}
static void f16ToF32(const uint16_t* src, float* dst, size_t count) {
  for (size_t i = 0; i < count; ++i) dst[i] = numerics::f16ToF32(src[i]);
}
static void f32ToF16(const float* src, uint16_t* dst, size_t count) {
  for (size_t i = 0; i < count; ++i) dst[i] = numerics::f32ToF16(src[i]);
}
static void fp8ToF32(Fp8Format format, const uint8_t* src, float* dst, size_t count) {
  for (size_t i = 0; i < count; ++i) dst[i] = numerics::fp8ToF32(format, src[i]);
}
static void f32ToFp8(Fp8Format format, const float* src, uint8_t* dst, size_t count, Overflow overflow) {
  for (size_t i = 0; i < count; ++i) dst[i] = numerics::f32ToFp8(format, src[i], overflow);
}

}  // namespace scalar

#if defined(__x86_64__)

// Functions between these pragmas are compiled for the named features and only called on CPUs that
// have them. Vector values never cross a call, so the ABI of wide vectors does not matter.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif
namespace v3 {

constexpr size_t kLanes = 8;
using Bits = __m256i;
static inline Bits loadU16(const uint16_t* src) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
}
static inline Bits loadU8(const uint8_t* src) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(src)));
}
/// The low halves of the lanes; they fit, so saturation changes nothing.
static inline __m128i low16(Bits lanes) {
  return _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
}
static inline void storeU16(uint16_t* dst, auto lanes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), low16((Bits)lanes));
}
static inline void storeU8(uint8_t* dst, auto lanes) {
  __m128i halves = low16((Bits)lanes);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(dst), _mm_packus_epi16(halves, halves));
}
static inline void expandHalves(const uint16_t* src, float* dst) {
  _mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src))));
}
static inline void roundToHalves(const float* src, uint16_t* dst) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), _mm256_cvtps_ph(_mm256_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT));
}
#include "numerics/ConvertSimd.inc"

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

constexpr size_t kLanes = 16;
using Bits = __m512i;
static inline Bits loadU16(const uint16_t* src) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(src)));
}
static inline Bits loadU8(const uint8_t* src) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
}
static inline void storeU16(uint16_t* dst, auto lanes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), _mm512_cvtepi32_epi16((Bits)lanes));
}
static inline void storeU8(uint8_t* dst, auto lanes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), _mm512_cvtepi32_epi8((Bits)lanes));
}
static inline void expandHalves(const uint16_t* src, float* dst) {
  _mm512_storeu_ps(dst, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(src))));
}
static inline void roundToHalves(const float* src, uint16_t* dst) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst),
                      _mm512_cvtps_ph(_mm512_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT));
}
#include "numerics/ConvertSimd.inc"

}  // namespace v4
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

const ConvertKernels& convertKernels(base::CpuLevel level) {
  static constexpr ConvertKernels kScalar = {scalar::bf16ToF32, scalar::f32ToBf16, scalar::f16ToF32,
                                             scalar::f32ToF16,  scalar::fp8ToF32,  scalar::f32ToFp8};
#if defined(__x86_64__)
  static constexpr ConvertKernels kV3 = {v3::bf16ToF32, v3::f32ToBf16, v3::f16ToF32,
                                         v3::f32ToF16,  v3::fp8ToF32,  v3::f32ToFp8};
  static constexpr ConvertKernels kV4 = {v4::bf16ToF32, v4::f32ToBf16, v4::f16ToF32,
                                         v4::f32ToF16,  v4::fp8ToF32,  v4::f32ToFp8};
  if (level == base::CpuLevel::kV4) return kV4;
  if (level == base::CpuLevel::kV3) return kV3;
#endif
  return kScalar;
}

namespace {

/// Chosen at the first conversion of the process. A bad HPU_MAX_CPU is reported by whoever loads
/// kernels; here every level gives the same bits.
const ConvertKernels& chosen() {
  static const ConvertKernels& kernels = []() -> const ConvertKernels& {
    auto level = base::usableCpuLevel();
    return convertKernels(level.ok() ? *level : base::detectCpuLevel());
  }();
  return kernels;
}

}  // namespace

void bf16ToF32(const uint16_t* src, float* dst, size_t count) {
  chosen().bf16ToF32(src, dst, count);
}
void f32ToBf16(const float* src, uint16_t* dst, size_t count) {
  chosen().f32ToBf16(src, dst, count);
}
void f16ToF32(const uint16_t* src, float* dst, size_t count) {
  chosen().f16ToF32(src, dst, count);
}
void f32ToF16(const float* src, uint16_t* dst, size_t count) {
  chosen().f32ToF16(src, dst, count);
}
void fp8ToF32(Fp8Format format, const uint8_t* src, float* dst, size_t count) {
  chosen().fp8ToF32(format, src, dst, count);
}
void f32ToFp8(Fp8Format format, const float* src, uint8_t* dst, size_t count, Overflow overflow) {
  chosen().f32ToFp8(format, src, dst, count, overflow);
}

}  // namespace hpu::numerics
