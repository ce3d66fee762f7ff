// SPDX-License-Identifier: Apache-2.0
// Pooling over the last two or three dims, with a batch or without. The one thing to know: indices of maxima count the
// elements of an image.
#include <algorithm>

#include "compose/Indexing.h"
#include "compose/Windows.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::Axis;
using hpu::compose::Window;

/// How many dims a window has; rows of three have the variant "3d".
size_t spatialDims(Call& c) {
  return c.variant() == "3d" ? 3 : 2;
}

/// Arguments from `first`: kernel_size, stride, padding, and dilation when there is one.
Window windowOf(Call& c, size_t first, const Shape& shape, bool hasDilation, bool ceil) {
  const size_t dims = spatialDims(c);
  Window w;
  w.outer = shape;
  Ints kernel = c.ints(first, dims), stride = c.ints(first + 1, dims), padding = c.ints(first + 2, dims),
       dilation(dims, 1);
  if (stride.empty()) stride = kernel;
  if (hasDilation) dilation = c.ints(first + 3, dims);
  for (size_t i = 0; i < dims; ++i) {
    Axis a;
    a.dim = shape.size() - dims + i;
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

/// Operands of no elements: their results are empty or zeros.
bool isUsable(Call& c, const Shape& shape, const Shape& result, ElementType type, bool hasIndices = false) {
  if (shape.size() > spatialDims(c) && hpu::numElements(shape) > 0) return true;
  c.out(0, c.full({type, result}, 0));
  if (hasIndices) c.out(1, c.full({ElementType::kI64, result}, 0));
  return false;
}

/// self, kernel_size, stride, padding, dilation, ceil_mode -> out, indices
void maxPool(Call& c) {
  Value x = c.wide(0);
  if (!c.ok()) return;
  Window w = windowOf(c, 1, c.shape(x), true, c.flag(5));
  if (!isUsable(c, c.shape(x), w.outer, c.meta(0).type, true)) return;
  Value inside = padded(c, x, w, hpu::compose::lowest(c.element(x)));
  c.out(0, poolWindows(c, inside, w, /*isMax=*/true), c.meta(0).type);
  c.out(1, c.cast(argMax(c, inside, w, /*flat=*/true), ElementType::kI64));
}

/// grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
void maxPoolBackward(Call& c) {
  const Shape shape = c.meta(1).sizes;
  if (!isUsable(c, shape, shape, c.meta(1).type)) return;
  Window w = windowOf(c, 2, shape, true, c.flag(6));
  c.out(0, maxBackward(c, c.f32(0), c.in(7, ElementType::kI32), w, /*flat=*/true, shape), c.meta(1).type);
}

Value counts(Call& c, const Window& w, size_t includePadding) {
  if (c.has(includePadding + 1)) {
    const int64_t divisor = c.integer(includePadding + 1);
    return divisor == w.taps() ? Value() : c.scalar(static_cast<double>(divisor), ElementType::kF32);
  }
  return windowCounts(c, w, c.flag(includePadding));
}

/// self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
void avgPool(Call& c) {
  if (!hpu::compose::isFloat(c.meta(0).type)) return (void)c.unsupported("means of integers");
  Value x = c.f32(0);
  if (!c.ok()) return;
  Window w = windowOf(c, 1, c.shape(x), false, c.flag(4));
  if (!isUsable(c, c.shape(x), w.outer, c.meta(0).type)) return;
  c.out(0, meanWindows(c, padded(c, x, w, 0), w, counts(c, w, 5)));
}
/// grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
void avgPoolBackward(Call& c) {
  const Shape shape = c.meta(1).sizes;
  if (!isUsable(c, shape, shape, c.meta(1).type)) return;
  Window w = windowOf(c, 2, shape, false, c.flag(5));
  c.out(0, meanBackward(c, c.f32(0), w, shape, counts(c, w, 6)));
}

// ---- adaptive: window i is [floor(i * in / out), ceil((i + 1) * in / out)) ---------------------------

/// x with the spatial dims multiplied by matrices [in, out], which add the elements of a window, and then divided by
/// how many these are; backward divided first, and multiplied by the transposes.
Value adaptive(Call& c, Value x, const Shape& large, const Shape& small, bool backward) {
  const auto rank = static_cast<int64_t>(large.size());
  Value counts;
  for (size_t i = 0; i < spatialDims(c) && c.ok(); ++i) {
    const size_t d = large.size() - 1 - i;
    Value count = adaptiveCounts(c, large[d], small[d], static_cast<int64_t>(i));
    counts = counts.handle ? c.mul(counts, count) : count;
  }
  if (backward) x = c.div(x, counts);
  for (size_t i = 0; i < spatialDims(c) && c.ok(); ++i) {
    const int64_t dim = rank - 1 - static_cast<int64_t>(i);
    const auto d = static_cast<size_t>(dim);
    Value matrix = adaptiveWindows(c, large[d], small[d]);
    if (backward) matrix = c.transpose(matrix, {1, 0});
    Ints swap;
    for (int64_t k = 0; k < rank; ++k) swap.push_back(k == dim ? rank - 1 : k == rank - 1 ? dim : k);
    x = c.transpose(c.matmul(c.transpose(x, swap), matrix), swap);
  }
  return backward ? x : c.div(x, counts);
}
Shape adaptiveSizes(Call& c, const Shape& shape) {  // output_size is argument 1.
  const Ints size = c.ints(1, spatialDims(c));
  Shape small = shape;
  std::copy(size.begin(), size.end(), small.end() - static_cast<int64_t>(size.size()));
  return small;
}
void adaptiveAvgPool(Call& c) {  // self, output_size
  Value x = c.f32(0);
  if (!c.ok()) return;
  Shape small = adaptiveSizes(c, c.shape(x));
  if (hpu::numElements(small) == 0) return c.out(0, c.full({ElementType::kF32, small}, 0), c.meta(0).type);
  if (isUsable(c, c.shape(x), small, c.meta(0).type))
    c.out(0, adaptive(c, x, c.shape(x), small, false), c.meta(0).type);
}
void adaptiveAvgPoolBackward(Call& c) {  // grad_output, self
  const Shape &large = c.meta(1).sizes, &small = c.meta(0).sizes;
  if (hpu::numElements(small) == 0) return c.out(0, c.full({ElementType::kF32, large}, 0), c.meta(1).type);
  if (isUsable(c, large, large, c.meta(1).type)) c.out(0, adaptive(c, c.f32(0), large, small, true), c.meta(1).type);
}

/// self, output_size -> out, indices
void adaptiveMaxPool(Call& c) {
  Value x = c.wide(0);
  const Shape large = c.meta(0).sizes, small = adaptiveSizes(c, large);
  const size_t dims = spatialDims(c);
  if (!isUsable(c, large, small, c.meta(0).type, true)) return;
  // Element k of each window along each dim; behind its end once more the last one, which never wins.
  std::vector<std::vector<Ints>> positions(dims);
  int64_t taps = 1;
  for (size_t i = 0; i < dims; ++i) {
    const int64_t in = large[large.size() - dims + i], out = small[small.size() - dims + i];
    int64_t longest = 0;
    for (int64_t o = 0; o < out; ++o) longest = std::max(longest, ((o + 1) * in + out - 1) / out - o * in / out);
    taps *= longest;
    for (int64_t k = 0; k < longest; ++k) {
      Ints at;
      for (int64_t o = 0; o < out; ++o) at.push_back(std::min(o * in / out + k, ((o + 1) * in + out - 1) / out - 1));
      positions[i].push_back(at);
    }
  }
  if (taps > 4096) return (void)c.unsupported("a window of more than 4096 elements");
  Value best, index;
  for (int64_t t = 0; t < taps && c.ok(); ++t) {
    Value tap = x, here;
    int64_t rest = t, stride = 1;
    for (size_t i = dims; i-- > 0;) {
      const auto longest = static_cast<int64_t>(positions[i].size());
      const auto dim = static_cast<int64_t>(large.size() - dims + i);
      Ints at = positions[i][static_cast<size_t>(rest % longest)];
      rest /= longest;
      tap = c.gather(tap, c.indices({static_cast<int64_t>(at.size())}, at), dim);
      Shape along(large.size(), 1);
      along[static_cast<size_t>(dim)] = static_cast<int64_t>(at.size());
      for (int64_t& one : at) one *= stride;
      stride *= large[static_cast<size_t>(dim)];
      Value part = c.indices(along, at);
      here = here.handle ? c.add(here, part) : part;
    }
    here = c.expand(here, small);
    if (!best.handle) {
      best = tap, index = here;
      continue;
    }
    Value isLarger = c.op("greater", {tap, best});
    if (hpu::compose::isFloat(c.element(x))) isLarger = c.op("or", {isLarger, c.op("is_nan", {tap})});
    best = c.where(isLarger, tap, best);
    index = c.where(isLarger, here, index);
  }
  c.out(0, best);
  c.out(1, index);
}

// ---- places that indices of maxima name ---------------------------------------------------------------

/// Values at their indices in images of `sizes`, which are zero elsewhere.
Value spreadOut(Call& c, Value values, Value index, const Shape& sizes, std::string_view mode) {
  const size_t dims = spatialDims(c);
  const Shape outer(sizes.begin(), sizes.end() - static_cast<int64_t>(dims));
  const int64_t images = hpu::numElements(outer), pixels = hpu::numElements(sizes) / images,
                count = hpu::numElements(c.shape(values)) / images;
  Value zeros = c.full({c.element(values), {images, pixels}}, 0);
  Value at = plainIndices(c, c.reshape(index, {images, count}));
  return c.reshape(scatterAlong(c, zeros, at, c.reshape(values, {images, count}), 1, mode), sizes);
}
void adaptiveMaxPoolBackward(Call& c) {  // grad_output, self, indices
  const Shape& sizes = c.meta(1).sizes;
  if (hpu::numElements(c.meta(0).sizes) == 0 || !isUsable(c, sizes, sizes, c.meta(1).type))
    return c.out(0, c.full({ElementType::kF32, sizes}, 0));
  c.out(0, spreadOut(c, c.f32(0), c.in(2), sizes, "add"));
}

// ---- fractional: windows begin where a random number of each image says --------------------------------

/// Where the windows along one dim begin, [images, out], i32; as PyTorch computes it, in f32.
Value fractionalBegins(Call& c, Value sample, int64_t size, int64_t kernel, int64_t out) {
  const int64_t images = c.dim(sample, 0);
  Value last = c.full({ElementType::kI32, {images, 1}}, static_cast<double>(size - kernel));
  if (out == 1) return last;
  const float alpha = static_cast<float>(size - kernel) / static_cast<float>(out - 1);
  Value o = c.cast(hpu::compose::counter(c, out - 1, 1, 2), ElementType::kF32);
  auto whole = [&](Value v) { return c.cast(c.op("floor", {c.mul(v, alpha)}), ElementType::kI32); };
  return c.concat({c.sub(whole(c.add(o, sample)), whole(sample)), last}, 1);
}
/// self, kernel_size, output_size, random_samples -> out, indices
void fractionalMaxPool(Call& c) {
  Value x = c.wide(0), samples = c.f32(3);
  if (!c.ok()) return;
  const Shape large = c.shape(x);
  const size_t dims = spatialDims(c);
  const Ints kernel = c.ints(1, dims), out = c.ints(2, dims);
  Shape small = large;
  std::copy(out.begin(), out.end(), small.end() - static_cast<int64_t>(dims));
  if (!isUsable(c, large, small, c.meta(0).type, true)) return;
  int64_t taps = 1, pixels = 1, windows = 1;
  for (size_t i = 0; i < dims; ++i) {
    taps *= kernel[i];
    windows *= out[i];
    pixels *= large[large.size() - dims + i];
  }
  if (taps > 4096) return (void)c.unsupported("a window of more than 4096 elements");
  const int64_t images = hpu::numElements(large) / pixels;
  samples = c.reshape(samples, {images, static_cast<int64_t>(dims)});
  // Of two dims, the first number is for the width; of three, for the depth.
  std::vector<Value> begins;
  for (size_t i = 0; i < dims; ++i)
    begins.push_back(fractionalBegins(c, c.sliceDim(samples, 1, static_cast<int64_t>(dims == 2 ? 1 - i : i), 1),
                                      large[large.size() - dims + i], kernel[i], out[i]));
  x = c.reshape(x, {images, pixels});
  Value best, index;
  for (int64_t t = 0; t < taps && c.ok(); ++t) {
    Value here;
    int64_t rest = t, stride = 1;
    for (size_t i = dims; i-- > 0;) {
      Shape along(dims + 1, 1);
      along[0] = images;
      along[i + 1] = out[i];
      Value part =
          c.reshape(c.mul(c.add(begins[i], static_cast<double>(rest % kernel[i])), static_cast<double>(stride)), along);
      rest /= kernel[i];
      stride *= large[large.size() - dims + i];
      here = here.handle ? c.add(here, part) : part;
    }
    here = c.reshape(here, {images, windows});
    Value tap = c.op("gather_elements", {x, here}, {{"axis", int64_t{1}}});
    if (!best.handle) {
      best = tap, index = here;
      continue;
    }
    Value isLarger = c.op("greater", {tap, best});
    if (hpu::compose::isFloat(c.element(x))) isLarger = c.op("or", {isLarger, c.op("is_nan", {tap})});
    best = c.where(isLarger, tap, best);
    index = c.where(isLarger, here, index);
  }
  c.out(0, c.reshape(best, small), c.meta(0).type);
  c.out(1, c.cast(c.reshape(index, small), ElementType::kI64));
}
void fractionalMaxPoolBackward(Call& c) {  // grad_output, self, kernel_size, output_size, indices
  const Shape& sizes = c.meta(1).sizes;
  if (!isUsable(c, sizes, sizes, c.meta(1).type)) return;
  c.out(0, spreadOut(c, c.f32(0), c.in(4), sizes, "add"), c.meta(1).type);
}

void maxUnpool(Call& c) {  // self, indices, output_size, ..
  const Shape& shape = c.meta(0).sizes;
  Shape sizes = shape;
  const Ints size = c.ints(2);
  std::copy(size.begin(), size.end(), sizes.end() - static_cast<int64_t>(size.size()));
  if (!isUsable(c, shape, sizes, c.meta(0).type)) return;
  if (hpu::numElements(sizes) == 0) return (void)c.unsupported("no elements");
  c.out(0, spreadOut(c, c.in(0), c.in(1), sizes, "replace"), c.meta(0).type);
}

}  // namespace

const std::vector<Row>& poolingOps() {
  static const auto& rows = *new std::vector<Row>{
      {"max_pool2d_with_indices.out", maxPool},
      {"max_pool2d_with_indices_backward.grad_input", maxPoolBackward},
      {"avg_pool2d.out", avgPool},
      {"avg_pool2d_backward.grad_input", avgPoolBackward},
      {"max_pool3d_with_indices", maxPool, "3d", Row::kOwnShapes},
      {"max_pool3d_with_indices_backward", maxPoolBackward, "3d", Row::kOwnShapes},
      {"avg_pool3d.out", avgPool, "3d"},
      {"avg_pool3d_backward.grad_input", avgPoolBackward, "3d"},
      {"_adaptive_avg_pool3d", adaptiveAvgPool, "3d", Row::kOwnShapes},
      {"_adaptive_avg_pool3d_backward", adaptiveAvgPoolBackward, "3d", Row::kOwnShapes},
      {"adaptive_max_pool2d.out", adaptiveMaxPool},
      {"adaptive_max_pool3d.out", adaptiveMaxPool, "3d"},
      {"adaptive_max_pool2d_backward.grad_input", adaptiveMaxPoolBackward},
      {"adaptive_max_pool3d_backward.grad_input", adaptiveMaxPoolBackward, "3d"},
      {"fractional_max_pool2d.output", fractionalMaxPool},
      {"fractional_max_pool2d_backward.grad_input", fractionalMaxPoolBackward},
      {"fractional_max_pool3d.output", fractionalMaxPool, "3d"},
      {"fractional_max_pool3d_backward", fractionalMaxPoolBackward, "3d", Row::kOwnShapes},
      {"max_unpool2d", maxUnpool, {}, Row::kOwnShapes},
      {"max_unpool3d", maxUnpool, "3d", Row::kOwnShapes},
      {"_adaptive_avg_pool2d", adaptiveAvgPool, {}, Row::kOwnShapes | Row::kKeepsFormat},
      {"_adaptive_avg_pool2d_backward", adaptiveAvgPoolBackward, {}, Row::kOwnShapes | Row::kKeepsFormat},
  };
  return rows;
}

}  // namespace hpu_torch
