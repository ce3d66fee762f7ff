// SPDX-License-Identifier: Apache-2.0
#include "compose/Convolutions.h"

#include <algorithm>

namespace hpu::compose {

using Ints = std::vector<int64_t>;

namespace {

/// Negative amounts cut, positive ones pad with zeros.
Value fit(Emitter& c, Value v, int64_t d, int64_t before, int64_t after) {
  int64_t size = c.dim(v, d), cutBefore = std::max<int64_t>(0, -before), cutAfter = std::max<int64_t>(0, -after);
  v = c.sliceDim(v, d, cutBefore, size - cutBefore - cutAfter);
  Ints low(static_cast<size_t>(c.rank(v)), 0), high = low;
  if (!v.handle) return v;
  low[static_cast<size_t>(d)] = std::max<int64_t>(0, before);
  high[static_cast<size_t>(d)] = std::max<int64_t>(0, after);
  return c.pad(v, low, high);
}

/// Pads of H and W for a 2-D op, which must not be negative: negative ones are cut off v (dims dimH, dimW).
struct Pads {
  Ints list;  // Top, left, bottom, right.
  Value value;
};
Pads padsOf(Emitter& c, Value v, int64_t dimH, int64_t dimW, std::array<int64_t, 2> before,
            std::array<int64_t, 2> after) {
  Pads pads{{0, 0, 0, 0}, v};
  int64_t dims[] = {dimH, dimW};
  for (size_t d = 0; d < 2; ++d) {
    pads.value = fit(c, pads.value, dims[d], std::min<int64_t>(0, before[d]), std::min<int64_t>(0, after[d]));
    pads.list[d] = std::max<int64_t>(0, before[d]);
    pads.list[d + 2] = std::max<int64_t>(0, after[d]);
  }
  return pads;
}

/// Slices of v ([N, D, H, W, groups * C]) along the depth, one a tap, as [N * D', H, W, groups * taps * C].
Value tapsAsChannels(Emitter& c, Value v, const ConvWindow& conv, const Ints& starts, int64_t step, int64_t count) {
  Shape s = c.shape(v);
  if (s.size() != 5) return {};
  int64_t perGroup = s[4] / conv.groups;
  std::vector<Value> taps;
  for (int64_t start : starts)
    taps.push_back(c.reshape(c.sliceDim(v, 1, start, count, count > 1 ? step : 1),
                             {s[0] * count, s[2], s[3], conv.groups, 1, perGroup}));
  return c.reshape(c.concat(taps, 4),
                   {s[0] * count, s[2], s[3], conv.groups * static_cast<int64_t>(taps.size()) * perGroup});
}

}  // namespace

Value convolve(Emitter& c, Value x, Value w, const ConvWindow& conv, const Shape& y) {
  if (!x.handle || !w.handle) return {};
  Ints starts;
  for (int64_t q = 0; q < conv.kernel[0]; ++q) starts.push_back(q * conv.dilation[0]);
  Value taps = tapsAsChannels(c, fit(c, x, 1, conv.before[0], conv.after[0]), conv, starts, conv.stride[0], y[1]);
  Pads pads = padsOf(c, taps, 1, 2, {conv.before[1], conv.before[2]}, {conv.after[1], conv.after[2]});
  Shape ws = c.shape(w);  // [Q, R, S, C, K] -> [K, Q * C, R, S]
  Value weights = c.reshape(c.transpose(w, {4, 0, 3, 1, 2}), {ws[4], ws[0] * ws[3], ws[1], ws[2]});
  Value v = c.op("conv2d", {c.transpose(pads.value, {0, 3, 1, 2}), weights},
                 {{"strides", Ints{conv.stride[1], conv.stride[2]}},
                  {"dilations", Ints{conv.dilation[1], conv.dilation[2]}},
                  {"pads", pads.list},
                  {"groups", conv.groups}});
  v = c.transpose(v, {0, 2, 3, 1});
  return c.reshape(v, y);
}

Value convolutionDataGradient(Emitter& c, Value dy, Value w, const ConvWindow& conv, const Shape& x) {
  if (!dy.handle || !w.handle) return {};
  Shape y = c.shape(dy), ws = c.shape(w);
  int64_t taps = conv.kernel[0], dilation = conv.dilation[0];
  // dX[d] = sum over q of spread[d + before - q * dilation] * W[q].
  Value spread = c.spread(dy, {1, conv.stride[0], 1, 1, 1});
  int64_t low = (taps - 1) * dilation - conv.before[0];
  Value padded = fit(c, spread, 1, low, x[1] + (taps - 1) * dilation - low - c.dim(spread, 1));
  Ints starts;
  for (int64_t q = 0; q < taps; ++q) starts.push_back((taps - 1 - q) * dilation);
  Value channels = tapsAsChannels(c, padded, conv, starts, 1, x[1]);
  // [Q, R, S, C, G * K'] -> [G * Q * K', C, R, S]
  int64_t perGroup = ws[4] / conv.groups;
  Value weights = c.reshape(w, {ws[0], ws[1], ws[2], ws[3], conv.groups, perGroup});
  weights = c.reshape(c.transpose(weights, {4, 0, 5, 3, 1, 2}), {ws[4] * ws[0], ws[3], ws[1], ws[2]});
  std::array<int64_t, 4> pads{};
  std::array<int64_t, 2> outputPadding{}, cutBefore{}, cutAfter{};
  for (size_t d = 0; d < 2; ++d) {
    // What a negative padding cut off x has no gradient: computed without it, and zeros put back.
    cutBefore[d] = std::max<int64_t>(0, -conv.before[d + 1]);
    cutAfter[d] = std::max<int64_t>(0, -conv.after[d + 1]);
    pads[d] = std::max<int64_t>(0, conv.before[d + 1]);
    pads[d + 2] = std::max<int64_t>(0, conv.after[d + 1]);
    int64_t extent = conv.stride[d + 1] * (y[d + 2] - 1) + conv.span(d + 1) - pads[d] - pads[d + 2];
    outputPadding[d] = x[d + 2] - cutBefore[d] - cutAfter[d] - extent;
  }
  Value v = convolveTransposed(c, c.transpose(channels, {0, 3, 1, 2}), weights, {conv.stride[1], conv.stride[2]},
                               {conv.dilation[1], conv.dilation[2]}, pads, outputPadding, conv.groups);
  v = c.transpose(v, {0, 2, 3, 1});
  for (size_t d = 0; d < 2; ++d) v = fit(c, v, static_cast<int64_t>(d) + 1, cutBefore[d], cutAfter[d]);
  return c.reshape(v, x);
}

Value convolveTransposed(Emitter& c, Value x, Value w, const std::array<int64_t, 2>& strides,
                         const std::array<int64_t, 2>& dilations, const std::array<int64_t, 4>& pads,
                         const std::array<int64_t, 2>& outputPadding, int64_t groups) {
  auto list = [](const auto& numbers) { return Ints(numbers.begin(), numbers.end()); };
  if (!x.handle || !w.handle) return {};
  if (c.element(x) != ElementType::kF64)
    return c.op("conv_transpose2d", {x, w},
                {{"strides", list(strides)},
                 {"dilations", list(dilations)},
                 {"pads", list(pads)},
                 {"output_padding", list(outputPadding)},
                 {"groups", groups}});
  // [G * C', K', R, S] -> [G * K', C', R, S], from the last tap to the first.
  const Shape ws = c.shape(w);
  if (ws.size() != 4 || c.rank(x) != 4 || groups < 1 || ws[0] % groups != 0) return c.fail("needs rank-4 operands");
  Value turned = c.reshape(w, {groups, ws[0] / groups, ws[1], ws[2], ws[3]});
  turned = c.reshape(c.transpose(turned, {0, 2, 1, 3, 4}), {groups * ws[1], ws[0] / groups, ws[2], ws[3]});
  turned = c.slice(turned, {0, 0, ws[2] - 1, ws[3] - 1}, c.shape(turned), {1, 1, -1, -1});
  std::array<int64_t, 2> before{}, after{};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t reach = dilations[d] * (ws[d + 2] - 1);
    before[d] = reach - pads[d];
    after[d] = reach - pads[d + 2] + outputPadding[d];
  }
  Pads around = padsOf(c, c.spread(x, {1, 1, strides[0], strides[1]}), 2, 3, before, after);
  return c.op("conv2d", {around.value, turned},
              {{"strides", Ints{1, 1}}, {"dilations", list(dilations)}, {"pads", around.list}, {"groups", groups}});
}

Value convolutionWeightGradient(Emitter& c, Value dy, Value x, const ConvWindow& conv, const Shape& w) {
  if (!dy.handle || !x.handle) return {};
  Shape xs = c.shape(x), y = c.shape(dy);
  int64_t groups = conv.groups;
  int64_t batch = y[0] * y[1];
  bool isPointwise = groups == 1;
  for (size_t d = 0; d < 3; ++d) isPointwise &= conv.kernel[d] == 1 && conv.stride[d] == 1 && xs[d + 1] == y[d + 1];
  if (isPointwise) {  // One matrix product over all points.
    int64_t points = batch * y[2] * y[3];
    Value v = c.matmul(c.transpose(c.reshape(x, {points, xs[4]}), {1, 0}), c.reshape(dy, {points, y[4]}));
    return c.reshape(v, w);
  }
  // dY as weights: [K, N * D', H', W'].
  Value kernel = c.transpose(c.reshape(dy, {batch, y[2], y[3], y[4]}), {3, 0, 1, 2});
  Value padded = fit(c, x, 1, conv.before[0], conv.after[0]);
  std::array<int64_t, 2> before{}, after{};
  for (size_t d = 0; d < 2; ++d) {
    before[d] = conv.before[d + 1];
    // What the forward convolution's stride left over at the end is not read.
    after[d] = conv.stride[d + 1] * (y[d + 2] - 1) + conv.span(d + 1) - xs[d + 2] - before[d];
  }
  std::vector<Value> taps;
  for (int64_t q = 0; q < conv.kernel[0] && c.ok(); ++q) {
    Value slice = c.sliceDim(padded, 1, q * conv.dilation[0], y[1], y[1] > 1 ? conv.stride[0] : 1);
    // [N * D', H, W, G, C'] -> [C', G * N * D', H, W]
    Value image = c.transpose(c.reshape(slice, {batch, xs[2], xs[3], groups, w[3]}), {4, 3, 0, 1, 2});
    image = c.reshape(image, {w[3], groups * batch, xs[2], xs[3]});
    Pads pads = padsOf(c, image, 2, 3, before, after);
    Value v = c.op("conv2d", {pads.value, kernel},
                   {{"strides", Ints{conv.dilation[1], conv.dilation[2]}},
                    {"dilations", Ints{conv.stride[1], conv.stride[2]}},
                    {"pads", pads.list},
                    {"groups", groups}});
    taps.push_back(c.reshape(c.transpose(v, {2, 3, 0, 1}), {1, w[1], w[2], w[3], w[4]}));
  }
  return c.ok() ? c.concat(taps, 0) : Value{};
}

}  // namespace hpu::compose
