// SPDX-License-Identifier: Apache-2.0
// Numbers that integers stand for: (integer - zero point) * scale.
// The one thing to know: scales and zero points are one number, or one for each column (the last dim); a null zero
// point is 0. Products of 8-bit integers are exact while their sums stay below 2^24.
#pragma once

#include "compose/Emitter.h"

namespace hpu::compose {

/// f32.
Value dequantized(Emitter& c, Value x, Value scale, Value zero);
/// Rounded to the nearest step, halves to even, and clipped to `type`, of 8 or 16 bits.
Value quantized(Emitter& c, Value x, Value scale, Value zero, ElementType type);
/// a [.., K] times b [K, N] less their zero points, times both scales; f32.
Value quantizedProduct(Emitter& c, Value a, Value aScale, Value aZero, Value b, Value bScale, Value bZero);
/// Eight unsigned bits with a scale of the operand's range, which 0 is in.
struct DynamicallyQuantized {
  Value integers, scale, zero;  ///< u8; f32 and u8 of rank 0.
};
DynamicallyQuantized quantizedDynamically(Emitter& c, Value x);

}  // namespace hpu::compose
