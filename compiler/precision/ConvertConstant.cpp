// SPDX-License-Identifier: Apache-2.0
#include "compiler/precision/ConvertConstant.h"

#include <cmath>

#include "compiler/interp/ConstantData.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "numerics/Convert.h"

using namespace mlir;

namespace hpu::precision {
namespace {

constexpr uint16_t kBf16Infinity = 0x7F80, kBf16Largest = 0x7F7F, kSign = 0x8000;

void narrow(const float* from, uint16_t* to, int64_t count) {
  numerics::f32ToBf16(from, to, count);
  for (int64_t i = 0; i < count; ++i)
    if ((to[i] & ~kSign) == kBf16Infinity && std::isfinite(from[i]))
      to[i] = (to[i] & kSign) | kBf16Largest;
}

}  // namespace

ElementsAttr narrowToBf16(ElementsAttr value) {
  auto type =
      cast<RankedTensorType>(value.getShapedType()).clone(BFloat16Type::get(value.getContext()));
  if (auto dense = dyn_cast<DenseElementsAttr>(value); dense && dense.isSplat()) {
    float from = dense.getSplatValue<float>();
    uint16_t to = 0;
    narrow(&from, &to, 1);
    return DenseElementsAttr::get(type, APFloat(APFloat::BFloat(), APInt(16, to)));
  }
  // Only f32 constants of the module come here; reading one fails only if its resource has no data.
  StatusOr<interp::Tensor> from = interp::tensorOf(value);
  if (!from.ok()) return {};
  interp::Tensor to = interp::Tensor::zeros({ElementType::kBF16, from->shape()});
  narrow(from->as<float>(), reinterpret_cast<uint16_t*>(to.writable()), from->count());
  StringRef name = "bf16";
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value))
    name = resource.getRawHandle().getKey();
  return interp::attributeOf(value.getContext(), to, (name + "_bf16").str());
}

}  // namespace hpu::precision
