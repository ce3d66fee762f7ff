// SPDX-License-Identifier: Apache-2.0
// TPC pooling, 2-D and 3-D, forward and backward. The one thing to know: a window's element is its tap; taps are
// counted row-major over (depth, height, width), which is also what maxpool's retained index holds.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Indexing.h"
#include "compose/Windows.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

using Ints = std::vector<int64_t>;
using compose::Axis;
using compose::kLargest;
using compose::lowest;
using compose::Window;

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

/// Every pooling structure begins with the window of ns_SpatialReduction; those of 64 bytes and more go on with its
/// depth. Of a window with a depth a 2-D node takes the rest.
ns_SpatialReduction3D::Params windowParams(NodeContext& c, bool is3d) {
  ns_SpatialReduction3D::Params wide{};
  if (is3d) return c.paramsPrefix(wide, sizeof wide);
  static_cast<ns_SpatialReduction::Params&>(wide) =
      c.paramsPrefix(ns_SpatialReduction::Params{}, sizeof(ns_SpatialReduction::Params));
  if (c.paramsSize() < sizeof wide) return wide;
  const auto deep = c.paramsPrefix(ns_SpatialReduction3D::Params{}, sizeof wide);
  if (deep.kernel_d > 1 || deep.pad_d_begin || deep.pad_d_end)
    c.fail(strCat("the parameters have a depth (kernel ", deep.kernel_d, ", padding ", deep.pad_d_begin, " and ",
                  deep.pad_d_end, "), the node has none"));
  return wide;
}

// ---- max -----------------------------------------------------------------------------------------

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
  Value sum = maxBackward(c, dY, index, w, isPt, shape);
  c.output(0, c.cast(sum, c.inputType(0)));
}

// ---- mean ----------------------------------------------------------------------------------------

struct Average {
  ns_SpatialReduction3D::Params window{};
  bool includePadding = false;
  double divisor = 0;  ///< 0: the number of elements.
};

template <typename P>
void readAverage(NodeContext& c, Average& result) {
  const auto p = c.params<P>();
  result.includePadding = p.includePadding;
  if constexpr (requires { p.divisorOverride; }) result.divisor = p.divisorOverride;
  if constexpr (requires { p.isValidCount; })
    if (isSet(p.isValidCount)) c.unsupported("isValidCount (a count tensor)");
}

Average averageOf(NodeContext& c, bool is3d) {
  Average result;
  result.window = windowParams(c, is3d);
  if (c.paramsAre<ns_AveragePooling3DWithDivisorOverride::Params>())
    readAverage<ns_AveragePooling3DWithDivisorOverride::Params>(c, result);
  else if (is3d || c.paramsAre<ns_AveragePooling3D::Params>())
    readAverage<ns_AveragePooling3D::Params>(c, result);
  else if (c.paramsAre<ns_AveragePooling::ParamsIsValidCount>())
    readAverage<ns_AveragePooling::ParamsIsValidCount>(c, result);
  else if (c.paramsAre<ns_AveragePoolingWithDivisorOverride::ParamsIsValidCount>())
    readAverage<ns_AveragePoolingWithDivisorOverride::ParamsIsValidCount>(c, result);
  else if (c.paramsAre<ns_AveragePoolingWithDivisorOverride::Params>())
    readAverage<ns_AveragePoolingWithDivisorOverride::Params>(c, result);
  else if (c.ok())
    readAverage<ns_AveragePooling::Params>(c, result);
  return result;
}

/// As windowCounts.
Value divisorOf(NodeContext& c, const Average& average, const Window& w) {
  if (average.divisor == static_cast<double>(w.taps())) return {};
  if (average.divisor != 0) return c.scalar(average.divisor, ElementType::kF32);
  return windowCounts(c, w, average.includePadding);
}

void lowerAvgPool(NodeContext& c) {
  bool is3d = c.row().argument == "3d";
  Average average = averageOf(c, is3d);
  Value x = c.toF32(c.input(0));
  if (!c.ok()) return;
  Window w = windowOf(c, average.window, c.shape(x), is3d);
  if (!c.ok()) return;
  c.output(0, c.cast(meanWindows(c, padded(c, x, w, 0), w, divisorOf(c, average, w)), c.inputType(0)));
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
  c.output(0, c.cast(meanBackward(c, dY, w, shape, divisorOf(c, average, w)), c.inputType(0)));
}

// ---- adaptive mean: window i is [floor(i * in / out), ceil((i + 1) * in / out)) -------------------

/// What a mean over the windows of one dim is made of.
struct AdaptiveAxis {
  Value windows;  ///< [in, out]: column o adds the elements of its window.
  Value counts;   ///< [out], or [out, 1]: how many these are.
};

AdaptiveAxis adaptiveAxis(NodeContext& c, int64_t in, int64_t out, int64_t behind) {
  if (!c.sizesChange()) return {compose::adaptiveWindows(c, in, out), compose::adaptiveCounts(c, in, out, behind)};
  Value o = counter(c, out, 1, 2), i = counter(c, in, 0, 2);
  Value ins = c.scalarLike(o, static_cast<double>(in)), outs = c.scalarLike(o, static_cast<double>(out));
  Value begin = c.div(c.mul(o, ins), outs);
  Value end = c.div(c.add(c.mul(c.add(o, 1.0), ins), c.sub(outs, 1.0)), outs);
  Value isInside = c.op("and", {c.op("less_equal", {begin, i}), c.op("less", {i, end})});
  Value counts = c.toF32(c.sub(end, begin));
  Value one = c.scalarLike(counts, 1), windows = c.where(isInside, one, c.scalarLike(counts, 0));
  return {windows, behind ? c.transpose(counts, {1, 0}) : counts};
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
  Ints perm = compose::heightWidthLast(w, operand.size());
  if (!backward && !c.sizesChange() && height % outHeight == 0 && width % outWidth == 0) {
    // Windows that do not meet: one division each.
    Value moved = c.transpose(x, perm);
    Shape parts = c.shape(moved);
    const size_t outer = parts.size() - 2;
    parts.resize(outer);
    Shape small = parts;
    parts.insert(parts.end(), {outHeight, height / outHeight, outWidth, width / outWidth});
    small.insert(small.end(), {outHeight, outWidth});
    const auto at = static_cast<int64_t>(outer);
    Value means = c.reshape(c.reduceMean(c.reshape(moved, parts), {at + 1, at + 3}, true), small);
    return (void)c.output(0, c.cast(c.transpose(means, compose::inversePermutation(perm)), c.inputType(0)));
  }
  const AdaptiveAxis rows = adaptiveAxis(c, height, outHeight, 1), columns = adaptiveAxis(c, width, outWidth, 0);
  Value counts = c.mul(rows.counts, columns.counts), moved = c.transpose(x, perm);
  Value y = backward ? c.matmul(c.matmul(rows.windows, c.div(moved, counts)), c.transpose(columns.windows, {1, 0}))
                     : c.div(c.matmul(c.matmul(c.transpose(rows.windows, {1, 0}), moved), columns.windows), counts);
  c.output(0, c.cast(c.transpose(y, compose::inversePermutation(perm)), c.inputType(0)));
}

void lowerAdaptive(NodeContext& c) {
  const auto params = c.paramsPrefix(ns_AdaptiveAvgPool::Params{}, sizeof(ns_AdaptiveAvgPool::Params));
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
constexpr std::string_view kWindow = "ns_SpatialReduction::Params, or another pooling's",
                           kWindow3d = "ns_SpatialReduction3D::Params, or another 3D pooling's";
constexpr std::string_view kMean =
    "ns_AveragePooling::Params or ns_AveragePoolingWithDivisorOverride::Params, or the 3D ones";
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
