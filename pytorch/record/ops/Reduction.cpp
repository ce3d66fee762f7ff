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

void sum(Call& c) {  // self, dim, keepdim, dtype
  Value x = c.in(0, summing(c));
  c.out(0, sumOver(c, x, c.dimensions(1, c.rank(x)), c.flag(2)));
}
void sumAll(Call& c) {
  Value x = c.in(0, summing(c));
  c.out(0, sumOver(c, x, c.dimensions(size_t{99}, c.rank(x)), false));
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

/// The p-norm over dims; p is part of what is compiled.
void normOver(Call& c, double p, const Ints& dims, bool keep) {
  Value a = c.op("abs", {c.f32(0)});
  if (!c.ok()) return;
  if (countOf(c, a, dims) == 0) return (void)c.unsupported("a norm of nothing");
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

void product(Call& c) {  // self, dim, keepdim, dtype
  ElementType type = summing(c);
  Value x = c.in(0, type);
  const bool ofDim = c.variant() == "dim";
  Ints dims = c.dimensions(ofDim ? 1 : 99, c.rank(x));
  if (countOf(c, x, dims) == 0) return c.out(0, c.full({type, reducedSizes(c.shape(x), dims, ofDim && c.flag(2))}, 1));
  c.out(0, c.reduce("reduce_prod", x, dims, ofDim && c.flag(2)));
}

}  // namespace

const std::vector<Row>& reductionOps() {
  static const auto& rows = *new std::vector<Row>{
      {"sum.IntList_out", sum},
      {"sum", sumAll},
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
