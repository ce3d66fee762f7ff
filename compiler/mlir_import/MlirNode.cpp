// SPDX-License-Identifier: Apache-2.0
#include "compiler/mlir_import/MlirNode.h"

#include <algorithm>
#include <cmath>

#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/interp/ConstantData.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;

const ForeignValue* MlirNode::known(Value value) const {
  auto found = values_.find(value);
  return found == values_.end() ? nullptr : &found->second;
}

Value MlirNode::tensorOf(Value value) {
  if (node_.failed()) return {};
  const ForeignValue* found = known(value);
  if (found && found->tensor) return found->tensor;
  if (found && found->undefined) {
    auto type = mlir::cast<RankedTensorType>(value.getType());
    return node_.expand(node_.scalar(type.getElementType(), 0), *found->undefined);
  }
  if (found && found->sizes && found->sizes->size() == 1 && found->sizes->front())
    if (std::optional<int64_t> size = found->sizes->front()->constant())
      return node_.constantTensor(interp::Tensor::of<int64_t>(ElementType::kI64, {}, {*size}));
  std::string type;
  llvm::raw_string_ostream(type) << value.getType();
  unsupported(strCat("an operand of type ", type, " that is no tensor"));
  return {};
}

std::optional<double> MlirNode::splat(Value value) const {
  const ForeignValue* found = known(value);
  return found ? found->splat : std::nullopt;
}

bool MlirNode::isUndefined(Value value) const {
  const ForeignValue* found = known(value);
  return found && found->undefined;
}

std::optional<Sizes> MlirNode::sizes(Value value) {
  const ForeignValue* found = known(value);
  if (found && found->sizes) return found->sizes;
  unsupported("a size that is not known before the model runs");
  return std::nullopt;
}

std::optional<Ints> MlirNode::numbers(Value value) {
  std::optional<Sizes> found = sizes(value);
  if (!found) return std::nullopt;
  Ints numbers;
  for (const Size& size : *found) {
    std::optional<int64_t> number = size ? size->constant() : std::nullopt;
    if (!number) {
      node_.needsSize("a number that follows from a free size");
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<interp::Tensor> MlirNode::constant(Value value) {
  const ForeignValue* found = known(value);
  ElementsAttr elements;
  if (found && found->tensor && found->tensor.getDefiningOp() &&
      found->tensor.getDefiningOp()->getName().getStringRef() == "hpu.constant")
    elements = dyn_cast_or_null<ElementsAttr>(found->tensor.getDefiningOp()->getAttr("value"));
  if (!elements) {
    unsupported("an operand that has to be a constant");
    return std::nullopt;
  }
  StatusOr<interp::Tensor> tensor = interp::tensorOf(elements);
  if (!tensor.ok()) {
    invalid(std::string(tensor.status().message()));
    return std::nullopt;
  }
  return *tensor;
}

double MlirNode::number(size_t operand, double otherwise) {
  if (operand >= numOperands()) return otherwise;
  if (std::optional<double> value = splat(source_.getOperand(operand))) return *value;
  std::optional<interp::Tensor> tensor = constant(source_.getOperand(operand));
  if (!tensor || tensor->count() != 1) return otherwise;
  return tensor->number(0);
}

mlir::Attribute MlirNode::attribute(StringRef name) const {
  if (std::optional<mlir::Attribute> inherent = source_.getInherentAttr(name)) return *inherent;
  return source_.getDiscardableAttr(name);
}

Ints MlirNode::ints(StringRef name, Ints otherwise) const {
  mlir::Attribute found = attribute(name);
  if (auto array = dyn_cast_or_null<DenseI64ArrayAttr>(found)) return Ints(array.asArrayRef());
  if (auto array = dyn_cast_or_null<DenseI32ArrayAttr>(found))
    return Ints(array.asArrayRef().begin(), array.asArrayRef().end());
  Ints values;
  if (auto elements = dyn_cast_or_null<DenseIntElementsAttr>(found)) {
    for (const APInt& value : elements.getValues<APInt>()) values.push_back(value.getSExtValue());
    return values;
  }
  if (auto array = dyn_cast_or_null<ArrayAttr>(found)) {
    for (mlir::Attribute value : array)
      if (auto number = dyn_cast<IntegerAttr>(value)) values.push_back(number.getValue().getSExtValue());
    return values;
  }
  return otherwise;
}

int64_t MlirNode::integer(StringRef name, int64_t otherwise) const {
  auto found = dyn_cast_or_null<IntegerAttr>(attribute(name));
  return found ? found.getValue().getSExtValue() : otherwise;
}

bool MlirNode::flag(StringRef name) const {
  auto found = dyn_cast_or_null<BoolAttr>(attribute(name));
  return found && found.getValue();
}

std::string MlirNode::keyword(StringRef name) const {
  mlir::Attribute found = attribute(name);
  if (!found) return {};
  std::string text;
  llvm::raw_string_ostream(text) << found;
  // "#tosa.resize_mode<BILINEAR>" and, as some enums print themselves, "#tosa<resize_mode BILINEAR>".
  StringRef word = text;
  word = word.drop_front(std::min(word.size(), word.find('<') + 1)).take_until([](char c) { return c == '>'; });
  return word.rsplit(' ').second.empty() ? word.str() : word.rsplit(' ').second.str();
}

RankedTensorType MlirNode::resultType(size_t result) const {
  return dyn_cast<RankedTensorType>(source_.getResult(result).getType());
}

Type MlirNode::resultElement(size_t result) const {
  return getElementTypeOrSelf(source_.getResult(result).getType());
}

Type MlirNode::unsignedOf(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() == 1) return element;
  return IntegerType::get(node_.context(), integer.getWidth(), IntegerType::Unsigned);
}

Value MlirNode::bitcast(Value v, Type element) {
  if (!v || elementOf(v) == element) return v;
  return op("bitcast", v, {{"to", element}});
}

std::vector<Value> MlirNode::compose(
    const std::vector<Value>& inputs, size_t outputs,
    const std::function<std::vector<hpu::Value>(compose::Emitter&, const std::vector<hpu::Value>&)>& formula) {
  std::vector<Value> made(outputs);
  for (Value input : inputs)
    if (!input) return made;
  if (failed()) return made;
  composed(node_, inputs, formula);
  if (failed()) return made;
  for (size_t i = 0; i < outputs; ++i) made[i] = node_.outputs()[i].value;
  return made;
}

Value MlirNode::compose(const std::vector<Value>& inputs,
                        const std::function<hpu::Value(compose::Emitter&, const std::vector<hpu::Value>&)>& formula) {
  return compose(inputs, 1, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    return std::vector<hpu::Value>{formula(e, in)};
  })[0];
}

namespace {

constexpr double kExact = 16777216;  // Sums below 2^24 are exact in f32.
constexpr int64_t kMostPieces = 64;

}  // namespace

Value MlirNode::exactMatmul(Value a, Value b, double most) {
  if (!a || !b) return {};
  const int64_t dimA = rank(a) - 1, dimB = rank(b) - 2, size = typeOf(a).getDimSize(dimA);
  if (ShapedType::isDynamic(size)) {
    node_.needsSize("the summed dimension of a product of integers");
    return {};
  }
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(kExact / most));
  if (most > kExact || (size + step - 1) / step > kMostPieces) {
    unsupported("a product of integers whose sums are too large for f32");
    return {};
  }
  Value sum;
  for (int64_t at = 0; at < size; at += step) {
    const int64_t end = std::min(size, at + step);
    Value part = op("matmul", {node_.sliceDim(a, dimA, at, end), node_.sliceDim(b, dimB, at, end)}, {{"exact", true}});
    part = cast(part, i32());
    sum = sum ? op("add", {sum, part}) : part;
  }
  return sum;
}

Value MlirNode::exactConv2d(Value x, Value w, double most, AttributeList attributes, bool isGrouped) {
  if (!x || !w) return {};
  const auto sizes = typeOf(w).getShape();
  if (!typeOf(w).hasStaticShape()) {
    node_.needsSize("the weights of a convolution of integers");
    return {};
  }
  const int64_t window = sizes[2] * sizes[3];
  const int64_t step = static_cast<int64_t>(kExact / (most * static_cast<double>(std::max<int64_t>(window, 1))));
  if (step < 1 || (isGrouped && sizes[1] > step) || sizes[1] > step * kMostPieces) {
    unsupported("a convolution of integers whose sums are too large for f32");
    return {};
  }
  if (isGrouped || sizes[1] <= step) return cast(op("conv2d", {x, w}, attributes), i32());
  Value sum;
  for (int64_t at = 0; at < sizes[1]; at += step) {
    const int64_t end = std::min(sizes[1], at + step);
    Value part = cast(op("conv2d", {node_.sliceDim(x, 1, at, end), node_.sliceDim(w, 1, at, end)}, attributes), i32());
    sum = sum ? op("add", {sum, part}) : part;
  }
  return sum;
}

}  // namespace hpu::importer
