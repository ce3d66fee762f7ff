// SPDX-License-Identifier: Apache-2.0
#include "compose/Elements.h"

#include <bit>
#include <cstring>

#include "base/Format.h"
#include "numerics/SmallFloat.h"

namespace hpu::compose {

using base::strCat;

namespace {

template <typename T>
T loadAs(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <typename T>
void storeAs(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

double loadFloat(ElementType type, const std::byte* p) {
  switch (type) {
    case ElementType::kF32:
      return loadAs<float>(p);
    case ElementType::kF64:
      return loadAs<double>(p);
    case ElementType::kBF16:
      return numerics::bf16ToF32(loadAs<uint16_t>(p));
    case ElementType::kF16:
      return numerics::f16ToF32(loadAs<uint16_t>(p));
    default:
      return numerics::fp8ToF32(numerics::fp8Format(type), loadAs<uint8_t>(p));
  }
}

void storeFloat(ElementType type, std::byte* p, double value) {
  auto f = static_cast<float>(value);
  switch (type) {
    case ElementType::kF32:
      return storeAs(p, f);
    case ElementType::kF64:
      return storeAs(p, value);
    case ElementType::kBF16:
      return storeAs(p, numerics::f32ToBf16(f));
    case ElementType::kF16:
      return storeAs(p, numerics::f32ToF16(f));
    default:
      return storeAs(p, numerics::f32ToFp8(numerics::fp8Format(type), f, numerics::Overflow::kSaturate));
  }
}

int64_t loadInteger(ElementType type, const std::byte* p) {
  switch (type) {
    case ElementType::kBool:
      return loadAs<uint8_t>(p) != 0;
    case ElementType::kI8:
      return loadAs<int8_t>(p);
    case ElementType::kU8:
      return loadAs<uint8_t>(p);
    case ElementType::kI16:
      return loadAs<int16_t>(p);
    case ElementType::kU16:
      return loadAs<uint16_t>(p);
    case ElementType::kI32:
      return loadAs<int32_t>(p);
    case ElementType::kU32:
      return loadAs<uint32_t>(p);
    default:
      return loadAs<int64_t>(p);
  }
}

void storeInteger(ElementType type, std::byte* p, int64_t value) {
  std::memcpy(p, &value, static_cast<size_t>(elementSize(type)));
  static_assert(std::endian::native == std::endian::little);
}

}  // namespace

StatusOr<std::vector<std::byte>> convertElements(const std::vector<std::byte>& data, ElementType from, ElementType to,
                                                 int64_t count) {
  int64_t fromSize = elementSize(from), toSize = elementSize(to);
  if (fromSize == 0 || toSize == 0) return invalidArgument("the data have no element type");
  if (static_cast<int64_t>(data.size()) != count * fromSize)
    return invalidArgument(strCat("the data have ", data.size(), " bytes; ", count, " elements of ",
                                  elementTypeName(from), " need ", count * fromSize));
  if (from == to) return data;
  std::vector<std::byte> result(static_cast<size_t>(count * toSize));
  const std::byte* in = data.data();
  std::byte* out = result.data();
  for (int64_t i = 0; i < count; ++i, in += fromSize, out += toSize) {
    if (isFloat(from)) {
      double value = loadFloat(from, in);
      if (isFloat(to))
        storeFloat(to, out, value);
      else if (!(value > -9.2e18 && value < 9.2e18))
        return invalidArgument(strCat("the datum ", i, " does not fit ", elementTypeName(to)));
      else
        storeInteger(to, out, static_cast<int64_t>(value));
    } else {
      int64_t value = loadInteger(from, in);
      if (!isFloat(to))
        storeInteger(to, out, value);
      else
        storeFloat(
            to, out,
            from == ElementType::kU64 ? static_cast<double>(static_cast<uint64_t>(value)) : static_cast<double>(value));
    }
  }
  return result;
}

}  // namespace hpu::compose
