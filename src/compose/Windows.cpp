// SPDX-License-Identifier: Apache-2.0
#include "compose/Windows.h"

#include <algorithm>
#include <limits>

namespace hpu::compose {

using Ints = std::vector<int64_t>;

Ints heightWidthLast(const Window& w, size_t rank) {
  size_t h = w.axes[w.axes.size() - 2].dim, wide = w.axes.back().dim;
  Ints perm;
  for (size_t d = 0; d < rank; ++d)
    if (d != h && d != wide) perm.push_back(static_cast<int64_t>(d));
  perm.push_back(static_cast<int64_t>(h));
  perm.push_back(static_cast<int64_t>(wide));
  return perm;
}

Ints inversePermutation(const Ints& perm) {
  Ints result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return result;
}

namespace {

/// v moved by `low` along `dim` and cut or filled with zeros to `length`.
Value fit(Emitter& c, Value v, size_t dim, int64_t low, int64_t length) {
  if (!v.handle) return v;
  auto d = static_cast<int64_t>(dim);
  int64_t size = c.dim(v, d);
  int64_t first = std::max<int64_t>(0, -low), last = std::min(size, length - low);  // What of v is seen.
  Shape shape = c.shape(v);
  if (first >= last) {
    shape[dim] = length;
    return c.full({c.element(v), shape}, 0);
  }
  Ints lows(shape.size(), 0), highs(shape.size(), 0);
  lows[dim] = std::max<int64_t>(0, low);
  highs[dim] = length - lows[dim] - (last - first);
  return c.pad(c.sliceDim(v, d, first, last - first), lows, highs);
}

/// Tap t of all windows of a padded operand.
Value tapOf(Emitter& c, Value padded, const Window& w, int64_t t) {
  Shape starts(c.shape(padded).size(), 0), sizes = c.shape(padded), steps(starts.size(), 1);
  Ints at = w.tap(t);
  for (size_t i = 0; i < w.axes.size(); ++i) {
    const Axis& a = w.axes[i];
    starts[a.dim] = at[i] * a.dilation;
    sizes[a.dim] = a.out;
    steps[a.dim] = a.stride;
  }
  return c.slice(padded, starts, sizes, steps);
}

/// max_pool2d or avg_pool2d (of whole windows) over height and width of an operand that is padded already.
Value pool2d(Emitter& c, std::string_view op, Value x, const Window& w) {
  Shape shape = c.shape(x);
  Ints perm = heightWidthLast(w, shape.size());
  Value moved = c.transpose(x, perm);
  Shape full = c.shape(moved);
  if (!moved.handle) return {};
  size_t rank = full.size();
  int64_t channels = rank > 2 ? full[rank - 3] : 1, batch = 1;
  for (size_t d = 0; d + 3 < rank; ++d) batch *= full[d];
  const Axis &h = w.axes[w.axes.size() - 2], &v = w.axes.back();
  Value pooled = c.op(op, {c.reshape(moved, {batch, channels, full[rank - 2], full[rank - 1]})},
                      {{"kernel", Ints{h.kernel, v.kernel}},
                       {"strides", Ints{h.stride, v.stride}},
                       {"dilations", Ints{h.dilation, v.dilation}},
                       {"pads", Ints{0, 0, 0, 0}}});
  if (!pooled.handle) return {};
  // Cells behind the last window may give one more: cut it.
  pooled = c.sliceDim(c.sliceDim(pooled, 2, 0, h.out), 3, 0, v.out);
  full[rank - 2] = h.out;
  full[rank - 1] = v.out;
  return c.transpose(c.reshape(pooled, full), inversePermutation(perm));
}

/// The window's depth alone, with height and width of 1.
Window depthOnly(const Window& w) {
  Window depth = w;
  for (size_t i = 1; i < depth.axes.size(); ++i) {
    Axis& a = depth.axes[i];
    a.kernel = a.stride = a.dilation = 1;
  }
  return depth;
}

/// Position of tap t of each window in the flattened image, as an i32 constant that broadcasts over the result.
Value flatPositions(Emitter& c, const Window& w, int64_t t) {
  Ints at = w.tap(t);
  Value sum;
  int64_t factor = 1;
  for (size_t i = w.axes.size(); i-- > 0;) {
    const Axis& a = w.axes[i];
    Shape shape(w.outer.size(), 1);
    shape[a.dim] = a.out;
    Ints values(static_cast<size_t>(a.out));
    for (int64_t o = 0; o < a.out; ++o) values[static_cast<size_t>(o)] = a.position(o, at[i]) * factor;
    Value term = c.indices(shape, values);
    sum = sum.handle ? c.add(sum, term) : term;
    factor *= a.size;
  }
  return sum;
}

/// Of tap t of each window: whether it lies in the image, and none of the taps before it does (`isFirst`). Bools that
/// broadcast over the result; no value where all are true or, with `isNever`, all false.
Value insideFlags(Emitter& c, const Window& w, int64_t t, bool isFirst, bool& isNever) {
  const Ints at = w.tap(t);
  Value all;
  isNever = false;
  for (size_t i = 0; i < w.axes.size(); ++i) {
    const Axis& a = w.axes[i];
    std::vector<uint8_t> flags(static_cast<size_t>(a.out));
    for (int64_t o = 0; o < a.out; ++o) {
      auto isInside = [&](int64_t k) { return a.position(o, k) >= 0 && a.position(o, k) < a.size; };
      bool flag = isInside(at[i]);
      for (int64_t k = 0; isFirst && k < at[i]; ++k) flag = flag && !isInside(k);
      flags[static_cast<size_t>(o)] = flag ? 1 : 0;
    }
    const auto count = std::count(flags.begin(), flags.end(), 1);
    if (count == 0) return isNever = true, Value();
    if (count == a.out) continue;
    Shape shape(w.outer.size(), 1);
    shape[a.dim] = a.out;
    Value own = c.constant({ElementType::kBool, shape}, flags.data(), flags.size());
    all = all.handle ? c.op("and", {all, own}) : own;
  }
  return all;
}

bool hasPadding(const Window& w) {
  return std::any_of(w.axes.begin(), w.axes.end(),
                     [](const Axis& a) { return a.before > 0 || a.position(a.out - 1, a.kernel - 1) >= a.size; });
}

}  // namespace

Value padded(Emitter& c, Value x, const Window& w, double value) {
  Shape shape = c.shape(x);
  Ints low(shape.size(), 0), high(shape.size(), 0);
  for (const Axis& a : w.axes) {
    low[a.dim] = a.before;
    high[a.dim] = std::max<int64_t>(0, (a.out - 1) * a.stride + a.extent() - a.size - a.before);
  }
  return c.pad(x, low, high, value);
}

namespace {

/// The maximum of each window, or its mean: divided by the taps of all axes.
Value poolTaps(Emitter& c, Value x, const Window& w, bool isMax) {
  Value y = pool2d(c, isMax ? "max_pool2d" : "avg_pool2d", x, w);
  if (!y.handle) return {};
  if (w.axes.size() < 3) return y;
  Window depth = depthOnly(w);
  Value all = y;
  for (int64_t t = 0; t < w.axes[0].kernel; ++t) {
    Value tap = tapOf(c, all, depth, t);
    y = t == 0 ? tap : isMax ? c.max(y, tap) : c.add(y, tap);
  }
  return isMax ? y : c.div(y, c.scalarLike(y, static_cast<double>(w.axes[0].kernel)));
}

}  // namespace

Value poolWindows(Emitter& c, Value x, const Window& w, bool isMax) {
  Value y = poolTaps(c, x, w, isMax);
  return isMax || !y.handle ? y : c.mul(y, static_cast<double>(w.taps()));
}

double lowest(ElementType type) {
  switch (type) {
    case ElementType::kI8:
      return -128;
    case ElementType::kI16:
      return -32768;
    case ElementType::kI32:
      return -2147483648.0;
    case ElementType::kU8:
      return 0;
    default:
      return -std::numeric_limits<double>::infinity();
  }
}

Value argMax(Emitter& c, Value x, const Window& w, bool flat) {
  Value best, index;
  // A cell of the padding is no place of a maximum, though the image may have the same number.
  const bool hasOutside = hasPadding(w);
  for (int64_t t = 0; t < w.taps() && c.ok(); ++t) {
    Value tap = tapOf(c, x, w, t);
    Value here =
        flat ? c.expand(flatPositions(c, w, t), w.outer) : c.full({ElementType::kI32, w.outer}, static_cast<double>(t));
    if (!best.handle) {
      best = tap;
      index = here;
      continue;
    }
    // The last NaN wins, as in PyTorch.
    Value larger = c.op("greater", {tap, best});
    if (isFloat(c.element(tap))) larger = c.op("or", {larger, c.op("is_nan", {tap})});
    if (hasOutside) {
      bool isNever = false;
      if (Value inside = insideFlags(c, w, t, false, isNever); inside.handle) larger = c.op("and", {larger, inside});
      if (isNever) continue;
      Value first = insideFlags(c, w, t, true, isNever);
      // Without a value it is the first one of every window.
      if (!isNever) larger = first.handle ? c.op("or", {larger, first}) : c.full({ElementType::kBool, w.outer}, 1);
    }
    best = c.where(larger, tap, best);
    index = c.where(larger, here, index);
  }
  return index;
}

Value maxBackward(Emitter& c, Value dY, Value index, const Window& w, bool flat, const Shape& shape) {
  Value sum, zero = c.scalarLike(dY, 0);
  Ints strides(shape.size(), 1);
  for (const Axis& a : w.axes) strides[a.dim] = a.stride;
  for (int64_t t = 0; t < w.taps() && c.ok(); ++t) {
    Value here = flat ? flatPositions(c, w, t) : c.scalarLike(index, static_cast<double>(t));
    Value part = c.spread(c.where(c.op("equal", {index, here}), dY, zero), strides);
    Ints at = w.tap(t);
    for (size_t i = 0; i < w.axes.size(); ++i) {
      const Axis& a = w.axes[i];
      part = fit(c, part, a.dim, at[i] * a.dilation - a.before, a.size);
    }
    sum = sum.handle ? c.add(sum, part) : part;
  }
  return sum;
}

Value windowCounts(Emitter& c, const Window& w, bool includePadding) {
  Value product;
  bool isFull = true;
  for (const Axis& a : w.axes) {
    std::vector<float> counts(static_cast<size_t>(a.out));
    for (int64_t o = 0; o < a.out; ++o) {
      int64_t count = 0;
      for (int64_t k = 0; k < a.kernel; ++k) {
        int64_t at = a.position(o, k);
        count += includePadding ? at < a.size + a.after : at >= 0 && at < a.size;
      }
      counts[static_cast<size_t>(o)] = static_cast<float>(std::max<int64_t>(count, 1));
      isFull &= count == a.kernel;
    }
    Shape shape(w.outer.size(), 1);
    shape[a.dim] = a.out;
    Value factor = c.constant({ElementType::kF32, shape}, counts.data(), counts.size() * sizeof(float));
    product = product.handle ? c.mul(product, factor) : factor;
  }
  return isFull ? Value() : product;
}

Value meanWindows(Emitter& c, Value x, const Window& w, Value counts) {
  return counts.handle ? c.div(poolWindows(c, x, w, /*isMax=*/false), counts) : poolTaps(c, x, w, /*isMax=*/false);
}

Value meanBackward(Emitter& c, Value dY, const Window& w, const Shape& shape, Value counts) {
  Ints strides(shape.size(), 1);
  for (const Axis& a : w.axes) strides[a.dim] = a.stride;
  // What the windows divide by is their taps.
  Value scaled = counts.handle ? c.div(c.mul(dY, static_cast<double>(w.taps())), counts) : dY;
  Value share = c.spread(scaled, strides);
  Window reversed = w;
  for (Axis& a : reversed.axes) {
    share = fit(c, share, a.dim, a.extent() - 1 - a.before, a.size + a.extent() - 1);
    a.stride = 1;
    a.out = a.size;
  }
  reversed.outer = shape;
  return poolTaps(c, share, reversed, /*isMax=*/false);
}

namespace {

/// Elements [first, second) of `in` are window `o` of `out`.
std::pair<int64_t, int64_t> adaptiveWindow(int64_t o, int64_t in, int64_t out) {
  return {o * in / out, ((o + 1) * in + out - 1) / out};
}

}  // namespace

Value adaptiveWindows(Emitter& c, int64_t in, int64_t out) {
  std::vector<float> matrix(static_cast<size_t>(in * out), 0.0f);
  for (int64_t o = 0; o < out; ++o) {
    auto [begin, end] = adaptiveWindow(o, in, out);
    for (int64_t i = begin; i < end; ++i) matrix[static_cast<size_t>(i * out + o)] = 1;
  }
  return c.constant({ElementType::kF32, {in, out}}, matrix.data(), matrix.size() * sizeof(float));
}

Value adaptiveCounts(Emitter& c, int64_t in, int64_t out, int64_t behind) {
  std::vector<float> counts;
  for (int64_t o = 0; o < out; ++o) {
    auto [begin, end] = adaptiveWindow(o, in, out);
    counts.push_back(static_cast<float>(end - begin));
  }
  Shape shape(static_cast<size_t>(behind + 1), 1);
  shape[0] = out;
  return c.constant({ElementType::kF32, shape}, counts.data(), counts.size() * sizeof(float));
}

}  // namespace hpu::compose
