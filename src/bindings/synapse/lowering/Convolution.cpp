// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients, 2-D and 3-D, as the dialect's 2-D ones.
// Here X is [N, D, H, W, C], W is [Q, R, S, C/groups, K], Y is [N, D', H', W', K]; 2-D ones have D = Q = 1. Depth taps
// become channels (forward, dX) or one product each (dW), so every sum over taps stays inside of one MME op.
#include <algorithm>
#include <array>
#include <cstddef>

#include "bindings/synapse/lowering/Products.h"
#include "compose/Convolutions.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

namespace {

using Ints = std::vector<int64_t>;

constexpr std::string_view kActivation2d = "CWHN", kWeight2d = "KCSR", kActivation3d = "CWHDN", kWeight3d = "KCSRQ";

struct ConvParams : compose::ConvWindow {
  bool samePadding = false;
  synActivationParams activation;
};

bool is3d(NodeContext& c) {
  return c.row().argument == "3d";
}
bool isFp8(NodeContext& c) {
  return c.row().argument == "fp8";
}

/// The parameters' structure: by its size; else, of a size that no structure has, the fields that all have in common.
/// Each of the two kinds may describe nodes of the other kind: a flat one has depth 1.
void readFlat(NodeContext& c, ConvParams& conv) {
  synConvolutionParamsV2 p;
  if (c.paramsAre<synConvolutionParamsV2>())
    p = c.params<synConvolutionParamsV2>();
  else
    static_cast<synConvolutionParams&>(p) =
        c.paramsPrefix(synConvolutionParams(), offsetof(synConvolutionParams, activation));
  conv.kernel = {1, p.kH, p.kW};
  conv.stride = {1, p.dH, p.dW};
  conv.dilation = {1, p.dilH, p.dilW};
  conv.before = {0, p.padT, p.padL};
  conv.after = {0, p.padB, p.padR};
  conv.groups = p.nGroups;
  conv.samePadding = p.paddingType == PADDING_SAME;
  conv.activation = p.activation;
}

void readDeep(NodeContext& c, ConvParams& conv) {
  synConvolution3DParamsV2 p;
  if (c.paramsAre<synConvolution3DParamsV2>())
    p = c.params<synConvolution3DParamsV2>();
  else
    static_cast<synConvolution3DParams&>(p) =
        c.paramsPrefix(synConvolution3DParams(), offsetof(synConvolution3DParams, structPadding1));
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
  if (is3d(c) || !c.ok()) return;
  if (conv.kernel[0] > 1 || conv.before[0] || conv.after[0])
    return (void)c.fail(strCat("the parameters have a depth (kernel ", conv.kernel[0], ", padding ", conv.before[0],
                               " and ", conv.after[0], "), the node has none"));
  conv.kernel[0] = conv.stride[0] = conv.dilation[0] = 1;
}

bool readParams(NodeContext& c, ConvParams& conv) {
  const bool isFlat = c.paramsAre<synConvolutionParams>() || c.paramsAre<synConvolutionParamsV2>();
  const bool isDeep = c.paramsAre<synConvolution3DParams>() || c.paramsAre<synConvolution3DParamsV2>();
  if (isDeep || (is3d(c) && !isFlat))
    readDeep(c, conv);
  else
    readFlat(c, conv);
  if (!isFlat && !isDeep) {  // Where others have their groups and activation is not known.
    if (conv.groups == 0) conv.groups = 1;
    conv.activation.pwlNegCoeff = conv.activation.pwlPosCoeff = 0;
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
    // A kernel that fits nowhere gives nothing, where the result has not been declared to be something.
    const bool mayBeEmpty = y.empty() ? numElements(c.declaredShape(0).value_or(Shape{0})) == 0 : y[d + 1] == 0;
    if (room < 0 && !mayBeEmpty)
      return c.fail(strCat("the kernel (", conv.span(d), " with its dilation) is larger than the padded input (",
                           size + conv.before[d] + conv.after[d], ") along the ",
                           d == 0   ? "depth"
                           : d == 1 ? "height"
                                    : "width")),
             false;
    expected.push_back(room < 0 ? 0 : room / conv.stride[d] + 1);
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

/// Both operands in the type in which they are multiplied.
bool factors(NodeContext& c, Value& a, Value& b) {
  if (!c.ok()) return false;
  for (size_t i : {0, 1})
    if (ElementType type = c.element(i == 0 ? a : b); !isFloat(type))
      return c.unsupported(strCat(c.inputName(i), " is ", elementTypeName(type), "; the MME multiplies floats")), false;
  if (!inOneType(c, a, 0, b, 1)) return false;
  const ElementType type = c.element(a);
  a = c.cast(a, c.productType(type));
  b = c.cast(b, c.productType(type));
  return c.ok();
}

// ---- the nodes -------------------------------------------------------------------------------------

/// v plus operand i, which has v's sizes.
Value addWhole(NodeContext& c, Value v, size_t i) {
  Value whole = c.cast(activation(c, i), c.element(v));
  if (c.ok() && c.shape(whole) != c.shape(v)) return c.fail(strCat(c.inputName(i), " has other sizes than the result"));
  return c.add(v, whole);
}

void lowerForward(NodeContext& c) {
  ConvParams conv;
  Value x = activation(c, 0), w = weight(c, 1);
  if (isFp8(c)) x = c.toF32(x), w = c.toF32(w);  // Exact, and the sum is scaled before it is rounded.
  if (!readParams(c, conv) || !factors(c, x, w)) return;
  Shape y;
  if (!checkShapes(c, conv, c.shape(x), c.shape(w), y)) return;
  if (numElements(y) == 0) return result(c, c.full({isFp8(c) ? c.dataType() : c.element(x), y}, 0), false);
  Value v = convolve(c, x, w, conv, y);
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
    if (c.ok() && numElements(c.shape(bias)) == y[4])
      v = c.add(v, c.reshape(bias, {y[4]}));
    else if (c.ok() && c.rank(bias) == (is3d(c) ? 5 : 4))
      v = addWhole(c, v, 2);
    else if (c.ok())
      return (void)c.fail(
          strCat(c.inputName(2), " has sizes ", sizesText(c.shape(bias)), ", must have {", y[4], "} or the result's"));
  }
  bool relu = isSet(conv.activation.reluEnable);
  if (relu && isSet(conv.activation.resAfterPWL)) v = c.op("relu", {v});
  if (!isFp8(c) && c.hasInput(3)) {
    v = addWhole(c, v, 3);
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
  if (numElements(y) == 0) return result(c, c.full({c.element(dy), x}, 0), false);
  result(c, convolutionDataGradient(c, dy, w, conv, x), false);
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
  if (numElements(y) == 0) return result(c, c.full({c.element(dy), w}, 0), true);
  result(c, convolutionWeightGradient(c, dy, x, conv, w), true);
}

constexpr std::string_view kFlat = "synConvolutionParams or synConvolutionParamsV2, or the 3D ones of depth 1",
                           kDeep = "synConvolution3DParams or synConvolution3DParamsV2, or the flat ones";

constexpr GuidRow kRows[] = {
    {"spatial_convolution", "X, W, [bias], [cin]", "Y", kFlat, "", lowerForward},
    {"spatial_convolution3d", "X, W, [bias], [cin]", "Y", kDeep, "", lowerForward, "3d"},
    {"conv2d_fp8", "X, W, [bias], [scale of X], [scale of W], [reserved]", "Y", kFlat, "f32 bf16 f16", lowerForward,
     "fp8"},
    {"dedx", "dY, W, [shape]", "dX", kFlat, "", lowerDataGradient},
    {"dedx3d", "dY, W, [shape]", "dX", kDeep, "", lowerDataGradient, "3d"},
    {"dedw", "dY, X", "dW", kFlat, "", lowerWeightGradient},
    {"dedw3d", "dY, X", "dW", kDeep, "", lowerWeightGradient, "3d"},
};

}  // namespace

std::span<const GuidRow> convolutionGuids() {
  return kRows;
}

}  // namespace hpu::synapse
