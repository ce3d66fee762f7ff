// SPDX-License-Identifier: Apache-2.0
// TPC-named nodes that are matrix products: the framework's linear, matmul, addmm and fp8 products.
// The one thing to know: shapes are the framework's (rows before columns); a rank-1 operand is a row or a column.
#include "bindings/synapse/lowering/Products.h"
#include "habanalabs/perf_lib_layer_params.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {
namespace {

Value transposed(NodeContext& c, Value v) {
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < c.rank(v); ++d) perm.push_back(d);
  if (perm.size() > 1) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return c.transpose(v, perm);
}

bool needsRank(NodeContext& c, size_t input, int64_t rank) {
  if (!c.ok()) return false;
  if (static_cast<int64_t>(c.inputShape(input).size()) == rank) return true;
  c.fail(strCat(c.inputName(input), " must have rank ", rank));
  return false;
}

/// Leading dims joined: [rows, columns].
Value asRows(NodeContext& c, Value v) {
  if (!v.handle) return v;
  Shape rows = c.shape(v);
  const int64_t columns = rows.empty() ? 1 : rows.back();
  if (!rows.empty()) rows.pop_back();
  return c.reshape(v, {numElements(rows), columns});
}

// ---- linear: y = x W^T + b, W [out, in] ----------------------------------------------------------

void lowerLinear(NodeContext& c) {
  Value x = c.input(0), w = c.input(1);
  if (!needsRank(c, 1, 2)) return;
  if (c.rank(x) < 1) return (void)c.fail(strCat(c.inputName(0), " must have a dim"));
  Shape shape = c.shape(x);
  shape.back() = c.dim(w, 0);
  if (!inOneType(c, x, 0, w, 1)) return;
  Value y = c.matmul(asRows(c, x), transposed(c, w));
  if (c.hasInput(2)) y = c.add(y, c.cast(c.input(2), c.element(x)));
  c.output(0, c.reshape(y, shape));
}

void lowerLinearBwd(NodeContext& c) {
  auto params = c.paramsOr<ns_LinearBwdKernel::Params>({c.wantsOutput(2)});
  Value x = c.input(0), dY = c.input(1), w = c.input(2);
  if (!needsRank(c, 2, 2)) return;
  Value rows = asRows(c, dY), other = rows;
  if (!inOneType(c, other, 1, w, 2)) return;
  c.output(0, c.reshape(c.matmul(other, w), c.shape(x)));
  if (c.wantsOutput(1)) {
    Value inner = asRows(c, x);
    other = rows;
    if (inOneType(c, other, 1, inner, 0)) c.output(1, c.matmul(transposed(c, other), inner));
  }
  if (c.wantsOutput(2)) {
    if (!isSet(params.gradBias)) return (void)c.fail(strCat(c.outputName(2), " without gradBias"));
    c.output(2, c.reduceSum(rows, {0}, false));
  }
}

// ---- the framework's matmul ----------------------------------------------------------------------

/// The product of NumPy of inputs `first` and the next one: rank-1 operands get a dim and the result loses it.
Value matmulOf(NodeContext& c, size_t first) {
  Value a = c.input(first), b = c.input(first + 1);
  if (!inOneType(c, a, first, b, first + 1)) return {};
  int64_t aRank = c.rank(a), bRank = c.rank(b);
  if (aRank < 1 || bRank < 1) return c.fail("an operand without dims");
  if (aRank == 1) a = c.reshape(a, {1, c.dim(a, 0)});
  if (bRank == 1) b = c.reshape(b, {c.dim(b, 0), 1});
  Value y = c.matmul(a, b);
  if (!y.handle) return {};
  Shape shape = c.shape(y);
  if (bRank == 1) shape.pop_back();
  if (aRank == 1) shape.erase(shape.end() - (bRank == 1 ? 1 : 2));
  return c.reshape(y, shape.empty() ? Shape{1} : shape);
}

void lowerMatmul(NodeContext& c) {
  c.output(0, matmulOf(c, 0));
}

void lowerMatmulBwd(NodeContext& c) {
  c.paramsOr<ns_MatmulBwdKernel::Params>({false});
  Value dY = c.input(0), a = c.input(1), b = c.input(2);
  if (!c.ok()) return;
  if (c.rank(a) < 2 || c.rank(b) < 2) return (void)c.unsupported("operands of rank 1");
  const Shape aShape = c.shape(a), bShape = c.shape(b);
  Value gradient = dY;
  if (!inOneType(c, gradient, 0, b, 2)) return;
  c.output(0, c.sumTo(c.matmul(gradient, transposed(c, b)), aShape));
  if (c.wantsOutput(1) && inOneType(c, dY, 0, a, 1)) c.output(1, c.sumTo(c.matmul(transposed(c, a), dY), bShape));
}

void lowerAddmm(NodeContext& c) {
  auto params = c.params<ns_AddmmKernel::Params>();
  Value y = matmulOf(c, 1);
  if (params.alpha != 1) y = c.mul(y, params.alpha);
  if (params.beta != 0) {
    Value bias = c.cast(c.input(0), c.element(y));
    y = c.add(y, params.beta == 1 ? bias : c.mul(bias, params.beta));
  }
  c.output(0, y);
}

/// Operands of 8 bits as f32 numbers, times their scales; the result in the type of the GUID's suffix.
void lowerFp8Gemm(NodeContext& c) {
  synGEMMParams params{};
  params = c.paramsOr(params);
  Value a = c.toF32(c.input(0)), b = c.toF32(c.input(1));
  if (isSet(params.transpose_a)) a = transposed(c, a);
  if (isSet(params.transpose_b)) b = transposed(c, b);
  Value y = c.matmul(a, b);
  for (size_t i : {2, 3}) {
    if (!c.hasInput(i)) continue;
    Value scale = c.toF32(c.input(i));
    if (c.ok() && numElements(c.shape(scale)) != 1)
      return (void)c.unsupported(strCat(c.inputName(i), " of more than one element"));
    y = c.mul(y, c.reshape(scale, {}));
  }
  if (c.hasInput(4)) y = c.add(y, c.toF32(c.input(4)));
  c.output(0, c.cast(y, c.dataType()));
}

constexpr std::string_view kFloats = "f32 bf16 f16";

// clang-format off
constexpr GuidRow kRows[] = {
    {"linear_fwd", "x, W, [bias]", "y", "none", kFloats, lowerLinear},
    {"linear_temp_bwd", "x, dY, W", "dX, [dW], [dBias]", "ns_LinearBwdKernel::Params?", kFloats, lowerLinearBwd},
    {"matmul_fwd", "a, b", "y", "none", kFloats, lowerMatmul},
    {"dot_fwd", "a, b", "y", "none", kFloats, lowerMatmul},
    {"mv_fwd", "a, b", "y", "none", kFloats, lowerMatmul},
    {"matmul_bwd", "dY, a, b", "dA, [dB]", "ns_MatmulBwdKernel::Params?", kFloats, lowerMatmulBwd},
    {"addmm", "c, a, b", "y", "ns_AddmmKernel::Params", kFloats, lowerAddmm},
    {"fp8_gemm", "a, b, [scale of a], [scale of b], [bias]", "y", "synGEMMParams?", kFloats, lowerFp8Gemm},
    {"moe", "x, expert of each choice, weight of each choice, weights...", "y, [amax]", "ns_MoeKernel::Params ..", kFloats, nullptr,
     "the layout of ns_MoeKernel and the values of its flags are not documented; build it of gather_fwd, gemm and scatter_nd_fwd"},
};
// clang-format on

}  // namespace

std::span<const GuidRow> linearGuids() {
  return kRows;
}

}  // namespace hpu::synapse
