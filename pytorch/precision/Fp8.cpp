// SPDX-License-Identifier: Apache-2.0
// The ops torch.ops.hpu.* of 8-bit floats: schemas, as Gaudi's bridge has them, and sizes on Meta. What computes them
// is in record/ops/Fp8.cpp.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/library.h>

namespace hpu_torch {
namespace {

using at::Tensor;
using Sizes = c10::OptionalArrayRef<int64_t>;

std::tuple<Tensor, Tensor> codesLike(const Tensor& input, bool isAmax, c10::optional<at::ScalarType> type) {
  const at::ScalarType storage = type.value_or(at::kChar);
  TORCH_CHECK_VALUE(storage == at::kChar || storage == at::kByte,
                    "the dtype of fp8 codes is torch.int8 (E5M2) or torch.uint8 (E4M3), not ", c10::toString(storage));
  return {at::empty(input.sizes(), input.options().dtype(storage)),
          at::empty(isAmax ? std::vector<int64_t>{} : std::vector<int64_t>{0}, input.options().dtype(at::kFloat))};
}
std::tuple<Tensor, Tensor> castTo(const Tensor& input, const c10::optional<Tensor>&, bool, bool isAmax,
                                  c10::optional<at::ScalarType> type, Sizes) {
  return codesLike(input, isAmax, type);
}
std::tuple<Tensor, Tensor> castToScalar(const Tensor& input, const at::Scalar&, bool, bool isAmax,
                                        c10::optional<at::ScalarType> type, Sizes) {
  return codesLike(input, isAmax, type);
}

Tensor castFrom(const Tensor& input, const c10::optional<Tensor>&, at::ScalarType type, Sizes) {
  return at::empty(input.sizes(), input.options().dtype(type));
}
Tensor castFromScalar(const Tensor& input, const at::Scalar&, at::ScalarType type, Sizes) {
  return at::empty(input.sizes(), input.options().dtype(type));
}

Tensor product(const Tensor& a, bool isATransposed, const Tensor& b, bool isBTransposed, at::ScalarType type) {
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, "fp8_gemm_v2: operands have two dims or more, not ", a.dim(), " and ",
              b.dim());
  const int64_t rows = a.size(isATransposed ? -1 : -2), inner = a.size(isATransposed ? -2 : -1);
  const int64_t columns = b.size(isBTransposed ? -2 : -1), other = b.size(isBTransposed ? -1 : -2);
  TORCH_CHECK(inner == other, "fp8_gemm_v2: inner sizes differ: A is ", a.sizes(), isATransposed ? " transposed" : "",
              ", B is ", b.sizes(), isBTransposed ? " transposed" : "");
  std::vector<int64_t> sizes = at::infer_size(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  sizes.push_back(rows);
  sizes.push_back(columns);
  return at::empty(sizes, a.options().dtype(type));
}
Tensor gemm(const Tensor& a, bool isATransposed, const Tensor& b, bool isBTransposed, const c10::optional<Tensor>&,
            at::ScalarType type, const c10::optional<Tensor>&, const c10::optional<Tensor>&,
            const c10::optional<Tensor>&, bool, Sizes) {
  return product(a, isATransposed, b, isBTransposed, type);
}
Tensor gemmScalar(const Tensor& a, bool isATransposed, const Tensor& b, bool isBTransposed,
                  const c10::optional<Tensor>&, at::ScalarType type, const at::Scalar&, const at::Scalar&,
                  const c10::optional<Tensor>&, bool, Sizes) {
  return product(a, isATransposed, b, isBTransposed, type);
}

std::tuple<Tensor, Tensor> scaleLike(const Tensor& amax, const Tensor&, const at::Scalar&, int64_t) {
  return {at::empty_like(amax), at::empty_like(amax)};
}

TORCH_LIBRARY_FRAGMENT(hpu, m) {
  m.def(
      "cast_to_fp8_v2(Tensor input, Tensor? scale=None, bool stochastic_rounding=False, bool is_amax=False, "
      "ScalarType? dtype=None, int[]? scale_shape=None) -> (Tensor, Tensor)");
  m.def(
      "cast_to_fp8_v2.scalar(Tensor input, Scalar scale, bool stochastic_rounding=False, bool is_amax=False, "
      "ScalarType? dtype=None, int[]? scale_shape=None) -> (Tensor, Tensor)");
  m.def("cast_from_fp8(Tensor input, Tensor? scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor");
  m.def("cast_from_fp8.scalar(Tensor input, Scalar scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor");
  m.def(
      "fp8_gemm_v2(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, ScalarType out_dtype, "
      "Tensor? A_scale_inv=None, Tensor? B_scale_inv=None, Tensor? bias=None, bool accumulate=False, "
      "int[]? B_scale_shape=None) -> Tensor");
  m.def(
      "fp8_gemm_v2.scalar(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, ScalarType out_dtype, "
      "Scalar A_scale_inv, Scalar B_scale_inv, Tensor? bias=None, bool accumulate=False, "
      "int[]? B_scale_shape=None) -> Tensor");
  m.def("fp8_scale(Tensor amax, Tensor scale, Scalar largest, int margin=0) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(hpu, Meta, m) {
  m.impl("cast_to_fp8_v2", TORCH_FN(castTo));
  m.impl("cast_to_fp8_v2.scalar", TORCH_FN(castToScalar));
  m.impl("cast_from_fp8", TORCH_FN(castFrom));
  m.impl("cast_from_fp8.scalar", TORCH_FN(castFromScalar));
  m.impl("fp8_gemm_v2", TORCH_FN(gemm));
  m.impl("fp8_gemm_v2.scalar", TORCH_FN(gemmScalar));
  m.impl("fp8_scale", TORCH_FN(scaleLike));
}

}  // namespace
}  // namespace hpu_torch
