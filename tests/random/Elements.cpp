// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Elements.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/SmallFloat.h"

namespace hpu::randomtest {

bool isFloat(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16 ||
         type == ElementType::kF64;
}

void setNumber(tools::HostTensor& tensor, int64_t index, double value) {
  auto store = [&](auto number) { memcpy(tensor.bytes.data() + index * sizeof number, &number, sizeof number); };
  auto clamped = [&]<typename T>(T) {
    double low = static_cast<double>(std::numeric_limits<T>::min());
    double high = static_cast<double>(std::numeric_limits<T>::max());
    value = std::nearbyint(value);
    if (!(value > low)) return store(std::numeric_limits<T>::min());
    if (value >= high) return store(std::numeric_limits<T>::max());
    store(static_cast<T>(value));
  };
  switch (tensor.type.element) {
    case ElementType::kF32:
      return store(static_cast<float>(value));
    case ElementType::kF64:
      return store(value);
    case ElementType::kF16:
      return store(numerics::f32ToF16(static_cast<float>(value)));
    case ElementType::kBF16:
      return store(numerics::f32ToBf16(static_cast<float>(value)));
    case ElementType::kI8:
      return clamped(int8_t{});
    case ElementType::kU8:
      return clamped(uint8_t{});
    case ElementType::kI16:
      return clamped(int16_t{});
    case ElementType::kU16:
      return clamped(uint16_t{});
    case ElementType::kI32:
      return clamped(int32_t{});
    case ElementType::kU32:
      return clamped(uint32_t{});
    case ElementType::kI64:
      return clamped(int64_t{});
    case ElementType::kU64:
      return clamped(uint64_t{});
    case ElementType::kBool:
      return store(static_cast<uint8_t>(value != 0));
    default:
      return;
  }
}

}  // namespace hpu::randomtest
