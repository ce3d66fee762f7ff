// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients, 2-D and 3-D, as the dialect's 2-D ones.
// Here X is [N, D, H, W, C], W is [Q, R, S, C/groups, K], Y is [N, D', H', W', K]; 2-D ones have D = Q = 1. Depth taps
// become channels (forward, dX) or one product each (dW), so every sum over taps stays inside of one MME op.
#include <algorithm>
#include <array>

#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

namespace {

using Ints = std::vector<int64_t>;

constexpr std::string_view kActivation2d = "CWHN", kWeight2d = "KCSR", kActivation3d = "CWHDN", kWeight3d = "KCSRQ";

/// Parameters by dim: 0 depth, 1 height, 2 width.
struct ConvParams {
  std::array<int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, before{}, after{};
  int64_t groups = 1;
  bool samePadding = false;
  synActivationParams activation;
  int64_t span(size_t d) const { return dilation[d] * (kernel[d] - 1) + 1; }
};

bool is3d(NodeContext& c) {
  return c.row().argument == "3d";
}
bool isFp8(NodeContext& c) {
  return c.row().argument == "fp8";
}

bool readParams(NodeContext& c, ConvParams& conv) {
  if (is3d(c)) {
    auto p = c.versionedParams<synConvolution3DParamsV2, synConvolution3DParams>({}, false);
    for (size_t d = 0; d < 3; ++d) {  // Theirs are width, height, depth.
      conv.kernel[d] = p.kernel[2 - d];
      conv.stride[d] = p.stride[2 - d];
      conv.dilation[d] = p.dilation[2 - d];
      conv.before[d] = p.padding[2 * (2 - d)];
      conv.after[d] = p.padding[2 * (2 - d) + 1];
    }
    conv.groups = p.nGroups;
    conv.samePadding = p.paddingType == PADDING_SAME;
    conv.activation = p.activation;
  } else {
    auto p = c.versionedParams<synConvolutionParamsV2, synConvolutionParams>({}, false);
    conv.kernel = {1, p.kH, p.kW};
    conv.stride = {1, p.dH, p.dW};
    conv.dilation = {1, p.dilH, p.dilW};
    conv.before = {0, p.padT, p.padL};
    conv.after = {0, p.padB, p.padR};
    conv.groups = p.nGroups;
    conv.samePadding = p.paddingType == PADDING_SAME;
    conv.activation = p.activation;
  }
  if (!c.ok()) return false;
  constexpr int64_t kMost = 1 << 20;
  for (size_t d = 0; d < 3; ++d) {
    const char* name = d == 0 ? "depth" : d == 1 ? "height" : "width";
    for (auto [what, value] :
         {std::pair("kernel", conv.kernel[d]), {"stride", conv.stride[d]}, {"dilation", conv.dilation[d]}})
      if (value < 1 || value > kMost) return c.fail(strCat("the ", what, "'s ", name, " is ", value)), false;
    for (int64_t pad : {conv.before[d], conv.after[d]})
      if (pad < -kMost || pad > kMost) return c.fail(strCat("the padding of the ", name, " is ", pad)), false;
  }
  if (conv.groups < 1 || conv.groups > kMost) return c.fail(strCat("nGroups is ", conv.groups)), false;
  if (conv.activation.pwlNegCoeff || conv.activation.pwlPosCoeff)
    return c.unsupported("a piecewise linear activation inside of the convolution"), false;
  return true;
}

/// Resolves PADDING_SAME for x's sizes and checks that x, w and y ([N, D, H, W, C] etc.) belong together; y may be
/// unknown (empty) and is then computed.
bool checkShapes(NodeContext& c, ConvParams& conv, const Shape& x, const Shape& w, Shape& y) {
  Shape expected = {x[0]};
  for (size_t d = 0; d < 3; ++d) {
    int64_t size = x[d + 1];
    if (conv.samePadding) {
      int64_t out = (size + conv.stride[d] - 1) / conv.stride[d];
      int64_t total = std::max<int64_t>(0, (out - 1) * conv.stride[d] + conv.span(d) - size);
      conv.before[d] = total / 2;
      conv.after[d] = total - total / 2;
    }
    int64_t room = size + conv.before[d] + conv.after[d] - conv.span(d);
    if (room < 0)
      return c.fail(strCat("the kernel (", conv.span(d), " with its dilation) is larger than the padded input (",
                           size + conv.before[d] + conv.after[d], ") along the ",
                           d == 0   ? "depth"
                           : d == 1 ? "height"
                                    : "width")),
             false;
    expected.push_back(room / conv.stride[d] + 1);
    if (w[d] != conv.kernel[d])
      return c.fail(strCat("the parameters' kernel is ", conv.kernel[d], " along the ",
                           d == 0   ? "depth"
                           : d == 1 ? "height"
                                    : "width",
                           ", the weights have ", w[d])),
             false;
  }
  expected.push_back(w[4]);
  if (x[4] != w[3] * conv.groups)
    return c.fail(strCat("the data have ", x[4], " channels, the weights ", w[3], " in ", conv.groups, " group(s)")),
           false;
  if (w[4] % conv.groups)
    return c.fail(strCat(w[4], " result channels are no multiple of ", conv.groups, " groups")), false;
  if (y.empty()) y = expected;
  auto twoD = [&](const Shape& s) { return is3d(c) ? sizesText(s) : sizesText(Shape{s[0], s[2], s[3], s[4]}); };
  if (y != expected)
    return c.fail(strCat("Y has sizes ", twoD(y), ", the parameters and X give ", twoD(expected))), false;
  return true;
}

// ---- between SynapseAI's layouts and the five dims -------------------------------------------------

Value with5(NodeContext& c, Value v, bool weights) {
  Shape s = c.shape(v);
  if (s.size() != 4) return v;
  return c.reshape(v, weights ? Shape{1, s[0], s[1], s[2], s[3]} : Shape{s[0], 1, s[1], s[2], s[3]});
}
Value activation(NodeContext& c, size_t i) {
  return with5(c, c.inputIn(i, is3d(c) ? kActivation3d : kActivation2d), false);
}
Value weight(NodeContext& c, size_t i) {
  return with5(c, c.inputIn(i, is3d(c) ? kWeight3d : kWeight2d), true);
}

/// The required sizes of the result, as five dims.
Shape resultShape(NodeContext& c, bool weights, size_t shapeInput) {
  Shape s = c.requiredShapeIn(
      0, is3d(c) ? (weights ? kWeight3d : kActivation3d) : (weights ? kWeight2d : kActivation2d), shapeInput);
  if (s.size() == 4) s.insert(s.begin() + (weights ? 0 : 1), 1);
  return s;
}

void result(NodeContext& c, Value v, bool weights) {
  Shape s = c.shape(v);
  if (!is3d(c) && s.size() == 5)
    v = c.reshape(v, weights ? Shape{s[1], s[2], s[3], s[4]} : Shape{s[0], s[2], s[3], s[4]});
  c.outputIn(0, is3d(c) ? (weights ? kWeight3d : kActivation3d) : (weights ? kWeight2d : kActivation2d), v);
}

/// Both operands in the type in which they are multiplied; they must agree.
bool factors(NodeContext& c, Value& a, Value& b) {
  if (!c.ok()) return false;
  ElementType type = c.element(a);
  if (type != c.element(b))
    return c.fail(strCat(c.inputName(0), " is ", elementTypeName(type), ", ", c.inputName(1), " is ",
                         elementTypeName(c.element(b)))),
           false;
  if (!isFloat(type))
    return c.unsupported(strCat("operands of ", elementTypeName(type), "; the MME multiplies floats")), false;
  a = c.cast(a, c.productType(type));
  b = c.cast(b, c.productType(type));
  return c.ok();
}

// ---- pieces ----------------------------------------------------------------------------------------

/// Negative amounts cut, positive ones pad with zeros.
Value fit(NodeContext& c, Value v, int64_t d, int64_t before, int64_t after) {
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
Pads padsOf(NodeContext& c, Value v, int64_t dimH, int64_t dimW, std::array<int64_t, 2> before,
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
Value tapsAsChannels(NodeContext& c, Value v, const ConvParams& conv, const Ints& starts, int64_t step, int64_t count) {
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

// ---- the nodes -------------------------------------------------------------------------------------

void lowerForward(NodeContext& c) {
  ConvParams conv;
  Value x = activation(c, 0), w = weight(c, 1);
  if (isFp8(c)) x = c.toF32(x), w = c.toF32(w);  // Exact, and the sum is scaled before it is rounded.
  if (!readParams(c, conv) || !factors(c, x, w)) return;
  Shape y;
  if (!checkShapes(c, conv, c.shape(x), c.shape(w), y)) return;
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
  v = c.reshape(v, y);
  if (isFp8(c)) {
    if (c.hasInput(5)) return (void)c.unsupported(c.inputName(5));
    for (size_t i : {3, 4}) {
      if (!c.hasInput(i)) continue;
      Value scale = c.toF32(c.input(i));
      if (c.ok() && numElements(c.shape(scale)) != 1)
        return (void)c.unsupported(strCat(c.inputName(i), " of more than one element"));
      v = c.mul(v, c.reshape(scale, {}));
    }
  }
  if (c.hasInput(2)) {
    Value bias = c.cast(c.input(2), c.element(v));
    if (c.ok() && numElements(c.shape(bias)) != y[4])
      return (void)c.fail(strCat(c.inputName(2), " has sizes ", sizesText(c.shape(bias)), ", must have {", y[4], "}"));
    v = c.add(v, c.reshape(bias, {y[4]}));
  }
  bool relu = isSet(conv.activation.reluEnable);
  if (relu && isSet(conv.activation.resAfterPWL)) v = c.op("relu", {v});
  if (!isFp8(c) && c.hasInput(3)) {
    Value cin = c.cast(activation(c, 3), c.element(v));
    if (c.ok() && c.shape(cin) != y) return (void)c.fail(strCat(c.inputName(3), " has other sizes than the result"));
    v = c.add(v, cin);
  }
  if (relu && !isSet(conv.activation.resAfterPWL)) v = c.op("relu", {v});
  result(c, isFp8(c) ? c.cast(v, c.dataType()) : v, false);
}

/// dX: a transposed convolution of dY. Along the depth dY is spread by the stride and its taps become channels.
void lowerDataGradient(NodeContext& c) {
  ConvParams conv;
  Value dy = activation(c, 0), w = weight(c, 1);
  Shape x = resultShape(c, false, 2);
  if (!readParams(c, conv) || !factors(c, dy, w)) return;
  Shape y = c.shape(dy), ws = c.shape(w);
  if (!checkShapes(c, conv, x, ws, y)) return;
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
  Ints pads(4), outputPadding(2);
  std::array<int64_t, 2> cutBefore{}, cutAfter{};
  for (size_t d = 0; d < 2; ++d) {
    // What a negative padding cut off x has no gradient: computed without it, and zeros put back.
    cutBefore[d] = std::max<int64_t>(0, -conv.before[d + 1]);
    cutAfter[d] = std::max<int64_t>(0, -conv.after[d + 1]);
    pads[d] = std::max<int64_t>(0, conv.before[d + 1]);
    pads[d + 2] = std::max<int64_t>(0, conv.after[d + 1]);
    int64_t extent = conv.stride[d + 1] * (y[d + 2] - 1) + conv.span(d + 1) - pads[d] - pads[d + 2];
    outputPadding[d] = x[d + 2] - cutBefore[d] - cutAfter[d] - extent;
  }
  Value v = c.op("conv_transpose2d", {c.transpose(channels, {0, 3, 1, 2}), weights},
                 {{"strides", Ints{conv.stride[1], conv.stride[2]}},
                  {"dilations", Ints{conv.dilation[1], conv.dilation[2]}},
                  {"pads", pads},
                  {"output_padding", outputPadding},
                  {"groups", conv.groups}});
  v = c.transpose(v, {0, 2, 3, 1});
  for (size_t d = 0; d < 2; ++d) v = fit(c, v, static_cast<int64_t>(d) + 1, cutBefore[d], cutAfter[d]);
  result(c, c.reshape(v, x), false);
}

/// dW: a convolution of X with dY in the role of the weights; batch and depth are what it sums over.
void lowerWeightGradient(NodeContext& c) {
  ConvParams conv;
  Value dy = activation(c, 0), x = activation(c, 1);
  if (!readParams(c, conv) || !factors(c, dy, x)) return;
  Shape xs = c.shape(x), y = c.shape(dy);
  int64_t groups = conv.groups;
  if (xs[4] % groups || y[4] % groups)
    return (void)c.fail(strCat("the channels, ", xs[4], " and ", y[4], ", are no multiples of ", groups, " groups"));
  Shape w = {conv.kernel[0], conv.kernel[1], conv.kernel[2], xs[4] / groups, y[4]};
  if (!checkShapes(c, conv, xs, w, y)) return;
  int64_t batch = y[0] * y[1];
  bool isPointwise = groups == 1;
  for (size_t d = 0; d < 3; ++d) isPointwise &= conv.kernel[d] == 1 && conv.stride[d] == 1 && xs[d + 1] == y[d + 1];
  if (isPointwise) {  // One matrix product over all points.
    int64_t points = batch * y[2] * y[3];
    Value v = c.matmul(c.transpose(c.reshape(x, {points, xs[4]}), {1, 0}), c.reshape(dy, {points, y[4]}));
    return result(c, c.reshape(v, w), true);
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
  if (c.ok()) result(c, c.concat(taps, 0), true);
}

constexpr GuidRow kRows[] = {
    {"spatial_convolution", "X, W, [bias], [cin]", "Y", "synConvolutionParams or synConvolutionParamsV2", "",
     lowerForward},
    {"spatial_convolution3d", "X, W, [bias], [cin]", "Y", "synConvolution3DParams or synConvolution3DParamsV2", "",
     lowerForward, "3d"},
    {"conv2d_fp8", "X, W, [bias], [scale of X], [scale of W], [reserved]", "Y",
     "synConvolutionParams or synConvolutionParamsV2", "f32 bf16 f16", lowerForward, "fp8"},
    {"dedx", "dY, W, [shape]", "dX", "synConvolutionParams or synConvolutionParamsV2", "", lowerDataGradient},
    {"dedx3d", "dY, W, [shape]", "dX", "synConvolution3DParams or synConvolution3DParamsV2", "", lowerDataGradient,
     "3d"},
    {"dedw", "dY, X", "dW", "synConvolutionParams or synConvolutionParamsV2", "", lowerWeightGradient},
    {"dedw3d", "dY, X", "dW", "synConvolution3DParams or synConvolution3DParamsV2", "", lowerWeightGradient, "3d"},
};

}  // namespace

std::span<const GuidRow> convolutionGuids() {
  return kRows;
}

}  // namespace hpu::synapse
