// SPDX-License-Identifier: Apache-2.0
#include "compiler/interp/ConstantData.h"

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"

namespace hpu::interp {

using namespace mlir;

StatusOr<TensorType> concreteType(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || !ranked.hasStaticShape()) return invalidArgument("a tensor type with free dimensions has no data");
  TensorType result{ir::elementType(ranked.getElementType()),
                    Shape(ranked.getShape().begin(), ranked.getShape().end())};
  if (result.element == ElementType::kInvalid) return invalidArgument("a tensor with an unknown element type");
  return result;
}

RankedTensorType mlirType(MLIRContext* context, const TensorType& type) {
  return RankedTensorType::get(type.shape, ir::mlirElementType(context, type.element));
}

StatusOr<Tensor> tensorOf(ElementsAttr value) {
  StatusOr<TensorType> type = concreteType(value.getType());
  if (!type.ok()) return type.status();
  if (Status size = checkSize(*type); !size.ok()) return size;
  int64_t unit = elementSize(type->element), count = numElements(type->shape);
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob* blob = resource.getRawHandle().getBlob();
    std::string name = resource.getRawHandle().getKey().str();
    if (!blob) return invalidArgument("the resource '" + name + "' has no data");
    ArrayRef<char> data = blob->getData();
    if (static_cast<int64_t>(data.size()) != count * unit)
      return invalidArgument(base::strCat("the resource '", name, "' has ", data.size(), " bytes; ", type->toString(),
                                          " needs ", count * unit));
    if (reinterpret_cast<uintptr_t>(data.data()) % unit) return Tensor::copyOf(*type, data.data());
    return Tensor::borrow(*type, data.data());
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense) return invalidArgument("a constant must be a dense attribute or a dense resource");
  Tensor tensor = Tensor::zeros(*type);
  uint8_t* out = tensor.writable();
  if (type->element == ElementType::kBool) {  // MLIR packs these into bits.
    for (bool bit : dense.getValues<bool>()) *out++ = bit;
    return tensor;
  }
  ArrayRef<char> raw = dense.getRawData();
  for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * unit, raw.data() + (dense.isSplat() ? 0 : i * unit), unit);
  return tensor;
}

ElementsAttr attributeOf(MLIRContext* context, const Tensor& tensor, StringRef name) {
  RankedTensorType type = mlirType(context, tensor.type());
  ArrayRef<char> data(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
  if (tensor.count() <= kInlineElements) {
    if (tensor.element() == ElementType::kBool) {
      SmallVector<bool> bits;
      for (int64_t i = 0; i < tensor.count(); ++i) bits.push_back(tensor.data()[i] != 0);
      return DenseElementsAttr::get(type, bits);
    }
    return DenseElementsAttr::getFromRawBuffer(type, data);
  }
  // The deleter's copy of the tensor is what keeps the memory alive.
  AsmResourceBlob blob(
      data, elementSize(tensor.element()), [tensor](void*, size_t, size_t) {}, /*dataIsMutable=*/false);
  return DenseResourceElementsAttr::get(type, name, std::move(blob));
}

}  // namespace hpu::interp
