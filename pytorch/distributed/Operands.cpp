// SPDX-License-Identifier: Apache-2.0
#include "pytorch/distributed/Operands.h"

#include <ATen/ATen.h>

namespace hpu_torch {

using hpu::ElementType;

Elements movedAs(c10::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return {ElementType::kF32};
    case at::kHalf:
      return {ElementType::kF16};
    case at::kBFloat16:
      return {ElementType::kBF16};
    case at::kDouble:
      return {ElementType::kF64};
    case at::kInt:
      return {ElementType::kI32};
    case at::kLong:
      return {ElementType::kI64};
    case at::kChar:
      return {ElementType::kI8};
    default:
      return {ElementType::kU8, static_cast<int64_t>(c10::elementSize(type))};
  }
}

Reduction reductionOf(const char* name, c10::ScalarType type, const c10d::ReduceOp& op) {
  using coll = hpu::collectives::ReduceOp;
  Reduction reduction;
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      reduction.op = coll::kSum;
      break;
    case c10d::ReduceOp::AVG:
      reduction.op = coll::kAverage;
      break;
    case c10d::ReduceOp::PRODUCT:
      reduction.op = coll::kProd;
      break;
    case c10d::ReduceOp::MIN:
      reduction.op = coll::kMin;
      break;
    case c10d::ReduceOp::MAX:
      reduction.op = coll::kMax;
      break;
    case c10d::ReduceOp::PREMUL_SUM: {
      const auto* factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
      TORCH_CHECK_VALUE(factor && factor->tensor_factors.empty(), name,
                        ": PREMUL_SUM takes a number as its factor here, not a tensor");
      reduction.scale = factor->double_factor;
      reduction.isScaled = true;
      break;
    }
    default:
      TORCH_CHECK_VALUE(false, name, ": bitwise reductions (BAND, BOR, BXOR) are not there; ",
                        "gather the values with all_gather and combine them");
  }
  if (type == at::kBool) {
    TORCH_CHECK_TYPE(op.op_ != c10d::ReduceOp::AVG && !reduction.isScaled, name,
                     ": bool tensors have no average; convert them, for example to float32");
    // As numbers 0 and 1 in a byte: a sum is "any", a product "all".
    reduction.type = ElementType::kU8;
    if (reduction.op == coll::kSum) reduction.op = coll::kMax;
    if (reduction.op == coll::kProd) reduction.op = coll::kMin;
    return reduction;
  }
  const Elements elements = movedAs(type);
  TORCH_CHECK_TYPE(elements.each == 1 && (type == at::kByte || elements.type != ElementType::kU8), name,
                   ": tensors of type ", type,
                   " are not reduced by collectives; convert them: float32, float16, bfloat16, float64, int8, uint8, "
                   "int32, int64 and bool are");
  reduction.type = elements.type;
  return reduction;
}

void Operands::use(const at::Tensor& tensor) {
  if (tensor.is_hpu()) device_ = tensor.device().index();
}

at::Tensor Operands::take(const at::Tensor& tensor, bool isRead) {
  TORCH_CHECK_TYPE(tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized(), name_,
                   ": the tensor must be a dense one");
  TORCH_CHECK_VALUE(!tensor.is_conj() && !tensor.is_neg(), name_,
                    ": the tensor is a conjugate or negative view; call resolve_conj() or resolve_neg() first");
  const c10::Device device(kHpu, device_);
  if (tensor.is_cpu()) {
    at::NoGradGuard noGrad;
    at::Tensor staged = isRead ? tensor.contiguous().to(device)
                               : at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.dtype()).device(device));
    kept.push_back(staged);
    return staged;
  }
  TORCH_CHECK_VALUE(tensor.device() == device, name_, ": a tensor is on ", tensor.device(), ", and others are on ",
                    device, ": a rank's tensors are on one device");
  TORCH_CHECK_VALUE(tensor.is_contiguous(tensor.suggest_memory_format()), name_, ": the tensor of sizes ",
                    tensor.sizes(), " and strides ", tensor.strides(),
                    " must be contiguous; give tensor.contiguous(), and copy results back");
  kept.push_back(tensor);
  return tensor;
}

at::Tensor Operands::input(const at::Tensor& tensor) {
  return take(tensor, true);
}

at::Tensor Operands::output(const at::Tensor& tensor, bool isRead) {
  at::Tensor result = take(tensor, isRead);
  outputs.push_back(tensor);
  if (tensor.is_cpu()) toHost.emplace_back(tensor, result);
  return result;
}

const at::Tensor& single(const char* name, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, name, ": a rank has one device, and gives one tensor, not ", tensors.size());
  return tensors[0];
}

void checkSameType(const char* name, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), name, ": input and output have different types, ",
                   a.scalar_type(), " and ", b.scalar_type());
}

}  // namespace hpu_torch
