// SPDX-License-Identifier: Apache-2.0
// Distances of pairs of rows, norms that are bounded, cross products. The one thing to know: differences of all pairs
// are one value, so there is a bound on how many there may be.
#include <cmath>

#include "compose/Functions.h"
#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::insertDim;
using hpu::compose::isEqual;
using hpu::compose::orZero;

constexpr int64_t kMostDifferences = int64_t{1} << 26;

/// The p-norm over the last dim, which goes.
Value lastNorm(Call& c, Value differences, double p) {
  Value a = c.op("abs", {differences});
  const Ints last = {c.rank(a) - 1};
  if (p == 0) return c.reduceSum(c.cast(c.op("not", {isEqual(c, a, 0)}), ElementType::kF32), last, false);
  if (p == 1) return c.reduceSum(a, last, false);
  if (p == 2) return c.op("sqrt", {c.reduceSum(c.mul(a, a), last, false)});
  if (std::isinf(p)) return c.reduceMax(a, last, false);
  Value sum = c.reduceSum(c.op("pow", {a, c.scalarLike(a, p)}), last, false);
  return c.op("pow", {sum, c.scalarLike(sum, 1 / p)});
}

/// The gradient of each difference, from that of its norm (which has a last dim of 1).
Value normGradient(Call& c, Value g, Value differences, Value norm, double p) {
  if (p == 0) return c.mul(differences, 0.0);
  Value sign = c.op("sign", {differences}), a = c.op("abs", {differences});
  Value isZero = isEqual(c, norm, 0), zero = c.scalarLike(differences, 0);
  if (p == 1) return c.mul(g, sign);
  if (p == 2) return c.where(isZero, zero, c.div(c.mul(g, differences), norm));
  if (std::isinf(p)) return c.mul(g, orZero(c, c.op("equal", {a, norm}), sign));
  Value power = c.op("pow", {c.div(a, norm), c.scalarLike(a, p - 1)});
  Value isNothing = c.op("or", {isZero, isEqual(c, a, 0)});
  return c.where(isNothing, zero, c.mul(g, c.mul(sign, power)));
}

Shape leadOf(const Shape& shape) {
  return Shape(shape.begin(), shape.end() - 2);
}
/// Rows of a and b, [.., P, M] and [.., R, M], as differences [.., P, R, M].
Value allDifferences(Call& c, Value a, Value b) {
  return c.sub(insertDim(c, a, c.rank(a) - 1), insertDim(c, b, c.rank(b) - 2));
}
int64_t differenceCount(const Shape& a, const Shape& b) {
  int64_t lead = std::max(hpu::numElements(leadOf(a)), hpu::numElements(leadOf(b)));
  return lead * a[a.size() - 2] * b[b.size() - 2] * a.back();
}

void cdist(Call& c) {  // x1, x2, p, compute_mode
  const Shape a = c.meta(0).sizes, b = c.meta(1).sizes;
  Shape sizes = c.outType(0) == ElementType::kInvalid ? Shape{} : c.signature().results[0].meta.sizes;
  if (a.back() == 0 || hpu::numElements(a) == 0 || hpu::numElements(b) == 0)
    return c.out(0, c.full({ElementType::kF32, sizes}, 0), c.meta(0).type);
  if (differenceCount(a, b) > kMostDifferences) return (void)c.unsupported("more than 2^26 differences");
  c.out(0, lastNorm(c, allDifferences(c, c.f32(0), c.f32(1)), c.real(2)), c.meta(0).type);
}
void cdistBackward(Call& c) {  // grad, x1, x2, p, cdist
  const Shape a = c.meta(1).sizes, b = c.meta(2).sizes;
  if (hpu::numElements(a) == 0 || hpu::numElements(b) == 0)
    return c.out(0, c.full({ElementType::kF32, a}, 0), c.meta(1).type);
  if (differenceCount(a, b) > kMostDifferences) return (void)c.unsupported("more than 2^26 differences");
  Value d = allDifferences(c, c.f32(1), c.f32(2));
  auto last = [&](size_t i) { return insertDim(c, c.f32(i), static_cast<int64_t>(c.meta(i).sizes.size())); };
  Value parts = normGradient(c, last(0), d, last(4), c.real(3));
  // In the sizes that both batches broadcast to, as PyTorch.
  c.out(0, c.reduceSum(parts, {c.rank(parts) - 2}, false), c.meta(1).type);
}

/// The pairs i < j of n rows.
std::pair<Ints, Ints> pairsOf(int64_t n) {
  std::pair<Ints, Ints> pairs;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) pairs.first.push_back(i), pairs.second.push_back(j);
  return pairs;
}
Value pairDifferences(Call& c, Value x, const std::pair<Ints, Ints>& pairs) {
  const Shape count = {static_cast<int64_t>(pairs.first.size())};
  return c.sub(c.gather(x, c.indices(count, pairs.first), 0), c.gather(x, c.indices(count, pairs.second), 0));
}
void pdist(Call& c) {  // self, p
  const Shape sizes = c.meta(0).sizes;
  const int64_t n = sizes[0], count = n * (n - 1) / 2;
  if (count <= 0 || sizes[1] == 0)
    return c.out(0, c.full({ElementType::kF32, {std::max<int64_t>(0, count)}}, 0), c.meta(0).type);
  if (count * sizes[1] > kMostDifferences) return (void)c.unsupported("more than 2^26 differences");
  c.out(0, lastNorm(c, pairDifferences(c, c.f32(0), pairsOf(n)), c.real(1)), c.meta(0).type);
}
void pdistBackward(Call& c) {  // grad, self, p, pdist
  const Shape sizes = c.meta(1).sizes;
  const int64_t n = sizes[0], count = n * (n - 1) / 2;
  Value zeros = c.full({ElementType::kF32, sizes}, 0);
  if (count <= 0 || sizes[1] == 0) return c.out(0, zeros, c.meta(1).type);
  if (count * sizes[1] > kMostDifferences) return (void)c.unsupported("more than 2^26 differences");
  auto pairs = pairsOf(n);
  Value parts = normGradient(c, insertDim(c, c.f32(0), 1), pairDifferences(c, c.f32(1), pairs),
                             insertDim(c, c.f32(3), 1), c.real(2));
  Value sum = scatterAlong(c, zeros, c.indices({count, 1}, pairs.first), parts, 0, "add");
  c.out(0, scatterAlong(c, sum, c.indices({count, 1}, pairs.second), c.neg(parts), 0, "add"), c.meta(1).type);
}

/// self, p, dim, maxnorm: what has a larger norm along the other dims is scaled down to it.
void renorm(Call& c) {
  Value x = c.f32(0);
  if (!c.ok() || hpu::numElements(c.shape(x)) == 0) return c.out(0, x);
  const int64_t rank = c.rank(x), dim = c.dimension(2, rank), count = c.dim(x, dim);
  Ints perm = {dim};
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim) perm.push_back(d);
  Value rows = c.reshape(c.transpose(x, perm), {count, hpu::numElements(c.shape(x)) / count});
  Value norm = lastNorm(c, rows, c.real(1)), most = c.scalarLike(norm, c.real(3));
  Value factor = c.where(c.op("greater", {norm, most}), c.div(most, c.add(norm, 1e-7)), c.scalarLike(norm, 1));
  Shape along(static_cast<size_t>(rank), 1);
  along[static_cast<size_t>(dim)] = count;
  c.out(0, c.mul(x, c.reshape(factor, along)));
}

void cross(Call& c) {  // self, other, dim
  const Shape sizes = c.signature().results[0].meta.sizes;
  Value a = c.expand(c.wide(0), sizes), b = c.expand(c.wide(1), sizes);
  const int64_t dim = c.dimension(2, static_cast<int64_t>(sizes.size()));
  if (!c.ok() || hpu::numElements(sizes) == 0) return c.out(0, a);
  auto turned = [&](Value v, int64_t by) {
    return c.concat({c.sliceDim(v, dim, by, 3 - by), c.sliceDim(v, dim, 0, by)}, dim);
  };
  c.out(0, c.sub(c.mul(turned(a, 1), turned(b, 2)), c.mul(turned(a, 2), turned(b, 1))));
}

}  // namespace

const std::vector<Row>& distanceOps() {
  static const auto& rows = *new std::vector<Row>{
      {"_cdist_forward", cdist, {}, Row::kOwnShapes}, {"_cdist_backward", cdistBackward, {}, Row::kOwnShapes},
      {"_pdist_forward", pdist, {}, Row::kOwnShapes}, {"_pdist_backward", pdistBackward, {}, Row::kOwnShapes},
      {"renorm.out", renorm, {}, Row::kFixedNumbers}, {"linalg_cross.out", cross},
  };
  return rows;
}

}  // namespace hpu_torch
