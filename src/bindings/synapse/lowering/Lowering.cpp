// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/Lowering.h"

#include <algorithm>

namespace hpu::synapse {

namespace {

/// Whether 8-bit codes stand for other numbers than themselves.
bool isQuantised(const TensorDescription& tensor, ElementType type) {
  if (elementSize(type) != 1) return false;
  uint32_t ownBias = type == ElementType::kF8E5M2 ? 15 : 7;
  auto scales = [](double scale) { return scale != 1; };
  return std::any_of(tensor.scales.begin(), tensor.scales.end(), scales) ||
         std::any_of(tensor.zeroPoints.begin(), tensor.zeroPoints.end(), [](double zp) { return zp != 0; }) ||
         (isFloat(type) && std::any_of(tensor.expBiases.begin(), tensor.expBiases.end(),
                                       [&](uint32_t bias) { return bias != ownBias; }));
}

bool isBooleanStorage(ElementType type) {
  return type == ElementType::kI8 || type == ElementType::kU8;
}

}  // namespace

NodeContext::NodeContext(Graph& graph, Target target, const NodeDescription& node, const GuidMatch& guid,
                         std::vector<OperandSlot> inputs, std::vector<OperandSlot> outputs)
    : Emitter(graph, node.name, &inUsersOrder),
      target_(target),
      node_(node),
      guid_(guid),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      results_(outputs_.size()) {}

std::string NodeContext::title(const NodeDescription& node) {
  return strCat("node '", node.name.empty() ? strCat("#", node.id) : node.name, "' (", node.guid, ")");
}

std::string NodeContext::operandName(std::string_view kind, size_t i) const {
  std::vector<OperandName> names = parseOperands(kind == "input" ? row().operands : row().results);
  std::string text = strCat(kind, " ", i);
  if (names.empty()) return text;
  const OperandName& name = names[std::min(i, names.size() - 1)];
  return name.repeated || i >= names.size() ? text : strCat(text, " (", name.name, ")");
}

// ---- operands ------------------------------------------------------------------------------------

bool NodeContext::sizesChange() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const OperandSlot& slot) { return slot.changes; });
}

int64_t NodeContext::largestDim(size_t i, int64_t d) const {
  return i < inputs_.size() && static_cast<size_t>(d) < inputs_[i].largest.size()
             ? inputs_[i].largest[static_cast<size_t>(d)]
             : 0;
}

bool NodeContext::isShapeTensor(size_t i) const {
  return hasInput(i) && isShapeType(inputs_[i].tensor->type);
}
bool NodeContext::isHostTensor(size_t i) const {
  return hasInput(i) && inputs_[i].tensor->type == kHostToDevice;
}

Value NodeContext::input(size_t i) {
  if (!hasInput(i)) return fail(strCat(inputName(i), " is missing"));
  if (!inputs_[i].value.handle) return fail(strCat(inputName(i), " must be a data tensor"));
  Value v = inputs_[i].value;
  if (element(v) == ElementType::kBool)
    return cast(v, inputs_[i].type == ElementType::kU8 ? ElementType::kU8 : ElementType::kI8);
  bool isNarrow = isFloat(element(v)) && elementSize(element(v)) == 2;
  return (row().flags & kInF32) && isNarrow ? toF32(v) : v;
}

Value NodeContext::condition(size_t i) {
  if (hasInput(i) && inputs_[i].value.handle && element(inputs_[i].value) == ElementType::kBool)
    return inputs_[i].value;
  return toBool(input(i));
}

Shape NodeContext::inputShape(size_t i) {
  if (!hasInput(i)) return fail(strCat(inputName(i), " is missing")), Shape();
  return inputs_[i].shape.value_or(Shape());
}

std::vector<int64_t> NodeContext::layoutPerm(const std::vector<std::string>& layouts, size_t i, std::string_view layout,
                                             std::string_view kind) {
  auto rank = static_cast<int64_t>(layout.size());
  std::vector<int64_t> perm(layout.size());
  for (int64_t d = 0; d < rank; ++d) perm[static_cast<size_t>(d)] = d;
  if (i >= layouts.size() || layouts[i].empty() || layouts[i] == layout) return perm;
  const std::string& given = layouts[i];
  for (int64_t d = 0; d < rank; ++d) {
    size_t at = given.find(layout[layout.size() - 1 - static_cast<size_t>(d)]);
    if (given.size() != layout.size() || at == std::string::npos) {
      unsupported(strCat("layout '", given, "' of ", operandName(kind, i), " is no order of ", layout));
      return perm;
    }
    perm[static_cast<size_t>(d)] = rank - 1 - static_cast<int64_t>(at);
  }
  return perm;
}

Value NodeContext::inputIn(size_t i, std::string_view layout) {
  Value v = input(i);
  if (!v.handle) return v;
  if (rank(v) != static_cast<int64_t>(layout.size()))
    return fail(strCat(inputName(i), " has rank ", rank(v), ", must have ", layout.size(), " (", layout, ")"));
  return transpose(v, layoutPerm(node_.inputLayouts, i, layout, "input"));
}

// ---- results -------------------------------------------------------------------------------------

std::optional<Shape> NodeContext::declaredShape(size_t i) const {
  return wantsOutput(i) ? outputs_[i].shape : std::nullopt;
}

Shape NodeContext::requiredShape(size_t i, size_t shapeInput) {
  if (isShapeTensor(shapeInput)) return inputShape(shapeInput);
  if (std::optional<Shape> declared = declaredShape(i)) return *declared;
  fail(strCat(outputName(i), " needs its sizes: they do not follow from the operands"));
  return {};
}

ElementType NodeContext::outputType(size_t i, ElementType otherwise) const {
  return wantsOutput(i) && outputs_[i].type != ElementType::kInvalid ? outputs_[i].type : otherwise;
}

ElementType NodeContext::productType(ElementType type) const {
  if (node_.precision != 0) {
    StatusOr<ElementType> asked = elementTypeOf(node_.precision, target_);
    if (asked.ok() && isFloat(*asked) && elementSize(*asked) == 2 && type == ElementType::kF32) return *asked;
  }
  const ElementType result = outputType(0, type);
  // bf16 and f16: neither has the numbers of the other.
  const bool isOther = isFloat(result) && result != type && elementSize(result) == 2 && elementSize(type) == 2;
  return isFloat(type) && (result == ElementType::kF32 || isOther) ? ElementType::kF32 : type;
}

Value NodeContext::factor(size_t i, Value v) {
  if (!v.handle || !ok()) return {};
  const ElementType type = element(v);
  if (isFloat(type)) return cast(v, productType(type));
  if (type == ElementType::kBool) return unsupported(strCat(inputName(i), " is bool, which is not multiplied"));
  const ElementType result = outputType(0, ElementType::kI32);
  if (isFloat(result) || elementSize(result) < elementSize(ElementType::kI32))
    return unsupported(strCat(inputName(i), " is ", elementTypeName(type), ", and ", outputName(0), " ",
                              elementTypeName(result), "; products of integers are of 32 bits or more"));
  // Exact: TPCs multiply them.
  return cast(v, elementSize(result) > 4 || elementSize(type) > 4 ? ElementType::kI64 : ElementType::kI32);
}

bool NodeContext::fitsDeclared(size_t i, const Shape& shape) const {
  const std::optional<Shape>& declared = outputs_[i].shape;
  if (!declared || *declared == shape) return true;
  if (!outputs_[i].mayBeSmaller || declared->size() != shape.size()) return false;
  return std::equal(shape.begin(), shape.end(), declared->begin(),
                    [](int64_t got, int64_t most) { return got <= most; });
}

void NodeContext::outputAs(size_t i, Value v, ElementType inferred) {
  if (wantsOutput(i) && outputs_[i].type == ElementType::kInvalid) v = cast(v, inferred);
  setOutput(i, v);
}

void NodeContext::output(size_t i, Value v) {
  bool isWide = (row().flags & kInF32) && isFloat(dataType()) && element(v) == ElementType::kF32;
  if (isWide)
    outputAs(i, v, dataType());
  else
    setOutput(i, v);
}

void NodeContext::setOutput(size_t i, Value v) {
  if (!wantsOutput(i) || !v.handle || !ok()) return;
  if (isShapeType(outputs_[i].tensor->type) || outputs_[i].tensor->type == kHostToDevice) {
    fail(strCat(outputName(i), " must be a data tensor"));
    return;
  }
  TensorType got = type(v);
  if (!fitsDeclared(i, got.shape)) {
    fail(
        strCat(outputName(i), " has sizes ", sizesText(*outputs_[i].shape), ", the node gives ", sizesText(got.shape)));
    return;
  }
  ElementType declared = outputs_[i].type;
  if (got.element == ElementType::kBool && (declared == ElementType::kInvalid || isBooleanStorage(declared))) {
    results_[i].value = v;  // Stays i1; whoever needs the byte casts.
    return;
  }
  if (declared == ElementType::kInvalid || declared == got.element) {
    results_[i].value = v;
  } else if ((isFloat(declared) && isFloat(got.element)) || (!isFloat(declared) && !isFloat(got.element))) {
    results_[i].value = cast(v, declared);
  } else {
    fail(strCat(outputName(i), " is ", elementTypeName(declared), ", the node gives ", elementTypeName(got.element)));
  }
}

void NodeContext::outputIn(size_t i, std::string_view layout, Value v) {
  if (!v.handle) return;
  std::vector<int64_t> perm = layoutPerm(node_.outputLayouts, i, layout, "output"), inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) inverse[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  output(i, transpose(v, inverse));
}

Shape NodeContext::requiredShapeIn(size_t i, std::string_view layout, size_t shapeInput) {
  Shape given = requiredShape(i, shapeInput);
  if (!ok()) return {};
  if (given.size() != layout.size()) {
    fail(strCat(outputName(i), " has rank ", given.size(), ", must have ", layout.size(), " (", layout, ")"));
    return {};
  }
  Shape shape;
  for (int64_t d : layoutPerm(node_.outputLayouts, i, layout, "output")) shape.push_back(given[static_cast<size_t>(d)]);
  return shape;
}

void NodeContext::outputShape(size_t i, const Shape& shape) {
  if (!wantsOutput(i) || !ok()) return;
  if (!isShapeType(outputs_[i].tensor->type))
    fail(strCat(outputName(i), " must be a shape tensor"));
  else if (!fitsDeclared(i, shape))
    fail(strCat(outputName(i), " has sizes ", sizesText(*outputs_[i].shape), ", the node gives ", sizesText(shape)));
  else
    results_[i].shape = shape;
}

// ---- parameters ----------------------------------------------------------------------------------

bool NodeContext::checkParamsSize(bool optional, std::initializer_list<size_t> sizes) {
  size_t size = node_.params.size();
  if (size == 0 && optional) return true;
  std::string wanted;
  for (size_t s : sizes) {
    if (s == size) return true;
    wanted += strCat(wanted.empty() ? "" : " or ", s);
  }
  fail(size == 0 ? strCat("needs parameters (", row().params, ", ", wanted, " bytes)")
                 : strCat("parameters of ", size, " bytes; ", row().params, " has ", wanted));
  return false;
}

bool NodeContext::checkParamsLeast(size_t least) {
  const size_t size = node_.params.size();
  if (size >= least) return true;
  fail(size == 0 ? strCat("needs parameters (", row().params, ")")
                 : strCat("parameters of ", size, " bytes; what ", row().params, " have in common takes ", least));
  return false;
}

int64_t NodeContext::axis(int64_t synAxis, int64_t rank) {
  if (synAxis >= 0 && synAxis < rank) return rank - 1 - synAxis;
  fail(strCat("axis ", synAxis, " is outside of rank ", rank));
  return 0;
}

std::vector<int64_t> NodeContext::axesOfMask(uint64_t mask, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t i = 63; i >= 0; --i)
    if (mask >> i & 1) axes.push_back(axis(i, rank));
  return axes;
}

// ---- the node ------------------------------------------------------------------------------------

bool NodeContext::checkOperands() {
  auto check = [&](std::string_view list, const std::vector<OperandSlot>& slots, std::string_view kind) {
    std::vector<OperandName> names = parseOperands(list);
    bool open = !names.empty() && names.back().repeated;
    if (!open && slots.size() > names.size()) {
      for (size_t i = names.size(); i < slots.size(); ++i)
        if (slots[i].tensor) return (void)fail(strCat("has ", slots.size(), " ", kind, "s, takes ", names.size()));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      bool present = i < slots.size() && slots[i].tensor;
      if (!present && !names[i].optional) return (void)fail(strCat(operandName(kind, i), " is missing"));
    }
  };
  check(row().operands, inputs_, "input");
  check(row().results, outputs_, "output");
  auto checkCodes = [&](const std::vector<OperandSlot>& slots, std::string_view kind) {
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i].tensor && isQuantised(*slots[i].tensor, slots[i].type))
        unsupported(strCat(operandName(kind, i),
                           " is quantised (scale, zero point or exponent bias); only numbers that stand for ",
                           "themselves are computed with"));
  };
  // Elements that move into a result of another type are converted on the way.
  bool converts = !inputs_.empty() && !outputs_.empty() && inputs_[0].tensor && outputs_[0].tensor &&
                  outputs_[0].type != ElementType::kInvalid && inputs_[0].type != outputs_[0].type;
  if (!(row().flags & kMoves) || converts) checkCodes(inputs_, "input"), checkCodes(outputs_, "output");
  if (!ok() || !(row().flags & kOneType)) return ok();
  ElementType common = ElementType::kInvalid;
  auto sameType = [&](const OperandSlot& slot, std::string name) {
    if (!slot.tensor || slot.type == ElementType::kInvalid || isShapeType(slot.tensor->type) ||
        slot.tensor->type == kHostToDevice)
      return;
    if (common == ElementType::kInvalid)
      common = slot.type;
    else if (slot.type != common)
      fail(strCat(name, " is ", elementTypeName(slot.type), ", the operands before it are ", elementTypeName(common)));
  };
  for (size_t i = 0; i < inputs_.size(); ++i) sameType(inputs_[i], inputName(i));
  for (size_t i = 0; i < outputs_.size(); ++i) sameType(outputs_[i], outputName(i));
  return ok();
}

Status NodeContext::run() {
  if (!row().lower) return unimplemented(strCat("is not there yet: ", row().argument));
  if (!checkOperands()) return status();
  row().lower(*this);
  if (!ok()) return status();
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (wantsOutput(i) && !results_[i].value.handle && !results_[i].shape)
      return internalError(strCat(outputName(i), " got no value"));
  return okStatus();
}

}  // namespace hpu::synapse
