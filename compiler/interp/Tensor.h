// SPDX-License-Identifier: Apache-2.0
// Tensor: a host tensor of the reference interpreter, dense and row-major in its logical shape.
// The one thing to know: copies share the elements; only writable() of a tensor that nobody else holds
// may change them.
//
//   Tensor t = Tensor::zeros({ElementType::kF32, {2, 3}});
//   reinterpret_cast<float*>(t.writable())[5] = 1;
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "hpu/types.h"

namespace hpu::interp {

/// Elements are as hpu::ElementType says: a bool is one byte, f16/bf16/f8 are their bit patterns.
class Tensor {
 public:
  Tensor() = default;
  /// A new tensor of zeros. The type must have passed checkSize().
  static Tensor zeros(const TensorType& type);
  /// Points at memory of somebody else, kept alive by `owner` (which may be null: the caller's care).
  static Tensor borrow(const TensorType& type, const void* data, std::shared_ptr<const void> owner = nullptr);
  /// A copy of `type.bytes()` bytes.
  static Tensor copyOf(const TensorType& type, const void* data);
  /// From values of the element type's C++ type (float for kF32, int64_t for kI64, uint8_t for kBool).
  template <typename T>
  static Tensor of(ElementType element, const Shape& shape, const std::vector<T>& values) {
    return copyOf({element, shape}, values.data());
  }

  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  ElementType element() const { return type_.element; }
  int64_t rank() const { return static_cast<int64_t>(type_.shape.size()); }
  int64_t count() const { return numElements(type_.shape); }
  int64_t bytes() const { return type_.bytes(); }
  const uint8_t* data() const { return data_.get(); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }
  /// Only for a tensor from zeros() or copyOf() before it is shared.
  uint8_t* writable() { return const_cast<uint8_t*>(data_.get()); }

  /// The same elements with another type of equally many bytes.
  Tensor retyped(const TensorType& type) const;

  /// One element as a number; slow, for tests and shape arithmetic.
  double number(int64_t index) const;
  /// One element of an integer or bool tensor.
  int64_t integer(int64_t index) const;

 private:
  TensorType type_;
  std::shared_ptr<const uint8_t> data_;
};

/// Errors: kInvalidArgument for a free or negative dimension, kResourceExhausted beyond kMaxTensorBytes.
Status checkSize(const TensorType& type);
/// The largest tensor that the interpreter makes: 64 GiB.
inline constexpr int64_t kMaxTensorBytes = int64_t{64} << 30;

/// Row-major strides in elements.
std::vector<int64_t> rowMajorStrides(const Shape& shape);
/// Strides that walk `shape` while the output has shape `out` (NumPy broadcasting): 0 where it repeats.
std::vector<int64_t> broadcastStrides(const Shape& shape, const Shape& out);

}  // namespace hpu::interp
