// SPDX-License-Identifier: Apache-2.0
// Numbers: every element type as exact wide values, written from the formats' definitions and
// shared with nothing that it tests. The one thing to know: floats are decoded to long double,
// which holds each of them exactly, and encoded by looking for the nearest representable value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hpu/types.h"
#include "numerics/ElementKinds.h"

namespace hpu::collectives::testing {

/// A binary float: sign, exponent, mantissa.
struct FloatFormat {
  int exponentBits = 0, mantissaBits = 0;
  bool infinity = true;  ///< f8e4m3 has none, and one NaN a sign: all ones.
  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  int bits() const { return 1 + exponentBits + mantissaBits; }
  /// Of normal numbers; the exponent of denormals is the least one.
  int minExponent() const { return 1 - bias(); }
  int maxExponent() const { return infinity ? bias() : bias() + 1; }
  long double largest() const;
};

using numerics::isFloat;
bool isSigned(ElementType type);
FloatFormat floatFormat(ElementType type);

long double decodeFloat(ElementType type, const std::byte* at);
/// Nearest, ties to even; beyond the largest finite value infinity (NaN where there is none); NaN
/// is the positive quiet one.
void encodeFloat(ElementType type, long double value, std::byte* at);
/// One unit in the last place of numbers as large as |value|.
long double unitInLastPlace(const FloatFormat& format, long double value);

/// Two's complement, sign- or zero-extended.
uint64_t decodeInteger(ElementType type, const std::byte* at);
void encodeInteger(ElementType type, uint64_t value, std::byte* at);

/// A number from a key, well mixed (SplitMix64).
uint64_t mix(uint64_t key);

}  // namespace hpu::collectives::testing
