// SPDX-License-Identifier: Apache-2.0
#include "tools/common/HostTensor.h"

#include <algorithm>
#include <cstring>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "numerics/ElementKinds.h"
#include "numerics/SmallFloat.h"

namespace hpu::tools {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 40;

template <typename T>
double load(const std::vector<uint8_t>& bytes, int64_t index) {
  T value;
  memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

std::vector<int64_t> HostTensor::integers() const {
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count(); ++i) {
    if (type.element == ElementType::kI64)
      elements.push_back(reinterpret_cast<const int64_t*>(bytes.data())[i]);
    else if (type.element == ElementType::kI32)
      elements.push_back(reinterpret_cast<const int32_t*>(bytes.data())[i]);
  }
  return elements;
}

double HostTensor::number(int64_t index) const {
  auto bits = [&] {
    uint16_t value;
    memcpy(&value, bytes.data() + index * 2, 2);
    return value;
  };
  switch (type.element) {
    case ElementType::kF32:
      return load<float>(bytes, index);
    case ElementType::kF64:
      return load<double>(bytes, index);
    case ElementType::kF16:
      return numerics::f16ToF32(bits());
    case ElementType::kBF16:
      return numerics::bf16ToF32(bits());
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      return numerics::fp8ToF32(numerics::fp8Format(type.element), bytes[index]);
    case ElementType::kI8:
      return load<int8_t>(bytes, index);
    case ElementType::kBool:
    case ElementType::kU8:
      return bytes[index];
    case ElementType::kI16:
      return load<int16_t>(bytes, index);
    case ElementType::kU16:
      return load<uint16_t>(bytes, index);
    case ElementType::kI32:
      return load<int32_t>(bytes, index);
    case ElementType::kU32:
      return load<uint32_t>(bytes, index);
    case ElementType::kI64:
      return load<int64_t>(bytes, index);
    case ElementType::kU64:
      return load<uint64_t>(bytes, index);
    case ElementType::kInvalid:
      break;
  }
  return 0;
}

StatusOr<int64_t> checkedBytes(const TensorType& type) {
  const int64_t size = elementSize(type.element);
  if (size == 0) return invalidArgument("the element type is unknown");
  // Of an empty tensor the other sizes are bounded whatever its type is: it stays one when it is written in another
  // type.
  const bool isEmpty = std::find(type.shape.begin(), type.shape.end(), 0) != type.shape.end();
  int64_t bytes = isEmpty ? 1 : size;
  for (int64_t dim : type.shape) {
    if (dim == kDynamic) return invalidArgument("the shape " + shapeToString(type.shape) + " has a free dimension");
    if (dim < 0) return invalidArgument("a dimension is negative: " + std::to_string(dim));
    if (dim != 0 && bytes > kMaxBytes / dim)
      return invalidArgument("a tensor of shape " + shapeToString(type.shape) + " is larger than 1 TiB");
    if (dim != 0) bytes *= dim;
  }
  return isEmpty ? 0 : bytes;
}

void settleBools(HostTensor& tensor) {
  if (tensor.type.element == ElementType::kBool)
    for (uint8_t& byte : tensor.bytes) byte = byte != 0;
}

StatusOr<HostTensor> makeTensor(const TensorType& type) {
  HPU_ASSIGN(int64_t bytes, checkedBytes(type));
  HostTensor tensor;
  tensor.type = type;
  tensor.bytes.resize(bytes);
  return tensor;
}

StatusOr<HostTensor> integerTensor(const TensorType& type, const std::vector<int64_t>& elements) {
  HPU_ASSIGN(HostTensor tensor, makeTensor(type));
  if (tensor.count() == static_cast<int64_t>(elements.size()))
    for (size_t i = 0; i < elements.size(); ++i) {
      if (type.element == ElementType::kI64)
        reinterpret_cast<int64_t*>(tensor.bytes.data())[i] = elements[i];
      else if (type.element == ElementType::kI32)
        reinterpret_cast<int32_t*>(tensor.bytes.data())[i] = static_cast<int32_t>(elements[i]);
    }
  if (tensor.integers() == elements) return tensor;
  return invalidArgument("the elements of a tensor of " + type.toString() + " cannot be the " +
                         std::to_string(elements.size()) + " numbers that were given");
}

HostTensor widened(HostTensor tensor) {
  ElementType element = tensor.type.element;
  if (!numerics::isFloat(element) || elementSize(element) >= 4) return tensor;
  HostTensor wide;
  wide.name = std::move(tensor.name);
  wide.type = {ElementType::kF32, tensor.type.shape};
  wide.bytes.resize(tensor.count() * sizeof(float));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    float value = static_cast<float>(tensor.number(i));
    memcpy(wide.bytes.data() + i * sizeof(float), &value, sizeof value);
  }
  return wide;
}

HostTensor narrowedTo(HostTensor tensor, ElementType element) {
  const bool narrows = element == ElementType::kBF16 || element == ElementType::kF16;
  if (tensor.type.element != ElementType::kF32 || !narrows) return tensor;
  HostTensor narrow;
  narrow.name = std::move(tensor.name);
  narrow.type = {element, tensor.type.shape};
  narrow.bytes.resize(static_cast<size_t>(tensor.count()) * sizeof(uint16_t));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const auto value = static_cast<float>(tensor.number(i));
    const uint16_t bits = element == ElementType::kBF16 ? numerics::f32ToBf16(value) : numerics::f32ToF16(value);
    memcpy(narrow.bytes.data() + static_cast<size_t>(i) * sizeof bits, &bits, sizeof bits);
  }
  return narrow;
}

StatusOr<Shape> parseShape(std::string_view text) {
  Shape shape;
  if (text.empty() || text == "scalar") return shape;
  size_t begin = 0;
  while (true) {
    size_t end = text.find_first_of("x,", begin);
    StatusOr<int64_t> dim = base::parseInt(text.substr(begin, end == text.npos ? end : end - begin));
    if (!dim.ok() || *dim < 0) return invalidArgument("'" + std::string(text) + "' is not a shape such as 1x3x224x224");
    shape.push_back(*dim);
    if (end == text.npos) return shape;
    begin = end + 1;
  }
}

}  // namespace hpu::tools
