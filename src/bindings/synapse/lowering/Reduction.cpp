// SPDX-License-Identifier: Apache-2.0
// TPC reductions: over one dim (kept with size 1) or over a mask of dims, and the positions of extremes.
// The one thing to know: bit i of a mask is SynapseAI's dim i, so the fastest varying one is bit 0.
#include <cmath>

#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

struct Reduced {
  std::vector<int64_t> axes;
  bool keepDims = true;
};

std::vector<int64_t> allAxes(int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
  return axes;
}

Reduced maskOf(NodeContext& c, const ns_Reduction::ParamsV2& params, int64_t rank) {
  // No bit: as all bits, which is what frameworks mean by no dims.
  if (params.reductionDimensionMask == 0) return {allAxes(rank), isSet(params.keepDim)};
  return {c.axesOfMask(params.reductionDimensionMask, rank), isSet(params.keepDim)};
}

/// Both structures, told apart by size.
Reduced reducedDims(NodeContext& c, int64_t rank) {
  if (c.paramsAre<ns_Reduction::ParamsV2>()) return maskOf(c, c.params<ns_Reduction::ParamsV2>(), rank);
  return {{c.axis(c.params<ns_Reduction::Params>().reductionDimension, rank)}, true};
}

/// Sizes after the reduction; a scalar is {1}.
Shape reducedShape(const Shape& shape, const Reduced& reduced) {
  Shape result = shape;
  for (int64_t d : reduced.axes) result[static_cast<size_t>(d)] = reduced.keepDims ? 1 : -1;
  std::erase(result, -1);
  return result.empty() ? Shape{1} : result;
}

Value reduceTo(NodeContext& c, std::string_view op, Value x, const Reduced& reduced) {
  return c.reshape(c.reduce(op, x, reduced.axes, true), reducedShape(c.shape(x), reduced));
}

/// Position of the first extreme in the reduced dims, counted row-major, as a value of the reduced shape.
Value position(NodeContext& c, Value x, const Reduced& reduced, bool smallest) {
  // The reduced dims go to the end and become one.
  Shape shape = c.shape(x), outer;
  std::vector<int64_t> perm;
  std::vector<bool> isReduced(shape.size(), false);
  for (int64_t d : reduced.axes) isReduced[static_cast<size_t>(d)] = true;
  int64_t count = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!isReduced[d])
      perm.push_back(static_cast<int64_t>(d)), outer.push_back(shape[d]);
    else
      count *= shape[d];
  for (size_t d = 0; d < shape.size(); ++d)
    if (isReduced[d]) perm.push_back(static_cast<int64_t>(d));
  outer.push_back(count);
  Value flat = c.reshape(c.transpose(x, perm), outer);
  // Of integers -1 - x, which cannot overflow.
  if (smallest) flat = isFloat(c.element(x)) ? c.neg(flat) : c.sub(c.scalarLike(flat, -1), flat);
  Value index = c.op("arg_max", {flat}, {{"axis", static_cast<int64_t>(outer.size()) - 1}, {"keepdims", int64_t{1}}});
  return c.reshape(index, reducedShape(shape, reduced));
}

/// Integers are narrower than a sum of them: i32, as frameworks ask for.
Value widened(NodeContext& c, Value x) {
  ElementType type = c.element(x);
  return !isFloat(type) && elementSize(type) < 4 ? c.cast(x, ElementType::kI32) : x;
}

void lowerReduce(NodeContext& c) {
  Value x = widened(c, c.input(0));
  Reduced reduced = reducedDims(c, c.rank(x));
  if (!c.ok()) return;
  c.output(0, reduceTo(c, c.row().argument, x, reduced));
  if (c.wantsOutput(1)) c.output(1, position(c, x, reduced, c.row().argument == "reduce_min"));
}

void lowerSumSquare(NodeContext& c) {
  Value x = c.toF32(c.input(0));
  Reduced reduced = reducedDims(c, c.rank(x));
  if (c.ok()) c.output(0, reduceTo(c, "reduce_sum", c.mul(x, x), reduced));
}

void lowerL1(NodeContext& c) {
  Value x = c.toF32(c.input(0));
  Reduced reduced = reducedDims(c, c.rank(x));
  if (c.ok()) c.output(0, reduceTo(c, "reduce_sum", c.op("abs", {x}), reduced));
}

void lowerL2(NodeContext& c) {
  Value x = c.toF32(c.input(0));
  Reduced reduced = reducedDims(c, c.rank(x));
  if (c.ok()) c.output(0, c.op("sqrt", {reduceTo(c, "reduce_sum", c.mul(x, x), reduced)}));
}

/// log(sum(exp(x))), from the largest element so that nothing overflows.
void lowerLogSumExp(NodeContext& c) {
  Value x = c.toF32(c.input(0));
  Reduced reduced = reducedDims(c, c.rank(x));
  if (!c.ok()) return;
  Value largest = c.reduceMax(x, reduced.axes, true);
  // An infinite maximum stays: x - x would be NaN.
  Value isFinite = c.op("less", {c.op("abs", {largest}), c.scalarLike(x, HUGE_VAL)});
  Value shift = c.where(isFinite, largest, c.scalarLike(x, 0));
  Value sum = c.reduceSum(c.op("exp", {c.sub(x, shift)}), reduced.axes, true);
  c.output(0, c.reshape(c.add(c.op("log", {sum}), shift), reducedShape(c.shape(x), reduced)));
}

/// The p-norm over `axes`.
Value lpNorm(NodeContext& c, Value x, double p, const std::vector<int64_t>& axes) {
  Value a = c.op("abs", {x});
  if (p == 0) {
    Value isNonZero = c.op("not", {c.op("equal", {x, c.scalarLike(x, 0)})});
    return c.reduceSum(c.cast(isNonZero, c.element(x)), axes, true);
  }
  if (p == 1) return c.reduceSum(a, axes, true);
  if (p == 2) return c.op("sqrt", {c.reduceSum(c.mul(x, x), axes, true)});
  if (std::isinf(p)) return c.reduce(p > 0 ? "reduce_max" : "reduce_min", a, axes, true);
  Value sum = c.reduceSum(c.op("pow", {a, c.scalarLike(a, p)}), axes, true);
  return c.op("pow", {sum, c.scalarLike(sum, 1 / p)});
}

double exponent(fint_t p, TypeOfP_t type) {
  return type == TYPE_P_IS_FLOAT ? static_cast<double>(p.f) : static_cast<double>(p.i);
}

void lowerReduceLp(NodeContext& c) {
  Value x = c.toF32(c.input(0));
  int64_t rank = c.rank(x);
  Reduced reduced;
  double p = 2;
  if (c.paramsAre<ns_ReduceLpV2::ParamsV2>()) {
    auto params = c.params<ns_ReduceLpV2::ParamsV2>();
    reduced = maskOf(c, params, rank);
    p = exponent(params.p, params.typeOfP);
  } else if (c.paramsAre<ns_ReduceLpV2::Params>()) {
    auto params = c.params<ns_ReduceLpV2::Params>();
    reduced.axes = {c.axis(params.reductionDimension, rank)};
    p = exponent(params.p, params.typeOfP);
  } else {
    auto params = c.params<ns_ReduceLp::Params>();
    reduced.axes = {c.axis(params.reductionDimension, rank)};
    p = params.p;
  }
  if (c.ok()) c.output(0, c.reshape(lpNorm(c, x, p, reduced.axes), reducedShape(c.shape(x), reduced)));
}

/// x / norm(x) along one dim, and the norm; a small norm is raised by eps, or to eps.
void lowerLpNorm(NodeContext& c) {
  ns_LpNormKernel::ParamsNorm params{};
  params.p = 2;
  params = c.versionedParams<ns_LpNormKernel::ParamsNorm, ns_LpNormKernel::Params>(params);
  Value x = c.toF32(c.input(0));
  int64_t axis = c.axis(params.dim, c.rank(x));
  if (!c.ok()) return;
  Value norm = lpNorm(c, x, params.p, {axis});
  Value bound = isSet(params.epsMax) ? c.max(norm, c.scalarLike(norm, params.eps)) : c.add(norm, params.eps);
  c.output(0, c.div(x, bound));
  c.output(1, norm);
}

void lowerArg(NodeContext& c) {
  Value x = c.input(0);
  Reduced reduced = reducedDims(c, c.rank(x));
  if (!c.ok()) return;
  c.output(0, c.cast(position(c, x, reduced, c.row().argument == "min"), c.outputType(0, ElementType::kI32)));
}

void lowerNormMoments(NodeContext& c) {
  ns_NormMomentsKernel::ParamsV2 params{};
  params = c.versionedParams<ns_NormMomentsKernel::ParamsV2, ns_NormMomentsKernel::Params>(params, /*optional=*/false);
  if (isSet(params.useEstMean)) return (void)c.unsupported("useEstMean (moments around an estimate)");
  Value x = c.toF32(c.input(0));
  std::vector<int64_t> axes = c.axesOfMask(params.NormAxisBmp, c.rank(x));
  if (!c.ok()) return;
  Value mean = c.reduceMean(x, axes, true), centred = c.sub(x, mean);
  c.outputAs(0, mean, ElementType::kF32);
  c.outputAs(1, c.reduceMean(c.mul(centred, centred), axes, true), ElementType::kF32);
}

constexpr std::string_view kFloats = "f32 bf16 f16";
constexpr std::string_view kNumbers = "f32 bf16 f16 i32 i16 i8 u8 i64";
constexpr std::string_view kOne = "ns_Reduction::Params or ParamsV2", kMask = kOne;
constexpr std::string_view kLp = "ns_ReduceLpV2::Params or ParamsV2, or ns_ReduceLp::Params";

// clang-format off
constexpr GuidRow kRows[] = {
    {"reduce_sum_fwd", "x", "y", kOne, kNumbers, lowerReduce, "reduce_sum"},
    {"reduce_mean_fwd", "x", "y", kOne, kFloats, lowerReduce, "reduce_mean"},
    {"reduce_max_fwd", "x", "y, [indices]", kOne, kNumbers, lowerReduce, "reduce_max"},
    {"reduce_min_fwd", "x", "y, [indices]", kOne, kNumbers, lowerReduce, "reduce_min"},
    {"reduce_prod_fwd", "x", "y", kOne, kNumbers, lowerReduce, "reduce_prod"},
    {"reduce_sum_square_fwd", "x", "y", kOne, kFloats, lowerSumSquare, {}, kInF32},
    {"reduce_l1_fwd", "x", "y", kOne, kFloats, lowerL1, {}, kInF32},
    {"reduce_l2_fwd", "x", "y", kOne, kFloats, lowerL2, {}, kInF32},
    {"reduce_log_sum_exp_fwd", "x", "y", kOne, kFloats, lowerLogSumExp, {}, kInF32},
    {"reduce_sum_multi_dim_fwd", "x", "y", kMask, kNumbers, lowerReduce, "reduce_sum"},
    {"reduce_mean_multi_dim_fwd", "x", "y", kMask, kFloats, lowerReduce, "reduce_mean"},
    {"reduce_max_multi_dim_fwd", "x", "y, [indices]", kMask, kNumbers, lowerReduce, "reduce_max"},
    {"reduce_min_multi_dim_fwd", "x", "y, [indices]", kMask, kNumbers, lowerReduce, "reduce_min"},
    {"reduce_prod_multi_dim_fwd", "x", "y", kMask, kNumbers, lowerReduce, "reduce_prod"},
    {"reduce_sum_square_multi_dim_fwd", "x", "y", kMask, kFloats, lowerSumSquare, {}, kInF32},
    {"reduce_log_sum_exp_multi_dim_fwd", "x", "y", kMask, kFloats, lowerLogSumExp, {}, kInF32},
    {"reduce_lp_fwd", "x", "y", kLp, kFloats, lowerReduceLp, {}, kInF32},
    {"reduce_lp_multi_dim_fwd", "x", "y", kLp, kFloats, lowerReduceLp, {}, kInF32},
    {"lpnorm_fwd", "x", "y, [norm]", "ns_LpNormKernel::Params or ParamsNorm?", kFloats, lowerLpNorm, {}, kInF32},
    {"norm_moments_fwd", "x", "mean, [variance]", "ns_NormMomentsKernel::Params or ParamsV2", kFloats, lowerNormMoments, {}, kInF32},
    {"argmax_fwd", "x", "y", kOne, kNumbers, lowerArg, "max"},
    {"argmin_fwd", "x", "y", kOne, kNumbers, lowerArg, "min"},
    {"argmax_multi_dim_fwd", "x", "y", kMask, kNumbers, lowerArg, "max"},
    {"argmin_multi_dim_fwd", "x", "y", kMask, kNumbers, lowerArg, "min"},
};
// clang-format on

}  // namespace

std::span<const GuidRow> reductionGuids() {
  return kRows;
}

}  // namespace hpu::synapse
