// SPDX-License-Identifier: Apache-2.0
// What kind of number an element type is.
// The one thing to know: bool and kInvalid are neither floats nor integers.
#pragma once

#include "hpu/types.h"
#include "numerics/SmallFloat.h"

namespace hpu::numerics {

constexpr bool isFloat(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16 ||
         type == ElementType::kF64 || isFp8(type);
}
constexpr bool isInteger(ElementType type) {
  return type != ElementType::kInvalid && type != ElementType::kBool && !isFloat(type);
}

}  // namespace hpu::numerics
