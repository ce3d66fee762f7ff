// SPDX-License-Identifier: Apache-2.0
#include "compiler/precision/ConvertConstant.h"

#include <cmath>

#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/interp/ConstantData.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "numerics/Convert.h"

using namespace mlir;

namespace hpu::precision {
namespace {

/// Infinity's code without its sign, and the largest finite number's, which is one less.
uint16_t infinityOf(ElementType type) {
  return type == ElementType::kBF16 ? 0x7F80 : 0x7C00;
}

void narrow16(ElementType type, const float* from, uint16_t* to, int64_t count) {
  if (type == ElementType::kBF16)
    numerics::f32ToBf16(from, to, static_cast<size_t>(count));
  else
    numerics::f32ToF16(from, to, static_cast<size_t>(count));
  constexpr uint16_t kSign = 0x8000;
  const uint16_t infinity = infinityOf(type);
  for (int64_t i = 0; i < count; ++i)
    if ((to[i] & ~kSign) == infinity && std::isfinite(from[i])) to[i] = static_cast<uint16_t>(to[i] - 1);
}

void narrowTo(ElementType type, const float* from, void* to, int64_t count, double scale) {
  std::vector<float> scaled;
  if (scale != 1) {
    const auto factor = static_cast<float>(1 / scale);
    scaled.assign(from, from + count);
    for (float& x : scaled) x *= factor;
    from = scaled.data();
  }
  if (!numerics::isFp8(type)) return narrow16(type, from, static_cast<uint16_t*>(to), count);
  numerics::f32ToFp8(numerics::fp8Format(type), from, static_cast<uint8_t*>(to), static_cast<size_t>(count),
                     numerics::Overflow::kSaturate);
}

}  // namespace

ElementsAttr narrowConstant(ElementsAttr value, Type element, double scale) {
  auto type = cast<RankedTensorType>(value.getShapedType()).clone(element);
  const ElementType to = ir::elementType(element);
  if (auto dense = dyn_cast<DenseElementsAttr>(value); dense && dense.isSplat()) {
    float from = dense.getSplatValue<float>();
    uint16_t code = 0;
    narrowTo(to, &from, &code, 1, scale);
    auto floatType = cast<FloatType>(element);
    return DenseElementsAttr::get(type, APFloat(floatType.getFloatSemantics(), APInt(floatType.getWidth(), code)));
  }
  // Only f32 constants of the module come here; reading one fails only if its resource has no data.
  StatusOr<interp::Tensor> from = interp::tensorOf(value);
  if (!from.ok()) return {};
  interp::Tensor narrowed = interp::Tensor::zeros({to, from->shape()});
  narrowTo(to, from->as<float>(), narrowed.writable(), from->count(), scale);
  std::string name(elementTypeName(to));
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value))
    name = resource.getRawHandle().getKey().str() + "_" + name;
  return interp::attributeOf(value.getContext(), narrowed, name);
}

std::optional<double> largestMagnitude(ElementsAttr value) {
  StatusOr<interp::Tensor> tensor = interp::tensorOf(value);
  if (!tensor.ok()) return std::nullopt;
  const float* x = tensor->as<float>();
  float largest = 0;
  for (int64_t i = 0; i < tensor->count(); ++i)
    if (std::isfinite(x[i])) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

}  // namespace hpu::precision
