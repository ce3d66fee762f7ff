// SPDX-License-Identifier: Apache-2.0
// Window kernels: pooling and depthwise convolution over padding, strides, dilations and layouts.
#include <cmath>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, BF16 = ElementType::kBF16;

struct Geometry {
  int64_t channels, height, width, kernel[2], stride[2], dilation[2], pads[4];
  bool ceilMode = false;
  int64_t out(int i) const {
    int64_t in = i ? width : height, padded = in + pads[i] + pads[2 + i];
    int64_t span = padded - (dilation[i] * (kernel[i] - 1) + 1);
    int64_t extent = (span + (ceilMode ? stride[i] - 1 : 0)) / stride[i] + 1;
    if (ceilMode && (extent - 1) * stride[i] >= in + pads[i]) --extent;
    return extent;
  }
  std::string attrs() const {
    auto list = [](const int64_t* v, int n) {
      std::string text = "array<i64: ";
      for (int i = 0; i < n; ++i) text += (i ? ", " : "") + std::to_string(v[i]);
      return text + ">";
    };
    return "strides = " + list(stride, 2) + ", dilations = " + list(dilation, 2) + ", pads = " + list(pads, 4);
  }
  std::string kernelText() const {
    return "kernel = array<i64: " + std::to_string(kernel[0]) + ", " + std::to_string(kernel[1]) + ">, ";
  }
  /// f(tap row, tap column, row, column) for taps inside the input.
  void taps(int64_t oh, int64_t ow, const std::function<void(int64_t, int64_t, int64_t, int64_t)>& f) const {
    for (int64_t kh = 0; kh < kernel[0]; ++kh)
      for (int64_t kw = 0; kw < kernel[1]; ++kw) {
        int64_t h = oh * stride[0] + kh * dilation[0] - pads[0], w = ow * stride[1] + kw * dilation[1] - pads[1];
        if (h >= 0 && h < height && w >= 0 && w < width) f(kh, kw, h, w);
      }
  }
};

const Geometry kGeometries[] = {
    {40, 9, 11, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},  {33, 10, 12, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {16, 8, 8, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},   {5, 13, 14, {5, 3}, {1, 2}, {2, 1}, {4, 0, 3, 1}},
    {64, 7, 7, {7, 7}, {1, 1}, {1, 1}, {0, 0, 0, 0}},   {24, 10, 9, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}},
    {20, 12, 23, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
};

TEST(Window, PoolsInBothLayouts) {
  for (const Geometry& g : kGeometries) {
    for (const Index& order : {Index{0, 2, 3, 1}, Index{0, 1, 2, 3}}) {
      Tensor x = Tensor::dense(F32, {2, g.channels, g.height, g.width}, order).random(1);
      Tensor y = Tensor::dense(F32, {2, g.channels, g.out(0), g.out(1)}, order);
      check("%r = hpu.max_pool2d %0 {" + g.kernelText() + g.attrs() + "} : ($0) -> $out0\nhpu.yield %r : $out0", {x},
            {y}, [&](int, const Index& i) {
              double most = -INFINITY;
              g.taps(i[2], i[3],
                     [&](int64_t, int64_t, int64_t h, int64_t w) { most = std::max(most, x.at({i[0], i[1], h, w})); });
              return most;
            });
      for (bool includePad : {false, true}) {
        check("%r = hpu.avg_pool2d %0 {" + g.kernelText() + g.attrs() + ", count_include_pad = " +
                  (includePad ? "true" : "false") + "} : ($0) -> $out0\nhpu.yield %r : $out0",
              {x}, {y}, [&](int, const Index& i) {
                double sum = 0, count = 0;
                g.taps(i[2], i[3], [&](int64_t, int64_t, int64_t h, int64_t w) {
                  sum += x.at({i[0], i[1], h, w});
                  ++count;
                });
                return sum / (includePad ? static_cast<double>(g.kernel[0] * g.kernel[1]) : count);
              });
      }
    }
  }
}

TEST(Window, CeilModeCountsOnlyWhatLiesInThePaddedInput) {
  Geometry g = {8, 7, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, true};
  Tensor x = Tensor::dense(F32, {1, 8, 7, 8}, {0, 2, 3, 1}).random(2);
  Tensor y = Tensor::dense(F32, {1, 8, g.out(0), g.out(1)}, {0, 2, 3, 1});
  check("%r = hpu.avg_pool2d %0 {" + g.kernelText() + g.attrs() +
            ", ceil_mode = true, count_include_pad = true} : ($0) -> $out0\nhpu.yield %r : $out0",
        {x}, {y}, [&](int, const Index& i) {
          double sum = 0;
          g.taps(i[2], i[3], [&](int64_t, int64_t, int64_t h, int64_t w) { sum += x.at({0, i[1], h, w}); });
          auto inside = [&](int64_t at, int64_t size) { return std::min(at * 2 + 2, size + 1) - at * 2 + 1; };
          return sum / static_cast<double>(inside(i[2], 7) * inside(i[3], 8));
        });
}

TEST(Window, DepthwiseConvolutionWithBiasAndClip) {
  for (const Geometry& g : kGeometries) {
    for (const Index& order : {Index{0, 2, 3, 1}, Index{0, 1, 2, 3}}) {
      for (bool relaid : {true, false}) {
        for (ElementType type : {F32, BF16}) {
          if (type == BF16 && !relaid) continue;
          Tensor x = Tensor::dense(type, {2, g.channels, g.height, g.width}, order).random(3);
          Tensor w =
              Tensor::dense(type, {g.channels, 1, g.kernel[0], g.kernel[1]}, relaid ? Index{1, 2, 3, 0} : Index{})
                  .random(4);
          Tensor bias = Tensor::dense(type, {g.channels, 1, 1}).random(5);
          Tensor y = Tensor::dense(type, {2, g.channels, g.out(0), g.out(1)}, order);
          check("%c = hpu.conv2d %0, %1 {" + g.attrs() + ", groups = " + std::to_string(g.channels) +
                    " : i64} : ($0, $1) -> $out0\n%b = hpu.add %c, %2 : ($out0, $2) -> $out0\n"
                    "%r = hpu.clip %b {min = 0.0 : f64, max = 6.0 : f64} : ($out0) -> "
                    "$out0\nhpu.yield %r : $out0",
                {x, w, bias}, {y},
                [&](int, const Index& i) {
                  double sum = bias.at({i[1], 0, 0});
                  g.taps(i[2], i[3], [&](int64_t kh, int64_t kw, int64_t h, int64_t v) {
                    sum += x.at({i[0], i[1], h, v}) * w.at({i[1], 0, kh, kw});
                  });
                  return std::min(std::max(sum, 0.0), 6.0);
                },
                {type == F32 ? 5e-6 : 0.005, 1e-5});
        }
      }
    }
  }
}

}  // namespace
}  // namespace hpu::kernels::test
