// SPDX-License-Identifier: Apache-2.0
// Losses. The one thing to know: a reduction is PyTorch's number: 0 none, 1 mean, 2 sum.
#include "compose/Labels.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

Ints allDims(int64_t rank) {
  Ints dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
  return dims;
}
Value total(Call& c, Value v) {
  if (hpu::numElements(c.shape(v)) == 0) return c.full({c.element(v), {}}, 0);
  return c.reduceSum(v, allDims(c.rank(v)), false);
}
Value reduced(Call& c, Value loss, int64_t reduction) {
  if (reduction == kNone || !loss.handle) return loss;
  const auto count = static_cast<double>(hpu::numElements(c.shape(loss)));
  return reduction == kMean ? c.div(total(c, loss), count) : total(c, loss);
}
/// The gradient of each element of a loss.
Value spreadGradient(Call& c, Value g, const Shape& shape, int64_t reduction) {
  if (reduction == kMean) g = c.div(g, static_cast<double>(hpu::numElements(shape)));
  return g;
}

// ---- negative log likelihood: targets of any dims --------------------------------------------------

int64_t classDim(const Shape& shape) {
  return shape.size() == 1 ? 0 : 1;
}

void nllForward(Call& c) {  // self, target, weight, reduction, ignore_index -> output, total_weight
  Value x = c.f32(0);
  Shape shape = c.shape(x);
  if (!c.ok() || shape.empty()) return (void)c.unsupported("a number");
  const int64_t dim = classDim(shape);
  auto hits = labelHits(c, c.in(1), shape, dim, c.has(2) ? c.in(2) : Value{}, c.integer(4));
  Value picked = c.reduceSum(c.where(hits.hit, x, c.scalarLike(x, 0)), {dim}, true);
  Value loss = c.neg(c.mul(picked, hits.weights)), weight = total(c, hits.weights);
  if (c.integer(3) == kNone) {
    c.out(0, c.reshape(loss, c.meta(1).sizes), c.meta(0).type);
    // PyTorch leaves the sum of weights at 0 there.
    return c.out(1, c.full({ElementType::kF32, {}}, 0), c.meta(0).type);
  }
  c.out(0, c.integer(3) == kMean ? c.div(total(c, loss), weight) : total(c, loss), c.meta(0).type);
  c.out(1, weight, c.meta(0).type);
}

void nllBackward(Call& c) {  // grad_output, self, target, weight, reduction, ignore_index, total_weight
  const Shape shape = c.meta(1).sizes;
  if (shape.empty()) return (void)c.unsupported("a number");
  auto hits = labelHits(c, c.in(2), shape, classDim(shape), c.has(3) ? c.in(3) : Value{}, c.integer(5));
  Value g = c.f32(0), factor = hits.weights;
  factor = c.mul(factor, c.integer(4) == kNone ? c.reshape(g, c.shape(factor)) : c.reshape(g, {}));
  if (c.integer(4) == kMean) factor = c.div(factor, c.reshape(c.f32(6), {}));
  c.out(0, c.where(hits.hit, c.neg(factor), c.scalar(0, ElementType::kF32)), c.meta(1).type);
}

// ---- distances ------------------------------------------------------------------------------------

void distance(Call& c) {  // self, target, reduction
  Value d = c.sub(c.f32(0), c.f32(1));
  c.out(0, reduced(c, c.variant() == "mse" ? c.mul(d, d) : c.op("abs", {d}), c.integer(2)), c.common());
}
void distanceBackward(Call& c) {  // grad_output, self, target, reduction
  Value g = c.f32(0), d = c.sub(c.f32(1), c.f32(2));
  Value slope = c.variant() == "mse" ? c.mul(d, 2) : c.op("sign", {d});
  c.out(0, c.mul(spreadGradient(c, g, c.shape(d), c.integer(3)), slope), c.common());
}

void smoothL1(Call& c) {  // self, target, reduction, beta
  Value d = c.op("abs", {c.sub(c.f32(0), c.f32(1))});
  const double beta = c.real(3);
  if (beta > 0)
    d = c.where(c.op("less", {d, c.scalarLike(d, beta)}), c.mul(c.mul(d, d), 0.5 / beta), c.sub(d, 0.5 * beta));
  c.out(0, reduced(c, d, c.integer(2)), c.common());
}
void smoothL1Backward(Call& c) {  // grad_output, self, target, reduction, beta
  Value g = c.f32(0), d = c.sub(c.f32(1), c.f32(2));
  const double beta = c.real(4);
  Value slope = c.op("sign", {d});
  if (beta > 0) slope = c.where(c.op("less", {c.op("abs", {d}), c.scalarLike(d, beta)}), c.div(d, beta), slope);
  c.out(0, c.mul(spreadGradient(c, g, c.shape(d), c.integer(3)), slope), c.common());
}

}  // namespace

const std::vector<Row>& lossOps() {
  static const auto& rows = *new std::vector<Row>{
      {"nll_loss_forward.output nll_loss2d_forward nll_loss2d_forward.output", nllForward},
      {"nll_loss_backward.grad_input nll_loss2d_backward nll_loss2d_backward.grad_input", nllBackward},
      {"mse_loss.out", distance, "mse"},
      {"mse_loss_backward mse_loss_backward.grad_input", distanceBackward, "mse"},
      {"l1_loss l1_loss.out", distance, "l1"},
      {"smooth_l1_loss.out", smoothL1},
      {"smooth_l1_loss_backward.grad_input", smoothL1Backward},
  };
  return rows;
}

}  // namespace hpu_torch
