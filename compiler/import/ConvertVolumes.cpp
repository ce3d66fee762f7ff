// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling that the dialect has no op for: of volumes, with the positions of maxima, of powers.
#include <array>
#include <cmath>

#include "base/Format.h"
#include "compiler/dialect/hpu/Windows.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Convolutions.h"
#include "compose/Indexing.h"
#include "compose/Windows.h"

namespace hpu::importer {
namespace {

using base::strCat;
using compose::Emitter;
using Values = std::vector<hpu::Value>;

/// The window attributes of a node, one entry a spatial dimension.
struct Spatial {
  Ints kernel, strides, dilations, before, after, outputPadding, outputShape;
  std::string autoPad;
  bool ceilMode = false;
  size_t dims() const { return kernel.size(); }
  int64_t extent(size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

std::optional<Spatial> readSpatial(NodeContext& node, int64_t rank, Ints kernel) {
  if (rank < 3 || rank > 5)
    return node.unsupported(strCat("rank ", rank, " (one to three spatial dimensions are)")), std::nullopt;
  const auto dims = static_cast<size_t>(rank - 2);
  auto list = [&](llvm::StringRef name, int64_t otherwise, size_t count) {
    Ints values = node.integers(name);
    if (values.empty()) values.assign(count, otherwise);
    if (values.size() != count)
      node.invalid(strCat("'", name.str(), "' has ", values.size(), " entries, needs ", count));
    for (int64_t v : values)
      if (v > compose::kLargest || v < -compose::kLargest)
        node.invalid(strCat("'", name.str(), "' has the entry ", v, ", which is beyond ", compose::kLargest));
    return values;
  };
  Spatial s;
  s.kernel = kernel.empty() ? list("kernel_shape", 0, dims) : kernel;
  s.strides = list("strides", 1, dims);
  s.dilations = list("dilations", 1, dims);
  const Ints pads = list("pads", 0, 2 * dims);
  s.outputPadding = list("output_padding", 0, dims);
  s.outputShape = node.integers("output_shape");
  if (s.outputShape.size() == dims + 2) s.outputShape.erase(s.outputShape.begin(), s.outputShape.begin() + 2);
  s.autoPad = node.text("auto_pad", "NOTSET");
  s.ceilMode = node.integer("ceil_mode", 0) != 0;
  if (node.failed()) return std::nullopt;
  s.before.assign(pads.begin(), pads.begin() + dims);
  s.after.assign(pads.begin() + dims, pads.end());
  if (s.autoPad == "VALID") s.before.assign(dims, 0), s.after.assign(dims, 0);
  for (size_t d = 0; d < dims; ++d)
    if (s.kernel[d] < 1 || s.strides[d] < 1 || s.dilations[d] < 1)
      return node.invalid("kernel, strides and dilations must be positive"), std::nullopt;
  if (llvm::any_of(pads, [](int64_t pad) { return pad < 0; }))
    return node.invalid("pads must not be negative"), std::nullopt;
  return s;
}

bool isSame(const Spatial& s) {
  return s.autoPad == "SAME_UPPER" || s.autoPad == "SAME_LOWER";
}
/// Parts `total` as auto_pad has it: the odd element goes behind with SAME_UPPER.
void padBoth(Spatial& s, size_t d, int64_t total) {
  const int64_t small = total / 2;
  s.before[d] = s.autoPad == "SAME_UPPER" ? small : total - small;
  s.after[d] = total - s.before[d];
}

/// How many windows there are along a dimension of `size` elements; sets the padding that follows from it.
int64_t windowsAlong(Emitter& e, Spatial& s, size_t d, int64_t size) {
  if (isSame(s)) {
    const int64_t out = (size + s.strides[d] - 1) / s.strides[d];
    padBoth(s, d, std::max<int64_t>(0, (out - 1) * s.strides[d] + s.extent(d) - size));
    return out;
  }
  const ir::WindowDim window{size, s.kernel[d], s.strides[d], s.dilations[d], s.before[d], s.after[d], s.ceilMode};
  const std::optional<int64_t> count = window.count();
  if (count && *count > 0) return *count;
  e.fail(strCat("not one window of ", s.extent(d), " elements fits a dimension of ", size));
  return 1;
}

/// [N, C, D, H, W] with dimensions of 1 for those that an input of a lower rank does not have.
hpu::Value asVolume(Emitter& e, hpu::Value x) {
  Shape shape = e.shape(x);
  while (shape.size() < 5) shape.insert(shape.begin() + 2, 1);
  return e.reshape(x, shape);
}
/// Likewise.
Spatial asVolume(Spatial s) {
  while (s.dims() < 3) {
    for (Ints* list : {&s.kernel, &s.strides, &s.dilations}) list->insert(list->begin(), 1);
    for (Ints* list : {&s.before, &s.after, &s.outputPadding}) list->insert(list->begin(), 0);
    if (!s.outputShape.empty()) s.outputShape.insert(s.outputShape.begin(), 1);
  }
  return s;
}
hpu::Value fromVolume(Emitter& e, hpu::Value x, int64_t rank) {
  Shape shape = e.shape(x);
  while (static_cast<int64_t>(shape.size()) > rank) shape.erase(shape.begin() + 2);
  return e.reshape(x, shape);
}

compose::ConvWindow convWindow(const Spatial& s, int64_t groups) {
  compose::ConvWindow window;
  for (size_t d = 0; d < 3; ++d) {
    window.kernel[d] = s.kernel[d];
    window.stride[d] = s.strides[d];
    window.dilation[d] = s.dilations[d];
    window.before[d] = s.before[d];
    window.after[d] = s.after[d];
  }
  window.groups = groups;
  return window;
}

/// The sizes of a transposed convolution's result; sets the padding that output_shape or auto_pad asks for.
Shape transposedSizes(Emitter& e, Spatial& s, const Shape& x) {
  Shape sizes;
  for (size_t d = 0; d < 3; ++d) {
    int64_t full = s.strides[d] * (x[d + 2] - 1) + s.outputPadding[d] + s.extent(d);
    if (!s.outputShape.empty() || isSame(s)) {
      const int64_t out = s.outputShape.empty() ? x[d + 2] * s.strides[d] : s.outputShape[d];
      if (full < out) s.outputPadding[d] += out - full, full = out;
      padBoth(s, d, full - out);
    }
    sizes.push_back(full - s.before[d] - s.after[d]);
    if (sizes.back() < 1) e.fail("its padding leaves no result");
  }
  return sizes;
}

hpu::Value convolveVolume(Emitter& e, hpu::Value x, hpu::Value w, Spatial s, int64_t groups) {
  const Shape xs = e.shape(x), ws = e.shape(w);
  if (groups < 1 || xs[1] % groups != 0 || xs[1] / groups != ws[1] || ws[0] % groups != 0)
    return e.fail(strCat(xs[1], " channels in ", groups, " groups do not fit weights of ", ws[0], " x ", ws[1]));
  Shape y = {xs[0]};
  for (size_t d = 0; d < 3; ++d) y.push_back(windowsAlong(e, s, d, xs[d + 2]));
  y.push_back(ws[0]);
  if (!e.ok()) return {};
  return compose::convolve(e, e.transpose(x, {0, 2, 3, 4, 1}), e.transpose(w, {2, 3, 4, 1, 0}), convWindow(s, groups),
                           y);
}
hpu::Value convolveVolumeTransposed(Emitter& e, hpu::Value x, hpu::Value w, Spatial s, int64_t groups) {
  const Shape xs = e.shape(x), ws = e.shape(w);
  if (groups < 1 || xs[1] != ws[0] || ws[0] % groups != 0)
    return e.fail(strCat(xs[1], " channels in ", groups, " groups do not fit weights of ", ws[0], " x ", ws[1]));
  const Shape sizes = transposedSizes(e, s, xs);
  if (!e.ok()) return {};
  return compose::convolutionDataGradient(e, e.transpose(x, {0, 2, 3, 4, 1}), e.transpose(w, {2, 3, 4, 1, 0}),
                                          convWindow(s, groups), {xs[0], sizes[0], sizes[1], sizes[2], ws[1] * groups});
}

compose::Window poolWindow(Emitter& e, hpu::Value x, Spatial s) {
  compose::Window window;
  window.outer = e.shape(x);
  for (size_t d = 0; d < s.dims(); ++d) {
    compose::Axis axis;
    axis.dim = d + 2;
    axis.size = window.outer[d + 2];
    axis.out = windowsAlong(e, s, d, axis.size);
    axis.kernel = s.kernel[d];
    axis.stride = s.strides[d];
    axis.dilation = s.dilations[d];
    axis.before = s.before[d];
    axis.after = s.after[d];
    window.outer[axis.dim] = axis.out;
    window.axes.push_back(axis);
  }
  return window;
}

/// Of maxima within an image (row-major), as positions in the whole tensor; `columnMajor`: of storage_order 1.
hpu::Value tensorPositions(Emitter& e, hpu::Value positions, const Shape& x, bool columnMajor) {
  const int64_t pixels = x[2] * x[3] * x[4];
  if (x[0] * x[1] * pixels > INT32_MAX) return e.unsupported("positions in more than 2^31 elements");
  if (columnMajor) {
    auto number = [&](int64_t value) { return e.scalar(static_cast<double>(value), ElementType::kI32); };
    hpu::Value rest = positions, sum = number(0);
    int64_t factor = pixels;
    for (size_t d = 2; d < 5; ++d) {
      const int64_t inner = numElements(Shape(x.begin() + static_cast<std::ptrdiff_t>(d) + 1, x.end()));
      hpu::Value at = e.div(rest, number(inner));
      rest = e.sub(rest, e.mul(at, number(inner)));
      // The first dimension varies fastest.
      factor = d == 2 ? 1 : factor * x[d - 1];
      sum = e.add(sum, e.mul(at, number(factor)));
    }
    positions = sum;
  }
  // The number of the image, times what it has.
  hpu::Value image = compose::counter(e, x[1], 1, 5);
  if (x[0] != 1) {
    hpu::Value channels = e.scalar(static_cast<double>(x[1]), ElementType::kI32);
    image = e.add(e.mul(compose::counter(e, x[0], 0, 5), channels), image);
  }
  hpu::Value first = e.mul(image, e.scalar(static_cast<double>(pixels), ElementType::kI32));
  return e.cast(e.add(positions, first), ElementType::kI64);
}

hpu::Value lpPool(Emitter& e, hpu::Value x, const compose::Window& window, double p) {
  const ElementType type = e.element(x);
  hpu::Value power = e.op("pow", {e.op("abs", {e.toF32(x)}), e.scalar(p, ElementType::kF32)});
  hpu::Value sum = compose::poolWindows(e, compose::padded(e, power, window, 0), window, /*isMax=*/false);
  return e.cast(e.op("pow", {sum, e.scalar(1 / p, ElementType::kF32)}), type);
}

void convertLpPool(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<Spatial> s = readSpatial(node, node.rank(x), {});
  const double p = static_cast<double>(node.integer("p", 2));
  if (!s) return;
  if (p < 1) return node.invalid("'p' must be positive");
  composed(node, {x}, [&](Emitter& e, const Values& in) -> Values {
    hpu::Value volume = asVolume(e, in[0]);
    const compose::Window window = poolWindow(e, volume, asVolume(*s));
    if (!e.ok()) return {};
    return {fromVolume(e, lpPool(e, volume, window, p), e.rank(in[0]))};
  });
}

void convertGlobalLpPool(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  const double p = static_cast<double>(node.integer("p", 2));
  if (node.rank(x) < 3) return node.invalid("needs a spatial dimension");
  if (p < 1) return node.invalid("'p' must be positive");
  composed(node, {x}, [&](Emitter& e, const Values& in) -> Values {
    std::vector<int64_t> axes;
    for (int64_t d = 2; d < e.rank(in[0]); ++d) axes.push_back(d);
    hpu::Value power = e.op("pow", {e.op("abs", {e.toF32(in[0])}), e.scalar(p, ElementType::kF32)});
    hpu::Value sum = e.reduceSum(power, axes, true);
    return {e.cast(e.op("pow", {sum, e.scalar(1 / p, ElementType::kF32)}), e.element(in[0]))};
  });
}

/// The inverse of a pooling that gave the positions of its maxima; all else is 0.
void convertMaxUnpool(NodeContext& node) {
  Value x = node.input(0), positions = node.input(1);
  if (!x || !positions) return;
  std::optional<Spatial> s = readSpatial(node, node.rank(x), {});
  if (!s) return;
  for (int64_t d = 0; node.rank(positions) == node.rank(x) && d < node.rank(x); ++d)
    if (!node.sameSize(x, d, positions, d)) return;
  std::optional<Ints> wanted;
  if (node.has(2)) {
    wanted = node.constantInts(2);
    if (!wanted) return node.unsupported("an output_shape that is not known at import");
    if (static_cast<int64_t>(wanted->size()) != node.rank(x)) return node.invalid("output_shape has another rank");
  }
  composed(node, {x, positions}, [&](Emitter& e, const Values& in) -> Values {
    Shape shape = e.shape(in[0]);
    if (e.shape(in[1]) != shape) return {e.fail("its positions have another shape than its values")};
    for (size_t d = 0; d < s->dims(); ++d)
      shape[d + 2] = (shape[d + 2] - 1) * s->strides[d] + s->kernel[d] - s->before[d] - s->after[d];
    const int64_t count = numElements(shape), given = numElements(e.shape(in[0]));
    hpu::Value flat = e.full({e.element(in[0]), {count}}, 0);
    flat = compose::scatterAlong(e, flat, compose::plainIndices(e, e.reshape(in[1], {given})),
                                 e.reshape(in[0], {given}), 0, "replace");
    hpu::Value result = e.reshape(flat, shape);
    if (!wanted) return {result};
    // Positions are those of the inferred shape; what more is asked for is behind.
    std::vector<int64_t> low(shape.size(), 0), high;
    for (size_t d = 0; d < shape.size(); ++d) high.push_back((*wanted)[d] - shape[d]);
    for (int64_t more : high)
      if (more < 0) return {e.unsupported("an output_shape that is smaller than what the windows cover")};
    return {e.pad(result, low, high)};
  });
}

constexpr OpRow kRows[] = {
    {"LpPool", 2, kNewestOpset, convertLpPool, "", "one to three spatial dimensions"},
    {"GlobalLpPool", 2, kNewestOpset, convertGlobalLpPool, "", "one or more spatial dimensions"},
    {"MaxUnpool", 9, kNewestOpset, convertMaxUnpool, "", "a constant output_shape"},
};

}  // namespace

void convertConvVolume(NodeContext& node) {
  Value x = node.input(0), w = node.input(1);
  if (!x || !w) return;
  if (!node.isFloat(x)) return node.unsupported("integer operands (the MME multiplies floats)");
  if (node.rank(w) != node.rank(x))
    return node.invalid(strCat("input of rank ", node.rank(x), ", weights of rank ", node.rank(w)));
  if (!fixWeights(node, x, w)) return;
  std::optional<Spatial> s = readSpatial(node, node.rank(x), Ints(node.typeOf(w).getShape().drop_front(2)));
  if (!s) return;
  std::vector<Value> inputs = {x, w};
  if (node.has(2)) inputs.push_back(node.input(2));
  const bool isTransposed = node.def().op == "ConvTranspose";
  const int64_t groups = node.integer("group", 1);
  composed(node, inputs, [&](Emitter& e, const Values& in) -> Values {
    hpu::Value y = isTransposed ? convolveVolumeTransposed(e, in[0], in[1], *s, groups)
                                : convolveVolume(e, in[0], in[1], *s, groups);
    y = e.transpose(y, {0, 4, 1, 2, 3});
    if (in.size() > 2) y = e.add(y, e.reshape(in[2], {e.dim(in[2], 0), 1, 1, 1}));
    return {y};
  });
}

void convertPoolVolume(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<Spatial> s = readSpatial(node, node.rank(x), {});
  if (!s) return;
  const bool isMax = node.def().op == "MaxPool", wantsPositions = node.wants(1);
  const bool countsPadding = node.integer("count_include_pad", 0), columnMajor = node.integer("storage_order", 0);
  if (!isMax && !node.isFloat(x)) return node.unsupported("integer elements");
  composed(node, {x}, [&](Emitter& e, const Values& in) -> Values {
    const int64_t rank = e.rank(in[0]);
    const ElementType type = e.element(in[0]);
    hpu::Value volume = asVolume(e, in[0]);
    const compose::Window window = poolWindow(e, volume, asVolume(*s));
    if (!e.ok()) return {};
    if (!isMax) {
      hpu::Value means = compose::meanWindows(e, compose::padded(e, e.toF32(volume), window, 0), window,
                                              compose::windowCounts(e, window, countsPadding));
      return {fromVolume(e, e.cast(means, type), rank)};
    }
    hpu::Value padded = compose::padded(e, volume, window, compose::lowest(type));
    Values results = {fromVolume(e, compose::poolWindows(e, padded, window, true), rank)};
    if (wantsPositions) {
      hpu::Value positions = compose::argMax(e, padded, window, /*flat=*/true);
      results.push_back(fromVolume(e, tensorPositions(e, positions, e.shape(volume), columnMajor), rank));
    }
    return results;
  });
}

llvm::ArrayRef<OpRow> volumeRows() {
  return kRows;
}

}  // namespace hpu::importer
