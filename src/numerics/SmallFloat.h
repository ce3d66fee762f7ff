// SPDX-License-Identifier: Apache-2.0
// bf16, fp16 and the three fp8 formats as bit patterns: scalar conversions from and to f32, the
// reference for the vectorised ones of Convert.h. The one thing to know: everything rounds to
// nearest, ties to even, keeps denormals, and is integer arithmetic, so neither the rounding mode
// nor flush-to-zero of the caller changes a result.
//
//   uint16_t half = hpu::numerics::f32ToBf16(1.5f);
//   float back = hpu::numerics::bf16ToF32(half);
#pragma once

#include <bit>
#include <cstdint>

#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::numerics {

/// The 8-bit formats. E4M3 comes in two ranges.
enum class Fp8Format : uint8_t {
  kE4M3Fn = 0,    ///< OCP 8-bit Floating Point 1.0: no infinity, NaN is S.1111.111, largest is 448.
  kE4M3Ieee = 1,  ///< As IEEE 754 would have it, on Gaudi 2: infinity S.1111.000, largest is 240.
  kE5M2 = 2,      ///< OCP: infinity S.11111.00, largest is 57344.
};

/// What E4M3 means on a target: Gaudi 2's units have the IEEE-like range, Gaudi 3's the OCP one.
/// (Gaudi 1 has no fp8; the answer for it is the OCP one.)
constexpr Fp8Format e4m3Format(Target target) {
  return target == Target::kGaudi2 ? Fp8Format::kE4M3Ieee : Fp8Format::kE4M3Fn;
}

/// The element type of a format, and the format of an fp8 element type (of another type: E4M3Fn).
constexpr ElementType elementTypeOf(Fp8Format format) {
  return format == Fp8Format::kE4M3Fn     ? ElementType::kF8E4M3
         : format == Fp8Format::kE4M3Ieee ? ElementType::kF8E4M3Ieee
                                          : ElementType::kF8E5M2;
}
constexpr Fp8Format fp8Format(ElementType type) {
  return type == ElementType::kF8E5M2       ? Fp8Format::kE5M2
         : type == ElementType::kF8E4M3Ieee ? Fp8Format::kE4M3Ieee
                                            : Fp8Format::kE4M3Fn;
}
constexpr bool isFp8(ElementType type) {
  return type == ElementType::kF8E4M3 || type == ElementType::kF8E4M3Ieee || type == ElementType::kF8E5M2;
}
/// The largest finite value: 448, 240, 57344.
constexpr float largestFinite(Fp8Format format) {
  return format == Fp8Format::kE4M3Fn ? 448.0f : format == Fp8Format::kE4M3Ieee ? 240.0f : 57344.0f;
}

/// What becomes of values beyond the largest finite one.
enum class Overflow : uint8_t {
  kIeee = 0,      ///< Infinity; NaN in a format without infinities.
  kSaturate = 1,  ///< The largest finite value of the sign, for infinities as well.
};

namespace detail {

/// A binary format below 32 bits: sign, exponent, mantissa.
struct Layout {
  uint32_t exponentBits, mantissaBits;
  uint32_t maxFinite;  ///< Code of the largest finite value without its sign.
  uint32_t infinity;   ///< Code of infinity, or of NaN where there is none.
  uint32_t nan;
  constexpr uint32_t bias() const { return (1u << (exponentBits - 1)) - 1; }
  constexpr uint32_t signShift() const { return exponentBits + mantissaBits; }
};

inline constexpr Layout kF16Layout{5, 10, 0x7bff, 0x7c00, 0x7e00};
inline constexpr Layout kFp8Layouts[3] = {{4, 3, 0x7e, 0x7f, 0x7f},   // E4M3Fn
                                          {4, 3, 0x77, 0x78, 0x7f},   // E4M3Ieee
                                          {5, 2, 0x7b, 0x7c, 0x7f}};  // E5M2

/// The code of |x| from its f32 bits (sign cleared, not NaN), as if the exponent had no upper
/// bound.
constexpr uint32_t roundMagnitude(uint32_t magnitude, const Layout& layout) {
  const uint32_t rebias = 127 - layout.bias();
  const uint32_t exponent = magnitude >> 23;
  // f32 denormals get an implicit bit that they lack, but are far below half of any least denormal
  // here.
  const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
  const uint32_t below = exponent > rebias ? 0 : rebias + 1 - exponent;  // Of the least normal's exponent.
  uint32_t shift = 23 - layout.mantissaBits + below;
  if (shift > 31) shift = 31;
  const uint32_t half = 1u << (shift - 1);
  const uint32_t rounded = (mantissa + half - 1 + (mantissa >> shift & 1)) >> shift;
  const uint32_t base = exponent > rebias ? (exponent - rebias - 1) << layout.mantissaBits : 0;
  return base + rounded;  // A carry out of the mantissa lands in the exponent, where it belongs.
}

constexpr uint32_t encode(float value, const Layout& layout, Overflow overflow, bool keepPayload) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t sign = bits >> 31 << layout.signShift();
  if (magnitude > 0x7f800000) {
    const uint32_t payload = keepPayload ? (magnitude & 0x7fffff) >> (23 - layout.mantissaBits) : 0;
    return sign | layout.nan | payload;
  }
  const uint32_t code = roundMagnitude(magnitude, layout);
  if (code <= layout.maxFinite) return sign | code;
  return sign | (overflow == Overflow::kSaturate ? layout.maxFinite : layout.infinity);
}

constexpr float decode(uint32_t code, const Layout& layout) {
  const uint32_t sign = code >> layout.signShift() << 31;
  const uint32_t magnitude = code & ((1u << layout.signShift()) - 1);
  const uint32_t exponent = magnitude >> layout.mantissaBits;
  const uint32_t mantissa = magnitude & ((1u << layout.mantissaBits) - 1);
  const uint32_t aligned = mantissa << (23 - layout.mantissaBits);
  if (magnitude > layout.maxFinite) {
    if (magnitude == layout.infinity && layout.infinity != layout.nan) {
      return std::bit_cast<float>(sign | 0x7f800000);
    }
    return std::bit_cast<float>(sign | 0x7fc00000 | aligned);
  }
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    // Move the leading one to the implicit place.
    const auto lead = static_cast<uint32_t>(std::countl_zero(aligned)) - 8;
    const uint32_t normal = (aligned << lead) & 0x7fffff;
    return std::bit_cast<float>(sign | (128 - layout.bias() - lead) << 23 | normal);
  }
  return std::bit_cast<float>(sign | (exponent + 127 - layout.bias()) << 23 | aligned);
}

}  // namespace detail

/// Exact; a NaN keeps its bits.
constexpr float bf16ToF32(uint16_t code) {
  return std::bit_cast<float>(uint32_t{code} << 16);
}

/// Beyond the largest bf16 is infinity. A NaN becomes quiet and keeps its sign and upper payload
/// bits. (AVX512_BF16's instruction flushes denormals, so its results differ and it is not used.)
constexpr uint16_t f32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Exact; a NaN becomes quiet and keeps its payload, as in VCVTPH2PS.
constexpr float f16ToF32(uint16_t code) {
  return detail::decode(code, detail::kF16Layout);
}

/// Beyond the largest fp16 (65504 and half a step) is infinity. A NaN becomes quiet and keeps its
/// sign and upper payload bits, as in VCVTPS2PH.
constexpr uint16_t f32ToF16(float value) {
  return static_cast<uint16_t>(detail::encode(value, detail::kF16Layout, Overflow::kIeee, /*keepPayload=*/true));
}

/// Exact; NaN is a quiet NaN of the code's sign.
constexpr float fp8ToF32(Fp8Format format, uint8_t code) {
  return detail::decode(code, detail::kFp8Layouts[static_cast<int>(format)]);
}

/// NaN is 0x7f with the value's sign, in every format. Rounding comes first: a value that rounds to
/// the largest finite one has not overflowed.
constexpr uint8_t f32ToFp8(Fp8Format format, float value, Overflow overflow) {
  return static_cast<uint8_t>(
      detail::encode(value, detail::kFp8Layouts[static_cast<int>(format)], overflow, /*keepPayload=*/false));
}

}  // namespace hpu::numerics
