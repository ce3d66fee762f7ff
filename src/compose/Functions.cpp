// SPDX-License-Identifier: Apache-2.0
#include "compose/Functions.h"

#include <cmath>
#include <limits>

namespace hpu::compose {
namespace {

Value fn(Emitter& c, std::string_view op, Value x) {
  return c.op(op, {x});
}

/// Where squares would overflow: log(x) + log(2).
constexpr double kLargeForSquares = 1e9;

}  // namespace

Value isLess(Emitter& c, Value x, double bound) {
  return c.op("less", {x, c.scalarLike(x, bound)});
}
Value isGreater(Emitter& c, Value x, double bound) {
  return c.op("greater", {x, c.scalarLike(x, bound)});
}
Value isEqual(Emitter& c, Value x, double number) {
  return c.op("equal", {x, c.scalarLike(x, number)});
}
Value orZero(Emitter& c, Value condition, Value x) {
  return c.where(condition, x, c.scalarLike(x, 0));
}

Value truncated(Emitter& c, Value x) {
  return c.where(isLess(c, x, 0), fn(c, "ceil", x), fn(c, "floor", x));
}
Value oneMinus(Emitter& c, Value x) {
  return c.sub(c.scalarLike(x, 1), x);
}
Value tangent(Emitter& c, Value x) {
  return c.div(fn(c, "sin", x), fn(c, "cos", x));
}
Value arcSine(Emitter& c, Value x) {
  return fn(c, "atan", c.div(x, fn(c, "sqrt", c.mul(oneMinus(c, x), c.add(x, 1)))));
}
Value arcCosine(Emitter& c, Value x) {
  return c.mul(fn(c, "atan", fn(c, "sqrt", c.div(oneMinus(c, x), c.add(x, 1)))), 2);
}
Value hyperbolicSine(Emitter& c, Value x) {
  return c.mul(c.sub(fn(c, "expm1", x), fn(c, "expm1", c.neg(x))), 0.5);
}
Value hyperbolicCosine(Emitter& c, Value x) {
  return c.mul(c.add(fn(c, "exp", x), fn(c, "exp", c.neg(x))), 0.5);
}
Value inverseHyperbolicSine(Emitter& c, Value x) {
  Value a = fn(c, "abs", x), square = c.mul(a, a);
  Value root = fn(c, "sqrt", c.add(square, 1));
  Value small = fn(c, "log1p", c.add(a, c.div(square, c.add(root, 1))));
  Value large = c.add(fn(c, "log", a), M_LN2);
  return c.mul(fn(c, "sign", x), c.where(isLess(c, a, kLargeForSquares), small, large));
}
Value inverseHyperbolicCosine(Emitter& c, Value x) {
  Value t = c.sub(x, 1), root = fn(c, "sqrt", c.mul(t, c.add(t, 2)));
  Value small = fn(c, "log1p", c.add(t, root)), large = c.add(fn(c, "log", x), M_LN2);
  return c.where(isGreater(c, x, kLargeForSquares), large, small);
}
Value inverseHyperbolicTangent(Emitter& c, Value x) {
  return c.mul(fn(c, "log1p", c.div(c.mul(x, 2), oneMinus(c, x))), 0.5);
}

Value signBit(Emitter& c, Value x) {
  if (!x.handle) return x;
  return isLess(c, c.op("bitcast", {x}, {{"to", std::string(elementTypeName(ElementType::kI32))}}), 0);
}

Value arcTangent2(Emitter& c, Value y, Value x) {
  // The angle's absolute value, from the smaller coordinate over the larger, so that no quotient overflows.
  Value ax = fn(c, "abs", x), ay = fn(c, "abs", y);
  Value isSteep = c.op("greater", {ay, ax}), large = c.max(ax, ay), small = c.min(ax, ay);
  Value isZero = isEqual(c, large, 0), isDiagonal = c.op("equal", {ax, ay});
  Value ratio = c.where(isDiagonal, c.scalarLike(x, 1), c.div(small, large));
  Value angle = fn(c, "atan", c.where(isZero, c.scalarLike(x, 0), ratio));
  angle = c.where(isSteep, c.sub(c.scalarLike(x, M_PI_2), angle), angle);
  angle = c.where(signBit(c, x), c.sub(c.scalarLike(x, M_PI), angle), angle);
  Value isNan = c.op("or", {fn(c, "is_nan", x), fn(c, "is_nan", y)});
  return c.where(isNan, c.add(x, y), c.where(signBit(c, y), c.neg(angle), angle));
}

Value nanToNumber(Emitter& c, Value x, double nan, double infinity, double minusInfinity) {
  Value y = c.where(fn(c, "is_nan", x), c.scalarLike(x, nan), x);
  y = c.where(isEqual(c, x, HUGE_VAL), c.scalarLike(x, infinity), y);
  return c.where(isEqual(c, x, -HUGE_VAL), c.scalarLike(x, minusInfinity), y);
}

Value polynomial(Emitter& c, Value x, const std::vector<double>& coefficients) {
  Value sum;
  for (size_t i = coefficients.size(); i-- > 0;)
    sum = sum.handle ? c.add(c.mul(sum, x), coefficients[i]) : c.scalarLike(x, coefficients[i]);
  return sum;
}

Value digamma(Emitter& c, Value x) {
  // psi(x) = psi(1 - x) - pi / tan(pi x) below 0; psi(x) = psi(x + 1) - 1 / x up to 10; a series from there.
  Value isBelow = isLess(c, x, 0), whole = truncated(c, x);
  Value reflected = c.div(c.scalarLike(x, M_PI), tangent(c, c.mul(c.sub(x, whole), M_PI)));
  Value y = c.where(isBelow, oneMinus(c, x), x), sum = c.neg(orZero(c, isBelow, reflected));
  for (int i = 0; i < 10; ++i) {
    Value isSmall = isLess(c, y, 10);
    sum = c.sub(sum, orZero(c, isSmall, c.div(c.scalarLike(y, 1), y)));
    y = c.where(isSmall, c.add(y, 1), y);
  }
  Value inverse = c.div(c.scalarLike(y, 1), y), z = c.mul(inverse, inverse);
  Value series = c.mul(z, polynomial(c, z, {1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132}));
  Value result = c.add(sum, c.sub(c.sub(fn(c, "log", y), c.mul(inverse, 0.5)), series));
  // Poles: infinite at 0, with the other sign; no number at negative integers.
  Value isPole = c.op("and", {isBelow, c.op("equal", {x, whole})});
  result = c.where(isPole, c.scalarLike(x, NAN), result);
  return c.where(isEqual(c, x, 0), c.div(c.scalarLike(x, -1), x), result);
}

Value trigamma(Emitter& c, Value x) {
  Value isLow = isLess(c, x, 0.5), sine = fn(c, "sin", c.mul(c.sub(x, truncated(c, x)), M_PI));
  Value sum = orZero(c, isLow, c.neg(c.div(c.scalarLike(x, M_PI * M_PI), c.mul(sine, sine))));
  Value y = c.where(isLow, oneMinus(c, x), x);
  for (int i = 0; i < 6; ++i) {
    sum = c.add(sum, c.div(c.scalarLike(y, 1), c.mul(y, y)));
    y = c.add(y, 1);
  }
  Value inverse = c.div(c.scalarLike(y, 1), y), z = c.mul(inverse, inverse);
  Value series = c.add(c.add(c.mul(inverse, 0.5), 1), c.mul(z, polynomial(c, z, {1. / 6, -1. / 30, 1. / 42})));
  sum = c.add(sum, c.mul(series, inverse));
  return c.where(isLow, c.neg(sum), sum);
}

Value besselI(Emitter& c, Value x, int order, bool isScaled) {
  // Abramowitz and Stegun, 9.8.1 to 9.8.4: relative errors below 2e-7.
  Value a = fn(c, "abs", x), t = c.mul(a, 1 / 3.75), square = c.mul(t, t);
  Value isSmall = isLess(c, a, 3.75), inverse = c.where(isSmall, c.scalarLike(x, 1), c.div(c.scalarLike(x, 3.75), a));
  Value small, large;
  if (order == 0) {
    small = polynomial(c, square, {1, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813});
    large = polynomial(c, inverse,
                       {0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537,
                        -0.01647633, 0.00392377});
  } else {
    small =
        c.mul(a, polynomial(c, square, {0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411}));
    large = polynomial(c, inverse,
                       {0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312,
                        0.01787654, -0.00420059});
  }
  large = c.div(large, fn(c, "sqrt", c.max(a, c.scalarLike(a, 1))));
  if (isScaled)
    small = c.mul(small, fn(c, "exp", c.neg(a)));
  else  // In two factors, as the first may overflow before the product does.
    large = c.mul(c.mul(large, fn(c, "exp", c.mul(a, 0.5))), fn(c, "exp", c.mul(a, 0.5)));
  Value result = c.where(isSmall, small, large);
  return order == 0 ? result : c.mul(fn(c, "sign", x), result);
}

Value integerPower(Emitter& c, Value base, Value exponent) {
  if (!base.handle || !exponent.handle) return {};
  const ElementType type = c.element(base);
  Value one = c.scalar(1, type), zero = c.scalar(0, type), minus = c.scalar(-1, type);
  Value result = one, power = base, rest = c.max(exponent, zero);
  const size_t bits = elementSize(type) * 8 - 1;
  for (size_t i = 0; i < bits; ++i) {
    Value isOdd = c.op("equal", {c.op("bit_and", {rest, one}), one});
    result = c.where(isOdd, c.mul(result, power), result);
    if (i + 1 == bits) break;
    power = c.mul(power, power);
    rest = c.op("shift_right", {rest, one});
  }
  if (type == ElementType::kU8) return result;
  Value isOdd = c.op("equal", {c.op("bit_and", {exponent, one}), one});
  Value unit = c.where(c.op("and", {c.op("equal", {base, minus}), isOdd}), minus, one);
  Value isUnit = c.op("or", {c.op("equal", {base, one}), c.op("equal", {base, minus})});
  return c.where(c.op("less", {exponent, zero}), c.where(isUnit, unit, zero), result);
}

}  // namespace hpu::compose
