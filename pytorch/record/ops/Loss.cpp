// SPDX-License-Identifier: Apache-2.0
// Losses. The one thing to know: a reduction is PyTorch's number: 0 none, 1 mean, 2 sum.
#include "compose/Indexing.h"
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

void squares(Call& c) {  // self, target, reduction
  Value d = c.sub(c.f32(0), c.f32(1));
  c.out(0, reduced(c, c.mul(d, d), c.integer(2)), c.common());
}
void squaresBackward(Call& c) {  // grad_output, self, target, reduction
  Value g = c.f32(0), d = c.sub(c.f32(1), c.f32(2));
  c.out(0, c.mul(spreadGradient(c, g, c.shape(d), c.integer(3)), c.mul(d, 2)), c.common());
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

void huber(Call& c) {  // self, target, reduction, delta
  const double delta = c.real(3);
  Value d = c.op("abs", {c.sub(c.f32(0), c.f32(1))}), isSmall = c.op("less_equal", {d, c.scalarLike(d, delta)});
  d = c.where(isSmall, c.mul(c.mul(d, d), 0.5), c.mul(c.sub(d, 0.5 * delta), delta));
  c.out(0, reduced(c, d, c.integer(2)), c.common());
}
void huberBackward(Call& c) {  // grad_output, self, target, reduction, delta
  const double delta = c.real(4);
  Value g = c.f32(0), d = c.sub(c.f32(1), c.f32(2));
  Value slope = c.min(c.max(d, c.scalarLike(d, -delta)), c.scalarLike(d, delta));
  c.out(0, c.mul(spreadGradient(c, g, c.shape(d), c.integer(3)), slope), c.common());
}

// ---- of probabilities and margins ------------------------------------------------------------------

void crossEntropy(Call& c) {  // self, target, weight, reduction
  Value x = c.f32(0), y = c.f32(1);
  // Logarithms are at least -100, as PyTorch's.
  auto log = [&](Value v) { return c.max(c.op("log", {v}), c.scalarLike(v, -100)); };
  Value rest = c.max(c.op("log1p", {c.neg(x)}), c.scalarLike(x, -100));
  Value loss = c.sub(c.mul(c.sub(y, 1), rest), c.mul(y, log(x)));
  if (c.has(2)) loss = c.mul(loss, c.f32(2));
  c.out(0, reduced(c, loss, c.integer(3)), c.meta(0).type);
}
void crossEntropyBackward(Call& c) {  // grad_output, self, target, weight, reduction
  Value g = c.f32(0), x = c.f32(1), y = c.f32(2);
  Value scale = c.max(c.mul(c.sub(c.scalarLike(x, 1), x), x), c.scalarLike(x, 1e-12));
  Value slope = c.div(c.sub(x, y), scale);
  if (c.has(3)) slope = c.mul(slope, c.f32(3));
  c.out(0, c.mul(spreadGradient(c, g, c.shape(slope), c.integer(4)), slope), c.meta(1).type);
}

/// For each class but the target's, the margin that it breaks to the power p; [N, C] and one target each.
struct Margins {
  Value hit, broken, weights;  ///< `broken` is 0 at the target.
  int64_t classes = 0;
};
Margins marginsOf(Call& c, size_t first) {  // self, target, p, margin, weight, reduction
  Margins m;
  Shape shape = c.meta(first).sizes;
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  Value x = c.reshape(c.f32(first), shape), target = c.reshape(c.in(first + 1), {shape[0]});
  auto hits = labelHits(c, target, shape, 1, c.has(first + 4) ? c.in(first + 4) : Value{}, -1);
  m.hit = hits.hit;
  m.weights = hits.weights;
  m.classes = shape[1];
  Value zero = c.scalarLike(x, 0), own = c.reduceSum(c.where(m.hit, x, zero), {1}, true);
  Value z = c.add(c.sub(x, own), c.f32(first + 3));
  m.broken = c.where(m.hit, zero, c.max(z, zero));
  return m;
}
void multiMargin(Call& c) {
  if (hpu::numElements(c.meta(0).sizes) == 0) return (void)c.unsupported("no elements");
  Margins m = marginsOf(c, 0);
  Value power = c.real(2) == 2 ? c.mul(m.broken, m.broken) : m.broken;
  Value loss = c.mul(c.div(c.reduceSum(power, {1}, true), static_cast<double>(m.classes)), m.weights);
  loss = reduced(c, loss, c.integer(5));
  c.out(0, c.integer(5) == kNone ? c.reshape(loss, c.meta(1).sizes) : loss, c.meta(0).type);
}
void multiMarginBackward(Call& c) {  // grad_output, then the same
  if (hpu::numElements(c.meta(1).sizes) == 0) return (void)c.unsupported("no elements");
  Margins m = marginsOf(c, 1);
  Value isBroken = c.op("greater", {m.broken, c.scalarLike(m.broken, 0)});
  Value slope =
      c.real(3) == 2 ? c.mul(m.broken, 2) : c.where(isBroken, c.scalarLike(m.broken, 1), c.scalarLike(m.broken, 0));
  slope = c.mul(c.div(slope, static_cast<double>(m.classes)), m.weights);
  slope = c.where(m.hit, c.neg(c.reduceSum(slope, {1}, true)), slope);
  Value g = c.f32(0);
  g = c.integer(6) == kNone ? c.reshape(g, c.shape(m.weights)) : c.reshape(g, {});
  if (c.integer(6) == kMean) g = c.div(g, static_cast<double>(c.dim(slope, 0)));
  c.out(0, c.reshape(c.mul(g, slope), c.meta(1).sizes), c.meta(1).type);
}

/// For each sample [n], label [j] and class [d]: whether d breaks the margin of the label. Labels are those before the
/// first negative one.
struct LabelMargins {
  Value isLabel;  ///< [n, j, d]: j is the label d, f32.
  Value isOneOf;  ///< [n, 1, d]: d is one of the labels, f32.
  Value broken;   ///< [n, j, d]: by how much; 0 where it is kept, or d is one of the labels.
  int64_t classes = 0;
};
LabelMargins labelMarginsOf(Call& c, size_t first) {  // self, target
  LabelMargins m;
  Shape shape = c.meta(first).sizes;
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  const int64_t n = shape[0], size = shape[1];
  if (n * size * size == 0 || n * size * size > (int64_t{1} << 26))
    c.unsupported("no elements, or more than 2^26 pairs");
  m.classes = size;
  Value x = c.reshape(c.f32(first), shape), target = c.reshape(c.in(first + 1, ElementType::kI32), shape);
  Value zero = c.scalar(0, ElementType::kF32);
  Value isEnd = c.cast(c.op("less", {target, c.scalarLike(target, 0)}), ElementType::kF32);
  Value ends = scan(c, isEnd, 1, "add", /*exclusive=*/false, /*reverse=*/false);
  Value isGiven = c.reshape(c.op("equal", {ends, zero}), {n, size, 1});
  Value at = c.max(target, c.scalarLike(target, 0));
  Value hit = c.op("equal", {c.reshape(at, {n, size, 1}), hpu::compose::counter(c, size, 2, 3)});
  m.isLabel = c.cast(c.op("and", {hit, isGiven}), ElementType::kF32);
  m.isOneOf = c.reduceMax(m.isLabel, {1}, true);
  Value own = c.reshape(c.op("gather_elements", {x, at}, {{"axis", int64_t{1}}}), {n, size, 1});
  Value z = c.add(c.sub(c.reshape(x, {n, 1, size}), own), 1.0);
  Value counts = c.op("and", {isGiven, c.op("equal", {m.isOneOf, zero})});
  m.broken = c.where(counts, c.max(z, zero), zero);
  return m;
}
void multiLabelMargin(Call& c) {  // self, target, reduction -> output, is_target
  LabelMargins m = labelMarginsOf(c, 0);
  Value loss = c.div(c.reduceSum(m.broken, {1, 2}, false), static_cast<double>(m.classes));
  loss = reduced(c, loss, c.integer(2));
  c.out(0, c.meta(0).sizes.size() < 2 ? c.reshape(loss, {}) : loss, c.meta(0).type);
  c.out(1, c.reshape(m.isOneOf, c.meta(1).sizes), c.meta(0).type);
}
void multiLabelMarginBackward(Call& c) {  // grad_output, self, target, reduction, is_target
  LabelMargins m = labelMarginsOf(c, 1);
  Value zero = c.scalar(0, ElementType::kF32);
  Value counts = c.cast(c.op("greater", {m.broken, zero}), ElementType::kF32);
  Value slope = c.sub(counts, c.mul(m.isLabel, c.reduceSum(counts, {2}, true)));
  slope = c.div(c.reduceSum(slope, {1}, false), static_cast<double>(m.classes));
  Value g = c.f32(0);
  g = c.integer(3) == kNone ? c.reshape(g, {c.dim(slope, 0), 1}) : c.reshape(g, {});
  if (c.integer(3) == kMean) g = c.div(g, static_cast<double>(c.dim(slope, 0)));
  c.out(0, c.reshape(c.mul(g, slope), c.meta(1).sizes), c.meta(1).type);
}

}  // namespace

const std::vector<Row>& lossOps() {
  static const auto& rows = *new std::vector<Row>{
      {"nll_loss_forward.output nll_loss2d_forward nll_loss2d_forward.output", nllForward},
      {"nll_loss_backward.grad_input nll_loss2d_backward nll_loss2d_backward.grad_input", nllBackward},
      {"mse_loss.out", squares},
      {"mse_loss_backward mse_loss_backward.grad_input", squaresBackward},
      {"smooth_l1_loss.out", smoothL1},
      {"smooth_l1_loss_backward.grad_input", smoothL1Backward},
      {"huber_loss huber_loss.out", huber},
      {"huber_loss_backward.out", huberBackward, {}, Row::kOwnShapes},
      {"binary_cross_entropy binary_cross_entropy.out", crossEntropy},
      {"binary_cross_entropy_backward binary_cross_entropy_backward.grad_input", crossEntropyBackward},
      {"multi_margin_loss", multiMargin, {}, Row::kOwnShapes | Row::kFixedNumbers},
      {"multi_margin_loss_backward", multiMarginBackward, {}, Row::kOwnShapes | Row::kFixedNumbers},
      {"multilabel_margin_loss_forward", multiLabelMargin, {}, Row::kOwnShapes},
      {"multilabel_margin_loss_backward", multiLabelMarginBackward, {}, Row::kOwnShapes},
  };
  return rows;
}

}  // namespace hpu_torch
