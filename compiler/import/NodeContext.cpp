// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/NodeContext.h"

#include <cmath>
#include <numeric>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/DataSizes.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Elements.h"
#include "compiler/support/CreateOp.h"
#include "compiler/support/DiagnosticCapture.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using ir::SymDim;
using shape::DimExpr;

Attribute AttributeValue::build(Builder& builder) const {
  switch (kind_) {
    case Kind::kBool:
      return builder.getBoolAttr(integer_);
    case Kind::kInt:
      return builder.getI64IntegerAttr(integer_);
    case Kind::kFloat:
      return builder.getF64FloatAttr(number_);
    case Kind::kInts:
      return builder.getDenseI64ArrayAttr(integers_);
    case Kind::kFloats:
      return builder.getDenseF64ArrayAttr(numbers_);
    case Kind::kAttribute:
      return attribute_;
  }
  return {};
}

NodeContext::NodeContext(OpBuilder& builder, const NodeDef& node, int64_t opset, std::vector<ImportedValue*> inputs,
                         std::vector<bool> wanted, bool folding)
    : builder_(builder),
      node_(node),
      opset_(opset),
      inputs_(std::move(inputs)),
      wanted_(std::move(wanted)),
      outputs_(node.outputs.size()),
      location_(ir::nodeLocation(builder.getContext(), node.name, node.op)),
      folding_(folding) {}

void NodeContext::fail(Issue::Kind kind, std::string reason) {
  if (issue_) return;
  issue_ = Issue{kind, node_.name, node_.op, {}, std::move(reason)};
}

// ---- attributes --------------------------------------------------------------------------------

const NodeAttribute* NodeContext::find(StringRef name) const {
  for (const NodeAttribute& attribute : node_.attributes)
    if (name == attribute.name) return &attribute;
  return nullptr;
}

int64_t NodeContext::integer(StringRef name, int64_t otherwise) {
  const NodeAttribute* attribute = find(name);
  if (!attribute) return otherwise;
  if (attribute->kind != NodeAttribute::Kind::kInt) invalid(strCat("attribute '", name.str(), "' must be an integer"));
  checkRange(name, attribute->i);
  return attribute->i;
}

double NodeContext::number(StringRef name, double otherwise) {
  const NodeAttribute* attribute = find(name);
  if (!attribute) return static_cast<float>(otherwise);  // What is said is f32, and so is what is not.
  if (attribute->kind != NodeAttribute::Kind::kFloat) invalid(strCat("attribute '", name.str(), "' must be a number"));
  return attribute->f;
}

std::string NodeContext::text(StringRef name, StringRef otherwise) {
  const NodeAttribute* attribute = find(name);
  if (!attribute) return otherwise.str();
  if (attribute->kind != NodeAttribute::Kind::kString) invalid(strCat("attribute '", name.str(), "' must be a string"));
  return attribute->s;
}

Ints NodeContext::integers(StringRef name, Ints otherwise) {
  const NodeAttribute* attribute = find(name);
  if (!attribute) return otherwise;
  // An empty list may be stored without its kind.
  bool isEmpty = attribute->kind == NodeAttribute::Kind::kNone;
  if (attribute->kind != NodeAttribute::Kind::kInts && !isEmpty)
    invalid(strCat("attribute '", name.str(), "' must be a list of integers"));
  Ints values(attribute->ints.begin(), attribute->ints.end());
  checkRange(name, values);
  return values;
}

void NodeContext::checkRange(StringRef name, ArrayRef<int64_t> values) {
  // There, the largest integer means "to the end".
  if (name == "starts" || name == "ends" || name == "start" || name == "end") return;
  constexpr int64_t kLargest = int64_t{1} << 40;
  for (int64_t value : values)
    if (value > kLargest || value < -kLargest)
      return invalid(strCat("'", name.str(), "' is ", value, ", which is beyond 2^40; export the model again"));
}

std::vector<double> NodeContext::numbers(StringRef name) {
  const NodeAttribute* attribute = find(name);
  if (!attribute) return {};
  // An empty list may be stored without its kind.
  if (attribute->kind != NodeAttribute::Kind::kFloats && attribute->kind != NodeAttribute::Kind::kNone)
    invalid(strCat("attribute '", name.str(), "' must be a list of numbers"));
  return attribute->floats;
}

// ---- operands ----------------------------------------------------------------------------------

std::vector<Value> NodeContext::operands(size_t count) {
  std::vector<Value> operands;
  for (size_t i = 0; i < count; ++i) operands.push_back(has(i) ? input(i) : Value());
  return operands;
}

Value NodeContext::input(size_t index) {
  if (issue_) return {};
  if (!has(index)) {
    invalid(strCat("input ", index, " is missing"));
    return {};
  }
  ImportedValue& in = *inputs_[index];
  if (folding_) {
    // Folding runs on constants only: each is an argument of the scratch block.
    Value& argument = foldedArguments_[&in];
    if (!argument) {
      argument = builder_.getInsertionBlock()->addArgument(interp::mlirType(context(), in.constant->type()), location_);
      folded_[argument] = *in.constant;
    }
    return argument;
  }
  return materialize(in);
}

Value NodeContext::materialize(ImportedValue& in) {
  if (issue_) return {};
  if (in.value) return in.value;
  if (in.constant) {
    OpBuilder::InsertionGuard guard(builder_);
    Location loc = ir::nodeLocation(context(), in.name, "Constant");
    OperationState state(loc, "hpu.constant");
    ElementsAttr value = interp::attributeOf(context(), *in.constant, in.name);
    state.addAttribute("value", value);
    state.addTypes(value.getType());
    in.value = builder_.create(state)->getResult(0);
    return in.value;
  }
  if (in.elements) {
    if (Value data = dataOf(*in.elements)) return data;  // Not kept: this may be the body of a loop.
    std::string names;
    for (const auto& element : in.elements->values)
      if (element)
        for (const std::string& name : element->symbols()) names += (names.empty() ? "'" : ", '") + name + "'";
    needsSize(strCat("'", in.name, "' depends on the free dimension",
                     names.empty() ? std::string("s of an earlier shape") : " " + names));
    return {};
  }
  invalid(strCat("'", in.name, "' has no type"));
  return {};
}

Value NodeContext::dataOf(const ShapeElements& elements) {
  if (llvm::any_of(elements.values, [](const auto& each) { return !each; })) return {};
  const bool isFloat = interp::wideKind(elements.element) == interp::Wide::kFloat;
  SmallVector<Value> pieces;
  std::vector<int64_t> numbers;
  auto flush = [&] {
    if (numbers.empty()) return;
    pieces.push_back(constantTensor(
        interp::Tensor::of<int64_t>(ElementType::kI64, {static_cast<int64_t>(numbers.size())}, numbers), "sizes"));
    numbers.clear();
  };
  for (const std::optional<DimExpr>& each : elements.values) {
    const std::optional<int64_t> number = each->constant();
    if (number && *number != ShapedType::kDynamic) {
      numbers.push_back(*number);
      continue;
    }
    flush();
    pieces.push_back(range(number ? SymDim{*number} : symDim(each), SymDim{1}, 1, ElementType::kI64));
  }
  flush();
  if (pieces.empty()) return {};
  Value data = pieces.size() == 1 ? pieces[0] : op("concat", pieces, {{"axis", 0}});
  if (elements.isScalar) data = reshape(data, ArrayRef<int64_t>{});
  data = cast(data, ir::mlirElementType(context(), elements.element));
  return isFloat && elements.divisor != 1 ? op("div", {data, scalarLike(data, static_cast<double>(elements.divisor))})
                                          : data;
}

const interp::Tensor* NodeContext::constant(size_t index) const {
  return has(index) && inputs_[index]->constant ? &*inputs_[index]->constant : nullptr;
}

std::optional<Ints> NodeContext::constantInts(size_t index) const {
  const interp::Tensor* tensor = constant(index);
  if (!tensor || tensor->count() > (1 << 20)) return std::nullopt;
  Ints values(tensor->count());
  interp::loadElements(tensor->element(), tensor->data(), 0, 1, tensor->count(), values.data());
  return values;
}

std::optional<double> NodeContext::constantNumber(size_t index) const {
  const interp::Tensor* tensor = constant(index);
  if (!tensor || tensor->count() != 1) return std::nullopt;
  return tensor->number(0);
}

std::optional<ShapeElements> NodeContext::elements(size_t index) const {
  std::optional<ShapeElements> all = quotients(index);
  return all && interp::wideKind(all->element) != interp::Wide::kFloat ? std::move(all) : std::nullopt;
}

std::optional<ShapeElements> NodeContext::quotients(size_t index) const {
  if (!has(index)) return std::nullopt;
  if (inputs_[index]->elements) return inputs_[index]->elements;
  const interp::Tensor* tensor = constant(index);
  if (!tensor || tensor->rank() > 1 || tensor->count() > 4096) return std::nullopt;
  ShapeElements elements{tensor->element(), tensor->rank() == 0, {}};
  if (interp::wideKind(tensor->element()) != interp::Wide::kFloat) {
    for (int64_t i = 0; i < tensor->count(); ++i) elements.values.emplace_back(DimExpr(tensor->integer(i)));
    return elements;
  }
  // Products of these few digits with sizes are exact in floats, so that they are rounded as the model says.
  constexpr int64_t kParts = 256, kLargest = 1 << 16;
  elements.divisor = kParts;
  for (int64_t i = 0; i < tensor->count(); ++i) {
    const double parts = tensor->number(i) * static_cast<double>(kParts);
    if (!(std::abs(parts) <= kLargest) || parts != std::floor(parts)) return std::nullopt;
    elements.values.emplace_back(DimExpr(static_cast<int64_t>(parts)));
  }
  int64_t common = kParts;
  for (const auto& value : elements.values) common = std::gcd(common, *value->constant());
  for (auto& value : elements.values) value = DimExpr(*value->constant() / common);
  elements.divisor /= common;
  return elements;
}

RankedTensorType NodeContext::inputType(size_t index) const {
  if (!has(index)) return {};
  const ImportedValue& in = *inputs_[index];
  MLIRContext* context = builder_.getContext();
  if (in.value) return typeOf(in.value);
  if (in.constant) return interp::mlirType(context, in.constant->type());
  if (!in.elements) return {};
  Shape shape;
  if (!in.elements->isScalar) shape.push_back(in.elements->values.size());
  return interp::mlirType(context, {in.elements->element, shape});
}

std::optional<Ints> NodeContext::attributeOrInput(StringRef attribute, size_t input, bool& ok) {
  ok = true;
  if (hasAttribute(attribute)) return integers(attribute);
  if (!has(input)) return std::nullopt;
  std::optional<Ints> values = constantInts(input);
  if (values) {
    checkRange(attribute, *values);
    return values;
  }
  ok = false;
  if (isSymbolic(input))
    needsSize(strCat("'", attribute.str(), "' (input ", input, ") depends on a free dimension"));
  else
    unsupported(strCat("'", attribute.str(), "' (input ", input, ") must be constant"));
  return std::nullopt;
}

std::optional<std::vector<DimExpr>> NodeContext::sizesOf(StringRef attribute, size_t input, bool& ok) {
  std::vector<DimExpr> sizes;
  if (!hasAttribute(attribute) && isSymbolic(input)) {
    const std::optional<ShapeElements> given = elements(input);
    ok = given && llvm::all_of(given->values, [](const auto& each) { return each.has_value(); });
    if (!ok)
      return needsSize(strCat("'", attribute.str(), "' (input ", input,
                              ") has an element that follows from free dimensions in no way that is known")),
             std::nullopt;
    for (const auto& each : given->values) sizes.push_back(*each);
    return sizes;
  }
  const std::optional<Ints> numbers = attributeOrInput(attribute, input, ok);
  if (!numbers) return std::nullopt;
  for (int64_t number : *numbers) sizes.emplace_back(number);
  return sizes;
}

// ---- types -------------------------------------------------------------------------------------

std::vector<std::optional<DimExpr>> NodeContext::dims(RankedTensorType type) {
  std::vector<std::optional<DimExpr>> result;
  for (const SymDim& dim : ir::symShape(type)) result.push_back(ir::exprOf(dim));
  return result;
}

SymDim NodeContext::symDim(const std::optional<DimExpr>& size) {
  return ir::dimOf(builder_.getContext(), size);
}

std::optional<std::pair<std::string, int64_t>> solvedFor(const DimExpr& expr, int64_t number) {
  const std::vector<std::string> names = expr.symbols();
  if (names.size() != 1) return std::nullopt;
  const auto rest = expr.evaluate({{names[0], 0}}), next = expr.evaluate({{names[0], 1}});
  if (!rest || !next || *next == *rest) return std::nullopt;
  const auto product = DimExpr::symbol(names[0]).times(*next - *rest);
  const auto line = product ? product->plus(*rest) : std::nullopt;
  if (!line || !(*line == expr) || (number - *rest) % (*next - *rest) != 0) return std::nullopt;
  const int64_t size = (number - *rest) / (*next - *rest);
  return size < 0 ? std::nullopt : std::optional(std::pair(names[0], size));
}

bool NodeContext::fixSize(Value x, int64_t dim, int64_t size) {
  if (!x || issue_) return false;
  if (dim >= rank(x)) return true;  // The op itself says what its operands must be.
  const SymDim own = ir::symShape(typeOf(x))[static_cast<size_t>(dim)];
  if (!own.isFree()) return true;
  const std::optional<DimExpr> expr = ir::exprOf(own);
  if (const auto solved = expr ? solvedFor(*expr, size) : std::nullopt) fixed_.insert(*solved);
  needsSize(strCat("dimension ", dim, " (", expr ? expr->text() : std::string("?"), ") has to be ", size));
  return false;
}

bool NodeContext::sameSize(Value a, int64_t dimOfA, Value b, int64_t dimOfB) {
  if (!a || !b || issue_) return false;
  if (dimOfA >= rank(a) || dimOfB >= rank(b)) return true;
  const SymDim x = ir::symShape(typeOf(a))[static_cast<size_t>(dimOfA)],
               y = ir::symShape(typeOf(b))[static_cast<size_t>(dimOfB)];
  if (x == y) return true;
  if (!x.isFree()) return fixSize(b, dimOfB, x.size);
  if (!y.isFree()) return fixSize(a, dimOfA, y.size);
  const std::optional<DimExpr> one = ir::exprOf(x), other = ir::exprOf(y);
  // How expressions become equal is not asked.
  if (!one || !other || !one->asSymbol() || !other->asSymbol()) return true;
  if (hasDataSize(*one) || hasDataSize(*other)) return true;  // No input says them.
  joined_.emplace(*other->asSymbol(), *one->asSymbol());
  needsSize(strCat("dimension ", dimOfA, " (", one->text(), ") and dimension ", dimOfB, " (", other->text(),
                   ") have to be equal"));
  return false;
}

std::optional<DimExpr> NodeContext::product(ArrayRef<std::optional<DimExpr>> sizes) {
  std::optional<DimExpr> result = DimExpr(1);
  for (const auto& size : sizes) {
    if (!size) return std::nullopt;
    if (!(result = result->times(*size))) return std::nullopt;
  }
  return result;
}

std::optional<int64_t> NodeContext::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    invalid(strCat("axis ", axis, " is outside of rank ", rank));
    return std::nullopt;
  }
  return axis < 0 ? axis + rank : axis;
}

std::optional<Ints> NodeContext::axes(ArrayRef<int64_t> axes, int64_t rank) {
  Ints result;
  if (rank > ir::kMostDims) {
    unsupported(strCat("a tensor of more than ", ir::kMostDims, " dimensions"));
    return std::nullopt;
  }
  if (static_cast<int64_t>(axes.size()) > rank) {
    invalid(strCat("names ", axes.size(), " axes, and the tensor has ", rank));
    return std::nullopt;
  }
  for (int64_t a : axes) {
    std::optional<int64_t> normal = axis(a, rank);
    if (!normal) return std::nullopt;
    if (llvm::is_contained(result, *normal)) {
      invalid(strCat("axis ", a, " is named twice"));
      return std::nullopt;
    }
    result.push_back(*normal);
  }
  return result;
}

std::optional<int64_t> NodeContext::index(int64_t index, int64_t dim, int64_t size) {
  if (index < -size || index >= size) {
    invalid(strCat("index ", index, " is outside of dimension ", dim, ", which has ", size, " elements"));
    return std::nullopt;
  }
  return index < 0 ? index + size : index;
}

bool NodeContext::checkIndices(size_t input, Value x, int64_t dim) {
  const interp::Tensor* indices = constant(input);
  const int64_t size = typeOf(x).getDimSize(dim);
  if (!indices || ShapedType::isDynamic(size) || interp::wideKind(indices->element()) == interp::Wide::kFloat)
    return true;
  for (int64_t i = 0; i < indices->count(); ++i)
    if (!index(indices->integer(i), dim, size)) return false;
  return true;
}

// ---- emitting ----------------------------------------------------------------------------------

Value NodeContext::op(StringRef mnemonic, ValueRange operands, AttributeList attributes) {
  if (issue_) return {};
  for (Value operand : operands)
    if (!operand) return {};
  SmallVector<NamedAttribute> list;
  for (const auto& [name, value] : attributes)
    if (Attribute attribute = value.build(builder_)) list.push_back(builder_.getNamedAttr(name, attribute));
  ir::DiagnosticCapture capture(context());
  FailureOr<Operation*> made = ir::createOp(builder_, location_, mnemonic, operands, list);
  if (mlir::failed(made)) {
    std::string reason;
    for (const auto& entry : capture.entries())
      if (reason.empty() && entry.severity == DiagnosticSeverity::Error) reason = entry.text;
    StringRef text = reason;
    text.consume_front("'hpu." + mnemonic.str() + "' op ");
    invalid(text.str());
    return {};
  }
  return (*made)->getResult(0);
}

Value NodeContext::constantTensor(const interp::Tensor& tensor, StringRef suffix) {
  if (issue_) return {};
  generatedBytes_ += tensor.type().bytes();
  if (folding_) {
    Value argument = builder_.getInsertionBlock()->addArgument(interp::mlirType(context(), tensor.type()), location_);
    folded_[argument] = tensor;
    return argument;
  }
  std::string name = node_.name + "." + suffix.str();
  OperationState state(location_, "hpu.constant");
  ElementsAttr value = interp::attributeOf(context(), tensor, name);
  state.addAttribute("value", value);
  state.addTypes(value.getType());
  return builder_.create(state)->getResult(0);
}

Value NodeContext::scalar(Type element, double value) {
  if (issue_) return {};
  interp::Tensor tensor = interp::Tensor::zeros({ir::elementType(element), {}});
  interp::storeElements(tensor.element(), tensor.writable(), 0, &value, 1);
  return constantTensor(tensor);
}

Value NodeContext::scalarLike(Value like, double value) {
  return like ? scalar(elementOf(like), value) : Value();
}

namespace {

/// Sizes and, when one is free, the names of the free ones.
std::pair<Ints, ArrayAttr> shapeAttributes(Builder& builder, ArrayRef<SymDim> shape) {
  Ints sizes;
  SmallVector<Attribute> symbols;
  bool named = false;
  for (const SymDim& dim : shape) {
    sizes.push_back(dim.size);
    StringAttr symbol = dim.isFree() && dim.symbol ? dim.symbol : builder.getStringAttr("");
    named |= !symbol.empty();
    symbols.push_back(symbol);
  }
  return {sizes, named ? builder.getArrayAttr(symbols) : ArrayAttr()};
}

}  // namespace

Value NodeContext::reshape(Value x, ArrayRef<SymDim> shape) {
  if (!x) return {};
  if (ir::tensorType(shape, elementOf(x)) == typeOf(x)) return x;
  auto [sizes, symbols] = shapeAttributes(builder_, shape);
  return op("reshape", x, {{"shape", sizes}, {"symbols", Attribute(symbols)}});
}

Value NodeContext::reshape(Value x, ArrayRef<int64_t> shape) {
  SmallVector<SymDim> dims;
  for (int64_t size : shape) dims.push_back({size});
  return reshape(x, dims);
}

Value NodeContext::expand(Value x, ArrayRef<SymDim> shape) {
  if (!x) return {};
  if (ir::tensorType(shape, elementOf(x)) == typeOf(x)) return x;
  auto [sizes, symbols] = shapeAttributes(builder_, shape);
  return op("expand", x, {{"shape", sizes}, {"symbols", Attribute(symbols)}});
}

Value NodeContext::transpose(Value x, ArrayRef<int64_t> perm) {
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(perm)) identity &= p == static_cast<int64_t>(i);
  return identity ? x : op("transpose", x, {{"perm", perm}});
}

Value NodeContext::slice(Value x, ArrayRef<SymDim> starts, ArrayRef<SymDim> sizes, ArrayRef<int64_t> steps) {
  if (!x) return {};
  auto [startNumbers, startSymbols] = shapeAttributes(builder_, starts);
  // A dimension that is taken as a whole needs no name of its own.
  SmallVector<SymDim> named(sizes);
  for (auto [d, dim] : llvm::enumerate(ir::symShape(typeOf(x))))
    if (named[d].isFree() && named[d].symbol == dim.symbol && starts[d].size == 0 && steps[d] == 1)
      named[d].symbol = {};
  auto [numbers, symbols] = shapeAttributes(builder_, named);
  return op("slice", x,
            {{"starts", startNumbers},
             {"sizes", numbers},
             {"steps", steps},
             {"start_symbols", Attribute(startSymbols)},
             {"symbols", Attribute(symbols)}});
}

Value NodeContext::range(const SymDim& start, const SymDim& size, int64_t step, ElementType element) {
  auto [starts, startSymbols] = shapeAttributes(builder_, start);
  auto [sizes, symbols] = shapeAttributes(builder_, size);
  return op("range", {},
            {{"starts", starts},
             {"sizes", sizes},
             {"steps", Ints{step}},
             {"element", ir::mlirElementType(context(), element)},
             {"start_symbols", Attribute(startSymbols)},
             {"symbols", Attribute(symbols)}});
}

Value NodeContext::sliceDim(Value x, int64_t dim, int64_t begin, int64_t end) {
  if (!x) return {};
  Ints starts(rank(x), 0), sizes(typeOf(x).getShape()), steps(rank(x), 1);
  if (begin == 0 && end == sizes[dim]) return x;
  starts[dim] = begin;
  sizes[dim] = end - begin;
  return op("slice", x, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

Value NodeContext::cast(Value x, Type element) {
  if (!x || elementOf(x) == element) return x;
  return op("cast", x, {{"to", element}});
}

Value NodeContext::widened(Value x) {
  if (!x || !isFloat(x) || elementOf(x).getIntOrFloatBitWidth() >= 32) return x;
  return cast(x, builder_.getF32Type());
}

// ---- results -----------------------------------------------------------------------------------

void NodeContext::setOutput(size_t index, Value value) {
  if (wants(index)) outputs_[index].value = value;
}

void NodeContext::setOutput(size_t index, const interp::Tensor& constant) {
  if (!wants(index)) return;
  outputs_[index].constant = constant;
  // What lies in the file costs nothing.
  if (node_.op != "Constant") generatedBytes_ += constant.type().bytes();
}

void NodeContext::setOutput(size_t index, ShapeElements elements) {
  if (!wants(index)) return;
  Shape shape;
  if (!elements.isScalar) shape.push_back(elements.values.size());
  Ints values;
  for (const auto& value : elements.values)
    if (value && value->isConstant()) values.push_back(*value->constant());
  if (values.size() != elements.values.size()) {
    outputs_[index].elements = std::move(elements);
    return;
  }
  interp::Tensor tensor = interp::Tensor::zeros({elements.element, shape});
  if (interp::wideKind(elements.element) == interp::Wide::kFloat) {
    std::vector<double> quotients;
    for (int64_t value : values)
      quotients.push_back(static_cast<double>(value) / static_cast<double>(elements.divisor));
    interp::storeElements(elements.element, tensor.writable(), 0, quotients.data(), quotients.size());
  } else {
    interp::storeElements(elements.element, tensor.writable(), 0, values.data(), values.size());
  }
  outputs_[index].constant = tensor;
}

void NodeContext::forward(size_t input, size_t output) {
  if (!wants(output)) return;
  if (!has(input)) return invalid(strCat("input ", input, " is missing"));
  outputs_[output] = *inputs_[input];
}

}  // namespace hpu::importer
