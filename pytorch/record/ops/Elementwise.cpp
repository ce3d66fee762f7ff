// SPDX-License-Identifier: Apache-2.0
// Two and more operands, element by element. The one thing to know: operands are read in the type that PyTorch promotes
// them to (floats: f32) and results are cast to the type that they have to have.
#include "compose/Functions.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isFloat;
using hpu::compose::truncated;

/// v * argument i, a number; v where that is 1 for ever.
Value scaled(Call& c, Value v, size_t i) {
  return c.isFixed(i, 1) ? v : c.mul(v, c.in(i, c.element(v)));
}

void addOrSub(Call& c) {  // self, other, alpha
  if (c.common() == ElementType::kBool) return c.out(0, c.op("or", {c.toBool(c.in(0)), c.toBool(c.in(1))}));
  const bool reversed = c.variant() == "rsub";
  Value a = c.wide(reversed ? 1 : 0), b = scaled(c, c.wide(reversed ? 0 : 1), 2);
  c.out(0, c.variant() == "add" ? c.add(a, b) : c.sub(a, b));
}

void mul(Call& c) {
  if (c.common() == ElementType::kBool) return c.out(0, c.op("and", {c.toBool(c.in(0)), c.toBool(c.in(1))}));
  c.out(0, c.mul(c.wide(0), c.wide(1)));
}

/// The remainder with the sign of the divisor.
Value remainderOf(Call& c, Value a, Value b) {
  Value r = c.op("mod", {a, b});
  if (!isFloat(c.element(a))) return r;  // hpu.mod of integers is it already; of floats it is fmod.
  Value zero = c.scalarLike(r, 0);
  Value differ = c.op("xor", {c.op("less", {r, zero}), c.op("less", {b, zero})});
  return c.where(c.op("and", {differ, c.op("not", {c.op("equal", {r, zero})})}), c.add(r, b), r);
}

/// Of integers: the quotient that is cut off, less 1 where something was cut off a negative one. Of floats as PyTorch's
/// CPU: the nearest integer of what is one but for rounding; a / b itself where b is 0. No sum leaves the type.
Value floorOf(Call& c, Value a, Value b) {
  Value zero = c.scalarLike(a, 0);
  auto less = [&](Value x) { return c.op("less", {x, zero}); };
  auto differ = [&](Value x, Value y) { return c.op("not", {c.op("equal", {x, y})}); };
  if (!isFloat(c.element(a))) {
    Value cut = c.div(a, b);
    Value isLess = c.op("and", {differ(c.mul(cut, b), a), c.op("xor", {less(a), less(b)})});
    return c.where(isLess, c.sub(cut, 1), cut);
  }
  Value rest = c.op("mod", {a, b});
  Value exact = c.div(c.sub(a, rest), b);
  exact = c.where(c.op("and", {differ(rest, zero), c.op("xor", {less(rest), less(b)})}), c.sub(exact, 1), exact);
  Value floor = c.op("floor", {exact});
  floor = c.where(c.op("greater", {c.sub(exact, floor), c.scalarLike(a, 0.5)}), c.add(floor, 1), floor);
  return c.where(c.op("equal", {b, zero}), c.div(a, b), floor);
}

/// In floats, also of integers.
void div(Call& c) {
  c.out(0, c.div(c.f32(0), c.f32(1)));
}

void divMode(Call& c) {  // self, other, rounding_mode
  if (!c.has(2)) return div(c);
  if (c.text(2) == "floor") return c.out(0, floorOf(c, c.wide(0), c.wide(1)));
  Value quotient = c.div(c.wide(0), c.wide(1));
  c.out(0, isFloat(c.element(quotient)) ? truncated(c, quotient) : quotient);
}

void floorDivide(Call& c) {
  c.out(0, floorOf(c, c.wide(0), c.wide(1)));
}

void remainder(Call& c) {
  c.out(0, remainderOf(c, c.wide(0), c.wide(1)));
}

void fmod(Call& c) {
  Value a = c.wide(0), b = c.wide(1);
  c.out(0, isFloat(c.element(a)) ? c.op("mod", {a, b}) : c.sub(a, c.mul(c.div(a, b), b)));
}

void power(Call& c) {  // self, exponent
  Value x = c.wide(0);
  if (!isFloat(c.common()) && c.common() != ElementType::kInvalid) {
    if (c.isFixed(1, 2)) return c.out(0, c.mul(x, x));
    if (c.common() == ElementType::kBool) return (void)c.unsupported("powers of bool");
    return c.out(0, hpu::compose::integerPower(c, x, c.wide(1)));
  }
  if (c.isFixed(1, 2)) return c.out(0, c.mul(x, x));
  if (c.isFixed(1, 1)) return c.out(0, x);
  if (c.isFixed(1, 3)) return c.out(0, c.mul(c.mul(x, x), x));
  if (c.isFixed(1, 0.5)) return c.out(0, c.op("sqrt", {x}));
  if (c.isFixed(1, -0.5)) return c.out(0, c.op("rsqrt", {x}));
  if (c.isFixed(1, -1)) return c.out(0, c.op("reciprocal", {x}));
  c.out(0, c.op("pow", {x, c.wide(1)}));
}

void binary(Call& c) {
  ElementType type = Call::computing(c.common());
  if (type == ElementType::kBool) type = ElementType::kU8;
  c.out(0, c.op(c.variant(), {c.in(0, type), c.in(1, type)}));
}

void compare(Call& c) {
  ElementType type = Call::computing(c.common());
  if (type == ElementType::kBool) type = ElementType::kU8;
  const bool isNot = c.variant() == "ne";
  Value result = c.op(isNot ? "equal" : c.variant(), {c.in(0, type), c.in(1, type)});
  c.out(0, isNot ? c.op("not", {result}) : result);
}

void logic(Call& c) {
  c.out(0, c.op(c.variant(), {c.toBool(c.in(0)), c.toBool(c.in(1))}));
}

void bits(Call& c) {
  if (c.common() == ElementType::kBool)
    return c.out(0, c.op(c.variant().substr(4), {c.in(0, ElementType::kBool), c.in(1, ElementType::kBool)}));
  c.out(0, c.op(c.variant(), {c.in(0, c.common()), c.in(1, c.common())}));
}

void clamp(Call& c) {  // self, min, max
  const ElementType type = Call::computing(c.outType(0));
  Value x = c.in(0, type == ElementType::kBool ? ElementType::kU8 : type);
  if (c.has(1)) x = c.max(x, c.in(1, c.element(x)));
  if (c.has(2)) x = c.min(x, c.in(2, c.element(x)));
  c.out(0, x);
}
void clampOne(Call& c) {
  const ElementType type = Call::computing(c.outType(0));
  Value x = c.in(0, type == ElementType::kBool ? ElementType::kU8 : type);
  c.out(0, c.op(c.variant(), {x, c.in(1, c.element(x))}));
}

void where(Call& c) {  // condition, self, other
  ElementType type = c.outType(0) == ElementType::kInvalid ? c.common() : c.outType(0);
  c.out(0, c.where(c.toBool(c.in(0)), c.in(1, type), c.in(2, type)));
}

void maskedFill(Call& c) {  // self, mask, value
  Value x = c.in(0);
  c.out(0, c.where(c.toBool(c.in(1)), c.in(2, c.element(x)), x));
}

void addcmul(Call& c) {  // self, tensor1, tensor2, value
  Value product = c.variant() == "mul" ? c.mul(c.wide(1), c.wide(2)) : c.div(c.wide(1), c.wide(2));
  c.out(0, c.add(c.wide(0), scaled(c, product, 3)));
}

void lerp(Call& c) {  // self, end, weight
  Value a = c.wide(0), b = c.wide(1), w = c.in(2, c.element(a)), difference = c.sub(b, a);
  // As PyTorch, from the nearer end.
  Value far = c.sub(b, c.mul(difference, c.sub(c.scalarLike(a, 1), w)));
  c.out(0, c.where(c.op("less", {c.op("abs", {w}), c.scalarLike(a, 0.5)}), c.add(a, c.mul(w, difference)), far));
}

void copy(Call& c) {  // self, dst
  c.out(0, c.in(0));
}

void fill(Call& c) {  // self, value
  const TensorMeta& meta = c.meta(0);
  c.out(0, c.expand(c.in(1, meta.type), meta.sizes));
}

void zero(Call& c) {
  const TensorMeta& meta = c.meta(0);
  c.out(0, c.full({meta.type, meta.sizes}, 0));
}

}  // namespace

const std::vector<Row>& elementwiseOps() {
  static const auto& rows = *new std::vector<Row>{
      {"add.out", addOrSub, "add"},
      {"sub.out", addOrSub, "sub"},
      {"rsub.Tensor", addOrSub, "rsub"},
      {"mul.out", mul},
      {"div.out", div},
      {"div.out_mode", divMode},
      {"floor_divide floor_divide.out floor_divide_.Tensor", floorDivide},
      {"remainder.Tensor_out remainder.Scalar_Tensor", remainder},
      {"fmod.Tensor_out", fmod},
      {"pow.Tensor_Tensor_out pow.Scalar_out", power},
      {"pow.Tensor_Scalar_out", power, {}, Row::kFixedNumbers},
      {"maximum.out", binary, "max"},
      {"minimum.out", binary, "min"},
      {"eq.Tensor_out eq.Scalar_out", compare, "equal"},
      {"ne.Tensor_out ne.Scalar_out", compare, "ne"},
      {"lt.Tensor_out lt.Scalar_out", compare, "less"},
      {"le.Tensor_out le.Scalar_out", compare, "less_equal"},
      {"gt.Tensor_out gt.Scalar_out", compare, "greater"},
      {"ge.Tensor_out ge.Scalar_out", compare, "greater_equal"},
      {"logical_and.out", logic, "and"},
      {"logical_or.out", logic, "or"},
      {"logical_xor.out", logic, "xor"},
      {"bitwise_and.Tensor_out", bits, "bit_and"},
      {"bitwise_or.Tensor_out", bits, "bit_or"},
      {"bitwise_xor.Tensor_out", bits, "bit_xor"},
      {"clamp.out clamp.Tensor_out", clamp},
      {"clamp_min.out clamp_min.Tensor_out", clampOne, "max"},
      {"clamp_max.out clamp_max.Tensor_out", clampOne, "min"},
      {"where.self where.self_out", where},
      {"masked_fill_.Scalar masked_fill_.Tensor", maskedFill},
      {"addcmul.out", addcmul, "mul"},
      {"addcdiv.out", addcmul, "div"},
      {"lerp.Scalar_out lerp.Tensor_out", lerp},
      {"_copy_from", copy},
      {"fill_.Scalar fill_.Tensor", fill},
      {"zero_", zero},
  };
  return rows;
}

}  // namespace hpu_torch
