// SPDX-License-Identifier: Apache-2.0
// Reads and writes elements of any type as one of three wide types: double, int64_t or uint64_t.
// The one thing to know: floats are widened exactly and rounded once, to nearest even, when stored;
// integers wrap when stored, floats stored as integers truncate towards zero and saturate (so do the
// 8-bit floats).
#pragma once

#include <cstdint>

#include "hpu/types.h"

namespace hpu::interp {

enum class Wide { kFloat, kSigned, kUnsigned };

/// The wide type that holds every value of `element`.
constexpr Wide wideKind(ElementType element) {
  switch (element) {
    case ElementType::kF32:
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kF64:
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      return Wide::kFloat;
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64:
      return Wide::kUnsigned;
    default:
      return Wide::kSigned;
  }
}

/// out[i] = the element at index begin + i * stride, for i < count. W is double, int64_t or uint64_t; a
/// float element read as an integer truncates towards zero.
template <typename W>
void loadElements(ElementType element, const uint8_t* data, int64_t begin, int64_t stride, int64_t count, W* out);
/// element[begin + i] = values[i] for i < count.
template <typename W>
void storeElements(ElementType element, uint8_t* data, int64_t begin, const W* values, int64_t count);

}  // namespace hpu::interp
