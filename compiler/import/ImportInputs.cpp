// SPDX-License-Identifier: Apache-2.0
// Inputs of an ONNX model: declared types, and the sizes that the options give to free dimensions.
#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/import/OnnxImporter.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Elements.h"
#include "compiler/support/CreateOp.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using shape::DimExpr;

namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;

/// The name of a free dimension: as declared, or "x_dim0" for the anonymous first one of x.
std::string freeName(const ValueInfo& info, size_t dim) {
  return info.shape[dim].symbol.empty() ? strCat(info.name, "_dim", dim) : info.shape[dim].symbol;
}

std::string describe(const ValueInfo& info) {
  std::string text;
  for (size_t i = 0; i < info.shape.size(); ++i)
    text +=
        strCat(i ? "x" : "", info.shape[i].size != kDynamic ? std::to_string(info.shape[i].size) : freeName(info, i));
  return text.empty() ? "scalar" : text;
}

template <typename Range, typename Name>
std::string listNames(const Range& range, Name name) {
  std::string text;
  for (const auto& item : range) text += (text.empty() ? "" : ", ") + name(item);
  return text.empty() ? "none" : text;
}

std::string shapeOption(const std::string& input, const Shape& shape) {
  std::vector<std::string> sizes;
  for (int64_t size : shape) sizes.push_back(std::to_string(size));
  return base::optionShape(input, sizes);
}

}  // namespace

void OnnxImporter::fixInputs() {
  for (ValueInfo& input : model_.graph.inputs)
    for (size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d].size != kDynamic) continue;
      const std::string name = freeName(input, d);
      if (auto fixed = options_.fixed.find(name); fixed != options_.fixed.end())
        input.shape[d] = {fixed->second, {}};
      else if (const auto joined = DimExpr::parse(name).renamed(options_.joined); joined && !options_.joined.empty())
        input.shape[d] = {kDynamic, joined->text()};
    }
}

std::vector<const ValueInfo*> OnnxImporter::realInputs() const {
  std::set<std::string> initializers;
  for (const TensorData& data : model_.graph.initializers) initializers.insert(data.name);
  for (const RefusedInitializer& refused : model_.graph.refused) initializers.insert(refused.name);
  std::vector<const ValueInfo*> inputs;
  for (const ValueInfo& input : model_.graph.inputs)
    if ((!initializers.count(input.name) || isGivenLate(input.name)) && !options_.constants.count(input.name))
      inputs.push_back(&input);
  return inputs;
}

bool OnnxImporter::isGivenLate(const std::string& initializer) const {
  return options_.shapes.count(initializer) &&
         llvm::any_of(model_.graph.inputs, [&](const ValueInfo& input) { return input.name == initializer; });
}

Status OnnxImporter::bindOptions() {
  std::vector<const ValueInfo*> inputs = realInputs();
  std::set<std::string> declared;
  for (const ValueInfo* input : inputs)
    for (size_t i = 0; i < input->shape.size(); ++i) {
      if (input->shape[i].size != kDynamic) continue;
      std::string name = freeName(*input, i);
      declared.insert(name);
      for (const std::string& part : DimExpr::parse(name).symbols()) declared.insert(part);
    }
  for (const ValueSize& size : valueSizes_) declared.insert(size.symbol);
  std::set<std::string> lengths;  // Of sequences: used already (ImportSequences.cpp).
  for (const auto& [name, length] : sequenceInputs_) lengths.insert(name + "[]");
  for (const auto& entry : values_)
    if (entry.second.isAbsent) lengths.insert(entry.first().str() + "[]");
  auto bind = [&](const std::string& name, int64_t size, const std::string& from) -> Status {
    // A value that sizes follow from may be any: an end that counts from the end.
    const bool isValue = llvm::any_of(valueSizes_, [&](const ValueSize& value) { return value.symbol == name; });
    if (size < 0 && !isValue) return invalidArgument(strCat(from, " gives '", name, "' the size ", size));
    auto [slot, isNew] = bindings_.try_emplace(name, size);
    if (!isNew && slot->second != size)
      return invalidArgument(
          strCat(from, " gives the free dimension '", name, "' the size ", size, ", another option ", slot->second));
    return okStatus();
  };
  for (const auto& [name, size] : options_.fixed) HPU_RETURN_IF_ERROR(bind(name, size, "the model"));
  for (const auto& [name, size] : options_.dims) {
    if (lengths.count(name)) continue;
    const std::string option = base::optionEntries("dims", {{name, std::to_string(size)}});
    if (!declared.count(name))
      return invalidArgument(strCat(option, ": no free dimension has this name (there ",
                                    "are: ", listNames(declared, [](const std::string& n) { return n; }), ")"));
    HPU_RETURN_IF_ERROR(bind(name, size, option));
  }
  for (const auto& [name, shape] : options_.shapes) {
    auto input = llvm::find_if(inputs, [&](const ValueInfo* info) { return info->name == name; });
    const std::string option = shapeOption(name, shape);
    if (input == inputs.end())
      return invalidArgument(strCat(option, ": no input has this name (there are: ",
                                    listNames(inputs, [](const ValueInfo* info) { return info->name; }), ")"));
    const ValueInfo& info = **input;
    if (!info.hasShape) continue;  // The option is all that is known.
    if (info.shape.size() != shape.size())
      return invalidArgument(strCat(option, ": the model declares ", describe(info)));
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == kDynamic) continue;
      if (info.shape[i].size == kDynamic) {
        HPU_RETURN_IF_ERROR(bind(freeName(info, i), shape[i], option));
      } else if (info.shape[i].size != shape[i]) {
        return invalidArgument(strCat(option, ": dimension ", i, " cannot be ", shape[i], ", the model fixes it to ",
                                      info.shape[i].size, " (", describe(info), ")"));
      }
    }
  }
  return okStatus();
}

StatusOr<RankedTensorType> OnnxImporter::inputType(const ValueInfo& info) {
  auto problem = [&](const std::string& reason, StatusCode code = StatusCode::kInvalidArgument) {
    return Status(code, strCat("the input '", info.name, "' ", reason));
  };
  if (!info.isTensor)
    return problem("is not a tensor (sequences, maps and optionals are not supported)", StatusCode::kUnimplemented);
  ElementType element = elementOfOnnxType(info.dataType);
  if (info.dataType == 0) return problem("has no data type; export the model again");
  if (element == ElementType::kInvalid)
    return problem("has data type " + onnxTypeName(info.dataType) + ", which is not supported",
                   StatusCode::kUnimplemented);
  if (info.shape.size() > static_cast<size_t>(ir::kMostDims))
    return problem(strCat("has ", info.shape.size(), " dimensions"), StatusCode::kUnimplemented);
  ir::SymShape shape;
  if (!info.hasShape) {
    auto given = options_.shapes.find(info.name);
    if (given == options_.shapes.end())
      return problem(strCat("has no shape; give it with ", base::optionEntries("shapes", {{info.name, "SIZES"}})));
    for (int64_t size : given->second) {
      if (size < 0) return problem(strCat("needs definite sizes in ", base::optionName("shapes")));
      shape.push_back({size});
    }
    return ir::tensorType(shape, ir::mlirElementType(&context_, element));
  }
  for (size_t i = 0; i < info.shape.size(); ++i) {
    if (info.shape[i].size != kDynamic) {
      shape.push_back({info.shape[i].size});
      continue;
    }
    std::string name = freeName(info, i);
    if (auto bound = bindings_.find(name); bound != bindings_.end()) {
      shape.push_back({bound->second});
      continue;
    }
    std::optional<DimExpr> size = DimExpr::parse(name).substitute(bindings_);
    if (!size) return problem(strCat("has a dimension '", name, "' that overflows"));
    if (std::optional<int64_t> constant = size->constant()) {
      if (*constant < 0) return problem(strCat("has a dimension '", name, "' of ", *constant));
      shape.push_back({*constant});
      continue;
    }
    for (const std::string& part : size->symbols())
      if (!llvm::is_contained(freeNames_, part)) freeNames_.push_back(part);
    shape.push_back({ShapedType::kDynamic, builder_.getStringAttr(size->text())});
  }
  // Sizes that options give are as little to be trusted as those of the file.
  int64_t elements = 1;
  for (const ir::SymDim& dim : shape)
    if (!dim.isFree() && dim.size > 0 &&
        (__builtin_mul_overflow(elements, dim.size, &elements) || elements > kMostElements))
      return problem(strCat("(", describe(info), ") would have more than 2^40 elements"));
  return ir::tensorType(shape, ir::mlirElementType(&context_, element));
}

bool OnnxImporter::nameValues(const ValueInfo& info, ImportedValue& value) {
  ShapeElements elements{elementOfOnnxType(info.dataType), info.shape.empty(), {}};
  std::vector<int64_t> given;
  std::string named, open;
  for (const ValueSize& size : valueSizes_) {
    if (size.input != info.name) continue;
    elements.values.emplace_back(DimExpr::symbol(size.symbol));
    auto bound = bindings_.find(size.symbol);
    (bound == bindings_.end() ? open : named) = size.symbol;
    if (bound != bindings_.end()) given.push_back(bound->second);
  }
  if (elements.values.empty()) return true;
  if (!named.empty() && !open.empty()) {
    issues_.push_back({Issue::Kind::kInvalid, "", "", "",
                       strCat("of the values of the input '", info.name, "', '", named, "' is given and '", open,
                              "' is not; give all of them or none")});
    return false;
  }
  if (!named.empty()) {
    Shape shape;
    if (!info.shape.empty()) shape.push_back(static_cast<int64_t>(given.size()));
    interp::Tensor tensor = interp::Tensor::zeros({elements.element, shape});
    interp::storeElements(elements.element, tensor.writable(), 0, given.data(), given.size());
    value.constant = std::move(tensor);
    return true;
  }
  for (const std::optional<DimExpr>& each : elements.values)
    if (!llvm::is_contained(freeNames_, *each->asSymbol())) freeNames_.push_back(*each->asSymbol());
  value.elements = std::move(elements);
  return true;
}

void OnnxImporter::addInputs() {
  for (const ValueInfo& info : model_.graph.inputs) {
    auto constant = options_.constants.find(info.name);
    if (constant == options_.constants.end()) continue;
    ImportedValue& value = values_[info.name];
    value.name = info.name;
    value.constant = constant->second;
    value.isFourBits = isFourBits(info.dataType);
  }
  Block& block = function_.getBody().front();
  SmallVector<Type> types;
  std::vector<const ValueInfo*> inputs;
  for (const ValueInfo* info : realInputs()) {
    if (lost_.count(info->name)) continue;
    StatusOr<RankedTensorType> type = inputType(*info);
    if (!type.ok()) {
      bool unsupported = type.status().code() == StatusCode::kUnimplemented;
      Issue issue{unsupported ? Issue::Kind::kUnsupported : Issue::Kind::kInvalid, "", "", "", type.status().message()};
      if (unsupported) describePart(issue, "input", *info);
      issues_.push_back(std::move(issue));
      lost_.insert(info->name);
      continue;
    }
    ImportedValue& value = values_[info->name];
    value.name = info->name;
    value.isFourBits = isFourBits(info->dataType);
    if (!nameValues(*info, value) || value.constant) continue;
    inputs.push_back(info);
    types.push_back(*type);
    value.value = block.addArgument(*type, ir::nodeLocation(&context_, info->name, "Input"));
  }
  function_.setType(builder_.getFunctionType(types, {}));
  SmallVector<DictionaryAttr> names;  // All at once: each change copies the whole list.
  for (const ValueInfo* info : inputs)
    names.push_back(builder_.getDictionaryAttr(builder_.getNamedAttr("hpu.name", builder_.getStringAttr(info->name))));
  function_.setAllArgAttrs(names);
  SmallVector<NamedAttribute> defaults;
  for (const TensorData& data : model_.graph.initializers) {
    if (!isGivenLate(data.name)) continue;
    const auto value = cast<TypedValue<RankedTensorType>>(values_[data.name].value);
    // One of other sizes is no default.
    const interp::Tensor tensor = interp::Tensor::borrow(data.type, data.data, data.owner);
    if (value && value.getType() == interp::mlirType(&context_, tensor.type()))
      defaults.push_back(builder_.getNamedAttr(data.name, interp::attributeOf(&context_, tensor, data.name)));
  }
  if (!defaults.empty()) (*module_)->setAttr(ir::kDefaultsAttr, builder_.getDictionaryAttr(defaults));
  std::vector<ValueSize> open;
  for (const ValueSize& size : valueSizes_)
    if (values_[size.input].elements) open.push_back(size);
  setValueSizes(*module_, open);
}

}  // namespace hpu::importer
