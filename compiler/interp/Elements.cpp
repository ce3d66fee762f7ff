// SPDX-License-Identifier: Apache-2.0
#include "compiler/interp/Elements.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "numerics/SmallFloat.h"

namespace hpu::interp {
namespace {

/// The f32 from which any narrower format rounds as it would from `value` itself: towards zero, with the
/// last bit set when something was cut off (round to odd).
float roundToOdd(double value) {
  float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

double decode(ElementType element, uint16_t bits) {
  switch (element) {
    case ElementType::kBF16:
      return numerics::bf16ToF32(bits);
    case ElementType::kF16:
      return numerics::f16ToF32(bits);
    default:
      return numerics::fp8ToF32(numerics::fp8Format(element), static_cast<uint8_t>(bits));
  }
}

uint16_t encode(ElementType element, double value) {
  float f = roundToOdd(value);
  switch (element) {
    case ElementType::kBF16:
      return numerics::f32ToBf16(f);
    case ElementType::kF16:
      return numerics::f32ToF16(f);
    default:
      return numerics::f32ToFp8(numerics::fp8Format(element), f, numerics::Overflow::kSaturate);
  }
}

template <typename To, typename W>
To narrow(W value) {
  if constexpr (std::is_floating_point_v<W> && std::is_integral_v<To>) {
    if (std::isnan(value)) return 0;
    // Both limits, as doubles, are exact or one above the range, so >= is the right test.
    if (value <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename T, typename W>
void load(const uint8_t* data, int64_t begin, int64_t stride, int64_t count, W* out) {
  const T* in = reinterpret_cast<const T*>(data) + begin;
  for (int64_t i = 0; i < count; ++i) out[i] = narrow<W>(in[i * stride]);
}

template <typename T, typename W>
void store(uint8_t* data, int64_t begin, const W* values, int64_t count) {
  T* out = reinterpret_cast<T*>(data) + begin;
  for (int64_t i = 0; i < count; ++i) out[i] = narrow<T>(values[i]);
}

}  // namespace

template <typename W>
void loadElements(ElementType element, const uint8_t* data, int64_t begin, int64_t stride, int64_t count, W* out) {
  switch (element) {
    case ElementType::kF32:
      return load<float>(data, begin, stride, count, out);
    case ElementType::kF64:
      return load<double>(data, begin, stride, count, out);
    case ElementType::kI8:
      return load<int8_t>(data, begin, stride, count, out);
    case ElementType::kU8:
      return load<uint8_t>(data, begin, stride, count, out);
    case ElementType::kI16:
      return load<int16_t>(data, begin, stride, count, out);
    case ElementType::kU16:
      return load<uint16_t>(data, begin, stride, count, out);
    case ElementType::kI32:
      return load<int32_t>(data, begin, stride, count, out);
    case ElementType::kU32:
      return load<uint32_t>(data, begin, stride, count, out);
    case ElementType::kI64:
      return load<int64_t>(data, begin, stride, count, out);
    case ElementType::kU64:
      return load<uint64_t>(data, begin, stride, count, out);
    case ElementType::kBool:
      for (int64_t i = 0; i < count; ++i) out[i] = data[begin + i * stride] != 0;
      return;
    case ElementType::kF16:
    case ElementType::kBF16: {
      const uint16_t* in = reinterpret_cast<const uint16_t*>(data) + begin;
      for (int64_t i = 0; i < count; ++i) out[i] = narrow<W>(decode(element, in[i * stride]));
      return;
    }
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      for (int64_t i = 0; i < count; ++i) out[i] = narrow<W>(decode(element, data[begin + i * stride]));
      return;
    case ElementType::kInvalid:
      return;
  }
}

template <typename W>
void storeElements(ElementType element, uint8_t* data, int64_t begin, const W* values, int64_t count) {
  switch (element) {
    case ElementType::kF32:
      return store<float>(data, begin, values, count);
    case ElementType::kF64:
      return store<double>(data, begin, values, count);
    case ElementType::kI8:
      return store<int8_t>(data, begin, values, count);
    case ElementType::kU8:
      return store<uint8_t>(data, begin, values, count);
    case ElementType::kI16:
      return store<int16_t>(data, begin, values, count);
    case ElementType::kU16:
      return store<uint16_t>(data, begin, values, count);
    case ElementType::kI32:
      return store<int32_t>(data, begin, values, count);
    case ElementType::kU32:
      return store<uint32_t>(data, begin, values, count);
    case ElementType::kI64:
      return store<int64_t>(data, begin, values, count);
    case ElementType::kU64:
      return store<uint64_t>(data, begin, values, count);
    case ElementType::kBool:
      for (int64_t i = 0; i < count; ++i) data[begin + i] = values[i] != 0;
      return;
    case ElementType::kF16:
    case ElementType::kBF16: {
      uint16_t* out = reinterpret_cast<uint16_t*>(data) + begin;
      for (int64_t i = 0; i < count; ++i) out[i] = encode(element, static_cast<double>(values[i]));
      return;
    }
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      for (int64_t i = 0; i < count; ++i)
        data[begin + i] = static_cast<uint8_t>(encode(element, static_cast<double>(values[i])));
      return;
    case ElementType::kInvalid:
      return;
  }
}

#define HPU_WIDE(W)                                                                          \
  template void loadElements<W>(ElementType, const uint8_t*, int64_t, int64_t, int64_t, W*); \
  template void storeElements<W>(ElementType, uint8_t*, int64_t, const W*, int64_t);
HPU_WIDE(double)
HPU_WIDE(int64_t)
HPU_WIDE(uint64_t)

}  // namespace hpu::interp
