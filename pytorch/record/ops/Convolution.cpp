// SPDX-License-Identifier: Apache-2.0
// Convolutions of one to three dims, also transposed ones, and their gradients. The one thing to know: a transposed
// convolution is the gradient of one with respect to its operand, and the other way round.
#include "compose/Convolutions.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::ConvWindow;

/// [N, C, ...] as [N, D, H, W, C], and back.
Value channelsLast(Call& c, Value v) {
  Shape s = c.shape(v);
  if (!c.ok()) return {};
  while (s.size() < 5) s.insert(s.begin() + 2, 1);
  return c.transpose(c.reshape(v, s), {0, 2, 3, 4, 1});
}
Value channelsFirst(Call& c, Value v, size_t rank) {
  v = c.transpose(v, {0, 4, 1, 2, 3});
  Shape s = c.shape(v);
  if (!c.ok()) return {};
  s.erase(s.begin() + 2, s.begin() + 2 + static_cast<int64_t>(5 - rank));
  return c.reshape(v, s);
}
/// [K, C / groups, ...] as [Q, R, S, C / groups, K], and back.
Value weightLast(Call& c, Value v) {
  Shape s = c.shape(v);
  if (!c.ok()) return {};
  while (s.size() < 5) s.insert(s.begin() + 2, 1);
  return c.transpose(c.reshape(v, s), {2, 3, 4, 1, 0});
}
Value weightFirst(Call& c, Value v, const Shape& sizes) {
  return c.reshape(c.transpose(v, {4, 3, 0, 1, 2}), sizes);
}

struct Geometry {
  ConvWindow window;
  bool isTransposed = false;
  Ints outputPadding;
};

/// Arguments from `first`: stride, padding, dilation, transposed, output_padding, groups.
Geometry geometryOf(Call& c, size_t first, const Shape& weight) {
  Geometry g;
  const size_t spatial = weight.size() - 2;
  Ints stride = c.ints(first, spatial), padding = c.ints(first + 1, spatial), dilation = c.ints(first + 2, spatial);
  for (size_t d = 0; d < spatial; ++d) {
    const size_t at = d + 3 - spatial;
    g.window.kernel[at] = weight[d + 2];
    g.window.stride[at] = stride[d];
    g.window.dilation[at] = dilation[d];
    g.window.before[at] = g.window.after[at] = padding[d];
  }
  g.window.groups = c.integer(first + 5);
  g.isTransposed = c.flag(first + 3);
  g.outputPadding = c.ints(first + 4, spatial);
  return g;
}

bool isUsable(Call& c, size_t x, size_t w) {
  const Shape &xs = c.meta(x).sizes, &ws = c.meta(w).sizes;
  if (ws.size() < 3 || ws.size() > 5 || xs.size() != ws.size()) return c.unsupported("such ranks"), false;
  if (hpu::numElements(xs) == 0 || hpu::numElements(ws) == 0) return c.unsupported("no elements"), false;
  if (!hpu::compose::isFloat(c.common())) return c.unsupported("integers"), false;
  return true;
}

/// Sizes [N, D, H, W, C] of what a convolution with the geometry makes of `x` (in that order), or the reverse.
Shape resultSizes(const Geometry& g, const Shape& x, const Shape& weight) {
  const size_t spatial = weight.size() - 2;
  Shape y = {x[0]};
  for (size_t d = 0; d < 3; ++d) {
    const ConvWindow& w = g.window;
    const int64_t pads = w.before[d] + w.after[d];
    const int64_t extra = g.isTransposed && d + spatial >= 3 ? g.outputPadding[d + spatial - 3] : 0;
    y.push_back(g.isTransposed ? (x[d + 1] - 1) * w.stride[d] - pads + w.span(d) + extra
                               : (x[d + 1] + pads - w.span(d)) / w.stride[d] + 1);
  }
  y.push_back(g.isTransposed ? weight[1] * g.window.groups : weight[0]);
  return y;
}

/// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
void convolution(Call& c) {
  if (!isUsable(c, 0, 1)) return;
  const Shape weight = c.meta(1).sizes;
  Geometry g = geometryOf(c, 3, weight);
  Value x = channelsLast(c, c.in(0)), w = weightLast(c, c.in(1));
  Shape y = resultSizes(g, c.shape(x), weight);
  for (int64_t size : y)
    if (size < 1) return (void)c.unsupported("a kernel that is larger than the padded operand");
  Value v = g.isTransposed ? convolutionDataGradient(c, x, w, g.window, y) : convolve(c, x, w, g.window, y);
  if (c.has(2)) v = c.add(v, c.in(2, c.element(v)));
  c.out(0, channelsFirst(c, v, weight.size()), c.meta(0).type);
}

/// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
void convolutionBackward(Call& c) {
  if (!isUsable(c, 1, 2)) return;
  const Shape weight = c.meta(2).sizes;
  Geometry g = geometryOf(c, 4, weight);
  Ints mask = c.ints(10);
  Value dy = channelsLast(c, c.in(0));
  if (mask[0]) {
    Value w = weightLast(c, c.in(2));
    Shape xs = c.meta(1).sizes;
    while (xs.size() < 5) xs.insert(xs.begin() + 2, 1);
    xs = {xs[0], xs[2], xs[3], xs[4], xs[1]};
    Value v;
    if (g.isTransposed) {
      // What output_padding added may hold more windows than the operand had.
      Geometry plain = g;
      plain.isTransposed = false;
      Shape all = resultSizes(plain, c.shape(dy), weight);
      all[4] = xs[4];
      v = c.slice(convolve(c, dy, w, g.window, all), Ints(5, 0), xs, Ints(5, 1));
    } else {
      v = convolutionDataGradient(c, dy, w, g.window, xs);
    }
    c.out(0, channelsFirst(c, v, weight.size()), c.meta(1).type);
  }
  if (mask[1]) {
    Value x = channelsLast(c, c.in(1));
    Shape ws = weight;
    while (ws.size() < 5) ws.insert(ws.begin() + 2, 1);
    ws = {ws[2], ws[3], ws[4], ws[1], ws[0]};
    Value v = g.isTransposed ? convolutionWeightGradient(c, x, dy, g.window, ws)
                             : convolutionWeightGradient(c, dy, x, g.window, ws);
    c.out(1, weightFirst(c, v, weight), c.meta(2).type);
  }
  if (mask[2]) c.out(2, c.reduceSum(c.toF32(dy), {0, 1, 2, 3}, false), c.meta(2).type);
}

}  // namespace

const std::vector<Row>& convolutionOps() {
  static const auto& rows = *new std::vector<Row>{
      {"convolution", convolution, {}, Row::kOwnShapes | Row::kKeepsFormat},
      {"convolution_backward", convolutionBackward, {}, Row::kOwnShapes | Row::kKeepsFormat},
  };
  return rows;
}

}  // namespace hpu_torch
