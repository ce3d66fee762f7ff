// SPDX-License-Identifier: Apache-2.0
// One operand, element by element.
#include <cmath>

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

void trunc(Call& c) {
  Value x = c.wide(0);
  if (!isFloat(c.element(x))) return c.out(0, x);
  c.out(0, c.where(c.op("less", {x, c.scalarLike(x, 0)}), c.op("ceil", {x}), c.op("floor", {x})));
}

void scaledLog(Call& c) {
  c.out(0, c.mul(c.op("log", {c.f32(0)}), c.variant() == "2" ? 1 / std::log(2.) : 1 / std::log(10.)));
}
void exp2(Call& c) {
  c.out(0, c.op("exp", {c.mul(c.f32(0), std::log(2.))}));
}
void tan(Call& c) {
  Value x = c.f32(0);
  c.out(0, c.div(c.op("sin", {x}), c.op("cos", {x})));
}
void erfc(Call& c) {
  Value x = c.f32(0);
  c.out(0, c.sub(c.scalarLike(x, 1), c.op("erf", {x})));
}

void isNan(Call& c) {
  if (!isFloat(c.common())) return c.out(0, c.full({ElementType::kBool, c.meta(0).sizes}, 0));
  c.out(0, c.op("is_nan", {c.wide(0)}));
}

void logicalNot(Call& c) {
  c.out(0, c.op("not", {c.toBool(c.in(0))}));
}
void bitwiseNot(Call& c) {
  c.out(0, c.op(c.common() == ElementType::kBool ? "not" : "bit_not", {c.in(0)}));
}

void sgn(Call& c) {
  if (c.common() == ElementType::kBool) return c.out(0, c.in(0));
  c.out(0, c.op("sign", {c.wide(0)}));
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
      {"tan.out", tan},
      {"atan.out", floats, "atan"},
      {"tanh.out", floats, "tanh"},
      {"sigmoid.out", floats, "sigmoid"},
      {"erf.out", floats, "erf"},
      {"erfc.out", erfc},
      {"erfinv.out", floats, "erf_inv"},
      {"lgamma.out", floats, "lgamma"},
      {"abs abs.out abs_", same, "abs"},
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
