// SPDX-License-Identifier: Apache-2.0
// Reductions. The one thing to know: sums of floats are f32 whatever the type, of integers i64, as PyTorch's.
#include <cmath>

#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isFloat;

int64_t countOf(Call& c, Value x, const Ints& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= c.dim(x, d);
  return count;
}

Shape reducedSizes(const Shape& shape, const Ints& dims, bool keep) {
  Shape result = shape;
  for (int64_t d : dims) result[static_cast<size_t>(d)] = keep ? 1 : -1;
  std::erase(result, -1);
  return result;
}

/// Sum over dims; of no elements 0.
Value sumOver(Call& c, Value x, const Ints& dims, bool keep) {
  if (countOf(c, x, dims) == 0) return c.full({c.element(x), reducedSizes(c.shape(x), dims, keep)}, 0);
  return c.reduceSum(x, dims, keep);
}

/// The type in which a sum is computed.
ElementType summing(Call& c) {
  ElementType type = c.outType(0);
  return isFloat(type) || type == ElementType::kInvalid ? ElementType::kF32 : type;
}

/// Of all elements as bools: a sum is whether any is true, a product whether all are.
void outOfBools(Call& c, const Ints& dims, bool keep, bool isProduct) {
  Value x = c.in(0);
  if (countOf(c, x, dims) == 0)
    return c.out(0, c.full({ElementType::kBool, reducedSizes(c.shape(x), dims, keep)}, isProduct));
  Value bytes = c.cast(c.toBool(x), ElementType::kU8);
  c.out(0, c.toBool(c.reduce(isProduct ? "reduce_min" : "reduce_max", bytes, dims, keep)));
}
void sum(Call& c) {  // self, dim, keepdim, dtype
  if (c.outType(0) == ElementType::kBool) return outOfBools(c, c.dimensions(1, c.rank(c.in(0))), c.flag(2), false);
  Value x = c.in(0, summing(c));
  c.out(0, sumOver(c, x, c.dimensions(1, c.rank(x)), c.flag(2)));
}
void mean(Call& c) {  // self, dim, keepdim, dtype
  Value x = c.f32(0);
  Ints dims = c.dimensions(1, c.rank(x));
  c.out(0, c.div(sumOver(c, x, dims, c.flag(2)), static_cast<double>(countOf(c, x, dims))));
}

Value extreme(Call& c, Value x, const Ints& dims, bool keep) {
  if (c.element(x) != ElementType::kBool) return c.reduce(c.variant(), x, dims, keep);
  return c.toBool(c.reduce(c.variant(), c.cast(x, ElementType::kU8), dims, keep));
}
void extremes(Call& c) {  // self, dim, keepdim
  Value x = c.wide(0);
  c.out(0, extreme(c, x, c.dimensions(1, c.rank(x)), c.flag(2)));
}
void extremeOfAll(Call& c) {
  if (hpu::numElements(c.meta(0).sizes) == 0) return (void)c.unsupported("no elements");
  Value x = c.wide(0);
  c.out(0, extreme(c, x, c.dimensions(99, c.rank(x)), false));
}

/// The index of the first largest (smallest) element along a dim, which stays with size 1; NaN is larger (smaller).
Value position(Call& c, Value x, int64_t dim, bool smallest) {
  if (c.element(x) == ElementType::kBool) x = c.cast(x, ElementType::kI32);
  if (smallest) x = isFloat(c.element(x)) ? c.neg(x) : c.sub(c.scalarLike(x, -1), x);
  return c.op("arg_max", {x}, {{"axis", dim}, {"keepdims", int64_t{1}}});
}

void extremeWithIndex(Call& c) {  // self, dim, keepdim -> values, indices
  Value x = c.wide(0);
  if (c.rank(x) == 0) {
    c.out(0, x);
    return c.out(1, c.scalar(0, ElementType::kI64));
  }
  const bool keep = c.flag(2);
  int64_t dim = c.dimension(1, c.rank(x));
  Value index = position(c, x, dim, c.variant() == "min");
  Value value = c.op("gather_elements", {x, index}, {{"axis", dim}});
  Shape sizes = reducedSizes(c.shape(x), {dim}, keep);
  c.out(0, c.reshape(value, sizes));
  c.out(1, c.reshape(index, sizes));
}

void argExtreme(Call& c) {  // self, dim, keepdim
  Value x = c.wide(0);
  Shape shape = c.shape(x);
  const bool smallest = c.variant() == "min";
  if (!c.has(1) || shape.empty()) {
    Value index = position(c, c.reshape(x, {hpu::numElements(shape)}), 0, smallest);
    return c.out(0, c.reshape(index, Shape(c.has(2) && c.flag(2) ? shape.size() : 0, 1)));
  }
  int64_t dim = c.dimension(1, c.rank(x));
  c.out(0, c.reshape(position(c, x, dim, smallest), reducedSizes(shape, {dim}, c.flag(2))));
}

void truth(Call& c, const Ints& dims, bool keep) {
  Value x = c.cast(c.toBool(c.in(0)), ElementType::kU8);
  const bool isAll = c.variant() == "all";
  if (countOf(c, x, dims) == 0)
    return c.out(0, c.full({ElementType::kBool, reducedSizes(c.shape(x), dims, keep)}, isAll ? 1 : 0));
  c.out(0, c.toBool(c.reduce(isAll ? "reduce_min" : "reduce_max", x, dims, keep)));
}
void truthOfDim(Call& c) {  // self, dim, keepdim
  truth(c, c.dimensions(1, static_cast<int64_t>(c.meta(0).sizes.size())), c.flag(2));
}
void truthOfAll(Call& c) {
  truth(c, c.dimensions(99, static_cast<int64_t>(c.meta(0).sizes.size())), false);
}

void variance(Call& c) {  // self, dim, correction, keepdim
  Value x = c.f32(0);
  Ints dims = c.dimensions(1, c.rank(x));
  const int64_t count = countOf(c, x, dims), correction = c.has(2) ? c.integer(2) : 1;
  if (count == 0)
    return c.out(0, c.full({ElementType::kF32, reducedSizes(c.shape(x), dims, c.flag(3))}, NAN), c.meta(0).type);
  Value mean = c.reduceMean(x, dims, true), centred = c.sub(x, mean);
  Value v = c.reduceSum(c.mul(centred, centred), dims, c.flag(3));
  v = c.div(v, c.scalar(static_cast<double>(std::max<int64_t>(0, count - correction)), ElementType::kF32));
  c.out(0, c.variant() == "std" ? c.op("sqrt", {v}) : v, c.meta(0).type);
}

/// self, dim, correction, keepdim -> variance or deviation, mean
void varianceAndMean(Call& c) {
  variance(c);
  Value x = c.f32(0);
  Ints dims = c.dimensions(1, c.rank(x));
  if (!c.ok()) return;
  const int64_t count = countOf(c, x, dims);
  Value sum = sumOver(c, x, dims, c.flag(3));
  c.out(1, count == 0 ? c.full(c.type(sum), NAN) : c.div(sum, static_cast<double>(count)), c.meta(0).type);
}

void nanSum(Call& c) {  // self, dim, keepdim, dtype
  Value x = c.in(0, summing(c));
  if (isFloat(c.element(x))) x = c.where(c.op("is_nan", {x}), c.scalarLike(x, 0), x);
  c.out(0, sumOver(c, x, c.dimensions(1, c.rank(x)), c.flag(2)), c.meta(0).type);
}

void countNonZero(Call& c) {  // self, dim
  Value x = c.cast(c.toBool(c.in(0)), ElementType::kI64);
  c.out(0, sumOver(c, x, c.dimensions(1, c.rank(x)), false), ElementType::kI64);
}

void bothExtremes(Call& c) {  // self, dim, keepdim -> min, max
  Value x = c.wide(0);
  const bool isBool = c.ok() && c.element(x) == ElementType::kBool;
  if (isBool) x = c.cast(x, ElementType::kU8);
  const bool ofDim = c.has(1);
  Ints dims = ofDim ? Ints{c.dimension(1, c.rank(x))} : c.dimensions(99, c.rank(x));
  if (c.ok() && c.rank(x) == 0) dims.clear();
  for (size_t k = 0; k < 2; ++k) {
    Value v = dims.empty() ? x : c.reduce(k == 0 ? "reduce_min" : "reduce_max", x, dims, c.flag(2));
    c.out(k, isBool ? c.toBool(v) : v);
  }
}

/// The p-norm over dims; p is part of what is compiled.
void normOver(Call& c, double p, const Ints& dims, bool keep) {
  Value a = c.op("abs", {c.f32(0)});
  if (!c.ok()) return;
  if (countOf(c, a, dims) == 0) {
    if (std::isinf(p) || p < 0) return (void)c.unsupported("an extreme of nothing");
    return c.out(0, c.full({ElementType::kF32, reducedSizes(c.shape(a), dims, keep)}, 0));
  }
  if (std::isinf(p)) return c.out(0, c.reduce(p > 0 ? "reduce_max" : "reduce_min", a, dims, keep));
  if (p == 1) return c.out(0, c.reduceSum(a, dims, keep));
  if (p == 2) return c.out(0, c.op("sqrt", {c.reduceSum(c.mul(a, a), dims, keep)}));
  if (p == 0) {
    Value isZero = c.op("equal", {a, c.scalarLike(a, 0)});
    return c.out(0, c.reduceSum(c.cast(c.op("not", {isZero}), ElementType::kF32), dims, keep));
  }
  Value sum = c.reduceSum(c.op("pow", {a, c.scalarLike(a, p)}), dims, keep);
  c.out(0, c.op("pow", {sum, c.scalarLike(sum, 1 / p)}));
}
void norm(Call& c) {  // self, p, dim, keepdim
  normOver(c, c.has(1) ? c.real(1) : 2, c.dimensions(2, static_cast<int64_t>(c.meta(0).sizes.size())), c.flag(3));
}

void cumulative(Call& c) {  // self, dim, dtype
  ElementType type = Call::computing(c.outType(0));
  Value x = c.in(0, type);
  if (!c.ok() || c.rank(x) == 0 || hpu::numElements(c.shape(x)) == 0) return c.out(0, x);
  c.out(0, scan(c, x, c.dimension(1, c.rank(x)), c.variant(), /*exclusive=*/false, /*reverse=*/false));
}

/// Combines each element with all before it along `dim`, in steps of powers of two. What is moved in at the beginning
/// is `neutral`.
template <typename Combine>
void forAllBefore(Call& c, int64_t dim, int64_t size, Combine&& combine) {
  for (int64_t by = 1; by < size && c.ok(); by *= 2)
    combine([&c, dim, size, by](Value v, double neutral) {
      Ints low(c.shape(v).size(), 0), high(low);
      low[static_cast<size_t>(dim)] = by;
      return c.pad(c.sliceDim(v, dim, 0, size - by), low, high, neutral);
    });
}

void logCumulative(Call& c) {  // self, dim
  Value x = c.f32(0);
  if (!c.ok() || c.rank(x) == 0 || hpu::numElements(c.shape(x)) == 0) return c.out(0, x, c.meta(0).type);
  const int64_t dim = c.dimension(1, c.rank(x));
  forAllBefore(c, dim, c.dim(x, dim), [&](auto moved) {
    Value before = moved(x, -HUGE_VAL), large = c.max(x, before), small = c.min(x, before);
    // Of two equal infinities the distance is no number.
    Value isSame = c.op("equal", {x, before});
    Value rest = c.op("log1p", {c.op("exp", {c.where(isSame, c.scalarLike(x, 0), c.sub(small, large))})});
    x = c.add(large, rest);
  });
  c.out(0, x, c.meta(0).type);
}

/// self, values, indices, dim: writes the extreme so far and where it was last.
void cumulativeExtreme(Call& c) {
  Value x = c.wide(0);
  if (!c.ok() || hpu::numElements(c.shape(x)) == 0) return (void)c.unsupported("no elements");
  if (c.rank(x) == 0) {
    c.write(1, x);
    return c.write(2, c.full({ElementType::kI64, {}}, 0));
  }
  const int64_t dim = c.dimension(3, c.rank(x)), size = c.dim(x, dim);
  const bool isMax = c.variant() == "max", isReal = isFloat(c.element(x));
  if (c.element(x) == ElementType::kBool) x = c.cast(x, ElementType::kI32);
  Value place = c.expand(hpu::compose::counter(c, size, dim, c.rank(x)), c.shape(x));
  Value step = hpu::compose::counter(c, size, dim, c.rank(x));
  int64_t by = 1;
  forAllBefore(c, dim, size, [&](auto moved) {
    Value before = moved(x, 0), where = moved(place, 0);
    Value isKept = c.op(isMax ? "greater_equal" : "less_equal", {x, before});
    if (isReal) isKept = c.op("or", {isKept, c.op("is_nan", {x})});
    // Nothing is before the first elements.
    isKept = c.op("or", {isKept, c.op("less", {step, c.scalarLike(step, static_cast<double>(by))})});
    x = c.where(isKept, x, before);
    place = c.where(isKept, place, where);
    by *= 2;
  });
  c.write(1, x);
  c.write(2, place);
}

void product(Call& c) {  // self, dim, keepdim, dtype
  ElementType type = summing(c);
  const bool ofDim = c.variant() == "dim";
  Ints dims = c.dimensions(ofDim ? 1 : 99, c.rank(c.in(0)));
  if (c.outType(0) == ElementType::kBool) return outOfBools(c, dims, ofDim && c.flag(2), true);
  Value x = c.in(0, type);
  if (countOf(c, x, dims) == 0) return c.out(0, c.full({type, reducedSizes(c.shape(x), dims, ofDim && c.flag(2))}, 1));
  c.out(0, c.reduce("reduce_prod", x, dims, ofDim && c.flag(2)));
}

}  // namespace

const std::vector<Row>& reductionOps() {
  static const auto& rows = *new std::vector<Row>{
      {"sum.IntList_out", sum},
      {"mean.out", mean},
      {"amax.out", extremes, "reduce_max"},
      {"amin.out", extremes, "reduce_min"},
      {"max", extremeOfAll, "reduce_max"},
      {"min", extremeOfAll, "reduce_min"},
      {"max.dim_max", extremeWithIndex, "max"},
      {"min.dim_min", extremeWithIndex, "min"},
      {"argmax.out", argExtreme, "max"},
      {"argmin.out", argExtreme, "min"},
      {"all.out", truthOfDim, "all"},
      {"any.out", truthOfDim, "any"},
      {"all.all_out", truthOfAll, "all"},
      {"any.all_out", truthOfAll, "any"},
      {"norm.out linalg_vector_norm.out", norm, {}, Row::kFixedNumbers},
      {"var_mean.correction", varianceAndMean, "var", Row::kOwnShapes},
      {"std_mean.correction", varianceAndMean, "std", Row::kOwnShapes},
      {"nansum nansum.out", nanSum},
      {"count_nonzero.dim_IntList", countNonZero, {}, Row::kOwnShapes},
      {"aminmax.out", bothExtremes},
      {"_logcumsumexp", logCumulative, {}, Row::kOwnShapes},
      {"_cummax_helper", cumulativeExtreme, "max"},
      {"_cummin_helper", cumulativeExtreme, "min"},
      {"cumsum.out", cumulative, "add"},
      {"cumprod.out", cumulative, "mul"},
      {"prod.int_out", product, "dim"},
      {"prod", product},
      {"var.correction", variance, "var"},
      {"std.correction", variance, "std"},
  };
  return rows;
}

}  // namespace hpu_torch
