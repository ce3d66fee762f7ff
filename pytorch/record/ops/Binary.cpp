// SPDX-License-Identifier: Apache-2.0
// Functions of two operands, element by element, that are formulas of several ops; f32, integers where PyTorch has
// them.
#include <cmath>

#include "compose/Functions.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isEqual;
using hpu::compose::isFloat;
using hpu::compose::isGreater;
using hpu::compose::isLess;

void atan2(Call& c) {
  c.out(0, hpu::compose::arcTangent2(c, c.f32(0), c.f32(1)));
}

/// sqrt(a^2 + b^2), scaled by the larger, so that no square overflows.
void hypot(Call& c) {
  Value a = c.op("abs", {c.f32(0)}), b = c.op("abs", {c.f32(1)});
  Value large = c.max(a, b), ratio = c.div(c.min(a, b), large);
  Value isPlain = c.op("and", {isGreater(c, large, 0), isLess(c, large, HUGE_VAL)});
  Value length = c.where(isPlain, c.mul(large, c.op("sqrt", {c.add(c.mul(ratio, ratio), 1)})), large);
  // Infinite when one is, also with NaN.
  Value isInfinite = c.op("or", {isEqual(c, a, HUGE_VAL), isEqual(c, b, HUGE_VAL)});
  c.out(0, c.where(isInfinite, c.scalarLike(a, HUGE_VAL), length));
}

void copySign(Call& c) {
  Value a = c.op("abs", {c.f32(0)}), b = c.f32(1);
  c.out(0, c.where(hpu::compose::signBit(c, b), c.neg(a), a));
}

/// The next number of the type from a in the direction of b.
void nextAfter(Call& c) {
  if (c.common() != ElementType::kF32) return (void)c.unsupported("neighbours of numbers that are not float32");
  const std::string i32(hpu::elementTypeName(ElementType::kI32)), f32(hpu::elementTypeName(ElementType::kF32));
  Value a = c.f32(0), b = c.f32(1), bits = c.op("bitcast", {a}, {{"to", i32}});
  // Numbers of one sign are in the order of their bits.
  Value grows = c.op("xor", {c.op("less", {a, b}), isLess(c, a, 0)});
  Value next = c.op("bitcast", {c.where(grows, c.add(bits, 1.0), c.sub(bits, 1.0))}, {{"to", f32}});
  Value least = c.scalarLike(a, 1.401298464324817e-45);
  next = c.where(isEqual(c, a, 0), c.where(isLess(c, b, 0), c.neg(least), least), next);
  next = c.where(c.op("equal", {a, b}), b, next);
  Value isNan = c.op("or", {c.op("is_nan", {a}), c.op("is_nan", {b})});
  c.out(0, c.where(isNan, c.add(a, b), next));
}

/// The larger (smaller) of both, and the other one where one is NaN.
void extremeOfNumbers(Call& c) {
  ElementType type = Call::computing(c.common());
  if (type == ElementType::kBool) type = ElementType::kU8;
  Value a = c.in(0, type), b = c.in(1, type), result = c.op(c.variant(), {a, b});
  if (isFloat(type)) result = c.where(c.op("is_nan", {a}), b, c.where(c.op("is_nan", {b}), a, result));
  c.out(0, result);
}

/// log(exp(a) + exp(b)), or to base 2.
void logAddExp(Call& c) {
  Value a = c.f32(0), b = c.f32(1), large = c.max(a, b), distance = c.neg(c.op("abs", {c.sub(a, b)}));
  const bool isBase2 = c.variant() == "2";
  Value rest = c.op("log1p", {c.op("exp", {isBase2 ? c.mul(distance, M_LN2) : distance})});
  if (isBase2) rest = c.mul(rest, M_LOG2E);
  // Of two equal infinities the distance is no number.
  Value isSame = c.op("and", {c.op("equal", {a, b}), isEqual(c, c.op("abs", {a}), HUGE_VAL)});
  c.out(0, c.where(isSame, a, c.add(large, rest)));
}

/// a * log(b), or a * log(1 + b): 0 where a is, unless b is NaN.
void timesLog(Call& c) {
  Value a = c.f32(0), b = c.f32(1), product = c.mul(a, c.op(c.variant(), {b}));
  product = c.where(isEqual(c, a, 0), c.scalarLike(a, 0), product);
  c.out(0, c.where(c.op("is_nan", {b}), b, product));
}

void heaviside(Call& c) {  // self, values
  if (c.common() == ElementType::kBool) return c.out(0, c.op("or", {c.in(0), c.in(1)}));
  Value x = c.wide(0), step = c.where(isLess(c, x, 0), c.scalarLike(x, 0), c.scalarLike(x, 1));
  c.out(0, c.where(isEqual(c, x, 0), c.wide(1), step));
}

void shift(Call& c) {
  if (isFloat(c.common()) || c.common() == ElementType::kBool)
    return (void)c.unsupported("shifts of what is no integer");
  c.out(0, c.op(c.variant(), {c.in(0, c.common()), c.in(1, c.common())}), c.common());
}

/// Euclid's algorithm, as many steps as the largest numbers of the type can need.
Value greatestDivisor(Call& c, Value a, Value b) {
  if (!a.handle || !b.handle) return {};
  const size_t steps = hpu::elementSize(c.element(a)) == 8 ? 91 : hpu::elementSize(c.element(a)) * 11 + 3;
  Value one = c.scalarLike(a, 1);
  for (size_t i = 0; i < steps; ++i) {
    Value isDone = isEqual(c, b, 0), rest = c.op("mod", {a, c.where(isDone, one, b)});
    a = c.where(isDone, a, b);
    b = c.where(isDone, b, rest);
  }
  return a;
}
void commonDivisor(Call& c) {
  if (c.common() == ElementType::kBool || isFloat(c.common())) return (void)c.unsupported("what is no integer");
  const bool isSigned = c.common() != ElementType::kU8;
  Value a = c.wide(0), b = c.wide(1);
  if (isSigned) a = c.op("abs", {a}), b = c.op("abs", {b});
  Value divisor = greatestDivisor(c, a, b);
  if (c.variant() == "gcd") return c.out(0, divisor);
  Value isZero = isEqual(c, divisor, 0), one = c.scalarLike(a, 1);
  Value multiple = c.mul(c.div(a, c.where(isZero, one, divisor)), b);
  c.out(0, c.where(isZero, c.scalarLike(a, 0), multiple));
}

}  // namespace

const std::vector<Row>& binaryOps() {
  static const auto& rows = *new std::vector<Row>{
      {"atan2.out", atan2},
      {"hypot.out", hypot},
      {"copysign.out", copySign},
      {"nextafter.out", nextAfter},
      {"fmax.out", extremeOfNumbers, "max"},
      {"fmin.out", extremeOfNumbers, "min"},
      {"logaddexp.out", logAddExp},
      {"logaddexp2.out", logAddExp, "2"},
      {"xlogy.OutTensor", timesLog, "log"},
      {"special_xlog1py.out", timesLog, "log1p"},
      {"heaviside.out", heaviside},
      {"bitwise_left_shift.Tensor_out", shift, "shift_left"},
      {"bitwise_right_shift.Tensor_out", shift, "shift_right"},
      {"__lshift__.Tensor __lshift__.Scalar", shift, "shift_left", Row::kOwnShapes},
      {"__rshift__.Tensor __rshift__.Scalar", shift, "shift_right", Row::kOwnShapes},
      {"__ilshift__.Tensor __ilshift__.Scalar", shift, "shift_left"},
      {"__irshift__.Tensor __irshift__.Scalar", shift, "shift_right"},
      {"gcd.out", commonDivisor, "gcd"},
      {"lcm.out", commonDivisor, "lcm"},
  };
  return rows;
}

}  // namespace hpu_torch
