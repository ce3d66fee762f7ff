// SPDX-License-Identifier: Apache-2.0
// Pooling of [N, C, H, W] and [C, H, W]. The one thing to know: indices of maxima count the elements of an image.
#include "compose/Windows.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::Axis;
using hpu::compose::Window;

/// Arguments from `first`: kernel_size, stride, padding, and dilation when there is one.
Window windowOf(Call& c, size_t first, const Shape& shape, bool hasDilation, bool ceil) {
  Window w;
  w.outer = shape;
  Ints kernel = c.ints(first, 2), stride = c.ints(first + 1, 2), padding = c.ints(first + 2, 2), dilation = {1, 1};
  if (stride.empty()) stride = kernel;
  if (hasDilation) dilation = c.ints(first + 3, 2);
  for (size_t i = 0; i < 2; ++i) {
    Axis a;
    a.dim = shape.size() - 2 + i;
    a.size = shape[a.dim];
    a.kernel = kernel[i];
    a.stride = stride[i];
    a.dilation = dilation[i];
    a.before = a.after = padding[i];
    const int64_t room = a.size + 2 * padding[i] - a.extent();
    a.out = (ceil ? (room + a.stride - 1) / a.stride : room / a.stride) + 1;
    if (ceil && (a.out - 1) * a.stride >= a.size + a.before) --a.out;
    w.outer[a.dim] = a.out;
    w.axes.push_back(a);
  }
  if (w.taps() > 4096) c.unsupported("a window of more than 4096 elements");
  return w;
}

bool isUsable(Call& c, const Shape& shape) {
  if (shape.size() >= 3 && hpu::numElements(shape) > 0) return true;
  c.unsupported("no elements");
  return false;
}

/// self, kernel_size, stride, padding, dilation, ceil_mode -> out, indices
void maxPool(Call& c) {
  Value x = c.wide(0);
  if (!c.ok() || !isUsable(c, c.shape(x))) return;
  Window w = windowOf(c, 1, c.shape(x), true, c.flag(5));
  Value inside = padded(c, x, w, hpu::compose::lowest(c.element(x)));
  c.out(0, poolWindows(c, inside, w, /*isMax=*/true));
  c.out(1, c.cast(argMax(c, inside, w, /*flat=*/true), ElementType::kI64));
}

/// grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
void maxPoolBackward(Call& c) {
  const Shape shape = c.meta(1).sizes;
  if (!isUsable(c, shape)) return;
  Window w = windowOf(c, 2, shape, true, c.flag(6));
  c.out(0, maxBackward(c, c.f32(0), c.in(7, ElementType::kI32), w, /*flat=*/true, shape));
}

Value shares(Call& c, const Window& w, size_t includePadding) {
  if (c.has(includePadding + 1))
    return c.scalar(1 / static_cast<double>(c.integer(includePadding + 1)), ElementType::kF32);
  return inverseCounts(c, w, c.flag(includePadding));
}

/// self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
void avgPool(Call& c) {
  Value x = c.f32(0);
  if (!c.ok() || !isUsable(c, c.shape(x))) return;
  Window w = windowOf(c, 1, c.shape(x), false, c.flag(4));
  c.out(0, c.mul(poolWindows(c, padded(c, x, w, 0), w, /*isMax=*/false), shares(c, w, 5)));
}
/// grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
void avgPoolBackward(Call& c) {
  const Shape shape = c.meta(1).sizes;
  if (!isUsable(c, shape)) return;
  Window w = windowOf(c, 2, shape, false, c.flag(5));
  c.out(0, meanBackward(c, c.mul(c.f32(0), shares(c, w, 6)), w, shape));
}

/// [.., H, W] between its sizes and others, by means of windows; the way back with the transposed products.
Value adaptive(Call& c, Value x, const Shape& large, const Shape& small, bool backward) {
  const size_t r = large.size();
  Value rows = averagingMatrix(c, large[r - 2], small[r - 2]), columns = averagingMatrix(c, large[r - 1], small[r - 1]);
  return backward ? c.matmul(c.matmul(rows, x), c.transpose(columns, {1, 0}))
                  : c.matmul(c.matmul(c.transpose(rows, {1, 0}), x), columns);
}
void adaptiveAvgPool(Call& c) {  // self, output_size
  Value x = c.f32(0);
  if (!c.ok() || !isUsable(c, c.shape(x))) return;
  Shape small = c.shape(x);
  Ints size = c.ints(1, 2);
  std::copy(size.begin(), size.end(), small.end() - 2);
  if (hpu::numElements(small) == 0) return (void)c.unsupported("no elements");
  c.out(0, adaptive(c, x, c.shape(x), small, false), c.meta(0).type);
}
void adaptiveAvgPoolBackward(Call& c) {  // grad_output, self
  if (!isUsable(c, c.meta(1).sizes) || !isUsable(c, c.meta(0).sizes)) return;
  c.out(0, adaptive(c, c.f32(0), c.meta(1).sizes, c.meta(0).sizes, true), c.meta(1).type);
}

}  // namespace

const std::vector<Row>& poolingOps() {
  static const auto& rows = *new std::vector<Row>{
      {"max_pool2d_with_indices.out", maxPool},
      {"max_pool2d_with_indices_backward.grad_input", maxPoolBackward},
      {"avg_pool2d.out", avgPool},
      {"avg_pool2d_backward.grad_input", avgPoolBackward},
      {"_adaptive_avg_pool2d", adaptiveAvgPool, {}, Row::kOwnShapes | Row::kKeepsFormat},
      {"_adaptive_avg_pool2d_backward", adaptiveAvgPoolBackward, {}, Row::kOwnShapes | Row::kKeepsFormat},
  };
  return rows;
}

}  // namespace hpu_torch
