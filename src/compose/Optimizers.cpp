// SPDX-License-Identifier: Apache-2.0
#include "compose/Optimizers.h"

namespace hpu::compose {
namespace {

/// One number, in the type that the step computes in.
Value numberOf(Emitter& c, Value v, ElementType type) {
  return c.reshape(c.cast(v, type), {});
}
ElementType widerOf(Emitter& c, Value v) {
  return c.element(v) == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
}
Value regularized(Emitter& c, Value weights, Value gradient, double coefficient) {
  return coefficient == 0 ? gradient : c.add(c.mul(weights, coefficient), gradient);
}
Value isFirst(Emitter& c, Value step) {
  return c.op("less_equal", {step, c.scalarLike(step, 0)});
}

}  // namespace

OptimizerStep adagradStep(Emitter& c, Value rate, Value step, Value weights, Value gradient, Value squares,
                          const OptimizerOptions& o) {
  const ElementType type = widerOf(c, weights), own = c.element(weights), kept = c.element(squares);
  Value x = c.cast(weights, type), h = c.cast(squares, type), t = numberOf(c, step, type);
  Value g = regularized(c, x, c.cast(gradient, type), o.normCoefficient);
  Value r = c.div(numberOf(c, rate, type), c.add(c.mul(t, o.decayFactor), 1));
  h = c.add(h, c.mul(g, g));
  Value change = c.div(c.mul(g, r), c.add(c.op("sqrt", {h}), o.epsilon));
  return {c.cast(c.sub(x, change), own), c.cast(h, kept), {}};
}

OptimizerStep adamStep(Emitter& c, Value rate, Value step, Value weights, Value gradient, Value mean, Value squares,
                       const OptimizerOptions& o) {
  const ElementType type = widerOf(c, weights), own = c.element(weights);
  Value x = c.cast(weights, type), v = c.cast(mean, type), h = c.cast(squares, type), t = numberOf(c, step, type);
  Value g = regularized(c, x, c.cast(gradient, type), o.normCoefficient);
  v = c.add(c.mul(v, o.alpha), c.mul(g, 1 - o.alpha));
  h = c.add(c.mul(h, o.beta), c.mul(c.mul(g, g), 1 - o.beta));
  // Averages that began at 0 are too small by 1 - kept^steps; at step 0 nothing is known to correct.
  auto missing = [&](double kept) { return c.sub(c.scalarLike(t, 1), c.op("pow", {c.scalarLike(t, kept), t})); };
  Value factor = c.div(c.op("sqrt", {missing(o.beta)}), missing(o.alpha));
  Value r = numberOf(c, rate, type);
  r = c.where(isFirst(c, t), r, c.mul(r, factor));
  x = c.sub(x, c.div(c.mul(v, r), c.add(c.op("sqrt", {h}), o.epsilon)));
  if (o.normCoefficientPost != 0) x = c.mul(x, 1 - o.normCoefficientPost);
  return {c.cast(x, own), c.cast(v, c.element(mean)), c.cast(h, c.element(squares))};
}

OptimizerStep momentumStep(Emitter& c, Value rate, Value step, Value weights, Value gradient, Value momentum,
                           const OptimizerOptions& o) {
  const ElementType type = widerOf(c, weights), own = c.element(weights), kept = c.element(momentum);
  Value x = c.cast(weights, type), v = c.cast(momentum, type), t = numberOf(c, step, type);
  Value g = regularized(c, x, c.cast(gradient, type), o.normCoefficient);
  // The first gradient counts whole.
  Value beta = c.where(isFirst(c, t), c.scalarLike(t, 1), c.scalarLike(t, o.beta));
  v = c.add(c.mul(v, o.alpha), c.mul(g, beta));
  Value change = o.isNesterov ? c.add(g, c.mul(v, o.alpha)) : v;
  return {c.cast(c.sub(x, c.mul(change, numberOf(c, rate, type))), own), c.cast(v, kept), {}};
}

}  // namespace hpu::compose
