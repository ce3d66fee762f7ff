// SPDX-License-Identifier: Apache-2.0
#include "compose/GridSample.h"

#include "compose/Functions.h"
#include "compose/Indexing.h"

namespace hpu::compose {
namespace {

using Mode = GridSampling::Mode;
using Padding = GridSampling::Padding;

struct Place {
  Value at;     ///< In elements of the image; f32, [N, P].
  Value slope;  ///< Its derivative by the grid's coordinate.
};

/// What is outside of the image as often reflected at its ends as it takes; `slope` changes its sign with each.
Place reflected(Emitter& c, Place place, double size, bool alignsCorners) {
  const double low = alignsCorners ? 0 : -0.5, span = alignsCorners ? size - 1 : size;
  if (span == 0) return {c.mul(place.at, 0.0), c.mul(place.at, 0.0)};
  Value from = c.sub(place.at, low), isBelow = isLess(c, from, 0), distance = c.op("abs", {from});
  Value flips = c.op("floor", {c.div(distance, span)}), rest = c.op("mod", {distance, c.scalarLike(place.at, span)});
  Value isOdd = isEqual(c, c.op("mod", {flips, c.scalarLike(place.at, 2)}), 1);
  return {c.add(c.where(isOdd, c.sub(c.scalarLike(rest, span), rest), rest), low),
          c.where(c.op("xor", {isBelow, isOdd}), c.neg(place.slope), place.slope)};
}

/// As the padding has it.
Place padded(Emitter& c, Place place, int64_t size, const GridSampling& how) {
  const auto s = static_cast<double>(size);
  if (how.padding == Padding::kZeros) return place;
  if (how.padding == Padding::kReflection) place = reflected(c, place, s, how.alignsCorners);
  Value isInside = c.op("and", {isGreater(c, place.at, 0), isLess(c, place.at, s - 1)});
  Value clipped = c.min(c.max(place.at, c.scalarLike(place.at, 0)), c.scalarLike(place.at, s - 1));
  return {clipped, c.where(isInside, place.slope, c.scalarLike(place.slope, 0))};
}

/// The coordinate along a dim of `size` elements that is number `k` of the grid's last dim.
Place placeOf(Emitter& c, Value grid, int64_t k, int64_t size, const GridSampling& how) {
  const auto s = static_cast<double>(size);
  Value x = removeDim(c, c.sliceDim(grid, 2, k, 1), 2);
  Value at = how.alignsCorners ? c.mul(c.add(x, 1), (s - 1) / 2) : c.mul(c.sub(c.mul(c.add(x, 1), s), 1), 0.5);
  const Place place{at, c.full(c.type(at), how.alignsCorners ? (s - 1) / 2 : s / 2)};
  // Taps of a cubic are padded one by one.
  return how.mode == Mode::kCubic ? place : padded(c, place, size, how);
}

/// One tap of each place along one dim.
struct Tap {
  Value index;     ///< i32, inside; [N, P].
  Value isInside;  ///< Whether it was.
  Value weight;
  Value slope;  ///< The weight's derivative by the place; null: 0.
};

Tap tapAt(Emitter& c, Value at, int64_t size) {
  Tap tap;
  tap.isInside =
      c.op("and", {c.op("greater_equal", {at, c.scalarLike(at, 0)}), isLess(c, at, static_cast<double>(size))});
  tap.index = c.cast(c.where(tap.isInside, at, c.scalarLike(at, 0)), ElementType::kI32);
  return tap;
}

/// The convolution kernel of a cubic, A = -3/4 as PyTorch and ONNX have it, at `x` (which is not negative) from the
/// place: its near piece (up to 1) or its far one (to 2); or the derivative by x.
Value cubic(Emitter& c, Value x, bool isNear, bool isDerivative) {
  constexpr double A = -0.75;
  if (isDerivative)
    return isNear ? polynomial(c, x, {0, -2 * (A + 3), 3 * (A + 2)}) : polynomial(c, x, {8 * A, -10 * A, 3 * A});
  return isNear ? polynomial(c, x, {1, 0, -(A + 3), A + 2}) : polynomial(c, x, {-4 * A, 8 * A, -5 * A, A});
}

std::vector<Tap> tapsOf(Emitter& c, const Place& place, int64_t size, const GridSampling& how) {
  std::vector<Tap> taps;
  if (how.mode == Mode::kNearest) {
    taps.push_back(tapAt(c, c.op("round", {place.at}), size));
    taps[0].weight = c.full(c.type(place.at), 1);
    return taps;
  }
  Value low = c.op("floor", {place.at}), fraction = c.sub(place.at, low), rest = oneMinus(c, fraction);
  if (how.mode == Mode::kLinear) {
    for (bool isUpper : {false, true}) {
      Tap tap = tapAt(c, isUpper ? c.add(low, 1) : low, size);
      tap.weight = isUpper ? fraction : rest;
      tap.slope = c.full(c.type(place.at), isUpper ? 1 : -1);
      taps.push_back(tap);
    }
    return taps;
  }
  for (int t = -1; t <= 2; ++t) {
    Tap tap = tapAt(c, padded(c, {c.add(low, t), c.scalarLike(low, 1)}, size, how).at, size);
    const bool isNear = t == 0 || t == 1, isBehind = t > 0;
    Value distance = isBehind ? rest : fraction;
    if (!isNear) distance = c.add(distance, 1);
    tap.weight = cubic(c, distance, isNear, false);
    tap.slope = cubic(c, distance, isNear, true);
    if (isBehind) tap.slope = c.neg(tap.slope);
    taps.push_back(tap);
  }
  return taps;
}

class Sampler {
 public:
  Sampler(Emitter& c, Value image, Value grid, const GridSampling& how) : c_(c), how_(how) {
    const Shape sizes = c.shape(image);
    const Shape places = c.shape(grid);
    if (!fits(sizes, places)) return;
    n = sizes[0];
    channels = sizes[1];
    sizes_.assign(sizes.begin() + 2, sizes.end());
    const auto dims = static_cast<int64_t>(sizes_.size());
    count = numElements(places) / n / dims;
    Value flat = c.reshape(grid, {n, count, dims});
    for (int64_t d = 0; d < dims; ++d) {
      const int64_t size = sizes_[static_cast<size_t>(d)];
      places_.push_back(placeOf(c, flat, dims - 1 - d, size, how));
      taps_.push_back(tapsOf(c, places_.back(), size, how));
    }
  }

  bool fits(const Shape& sizes, const Shape& places) {
    if (numElements(sizes) == 0 || numElements(places) == 0)
      c_.unsupported("no elements");
    else if (sizes.size() < 4 || places.size() != sizes.size() ||
             places.back() != static_cast<int64_t>(sizes.size()) - 2 || places[0] != sizes[0])
      c_.fail("the grid does not fit the image");
    else if (how_.mode == Mode::kCubic && sizes.size() != 4)
      c_.unsupported("cubic samples of volumes");
    return c_.ok();
  }
  size_t dims() const { return sizes_.size(); }
  int64_t pixels() const { return numElements(sizes_); }
  const Place& place(size_t d) const { return places_[d]; }
  bool isConstantBetween() const { return how_.mode == Mode::kNearest; }
  size_t combinations() const {
    size_t product = 1;
    for (const auto& taps : taps_) product *= taps.size();
    return product;
  }

  struct Corner {
    Value index, weight;  ///< Into the flattened image, [N, 1, P]; the weight is 0 outside.
  };
  /// One tap along each dim. `along`: the weight is its derivative by the place of that dim.
  Corner corner(size_t combination, size_t along = SIZE_MAX) const {
    Value index, weight, inside;
    for (size_t d = 0; d < dims(); ++d) {
      const Tap& tap = taps_[d][combination % taps_[d].size()];
      combination /= taps_[d].size();
      index = index.handle ? c_.add(c_.mul(index, static_cast<double>(sizes_[d])), tap.index) : tap.index;
      inside = inside.handle ? c_.op("and", {inside, tap.isInside}) : tap.isInside;
      Value w = d == along ? tap.slope : tap.weight;
      weight = weight.handle ? c_.mul(weight, w) : w;
    }
    weight = orZero(c_, inside, weight);
    return {c_.reshape(index, {n, 1, count}), c_.reshape(weight, {n, 1, count})};
  }
  Value picked(Value image, const Corner& corner) const {
    return c_.op("gather_elements", {image, c_.expand(corner.index, {n, channels, count})}, {{"axis", int64_t{2}}});
  }

  int64_t n = 0, channels = 0, count = 0;  ///< Count: of places.

 private:
  Emitter& c_;
  const GridSampling& how_;
  Shape sizes_;  ///< Of the image, slowest dim first.
  std::vector<Place> places_;
  std::vector<std::vector<Tap>> taps_;  ///< By dim.
};

Value sum(Emitter& c, Value a, Value b) {
  return a.handle ? c.add(a, b) : b;
}

}  // namespace

Value gridSample(Emitter& c, Value image, Value grid, const GridSampling& how) {
  const Sampler s(c, image, grid, how);
  if (!c.ok()) return {};
  Value flat = c.reshape(image, {s.n, s.channels, s.pixels()}), total;
  for (size_t k = 0; k < s.combinations(); ++k) {
    const Sampler::Corner corner = s.corner(k);
    total = sum(c, total, c.mul(s.picked(flat, corner), corner.weight));
  }
  const Shape places = c.shape(grid);
  Shape sizes = {s.n, s.channels};
  sizes.insert(sizes.end(), places.begin() + 1, places.end() - 1);
  return c.reshape(total, sizes);
}

GridGradients gridSampleBackward(Emitter& c, Value g, Value image, Value grid, const GridSampling& how, bool wantsImage,
                                 bool wantsGrid) {
  const Sampler s(c, image, grid, how);
  if (!c.ok()) return {};
  g = c.reshape(g, {s.n, s.channels, s.count});
  Value flat = c.reshape(image, {s.n, s.channels, s.pixels()});
  Value total = c.full({ElementType::kF32, {s.n, s.channels, s.pixels()}}, 0);
  std::vector<Value> slopes(s.dims());
  for (size_t k = 0; k < s.combinations(); ++k) {
    const Sampler::Corner corner = s.corner(k);
    if (wantsImage) total = scatterAlong(c, total, corner.index, c.mul(g, corner.weight), 2, "add");
    if (!wantsGrid || s.isConstantBetween()) continue;
    Value dot = c.reduceSum(c.mul(g, s.picked(flat, corner)), {1}, true);
    for (size_t d = 0; d < s.dims(); ++d) slopes[d] = sum(c, slopes[d], c.mul(dot, s.corner(k, d).weight));
  }
  GridGradients gradients;
  if (wantsImage) gradients.image = c.reshape(total, c.shape(image));
  if (!wantsGrid) return gradients;
  std::vector<Value> columns;
  for (size_t d = s.dims(); d-- > 0;) {
    Value column = s.isConstantBetween() ? c.full({ElementType::kF32, {s.n, s.count}}, 0)
                                         : c.mul(c.reshape(slopes[d], {s.n, s.count}), s.place(d).slope);
    columns.push_back(c.reshape(column, {s.n, s.count, 1}));
  }
  gradients.grid = c.reshape(c.concat(columns, 2), c.shape(grid));
  return gradients;
}

Value affineGrid(Emitter& c, Value matrices, const Shape& sizes, bool alignsCorners) {
  if (!c.ok()) return {};
  const auto dims = static_cast<int64_t>(sizes.size());
  const Shape shape = c.shape(matrices);
  if (shape.size() != 3 || shape[1] != dims || shape[2] != dims + 1)
    return c.fail("matrices must be [N, " + std::to_string(dims) + ", " + std::to_string(dims + 1) + "]");
  int64_t points = 1;
  for (int64_t size : sizes) points *= size;
  constexpr int64_t kMostPoints = int64_t{1} << 24;
  if (points < 1 || points > kMostPoints) return c.unsupported("a grid of " + std::to_string(points) + " points");
  // [points, dims + 1]: each point, the fastest dim of the image first, and 1.
  std::vector<float> all;
  for (int64_t p = 0; p < points; ++p) {
    int64_t rest = p;
    for (int64_t d = dims; d-- > 0;) {
      const int64_t size = sizes[static_cast<size_t>(d)];
      const auto at = static_cast<double>(rest % size);
      rest /= size;
      const auto most = static_cast<double>(size);
      // A single element has its middle in the middle.
      all.push_back(static_cast<float>(!alignsCorners ? (2 * at + 1) / most - 1
                                       : size == 1    ? 0
                                                      : 2 * at / (most - 1) - 1));
    }
    all.push_back(1);
  }
  Value base = c.constant({ElementType::kF32, {1, points, 1, dims + 1}}, all.data(), all.size() * sizeof(float));
  Value sum = c.reduceSum(c.mul(base, c.reshape(matrices, {shape[0], 1, dims, dims + 1})), {3}, false);
  Shape result = {shape[0]};
  result.insert(result.end(), sizes.begin(), sizes.end());
  result.push_back(dims);
  return c.reshape(sum, result);
}

}  // namespace hpu::compose
