// SPDX-License-Identifier: Apache-2.0
// TPC activations and their gradients. The one thing to know: a gradient takes dY first, then what the forward node
// saved: its result for sigmoid, tanh (and elu, unless its parameters say otherwise), its operand for the others.
#include <cmath>

#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

Value greater(NodeContext& c, Value a, double b) {
  return c.op("greater", {a, c.scalarLike(a, b)});
}
double number(fint_t value, ElementType type) {
  return isFloat(type) ? static_cast<double>(value.f) : static_cast<double>(value.i);
}

void lowerOp(NodeContext& c) {
  c.output(0, c.op(c.row().argument, {c.input(0)}));
}

// ---- relu and its kin ----------------------------------------------------------------------------

void lowerRelu(NodeContext& c) {
  ns_ReluKernel::Params none{};
  auto params = c.paramsOr(none);
  Value x = c.input(0);
  double threshold = number(params.threshold, c.element(x));
  if (threshold == 0) return c.output(0, c.op("relu", {x}));
  c.output(0, c.where(greater(c, x, threshold), x, c.scalarLike(x, 0)));
}

void lowerThreshold(NodeContext& c) {
  auto params = c.params<ns_ReluKernel::ParamsV2>();
  Value x = c.input(0);
  ElementType type = c.element(x);
  c.output(0, c.where(greater(c, x, number(params.threshold, type)), x,
                      c.scalarLike(x, number(params.replacementValue, type))));
}

void lowerReluBwd(NodeContext& c) {
  ns_ReluKernel::Params none{};
  auto params = c.paramsOr(none);
  Value dY = c.input(0), saved = c.input(1);
  c.output(0, c.where(greater(c, saved, number(params.threshold, c.element(saved))), dY, c.scalarLike(dY, 0)));
}

void lowerLeakyRelu(NodeContext& c) {
  auto params = c.paramsOr<ns_LeakyReluKernel::Params>({0.01});
  c.output(0, c.op("leaky_relu", {c.input(0)}, {{"alpha", params.alpha}}));
}

void lowerLeakyReluBwd(NodeContext& c) {
  auto params = c.paramsOr<ns_LeakyReluKernel::Params>({0.01});
  Value dY = c.input(0);
  c.output(0, c.where(greater(c, c.input(1), 0), dY, c.mul(dY, params.alpha)));
}

void lowerPrelu(NodeContext& c) {
  c.output(0, c.op("prelu", {c.input(0), c.input(1)}));
}

void lowerPreluBwd(NodeContext& c) {
  Value dY = c.input(0), x = c.input(1), w = c.input(2);
  Value positive = greater(c, x, 0);
  c.output(0, c.where(positive, dY, c.mul(dY, w)));
  if (c.wantsOutput(1)) c.output(1, c.sumTo(c.where(positive, c.scalarLike(x, 0), c.mul(dY, x)), c.shape(w)));
}

// ---- exponential units ---------------------------------------------------------------------------

ns_EluKernel::ParamsV3 eluParams(NodeContext& c) {
  ns_EluKernel::ParamsV3 params{};
  params.alpha = params.scale = params.input_scale = 1;
  return c.versionedParams<ns_EluKernel::ParamsV3, ns_EluKernel::ParamsV2, ns_EluKernel::Params>(params);
}

void lowerElu(NodeContext& c) {
  auto params = eluParams(c);
  Value x = c.input(0);
  if (params.scale == 1 && params.input_scale == 1)
    return c.output(0, c.op("elu", {x}, {{"alpha", static_cast<double>(params.alpha)}}));
  Value negative = c.mul(c.op("expm1", {c.mul(x, params.input_scale)}),
                         static_cast<double>(params.alpha) * static_cast<double>(params.scale));
  c.output(0, c.where(greater(c, x, 0), c.mul(x, params.scale), negative));
}

void lowerEluBwd(NodeContext& c) {
  auto params = eluParams(c);
  double alpha = params.alpha, scale = params.scale, inputScale = params.input_scale;
  Value dY = c.input(0), saved = c.input(1);
  Value slope;
  if (isSet(params.isInputFeaturemap))
    slope = c.mul(c.op("exp", {c.mul(saved, inputScale)}), alpha * scale * inputScale);
  else
    slope = c.mul(c.add(saved, alpha * scale), inputScale);  // y + alpha * scale = alpha * scale * exp(..)
  c.output(0, c.where(greater(c, saved, 0), c.mul(dY, scale), c.mul(dY, slope)));
}

ns_SeluKernel::ParamsV2 seluParams(NodeContext& c) {
  ns_SeluKernel::ParamsV2 params{};
  params.gamma = 1.0507009873554804935f;
  params.alpha = 1.6732632423543772848f;
  params.isInputFeaturemap = true;
  return c.versionedParams<ns_SeluKernel::ParamsV2, ns_SeluKernel::Params>(params);
}

void lowerSelu(NodeContext& c) {
  auto params = seluParams(c);
  Value elu = c.op("elu", {c.input(0)}, {{"alpha", static_cast<double>(params.alpha)}});
  c.output(0, c.mul(elu, params.gamma));
}

void lowerSeluBwd(NodeContext& c) {
  auto params = seluParams(c);
  double gamma = params.gamma, full = static_cast<double>(params.gamma) * static_cast<double>(params.alpha);
  Value dY = c.input(0), saved = c.input(1);
  Value slope = isSet(params.isInputFeaturemap) ? c.mul(c.op("exp", {saved}), full) : c.add(saved, full);
  c.output(0, c.where(greater(c, saved, 0), c.mul(dY, gamma), c.mul(dY, slope)));
}

// ---- sigmoid, tanh and what is made of them ------------------------------------------------------

void lowerSigmoid(NodeContext& c) {
  c.paramsOr<ns_SigmoidKernel::Params>({SIGMOID_DEFAULT});  // Chooses an implementation only.
  lowerOp(c);
}

void lowerSigmoidBwd(NodeContext& c) {
  Value dY = c.input(0), y = c.input(1);
  c.output(0, c.mul(dY, c.mul(y, c.sub(c.scalarLike(y, 1), y))));
}

void lowerTanhBwd(NodeContext& c) {
  Value dY = c.input(0), y = c.input(1);
  c.output(0, c.mul(dY, c.sub(c.scalarLike(y, 1), c.mul(y, y))));
}

void lowerSiluBwd(NodeContext& c) {
  Value dY = c.input(0), x = c.input(1), s = c.op("sigmoid", {x});
  c.output(0, c.mul(dY, c.mul(s, c.add(c.mul(x, c.sub(c.scalarLike(s, 1), s)), 1))));
}

void lowerMish(NodeContext& c) {
  Value x = c.input(0);
  c.output(0, c.mul(x, c.op("tanh", {c.op("softplus", {x})})));
}

void lowerMishBwd(NodeContext& c) {
  Value dY = c.input(0), x = c.input(1);
  Value t = c.op("tanh", {c.op("softplus", {x})}), s = c.op("sigmoid", {x});
  Value slope = c.mul(c.mul(x, s), c.sub(c.scalarLike(t, 1), c.mul(t, t)));
  c.output(0, c.mul(dY, c.add(t, slope)));
}

void lowerHardSwishBwd(NodeContext& c) {
  Value dY = c.input(0), x = c.input(1), zero = c.scalarLike(dY, 0);
  Value middle = c.mul(dY, c.add(c.mul(x, 1.0 / 3), 0.5));
  Value upper = c.where(greater(c, x, 3), dY, middle);
  c.output(0, c.where(c.op("less", {x, c.scalarLike(x, -3)}), zero, upper));
}

void lowerHardSigmoid(NodeContext& c) {
  auto params = c.paramsOr<ns_HardSigmoidKernel::Params>({1.0f / 6, 0.5f});
  c.output(0, c.op("hard_sigmoid", {c.input(0)},
                   {{"alpha", static_cast<double>(params.alpha)}, {"beta", static_cast<double>(params.beta)}}));
}

/// dY where low < x < high, scaled; 0 elsewhere.
Value within(NodeContext& c, Value dY, Value x, double low, double high, double scale) {
  Value inside = c.op("and", {greater(c, x, low), c.op("less", {x, c.scalarLike(x, high)})});
  return c.where(inside, scale == 1 ? dY : c.mul(dY, scale), c.scalarLike(dY, 0));
}

void lowerHardSigmoidBwd(NodeContext& c) {
  auto params = c.paramsOr<ns_HardSigmoidKernel::Params>({1.0f / 6, 0.5f});
  Value dY = c.input(0), line = c.add(c.mul(c.input(1), params.alpha), params.beta);
  c.output(0, within(c, dY, line, 0, 1, params.alpha));
}

void lowerHardTanhBwd(NodeContext& c) {
  ns_HardTanhKernel::Params defaults{};
  defaults.upperBound.f = 1;
  defaults.lowerBound.f = -1;
  auto params = c.paramsOr(defaults);
  c.output(0, within(c, c.input(0), c.input(1), params.lowerBound.f, params.upperBound.f, 1));
}

ns_Softplus::ParamsV2 softplusParams(NodeContext& c) {
  ns_Softplus::ParamsV2 params{};
  params.beta = 1;
  params.threshold = 20;
  params = c.versionedParams<ns_Softplus::ParamsV2, ns_Softplus::Params>(params);
  if (params.beta == 0) c.fail("beta must not be zero");
  return params;
}

void lowerSoftplus(NodeContext& c) {
  auto params = softplusParams(c);
  Value x = c.input(0), scaled = c.mul(x, params.beta);
  Value soft = c.div(c.op("softplus", {scaled}), params.beta);
  c.output(0, c.where(greater(c, scaled, params.threshold), x, soft));
}

void lowerSoftplusBwd(NodeContext& c) {
  auto params = softplusParams(c);
  Value dY = c.input(0), scaled = c.mul(c.input(1), params.beta);
  c.output(0, c.where(greater(c, scaled, params.threshold), dY, c.mul(dY, c.op("sigmoid", {scaled}))));
}

// ---- gelu ----------------------------------------------------------------------------------------

constexpr double kSqrt2OverPi = 0.79788456080286535588, kCubic = 0.044715;

bool geluIsTanh(NodeContext& c) {
  ns_GeluKernel::ParamsV2 params{};
  return isSet(c.versionedParams<ns_GeluKernel::ParamsV2, ns_GeluKernel::Params>(params).approximation);
}

/// tanh of the approximation, or the normal distribution's cdf.
Value geluInner(NodeContext& c, Value x, bool isTanh) {
  if (!isTanh) return c.mul(c.add(c.op("erf", {c.mul(x, M_SQRT1_2)}), 1), 0.5);
  Value cubic = c.add(c.mul(c.mul(x, x), kCubic), 1);
  return c.op("tanh", {c.mul(c.mul(x, cubic), kSqrt2OverPi)});
}

void lowerGelu(NodeContext& c) {
  bool isTanh = geluIsTanh(c);
  Value x = c.input(0);
  c.output(0, c.op("gelu", {x}, {{"tanh_approximation", int64_t{isTanh}}}));
  if (c.wantsOutput(1)) c.output(1, geluInner(c, x, isTanh));
}

/// The saved inner value is not needed: it costs less to compute than to read.
void lowerGeluBwd(NodeContext& c) {
  bool isTanh = geluIsTanh(c);
  Value dY = c.input(0), x = c.input(1), inner = geluInner(c, x, isTanh);
  Value slope;
  if (isTanh) {
    Value half = c.mul(c.add(inner, 1), 0.5), square = c.mul(x, x);
    Value sech2 = c.sub(c.scalarLike(inner, 1), c.mul(inner, inner));
    Value chain = c.mul(c.add(c.mul(square, 3 * kCubic), 1), kSqrt2OverPi * 0.5);
    slope = c.add(half, c.mul(c.mul(x, sech2), chain));
  } else {
    constexpr double kInverseSqrt2Pi = 0.39894228040143267794;
    Value density = c.mul(c.op("exp", {c.mul(c.mul(x, x), -0.5)}), kInverseSqrt2Pi);
    slope = c.add(inner, c.mul(x, density));
  }
  c.output(0, c.mul(dY, slope));
}

// ---- clamp ---------------------------------------------------------------------------------------

Value clampTo(NodeContext& c, Value x, const ns_ClampKernel::Params& params) {
  ElementType type = c.element(x);
  double low = number(params.lowerBound, type), high = number(params.upperBound, type);
  return c.op("clip", {x}, {{"min", low}, {"max", high}});
}

void lowerClamp(NodeContext& c) {
  c.output(0, clampTo(c, c.input(0), c.params<ns_ClampKernel::Params>()));
}

void lowerClampPt(NodeContext& c) {
  Value x = c.input(0);
  if (!c.hasInput(1) && !c.hasInput(2)) return c.output(0, clampTo(c, x, c.params<ns_ClampKernel::Params>()));
  if (c.hasInput(1)) x = c.max(x, c.input(1));
  if (c.hasInput(2)) x = c.min(x, c.input(2));
  c.output(0, x);
}

constexpr std::string_view kFloats = "f32 bf16 f16";
constexpr std::string_view kNumbers = "f32 bf16 f16 i32 u32 i16 u16 i8 u8 i64";
constexpr std::string_view kElu = "ns_EluKernel::Params, ParamsV2 or ParamsV3?";
constexpr std::string_view kSelu = "ns_SeluKernel::Params or ParamsV2?";
constexpr std::string_view kGelu = "ns_GeluKernel::Params or ParamsV2?";
constexpr std::string_view kSoftplus = "ns_Softplus::Params or ParamsV2?";

// clang-format off
constexpr GuidRow kRows[] = {
    {"relu_fwd", "x", "y", "ns_ReluKernel::Params?", kNumbers, lowerRelu, {}, kOneType},
    {"relu_bwd", "dY, saved", "dX", "ns_ReluKernel::Params?", kFloats, lowerReluBwd, {}, kOneType},
    {"threshold_fwd", "x", "y", "ns_ReluKernel::ParamsV2", kNumbers, lowerThreshold, {}, kOneType},
    {"leakyrelu_fwd", "x", "y", "ns_LeakyReluKernel::Params?", kFloats, lowerLeakyRelu, {}, kOneType},
    {"leakyrelu_bwd", "dY, x", "dX", "ns_LeakyReluKernel::Params?", kFloats, lowerLeakyReluBwd, {}, kOneType | kInF32},
    {"elu_fwd", "x", "y", kElu, kFloats, lowerElu, {}, kOneType | kInF32},
    {"elu_bwd", "dY, saved", "dX", kElu, kFloats, lowerEluBwd, {}, kOneType | kInF32},
    {"selu_fwd", "x", "y", kSelu, kFloats, lowerSelu, {}, kOneType | kInF32},
    {"selu_bwd", "dY, saved", "dX", kSelu, kFloats, lowerSeluBwd, {}, kOneType | kInF32},
    {"sigmoid_fwd", "x", "y", "ns_SigmoidKernel::Params?", kFloats, lowerSigmoid, "sigmoid", kOneType},
    {"sigmoid_bwd", "dY, y", "dX", "none", kFloats, lowerSigmoidBwd, {}, kOneType | kInF32},
    {"tanh_fwd", "x", "y", "none", kFloats, lowerOp, "tanh", kOneType},
    {"tanh_bwd", "dY, y", "dX", "none", kFloats, lowerTanhBwd, {}, kOneType | kInF32},
    {"gelu_fwd", "x", "y, [retained]", kGelu, kFloats, lowerGelu, {}, kOneType | kInF32},
    {"gelu_bwd", "dY, x, [retained]", "dX", kGelu, kFloats, lowerGeluBwd, {}, kOneType | kInF32},
    {"cgelu_bwd", "dY, x", "dX", kGelu, kFloats, lowerGeluBwd, {}, kOneType | kInF32},
    {"silu_fwd", "x", "y", "none", kFloats, lowerOp, "silu", kOneType},
    {"silu_bwd", "dY, x", "dX", "none", kFloats, lowerSiluBwd, {}, kOneType | kInF32},
    {"mish_fwd", "x", "y", "none", kFloats, lowerMish, {}, kOneType | kInF32},
    {"mish_bwd", "dY, x", "dX", "none", kFloats, lowerMishBwd, {}, kOneType | kInF32},
    {"hard_swish_fwd", "x", "y", "none", kFloats, lowerOp, "hard_swish", kOneType},
    {"hard_swish_bwd", "dY, x", "dX", "none", kFloats, lowerHardSwishBwd, {}, kOneType | kInF32},
    {"hard_sigmoid_fwd", "x", "y", "ns_HardSigmoidKernel::Params?", kFloats, lowerHardSigmoid, {}, kOneType},
    {"hard_sigmoid_bwd", "dY, x", "dX", "ns_HardSigmoidKernel::Params?", kFloats, lowerHardSigmoidBwd, {}, kOneType | kInF32},
    {"hardtanh_bwd", "dY, x", "dX", "ns_HardTanhKernel::Params?", kFloats, lowerHardTanhBwd, {}, kOneType | kInF32},
    {"softplus_fwd", "x", "y", kSoftplus, kFloats, lowerSoftplus, {}, kOneType | kInF32},
    {"softplus_bwd", "dY, x", "dX", kSoftplus, kFloats, lowerSoftplusBwd, {}, kOneType | kInF32},
    {"prelu_fwd", "x, w", "y", "none", kFloats, lowerPrelu, {}, kOneType},
    {"prelu_bwd", "dY, x, w", "dX, [dW]", "none", kFloats, lowerPreluBwd, {}, kOneType | kInF32},
    {"clamp_fwd", "x", "y", "ns_ClampKernel::Params", kNumbers, lowerClamp, {}, kOneType},
    {"clamp_pt_fwd", "x, [min], [max]", "y", "ns_ClampKernel::Params?", kNumbers, lowerClampPt, {}, kOneType},
};
// clang-format on

}  // namespace

std::span<const GuidRow> activationGuids() {
  return kRows;
}

}  // namespace hpu::synapse
