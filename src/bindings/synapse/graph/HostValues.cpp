// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/HostValues.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/Format.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "numerics/Convert.h"
#include "numerics/ElementKinds.h"

namespace hpu::synapse {
namespace {

using numerics::isFloat;

/// Calls `use` with a null pointer of the integer type.
template <typename Use>
void withInteger(ElementType type, Use&& use) {
  switch (type) {
    case ElementType::kI8:
      return use(static_cast<int8_t*>(nullptr));
    case ElementType::kU8:
      return use(static_cast<uint8_t*>(nullptr));
    case ElementType::kI16:
      return use(static_cast<int16_t*>(nullptr));
    case ElementType::kU16:
      return use(static_cast<uint16_t*>(nullptr));
    case ElementType::kI32:
      return use(static_cast<int32_t*>(nullptr));
    case ElementType::kU32:
      return use(static_cast<uint32_t*>(nullptr));
    case ElementType::kI64:
      return use(static_cast<int64_t*>(nullptr));
    default:
      return use(static_cast<uint64_t*>(nullptr));
  }
}

/// Element by element; `from` need not be aligned.
template <typename To, typename From, typename Convert>
void each(const void* from, void* to, size_t count, Convert&& convert) {
  for (size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, static_cast<const char*>(from) + i * sizeof(From), sizeof(From));
    To result = convert(value);
    std::memcpy(static_cast<char*>(to) + i * sizeof(To), &result, sizeof(To));
  }
}

template <typename To>
To truncate(float value) {
  // Saturates; NaN becomes 0.
  if (!(value > static_cast<float>(std::numeric_limits<To>::min())))
    return std::isnan(value) ? To{0} : std::numeric_limits<To>::min();
  if (value >= std::ldexp(1.0f, std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
  return static_cast<To>(value);
}

std::vector<float> toFloats(const void* from, ElementType type, size_t count) {
  std::vector<float> floats(count);
  switch (type) {
    case ElementType::kF32:
      std::memcpy(floats.data(), from, count * 4);
      break;
    case ElementType::kBF16:
      numerics::bf16ToF32(static_cast<const uint16_t*>(from), floats.data(), count);
      break;
    case ElementType::kF16:
      numerics::f16ToF32(static_cast<const uint16_t*>(from), floats.data(), count);
      break;
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      numerics::fp8ToF32(numerics::fp8Format(type), static_cast<const uint8_t*>(from), floats.data(), count);
      break;
    default:
      withInteger(type, [&]<typename T>(T*) {
        each<float, T>(from, floats.data(), count, [](T value) { return static_cast<float>(value); });
      });
  }
  return floats;
}

void fromFloats(const std::vector<float>& floats, ElementType type, void* to) {
  size_t count = floats.size();
  switch (type) {
    case ElementType::kF32:
      std::memcpy(to, floats.data(), count * 4);
      break;
    case ElementType::kBF16:
      numerics::f32ToBf16(floats.data(), static_cast<uint16_t*>(to), count);
      break;
    case ElementType::kF16:
      numerics::f32ToF16(floats.data(), static_cast<uint16_t*>(to), count);
      break;
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      numerics::f32ToFp8(numerics::fp8Format(type), floats.data(), static_cast<uint8_t*>(to), count,
                         numerics::Overflow::kSaturate);
      break;
    default:
      withInteger(type, [&]<typename T>(T*) {
        each<T, float>(floats.data(), to, count, [](float value) { return truncate<T>(value); });
      });
  }
}

}  // namespace

StatusOr<std::vector<std::byte>> convertValues(const std::vector<std::byte>& values, uint32_t from, uint32_t to,
                                               Target target) {
  if (from == to) return values;
  ElementType source = deviceElementType(from, target), sink = deviceElementType(to, target);
  if (source == ElementType::kInvalid || sink == ElementType::kInvalid)
    return unimplemented(
        base::strCat("values cannot be converted from ", dataTypeName(from), " to ", dataTypeName(to)));
  auto size = static_cast<size_t>(elementSize(source));
  if (values.size() % size)
    return invalidArgument(base::strCat(values.size(), " bytes are no number of ", dataTypeName(from), " elements"));
  if (source == sink) return values;
  size_t count = values.size() / size;
  std::vector<std::byte> result(count * static_cast<size_t>(elementSize(sink)));
  if (isFloat(source) || isFloat(sink)) {
    fromFloats(toFloats(values.data(), source, count), sink, result.data());
  } else {
    withInteger(source, [&]<typename From>(From*) {
      withInteger(sink, [&]<typename To>(To*) {
        each<To, From>(values.data(), result.data(), count, [](From value) { return static_cast<To>(value); });
      });
    });
  }
  return result;
}

}  // namespace hpu::synapse
