// SPDX-License-Identifier: Apache-2.0
#include "compiler/normalize/Constants.h"

#include <cmath>

#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/interp/ConstantData.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

constexpr int64_t kSearchedElements = 64;

}  // namespace

ConstantOp constantOf(Value value) {
  return value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
}

std::optional<double> splatOf(Value value) {
  while (Operation* op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, ExpandOp>(op)) break;
    value = op->getOperand(0);
  }
  ConstantOp constant = constantOf(value);
  if (!constant || !tensorOf(value).hasStaticShape()) return std::nullopt;
  int64_t count = tensorOf(value).getNumElements();
  bool stored = constant.getValue().isSplat();
  if (count == 0 || (count > kSearchedElements && !stored)) return std::nullopt;
  StatusOr<interp::Tensor> tensor = interp::tensorOf(constant.getValue());
  if (!tensor.ok()) return std::nullopt;
  double first = tensor->number(0);
  for (int64_t i = 1; i < count && !stored; ++i)
    if (tensor->number(i) != first) return std::nullopt;
  return first;
}

bool isSplat(Value value, double number) {
  std::optional<double> found = splatOf(value);
  return found && std::abs(*found - number) <= 1e-6 * std::abs(number);
}

std::optional<std::vector<float>> floatsOf(Value value) {
  ConstantOp constant = constantOf(value);
  if (!constant || !tensorOf(value).getElementType().isF32()) return std::nullopt;
  StatusOr<interp::Tensor> tensor = interp::tensorOf(constant.getValue());
  if (!tensor.ok()) return std::nullopt;
  return std::vector<float>(tensor->as<float>(), tensor->as<float>() + tensor->count());
}

std::optional<SmallVector<int64_t>> integersOf(Value value) {
  ConstantOp constant = constantOf(value);
  if (!constant || !isa<IntegerType>(tensorOf(value).getElementType()) || !tensorOf(value).hasStaticShape() ||
      tensorOf(value).getNumElements() > kSearchedElements)
    return std::nullopt;
  StatusOr<interp::Tensor> tensor = interp::tensorOf(constant.getValue());
  if (!tensor.ok()) return std::nullopt;
  SmallVector<int64_t> out;
  for (int64_t i = 0; i < tensor->count(); ++i) out.push_back(tensor->integer(i));
  return out;
}

Value makeFloats(OpBuilder& builder, Location loc, ArrayRef<int64_t> shape, ArrayRef<float> values) {
  TensorType type{ElementType::kF32, Shape(shape.begin(), shape.end())};
  return makeConstant(builder, loc, interp::Tensor::copyOf(type, values.data()), "folded");
}

Value makeConstant(OpBuilder& builder, Location loc, const interp::Tensor& tensor, StringRef name) {
  ElementsAttr value = interp::attributeOf(builder.getContext(), tensor, name);
  return ConstantOp::create(builder, loc, interp::mlirType(builder.getContext(), tensor.type()), value);
}

Value makeSplat(OpBuilder& builder, Location loc, RankedTensorType type, double number) {
  auto element = cast<FloatType>(type.getElementType());
  auto value = DenseElementsAttr::get(type, builder.getFloatAttr(element, number).getValue());
  return ConstantOp::create(builder, loc, type, value);
}

std::optional<std::vector<float>> perChannel(Value value, int64_t rank, int64_t channel, int64_t channels) {
  RankedTensorType type = tensorOf(value);
  if (!type.hasStaticShape() || type.getRank() > rank) return std::nullopt;
  if (type.getNumElements() == 1) {
    std::optional<std::vector<float>> one = floatsOf(value);
    if (!one) return std::nullopt;
    return std::vector<float>(channels, one->front());
  }
  for (int64_t d = 0; d < type.getRank(); ++d) {
    bool isChannel = d + rank - type.getRank() == channel;
    if (type.getDimSize(d) != (isChannel ? channels : 1)) return std::nullopt;
  }
  return floatsOf(value);
}

SmallVector<int64_t> channelShape(int64_t rank, int64_t channel, int64_t channels) {
  SmallVector<int64_t> shape(rank, 1);
  shape[channel] = channels;
  return shape;
}

ElementsAttr reshapeConstant(ElementsAttr value, RankedTensorType type) {
  if (auto dense = dyn_cast<DenseElementsAttr>(value)) return dense.reshape(type);
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value))
    return DenseResourceElementsAttr::get(type, resource.getRawHandle());
  return {};
}

Location fusedLoc(OpBuilder& builder, ArrayRef<Operation*> ops) {
  SmallVector<Location> locations;
  for (Operation* op : ops)
    if (op && !isa<UnknownLoc>(op->getLoc())) locations.push_back(op->getLoc());
  return builder.getFusedLoc(locations);
}

}  // namespace hpu::normalize
