// SPDX-License-Identifier: Apache-2.0
// ONNX convolutions and pooling. One-dimensional ones become two-dimensional of height 1.
#include <cmath>
#include <limits>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Convolutions.h"

namespace hpu::importer {
namespace {

using base::strCat;
using interp::Tensor;
using ir::SymDim;
using ir::SymShape;
using mlir::ShapedType;
using shape::DimExpr;

/// Window attributes of two dimensions; pads are top, left, bottom, right.
struct Window {
  Ints kernel, strides, dilations, pads, outputPadding;
  /// By dimension: what SAME_UPPER or SAME_LOWER pads follows from a size that is given late; see padSame.
  bool isPadFree[2] = {false, false};
};

constexpr int64_t kLargestWindow = int64_t{1} << 31;  // And stride, dilation, padding: no model has more.

/// [N, C, L] as [N, C, 1, L]; null and a failure for other ranks than 3 and 4.
Value asImage(NodeContext& node, Value x) {
  if (!x) return {};
  if (node.rank(x) == 4) return x;
  if (node.rank(x) != 3)
    return node.unsupported(strCat("rank ", node.rank(x), " (one and two spatial dimensions are)")), Value();
  SymShape shape = ir::symShape(node.typeOf(x));
  shape.insert(shape.begin() + 2, SymDim{1});
  return node.reshape(x, shape);
}

/// The result of an image op back in the rank of the node's input.
Value fromImage(NodeContext& node, Value image, int64_t rank) {
  if (!image || rank == 4) return image;
  SymShape shape = ir::symShape(node.typeOf(image));
  shape.erase(shape.begin() + 2);
  return node.reshape(image, shape);
}

/// An attribute with one entry a spatial dimension (or two: pads), made two-dimensional.
std::optional<Ints> spatial(NodeContext& node, llvm::StringRef name, int64_t dims, int64_t otherwise,
                            bool isPads = false) {
  Ints values = node.integers(name);
  size_t wanted = dims * (isPads ? 2 : 1);
  if (values.empty()) values.assign(wanted, otherwise);
  if (values.size() != wanted) {
    node.invalid(strCat("'", name.str(), "' has ", values.size(), " entries, needs ", wanted));
    return std::nullopt;
  }
  for (int64_t v : values)
    if (v > kLargestWindow || v < -kLargestWindow) {
      node.invalid(strCat("'", name.str(), "' has the entry ", v, ", which is beyond 2^31; export the model again"));
      return std::nullopt;
    }
  if (dims == 2) return values;
  return isPads ? Ints{0, values[0], 0, values[1]} : Ints{otherwise, values[0]};
}

/// Reads the window attributes of a node whose input `x` is an image. `kernel` is what the weights say.
std::optional<Window> readWindow(NodeContext& node, Value x, int64_t rank, Ints kernel, bool transposed = false) {
  if (!x) return std::nullopt;
  int64_t dims = rank - 2;
  Window w;
  if (kernel.empty()) {
    if (!node.hasAttribute("kernel_shape")) return node.invalid("'kernel_shape' is missing"), std::nullopt;
    std::optional<Ints> given = spatial(node, "kernel_shape", dims, 1);
    if (!given) return std::nullopt;
    kernel = *given;
  }
  std::optional<Ints> strides = spatial(node, "strides", dims, 1), dilations = spatial(node, "dilations", dims, 1);
  std::optional<Ints> pads = spatial(node, "pads", dims, 0, true), more = spatial(node, "output_padding", dims, 0);
  if (!strides || !dilations || !pads || !more) return std::nullopt;
  for (auto [name, values] : {std::pair("kernel_shape", &kernel), {"strides", &*strides}, {"dilations", &*dilations}})
    for (int64_t size : *values)
      if (size < 1 && node.hasAttribute(name))
        return node.invalid(strCat("'", name, "' has the entry ", size, "; it must be positive")), std::nullopt;
  w = {kernel, *strides, *dilations, *pads, *more};
  std::string mode = node.text("auto_pad", "NOTSET");
  bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (mode == "VALID") w.pads.assign(4, 0);
  if (!same && mode != "VALID" && mode != "NOTSET" && !mode.empty())
    return node.invalid("auto_pad '" + mode + "'"), std::nullopt;
  Ints outputShape = node.integers("output_shape");
  // Some exporters give the batch and channels as well.
  if (static_cast<int64_t>(outputShape.size()) == rank) outputShape.erase(outputShape.begin(), outputShape.begin() + 2);
  if (!transposed) outputShape.clear();
  if (dims == 1 && outputShape.size() == 1) outputShape.insert(outputShape.begin(), 1);
  if (!same && outputShape.empty()) return w;
  for (int i = 0; i < 2; ++i) {
    using Wide = __int128;
    int64_t in = node.typeOf(x).getDimSize(2 + i), extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
    Wide total;
    if (ShapedType::isDynamic(in)) {
      if (transposed) return node.needsSize(strCat("dimension ", 2 + i, ", whose padding depends on it")), std::nullopt;
      w.isPadFree[i] = w.strides[i] != 1;
      total = extent - 1;
    } else if (transposed) {
      Wide out = outputShape.empty() ? Wide{in} * w.strides[i] : outputShape[i];
      total = Wide{w.strides[i]} * (in - 1) + w.outputPadding[i] + extent - out;
      if (total < -kLargestWindow)
        return node.invalid("'output_shape' is far larger than what the windows cover"), std::nullopt;
      if (total < 0) {  // More output than the windows cover.
        w.outputPadding[i] -= static_cast<int64_t>(total);
        total = 0;
      }
    } else {
      int64_t out = (in + w.strides[i] - 1) / w.strides[i];
      total = std::max<Wide>(0, Wide{out - 1} * w.strides[i] + extent - in);
    }
    if (total > kLargestWindow)
      return node.invalid(strCat("dimension ", 2 + i, " would be padded by more than 2^31")), std::nullopt;
    // The odd element goes behind with SAME_UPPER, in front otherwise.
    const auto all = static_cast<int64_t>(total), small = all / 2;
    w.pads[i] = mode == "SAME_UPPER" ? small : all - small;
    w.pads[2 + i] = all - w.pads[i];
  }
  return w;
}

/// The image with the padding that follows from its size; the window then has none along these dimensions. The most
/// that there can be is added, and what is too much cut off.
Value padSame(NodeContext& node, Value x, Window& w, double value) {
  if (!x || !(w.isPadFree[0] || w.isPadFree[1])) return x;
  const SymShape in = ir::symShape(node.typeOf(x));
  Ints low(4, 0), high(4, 0);
  SymShape starts(4, SymDim{0}), sizes = in;
  for (int i = 0; i < 2; ++i) {
    if (!w.isPadFree[i]) continue;
    const int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1, stride = w.strides[i];
    low[2 + i] = w.pads[i];
    high[2 + i] = w.pads[2 + i];
    const bool isUpper = node.text("auto_pad", "") == "SAME_UPPER";
    const auto size = ir::exprOf(in[2 + i]);
    const auto windows = size ? size->ceilDiv(stride) : std::nullopt;
    const auto before = windows ? windows->minus(1) : std::nullopt,
               strides = before ? before->times(stride) : std::nullopt;
    const auto covered = strides ? strides->plus(extent) : std::nullopt;
    const auto missing = covered ? covered->minus(*size) : std::nullopt,
               total = missing ? DimExpr::max(*missing, 0) : std::nullopt,
               own = !total    ? std::nullopt
                     : isUpper ? total->floorDiv(2)
                               : total->ceilDiv(2),
               start = own ? DimExpr(w.pads[i]).minus(*own) : std::nullopt;
    if (!start) return node.needsSize(strCat("dimension ", 2 + i, ", whose padding depends on it")), Value();
    starts[2 + i] = node.symDim(start);
    sizes[2 + i] = node.symDim(covered);
    w.pads[i] = w.pads[2 + i] = 0;
    w.isPadFree[i] = false;
  }
  return node.slice(node.op("pad", x, {{"low", low}, {"high", high}, {"value", value}}), starts, sizes, Ints(4, 1));
}

/// A rank-1 parameter as [1, C, 1, 1]; a constant one is reshaped here and now.
Value channelParameter(NodeContext& node, size_t index) {
  RankedTensorType type = node.inputType(index);
  if (!type || type.getRank() != 1) return node.invalid(strCat("input ", index, " must have rank 1")), Value();
  if (const Tensor* constant = node.constant(index))
    return node.constantTensor(constant->retyped({constant->element(), {1, constant->count(), 1, 1}}), "bias");
  return node.reshape(node.input(index), llvm::ArrayRef<SymDim>{{1}, ir::symShape(type)[0], {1}, {1}});
}

/// The convolution of a node as a four-dimensional image; null after a failure.
Value convolveImage(NodeContext& node, Value input, Value weights, bool exact = false) {
  if (!input || !weights) return {};
  int64_t rank = node.rank(input);
  if (rank == node.rank(weights) && !node.isFloat(input))
    return node.unsupported("integer operands (ConvInteger has them)"), Value();
  if (rank != node.rank(weights))
    return node.invalid(strCat("input of rank ", rank, ", weights of rank ", node.rank(weights))), Value();
  if (!fixWeights(node, input, weights)) return {};
  Value x = asImage(node, input), w = asImage(node, weights);
  if (!x || !w) return {};
  bool transposed = node.def().op == "ConvTranspose";
  Ints kernel(node.typeOf(w).getShape().take_back(2));
  std::optional<Window> window = readWindow(node, x, rank, kernel, transposed);
  if (!window || !(x = padSame(node, x, *window, 0))) return {};
  int64_t groups = node.integer("group", 1);
  if (transposed && node.elementOf(x).isF64()) {  // Which no MME has.
    const std::vector<Value> result = composedValues(node, {x, w}, [&](compose::Emitter& e, const auto& in) {
      auto pair = [](const Ints& list) { return std::array<int64_t, 2>{list[0], list[1]}; };
      const Ints& pads = window->pads;
      return std::vector<hpu::Value>{
          compose::convolveTransposed(e, in[0], in[1], pair(window->strides), pair(window->dilations),
                                      {pads[0], pads[1], pads[2], pads[3]}, pair(window->outputPadding), groups)};
    });
    return result.empty() ? Value() : result[0];
  }
  return transposed ? node.op("conv_transpose2d", {x, w},
                              {{"strides", window->strides},
                               {"dilations", window->dilations},
                               {"pads", window->pads},
                               {"output_padding", window->outputPadding},
                               {"groups", groups}})
                    : node.op("conv2d", {x, w},
                              {{"strides", window->strides},
                               {"dilations", window->dilations},
                               {"pads", window->pads},
                               {"groups", groups},
                               {"exact", exact}});
}

void convertConv(NodeContext& node) {
  Value input = node.input(0);
  if (input && node.rank(input) > 4) return convertConvVolume(node);
  Value result = convolveImage(node, input, node.input(1));
  if (!result) return;
  int64_t rank = node.rank(input);
  if (node.has(2)) result = node.op("add", {result, channelParameter(node, 2)});
  node.setOutput(0, fromImage(node, result, rank));
}

// ---- pooling -----------------------------------------------------------------------------------

void convertPool(NodeContext& node) {
  Value input = node.input(0);
  if (!input) return;
  int64_t rank = node.rank(input);
  if (rank > 4 || node.wants(1)) return convertPoolVolume(node);
  Value x = asImage(node, input);
  std::optional<Window> w = readWindow(node, x, rank, {});
  if (!w) return;
  bool ceilMode = node.integer("ceil_mode", 0);
  if (node.def().op == "MaxPool" && (w->isPadFree[0] || w->isPadFree[1])) {
    if (!node.isFloat(x)) return node.unsupported("integers with a padding that follows from a free dimension");
    x = padSame(node, x, *w, -std::numeric_limits<double>::infinity());
  }
  if (node.def().op == "MaxPool")
    return node.setOutput(0, fromImage(node,
                                       node.op("max_pool2d", x,
                                               {{"kernel", w->kernel},
                                                {"strides", w->strides},
                                                {"dilations", w->dilations},
                                                {"pads", w->pads},
                                                {"ceil_mode", ceilMode}}),
                                       rank));
  if (!node.isFloat(x)) return node.unsupported("integer elements");
  bool countPadding = node.integer("count_include_pad", 0);
  auto average = [&](Value image, const Window& window) {
    return node.op("avg_pool2d", image,
                   {{"kernel", window.kernel},
                    {"strides", window.strides},
                    {"dilations", window.dilations},
                    {"pads", window.pads},
                    {"ceil_mode", ceilMode},
                    {"count_include_pad", countPadding}});
  };
  if (!w->isPadFree[0] && !w->isPadFree[1]) return node.setOutput(0, fromImage(node, average(x, *w), rank));
  // Zeros of the padding are in the average like others: it is divided by that of ones, which says how many were none.
  Window window = *w;
  Value sums = average(padSame(node, x, window, 0), window);
  if (!countPadding) {
    SymShape one = ir::symShape(node.typeOf(x));
    one[0] = one[1] = SymDim{1};
    Window same = *w;
    Value ones = padSame(node, node.expand(node.scalarLike(x, 1), one), same, 0);
    sums = node.op("div", {sums, average(ones, same)});
  }
  node.setOutput(0, fromImage(node, sums, rank));
}

void convertGlobalPool(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  if (node.rank(x) < 3) return node.invalid("needs a spatial dimension");
  Ints axes;
  for (int64_t d = 2; d < node.rank(x); ++d) axes.push_back(d);
  node.setOutput(0, node.op(node.mnemonic(), x, {{"axes", axes}, {"keepdims", true}}));
}

constexpr OpRow kRows[] = {
    {"Conv", 1, kNewestOpset, convertConv, "", "one to three spatial dimensions, floats"},
    {"ConvTranspose", 1, kNewestOpset, convertConv, "", "one to three spatial dimensions, floats"},
    {"MaxPool", 1, kNewestOpset, convertPool, "", "one to three spatial dimensions"},
    {"AveragePool", 1, kNewestOpset, convertPool, "", "one to three spatial dimensions"},
    {"GlobalAveragePool", 1, kNewestOpset, convertGlobalPool, "reduce_mean", "one or more spatial dimensions"},
    {"GlobalMaxPool", 1, kNewestOpset, convertGlobalPool, "reduce_max", "one or more spatial dimensions"},
};

}  // namespace

bool fixWeights(NodeContext& node, Value input, Value weights) {
  const Ints kernel = node.integers("kernel_shape");
  const int64_t rank = node.rank(weights), groups = node.integer("group", 1);
  if (rank < 2 || node.rank(input) < 2) return true;  // Refused where they are read.
  const auto dims = static_cast<size_t>(rank);
  for (size_t d = 2; d < dims; ++d)
    if (kernel.size() + 2 == dims && !node.fixSize(weights, static_cast<int64_t>(d), kernel[d - 2])) return false;
  for (size_t d = 0; d < dims; ++d)
    if (node.typeOf(weights).isDynamicDim(static_cast<unsigned>(d)) && (d > 1 || groups != 1))
      return node.needsSize("the shape of its weights"), false;
  const int64_t along = node.def().op == "ConvTranspose" ? 0 : 1;
  const int64_t channels = node.typeOf(weights).getDimSize(static_cast<unsigned>(along)),
                own = node.typeOf(input).getDimSize(1);
  if (ShapedType::isDynamic(channels)) return ShapedType::isDynamic(own) || node.fixSize(weights, along, own);
  const bool isUsual = channels <= kLargestWindow && groups >= 1 && groups <= kLargestWindow;
  return !isUsual || node.fixSize(input, 1, along == 0 ? channels : channels * groups);
}

Value convolve(NodeContext& node, Value input, Value weights, bool exact) {
  Value image = convolveImage(node, input, weights, exact);
  return image ? fromImage(node, image, node.rank(input)) : Value();
}

llvm::ArrayRef<OpRow> convolutionRows() {
  return kRows;
}

}  // namespace hpu::importer
