// SPDX-License-Identifier: Apache-2.0
// TPC pooling, 2-D and 3-D, forward and backward. The one thing to know: a window's element is its tap; taps are
// counted row-major over (depth, height, width), which is also what maxpool's retained index holds.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bindings/synapse/lowering/Indexing.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

using Ints = std::vector<int64_t>;

/// The window along one spatial dim.
struct Axis {
  size_t dim = 0;  ///< Of the tensor.
  int64_t size = 0, out = 0;
  int64_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  /// Where tap k of window o lies; outside of [0, size) in the padding.
  int64_t position(int64_t o, int64_t k) const { return o * stride + k * dilation - before; }
};

struct Window {
  std::vector<Axis> axes;  ///< Depth (3-D only), height, width.
  Shape outer;             ///< Sizes of the result.
  int64_t taps() const {
    int64_t count = 1;
    for (const Axis& a : axes) count *= a.kernel;
    return count;
  }
  /// The element of each axis that tap t is.
  Ints tap(int64_t t) const {
    Ints at(axes.size());
    for (size_t i = axes.size(); i-- > 0; t /= axes[i].kernel) at[i] = t % axes[i].kernel;
    return at;
  }
};

/// The tensor dims of D, H, W: by the layout string if there is one, else of {C, W, H, (D), N}.
std::vector<size_t> spatialDims(NodeContext& c, size_t rank, bool is3d) {
  std::string layout = is3d ? "CWHDN" : "CWHN";
  const std::vector<std::string>& given = c.node().inputLayouts;
  if (!given.empty() && given[0].size() == rank && given[0].find('W') != std::string::npos) layout = given[0];
  if (layout.size() != rank) {
    c.fail(strCat(c.inputName(0), " must have rank ", layout.size(), " (", layout, "), not ", rank));
    return {};
  }
  std::vector<size_t> dims;
  for (char axis : std::string_view(is3d ? "DHW" : "HW")) {
    size_t at = layout.find(axis);
    if (at == std::string::npos) {
      c.fail(strCat("layout ", layout, " has no ", std::string(1, axis)));
      return {};
    }
    dims.push_back(rank - 1 - at);
  }
  return dims;
}

constexpr int64_t kLargest = 1 << 20;  // Of a kernel, stride, dilation or pad: keeps products small.

void resolve(NodeContext& c, Axis& a, EPoolingConvention convention) {
  for (int64_t v : {a.kernel, a.stride, a.dilation})
    if (v < 1 || v > kLargest) return (void)c.fail(strCat("kernel, stride and dilation must be positive, not ", v));
  for (int64_t v : {a.before, a.after})
    if (v < 0 || v > kLargest) return (void)c.fail(strCat("a padding of ", v));
  if (convention == POOLING_CONVENTION_SAME) {
    a.out = (a.size + a.stride - 1) / a.stride;
    int64_t total = std::max<int64_t>(0, (a.out - 1) * a.stride + a.extent() - a.size);
    a.before = total / 2;
    a.after = total - a.before;
    return;
  }
  int64_t room = a.size + a.before + a.after - a.extent();
  if (room < 0) return (void)c.fail(strCat("a window of ", a.extent(), " is larger than ", a.size, " and its padding"));
  bool up = convention != POOLING_CONVENTION_VALID;
  a.out = (up ? (room + a.stride - 1) / a.stride : room / a.stride) + 1;
  if (convention == POOLING_CONVENTION_FULL_PYTORCH && (a.out - 1) * a.stride >= a.size + a.before) --a.out;
}

/// The window over a tensor of `shape`.
Window windowOf(NodeContext& c, const ns_SpatialReduction3D::Params& p, const Shape& shape, bool is3d) {
  Window w;
  w.outer = shape;
  std::vector<size_t> dims = spatialDims(c, shape.size(), is3d);
  if (!c.ok()) return w;
  if (p.pooling_convention < POOLING_CONVENTION_VALID || p.pooling_convention > POOLING_CONVENTION_FULL_PYTORCH) {
    c.fail(strCat("unknown pooling convention ", static_cast<int>(p.pooling_convention)));
    return w;
  }
  if (is3d) w.axes.push_back({0, 0, 0, p.kernel_d, p.stride_d, p.dilation_d, p.pad_d_begin, p.pad_d_end});
  w.axes.push_back({0, 0, 0, p.kernel_h, p.stride_h, p.dilation_h, p.pad_h_begin, p.pad_h_end});
  w.axes.push_back({0, 0, 0, p.kernel_w, p.stride_w, p.dilation_w, p.pad_w_begin, p.pad_w_end});
  for (size_t i = 0; i < w.axes.size() && c.ok(); ++i) {
    Axis& a = w.axes[i];
    a.dim = dims[i];
    a.size = shape[a.dim];
    resolve(c, a, p.pooling_convention);
    w.outer[a.dim] = a.out;
  }
  if (c.ok() && w.taps() > 4096) c.unsupported(strCat("a window of ", w.taps(), " elements"));
  return w;
}

ns_SpatialReduction3D::Params widen(const ns_SpatialReduction::Params& p) {
  ns_SpatialReduction3D::Params wide{};
  static_cast<ns_SpatialReduction::Params&>(wide) = p;
  return wide;
}

ns_SpatialReduction3D::Params windowParams(NodeContext& c, bool is3d) {
  return is3d ? c.params<ns_SpatialReduction3D::Params>() : widen(c.params<ns_SpatialReduction::Params>());
}

/// v moved by `low` along `dim` and cut or filled with zeros to `length`.
Value fit(NodeContext& c, Value v, size_t dim, int64_t low, int64_t length) {
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

/// x with padding such that every window lies inside.
Value padded(NodeContext& c, Value x, const Window& w, double value) {
  Shape shape = c.shape(x);
  Ints low(shape.size(), 0), high(shape.size(), 0);
  for (const Axis& a : w.axes) {
    low[a.dim] = a.before;
    high[a.dim] = std::max<int64_t>(0, (a.out - 1) * a.stride + a.extent() - a.size - a.before);
  }
  return c.pad(x, low, high, value);
}

/// Tap t of all windows of a padded operand.
Value tapOf(NodeContext& c, Value padded, const Window& w, int64_t t) {
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

/// The permutation that moves height and width to the end; the other dims keep their order.
Ints heightWidthLast(const Window& w, size_t rank) {
  size_t h = w.axes[w.axes.size() - 2].dim, wide = w.axes.back().dim;
  Ints perm;
  for (size_t d = 0; d < rank; ++d)
    if (d != h && d != wide) perm.push_back(static_cast<int64_t>(d));
  perm.push_back(static_cast<int64_t>(h));
  perm.push_back(static_cast<int64_t>(wide));
  return perm;
}

Ints inverse(const Ints& perm) {
  Ints result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return result;
}

/// max_pool2d or avg_pool2d (of whole windows) over height and width of an operand that is padded already.
Value pool2d(NodeContext& c, std::string_view op, Value x, const Window& w) {
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
  return c.transpose(c.reshape(pooled, full), inverse(perm));
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

/// The maximum or sum of each window of a padded operand.
Value poolWindows(NodeContext& c, Value x, const Window& w, bool isMax) {
  auto op = isMax ? "max_pool2d" : "avg_pool2d";
  Value y = pool2d(c, op, x, w);
  if (w.axes.size() == 3) {
    Window depth = depthOnly(w);
    Value all = y;
    for (int64_t t = 0; t < w.axes[0].kernel; ++t) {
      Value tap = tapOf(c, all, depth, t);
      y = t == 0 ? tap : isMax ? c.max(y, tap) : c.add(y, tap);
    }
  }
  return isMax ? y : c.mul(y, static_cast<double>(w.axes.back().kernel * w.axes[w.axes.size() - 2].kernel));
}

// ---- max -----------------------------------------------------------------------------------------

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

/// Position of tap t of each window in the flattened image, as an i32 constant that broadcasts over the result.
Value flatPositions(NodeContext& c, const Window& w, int64_t t) {
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

/// For each window the tap (or, with `flat`, the position) of its first maximum, i32.
Value argMax(NodeContext& c, Value x, const Window& w, bool flat) {
  Value best, index;
  for (int64_t t = 0; t < w.taps() && c.ok(); ++t) {
    Value tap = tapOf(c, x, w, t);
    Value here =
        flat ? c.expand(flatPositions(c, w, t), w.outer) : c.full({ElementType::kI32, w.outer}, static_cast<double>(t));
    if (!best.handle) {
      best = tap;
      index = here;
      continue;
    }
    Value larger = c.op("greater", {tap, best});
    best = c.where(larger, tap, best);
    index = c.where(larger, here, index);
  }
  return index;
}

void lowerMaxPool(NodeContext& c) {
  bool is3d = c.row().argument.starts_with("3"), isPt = c.row().argument.ends_with("pt");
  auto params = windowParams(c, is3d);
  Value x = c.input(0);
  if (!c.ok()) return;
  Window w = windowOf(c, params, c.shape(x), is3d);
  if (!c.ok()) return;
  Value inside = padded(c, x, w, lowest(c.element(x)));
  size_t index = isPt ? 1 : 0;
  c.output(1 - index, poolWindows(c, inside, w, /*isMax=*/true));
  if (c.wantsOutput(index))
    c.output(index,
             c.cast(argMax(c, inside, w, isPt), c.outputType(index, isPt ? ElementType::kI64 : ElementType::kU8)));
}

/// The operand's sizes: of its tensor or shape tensor, else as declared.
Shape operandShape(NodeContext& c, size_t input) {
  if (c.hasInput(input)) return c.inputShape(input);
  return c.requiredShape(0);
}

void lowerMaxPoolBwd(NodeContext& c) {
  bool is3d = c.row().argument.starts_with("3"), isPt = c.row().argument.ends_with("pt");
  auto params = windowParams(c, is3d);
  Value dY = c.toF32(c.input(0)), index = c.cast(c.input(isPt ? 2 : 1), ElementType::kI32);
  Shape shape = operandShape(c, isPt ? 1 : 2);
  if (!c.ok()) return;
  Window w = windowOf(c, params, shape, is3d);
  if (!c.ok()) return;
  if (c.shape(dY) != w.outer)
    return (void)c.fail(
        strCat(c.inputName(0), " has sizes ", sizesText(c.shape(dY)), ", the windows give ", sizesText(w.outer)));
  Value sum, zero = c.scalarLike(dY, 0);
  Ints strides(shape.size(), 1);
  for (const Axis& a : w.axes) strides[a.dim] = a.stride;
  for (int64_t t = 0; t < w.taps() && c.ok(); ++t) {
    Value here = isPt ? flatPositions(c, w, t) : c.scalarLike(index, static_cast<double>(t));
    Value part = c.spread(c.where(c.op("equal", {index, here}), dY, zero), strides);
    Ints at = w.tap(t);
    for (size_t i = 0; i < w.axes.size(); ++i) {
      const Axis& a = w.axes[i];
      part = fit(c, part, a.dim, at[i] * a.dilation - a.before, a.size);
    }
    sum = sum.handle ? c.add(sum, part) : part;
  }
  c.output(0, c.cast(sum, c.inputType(0)));
}

// ---- mean ----------------------------------------------------------------------------------------

struct Average {
  ns_SpatialReduction3D::Params window{};
  bool includePadding = false;
  double divisor = 0;  ///< 0: the number of elements.
};

Average averageOf(NodeContext& c, bool is3d) {
  Average result;
  if (is3d) {
    ns_AveragePooling3DWithDivisorOverride::Params p{};
    p = c.versionedParams<ns_AveragePooling3DWithDivisorOverride::Params, ns_AveragePooling3D::Params>(p, false);
    result.window = p;
    result.includePadding = p.includePadding;
    result.divisor = p.divisorOverride;
    return result;
  }
  if (c.paramsAre<ns_AveragePooling::ParamsIsValidCount>() ||
      c.paramsAre<ns_AveragePoolingWithDivisorOverride::ParamsIsValidCount>())
    c.unsupported("isValidCount (a count tensor)");
  ns_AveragePoolingWithDivisorOverride::Params p{};
  p = c.versionedParams<ns_AveragePoolingWithDivisorOverride::Params, ns_AveragePooling::Params>(p, false);
  result.window = widen(p);
  result.includePadding = p.includePadding;
  result.divisor = p.divisorOverride;
  return result;
}

/// One by the number of elements that each window averages; broadcasts over the result.
Value inverseCounts(NodeContext& c, const Average& average, const Window& w) {
  if (average.divisor != 0) return c.scalar(1 / average.divisor, ElementType::kF32);
  Value product;
  for (const Axis& a : w.axes) {
    std::vector<float> inverse(static_cast<size_t>(a.out));
    for (int64_t o = 0; o < a.out; ++o) {
      int64_t count = 0;
      for (int64_t k = 0; k < a.kernel; ++k) {
        int64_t at = a.position(o, k);
        count += average.includePadding ? at < a.size + a.after : at >= 0 && at < a.size;
      }
      inverse[static_cast<size_t>(o)] = 1.0f / static_cast<float>(std::max<int64_t>(count, 1));
    }
    Shape shape(w.outer.size(), 1);
    shape[a.dim] = a.out;
    Value factor = c.constant({ElementType::kF32, shape}, inverse.data(), inverse.size() * sizeof(float));
    product = product.handle ? c.mul(product, factor) : factor;
  }
  return product;
}

void lowerAvgPool(NodeContext& c) {
  bool is3d = c.row().argument == "3d";
  Average average = averageOf(c, is3d);
  Value x = c.toF32(c.input(0));
  if (!c.ok()) return;
  Window w = windowOf(c, average.window, c.shape(x), is3d);
  if (!c.ok()) return;
  Value sums = poolWindows(c, padded(c, x, w, 0), w, /*isMax=*/false);
  c.output(0, c.cast(c.mul(sums, inverseCounts(c, average, w)), c.inputType(0)));
}

/// Each element gets the shares of all windows that it is in: a sum over windows of the gradient, spread by the
/// strides.
void lowerAvgPoolBwd(NodeContext& c) {
  bool is3d = c.row().argument == "3d";
  Average average = averageOf(c, is3d);
  Value dY = c.toF32(c.input(0));
  Shape shape = operandShape(c, 1);
  if (!c.ok()) return;
  Window w = windowOf(c, average.window, shape, is3d);
  if (!c.ok()) return;
  if (c.shape(dY) != w.outer)
    return (void)c.fail(
        strCat(c.inputName(0), " has sizes ", sizesText(c.shape(dY)), ", the windows give ", sizesText(w.outer)));
  Ints strides(shape.size(), 1);
  for (const Axis& a : w.axes) strides[a.dim] = a.stride;
  Value share = c.spread(c.mul(dY, inverseCounts(c, average, w)), strides);
  Window reversed = w;
  for (Axis& a : reversed.axes) {
    share = fit(c, share, a.dim, a.extent() - 1 - a.before, a.size + a.extent() - 1);
    a.stride = 1;
    a.out = a.size;
  }
  reversed.outer = shape;
  c.output(0, c.cast(poolWindows(c, share, reversed, /*isMax=*/false), c.inputType(0)));
}

// ---- adaptive mean: window i is [floor(i * in / out), ceil((i + 1) * in / out)) -------------------

/// [in, out]: column o averages its window.
Value averagingMatrix(NodeContext& c, int64_t in, int64_t out) {
  if (c.sizesChange()) {
    Value o = counter(c, out, 1, 2), i = counter(c, in, 0, 2);
    Value ins = c.scalarLike(o, static_cast<double>(in)), outs = c.scalarLike(o, static_cast<double>(out));
    Value begin = c.div(c.mul(o, ins), outs);
    Value end = c.div(c.add(c.mul(c.add(o, 1.0), ins), c.sub(outs, 1.0)), outs);
    Value isInside = c.op("and", {c.op("less_equal", {begin, i}), c.op("less", {i, end})});
    Value share = c.div(c.scalar(1, ElementType::kF32), c.toF32(c.sub(end, begin)));
    return c.where(isInside, share, c.scalarLike(share, 0));
  }
  std::vector<float> matrix(static_cast<size_t>(in * out), 0.0f);
  for (int64_t o = 0; o < out; ++o) {
    int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
    for (int64_t i = begin; i < end; ++i)
      matrix[static_cast<size_t>(i * out + o)] = 1.0f / static_cast<float>(end - begin);
  }
  return c.constant({ElementType::kF32, {in, out}}, matrix.data(), matrix.size() * sizeof(float));
}

/// The mean over height and width windows as two products, and the way back with their transposes.
void adaptive(NodeContext& c, Value x, const Shape& operand, int64_t outHeight, int64_t outWidth, bool backward) {
  std::vector<size_t> dims = spatialDims(c, operand.size(), false);
  if (!c.ok()) return;
  Window w;
  w.axes = {{dims[0]}, {dims[1]}};
  int64_t height = operand[dims[0]], width = operand[dims[1]];
  for (int64_t size : {height, width, outHeight, outWidth})
    if (size < 1 || size > kLargest) return (void)c.fail(strCat("a height or width of ", size));
  Ints perm = heightWidthLast(w, operand.size());
  Value rows = averagingMatrix(c, height, outHeight), columns = averagingMatrix(c, width, outWidth);
  Value moved = c.transpose(x, perm);
  Value y = backward ? c.matmul(c.matmul(rows, moved), c.transpose(columns, {1, 0}))
                     : c.matmul(c.matmul(c.transpose(rows, {1, 0}), moved), columns);
  c.output(0, c.cast(c.transpose(y, inverse(perm)), c.inputType(0)));
}

void lowerAdaptive(NodeContext& c) {
  auto params = c.params<ns_AdaptiveAvgPool::Params>();
  Value x = c.toF32(c.input(0));
  if (c.ok()) adaptive(c, x, c.shape(x), params.outputHeight, params.outputWidth, false);
}

void lowerAdaptiveBwd(NodeContext& c) {
  Value dY = c.toF32(c.input(0));
  Shape shape = operandShape(c, 1);
  if (!c.ok()) return;
  std::vector<size_t> dims = spatialDims(c, shape.size(), false);
  const Shape& gradient = c.shape(dY);
  if (gradient.size() != shape.size())
    c.fail(strCat("the gradient has ", gradient.size(), " dims and the result ", shape.size()));
  if (c.ok()) adaptive(c, dY, shape, gradient[dims[0]], gradient[dims[1]], true);
}

constexpr std::string_view kFloats = "f32 bf16 f16", kMaxTypes = "f32 bf16 f16 i8 u8 i16";
constexpr std::string_view kWindow = "ns_SpatialReduction::Params", kWindow3d = "ns_SpatialReduction3D::Params";
constexpr std::string_view kMean = "ns_AveragePooling::Params or ns_AveragePoolingWithDivisorOverride::Params";
constexpr std::string_view kMean3d = "ns_AveragePooling3D::Params or ns_AveragePooling3DWithDivisorOverride::Params";

// clang-format off
constexpr GuidRow kRows[] = {
    {"maxpool_2d_fwd", "x", "[retained], y", kWindow, kMaxTypes, lowerMaxPool, "2"},
    {"maxpool_2d_bwd", "dY, retained, [shape]", "dX", kWindow, kFloats, lowerMaxPoolBwd, "2"},
    {"maxpool_3d_fwd", "x", "[retained], y", kWindow3d, kMaxTypes, lowerMaxPool, "3"},
    {"maxpool_3d_bwd", "dY, retained, [shape]", "dX", kWindow3d, kFloats, lowerMaxPoolBwd, "3"},
    {"pt_maxpool_2d_fwd", "x", "y, [indices]", kWindow, kMaxTypes, lowerMaxPool, "2 pt"},
    {"pt_maxpool_2d_bwd", "dY, x, indices", "dX", kWindow, kFloats, lowerMaxPoolBwd, "2 pt"},
    {"avg_pool_2d_fwd", "x", "y", kMean, kFloats, lowerAvgPool, "2d"},
    {"avg_pool_2d_bwd", "dY, [shape]", "dX", kMean, kFloats, lowerAvgPoolBwd, "2d"},
    {"avg_pool_3d_fwd", "x", "y", kMean3d, kFloats, lowerAvgPool, "3d"},
    {"avg_pool_3d_bwd", "dY, [shape]", "dX", kMean3d, kFloats, lowerAvgPoolBwd, "3d"},
    {"adaptive_avg_pool_2d_fwd", "x, [shape]", "y", "ns_AdaptiveAvgPool::Params", kFloats, lowerAdaptive},
    {"adaptive_avg_pool_2d_bwd", "dY, [shape]", "dX", "ns_AdaptiveAvgPool::Params?", kFloats, lowerAdaptiveBwd},
};
// clang-format on

}  // namespace

std::span<const GuidRow> poolingGuids() {
  return kRows;
}

}  // namespace hpu::synapse
