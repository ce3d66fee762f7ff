// SPDX-License-Identifier: Apache-2.0
#include "compose/Detection.h"

#include <limits>
#include <vector>

#include "compose/Functions.h"
#include "compose/Indexing.h"

namespace hpu::compose {
namespace {

/// Where a sample of each element of the result reads along one dim: two neighbours, of weight 0 where it is outside.
struct Taps {
  Value index[2], weight[2];  ///< [R, out]; i32 and f32.
};

/// Sample `k` of each of the `out` parts of boxes along a dim of `size` elements. `start`, `end`: [R, 1].
Taps tapsOf(Emitter& c, Value start, Value end, int64_t k, int64_t out, int64_t size, const RoiAlignment& how) {
  const double offset = how.isHalfPixel ? 0.5 : 0;
  Value from = c.sub(c.mul(start, how.scale), offset), to = c.sub(c.mul(end, how.scale), offset);
  Value length = c.sub(to, from);
  if (!how.isHalfPixel) length = c.max(length, c.scalarLike(length, 1));
  const double within = (static_cast<double>(k) + 0.5) / static_cast<double>(how.samples);
  Value part = c.add(c.toF32(counter(c, out, 1, 2)), within);
  Value at = c.add(from, c.mul(part, c.div(length, static_cast<double>(out))));
  const auto last = static_cast<double>(size - 1);
  Value isInside = c.op(
      "and", {c.op("greater_equal", {at, c.scalarLike(at, -1)}), c.op("less_equal", {at, c.scalarLike(at, last + 1)})});
  at = c.min(c.max(at, c.scalarLike(at, 0)), c.scalarLike(at, last));
  Value low = c.op("floor", {at}), rest = c.sub(at, low);
  Taps taps;
  taps.index[0] = c.cast(low, ElementType::kI32);
  taps.index[1] = c.min(c.add(taps.index[0], 1), c.scalarLike(taps.index[0], last));
  taps.weight[0] = orZero(c, isInside, c.sub(c.scalarLike(rest, 1), rest));
  taps.weight[1] = orZero(c, isInside, rest);
  return taps;
}

/// Halves away from zero.
Value rounded(Emitter& c, Value x) {
  Value away = c.op("floor", {c.add(c.op("abs", {x}), 0.5)});
  return c.where(c.op("less", {x, c.scalarLike(x, 0)}), c.neg(away), away);
}

/// Whether an element of a dim of `size` is in a part of a box: bool, [R, parts, size]. `start`, `end`: [R, 1].
Value partsOf(Emitter& c, Value start, Value end, int64_t parts, int64_t size, double scale) {
  Value first = rounded(c, c.mul(start, scale)), last = rounded(c, c.mul(end, scale));
  Value length = c.add(c.sub(last, first), 1);
  length = c.max(length, c.scalarLike(length, 1));
  Value each = c.div(length, static_cast<double>(parts)), number = c.toF32(counter(c, parts, 1, 2));
  Value low = c.add(c.op("floor", {c.mul(number, each)}), first),
        high = c.add(c.op("ceil", {c.mul(c.add(number, 1), each)}), first);
  Value at = c.toF32(counter(c, size, 2, 3));
  return c.op("and", {c.op("less_equal", {insertDim(c, low, 2), at}), c.op("less", {at, insertDim(c, high, 2)})});
}

}  // namespace

Value roiMaxPool(Emitter& c, Value images, Value boxes, int64_t height, int64_t width, double scale) {
  const Shape image = c.shape(images), box = c.shape(boxes);
  if (!c.ok()) return {};
  if (image.size() != 4) return c.fail("images must be [N, C, H, W]");
  if (box.size() != 2 || box[1] != 5) return c.fail("boxes must be [R, 5]");
  Value edges = c.toF32(boxes);
  auto edge = [&](int64_t k) { return c.sliceDim(edges, 1, k, 1); };
  const int64_t rows = box[0], channels = image[1];
  Value which = c.cast(c.reshape(edge(0), {rows}), ElementType::kI32);
  Value own = c.gather(c.toF32(images), which, 0);  // [R, C, H, W].
  const double lowest = -std::numeric_limits<double>::infinity();
  // Along one dim after the other: rows of the image, then what they have left.
  Value inRows = c.reshape(partsOf(c, edge(2), edge(4), height, image[2], scale), {rows, 1, height, image[2], 1});
  Value lines = c.where(inRows, insertDim(c, own, 2), c.scalar(lowest, ElementType::kF32));
  lines = c.reduceMax(lines, {3}, false);  // [R, C, height, W].
  Value inColumns = c.reshape(partsOf(c, edge(1), edge(3), width, image[3], scale), {rows, 1, 1, width, image[3]});
  Value result = c.where(inColumns, insertDim(c, lines, 3), c.scalar(lowest, ElementType::kF32));
  result = c.reduceMax(result, {4}, false);
  Value hasRows = c.reduceMax(c.cast(inRows, ElementType::kI32), {3}, false),
        hasColumns = c.reduceMax(c.cast(inColumns, ElementType::kI32), {4}, false);
  Value isEmpty =
      c.op("equal", {c.reshape(c.mul(c.reshape(hasRows, {rows, height, 1}), c.reshape(hasColumns, {rows, 1, width})),
                               {rows, 1, height, width}),
                     c.scalar(0, ElementType::kI32)});
  return c.where(isEmpty, c.full({ElementType::kF32, {rows, channels, height, width}}, 0), result);
}

Value roiAlign(Emitter& c, Value images, Value boxes, Value batch, const RoiAlignment& how) {
  const Shape image = c.shape(images), box = c.shape(boxes);
  if (!c.ok()) return {};
  if (image.size() != 4) return c.fail("images must be [N, C, H, W]");
  if (box.size() != 2 || box[1] != 4) return c.fail("boxes must be [R, 4]");
  if (c.shape(batch) != Shape{box[0]}) return c.fail("batch indices must be [R], one for each box");
  if (how.height < 1 || how.width < 1 || how.samples < 1) return c.fail("a result without elements");
  if (how.samples > kMostRoiSamples) return c.unsupported("more than 8 samples along a dim of an element");
  const int64_t rows = box[0], channels = image[1], height = image[2], width = image[3];
  // Channels last: a tap is a row of this table.
  Value table = c.reshape(c.transpose(c.toF32(images), {0, 2, 3, 1}), {image[0] * height * width, channels});
  Value edges = c.toF32(boxes);
  auto edge = [&](int64_t k) { return c.sliceDim(edges, 1, k, 1); };
  std::vector<Taps> vertical, horizontal;
  for (int64_t k = 0; k < how.samples; ++k) {
    vertical.push_back(tapsOf(c, edge(1), edge(3), k, how.height, height, how));
    horizontal.push_back(tapsOf(c, edge(0), edge(2), k, how.width, width, how));
  }
  Value first = c.reshape(c.mul(c.cast(batch, ElementType::kI32), static_cast<double>(height)), {rows, 1});
  Value result;
  auto take = [&](Value line, Value lineWeight, Value column, Value columnWeight) {
    Value at = c.add(c.reshape(c.mul(line, static_cast<double>(width)), {rows, how.height, 1}),
                     c.reshape(column, {rows, 1, how.width}));
    Value weight =
        c.mul(c.reshape(lineWeight, {rows, how.height, 1, 1}), c.reshape(columnWeight, {rows, 1, how.width, 1}));
    Value tap = c.mul(c.gather(table, at, 0), weight);
    result = !result.handle ? tap : how.isMax ? c.max(result, tap) : c.add(result, tap);
  };
  for (const Taps& y : vertical)
    for (const Taps& x : horizontal)
      for (int j = 0; j < 2; ++j)
        for (int i = 0; i < 2; ++i) take(c.add(first, y.index[j]), y.weight[j], x.index[i], x.weight[i]);
  if (!how.isMax) result = c.mul(result, 1.0 / static_cast<double>(how.samples * how.samples));
  return c.transpose(result, {0, 3, 1, 2});
}

SuppressedBoxes suppressBoxes(Emitter& c, Value boxes, Value scores, Value most, Value overlap, Value threshold,
                              const Suppression& how) {
  const Shape box = c.shape(boxes), score = c.shape(scores);
  if (!c.ok()) return {};
  if (box.size() != 3 || box[2] != 4) return {c.fail("boxes must be [batch, boxes, 4]"), {}};
  if (score.size() != 3 || score[0] != box[0] || score[2] != box[1])
    return {c.fail("scores must be [batch, classes, boxes]"), {}};
  const int64_t count = box[1];
  const Attributes sorting = {{"axis", int64_t{2}}, {"sizes", std::vector<int64_t>{count}}, {"largest", int64_t{1}}};
  SuppressedBoxes result;
  result.order = c.op("top_indices", {scores}, sorting);
  auto inOrder = [&](Value x) {
    return c.op("gather_elements", {c.expand(x, score), result.order}, {{"axis", int64_t{2}}});
  };
  auto column = [&](int64_t k) { return inOrder(c.reshape(c.sliceDim(c.toF32(boxes), 2, k, 1), {box[0], 1, count})); };
  // Ends along x and y.
  Value low[2], high[2];
  for (int axis = 0; axis < 2; ++axis) {
    if (how.isCentred) {
      Value middle = column(axis), half = c.mul(column(axis + 2), 0.5);
      low[axis] = c.sub(middle, half), high[axis] = c.add(middle, half);
    } else {
      Value a = column(1 - axis), b = column(3 - axis);
      low[axis] = c.min(a, b), high[axis] = c.max(a, b);
    }
  }
  auto number = [&](Value v, ElementType type) { return c.reshape(c.cast(v, type), {}); };
  auto row = [&](Value v) { return insertDim(c, v, 3); };
  auto across = [&](Value v) { return insertDim(c, v, 2); };
  Value area = c.mul(c.sub(high[0], low[0]), c.sub(high[1], low[1])), both;
  for (int axis = 0; axis < 2; ++axis) {
    Value length = c.sub(c.min(row(high[axis]), across(high[axis])), c.max(row(low[axis]), across(low[axis])));
    length = c.max(length, c.scalarLike(length, 0));
    both = both.handle ? c.mul(both, length) : length;
  }
  Value whole = c.sub(c.add(row(area), across(area)), both);
  Value isMore = c.op("greater", {c.div(both, whole), number(overlap, ElementType::kF32)});
  // Boxes without an area conflict with none.
  Value conflicts = c.op("and", {isMore, c.op("greater", {both, c.scalarLike(both, 0)})});
  Value sorted = inOrder(c.toF32(scores));
  Value candidates = threshold.handle ? c.op("greater", {sorted, number(threshold, ElementType::kF32)})
                                      : c.full({ElementType::kBool, score}, 1);
  Value kept = c.op("suppress", {candidates, conflicts});
  Value before =
      scan(c, c.cast(kept, ElementType::kI32), 2, "add", /*exclusive=*/true, /*reverse=*/false, how.mostBoxes);
  Value isWithin = c.op("less", {c.cast(before, ElementType::kI64), number(most, ElementType::kI64)});
  result.kept = c.op("and", {kept, isWithin});
  return result;
}

UniqueRows uniqueRows(Emitter& c, Value rows, bool isSorted) {
  if (!c.ok()) return {};
  if (c.element(rows) == ElementType::kBool) rows = c.cast(rows, ElementType::kU8);
  const int64_t count = c.dim(rows, 0), width = c.dim(rows, 1);
  if (width < 1) return {c.unsupported("rows without elements"), {}, {}, {}};
  // Each is compared with each.
  constexpr int64_t kMostRows = int64_t{1} << 16;
  if (count > kMostRows)
    return {
        c.unsupported(base::strCat("the different ones among ", count, " (at most ", kMostRows, " are)")), {}, {}, {}};
  // [i, j]: of row i and row j.
  Value mine, others;
  if (width == 1) {
    mine = c.reshape(rows, {count, 1}), others = c.reshape(rows, {1, count});
  } else {
    // Rows are ordered as the first elements in which they differ.
    const Shape pairs = {count, count, width};
    Value a = c.expand(c.reshape(rows, {count, 1, width}), pairs),
          b = c.expand(c.reshape(rows, {1, count, width}), pairs);
    Value differs = c.cast(c.op("not", {c.op("equal", {a, b})}), ElementType::kI32);
    Value at = c.op("arg_max", {differs}, {{"axis", int64_t{2}}, {"keepdims", int64_t{1}}});
    auto chosen = [&](Value v) { return removeDim(c, c.op("gather_elements", {v, at}, {{"axis", int64_t{2}}}), 2); };
    mine = chosen(a), others = chosen(b);
  }
  Value across = counter(c, count, 1, 2), own = counter(c, count, 0, 1);
  Value isSame = c.op("equal", {mine, others});
  const double beyond = static_cast<double>(count);
  Value first = c.reduce("reduce_min", c.where(isSame, across, c.scalarLike(across, beyond)), {1}, false);
  first = c.min(first, own);  // What is not equal to itself, NaN, is the first one of its own.
  Value isFirst = c.op("equal", {first, own});
  Value isBefore = isSorted ? c.op("less", {others, mine}) : c.op("less", {across, insertDim(c, first, 1)});
  if (isSorted && isFloat(c.element(rows))) {
    // NaN is behind all numbers, in the order of places.
    Value mineIsNan = c.op("is_nan", {mine}), otherIsNan = c.op("is_nan", {others});
    Value isEarlier = c.op("or", {c.op("not", {otherIsNan}), c.op("less", {across, insertDim(c, own, 1)})});
    isBefore = c.where(mineIsNan, isEarlier, isBefore);
  }
  Value counted = c.op("and", {isBefore, c.reshape(isFirst, {1, count})});
  Value place = c.reduceSum(c.cast(counted, ElementType::kI32), {1}, false);
  UniqueRows result;
  result.inverse = c.cast(place, ElementType::kI64);
  result.count = c.reduceSum(c.cast(isFirst, ElementType::kI64), {0}, false);
  Value zeros = c.full({ElementType::kI64, {count}}, 0);
  Value nowhere = c.where(isFirst, place, c.scalarLike(place, INT32_MAX));
  result.places = scatterAlong(c, zeros, nowhere, c.cast(own, ElementType::kI64), 0, "replace");
  result.counts = scatterAlong(c, zeros, place, c.full({ElementType::kI64, {count}}, 1), 0, "add");
  return result;
}

}  // namespace hpu::compose
