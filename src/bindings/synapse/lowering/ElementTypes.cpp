// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/ElementTypes.h"

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

}  // namespace hpu::synapse
