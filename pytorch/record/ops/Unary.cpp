// SPDX-License-Identifier: Apache-2.0
// One operand, element by element.
#include <cmath>
#include <limits>

#include "compose/Functions.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isFloat;

/// Functions of floats: integers are converted first.
void floats(Call& c) {
  c.out(0, c.op(c.variant(), {c.f32(0)}));
}

/// Functions that keep integers.
void same(Call& c) {
  Value x = c.wide(0);
  const bool isRounding = c.variant() == "floor" || c.variant() == "ceil" || c.variant() == "round";
  c.out(0, isRounding && !isFloat(c.element(x)) ? x : c.op(c.variant(), {x}));
}

/// A function of src/compose.
template <Value (*function)(hpu::compose::Emitter&, Value)>
void composed(Call& c) {
  c.out(0, function(c, c.f32(0)));
}

void trunc(Call& c) {
  Value x = c.wide(0);
  c.out(0, isFloat(c.element(x)) ? hpu::compose::truncated(c, x) : x);
}
void fraction(Call& c) {
  Value x = c.f32(0);
  c.out(0, c.sub(x, hpu::compose::truncated(c, x)));
}

void roundDecimals(Call& c) {  // self, decimals
  const int64_t decimals = c.integer(1);
  Value x = c.wide(0);
  if (!isFloat(c.element(x))) return c.out(0, x);
  if (std::abs(decimals) > 37) return (void)c.unsupported("so many decimals");
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  if (decimals >= 0) return c.out(0, c.div(c.op("round", {c.mul(x, scale)}), scale));
  c.out(0, c.mul(c.op("round", {c.div(x, scale)}), scale));
}

void scaledLog(Call& c) {
  c.out(0, c.mul(c.op("log", {c.f32(0)}), c.variant() == "2" ? 1 / std::log(2.) : 1 / std::log(10.)));
}
void exp2(Call& c) {
  c.out(0, c.op("exp", {c.mul(c.f32(0), std::log(2.))}));
}
void erfc(Call& c) {
  Value x = c.f32(0);
  c.out(0, c.sub(c.scalarLike(x, 1), c.op("erf", {x})));
}

void isNan(Call& c) {
  if (!isFloat(c.common())) return c.out(0, c.full({ElementType::kBool, c.meta(0).sizes}, 0));
  c.out(0, c.op("is_nan", {c.wide(0)}));
}

/// isposinf and isneginf.
void isInfinite(Call& c) {
  if (!isFloat(c.common())) return c.out(0, c.full({ElementType::kBool, c.meta(0).sizes}, 0));
  Value x = c.wide(0);
  c.out(0, hpu::compose::isEqual(c, x, c.variant() == "-" ? -HUGE_VAL : HUGE_VAL), ElementType::kBool);
}

void signBitOf(Call& c) {
  if (c.common() == ElementType::kBool || c.common() == ElementType::kU8)
    return c.out(0, c.full({ElementType::kBool, c.meta(0).sizes}, 0));
  Value x = c.wide(0);
  c.out(0, isFloat(c.element(x)) ? hpu::compose::signBit(c, x) : hpu::compose::isLess(c, x, 0));
}

/// The angle of a real number: pi below 0.
void angle(Call& c) {
  Value x = c.f32(0);
  Value angle = c.where(hpu::compose::isLess(c, x, 0), c.scalarLike(x, M_PI), c.scalarLike(x, 0));
  c.out(0, c.where(c.op("is_nan", {x}), x, angle));
}

void nanToNum(Call& c) {  // self, nan, posinf, neginf
  if (!isFloat(c.common())) return c.out(0, c.in(0));
  // The largest finite numbers of the type.
  const double most = c.common() == ElementType::kF16    ? 65504
                      : c.common() == ElementType::kBF16 ? 3.3895313892515355e38
                                                         : std::numeric_limits<float>::max();
  c.out(0, hpu::compose::nanToNumber(c, c.wide(0), c.has(1) ? c.real(1) : 0, c.has(2) ? c.real(2) : most,
                                     c.has(3) ? c.real(3) : -most));
}

/// log(x / (1 - x)), of x between eps and 1 - eps where there is an eps.
void logit(Call& c) {
  Value x = c.f32(0);
  if (c.has(1)) x = c.min(c.max(x, c.scalarLike(x, c.real(1))), c.scalarLike(x, 1 - c.real(1)));
  c.out(0, c.op("log", {c.div(x, hpu::compose::oneMinus(c, x))}));
}
void logitBackward(Call& c) {  // grad_output, self, eps
  Value g = c.f32(0), x = c.f32(1), slope = c.div(g, c.mul(x, hpu::compose::oneMinus(c, x)));
  const double low = c.has(2) ? c.real(2) : 0;
  Value outside = c.op("or", {hpu::compose::isLess(c, x, low), hpu::compose::isGreater(c, x, 1 - low)});
  c.out(0, c.where(outside, c.scalarLike(x, c.has(2) ? 0 : NAN), slope));
}

void sinc(Call& c) {
  Value x = c.f32(0), t = c.mul(x, M_PI);
  c.out(0, c.where(hpu::compose::isEqual(c, x, 0), c.scalarLike(x, 1), c.div(c.op("sin", {t}), t)));
}

/// -x * log(x): 0 at 0, minus infinity below.
void entropy(Call& c) {
  Value x = c.f32(0), inside = c.neg(c.mul(x, c.op("log", {x})));
  inside = c.where(hpu::compose::isEqual(c, x, 0), c.scalarLike(x, 0), inside);
  c.out(0, c.where(hpu::compose::isLess(c, x, 0), c.scalarLike(x, -HUGE_VAL), inside));
}

void polygamma(Call& c) {  // n, self
  if (c.integer(0) > 1) return (void)c.unsupported("derivatives of digamma above the first");
  c.out(0, c.integer(0) == 0 ? hpu::compose::digamma(c, c.f32(1)) : hpu::compose::trigamma(c, c.f32(1)));
}

/// i0, i0e, i1, i1e.
void bessel(Call& c) {
  c.out(0, besselI(c, c.f32(0), c.variant()[1] - '0', c.variant().ends_with("e")));
}

void logicalNot(Call& c) {
  c.out(0, c.op("not", {c.toBool(c.in(0))}));
}
void bitwiseNot(Call& c) {
  c.out(0, c.op(c.common() == ElementType::kBool ? "not" : "bit_not", {c.in(0)}));
}

void sgn(Call& c) {
  if (c.common() == ElementType::kBool) return c.out(0, c.in(0));
  // Of NaN, and of -0, it is 0.
  Value x = c.wide(0), zero = c.scalarLike(x, 0);
  Value negative = c.where(c.op("less", {x, zero}), c.scalarLike(x, -1), zero);
  c.out(0, c.where(c.op("greater", {x, zero}), c.scalarLike(x, 1), negative));
}

}  // namespace

const std::vector<Row>& unaryOps() {
  static const auto& rows = *new std::vector<Row>{
      {"exp.out", floats, "exp"},
      {"expm1.out", floats, "expm1"},
      {"log.out", floats, "log"},
      {"log1p.out", floats, "log1p"},
      {"log2.out", scaledLog, "2"},
      {"log10.out", scaledLog, "10"},
      {"exp2.out", exp2},
      {"sqrt.out", floats, "sqrt"},
      {"rsqrt.out", floats, "rsqrt"},
      {"reciprocal.out", floats, "reciprocal"},
      {"sin.out", floats, "sin"},
      {"cos.out", floats, "cos"},
      {"tan.out", composed<hpu::compose::tangent>},
      {"asin.out", composed<hpu::compose::arcSine>},
      {"acos.out", composed<hpu::compose::arcCosine>},
      {"sinh.out", composed<hpu::compose::hyperbolicSine>},
      {"cosh.out", composed<hpu::compose::hyperbolicCosine>},
      {"asinh.out", composed<hpu::compose::inverseHyperbolicSine>},
      {"acosh.out", composed<hpu::compose::inverseHyperbolicCosine>},
      {"atanh.out", composed<hpu::compose::inverseHyperbolicTangent>},
      {"digamma.out", composed<hpu::compose::digamma>},
      {"polygamma.out", polygamma},
      {"i0.out", bessel, "i0"},
      {"special_i0e.out", bessel, "i0e"},
      {"special_i1.out", bessel, "i1"},
      {"special_i1e.out", bessel, "i1e"},
      {"special_entr.out", entropy},
      {"sinc.out", sinc},
      {"logit logit.out logit_", logit},
      {"logit_backward.grad_input", logitBackward},
      {"frac.out", fraction},
      {"round.decimals_out", roundDecimals},
      {"nan_to_num.out", nanToNum},
      {"signbit.out", signBitOf},
      {"angle angle.out", angle},
      {"isposinf.out", isInfinite, "+"},
      {"isneginf.out", isInfinite, "-"},
      {"atan.out", floats, "atan"},
      {"tanh.out", floats, "tanh"},
      {"sigmoid.out", floats, "sigmoid"},
      {"erf.out", floats, "erf"},
      {"erfc.out", erfc},
      {"erfinv.out", floats, "erf_inv"},
      {"lgamma.out", floats, "lgamma"},
      {"abs.out", same, "abs"},
      {"neg.out", same, "neg"},
      {"floor.out", same, "floor"},
      {"ceil.out", same, "ceil"},
      {"round.out", same, "round"},
      {"trunc.out", trunc},
      {"sign.out sgn.out", sgn},
      {"isnan", isNan},
      {"logical_not.out", logicalNot},
      {"bitwise_not.out", bitwiseNot},
  };
  return rows;
}

}  // namespace hpu_torch
