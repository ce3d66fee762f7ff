// SPDX-License-Identifier: Apache-2.0
// TPC softmax and its kin. The one thing to know: softmax_bwd takes the forward result first, then the gradient;
// logsoftmax_bwd_data the other way round.
#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

int64_t softmaxDim(NodeContext& c, int64_t rank) {
  ns_Softmax::ParamsV7 params{};
  params = c.versionedParams<ns_Softmax::ParamsV7, ns_Softmax::ParamsV6, ns_Softmax::ParamsV5, ns_Softmax::ParamsV4,
                             ns_Softmax::ParamsV3, ns_Softmax::Params>(params);
  if (params.triangularMode) c.unsupported(strCat("triangularMode ", params.triangularMode));
  if (params.mode != DEFAULT_SOFTMAX)
    c.unsupported(strCat("softmax mode ", static_cast<int>(params.mode), " (fp8 results)"));
  return c.axis(params.dim, rank);
}

void lowerSoftmax(NodeContext& c) {
  Value x = c.input(0);
  if (c.hasInput(1)) return (void)c.unsupported("a valid count (input 1)");
  int64_t dim = softmaxDim(c, c.rank(x));
  c.output(0, c.op(c.row().argument, {x}, {{"axis", dim}}));
}

void lowerSoftmaxBwd(NodeContext& c) {
  Value y = c.toF32(c.input(0)), dY = c.toF32(c.input(1));
  int64_t dim = softmaxDim(c, c.rank(y));
  if (!c.ok()) return;
  c.output(0, c.mul(c.sub(dY, c.reduceSum(c.mul(dY, y), {dim}, true)), y));
}

void lowerLogSoftmaxBwd(NodeContext& c) {
  Value dY = c.toF32(c.input(0)), y = c.toF32(c.input(1));
  int64_t dim = softmaxDim(c, c.rank(y));
  if (!c.ok()) return;
  c.output(0, c.sub(dY, c.mul(c.op("exp", {y}), c.reduceSum(dY, {dim}, true))));
}

/// softmax(x * scale + mask) over the fastest dim.
void lowerScaledMasked(NodeContext& c) {
  ns_ScaledMaskedSoftmax::ParamsV3 params{};
  params.invScaleAttn = 1;
  params = c.versionedParams<ns_ScaledMaskedSoftmax::ParamsV3, ns_ScaledMaskedSoftmax::ParamsV2,
                             ns_ScaledMaskedSoftmax::Params>(params);
  bool isTriangular = c.row().argument == "triangular";
  if (params.mode != DEFAULT_MODE) return (void)c.unsupported(strCat("mode ", static_cast<int>(params.mode)));
  if (params.groupedBatchSize > 1) return (void)c.unsupported("groupedBatchSize above 1");
  Value x = c.mul(c.toF32(c.input(0)), params.invScaleAttn);
  int64_t rank = c.rank(x);
  if (isTriangular) {
    // Row i attends to columns 0..i.
    if (rank < 2) return (void)c.fail(strCat(c.inputName(0), " must have rows and columns"));
    int64_t rows = c.dim(x, -2), columns = c.dim(x, -1);
    std::vector<int64_t> row(static_cast<size_t>(rows)), column(static_cast<size_t>(columns));
    for (int64_t i = 0; i < rows; ++i) row[static_cast<size_t>(i)] = i;
    for (int64_t i = 0; i < columns; ++i) column[static_cast<size_t>(i)] = i;
    Value seen = c.op("less_equal", {c.indices({1, columns}, column), c.indices({rows, 1}, row)});
    x = c.where(seen, x, c.scalarLike(x, -1e30));
  } else {
    x = c.add(x, c.toF32(c.input(1)));
  }
  c.output(0, c.op("softmax", {x}, {{"axis", rank - 1}}));
}

constexpr std::string_view kFloats = "f32 bf16 f16", kSoftmax = "ns_Softmax::Params, ParamsV3 .. ParamsV7?";
constexpr std::string_view kScaled = "ns_ScaledMaskedSoftmax::Params .. ParamsV3?";

// clang-format off
constexpr GuidRow kRows[] = {
    {"softmax_fwd", "x, [valid count]", "y", kSoftmax, kFloats, lowerSoftmax, "softmax"},
    {"softmax_bwd", "y, dY", "dX", kSoftmax, kFloats, lowerSoftmaxBwd, {}, kInF32},
    {"logsoftmax_fwd", "x, [valid count]", "y", kSoftmax, kFloats, lowerSoftmax, "log_softmax"},
    {"logsoftmax_bwd", "dY, y", "dX", kSoftmax, kFloats, lowerLogSoftmaxBwd, {}, kInF32},
    {"logsoftmax_bwd_data", "dY, y", "dX", kSoftmax, kFloats, lowerLogSoftmaxBwd, {}, kInF32},
    {"scaled_masked_softmax_fwd", "x, mask", "y", kScaled, kFloats, lowerScaledMasked, {}, kInF32},
    {"scaled_masked_triangular_softmax_fwd", "x", "y", kScaled, kFloats, lowerScaledMasked, "triangular", kInF32},
};
// clang-format on

}  // namespace

std::span<const GuidRow> softmaxGuids() {
  return kRows;
}

}  // namespace hpu::synapse
