// SPDX-License-Identifier: Apache-2.0
// Joining, gathering and scattering. The one thing to know: an index outside of its dim is the nearest inside for a
// gather and changes nothing for a scatter; the CPU throws there, which a device cannot without waiting.
#include <algorithm>
#include <numeric>

#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

void cat(Call& c) {  // tensors, dim
  std::vector<Value> values;
  ElementType type = c.outType(0) == ElementType::kInvalid ? c.common() : c.outType(0);
  for (Value v : c.list(0))
    // Empty tensors of one dim go with any others, as PyTorch's old ones did.
    if (c.shape(v) != Shape{0}) values.push_back(c.cast(v, type));
  if (values.empty()) return c.out(0, c.full({type, {0}}, 0));
  c.out(0, c.concat(values, c.dimension(1, c.rank(values[0]))));
}

void indexSelect(Call& c) {  // self, dim, index
  Value x = c.in(0), index = c.in(2);
  const int64_t dim = c.dimension(1, c.rank(x));
  if (c.rank(x) == 0) return c.out(0, x);
  c.out(0, c.gather(x, plainIndices(c, c.reshape(index, {hpu::numElements(c.shape(index))})), dim));
}

void gather(Call& c) {  // self, dim, index
  Value x = c.in(0), index = c.in(2);
  if (c.ok() && (c.rank(x) == 0 || c.rank(index) == 0)) {
    return c.out(0, c.reshape(x, c.shape(index)));
  }
  c.out(0, c.op("gather_elements", {x, plainIndices(c, index)}, {{"axis", c.dimension(1, c.rank(x))}}));
}

/// self, dim, index, src or value
void scatter(Call& c) {
  Value x = c.in(0), index = c.in(2);
  if (!c.ok() || hpu::numElements(c.shape(index)) == 0) return c.out(0, x);
  const Shape shape = c.shape(x);
  // A number is a tensor of one dim here.
  auto atLeastOne = [&](Value v) { return c.rank(v) == 0 ? c.reshape(v, {1}) : v; };
  x = atLeastOne(x);
  index = atLeastOne(index);
  Shape sizes = c.shape(index);
  Value updates = c.isTensor(3) ? c.slice(atLeastOne(c.in(3)), Ints(sizes.size(), 0), sizes, Ints(sizes.size(), 1))
                                : c.expand(c.in(3, c.element(x)), sizes);
  x = scatterAlong(c, x, plainIndices(c, index), c.cast(updates, c.element(x)), c.dimension(1, c.rank(x)), c.variant());
  c.out(0, c.reshape(x, shape));
}

/// self, dim, index, source, [alpha]: index is of one dim.
void indexAdd(Call& c) {
  Value x = c.in(0), index = c.in(2), source = c.in(3);
  if (!c.ok() || hpu::numElements(c.shape(source)) == 0) return c.out(0, x);
  const Shape shape = c.shape(x);
  if (shape.empty()) {
    x = c.reshape(x, {1});
    source = c.reshape(source, {hpu::numElements(c.shape(source))});
  }
  const int64_t dim = c.dimension(1, c.rank(x));
  Shape along(c.shape(x).size(), 1);
  along[static_cast<size_t>(dim)] = hpu::numElements(c.shape(index));
  if (c.element(x) == ElementType::kBool)
    source = c.op("and", {source, c.toBool(c.in(4))});
  else if (!c.isFixed(4, 1))
    source = c.mul(c.cast(source, Call::computing(c.element(x))), c.in(4, Call::computing(c.element(x))));
  x = scatterAlong(c, x, c.reshape(plainIndices(c, index), along), c.cast(source, c.element(x)), dim, "add");
  c.out(0, c.reshape(x, shape));
}

/// grad_output, indices, num_weights, padding_idx, scale_grad_by_freq
void embeddingBackward(Call& c) {
  Value g = c.f32(0), indices = c.in(1);
  if (!c.ok()) return;
  const int64_t rows = c.integer(2), padding = c.integer(3), width = c.dim(g, -1),
                count = hpu::numElements(c.shape(indices));
  Value zeros = c.full({ElementType::kF32, {rows, width}}, 0);
  if (count == 0) return c.out(0, zeros, c.meta(0).type);
  Value at = plainIndices(c, c.reshape(indices, {count, 1}));
  // An index behind the last row changes nothing.
  if (padding >= 0)
    at = c.where(c.op("equal", {at, c.scalarLike(at, static_cast<double>(padding))}),
                 c.scalarLike(at, static_cast<double>(rows)), at);
  Value sum = scatterAlong(c, zeros, at, c.reshape(g, {count, width}), 0, "add");
  if (c.flag(4)) {
    Value times = scatterAlong(c, c.full({ElementType::kF32, {rows, 1}}, 0), at,
                               c.full({ElementType::kF32, {count, 1}}, 1), 0, "add");
    sum = c.div(sum, c.max(times, c.scalarLike(times, 1)));
  }
  c.out(0, sum, c.meta(0).type);
}

/// self, indices: of integers for one dim or several, others None.
void index(Call& c) {
  Value x = c.in(0);
  const Shape shape = c.shape(x);
  std::vector<Value> indices = c.list(1);
  if (!c.ok()) return;
  Value joined;
  Ints indexed, order;
  int64_t length = 1;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].handle) continue;
    ElementType type = c.element(indices[d]);
    if (type == ElementType::kBool || type == ElementType::kU8)
      return (void)c.unsupported("a mask as an index: the size of its result is not known");
    indexed.push_back(static_cast<int64_t>(d));
    length *= shape[d];
    Value part = wrapIndices(c, indices[d], shape[d]);
    joined = joined.handle ? c.add(c.mul(joined, c.scalarLike(joined, static_cast<double>(shape[d]))), part) : part;
  }
  if (indexed.empty() || hpu::numElements(shape) == 0) return (void)c.unsupported("such indices");
  // Indexed dims that do not follow each other come first, and what they name with them.
  const bool isTogether = indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
  const int64_t first = isTogether ? indexed.front() : 0;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (std::find(indexed.begin(), indexed.end(), d) == indexed.end()) order.push_back(d);
  order.insert(order.begin() + first, indexed.begin(), indexed.end());
  x = c.transpose(x, order);
  Shape flat = c.shape(x);
  if (!c.ok()) return;
  flat.erase(flat.begin() + first, flat.begin() + first + static_cast<int64_t>(indexed.size()));
  flat.insert(flat.begin() + first, length);
  c.out(0, c.gather(c.reshape(x, flat), joined, first));
}

void flip(Call& c) {  // self, dims
  Value x = c.in(0);
  Shape sizes = c.shape(x);
  Ints starts(sizes.size(), 0), steps(sizes.size(), 1);
  if (!c.ok() || hpu::numElements(sizes) == 0) return c.out(0, x);
  for (int64_t d : c.ints(1)) {
    const auto at = static_cast<size_t>(d < 0 ? d + static_cast<int64_t>(sizes.size()) : d);
    if (at >= sizes.size()) return (void)c.unsupported("a number");
    starts[at] = sizes[at] - 1;
    steps[at] = -1;
  }
  c.out(0, c.slice(x, starts, sizes, steps));
}

void roll(Call& c) {  // self, shifts, dims
  Value x = c.in(0);
  const Shape sizes = c.shape(x);
  if (!c.ok() || hpu::numElements(sizes) == 0 || sizes.empty()) return c.out(0, x);
  Ints shifts = c.ints(1), dims = c.ints(2);
  if (dims.empty()) {
    x = c.reshape(x, {hpu::numElements(sizes)});
    dims = {0};
  }
  for (size_t i = 0; i < dims.size() && i < shifts.size(); ++i) {
    const int64_t dim = dims[i] < 0 ? dims[i] + c.rank(x) : dims[i], size = c.dim(x, dim);
    const int64_t shift = (shifts[i] % size + size) % size;
    if (shift > 0) x = c.concat({c.sliceDim(x, dim, size - shift, shift), c.sliceDim(x, dim, 0, size - shift)}, dim);
  }
  c.out(0, c.reshape(x, sizes));
}

/// self, diagonal
void triangle(Call& c) {
  Value x = c.in(0);
  const int64_t rows = c.dim(x, -2), columns = c.dim(x, -1), diagonal = c.integer(1);
  if (!c.ok()) return;
  Ints row(static_cast<size_t>(rows)), column(static_cast<size_t>(columns));
  std::iota(row.begin(), row.end(), diagonal);
  std::iota(column.begin(), column.end(), 0);
  Value i = c.indices({rows, 1}, row), j = c.indices({1, columns}, column);
  Value kept = c.op(c.variant() == "lower" ? "less_equal" : "greater_equal", {j, i});
  c.out(0, c.where(kept, x, c.full({c.element(x), {}}, 0)));
}

}  // namespace

const std::vector<Row>& indexOps() {
  static const auto& rows = *new std::vector<Row>{
      {"cat.out", cat},
      {"index_select index_select.out", indexSelect},
      {"gather.out", gather},
      {"scatter.src_out scatter.value_out", scatter, "replace"},
      {"scatter_add.out", scatter, "add"},
      {"index_add.out", indexAdd},
      {"embedding_dense_backward", embeddingBackward, {}, Row::kOwnShapes},
      {"index.Tensor_out", index},
      {"flip", flip},
      {"roll", roll},
      {"tril.out", triangle, "lower"},
      {"triu.out", triangle, "upper"},
  };
  return rows;
}

}  // namespace hpu_torch
