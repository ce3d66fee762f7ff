// SPDX-License-Identifier: Apache-2.0
// Activations, softmax, and their gradients; all in f32.
#include <cmath>

#include "compose/Functions.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isGreater;
using hpu::compose::isLess;
using hpu::compose::oneMinus;
using hpu::compose::orZero;

void relu(Call& c) {
  c.out(0, c.op("relu", {c.wide(0)}));
}

void thresholdBackward(Call& c) {  // grad_output, self, threshold
  Value g = c.wide(0), x = c.wide(1);
  c.out(0, c.where(c.op("less_equal", {x, c.in(2, c.element(x))}), c.scalarLike(g, 0), g));
}

void threshold(Call& c) {  // self, threshold, value
  Value x = c.wide(0);
  c.out(0, c.where(c.op("less_equal", {x, c.in(1, c.element(x))}), c.in(2, c.element(x)), x));
}

void sigmoidBackward(Call& c) {  // grad_output, output
  Value g = c.f32(0), y = c.f32(1);
  c.out(0, c.mul(g, c.mul(y, oneMinus(c, y))));
}
void tanhBackward(Call& c) {  // grad_output, output
  Value g = c.f32(0), y = c.f32(1);
  c.out(0, c.mul(g, oneMinus(c, c.mul(y, y))));
}

void silu(Call& c) {
  c.out(0, c.op("silu", {c.f32(0)}));
}
void siluBackward(Call& c) {  // grad_output, self
  Value g = c.f32(0), x = c.f32(1), s = c.op("sigmoid", {x});
  c.out(0, c.mul(g, c.mul(s, c.add(c.mul(x, oneMinus(c, s)), 1))));
}

bool isTanh(Call& c, size_t i) {
  return c.text(i) == "tanh";
}
void gelu(Call& c) {  // self, approximate
  c.out(0, c.op("gelu", {c.f32(0)}, {{"tanh_approximation", int64_t{isTanh(c, 1)}}}));
}
void geluBackward(Call& c) {  // grad_output, self, approximate
  Value g = c.f32(0), x = c.f32(1);
  if (isTanh(c, 2)) {
    const double beta = std::sqrt(2 / M_PI), kappa = 0.044715;
    Value square = c.mul(x, x);
    Value t = c.op("tanh", {c.mul(c.mul(x, c.add(c.mul(square, kappa), 1)), beta)});
    Value slope =
        c.mul(c.mul(c.mul(x, 0.5), oneMinus(c, c.mul(t, t))), c.mul(c.add(c.mul(square, 3 * kappa), 1), beta));
    return c.out(0, c.mul(g, c.add(c.mul(c.add(t, 1), 0.5), slope)));
  }
  Value cdf = c.mul(c.add(c.op("erf", {c.mul(x, M_SQRT1_2)}), 1), 0.5);
  Value pdf = c.mul(c.op("exp", {c.mul(c.mul(x, x), -0.5)}), M_2_SQRTPI * M_SQRT1_2 * 0.5);
  c.out(0, c.mul(g, c.add(cdf, c.mul(x, pdf))));
}

void leakyRelu(Call& c) {  // self, negative_slope
  Value x = c.wide(0);
  c.out(0, c.where(c.op("greater", {x, c.scalarLike(x, 0)}), x, c.mul(x, c.in(1, c.element(x)))));
}
void leakyReluBackward(Call& c) {  // grad_output, self, negative_slope, self_is_result
  Value g = c.wide(0), x = c.wide(1);
  c.out(0, c.where(c.op("greater", {x, c.scalarLike(x, 0)}), g, c.mul(g, c.in(2, c.element(g)))));
}

void hardswish(Call& c) {
  c.out(0, c.op("hard_swish", {c.f32(0)}));
}
void hardsigmoid(Call& c) {
  c.out(0, c.op("hard_sigmoid", {c.f32(0)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}));
}

void elu(Call& c) {  // self, alpha, scale, input_scale
  Value x = c.f32(0), scale = c.f32(2);
  Value negative = c.mul(c.mul(c.op("expm1", {c.mul(x, c.f32(3))}), c.f32(1)), scale);
  c.out(0, c.where(c.op("greater", {x, c.scalarLike(x, 0)}), c.mul(x, scale), negative));
}
/// grad_output, alpha, scale, input_scale, is_result, self_or_result
void eluBackward(Call& c) {
  Value g = c.f32(0), alpha = c.f32(1), scale = c.f32(2), inputScale = c.f32(3), x = c.f32(5);
  Value slope = c.flag(4) ? c.mul(c.add(x, c.mul(alpha, scale)), inputScale)
                          : c.mul(c.mul(c.op("exp", {c.mul(x, inputScale)}), c.mul(alpha, scale)), inputScale);
  c.out(0, c.mul(g, c.where(c.op("greater", {x, c.scalarLike(x, 0)}), c.expand(scale, c.shape(x)), slope)));
}

void hardtanh(Call& c) {  // self, min_val, max_val
  Value x = c.wide(0);
  c.out(0, c.min(c.max(x, c.in(1, c.element(x))), c.in(2, c.element(x))));
}
void hardtanhBackward(Call& c) {  // grad_output, self, min_val, max_val
  Value g = c.wide(0), x = c.wide(1);
  Value inside = c.op("and", {c.op("greater", {x, c.in(2, c.element(x))}), c.op("less", {x, c.in(3, c.element(x))})});
  c.out(0, c.where(inside, g, c.scalarLike(g, 0)));
}

void softplus(Call& c) {  // self, beta, threshold
  Value x = c.f32(0), scaled = c.mul(x, c.f32(1));
  c.out(0, c.where(c.op("greater", {scaled, c.f32(2)}), x, c.div(c.op("softplus", {scaled}), c.f32(1))));
}
void softplusBackward(Call& c) {  // grad_output, self, beta, threshold
  Value g = c.f32(0), scaled = c.mul(c.f32(1), c.f32(2));
  c.out(0, c.where(c.op("greater", {scaled, c.f32(3)}), g, c.mul(g, c.op("sigmoid", {scaled}))));
}

void logSigmoid(Call& c) {  // self -> output, buffer
  Value x = c.f32(0);
  c.out(0, c.neg(c.op("softplus", {c.neg(x)})), c.meta(0).type);
  // The CPU's backward reads exp(-|x|) there; ours reads nothing.
  c.out(1, c.op("exp", {c.neg(c.op("abs", {x}))}), c.meta(0).type);
}
void logSigmoidBackward(Call& c) {  // grad_output, self, buffer
  c.out(0, c.mul(c.f32(0), c.op("sigmoid", {c.neg(c.f32(1))})), c.meta(1).type);
}

void mish(Call& c) {
  Value x = c.f32(0);
  c.out(0, c.mul(x, c.op("tanh", {c.op("softplus", {x})})));
}
void hardswishBackward(Call& c) {  // grad_output, self
  Value g = c.f32(0), x = c.f32(1);
  Value inside = c.mul(g, c.add(c.div(x, 3), 0.5));
  c.out(0, c.where(isLess(c, x, -3), c.scalarLike(g, 0), c.where(isLess(c, x, 3), inside, g)));
}
void hardsigmoidBackward(Call& c) {  // grad_output, self
  Value g = c.f32(0), x = c.f32(1);
  Value inside = c.op("and", {isGreater(c, x, -3), isLess(c, x, 3)});
  c.out(0, orZero(c, inside, c.div(g, 6)));
}

void hardshrink(Call& c) {  // self, lambd
  Value x = c.wide(0), bound = c.in(1, c.element(x));
  c.out(0, c.where(c.op("less_equal", {c.op("abs", {x}), bound}), c.scalarLike(x, 0), x));
}
void softshrink(Call& c) {  // self, lambd
  Value x = c.wide(0), bound = c.in(1, c.element(x));
  Value low = c.where(c.op("less", {x, c.neg(bound)}), c.add(x, bound), c.mul(x, 0.0));
  c.out(0, c.where(c.op("greater", {x, bound}), c.sub(x, bound), low));
}
/// Of both: grad_output, self, lambd.
void shrinkBackward(Call& c) {
  Value g = c.wide(0), x = c.wide(1);
  c.out(0, c.where(c.op("less_equal", {c.op("abs", {x}), c.in(2, c.element(x))}), c.scalarLike(g, 0), g));
}

void glu(Call& c) {  // self, dim
  Value x = c.f32(0);
  const int64_t dim = c.dimension(1, c.rank(x)), half = c.dim(x, dim) / 2;
  c.out(0, c.mul(c.sliceDim(x, dim, 0, half), c.op("sigmoid", {c.sliceDim(x, dim, half, half)})));
}
void gluBackward(Call& c) {  // grad_output, self, dim
  Value g = c.f32(0), x = c.f32(1);
  const int64_t dim = c.dimension(2, c.rank(x)), half = c.dim(x, dim) / 2;
  Value a = c.sliceDim(x, dim, 0, half), s = c.op("sigmoid", {c.sliceDim(x, dim, half, half)}), first = c.mul(g, s);
  c.out(0, c.concat({first, c.mul(c.mul(first, a), oneMinus(c, s))}, dim), c.meta(1).type);
}

/// The slopes, which are of one element or of dim 1, as they broadcast over self.
Value slopesOf(Call& c, size_t weight, const Shape& shape) {
  Shape along(shape.size(), 1);
  const int64_t count = hpu::numElements(c.meta(weight).sizes);
  if (along.size() > 1)
    along[1] = count;
  else if (along.size() == 1 && count > 1)
    along[0] = count;
  return c.reshape(c.f32(weight), along);
}
void prelu(Call& c) {  // self, weight
  Value x = c.f32(0);
  c.out(0, c.where(isGreater(c, x, 0), x, c.mul(x, slopesOf(c, 1, c.shape(x)))), c.meta(0).type);
}
void preluBackward(Call& c) {  // grad_output, self, weight -> dSelf, dWeight
  Value g = c.f32(0), x = c.f32(1), slopes = slopesOf(c, 2, c.shape(x)), isUp = isGreater(c, x, 0);
  c.out(0, c.where(isUp, g, c.mul(g, slopes)), c.meta(1).type);
  if (!c.ok()) return;
  if (hpu::numElements(c.shape(x)) == 0)
    return c.out(1, c.full({ElementType::kF32, c.meta(2).sizes}, 0), c.meta(2).type);
  Value parts = c.where(isUp, c.scalarLike(g, 0), c.mul(g, x));
  c.out(1, c.reshape(c.sumTo(parts, c.shape(slopes)), c.meta(2).sizes), c.meta(2).type);
}

/// self, noise, lower, upper, training: without training a leaky relu with the mean slope.
void rrelu(Call& c) {
  if (c.flag(4)) return (void)c.unsupported("training: its slopes are drawn where it is computed");
  Value x = c.f32(0), slope = c.mul(c.add(c.f32(2), c.f32(3)), 0.5);
  c.out(0, c.where(c.op("less_equal", {x, c.scalarLike(x, 0)}), c.mul(x, slope), x), c.meta(0).type);
}

// ---- softmax: self, dim, half_to_float ------------------------------------------------------------

void softmax(Call& c) {
  Value x = c.f32(0);
  if (c.rank(x) == 0) return c.out(0, c.full({ElementType::kF32, {}}, c.variant() == "softmax" ? 1 : 0));
  c.out(0, c.op(c.variant(), {x}, {{"axis", c.dimension(1, c.rank(x))}}));
}
void softmaxBackward(Call& c) {  // grad_output, output, dim, input_dtype
  Value g = c.f32(0), y = c.f32(1);
  if (c.rank(y) == 0) return c.out(0, c.full({ElementType::kF32, {}}, 0));
  Ints dim = {c.dimension(2, c.rank(y))};
  if (c.variant() == "log")
    c.out(0, c.sub(g, c.mul(c.op("exp", {y}), c.reduceSum(g, dim, true))));
  else
    c.out(0, c.mul(c.sub(g, c.reduceSum(c.mul(g, y), dim, true)), y));
}

}  // namespace

const std::vector<Row>& activationOps() {
  static const auto& rows = *new std::vector<Row>{
      {"relu relu_", relu},
      {"threshold.out", threshold},
      {"threshold_backward.grad_input", thresholdBackward},
      {"sigmoid_backward.grad_input", sigmoidBackward},
      {"tanh_backward.grad_input", tanhBackward},
      {"silu.out", silu},
      {"silu_backward.grad_input", siluBackward},
      {"gelu.out", gelu},
      {"gelu_backward.grad_input", geluBackward},
      {"leaky_relu.out", leakyRelu},
      {"leaky_relu_backward.grad_input", leakyReluBackward},
      {"elu.out", elu},
      {"elu_backward.grad_input", eluBackward},
      {"hardtanh hardtanh.out hardtanh_", hardtanh},
      {"hardtanh_backward hardtanh_backward.grad_input", hardtanhBackward},
      {"softplus.out", softplus},
      {"softplus_backward.grad_input", softplusBackward},
      {"log_sigmoid_forward", logSigmoid, {}, Row::kOwnShapes},
      {"log_sigmoid_backward log_sigmoid_backward.grad_input", logSigmoidBackward},
      {"hardswish hardswish.out hardswish_", hardswish},
      {"hardsigmoid.out", hardsigmoid},
      {"hardswish_backward", hardswishBackward},
      {"hardsigmoid_backward.grad_input", hardsigmoidBackward},
      {"mish.out", mish},
      {"hardshrink.out", hardshrink},
      {"softshrink.out", softshrink},
      {"hardshrink_backward.grad_input softshrink_backward.grad_input", shrinkBackward},
      {"glu.out", glu},
      {"glu_backward", gluBackward},
      {"prelu", prelu},
      {"prelu_backward", preluBackward, {}, Row::kOwnShapes},
      {"rrelu_with_noise", rrelu, {}, Row::kOwnShapes},
      {"_softmax.out", softmax, "softmax"},
      {"_log_softmax.out", softmax, "log_softmax"},
      {"_softmax_backward_data.out", softmaxBackward},
      {"_log_softmax_backward_data.out", softmaxBackward, "log"},
  };
  return rows;
}

}  // namespace hpu_torch
