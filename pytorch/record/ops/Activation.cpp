// SPDX-License-Identifier: Apache-2.0
// Activations, softmax, and their gradients; all in f32.
#include <cmath>

#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

Value oneMinus(Call& c, Value x) {
  return c.sub(c.scalarLike(x, 1), x);
}

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
      {"_softmax.out", softmax, "softmax"},
      {"_log_softmax.out", softmax, "log_softmax"},
      {"_softmax_backward_data.out", softmaxBackward},
      {"_log_softmax_backward_data.out", softmaxBackward, "log"},
  };
  return rows;
}

}  // namespace hpu_torch
