// SPDX-License-Identifier: Apache-2.0
#include "compose/Quantized.h"

#include <utility>

namespace hpu::compose {
namespace {

/// A scale or zero point as f32 that broadcasts along the last dim.
Value parameter(Emitter& c, Value v) {
  if (!v.handle) return v;
  return numElements(c.shape(v)) == 1 ? c.reshape(c.toF32(v), {}) : c.toF32(v);
}
Value centred(Emitter& c, Value x, Value zero) {
  Value real = c.toF32(x);
  return zero.handle ? c.sub(real, parameter(c, zero)) : real;
}
std::pair<double, double> limitsOf(ElementType type) {
  switch (type) {
    case ElementType::kI8:
      return {-128, 127};
    case ElementType::kI16:
      return {-32768, 32767};
    case ElementType::kU16:
      return {0, 65535};
    default:
      return {0, 255};
  }
}

}  // namespace

Value dequantized(Emitter& c, Value x, Value scale, Value zero) {
  return c.mul(centred(c, x, zero), parameter(c, scale));
}

Value quantized(Emitter& c, Value x, Value scale, Value zero, ElementType type) {
  Value steps = c.op("round", {c.div(x, parameter(c, scale))});
  if (zero.handle) steps = c.add(steps, parameter(c, zero));
  const auto [low, high] = limitsOf(type);
  return c.cast(c.op("clip", {steps}, {{"min", low}, {"max", high}}), type);
}

Value quantizedProduct(Emitter& c, Value a, Value aScale, Value aZero, Value b, Value bScale, Value bZero) {
  Value sums = c.op("matmul", {centred(c, a, aZero), centred(c, b, bZero)}, {{"exact", int64_t{1}}});
  return c.mul(sums, c.mul(parameter(c, aScale), parameter(c, bScale)));
}

DynamicallyQuantized quantizedDynamically(Emitter& c, Value x) {
  std::vector<int64_t> all;
  for (int64_t d = 0; d < c.rank(x); ++d) all.push_back(d);
  Value none = c.scalarLike(x, 0);
  Value high = c.max(c.reduceMax(x, all, false), none), low = c.min(c.reduce("reduce_min", x, all, false), none);
  DynamicallyQuantized result;
  Value step = c.div(c.sub(high, low), 255);
  result.scale = c.where(c.op("equal", {step, none}), c.scalarLike(step, 1), step);
  result.zero = quantized(c, c.neg(low), result.scale, {}, ElementType::kU8);
  result.integers = quantized(c, x, result.scale, result.zero, ElementType::kU8);
  return result;
}

}  // namespace hpu::compose
