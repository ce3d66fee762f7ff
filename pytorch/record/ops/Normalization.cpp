// SPDX-License-Identifier: Apache-2.0
// Normalisations; statistics are computed in f32.
#include <algorithm>

#include "compose/Normalizations.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::allBut;
using hpu::compose::Moments;

/// Argument i, or null, in f32 with sizes `shape`.
Value parameter(Call& c, size_t i, const Shape& shape) {
  return c.has(i) ? c.reshape(c.f32(i), shape) : Value{};
}
Shape only(const Shape& shape, const Ints& dims) {
  Shape result(shape.size(), 1);
  for (int64_t d : dims) result[static_cast<size_t>(d)] = shape[static_cast<size_t>(d)];
  return result;
}
Ints lastDims(int64_t rank, size_t count) {
  Ints dims;
  for (int64_t d = rank - static_cast<int64_t>(count); d < rank; ++d) dims.push_back(d);
  return dims;
}

/// Gradients of an operand without elements and of its parameters.
void outZeros(Call& c, const Ints& mask, size_t x, size_t gamma, size_t beta) {
  const size_t arguments[] = {x, gamma, beta};
  for (size_t k = 0; k < 3; ++k)
    if (mask[k] && c.has(arguments[k])) c.out(k, c.full({c.meta(arguments[k]).type, c.meta(arguments[k]).sizes}, 0));
}

// ---- layer norm -----------------------------------------------------------------------------------

void layerNorm(Call& c) {  // input, normalized_shape, weight, bias, eps -> output, mean, rstd
  Value x = c.f32(0);
  if (!c.ok()) return;
  const ElementType type = c.meta(0).type;
  Ints dims = lastDims(c.rank(x), c.ints(1).size());
  if (hpu::numElements(c.shape(x)) == 0) {
    c.out(0, c.full(c.type(x), 0), type);
    Value statistics = c.full({ElementType::kF32, only(c.shape(x), allBut(c.rank(x), dims))}, 0);
    c.out(1, statistics, type);
    return c.out(2, statistics, type);
  }
  Shape along = only(c.shape(x), dims);
  Moments m = momentsOf(c, x, dims, c.real(4));
  c.out(0, normalised(c, x, m.mean, m.istd, parameter(c, 2, along), parameter(c, 3, along)), type);
  c.out(1, m.mean, type);
  c.out(2, m.istd, type);
}

/// grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask -> dInput, dWeight, dBias
void layerNormBackward(Call& c) {
  Value g = c.f32(0), x = c.f32(1);
  if (!c.ok()) return;
  const int64_t rank = c.rank(x);
  Ints dims = lastDims(rank, c.ints(2).size()), outer = allBut(rank, dims), mask = c.ints(7);
  if (hpu::numElements(c.shape(x)) == 0) return outZeros(c, mask, 1, 5, 6);
  Shape along = only(c.shape(x), dims), statistics = only(c.shape(x), outer);
  Value istd = parameter(c, 4, statistics);
  Value xHat = c.mul(c.sub(x, parameter(c, 3, statistics)), istd), gamma = parameter(c, 5, along);
  if (mask[0]) c.out(0, normBackward(c, gamma.handle ? c.mul(g, gamma) : g, xHat, istd, dims), c.meta(1).type);
  if (mask[1] && c.has(5)) c.out(1, c.reshape(c.reduceSum(c.mul(g, xHat), outer, true), c.ints(2)), c.meta(5).type);
  if (mask[2] && c.has(6)) c.out(2, c.reshape(c.reduceSum(g, outer, true), c.ints(2)), c.meta(6).type);
}

// ---- batch norm: channels are dim 1 -----------------------------------------------------------------

/// input, weight, bias, running_mean, running_var, training, momentum, eps -> output, save_mean, save_invstd
void batchNorm(Call& c) {
  Value x = c.f32(0);
  if (!c.ok() || c.rank(x) < 2 || hpu::numElements(c.shape(x)) == 0) return (void)c.unsupported("no elements");
  Ints outer = allBut(c.rank(x), {1});
  Shape along = only(c.shape(x), {1}), channels = {c.dim(x, 1)};
  const ElementType type = c.meta(0).type;
  Value gamma = parameter(c, 1, along), beta = parameter(c, 2, along);
  if (!c.flag(5)) {
    Value istd = c.op("rsqrt", {c.add(parameter(c, 4, along), c.real(7))});
    c.out(0, normalised(c, x, parameter(c, 3, along), istd, gamma, beta), type);
    c.out(1, c.full({ElementType::kF32, {0}}, 0));
    return c.out(2, c.full({ElementType::kF32, {0}}, 0));
  }
  Moments m = momentsOf(c, x, outer, c.real(7));
  c.out(0, normalised(c, x, m.mean, m.istd, gamma, beta), type);
  c.out(1, c.reshape(m.mean, channels));
  c.out(2, c.reshape(m.istd, channels));
  // The running variance is of the unbiased one. Counts are numbers of their own, as they follow from sizes.
  const int64_t count = hpu::numElements(c.shape(x)) / channels[0];
  const double momentum = c.real(6);
  Value unbiased = m.variance;
  if (count > 1)
    unbiased =
        c.div(c.mul(unbiased, static_cast<double>(count)), c.scalar(static_cast<double>(count - 1), ElementType::kF32));
  if (c.has(3)) c.write(3, c.add(c.mul(c.f32(3), 1 - momentum), c.reshape(c.mul(m.mean, momentum), channels)));
  if (c.has(4)) c.write(4, c.add(c.mul(c.f32(4), 1 - momentum), c.reshape(c.mul(unbiased, momentum), channels)));
}

/// grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
void batchNormBackward(Call& c) {
  Value g = c.f32(0), x = c.f32(1);
  if (!c.ok() || c.rank(x) < 2 || hpu::numElements(c.shape(x)) == 0) return (void)c.unsupported("no elements");
  Ints outer = allBut(c.rank(x), {1}), mask = c.ints(9);
  Shape along = only(c.shape(x), {1}), channels = {c.dim(x, 1)};
  const bool isTraining = c.flag(7);
  Value mean = parameter(c, isTraining ? 5 : 3, along);
  Value istd = isTraining ? parameter(c, 6, along) : c.op("rsqrt", {c.add(parameter(c, 4, along), c.real(8))});
  Value xHat = c.mul(c.sub(x, mean), istd), gamma = parameter(c, 2, along);
  Value scaled = gamma.handle ? c.mul(g, gamma) : g;
  const ElementType type = c.meta(1).type, parameters = c.has(2) ? c.meta(2).type : ElementType::kF32;
  if (mask[0]) c.out(0, isTraining ? normBackward(c, scaled, xHat, istd, outer) : c.mul(scaled, istd), type);
  if (mask[1]) c.out(1, c.reshape(c.reduceSum(c.mul(g, xHat), outer, true), channels), parameters);
  if (mask[2]) c.out(2, c.reshape(c.reduceSum(g, outer, true), channels), parameters);
}

// ---- group norm -------------------------------------------------------------------------------------

void groupNorm(Call& c) {  // input, weight, bias, N, C, HxW, group, eps -> output, mean, rstd
  Value x = c.f32(0);
  Shape shape = c.shape(x);
  if (!c.ok()) return;
  if (hpu::numElements(shape) == 0) {
    Value statistics = c.full({ElementType::kF32, {c.integer(3), c.integer(6)}}, 0);
    c.out(0, c.full(c.type(x), 0), c.meta(0).type);
    c.out(1, statistics, c.meta(0).type);
    return c.out(2, statistics, c.meta(0).type);
  }
  const int64_t n = c.integer(3), channels = c.integer(4), groups = c.integer(6);
  Value grouped = c.reshape(x, {n, groups, channels / groups, c.integer(5)});
  Moments m = momentsOf(c, grouped, {2, 3}, c.real(7));
  Value y = c.reshape(c.mul(c.sub(grouped, m.mean), m.istd), shape);
  Shape along = only(shape, {1});
  if (Value gamma = parameter(c, 1, along); gamma.handle) y = c.mul(y, gamma);
  if (Value beta = parameter(c, 2, along); beta.handle) y = c.add(y, beta);
  c.out(0, y, c.meta(0).type);
  c.out(1, c.reshape(m.mean, {n, groups}), c.meta(0).type);
  c.out(2, c.reshape(m.istd, {n, groups}), c.meta(0).type);
}

/// grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask
void groupNormBackward(Call& c) {
  Value g = c.f32(0), x = c.f32(1);
  Shape shape = c.shape(x);
  if (!c.ok()) return;
  const int64_t n = c.integer(5), channels = c.integer(6), groups = c.integer(8);
  Ints mask = c.ints(9);
  if (hpu::numElements(shape) == 0) return outZeros(c, mask, 1, 4, 4);
  Shape grouped = {n, groups, channels / groups, c.integer(7)}, statistics = {n, groups, 1, 1};
  Value istd = parameter(c, 3, statistics);
  Value xHat = c.mul(c.sub(c.reshape(x, grouped), parameter(c, 2, statistics)), istd);
  Value scaled = c.has(4) ? c.mul(g, parameter(c, 4, only(shape, {1}))) : g;
  if (mask[0])
    c.out(0, c.reshape(normBackward(c, c.reshape(scaled, grouped), xHat, istd, {2, 3}), shape), c.meta(1).type);
  Ints outer = allBut(static_cast<int64_t>(shape.size()), {1});
  const ElementType type = c.has(4) ? c.meta(4).type : ElementType::kF32;
  if (mask[1]) c.out(1, c.reshape(c.reduceSum(c.mul(g, c.reshape(xHat, shape)), outer, true), {channels}), type);
  if (mask[2]) c.out(2, c.reshape(c.reduceSum(g, outer, true), {channels}), type);
}

// ---- weight norm: slices of one dim, the first or the last, of length g -------------------------------

/// The dims over which the length of a slice is taken; none of one dim.
Ints otherDims(Call& c, size_t v, int64_t dim) {
  if (dim < 0 || hpu::numElements(c.meta(v).sizes) == 0) c.unsupported("a negative dim, or no elements");
  return allBut(static_cast<int64_t>(c.meta(v).sizes.size()), {dim});
}

void weightNorm(Call& c) {  // v, g, dim -> w, norms
  Value v = c.f32(0), g = c.f32(1);
  const Ints dims = otherDims(c, 0, c.integer(2));
  if (!c.ok()) return;
  Value norm = c.op("sqrt", {dims.empty() ? c.mul(v, v) : c.reduceSum(c.mul(v, v), dims, true)});
  c.out(0, c.mul(v, c.div(c.reshape(g, c.shape(norm)), norm)), c.meta(0).type);
  const ElementType type = c.meta(1).type;
  c.out(1, c.reshape(norm, c.meta(1).sizes), type == ElementType::kBF16 ? ElementType::kF32 : type);
}

void weightNormBackward(Call& c) {  // grad_w, saved_v, saved_g, saved_norms, dim -> grad_v, grad_g
  Value grad = c.f32(0), v = c.f32(1);
  const Ints dims = otherDims(c, 1, c.integer(4));
  if (!c.ok()) return;
  Value dot = dims.empty() ? c.mul(grad, v) : c.reduceSum(c.mul(grad, v), dims, true);
  Value norm = c.reshape(c.f32(3), c.shape(dot)), g = c.reshape(c.f32(2), c.shape(dot));
  Value along = c.div(dot, norm);
  c.out(0, c.mul(c.div(g, norm), c.sub(grad, c.mul(v, c.div(along, norm)))), c.meta(1).type);
  c.out(1, c.reshape(along, c.meta(2).sizes), c.meta(2).type);
}

}  // namespace

const std::vector<Row>& normalizationOps() {
  static const auto& rows = *new std::vector<Row>{
      {"native_layer_norm", layerNorm, {}, Row::kOwnShapes},
      {"native_layer_norm_backward", layerNormBackward, {}, Row::kOwnShapes},
      {"native_batch_norm", batchNorm, {}, Row::kOwnShapes | Row::kKeepsFormat, "3 4"},
      {"native_batch_norm_backward", batchNormBackward, {}, Row::kOwnShapes | Row::kKeepsFormat},
      {"native_group_norm", groupNorm, {}, Row::kOwnShapes},
      {"native_group_norm_backward", groupNormBackward, {}, Row::kOwnShapes},
      {"_weight_norm_interface", weightNorm, {}, Row::kOwnShapes},
      {"_weight_norm_interface_backward", weightNormBackward, {}, Row::kOwnShapes},
  };
  return rows;
}

}  // namespace hpu_torch
