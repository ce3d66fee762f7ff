// SPDX-License-Identifier: Apache-2.0
// Sorting, and what is found by an order. The one thing to know: sorts are stable and NaN counts as the largest number,
// as in PyTorch; of equal elements topk names the first.
#include <cmath>

#include "compose/Functions.h"
#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::insertDim;
using hpu::compose::isFloat;

/// Comparisons of all pairs along a dim: more of them than this are better counted by a sort on the CPU.
constexpr int64_t kMostPairs = int64_t{1} << 26;

struct Ordered {
  Value values, indices;
};
Ordered firstOf(Call& c, Value x, int64_t dim, int64_t count, bool largest) {
  Value key = c.element(x) == ElementType::kBool ? c.cast(x, ElementType::kU8) : x;
  Value indices = c.op("top_indices", {key}, {{"axis", dim}, {"sizes", Ints{count}}, {"largest", int64_t{largest}}});
  return {c.op("gather_elements", {x, indices}, {{"axis", dim}}), indices};
}

/// A number is in order as it is.
bool isNumberOrEmpty(Call& c, Value x) {
  if (!c.ok()) return true;
  if (c.rank(x) > 0 && hpu::numElements(c.shape(x)) > 0) return false;
  if (c.rank(x) > 0) return c.unsupported("no elements"), true;
  c.out(0, x);
  c.out(1, c.scalar(0, ElementType::kI64));
  return true;
}

void sort(Call& c) {  // self, stable, dim, descending
  Value x = c.in(0);
  if (isNumberOrEmpty(c, x)) return;
  const int64_t dim = c.dimension(2, c.rank(x));
  Ordered ordered = firstOf(c, x, dim, c.dim(x, dim), c.flag(3));
  c.out(0, ordered.values);
  c.out(1, ordered.indices);
}

void topK(Call& c) {  // self, k, dim, largest, sorted
  Value x = c.in(0);
  if (isNumberOrEmpty(c, x)) return;
  if (c.integer(1) == 0) return (void)c.unsupported("k = 0");
  Ordered ordered = firstOf(c, x, c.dimension(2, c.rank(x)), c.integer(1), c.flag(3));
  c.out(0, ordered.values);
  c.out(1, ordered.indices);
}

/// Results with or without the dim.
void outPicked(Call& c, const Ordered& one, int64_t dim, bool keep) {
  c.out(0, keep ? one.values : hpu::compose::removeDim(c, one.values, dim), c.meta(0).type);
  c.out(1, keep ? one.indices : hpu::compose::removeDim(c, one.indices, dim), ElementType::kI64);
}

void kthValue(Call& c) {  // self, k, dim, keepdim
  Value x = c.in(0);
  if (isNumberOrEmpty(c, x)) return;
  const int64_t dim = c.dimension(2, c.rank(x)), k = c.integer(1);
  if (k < 1 || k > c.dim(x, dim)) return (void)c.unsupported("such a k");
  Ordered ordered = firstOf(c, x, dim, k, false);
  ordered.values = c.sliceDim(ordered.values, dim, k - 1, 1);
  ordered.indices = c.sliceDim(ordered.indices, dim, k - 1, 1);
  outPicked(c, ordered, dim, c.flag(3));
}

/// The lower median along a dim, which stays. NaN is the median of what has one, unless NaNs are left out.
Ordered medianOf(Call& c, Value x, int64_t dim, bool leavesOut) {
  const int64_t size = c.dim(x, dim);
  Ordered all = firstOf(c, x, dim, size, false);
  Value at = c.scalar(static_cast<double>((size - 1) / 2), ElementType::kI32);
  if (isFloat(c.element(x))) {
    Value isNan = c.cast(c.op("is_nan", {all.values}), ElementType::kI32), count = c.reduceSum(isNan, {dim}, true);
    Value among = c.div(c.sub(c.scalarLike(count, static_cast<double>(size - 1)), count), c.scalarLike(count, 2));
    // With NaNs: the first of them, which is behind all numbers. Nothing but NaNs: the first element.
    if (leavesOut)
      at = c.max(among, c.scalarLike(among, 0));
    else
      at = c.where(hpu::compose::isGreater(c, count, 0), c.sub(c.scalarLike(count, static_cast<double>(size)), count),
                   at);
  }
  Shape sizes = c.shape(x);
  if (c.ok()) sizes[static_cast<size_t>(dim)] = 1;
  at = c.expand(at, sizes);
  return {c.op("gather_elements", {all.values, at}, {{"axis", dim}}),
          c.op("gather_elements", {all.indices, at}, {{"axis", dim}})};
}
void medianOfDim(Call& c) {  // self, dim, keepdim
  Value x = c.in(0);
  if (isNumberOrEmpty(c, x)) return;
  const int64_t dim = c.dimension(1, c.rank(x));
  outPicked(c, medianOf(c, x, dim, c.variant() == "nan"), dim, c.flag(2));
}
void medianOfAll(Call& c) {
  Value x = c.in(0);
  if (!c.ok() || hpu::numElements(c.shape(x)) == 0) return (void)c.unsupported("no elements");
  Value flat = c.reshape(x, {hpu::numElements(c.shape(x))});
  c.out(0, c.reshape(medianOf(c, flat, 0, c.variant() == "nan").values, {}), c.meta(0).type);
}

/// The most frequent value along a dim, of several the smallest, and where it is last.
void mode(Call& c) {  // self, dim, keepdim
  Value x = c.in(0);
  if (isNumberOrEmpty(c, x)) return;
  const int64_t rank = c.rank(x), dim = c.dimension(1, rank), size = c.dim(x, dim);
  if (hpu::numElements(c.shape(x)) * size > kMostPairs) return (void)c.unsupported("more than 2^26 pairs to compare");
  if (c.element(x) == ElementType::kBool) x = c.cast(x, ElementType::kI32);
  Value sorted = firstOf(c, x, dim, size, false).values;
  Value same = c.op("equal", {insertDim(c, sorted, dim + 1), insertDim(c, sorted, dim)});
  Value count = c.reduceSum(c.cast(same, ElementType::kI32), {dim + 1}, false);
  // The first of the largest counts among sorted values is the smallest value.
  Value best = c.op("arg_max", {count}, {{"axis", dim}, {"keepdims", int64_t{1}}});
  Value value = c.op("gather_elements", {sorted, best}, {{"axis", dim}});
  Value position = hpu::compose::counter(c, size, dim, rank);
  Value where = c.where(c.op("equal", {x, value}), position, c.scalarLike(position, -1));
  outPicked(c, {value, c.reduceMax(where, {dim}, true)}, dim, c.flag(2));
}

/// Of each value the number of sorted elements below it, or not above it.
Value placesOf(Call& c, Value sorted, Value values, bool right) {
  const int64_t rank = c.rank(values);
  Shape along = c.shape(sorted);
  if (!c.ok()) return {};
  if (along.size() > 1 || rank == 0) {
    if (rank > 0) along.insert(along.end() - 1, 1);
  } else {
    along.insert(along.begin(), static_cast<size_t>(rank), 1);
  }
  if (hpu::numElements(c.shape(sorted)) * hpu::numElements(c.shape(values)) > kMostPairs)
    return c.unsupported("more than 2^26 pairs to compare");
  Value wide = insertDim(c, values, rank);
  Value below =
      right ? c.op("less_equal", {c.reshape(sorted, along), wide}) : c.op("less", {c.reshape(sorted, along), wide});
  // NaN is behind all numbers.
  if (isFloat(c.element(values))) {
    Value isNan = c.op("is_nan", {wide});
    below = c.op(
        "or", {below, right ? isNan : c.op("and", {isNan, c.op("not", {c.op("is_nan", {c.reshape(sorted, along)})})})});
  }
  return c.reduceSum(c.cast(below, ElementType::kI32), {rank}, false);
}
/// sorted_sequence, self, out_int32, right, side, sorter
void searchSorted(Call& c) {
  Value sorted = c.wide(0), values = c.wide(1);
  const ElementType type = c.flag(2) ? ElementType::kI32 : ElementType::kI64;
  if (!c.ok() || hpu::numElements(c.shape(sorted)) == 0) return c.out(0, c.full({type, c.shape(values)}, 0));
  if (c.has(5)) sorted = c.op("gather_elements", {sorted, plainIndices(c, c.in(5))}, {{"axis", c.rank(sorted) - 1}});
  const bool right = c.flag(3) || (c.has(4) && c.text(4) == "right");
  c.out(0, placesOf(c, sorted, values, right), type);
}
void bucketize(Call& c) {  // self, boundaries, out_int32, right
  Value values = c.wide(0), sorted = c.wide(1);
  const ElementType type = c.flag(2) ? ElementType::kI32 : ElementType::kI64;
  if (!c.ok() || hpu::numElements(c.shape(sorted)) == 0) return c.out(0, c.full({type, c.shape(values)}, 0));
  c.out(0, placesOf(c, sorted, values, c.flag(3)), type);
}

/// repeats, output_size: each index as often as it is to be repeated.
void repeatInterleave(Call& c) {
  if (!c.has(1)) return (void)c.unsupported("no output_size: the size of its result depends on the counts");
  Value repeats = c.cast(c.in(0), ElementType::kI32);
  const int64_t size = c.integer(1), count = hpu::numElements(c.meta(0).sizes);
  if (size == 0 || count == 0) return c.out(0, c.full({c.meta(0).type, {size}}, 0), c.meta(0).type);
  Value ends = scan(c, repeats, 0, "add", /*exclusive=*/false, /*reverse=*/false);
  c.out(0, placesOf(c, ends, hpu::compose::counter(c, size, 0, 1), true), c.meta(0).type);
}

/// elements, test_elements, assume_unique, invert
void isIn(Call& c) {
  Value x = c.wide(0), tests = c.wide(1);
  const Shape sizes = c.shape(x);
  const int64_t count = hpu::numElements(c.shape(tests)), rank = c.rank(x);
  if (!c.ok()) return;
  if (count * hpu::numElements(sizes) > kMostPairs) return (void)c.unsupported("more than 2^26 pairs to compare");
  if (count == 0) return c.out(0, c.full({ElementType::kBool, sizes}, c.flag(3) ? 1 : 0));
  if (c.element(x) == ElementType::kBool) x = c.cast(x, ElementType::kU8), tests = c.cast(tests, ElementType::kU8);
  Shape along(static_cast<size_t>(rank), 1);
  along.push_back(count);
  Value same = c.op("equal", {insertDim(c, x, rank), c.reshape(tests, along)});
  Value found = c.toBool(c.reduceMax(c.cast(same, ElementType::kU8), {rank}, false));
  c.out(0, c.flag(3) ? c.op("not", {found}) : found);
}

/// How many elements are in each of as many equal parts of [min, max] as there are bins.
void histogram(Call& c) {  // self, bins, min, max
  Value x = c.f32(0);
  if (!c.ok()) return;
  const int64_t bins = c.integer(1), count = hpu::numElements(c.shape(x));
  if (!isFloat(c.meta(0).type) || count == 0) return (void)c.unsupported("integers, or no elements");
  x = c.reshape(x, {count});
  Value low = c.scalar(c.real(2), ElementType::kF32), high = c.scalar(c.real(3), ElementType::kF32);
  if (c.real(2) == c.real(3)) low = c.reduce("reduce_min", x, {0}, false), high = c.reduceMax(x, {0}, false);
  Value isPoint = c.op("equal", {low, high});
  low = c.where(isPoint, c.sub(low, 1), low);
  high = c.where(isPoint, c.add(high, 1), high);
  Value at = c.op("floor", {c.div(c.mul(c.sub(x, low), static_cast<double>(bins)), c.sub(high, low))});
  at = c.min(at, c.scalarLike(at, static_cast<double>(bins - 1)));  // The last part has its upper end.
  Value isInside = c.op("and", {c.op("greater_equal", {x, low}), c.op("less_equal", {x, high})});
  // An index behind the last bin changes nothing.
  at = c.where(isInside, at, c.scalarLike(at, static_cast<double>(bins)));
  Value none = c.full({ElementType::kF32, {bins}}, 0), one = c.full({ElementType::kF32, {count}}, 1);
  c.out(0, scatterAlong(c, none, c.cast(at, ElementType::kI32), one, 0, "add"), c.meta(0).type);
}

}  // namespace

const std::vector<Row>& sortOps() {
  static const auto& rows = *new std::vector<Row>{
      {"sort.values_stable", sort},
      {"topk.values", topK},
      {"kthvalue.values", kthValue, {}, Row::kOwnShapes},
      {"median.dim_values", medianOfDim, {}, Row::kOwnShapes},
      {"nanmedian.dim_values", medianOfDim, "nan", Row::kOwnShapes},
      {"median", medianOfAll, {}, Row::kOwnShapes},
      {"nanmedian", medianOfAll, "nan", Row::kOwnShapes},
      {"mode", mode, {}, Row::kOwnShapes},
      {"searchsorted.Tensor searchsorted.Scalar", searchSorted, {}, Row::kOwnShapes},
      {"bucketize.Tensor bucketize.Scalar", bucketize, {}, Row::kOwnShapes},
      {"repeat_interleave.Tensor", repeatInterleave, {}, Row::kOwnShapes},
      {"isin.Tensor_Tensor_out isin.Tensor_Scalar_out isin.Scalar_Tensor_out", isIn},
      {"histc", histogram, {}, Row::kOwnShapes | Row::kFixedNumbers},
  };
  return rows;
}

}  // namespace hpu_torch
