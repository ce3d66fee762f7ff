// SPDX-License-Identifier: Apache-2.0
#include "compiler/interp/Tensor.h"

#include <algorithm>
#include <cstdlib>

#include "base/Format.h"
#include "compiler/interp/Elements.h"

namespace hpu::interp {

Tensor Tensor::zeros(const TensorType& type) {
  Tensor tensor;
  tensor.type_ = type;
  // calloc: pages of large tensors come zeroed from the system.
  size_t bytes = std::max<size_t>(type.bytes(), 1);
  void* memory = std::calloc(1, bytes);
  if (!memory) std::abort();  // Out of host memory: checkSize bounds what is asked for.
  tensor.data_ = std::shared_ptr<const uint8_t>(static_cast<const uint8_t*>(memory),
                                                [](const uint8_t* p) { std::free(const_cast<uint8_t*>(p)); });
  return tensor;
}

Tensor Tensor::borrow(const TensorType& type, const void* data, std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.type_ = type;
  tensor.data_ = std::shared_ptr<const uint8_t>(std::move(owner), static_cast<const uint8_t*>(data));
  return tensor;
}

Tensor Tensor::copyOf(const TensorType& type, const void* data) {
  Tensor tensor = zeros(type);
  if (type.bytes() > 0) std::memcpy(tensor.writable(), data, type.bytes());
  return tensor;
}

Tensor Tensor::retyped(const TensorType& type) const {
  Tensor tensor = *this;
  tensor.type_ = type;
  return tensor;
}

double Tensor::number(int64_t index) const {
  double value = 0;
  loadElements(element(), data(), index, 1, 1, &value);
  return value;
}

int64_t Tensor::integer(int64_t index) const {
  int64_t value = 0;
  loadElements(element(), data(), index, 1, 1, &value);
  return value;
}

Status checkSize(const TensorType& type) {
  int64_t bytes = elementSize(type.element);
  if (bytes == 0) return invalidArgument("a tensor needs an element type");
  bool empty = false;
  for (int64_t dim : type.shape) {
    if (dim < 0) return invalidArgument("a tensor of type " + type.toString() + " has no definite size");
    empty |= dim == 0;
  }
  if (empty) return okStatus();
  for (int64_t dim : type.shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kMaxTensorBytes)
      return resourceExhausted("a tensor of type " + type.toString() + " is larger than " +
                               base::formatBytes(kMaxTensorBytes));
  return okStatus();
}

std::vector<int64_t> rowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::vector<int64_t> broadcastStrides(const Shape& shape, const Shape& out) {
  std::vector<int64_t> own = rowMajorStrides(shape), strides(out.size(), 0);
  size_t lead = out.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) strides[lead + i] = shape[i] == 1 ? 0 : own[i];
  return strides;
}

}  // namespace hpu::interp
