// SPDX-License-Identifier: Apache-2.0
// Samples of an image at the places of a grid, 2-D and 3-D. The one thing to know: along each dim a place lies between
// two elements with a weight each; a sample is the sum over all corners.
#include "compose/Functions.h"
#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isGreater;
using hpu::compose::isLess;

enum Padding : int64_t { kZeros, kBorder, kReflection };

struct Place {
  Value at;     ///< In elements of the image; f32, [N, P].
  Value slope;  ///< Its derivative by the grid's coordinate.
};

/// The coordinate along a dim of `size` elements that is number `k` of the grid's last dim.
Place placeOf(Call& c, Value grid, int64_t k, int64_t size, int64_t padding, bool alignsCorners) {
  const auto s = static_cast<double>(size);
  Value x = hpu::compose::removeDim(c, c.sliceDim(grid, 2, k, 1), 2);
  Value at = alignsCorners ? c.mul(c.add(x, 1), (s - 1) / 2) : c.mul(c.sub(c.mul(c.add(x, 1), s), 1), 0.5);
  Value slope = c.full(c.type(at), alignsCorners ? (s - 1) / 2 : s / 2);
  if (padding == kReflection) {
    const double low = alignsCorners ? 0 : -0.5, span = alignsCorners ? s - 1 : s;
    if (span == 0) return {c.mul(at, 0.0), c.mul(at, 0.0)};
    Value from = c.sub(at, low), isBelow = isLess(c, from, 0), distance = c.op("abs", {from});
    Value flips = c.op("floor", {c.div(distance, span)}), rest = c.op("mod", {distance, c.scalarLike(at, span)});
    Value isOdd = hpu::compose::isEqual(c, c.op("mod", {flips, c.scalarLike(at, 2)}), 1);
    at = c.add(c.where(isOdd, c.sub(c.scalarLike(rest, span), rest), rest), low);
    slope = c.where(c.op("xor", {isBelow, isOdd}), c.neg(slope), slope);
  }
  if (padding != kZeros) {
    Value isInside = c.op("and", {isGreater(c, at, 0), isLess(c, at, s - 1)});
    slope = c.where(isInside, slope, c.scalarLike(slope, 0));
    at = c.min(c.max(at, c.scalarLike(at, 0)), c.scalarLike(at, s - 1));
  }
  return {at, slope};
}

/// One corner of each place along one dim.
struct Corner {
  Value index;     ///< i32, inside; [N, P].
  Value isInside;  ///< Whether it was.
  Value weight;
  double sign = 1;  ///< Of the weight's derivative by the place.
};
Corner cornerOf(Call& c, const Place& place, int64_t size, bool isUpper, bool isNearest) {
  Value low = c.op(isNearest ? "round" : "floor", {place.at}), at = isUpper ? c.add(low, 1) : low;
  Corner corner;
  corner.isInside =
      c.op("and", {c.op("greater_equal", {at, c.scalarLike(at, 0)}), isLess(c, at, static_cast<double>(size))});
  corner.index = c.cast(c.where(corner.isInside, at, c.scalarLike(at, 0)), ElementType::kI32);
  Value upper = c.sub(place.at, low);
  corner.weight = isNearest ? c.full(c.type(at), 1) : isUpper ? upper : hpu::compose::oneMinus(c, upper);
  corner.sign = isUpper ? 1 : -1;
  return corner;
}

struct Sampler {
  int64_t n = 0, channels = 0, count = 0;  ///< Count: of places.
  Ints sizes;                              ///< Of the image, slowest dim first.
  std::vector<Place> places;
  std::vector<std::vector<Corner>> corners;  ///< By dim.
  size_t combinations() const { return size_t{1} << (corners[0].size() > 1 ? sizes.size() : 0); }
  const Corner& corner(size_t combination, size_t d) const {
    return corners[d][corners[d].size() > 1 ? combination >> d & 1 : 0];
  }
};

/// Arguments from `first`: input, grid, interpolation_mode, padding_mode, align_corners.
bool prepare(Call& c, size_t first, Sampler& s) {
  const Shape image = c.meta(first).sizes, grid = c.meta(first + 1).sizes;
  if (hpu::numElements(image) == 0 || hpu::numElements(grid) == 0) return c.unsupported("no elements"), false;
  if (c.integer(first + 2) > 1) return c.unsupported("bicubic samples"), false;
  s.n = image[0];
  s.channels = image[1];
  s.sizes.assign(image.begin() + 2, image.end());
  s.count = hpu::numElements(grid) / s.n / static_cast<int64_t>(s.sizes.size());
  Value flat = c.reshape(c.f32(first + 1), {s.n, s.count, static_cast<int64_t>(s.sizes.size())});
  const bool isNearest = c.integer(first + 2) == 1;
  for (size_t d = 0; d < s.sizes.size(); ++d) {
    // The grid's last dim has the fastest dim first.
    s.places.push_back(placeOf(c, flat, static_cast<int64_t>(s.sizes.size() - 1 - d), s.sizes[d], c.integer(first + 3),
                               c.flag(first + 4)));
    s.corners.push_back({cornerOf(c, s.places[d], s.sizes[d], false, isNearest)});
    if (!isNearest) s.corners[d].push_back(cornerOf(c, s.places[d], s.sizes[d], true, false));
  }
  return c.ok();
}

struct Tap {
  Value index, weight;  ///< Into the flattened image, [N, 1, P]; the weight is 0 outside.
};
Tap tapOf(Call& c, const Sampler& s, size_t combination, size_t leftOut = 99) {
  Value index, weight, inside;
  for (size_t d = 0; d < s.sizes.size(); ++d) {
    const Corner& corner = s.corner(combination, d);
    index = index.handle ? c.add(c.mul(index, static_cast<double>(s.sizes[d])), corner.index) : corner.index;
    inside = inside.handle ? c.op("and", {inside, corner.isInside}) : corner.isInside;
    Value w = d == leftOut ? c.scalarLike(corner.weight, corner.sign) : corner.weight;
    weight = weight.handle ? c.mul(weight, w) : w;
  }
  weight = c.where(inside, weight, c.scalarLike(weight, 0));
  return {c.reshape(index, {s.n, 1, s.count}), c.reshape(c.expand(weight, {s.n, s.count}), {s.n, 1, s.count})};
}

void gridSample(Call& c) {
  Sampler s;
  if (!prepare(c, 0, s)) return;
  Value image = c.reshape(c.f32(0), {s.n, s.channels, hpu::numElements(s.sizes)}), sum;
  for (size_t k = 0; k < s.combinations(); ++k) {
    Tap tap = tapOf(c, s, k);
    Value picked =
        c.op("gather_elements", {image, c.expand(tap.index, {s.n, s.channels, s.count})}, {{"axis", int64_t{2}}});
    Value part = c.mul(picked, tap.weight);
    sum = sum.handle ? c.add(sum, part) : part;
  }
  const Shape& grid = c.meta(1).sizes;
  Shape sizes = {s.n, s.channels};
  sizes.insert(sizes.end(), grid.begin() + 1, grid.end() - 1);
  c.out(0, c.reshape(sum, sizes), c.meta(0).type);
}

/// grad_output, input, grid, .., output_mask -> dInput, dGrid
void gridSampleBackward(Call& c) {
  Sampler s;
  if (!prepare(c, 1, s)) return;
  const int64_t pixels = hpu::numElements(s.sizes);
  const Ints mask = c.ints(6);
  Value g = c.reshape(c.f32(0), {s.n, s.channels, s.count}), image = c.reshape(c.f32(1), {s.n, s.channels, pixels});
  Value sum = c.full({ElementType::kF32, {s.n, s.channels, pixels}}, 0);
  std::vector<Value> slopes(s.sizes.size());
  const bool isNearest = s.combinations() == 1;
  for (size_t k = 0; k < s.combinations(); ++k) {
    Tap tap = tapOf(c, s, k);
    if (mask[0]) sum = scatterAlong(c, sum, tap.index, c.mul(g, tap.weight), 2, "add");
    if (isNearest) continue;
    Value picked =
        c.op("gather_elements", {image, c.expand(tap.index, {s.n, s.channels, s.count})}, {{"axis", int64_t{2}}});
    Value dot = c.reduceSum(c.mul(g, picked), {1}, true);
    for (size_t d = 0; d < slopes.size(); ++d) {
      Value part = c.mul(dot, tapOf(c, s, k, d).weight);
      slopes[d] = slopes[d].handle ? c.add(slopes[d], part) : part;
    }
  }
  if (mask[0]) c.out(0, c.reshape(sum, c.meta(1).sizes), c.meta(1).type);
  std::vector<Value> columns;
  for (size_t d = slopes.size(); d-- > 0;) {
    Value column = isNearest ? c.full({ElementType::kF32, {s.n, s.count}}, 0)
                             : c.mul(c.reshape(slopes[d], {s.n, s.count}), s.places[d].slope);
    columns.push_back(c.reshape(column, {s.n, s.count, 1}));
  }
  c.out(1, c.reshape(c.concat(columns, 2), c.meta(2).sizes), c.meta(2).type);
}

}  // namespace

const std::vector<Row>& gridOps() {
  static const auto& rows = *new std::vector<Row>{
      {"grid_sampler_2d grid_sampler_3d", gridSample, {}, Row::kOwnShapes},
      {"grid_sampler_2d_backward grid_sampler_3d_backward", gridSampleBackward, {}, Row::kOwnShapes},
  };
  return rows;
}

}  // namespace hpu_torch
