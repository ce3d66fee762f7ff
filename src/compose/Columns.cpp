// SPDX-License-Identifier: Apache-2.0
#include "compose/Columns.h"

#include "compose/GridSample.h"

namespace hpu::compose {

Value foldColumns(Emitter& c, Value columns, const Blocks& blocks) {
  if (!c.ok()) return {};
  const Shape shape = c.shape(columns);
  const size_t dims = blocks.image.size();
  int64_t taps = 1, places = 1;
  Shape windows, padded;
  for (size_t d = 0; d < dims; ++d) {
    padded.push_back(blocks.image[d] + blocks.padBegin[d] + blocks.padEnd[d]);
    const int64_t reach = blocks.dilations[d] * (blocks.kernel[d] - 1) + 1;
    if (padded[d] < reach) return c.fail("a block that is larger than the padded image");
    windows.push_back((padded[d] - reach) / blocks.strides[d] + 1);
    taps *= blocks.kernel[d];
    places *= windows[d];
  }
  if (shape.size() != 3 || shape[1] % taps != 0 || shape[2] != places)
    return c.fail("columns must be [N, C * " + std::to_string(taps) + ", " + std::to_string(places) + "]");
  constexpr int64_t kMostTaps = 1024;
  if (taps > kMostTaps) return c.unsupported("blocks of more than " + std::to_string(kMostTaps) + " elements");

  Shape all = {shape[0], shape[1] / taps, taps};
  all.insert(all.end(), windows.begin(), windows.end());
  columns = c.reshape(columns, all);
  Shape own = {shape[0], shape[1] / taps};
  own.insert(own.end(), windows.begin(), windows.end());
  Shape steps(own.size(), 1);
  for (size_t d = 0; d < dims; ++d) steps[2 + d] = blocks.strides[d];
  Value sum;
  for (int64_t t = 0; t < taps && c.ok(); ++t) {
    Value part = c.spread(c.reshape(c.sliceDim(columns, 2, t, 1), own), steps);
    Shape low(own.size(), 0), high(own.size(), 0);
    for (size_t d = dims, rest = static_cast<size_t>(t); d-- > 0; rest /= static_cast<size_t>(blocks.kernel[d])) {
      const auto at = static_cast<int64_t>(rest % static_cast<size_t>(blocks.kernel[d]));
      low[2 + d] = at * blocks.dilations[d];
      high[2 + d] = padded[d] - low[2 + d] - ((windows[d] - 1) * blocks.strides[d] + 1);
    }
    part = c.pad(part, low, high);
    sum = sum.handle ? c.add(sum, part) : part;
  }
  Shape starts(own.size(), 0), sizes = {own[0], own[1]};
  for (size_t d = 0; d < dims; ++d) starts[2 + d] = blocks.padBegin[d], sizes.push_back(blocks.image[d]);
  return c.slice(sum, starts, sizes, Shape(own.size(), 1));
}

Value deformableConvolution(Emitter& c, Value x, Value w, Value offset, Value mask, const DeformableWindow& window) {
  if (!c.ok()) return {};
  const Shape image = c.shape(x), weights = c.shape(w), places = c.shape(offset);
  if (image.size() != 4 || weights.size() != 4 || places.size() != 4)
    return c.unsupported("a deformable convolution of other images than [N, C, H, W]");
  const int64_t n = image[0], channels = image[1], taps = weights[2] * weights[3];
  const int64_t groups = window.groups, offsets = window.offsetGroups, high = places[2], wide = places[3];
  if (groups < 1 || offsets < 1 || channels % groups != 0 || channels % offsets != 0 || weights[0] % groups != 0 ||
      weights[1] != channels / groups || places[0] != n || places[1] != 2 * offsets * taps ||
      (mask.handle && c.shape(mask) != Shape{n, offsets * taps, high, wide}))
    return c.fail("weights, offsets or mask do not fit the image and the groups");
  // Where taps lie without their offsets, in elements: [2, taps, OH, OW], rows first.
  std::vector<float> still;
  for (int64_t dim = 0; dim < 2; ++dim)
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t i = 0; i < high; ++i)
        for (int64_t j = 0; j < wide; ++j) {
          const int64_t at = dim == 0 ? i : j, tap = dim == 0 ? t / weights[3] : t % weights[3];
          still.push_back(
              static_cast<float>(at * window.strides[dim] - window.padBegin[dim] + tap * window.dilations[dim]));
        }
  Value base = c.constant({ElementType::kF32, {1, 1, 2, taps, high, wide}}, still.data(), still.size() * sizeof(float));
  Value moved = c.transpose(c.reshape(offset, {n, offsets, taps, 2, high, wide}), {0, 1, 3, 2, 4, 5});
  Value at = c.add(moved, base);
  GridSampling how;
  std::vector<Value> columns;
  for (int64_t o = 0; o < offsets && c.ok(); ++o) {
    auto along = [&](int64_t dim) {  // As the grid counts: -1 and 1 are the image's outer edges.
      Value own = c.reshape(c.slice(at, {0, o, dim, 0, 0, 0}, {n, 1, 1, taps, high, wide}, Shape(6, 1)),
                            {n, taps * high, wide, 1});
      const auto size = static_cast<double>(image[static_cast<size_t>(2 + dim)]);
      return c.sub(c.div(c.add(c.mul(own, 2.0), 1.0), size), 1.0);
    };
    Value part = c.sliceDim(x, 1, o * (channels / offsets), channels / offsets);
    Value sampled = gridSample(c, part, c.concat({along(1), along(0)}, 3), how);
    sampled = c.reshape(sampled, {n, channels / offsets, taps, high, wide});
    if (mask.handle) {
      Value own = c.sliceDim(mask, 1, o * taps, taps);
      sampled = c.mul(sampled, c.reshape(own, {n, 1, taps, high, wide}));
    }
    columns.push_back(sampled);
  }
  Value all = c.reshape(c.concat(columns, 1), {n, groups, channels / groups * taps, high * wide});
  Value matrix = c.reshape(w, {1, groups, weights[0] / groups, channels / groups * taps});
  return c.reshape(c.matmul(matrix, all), {n, weights[0], high, wide});
}

}  // namespace hpu::compose
