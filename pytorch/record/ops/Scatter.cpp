// SPDX-License-Identifier: Apache-2.0
// Writing to, and reading from, places that indices name. The one thing to know: as Index.cpp; a mask is used where
// sizes do not depend on what it holds.
#include <algorithm>
#include <cmath>

#include "compose/Functions.h"
#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isFloat;

Value flatOf(Call& c, Value v) {
  return c.reshape(v, {hpu::numElements(c.shape(v))});
}

// ---- one dim ----------------------------------------------------------------------------------------

/// Indices of one dim as they broadcast over updates of rank `rank`.
Value indicesAlong(Call& c, Value index, int64_t dim, size_t rank) {
  Shape along(rank, 1);
  along[static_cast<size_t>(dim)] = hpu::numElements(c.shape(index));
  return c.reshape(plainIndices(c, index), along);
}

void indexCopy(Call& c) {  // self, dim, index, source
  Value x = c.in(0), source = c.in(3);
  if (!c.ok()) return;
  if (c.rank(x) == 0) return c.out(0, c.reshape(source, {}));
  const int64_t dim = c.dimension(1, c.rank(x));
  if (hpu::numElements(c.shape(source)) == 0) return c.out(0, x);
  if (c.rank(source) == 0) source = c.reshape(source, Shape(c.shape(x).size(), 1));
  c.out(0, scatterAlong(c, x, indicesAlong(c, c.in(2), dim, c.shape(x).size()), source, dim, "replace"));
}

void indexFill(Call& c) {  // self, dim, index, value
  Value x = c.in(0), value = c.in(3, c.element(x));
  if (!c.ok()) return;
  const int64_t count = hpu::numElements(c.shape(c.in(2)));
  if (count == 0) return c.out(0, x);
  value = c.reshape(value, {});
  if (c.rank(x) == 0) return c.out(0, value);
  const int64_t dim = c.dimension(1, c.rank(x));
  Shape sizes = c.shape(x);
  sizes[static_cast<size_t>(dim)] = count;
  if (hpu::numElements(sizes) == 0) return c.out(0, x);
  c.out(0, scatterAlong(c, x, indicesAlong(c, c.in(2), dim, sizes.size()), c.expand(value, sizes), dim, "replace"));
}

/// Rows of x at indices, at most of length max_norm; the others stay as they are.
void embeddingRenorm(Call& c) {  // self, indices, max_norm, norm_type
  Value x = c.in(0);
  if (!c.ok()) return;
  const int64_t count = hpu::numElements(c.meta(1).sizes);
  if (count == 0 || hpu::numElements(c.shape(x)) == 0) return c.out(0, x);
  Value at = plainIndices(c, c.reshape(c.in(1), {count}));
  Value rows = c.toF32(c.gather(x, at, 0)), size = c.op("abs", {rows}), norm;
  const double most = c.real(2), p = c.real(3);
  if (p == 1)
    norm = c.reduceSum(size, {1}, true);
  else if (p == 2)
    norm = c.op("sqrt", {c.reduceSum(c.mul(rows, rows), {1}, true)});
  else if (std::isinf(p) && p > 0)
    norm = c.reduceMax(size, {1}, true);
  else
    return (void)c.unsupported("a norm other than 1, 2 or infinity");
  Value scale = c.div(c.scalarLike(norm, most), c.add(norm, 1e-7));
  scale = c.where(isGreater(c, norm, most), scale, c.scalarLike(norm, 1));
  c.out(0, scatterAlong(c, x, c.reshape(at, {count, 1}), c.cast(c.mul(rows, scale), c.element(x)), 0, "replace"));
}

/// x and, at indices along a dim, a reduction of updates; with x's own element or without.
Value reduceAlong(Call& c, Value x, Value at, Value updates, int64_t dim, std::string_view how, bool includesSelf) {
  if (!x.handle || hpu::numElements(c.shape(updates)) == 0 || hpu::numElements(c.shape(x)) == 0) return x;
  const ElementType type = c.element(x);
  if (how == "amax" || how == "amin") {
    // An extreme that leaves out x's own element begins with any of the updates.
    if (!includesSelf) x = scatterAlong(c, x, at, updates, dim, "replace");
    return scatterAlong(c, x, at, updates, dim, how.substr(1));
  }
  const bool isProduct = how == "prod" || how == "multiply";
  if (isFloat(type)) x = c.toF32(x), updates = c.toF32(updates);
  Value count;
  if (!includesSelf || how == "mean") {
    Value none = c.full({ElementType::kI32, c.shape(x)}, 0), one = c.full({ElementType::kI32, c.shape(updates)}, 1);
    count = scatterAlong(c, none, at, one, dim, "add");
  }
  if (!includesSelf) x = c.where(hpu::compose::isGreater(c, count, 0), c.scalarLike(x, isProduct ? 1 : 0), x);
  Value result = scatterAlong(c, x, at, updates, dim, isProduct ? "mul" : "add");
  if (how == "mean") {
    Value parts = c.cast(includesSelf ? c.add(count, 1.0) : c.max(count, c.scalarLike(count, 1)), c.element(result));
    if (!isFloat(type)) {  // Rounded down.
      Value rest = c.op("mod", {result, parts});
      result = c.div(c.sub(result, rest), parts);
    } else {
      result = c.div(result, parts);
    }
  }
  return c.cast(result, type);
}

/// self, dim, index, src or value, reduce, [include_self]
void scatterReduce(Call& c) {
  Value x = c.in(0), index = c.in(2);
  if (!c.ok()) return;
  const Shape shape = c.shape(x);
  if (hpu::numElements(c.shape(index)) == 0) return c.out(0, x);
  if (shape.empty() || c.shape(index).empty()) {
    x = c.reshape(x, {1});
    index = c.reshape(index, {1});
  }
  Shape sizes = c.shape(index);
  Value updates;
  if (c.isTensor(3)) {
    updates = c.rank(c.in(3)) == 0 ? c.reshape(c.in(3), {1}) : c.in(3);
    updates = c.slice(updates, Ints(sizes.size(), 0), sizes, Ints(sizes.size(), 1));
  } else {
    updates = c.expand(c.in(3, c.element(x)), sizes);
  }
  const bool includesSelf = c.size() < 6 || !c.has(5) || c.isTensor(5) || c.flag(5);
  std::string_view how = c.text(4);
  const bool isBool = c.element(x) == ElementType::kBool;
  if (isBool) {  // Sums are any, products all.
    if (how == "mean") return (void)c.unsupported("means of bool");
    how = how == "prod" || how == "multiply" || how == "amin" ? "amin" : "amax";
    x = c.cast(x, ElementType::kU8), updates = c.cast(updates, ElementType::kU8);
  }
  x = reduceAlong(c, x, plainIndices(c, index), updates, c.dimension(1, c.rank(x)), how == "add" ? "sum" : how,
                  includesSelf);
  c.out(0, c.reshape(isBool ? c.toBool(x) : x, shape));
}

/// self, dim, index, source, reduce, include_self: index is of one dim.
void indexReduce(Call& c) {
  Value x = c.in(0), source = c.in(3);
  if (!c.ok()) return;
  if (c.element(x) == ElementType::kBool) return (void)c.unsupported("bool");
  if (hpu::numElements(c.shape(source)) == 0) return c.out(0, x);
  const Shape shape = c.shape(x);
  if (shape.empty()) x = c.reshape(x, {1}), source = c.reshape(source, {hpu::numElements(c.shape(source))});
  const int64_t dim = c.dimension(1, c.rank(x));
  x = reduceAlong(c, x, indicesAlong(c, c.in(2), dim, c.shape(x).size()), source, dim, c.text(4), c.flag(5));
  c.out(0, c.reshape(x, shape));
}

// ---- elements counted row-major ---------------------------------------------------------------------

void take(Call& c) {  // self, index
  Value x = c.in(0), index = c.in(1);
  if (!c.ok() || hpu::numElements(c.shape(index)) == 0) return c.out(0, c.full({c.element(x), c.shape(index)}, 0));
  c.out(0, c.gather(flatOf(c, x), plainIndices(c, index), 0));
}

void put(Call& c) {  // self, index, source, accumulate
  Value x = c.in(0), index = c.in(1), source = c.in(2);
  if (!c.ok() || hpu::numElements(c.shape(index)) == 0) return c.out(0, x);
  Value flat = scatterAlong(c, flatOf(c, x), plainIndices(c, flatOf(c, index)), flatOf(c, source), 0,
                            c.flag(3) ? "add" : "replace");
  c.out(0, c.reshape(flat, c.shape(x)));
}

/// Where the mask is, the elements of `source` (of its first dim) in their order; self elsewhere. The mask has the
/// first dims of self.
Value fillMasked(Call& c, Value x, Value mask, Value source) {
  const int64_t count = hpu::numElements(c.shape(mask));
  if (!c.ok() || count == 0) return x;
  Value ones = c.cast(c.reshape(mask, {count}), ElementType::kI32);
  Value place = c.sub(scan(c, ones, 0, "add", false, false), 1.0);
  Value picked = c.gather(source, c.max(place, c.scalarLike(place, 0)), 0);
  Shape along = c.shape(mask);
  along.resize(c.shape(x).size(), 1);
  return c.where(c.reshape(mask, along), c.reshape(picked, c.shape(x)), x);
}
void maskedScatter(Call& c) {  // self, mask, source
  Value x = c.in(0), mask = c.expand(c.toBool(c.in(1)), c.shape(x)), source = c.in(2);
  if (!c.ok() || hpu::numElements(c.shape(x)) == 0 || hpu::numElements(c.shape(source)) == 0) return c.out(0, x);
  c.out(0, fillMasked(c, x, mask, flatOf(c, source)));
}

// ---- several dims -----------------------------------------------------------------------------------

/// self, indices, values, accumulate
void indexPut(Call& c) {
  Value x = c.in(0), values = c.in(2, c.element(x));
  std::vector<Value> indices = c.list(1);
  const Shape shape = c.shape(x);
  if (!c.ok()) return;
  if (hpu::numElements(shape) == 0 || hpu::numElements(c.shape(values)) == 0) return c.out(0, x);
  Ints indexed, others;
  Shape common;
  bool hasMask = false;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].handle) continue;
    hasMask |= c.element(indices[d]) == ElementType::kBool || c.element(indices[d]) == ElementType::kU8;
    indexed.push_back(static_cast<int64_t>(d));
    Shape sizes = c.shape(indices[d]);
    if (common.size() < sizes.size()) common.insert(common.begin(), sizes.size() - common.size(), 1);
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t& size = common[common.size() - sizes.size() + i];
      size = size == 1 ? sizes[i] : size;
    }
  }
  if (indexed.empty()) return c.out(0, c.flag(3) ? c.add(x, values) : c.expand(values, shape));
  if (hasMask) {
    Value mask = c.toBool(indices[static_cast<size_t>(indexed[0])]);
    if (indexed.size() > 1 || indexed[0] != 0) return (void)c.unsupported("a mask with other indices");
    Shape along = c.shape(mask), rest(shape.begin() + c.rank(mask), shape.end()), one = along;
    along.resize(shape.size(), 1);
    const int64_t lead = c.rank(values) - static_cast<int64_t>(rest.size());
    if (lead > 1) return (void)c.unsupported("such values for a mask");
    const bool isAdded = c.flag(3);
    if (isAdded && c.element(x) == ElementType::kBool) return (void)c.unsupported("sums of bool");
    if (lead < 1 || c.dim(values, 0) == 1) {  // The same for each element of the mask.
      if (lead == 1) values = hpu::compose::removeDim(c, values, 0);
      values = c.expand(values, shape);
      return c.out(0, c.where(c.reshape(mask, along), isAdded ? c.add(x, values) : values, x));
    }
    rest.insert(rest.begin(), c.dim(values, 0));
    values = fillMasked(c, isAdded ? c.full(c.type(x), 0) : x, mask, c.expand(values, rest));
    return c.out(0, isAdded ? c.add(x, values) : values);
  }
  if (hpu::numElements(common) == 0) return c.out(0, x);
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (std::find(indexed.begin(), indexed.end(), d) == indexed.end()) others.push_back(d);
  // Indexed dims come first; what their index has is where they were when they follow each other, else in front.
  const bool isTogether = indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
  const size_t before = isTogether ? static_cast<size_t>(indexed.front()) : 0;
  Ints order = indexed, back(shape.size());
  order.insert(order.end(), others.begin(), others.end());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  Shape wanted;
  for (size_t i = 0; i < before; ++i) wanted.push_back(shape[static_cast<size_t>(others[i])]);
  wanted.insert(wanted.end(), common.begin(), common.end());
  for (size_t i = before; i < others.size(); ++i) wanted.push_back(shape[static_cast<size_t>(others[i])]);
  values = c.expand(values, wanted);
  Ints toFront;
  for (size_t i = 0; i < common.size(); ++i) toFront.push_back(static_cast<int64_t>(before + i));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (i < before || i >= before + common.size()) toFront.push_back(static_cast<int64_t>(i));
  values = c.transpose(values, toFront);
  Shape tuple = common;
  tuple.push_back(1);
  std::vector<Value> parts;
  for (int64_t d : indexed)
    parts.push_back(c.reshape(c.expand(c.cast(indices[static_cast<size_t>(d)], ElementType::kI32), common), tuple));
  Value tuples = c.concat(parts, static_cast<int64_t>(common.size()));
  Value moved = c.transpose(x, order);
  const ElementType type = c.element(x);
  if (c.flag(3) && isFloat(type)) moved = c.toF32(moved), values = c.toF32(values);
  if (c.flag(3) && type == ElementType::kBool) return (void)c.unsupported("sums of bool");
  Value result = c.op("scatter_nd", {moved, tuples, values}, {{"mode", std::string(c.flag(3) ? "add" : "replace")}});
  c.out(0, c.transpose(c.cast(result, type), back));
}

// ---- windows and diagonals --------------------------------------------------------------------------

/// grad_in, input_sizes, dim, size, step: element k of window i goes to i * step + k.
void unfoldBackward(Call& c) {
  Value g = c.f32(0);
  const Shape sizes = c.ints(1);
  if (!c.ok()) return;
  if (sizes.empty()) return c.out(0, c.reshape(g, {}), c.meta(0).type);
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t dim = c.dimension(2, rank), size = c.integer(3), step = c.integer(4), windows = c.dim(g, dim);
  if (hpu::numElements(c.shape(g)) == 0) return c.out(0, c.full({ElementType::kF32, sizes}, 0), c.meta(0).type);
  // [.., windows, .., size] -> [.., windows * size, ..]
  Ints perm;
  for (int64_t d = 0; d < rank; ++d) {
    perm.push_back(d);
    if (d == dim) perm.push_back(rank);
  }
  Shape joined = c.shape(g), along(sizes.size(), 1);
  joined.pop_back();
  joined[static_cast<size_t>(dim)] = along[static_cast<size_t>(dim)] = windows * size;
  Ints at;
  for (int64_t i = 0; i < windows; ++i)
    for (int64_t k = 0; k < size; ++k) at.push_back(i * step + k);
  Value zeros = c.full({ElementType::kF32, sizes}, 0);
  c.out(0, scatterAlong(c, zeros, c.indices(along, at), c.reshape(c.transpose(g, perm), joined), dim, "add"),
        c.meta(0).type);
}

/// self, diagonal: of a matrix its diagonal, of a vector the matrix with that.
void diagonal(Call& c) {
  Value x = c.in(0);
  const int64_t offset = c.integer(1);
  if (!c.ok()) return;
  const int64_t down = std::max<int64_t>(0, -offset), right = std::max<int64_t>(0, offset);
  if (c.rank(x) == 1) {
    const int64_t count = c.dim(x, 0), side = count + std::abs(offset);
    Ints at;
    for (int64_t i = 0; i < count; ++i) at.push_back((i + down) * side + i + right);
    if (side == 0) return c.out(0, c.full({c.element(x), {0, 0}}, 0));
    Value zeros = c.full({c.element(x), {side * side}}, 0);
    return c.out(0, c.reshape(scatterAlong(c, zeros, c.indices({count}, at), x, 0, "replace"), {side, side}));
  }
  const int64_t rows = c.dim(x, 0), columns = c.dim(x, 1), count = std::min(rows - down, columns - right);
  if (count <= 0) return c.out(0, c.full({c.element(x), {0}}, 0));
  Ints at;
  for (int64_t i = 0; i < count; ++i) at.push_back((i + down) * columns + i + right);
  c.out(0, c.gather(flatOf(c, x), c.indices({count}, at), 0));
}
void trace(Call& c) {
  const Shape sizes = c.meta(0).sizes;
  ElementType type = Call::computing(c.outType(0));
  Value x = c.in(0, type);
  const int64_t count = sizes.size() == 2 ? std::min(sizes[0], sizes[1]) : 0;
  if (count == 0) return c.out(0, c.full({type, {}}, 0));
  Ints at;
  for (int64_t i = 0; i < count; ++i) at.push_back(i * (sizes[1] + 1));
  c.out(0, c.reduceSum(c.gather(flatOf(c, x), c.indices({count}, at), 0), {0}, false));
}

}  // namespace

const std::vector<Row>& scatterOps() {
  static const auto& rows = *new std::vector<Row>{
      {"index_copy.out", indexCopy},
      {"index_fill_.int_Scalar index_fill_.int_Tensor", indexFill},
      {"scatter_reduce.two_out scatter.reduce_out scatter.value_reduce_out", scatterReduce},
      {"index_reduce.out", indexReduce},
      {"embedding_renorm_", embeddingRenorm},
      {"take take.out", take, {}, Row::kOwnShapes},
      {"put_", put},
      {"masked_scatter_", maskedScatter},
      {"_index_put_impl_", indexPut},
      {"unfold_backward", unfoldBackward, {}, Row::kOwnShapes},
      {"diag.out", diagonal},
      {"trace", trace},
  };
  return rows;
}

}  // namespace hpu_torch
