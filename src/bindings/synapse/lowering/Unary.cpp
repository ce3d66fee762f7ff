// SPDX-License-Identifier: Apache-2.0
// TPC nodes of one operand that are a function of each element; those without an op of their own are formulas of
// others.
#include <cmath>

#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Functions.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

/// A function of src/compose.
template <Value (*function)(compose::Emitter&, Value)>
void lowerFunction(NodeContext& c) {
  c.output(0, function(c, c.input(0)));
}

void lowerOp(NodeContext& c) {
  c.output(0, c.op(c.row().argument, {c.input(0)}));
}

/// rsqrt and reciprocal: the parameter only chooses between implementations of the device.
template <typename Params>
void lowerWithHint(NodeContext& c) {
  c.paramsOr<Params>({});
  lowerOp(c);
}

void lowerLogBase(NodeContext& c) {
  double base = c.row().argument == "2" ? M_LN2 : M_LN10;
  c.output(0, c.mul(c.op("log", {c.input(0)}), 1 / base));
}

void lowerPow2(NodeContext& c) {
  Value x = c.input(0);
  c.output(0, c.op("pow", {c.scalarLike(x, 2), x}));
}

void lowerErfc(NodeContext& c) {
  c.output(0, compose::oneMinus(c, c.op("erf", {c.input(0)})));
}

void lowerErfinv(NodeContext& c) {
  c.paramsOr<ns_erfinv::Params>({});
  c.output(0, c.op("erf_inv", {c.input(0)}));
}

void lowerIsFinite(NodeContext& c) {
  Value x = c.input(0);
  c.output(0, compose::isLess(c, c.op("abs", {x}), HUGE_VAL));
}

void lowerIsInf(NodeContext& c) {
  auto params = c.paramsOr<ns_IsInfKernel::Params>({1, 1});
  Value x = c.input(0);
  if (params.detect_negative && params.detect_positive)
    x = c.op("abs", {x});
  else if (params.detect_negative)
    x = c.neg(x);
  Value found = c.op("equal", {x, c.scalarLike(x, HUGE_VAL)});
  if (!params.detect_negative && !params.detect_positive) found = c.op("xor", {found, found});
  c.output(0, found);
}

void lowerRound(NodeContext& c) {
  ns_RoundKernel::ParamsV2 params{};
  params.roundMode = ROUND_HALF_NEAREST_EVEN;
  params = c.versionedParams<ns_RoundKernel::ParamsV2, ns_RoundKernel::Params>(params);
  if (params.num_decimal_round < -38 || params.num_decimal_round > 38)
    return (void)c.fail(strCat("rounds to ", params.num_decimal_round, " decimals, which a float has not"));
  Value x = c.input(0);
  double scale = std::pow(10.0, std::abs(params.num_decimal_round));
  bool up = params.num_decimal_round > 0, scaled = params.num_decimal_round != 0;
  if (scaled) x = up ? c.mul(x, scale) : c.div(x, scale);
  Value rounded;
  if (params.roundMode == ROUND_HALF_NEAREST_EVEN) {
    rounded = c.op("round", {x});
  } else if (params.roundMode == ROUND_HALF_AWAY_FROM_ZERO) {
    // Not floor(|x| + 0.5), which rounds the number before 0.5 up.
    Value a = c.op("abs", {x}), whole = c.op("floor", {a});
    Value isUp = c.op("greater_equal", {c.sub(a, whole), c.scalarLike(a, 0.5)});
    rounded = c.mul(c.op("sign", {x}), c.where(isUp, c.add(whole, 1), whole));
  } else {
    return (void)c.fail(strCat("unknown rounding mode ", static_cast<int>(params.roundMode)));
  }
  if (scaled) rounded = up ? c.div(rounded, scale) : c.mul(rounded, scale);
  c.output(0, rounded);
}

void lowerNanToNum(NodeContext& c) {
  auto params = c.paramsOr<ns_NanToNumKernel::Params>({0.0, 3.4028234663852886e38, -3.4028234663852886e38});
  Value x = c.input(0);
  c.output(0, compose::nanToNumber(c, x, params.nan, params.posInf, params.negInf));
}

constexpr std::string_view kFloats = "f32 bf16 f16";
constexpr std::string_view kSigned = "f32 bf16 f16 i32 i16 i8 i64";

// clang-format off
constexpr GuidRow kRows[] = {
    {"abs_fwd", "x", "y", "none", kSigned, lowerOp, "abs", kOneType},
    {"neg_fwd", "x", "y", "none", kSigned, lowerOp, "neg", kOneType},
    {"sign_fwd", "x", "y", "none", kSigned, lowerOp, "sign", kOneType},
    {"ceil_fwd", "x", "y", "none", kFloats, lowerOp, "ceil", kOneType},
    {"floor_fwd", "x", "y", "none", kFloats, lowerOp, "floor", kOneType},
    {"trunc_fwd", "x", "y", "none", kFloats, lowerFunction<compose::truncated>, {}, kOneType | kInF32},
    {"round_fwd", "x", "y", "ns_RoundKernel::Params or ParamsV2?", kFloats, lowerRound, {}, kOneType | kInF32},
    {"exp_fwd", "x", "y", "none", kFloats, lowerOp, "exp", kOneType},
    {"expm1_fwd", "x", "y", "none", kFloats, lowerOp, "expm1", kOneType},
    {"log_fwd", "x", "y", "none", kFloats, lowerOp, "log", kOneType},
    {"log1p_fwd", "x", "y", "none", kFloats, lowerOp, "log1p", kOneType},
    {"log2_fwd", "x", "y", "none", kFloats, lowerLogBase, "2", kOneType | kInF32},
    {"log10_fwd", "x", "y", "none", kFloats, lowerLogBase, "10", kOneType | kInF32},
    {"pow2_fwd", "x", "y", "none", kFloats, lowerPow2, {}, kOneType | kInF32},
    {"sqrt_fwd", "x", "y", "none", kFloats, lowerOp, "sqrt", kOneType},
    {"rsqrt_fwd", "x", "y", "ns_RsqrtKernel::Params?", kFloats, lowerWithHint<ns_RsqrtKernel::Params>, "rsqrt", kOneType},
    {"reciprocal_fwd", "x", "y", "ns_ReciprocalKernel::Params?", kFloats, lowerWithHint<ns_ReciprocalKernel::Params>, "reciprocal", kOneType},
    {"sin_fwd", "x", "y", "none", kFloats, lowerOp, "sin", kOneType},
    {"cos_fwd", "x", "y", "none", kFloats, lowerOp, "cos", kOneType},
    {"tan_fwd", "x", "y", "none", kFloats, lowerFunction<compose::tangent>, {}, kOneType | kInF32},
    {"asin_fwd", "x", "y", "none", kFloats, lowerFunction<compose::arcSine>, {}, kOneType | kInF32},
    {"acos_fwd", "x", "y", "none", kFloats, lowerFunction<compose::arcCosine>, {}, kOneType | kInF32},
    {"atan_fwd", "x", "y", "none", kFloats, lowerOp, "atan", kOneType},
    {"sinh_fwd", "x", "y", "none", kFloats, lowerFunction<compose::hyperbolicSine>, {}, kOneType | kInF32},
    {"cosh_fwd", "x", "y", "none", kFloats, lowerFunction<compose::hyperbolicCosine>, {}, kOneType | kInF32},
    {"asinh_fwd", "x", "y", "none", kFloats, lowerFunction<compose::inverseHyperbolicSine>, {}, kOneType | kInF32},
    {"acosh_fwd", "x", "y", "none", kFloats, lowerFunction<compose::inverseHyperbolicCosine>, {}, kOneType | kInF32},
    {"atanh_fwd", "x", "y", "none", kFloats, lowerFunction<compose::inverseHyperbolicTangent>, {}, kOneType | kInF32},
    {"erf_fwd", "x", "y", "none", kFloats, lowerOp, "erf", kOneType},
    {"erfc_fwd", "x", "y", "none", kFloats, lowerErfc, {}, kOneType | kInF32},
    {"erfinv_fwd", "x", "y", "ns_erfinv::Params?", kFloats, lowerErfinv, {}, kOneType | kInF32},
    {"gammaln_fwd", "x", "y", "none", kFloats, lowerOp, "lgamma", kOneType},
    {"isnan_fwd", "x", "y", "none", kFloats, lowerOp, "is_nan"},
    {"isfinite_fwd", "x", "y", "none", kFloats, lowerIsFinite},
    {"isinf_fwd", "x", "y", "ns_IsInfKernel::Params?", kFloats, lowerIsInf},
    {"nan_to_num_fwd", "x", "y", "ns_NanToNumKernel::Params?", kFloats, lowerNanToNum, {}, kOneType},
};
// clang-format on

}  // namespace

std::span<const GuidRow> unaryGuids() {
  return kRows;
}

}  // namespace hpu::synapse
