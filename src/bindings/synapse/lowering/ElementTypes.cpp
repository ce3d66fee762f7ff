// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/ElementTypes.h"

#include <bit>
#include <cstring>

#include "base/Format.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "numerics/SmallFloat.h"

namespace hpu::synapse {

using base::strCat;

namespace {

/// E4M3 has the target's range.
ElementType ofTarget(ElementType type, Target target) {
  return type == ElementType::kF8E4M3Ieee || type == ElementType::kF8E4M3
             ? numerics::elementTypeOf(numerics::e4m3Format(target))
             : type;
}

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

StatusOr<ElementType> elementTypeOf(uint32_t synDataType, Target target) {
  const DataTypeInfo* info = findDataType(synDataType);
  if (!info)
    return invalidArgument(synDataType == 0 ? std::string("no element type is set")
                                            : strCat("there is no element type ", synDataType));
  if (info->element != ElementType::kInvalid) return ofTarget(info->element, target);
  return unimplemented(strCat("element type ", info->name, " is not supported"));
}

uint32_t synDataTypeOf(ElementType type) {
  if (type == ElementType::kBool) type = ElementType::kI8;
  if (type == ElementType::kF8E4M3Ieee) type = ElementType::kF8E4M3;
  for (uint32_t bit = 1; bit != 0 && type != ElementType::kInvalid; bit <<= 1) {
    const DataTypeInfo* info = findDataType(bit);
    if (info && (info->element == type || (type == ElementType::kF8E4M3 && info->element == ElementType::kF8E4M3Ieee)))
      return bit;
  }
  return 0;
}

StatusOr<Shape> shapeOf(const std::vector<uint64_t>& sizes) {
  Shape shape(sizes.size());
  int64_t elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    bool fits = sizes[i] <= static_cast<uint64_t>(INT32_MAX) * 1024;
    // 64 bytes an element leave room for every product of a size and an offset.
    if (!fits || (sizes[i] && __builtin_mul_overflow(elements, static_cast<int64_t>(sizes[i]), &elements)) ||
        elements > INT64_MAX / 64)
      return invalidArgument(strCat("the sizes ", sizesText(sizes), " are too large"));
    shape[sizes.size() - 1 - i] = static_cast<int64_t>(sizes[i]);
  }
  return shape;
}

std::vector<uint64_t> sizesOf(const Shape& shape) {
  return {shape.rbegin(), shape.rend()};
}

std::string sizesText(const std::vector<uint64_t>& sizes) {
  std::string text = "{";
  for (size_t i = 0; i < sizes.size(); ++i) text += strCat(i ? ", " : "", sizes[i]);
  return text + "}";
}
std::string sizesText(const Shape& shape) {
  return sizesText(sizesOf(shape));
}

namespace {

bool isWordCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Whether the word is the name of an element type, ours or MLIR's: "bf16", "ui8", "f8E4M3FN".
bool isElementType(std::string_view word) {
  if (word == "bool") return true;
  size_t digit = word.find_first_of("0123456789");
  std::string_view kind = word.substr(0, digit);
  return digit != word.npos &&
         (kind == "f" || kind == "bf" || kind == "i" || kind == "u" || kind == "ui" || kind == "si");
}

/// "{3, 2} f32" of a word such as "2x3xf32"; empty when it is none.
std::string typeInUsersOrder(std::string_view word) {
  std::string sizes;
  while (true) {
    size_t x = word.find('x');
    if (x == 0 || x == word.npos || word.substr(0, x).find_first_not_of("0123456789?") != word.npos) break;
    sizes = strCat(word.substr(0, x), sizes.empty() ? "" : ", ", sizes);
    word.remove_prefix(x + 1);
  }
  return !sizes.empty() && isElementType(word) ? strCat("{", sizes, "} ", word) : std::string();
}

}  // namespace

std::string inUsersOrder(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    size_t end = 0;
    while (end < text.size() && (isWordCharacter(text[end]) || text[end] == '?')) ++end;
    std::string_view word = text.substr(0, end);
    std::string type = typeInUsersOrder(word);
    constexpr std::string_view kBefore = "tensor<";
    if (!type.empty() && result.ends_with(kBefore) && text.substr(end).starts_with('>')) {
      result.resize(result.size() - kBefore.size());
      ++end;
    }
    result += type.empty() ? word : std::string_view(type);
    if (end < text.size()) result += text[end++];
    text.remove_prefix(end);
  }
  return result;
}

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

}  // namespace hpu::synapse
