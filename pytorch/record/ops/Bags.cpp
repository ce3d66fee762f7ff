// SPDX-License-Identifier: Apache-2.0
// Bags of embeddings: sums, means or maxima of rows that a list of offsets divides. The one thing to know: the mode is
// PyTorch's number.
#include <cmath>

#include "compose/Functions.h"
#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

enum Mode : int64_t { kSumOfBag, kMeanOfBag, kMaxOfBag };

/// 1 where an index counts, 0 at the padding; f32, [n, 1].
Value counted(Call& c, Value indices, int64_t padding, int64_t n) {
  if (padding < 0) return c.full({ElementType::kF32, {n, 1}}, 1);
  Value isPadding = hpu::compose::isEqual(c, indices, static_cast<double>(padding));
  return c.reshape(c.where(isPadding, c.scalar(0, ElementType::kF32), c.scalar(1, ElementType::kF32)), {n, 1});
}

/// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
/// -> output, offset2bag, bag_size, max_indices
void embeddingBag(Call& c) {
  const int64_t n = hpu::numElements(c.meta(1).sizes), mode = c.integer(4), width = c.meta(0).sizes[1];
  const int64_t bags = hpu::numElements(c.meta(2).sizes) - (c.flag(7) ? 1 : 0);
  if (c.flag(5)) return (void)c.unsupported("sparse gradients");
  if (n == 0 || bags < 1 || hpu::numElements(c.meta(0).sizes) == 0) return (void)c.unsupported("no elements");
  const ElementType type = c.meta(0).type, indexType = c.meta(1).type;
  Value indices = plainIndices(c, c.in(1)), offsets = c.cast(c.in(2), ElementType::kI32);
  Value starts = c.reshape(c.sliceDim(offsets, 0, 0, bags), {1, bags});
  // The number of bags that begin at or before an element; empty bags begin with the next one.
  Value begun = c.op("less_equal", {starts, hpu::compose::counter(c, n, 0, 2)});
  Value bag = c.sub(c.reduceSum(c.cast(begun, ElementType::kI32), {1}, true), 1.0);
  Value counts = counted(c, indices, c.integer(8), n);
  Value none = c.full({ElementType::kF32, {bags, 1}}, 0), size = scatterAlong(c, none, bag, counts, 0, "add");
  Value rows = c.toF32(c.gather(c.in(0), indices, 0)), isCounted = hpu::compose::isGreater(c, counts, 0);
  Value result, largest = c.full({ElementType::kI64, {bags}}, 0);
  if (mode == kMaxOfBag) {
    rows = c.where(isCounted, rows, c.scalarLike(rows, -HUGE_VAL));
    Value lowest = c.full({ElementType::kF32, {bags, width}}, -HUGE_VAL);
    Value most = scatterAlong(c, lowest, bag, rows, 0, "max");
    // The first of the elements that are the largest.
    Value own = c.gather(most, c.reshape(bag, {n}), 0), place = hpu::compose::counter(c, n, 0, 2);
    Value last = c.scalarLike(place, static_cast<double>(n - 1));
    Value hit = c.op("and", {c.op("equal", {rows, own}), isCounted});
    Value first = scatterAlong(c, c.full({ElementType::kI32, {bags, width}}, static_cast<double>(n - 1)), bag,
                               c.where(hit, place, last), 0, "min");
    largest = c.gather(indices, first, 0);
    result = c.where(hpu::compose::isGreater(c, size, 0), most, c.scalarLike(most, 0));
  } else {
    Value scaled = c.mul(rows, counts);
    if (c.has(6)) scaled = c.mul(scaled, c.reshape(c.f32(6), {n, 1}));
    result = scatterAlong(c, c.full({ElementType::kF32, {bags, width}}, 0), bag, scaled, 0, "add");
    if (mode == kMeanOfBag) result = c.div(result, c.max(size, c.scalarLike(size, 1)));
  }
  c.out(0, result, type);
  c.out(1, c.reshape(bag, {n}), indexType);
  c.out(2, c.reshape(size, {bags}), indexType);
  c.out(3, largest, indexType);
}

/// grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
/// padding_idx
void embeddingBagBackward(Call& c) {
  const int64_t n = hpu::numElements(c.meta(1).sizes), rows = c.integer(5), mode = c.integer(7);
  Value g = c.f32(0);
  const int64_t width = c.dim(g, -1);
  Value zeros = c.full({ElementType::kF32, {rows, width}}, 0);
  if (!c.ok() || n == 0 || hpu::numElements(c.shape(g)) == 0) return c.out(0, zeros, c.meta(0).type);
  Value size = c.reshape(c.f32(3), {hpu::numElements(c.meta(3).sizes), 1});
  if (mode == kMaxOfBag) {
    Value isFull = hpu::compose::isGreater(c, size, 0);
    return c.out(0, scatterAlong(c, zeros, plainIndices(c, c.in(4)), c.where(isFull, g, c.scalarLike(g, 0)), 0, "add"),
                 c.meta(0).type);
  }
  if (hpu::numElements(c.meta(2).sizes) != n) return (void)c.unsupported("no list of bags");
  Value indices = plainIndices(c, c.in(1)), at = c.reshape(indices, {n, 1});
  if (mode == kMeanOfBag) g = c.div(g, c.max(size, c.scalarLike(size, 1)));
  Value parts = c.mul(c.gather(g, plainIndices(c, c.in(2)), 0), counted(c, indices, c.integer(9), n));
  if (c.has(8)) parts = c.mul(parts, c.reshape(c.f32(8), {n, 1}));
  if (c.flag(6)) {
    Value times = scatterAlong(c, c.full({ElementType::kF32, {rows, 1}}, 0), at, c.full({ElementType::kF32, {n, 1}}, 1),
                               0, "add");
    parts = c.div(parts, c.gather(times, indices, 0));
  }
  c.out(0, scatterAlong(c, zeros, at, parts, 0, "add"), c.meta(0).type);
}

/// grad, weight, indices, offsets, offset2bag, mode, padding_idx
void sampleWeightsBackward(Call& c) {
  const int64_t n = hpu::numElements(c.meta(2).sizes);
  if (n == 0 || hpu::numElements(c.meta(4).sizes) != n) return (void)c.unsupported("no list of bags");
  Value indices = plainIndices(c, c.in(2));
  Value own = c.gather(c.f32(0), plainIndices(c, c.in(4)), 0), rows = c.gather(c.f32(1), indices, 0);
  Value dot = c.mul(c.reduceSum(c.mul(own, rows), {1}, true), counted(c, indices, c.integer(6), n));
  c.out(0, c.reshape(dot, {n}), c.meta(0).type);
}

}  // namespace

const std::vector<Row>& bagOps() {
  static const auto& rows = *new std::vector<Row>{
      {"_embedding_bag _embedding_bag_forward_only", embeddingBag, {}, Row::kOwnShapes},
      {"_embedding_bag_dense_backward", embeddingBagBackward, {}, Row::kOwnShapes},
      {"_embedding_bag_per_sample_weights_backward", sampleWeightsBackward, {}, Row::kOwnShapes},
  };
  return rows;
}

}  // namespace hpu_torch
