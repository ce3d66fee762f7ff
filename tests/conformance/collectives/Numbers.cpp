// SPDX-License-Identifier: Apache-2.0
#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace hpu::collectives::testing {
namespace {

uint64_t loadBits(ElementType type, const std::byte* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(elementSize(type)));
  return bits;
}
void storeBits(ElementType type, uint64_t bits, std::byte* at) {
  std::memcpy(at, &bits, static_cast<size_t>(elementSize(type)));
}

}  // namespace

bool isSigned(ElementType type) {
  return isFloat(type) || type == ElementType::kI8 || type == ElementType::kI32 || type == ElementType::kI64;
}

FloatFormat floatFormat(ElementType type) {
  switch (type) {
    case ElementType::kF64:
      return {11, 52, true};
    case ElementType::kF16:
      return {5, 10, true};
    case ElementType::kBF16:
      return {8, 7, true};
    case ElementType::kF8E4M3:
      return {4, 3, false};
    case ElementType::kF8E4M3Ieee:
      return {4, 3, true};
    case ElementType::kF8E5M2:
      return {5, 2, true};
    default:
      return {8, 23, true};
  }
}

long double FloatFormat::largest() const {
  // Without an infinity the last mantissa of the last exponent is NaN.
  long double mantissa = 2 - std::ldexp(1.0L, -mantissaBits) * (infinity ? 1 : 2);
  return std::ldexp(mantissa, maxExponent());
}

long double decodeFloat(ElementType type, const std::byte* at) {
  const FloatFormat format = floatFormat(type);
  const uint64_t bits = loadBits(type, at);
  const uint64_t mantissaMask = (uint64_t{1} << format.mantissaBits) - 1;
  const uint64_t exponentMask = (uint64_t{1} << format.exponentBits) - 1;
  const uint64_t mantissa = bits & mantissaMask;
  const uint64_t exponent = bits >> format.mantissaBits & exponentMask;
  const bool negative = (bits >> (format.bits() - 1) & 1) != 0;
  long double value;
  if (format.infinity && exponent == exponentMask)
    value = mantissa ? std::numeric_limits<long double>::quiet_NaN() : std::numeric_limits<long double>::infinity();
  else if (!format.infinity && exponent == exponentMask && mantissa == mantissaMask)
    value = std::numeric_limits<long double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(static_cast<long double>(mantissa), format.minExponent() - format.mantissaBits);
  else
    value = std::ldexp(static_cast<long double>(mantissa | (mantissaMask + 1)),
                       static_cast<int>(exponent) - format.bias() - format.mantissaBits);
  return negative ? -value : value;
}

long double unitInLastPlace(const FloatFormat& format, long double value) {
  int exponent = format.minExponent();
  if (value != 0 && std::isfinite(value))
    exponent = std::clamp(std::ilogb(value), format.minExponent(), format.maxExponent());
  return std::ldexp(1.0L, exponent - format.mantissaBits);
}

void encodeFloat(ElementType type, long double value, std::byte* at) {
  const FloatFormat format = floatFormat(type);
  const uint64_t exponentMask = (uint64_t{1} << format.exponentBits) - 1;
  const uint64_t mantissaMask = (uint64_t{1} << format.mantissaBits) - 1;
  const uint64_t sign = std::signbit(value) && !std::isnan(value) ? uint64_t{1} << (format.bits() - 1) : 0;
  const uint64_t quiet = format.infinity
                             ? exponentMask << format.mantissaBits | uint64_t{1} << (format.mantissaBits - 1)
                             : exponentMask << format.mantissaBits | mantissaMask;
  if (std::isnan(value)) return storeBits(type, quiet, at);
  const long double magnitude = std::fabs(value);
  // In units of the last place, as if the exponent had no upper bound: rintl rounds ties to even.
  long double unit =
      magnitude == 0
          ? unitInLastPlace(format, 0)
          : std::ldexp(1.0L, std::max(std::isfinite(magnitude) ? std::ilogb(magnitude) : format.maxExponent(),
                                      format.minExponent()) -
                                 format.mantissaBits);
  const long double rounded = std::isfinite(magnitude) ? std::rint(magnitude / unit) * unit : magnitude;
  if (rounded > format.largest()) {
    // Its NaN keeps no sign.
    if (!format.infinity) return storeBits(type, quiet, at);
    return storeBits(type, sign | exponentMask << format.mantissaBits, at);
  }
  if (rounded == 0) return storeBits(type, sign, at);
  int exponent = std::ilogb(rounded);
  uint64_t bits;
  if (exponent < format.minExponent()) {
    bits = static_cast<uint64_t>(std::ldexp(rounded, format.mantissaBits - format.minExponent()));
  } else {
    auto mantissa = static_cast<uint64_t>(std::ldexp(rounded, format.mantissaBits - exponent));
    bits = static_cast<uint64_t>(exponent + format.bias()) << format.mantissaBits | (mantissa & mantissaMask);
  }
  storeBits(type, sign | bits, at);
}

uint64_t decodeInteger(ElementType type, const std::byte* at) {
  uint64_t bits = loadBits(type, at);
  int width = static_cast<int>(elementSize(type)) * 8;
  if (isSigned(type) && width < 64 && (bits >> (width - 1) & 1)) bits |= ~uint64_t{0} << width;
  return bits;
}
void encodeInteger(ElementType type, uint64_t value, std::byte* at) {
  storeBits(type, value, at);
}

uint64_t mix(uint64_t key) {
  key += 0x9e3779b97f4a7c15u;
  key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
  key = (key ^ key >> 27) * 0x94d049bb133111ebu;
  return key ^ key >> 31;
}

}  // namespace hpu::collectives::testing
