// SPDX-License-Identifier: Apache-2.0
// Conversions of whole arrays, vectorised for the CPU that runs them; bit-equal to SmallFloat.h.
// The one thing to know: no alignment is needed, and source and destination must not overlap.
//
//   hpu::numerics::bf16ToF32(weights, panel, count);
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/SmallFloat.h"

namespace hpu::numerics {

/// Any thread may call these; they allocate nothing. `count` is in elements.
void bf16ToF32(const uint16_t* src, float* dst, size_t count);
void f32ToBf16(const float* src, uint16_t* dst, size_t count);
void f16ToF32(const uint16_t* src, float* dst, size_t count);
void f32ToF16(const float* src, uint16_t* dst, size_t count);
void fp8ToF32(Fp8Format format, const uint8_t* src, float* dst, size_t count);
void f32ToFp8(Fp8Format format, const float* src, uint8_t* dst, size_t count, Overflow overflow);

}  // namespace hpu::numerics
