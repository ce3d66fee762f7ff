// SPDX-License-Identifier: Apache-2.0
// 8-bit floats. PyTorch 1.13 has no type for them: codes of E5M2 are in int8 tensors, codes of E4M3 in uint8 ones.
// The one thing to know: E4M3 has the target's range (Gaudi 2: largest 240, Gaudi 3: 448), conversions saturate, and a
// product of codes is what the MME makes of them, in bf16.
#include <algorithm>
#include <cmath>

#include "pytorch/record/Call.h"
#include "pytorch/record/TargetScope.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

/// The format of codes in a storage type; kInvalid for another type.
ElementType formatOf(ElementType storage) {
  if (storage == ElementType::kI8) return ElementType::kF8E5M2;
  if (storage == ElementType::kU8)  // As numerics::e4m3Format.
    return TargetScope::current() == hpu::Target::kGaudi2 ? ElementType::kF8E4M3Ieee : ElementType::kF8E4M3;
  return ElementType::kInvalid;
}

Value bits(Call& c, Value v, ElementType to) {
  return c.op("bitcast", {v}, {{"to", std::string(hpu::elementTypeName(to))}});
}

/// Argument i, codes, as numbers of their format.
Value codes(Call& c, size_t i) {
  const ElementType format = formatOf(c.meta(i).type);
  if (format == ElementType::kInvalid)
    return c.unsupported("codes of fp8 are int8 (E5M2) or uint8 (E4M3) tensors, not " +
                         std::string(hpu::elementTypeName(c.meta(i).type)));
  return bits(c, c.in(i), format);
}

ElementType typeArgument(Call& c, size_t i, ElementType otherwise) {
  return c.has(i) ? c.signature().arguments[i].type : otherwise;
}

/// A scale: one number, or one for each element of a dim, which `shape` says where the argument is there.
Value scaleArgument(Call& c, size_t i, size_t shape) {
  Value scale = c.f32(i);
  if (c.has(shape) && !c.ints(shape).empty()) return c.reshape(scale, c.ints(shape));
  return c.ok() && hpu::numElements(c.shape(scale)) == 1 ? c.reshape(scale, {}) : scale;
}

/// input, scale, stochastic_rounding, is_amax, dtype, scale_shape -> codes of input * scale, the largest magnitude
void castToFp8(Call& c) {
  if (c.has(2) && c.flag(2)) return (void)c.unsupported("stochastic rounding; there is to nearest even");
  const ElementType storage = typeArgument(c, 4, ElementType::kI8), format = formatOf(storage);
  if (format == ElementType::kInvalid)
    return (void)c.unsupported("the dtype of fp8 codes is int8 (E5M2) or uint8 (E4M3)");
  Value x = c.f32(0), scaled = x;
  if (c.has(1)) scaled = c.mul(x, scaleArgument(c, 1, 5));
  c.out(0, bits(c, c.cast(scaled, format), storage));
  if (!c.ok()) return;
  if (!c.flag(3)) return c.out(1, c.constant({ElementType::kF32, {0}}, "", 0));
  if (hpu::numElements(c.shape(x)) == 0) return c.out(1, c.full({ElementType::kF32, {}}, 0));
  Value largest = c.op("abs", {x});
  Ints all = c.dimensions(99, c.rank(x));
  c.out(1, all.empty() ? largest : c.reduceMax(largest, all, false));
}

/// input, scale, out_dtype, scale_shape -> numbers of the codes, times the scale
void castFromFp8(Call& c) {
  Value y = c.toF32(codes(c, 0));
  if (c.has(1)) y = c.mul(y, scaleArgument(c, 1, 3));
  c.out(0, y, typeArgument(c, 2, ElementType::kBF16));
}

Value transposed(Call& c, Value v, bool isAsked) {
  if (!isAsked || !c.ok()) return v;
  Ints perm;
  for (int64_t d = 0; d < c.rank(v); ++d) perm.push_back(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return c.transpose(v, perm);
}

/// y times a scale: one number, or one for each row (of A) or column (of B).
Value rescaled(Call& c, Value y, size_t i, size_t shape, bool isOfRows) {
  if (!c.has(i)) return y;
  Value scale = scaleArgument(c, i, shape);
  if (!c.ok()) return y;
  const int64_t count = hpu::numElements(c.shape(scale));
  if (c.rank(scale) <= 1 && count > 1) {
    if (count != c.dim(y, isOfRows ? -2 : -1))
      return c.unsupported(std::string("a scale of ") + (isOfRows ? "A" : "B") + " has one element, or one for each " +
                           (isOfRows ? "row" : "column") + " of the result");
    scale = c.reshape(scale, isOfRows ? Shape{count, 1} : Shape{1, count});
  }
  return c.mul(y, scale);
}

/// A, trans_A, B, trans_B, D, out_dtype, A_scale_inv, B_scale_inv, bias, accumulate, B_scale_shape
void fp8Gemm(Call& c) {
  Value a = codes(c, 0), b = codes(c, 2);
  if (!c.ok()) return;
  if (c.rank(a) < 2 || c.rank(b) < 2) return (void)c.unsupported("operands of less than two dims");
  if (c.element(a) != c.element(b)) {
    // Codes of two formats: the MME multiplies one; in bf16 both are exact.
    a = c.cast(a, ElementType::kBF16);
    b = c.cast(b, ElementType::kBF16);
  }
  a = transposed(c, a, c.flag(1));
  b = transposed(c, b, c.flag(3));
  Value y;
  if (c.ok() && c.dim(a, -1) == 0) {
    Shape shape = c.shape(a);
    shape.back() = c.dim(b, -1);
    y = c.full({ElementType::kF32, shape}, 0);
  } else {
    y = c.toF32(c.matmul(a, b));
  }
  y = rescaled(c, y, 6, 99, true);
  y = rescaled(c, y, 7, 10, false);
  if (c.has(8)) y = c.add(y, c.f32(8));
  if (c.flag(9) && c.has(4)) y = c.add(y, c.f32(4));
  c.out(0, y, typeArgument(c, 5, ElementType::kBF16));
}

/// amax, scale, largest, margin -> the power of two with which amax comes to at most largest / 2^margin, and its
/// inverse; `scale` where amax is 0 or not finite.
void fp8Scale(Call& c) {
  Value amax = c.f32(0), old = c.f32(1);
  Value ratio = c.op("clip", {c.div(c.in(2, ElementType::kF32), amax)}, {{"min", 0x1p-100}, {"max", 0x1p100}});
  const int32_t exponent = 0x7f800000;
  Value mask = c.constant({ElementType::kI32, {}}, &exponent, sizeof exponent);
  Value power = bits(c, c.op("bit_and", {bits(c, ratio, ElementType::kI32), mask}), ElementType::kF32);
  power = c.mul(power, std::ldexp(1., -static_cast<int>(std::clamp<int64_t>(c.integer(3), -20, 20))));
  Value zero = c.mul(amax, 0.);  // NaN where amax is not finite.
  Value isUsable = c.op("and", {c.op("greater", {amax, c.scalarLike(amax, 0)}), c.op("equal", {zero, zero})});
  Value scale = c.where(isUsable, power, old);
  c.out(0, scale);
  c.out(1, c.div(c.scalarLike(scale, 1), scale));
}

}  // namespace

const std::vector<Row>& fp8Ops() {
  static const auto& rows = *new std::vector<Row>{
      {"hpu::cast_to_fp8_v2 hpu::cast_to_fp8_v2.scalar", castToFp8},
      {"hpu::cast_from_fp8 hpu::cast_from_fp8.scalar", castFromFp8},
      {"hpu::fp8_gemm_v2 hpu::fp8_gemm_v2.scalar", fp8Gemm},
      {"hpu::fp8_scale", fp8Scale},
  };
  return rows;
}

}  // namespace hpu_torch
