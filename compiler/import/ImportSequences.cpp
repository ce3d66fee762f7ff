// SPDX-License-Identifier: Apache-2.0
// Sequences and optionals. The one thing to know: a sequence is a list of values that the importer has, as long as is
// known at import; no device knows of any. Of the model's own sequence x, element k is the input or output x[k].
#include "base/Format.h"
#include "base/OptionNames.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OnnxImporter.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using interp::Tensor;

namespace {

constexpr size_t kMostElements = 4096;  // As many as a model has inputs.
constexpr int64_t kMostIterations = 4096;

std::string elementName(const std::string& sequence, size_t k) {
  return strCat(sequence, "[", k, "]");
}
/// What gives the number of elements, as a free dimension.
std::string lengthName(const std::string& sequence) {
  return sequence + "[]";
}

/// The attribute of a node that is a graph; null when there is none.
std::shared_ptr<const GraphDef> graphOf(const NodeDef& node, StringRef name) {
  for (const NodeAttribute& attribute : node.attributes)
    if (attribute.name == name) return attribute.graph;
  return nullptr;
}

}  // namespace

// ---- inputs ------------------------------------------------------------------------------------

void OnnxImporter::expandSequences() {
  std::vector<ValueInfo> inputs;
  for (ValueInfo& info : model_.graph.inputs) {
    if (!info.isSequence && !info.isOptional) {
      inputs.push_back(std::move(info));
      continue;
    }
    auto given = options_.dims.find(lengthName(info.name));
    std::optional<int64_t> length;
    if (given != options_.dims.end()) length = given->second;
    auto hasElement = [&](size_t k) {
      const std::string name = elementName(info.name, k);
      return options_.shapes.count(name) || options_.constants.count(name);
    };
    if (!info.isSequence) {  // An optional tensor is there unless an option says otherwise.
      ImportedValue& value = values_[info.name];
      value.name = info.name;
      value.isAbsent = length == 0;
      if (value.isAbsent) continue;
      info.isTensor = true;
      inputs.push_back(std::move(info));
      continue;
    }
    if (!length && hasElement(0)) {
      length = 0;
      while (static_cast<size_t>(*length) < kMostElements && hasElement(static_cast<size_t>(*length))) ++*length;
    }
    if (!length || *length < (info.isOptional ? -1 : 0) || *length > static_cast<int64_t>(kMostElements)) {
      issues_.push_back({length ? Issue::Kind::kInvalid : Issue::Kind::kFreeDimension,
                         "",
                         "",
                         "",
                         length ? strCat("the sequence '", info.name, "' cannot have ", *length, " elements")
                                : strCat("the number of elements of the sequence '", info.name, "' is not known"),
                         {}});
      freeNames_.push_back(lengthName(info.name));
      lost_.insert(info.name);
      continue;
    }
    ImportedValue& value = values_[info.name];
    value.name = info.name;
    if (*length < 0) {
      value.isAbsent = true;
      continue;
    }
    sequenceInputs_[info.name] = static_cast<size_t>(*length);
    for (size_t k = 0; k < static_cast<size_t>(*length); ++k) {
      ValueInfo element = info;
      element.name = elementName(info.name, k);
      element.isTensor = true;
      element.isSequence = element.isOptional = false;
      // Elements may differ in sizes of one name.
      for (size_t d = 0; d < element.shape.size(); ++d) {
        DimSpec& dim = element.shape[d];
        if (dim.size == kDynamic)
          dim.symbol = strCat(dim.symbol.empty() ? strCat(info.name, "_dim", d) : dim.symbol, "_", k);
      }
      inputs.push_back(std::move(element));
    }
  }
  model_.graph.inputs = std::move(inputs);
}

void OnnxImporter::joinSequences() {
  for (const auto& [name, length] : sequenceInputs_) {
    std::vector<ImportedValue> elements;
    for (size_t k = 0; k < length; ++k) {
      const std::string own = elementName(name, k);
      if (lost_.count(own)) lost_.insert(name);
      elements.push_back(values_[own]);
      elements.back().name = own;
    }
    values_[name].sequence = std::make_shared<const std::vector<ImportedValue>>(std::move(elements));
  }
}

// ---- nodes -------------------------------------------------------------------------------------

namespace {

/// One node with sequences among its values, while it is converted.
class SequenceNode {
 public:
  SequenceNode(const NodeDef& node, NodeContext& context, const std::vector<ImportedValue*>& inputs)
      : node_(node), context_(context), inputs_(inputs) {}

  /// The node's only result; null after a failure, which is the context's.
  std::optional<ImportedValue> convert() {
    const std::string& op = node_.op;
    if (op == "SequenceEmpty") return sequence({});
    if (op == "SequenceConstruct") return construct();
    if (op == "Optional") return optional();
    if (op == "SplitToSequence") return split();
    if (!input(0) && op == "OptionalHasElement") return number(ElementType::kBool, false);
    if (!input(0)) return context_.invalid("input 0 is missing"), std::nullopt;
    if (op == "Identity") return *input(0);
    if (op == "OptionalHasElement") return number(ElementType::kBool, !input(0)->isAbsent);
    if (op == "OptionalGetElement") {
      if (input(0)->isAbsent) return context_.invalid("its optional has no element"), std::nullopt;
      return *input(0);
    }
    if (!input(0)->sequence) return context_.invalid("input 0 is no sequence"), std::nullopt;
    if (op == "SequenceLength") return number(ElementType::kI64, static_cast<int64_t>(elements().size()));
    if (op == "SequenceAt") return at();
    if (op == "SequenceInsert") return insert();
    if (op == "SequenceErase") return erase();
    if (op == "ConcatFromSequence") return concat();
    return context_.unsupported("the op is not supported on sequences"), std::nullopt;
  }

 private:
  using Elements = std::vector<ImportedValue>;

  const ImportedValue* input(size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }
  const Elements& elements() const { return *inputs_[0]->sequence; }

  static ImportedValue sequence(Elements elements) {
    ImportedValue value;
    value.sequence = std::make_shared<const Elements>(std::move(elements));
    return value;
  }
  static ImportedValue number(ElementType type, int64_t number) {
    Tensor tensor = Tensor::zeros({type, {}});
    if (type == ElementType::kBool)
      tensor.writable()[0] = static_cast<uint8_t>(number);
    else
      tensor = Tensor::of<int64_t>(type, {}, {number});
    ImportedValue value;
    value.constant = std::move(tensor);
    return value;
  }

  bool areTensors(size_t from) {
    for (size_t i = from; i < inputs_.size(); ++i)
      if (inputs_[i] && (inputs_[i]->sequence || inputs_[i]->isAbsent))
        return context_.unsupported(strCat("a sequence in place of a tensor (input ", i, ")")), false;
    return true;
  }

  std::optional<ImportedValue> construct() {
    if (!areTensors(0)) return std::nullopt;
    Elements all;
    for (const ImportedValue* each : inputs_)
      if (each) all.push_back(*each);
    return sequence(std::move(all));
  }

  std::optional<ImportedValue> optional() {
    if (input(0)) return *input(0);
    ImportedValue none;
    none.isAbsent = true;
    return none;
  }

  /// The position that input `i` says, made non-negative; the last but one of `size` where it is not given.
  std::optional<size_t> position(size_t i, int64_t size, int64_t otherwise) {
    int64_t at = otherwise;
    if (input(i)) {
      const std::optional<Ints> given = context_.constantInts(i);
      if (!given || given->size() != 1) {
        context_.unsupported("a position that is not known at import");
        return std::nullopt;
      }
      at = given->front();
    }
    if (at < -size || at >= size) {
      context_.invalid(strCat("position ", at, " is outside of the sequence"));
      return std::nullopt;
    }
    return static_cast<size_t>(at < 0 ? at + size : at);
  }

  std::optional<ImportedValue> at() {
    const auto size = static_cast<int64_t>(elements().size());
    if (input(1) && context_.constantInts(1)) {
      const std::optional<size_t> place = position(1, size, 0);
      return place ? std::optional(elements()[*place]) : std::nullopt;
    }
    // Of elements of one type the device chooses.
    std::vector<Value> all = values();
    if (all.empty() || !context_.has(1)) return context_.invalid("it has no position or no elements"), std::nullopt;
    for (Value each : all) {
      if (!each) return std::nullopt;
      if (each.getType() != all[0].getType())
        return context_.unsupported("a position that is not known at import, of elements of several types"),
               std::nullopt;
    }
    const ir::SymShape shape = ir::symShape(NodeContext::typeOf(all[0]));
    ir::SymShape longer(shape);
    longer.insert(longer.begin(), ir::SymDim{1});
    for (Value& each : all) each = context_.reshape(each, longer);
    Value stack = all.size() == 1 ? all[0] : context_.op("concat", all, {{"axis", 0}});
    Value chosen =
        context_.op("gather", {stack, context_.reshape(context_.input(1), ArrayRef<int64_t>{})}, {{"axis", 0}});
    return result(chosen);
  }

  std::optional<ImportedValue> insert() {
    if (!areTensors(1) || !input(1)) return std::nullopt;
    Elements all = elements();
    const auto size = static_cast<int64_t>(all.size());
    // One place more than there are elements: behind the last one. From the end it counts as in a list without it.
    int64_t given = size;
    if (input(2)) {
      const std::optional<Ints> at = context_.constantInts(2);
      if (!at || at->size() != 1) return context_.unsupported("a position that is not known at import"), std::nullopt;
      given = at->front() < 0 ? at->front() + size : at->front();
    }
    if (given < 0 || given > size) return context_.invalid("its position is outside of the sequence"), std::nullopt;
    if (all.size() >= kMostElements)
      return context_.unsupported(strCat("a sequence of more than ", kMostElements, " elements")), std::nullopt;
    all.insert(all.begin() + given, *input(1));
    return sequence(std::move(all));
  }

  std::optional<ImportedValue> erase() {
    Elements all = elements();
    const std::optional<size_t> place = position(1, static_cast<int64_t>(all.size()), -1);
    if (!place) return std::nullopt;
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(*place));
    return sequence(std::move(all));
  }

  /// The elements in the module.
  std::vector<Value> values() {
    copies_ = elements();
    std::vector<Value> all;
    for (ImportedValue& each : copies_) all.push_back(context_.materialize(each));
    return all;
  }

  static std::optional<ImportedValue> result(Value value) {
    if (!value) return std::nullopt;
    ImportedValue made;
    made.value = value;
    return made;
  }

  std::optional<ImportedValue> concat() {
    std::vector<Value> all = values();
    if (all.empty()) return context_.invalid("its sequence has no elements"), std::nullopt;
    const bool isNew = context_.integer("new_axis", 0) != 0;
    for (Value each : all)
      if (!each) return std::nullopt;
    if (!context_.hasAttribute("axis")) return context_.invalid("it has no axis"), std::nullopt;
    const std::optional<int64_t> axis = context_.axis(context_.integer("axis", 0), NodeContext::rank(all[0]) + isNew);
    if (!axis) return std::nullopt;
    for (Value& each : all) {
      if (!isNew || NodeContext::rank(each) < *axis) continue;
      ir::SymShape shape = ir::symShape(NodeContext::typeOf(each));
      shape.insert(shape.begin() + *axis, ir::SymDim{1});
      each = context_.reshape(each, shape);
    }
    return result(all.size() == 1 ? all[0] : context_.op("concat", all, {{"axis", *axis}}));
  }

  std::optional<ImportedValue> split() {
    if (!areTensors(0)) return std::nullopt;
    Value x = context_.input(0);
    if (!x) return std::nullopt;
    const std::optional<int64_t> axis = context_.axis(context_.integer("axis", 0), NodeContext::rank(x));
    if (!axis) return std::nullopt;
    const ir::SymShape shape = ir::symShape(NodeContext::typeOf(x));
    const ir::SymDim along = shape[static_cast<size_t>(*axis)];
    if (along.isFree())
      return context_.needsSize(strCat("dimension ", *axis, ", which says how many elements the sequence has")),
             std::nullopt;
    Ints sizes;
    bool keeps = true;
    if (context_.has(1)) {
      const std::optional<Ints> given = context_.constantInts(1);
      const RankedTensorType type = context_.inputType(1);
      const Tensor* known = context_.constant(1);
      if (!given || !(type || known)) return context_.unsupported("a split that is not known at import"), std::nullopt;
      if (known ? known->rank() > 0 : type.getRank() > 0) {
        sizes = *given;
      } else {
        if (given->size() != 1 || given->front() < 1) return context_.invalid("a split of no elements"), std::nullopt;
        for (int64_t begin = 0; begin < along.size && sizes.size() <= kMostElements; begin += given->front())
          sizes.push_back(std::min(given->front(), along.size - begin));
      }
    } else {
      sizes.assign(static_cast<size_t>(std::min<int64_t>(along.size, kMostElements + 1)), 1);
      keeps = context_.integer("keepdims", 1) != 0;
    }
    if (sizes.size() > kMostElements)
      return context_.unsupported(strCat("a sequence of more than ", kMostElements, " elements")), std::nullopt;
    Elements all;
    int64_t begin = 0;
    for (int64_t size : sizes) {
      if (size < 0 || size > along.size - begin) break;
      Value piece = context_.sliceDim(x, *axis, begin, begin + size);
      if (!keeps) {
        ir::SymShape less(shape);
        less.erase(less.begin() + *axis);
        piece = context_.reshape(piece, less);
      }
      if (!piece) return std::nullopt;
      all.emplace_back().value = piece;
      begin += size;
    }
    if (all.size() != sizes.size() || begin != along.size)
      return context_.invalid(strCat("its parts are not the ", along.size, " elements of dimension ", *axis)),
             std::nullopt;
    return sequence(std::move(all));
  }

  const NodeDef& node_;
  NodeContext& context_;
  const std::vector<ImportedValue*>& inputs_;
  std::vector<ImportedValue> copies_;
};

/// Not called: OnnxImporter::convertSequence() comes first. A row says that the op imports, and from which opset on.
void convertAsSequence(NodeContext& node) {
  node.unsupported("a sequence in place of a tensor");
}

constexpr const char* kKnown = "a length that is known at import";
constexpr OpRow kRows[] = {
    {"SequenceEmpty", 11, kNewestOpset, convertAsSequence},
    {"SequenceConstruct", 11, kNewestOpset, convertAsSequence},
    {"SequenceAt", 11, kNewestOpset, convertAsSequence, "", "a constant position, or elements of one type"},
    {"SequenceInsert", 11, kNewestOpset, convertAsSequence, "", "a constant position"},
    {"SequenceErase", 11, kNewestOpset, convertAsSequence, "", "a constant position"},
    {"SequenceLength", 11, kNewestOpset, convertAsSequence},
    {"SequenceMap", 17, kNewestOpset, convertAsSequence},
    {"SplitToSequence", 11, kNewestOpset, convertAsSequence, "", kKnown},
    {"ConcatFromSequence", 11, kNewestOpset, convertAsSequence},
    {"Optional", 15, kNewestOpset, convertAsSequence},
    {"OptionalGetElement", 15, kNewestOpset, convertAsSequence},
    {"OptionalHasElement", 15, kNewestOpset, convertAsSequence},
};

bool isSequenceOp(StringRef op) {
  return llvm::any_of(kRows, [&](const OpRow& row) { return op == row.op; });
}

}  // namespace

bool OnnxImporter::convertSequence(const NodeDef& node, const std::vector<ImportedValue*>& inputs) {
  const bool hasSequence =
      llvm::any_of(inputs, [](const ImportedValue* each) { return each && (each->sequence || each->isAbsent); });
  if (!node.domain.empty() || (!hasSequence && !isSequenceOp(node.op))) return false;
  if (llvm::any_of(inputs, [](const ImportedValue* each) { return each && each->poisoned; })) return poison(node), true;
  if (node.op == "SequenceMap") return mapSequence(node, inputs), true;
  if (node.op == "Loop") return unrollLoop(node, inputs), true;
  if (!isSequenceOp(node.op) && node.op != "Identity") {
    report(node, Issue::Kind::kUnsupported, "it takes tensors, and an operand is a sequence or an empty optional");
    return poison(node), true;
  }
  NodeContext context(builder_, node, opsetOf(node), inputs, std::vector<bool>(node.outputs.size(), true),
                      /*folding=*/false);
  std::optional<ImportedValue> done = SequenceNode(node, context, inputs).convert();
  if (!done || context.issue()) {
    if (context.issue())
      report(node, context.issue()->kind, context.issue()->reason);
    else
      report(node, Issue::Kind::kInvalid, "it lacks an operand");
    return poison(node), true;
  }
  if (!node.outputs.empty() && !node.outputs[0].empty()) {
    done->name = node.outputs[0];
    values_[node.outputs[0]] = std::move(*done);
  }
  return true;
}

std::optional<std::vector<ImportedValue>> OnnxImporter::runBody(const NodeDef& node, const GraphDef& body,
                                                                const std::vector<ImportedValue>& arguments) {
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    values_[body.inputs[i].name] = arguments[i];
    if (values_[body.inputs[i].name].name.empty()) values_[body.inputs[i].name].name = body.inputs[i].name;
  }
  walked_.insert(&body);
  addInitializers(body);
  const size_t before = issues_.size();
  convertNodes(body.nodes);
  std::vector<ImportedValue> results;
  for (const ValueInfo& output : body.outputs) {
    auto found = values_.find(output.name);
    if (found == values_.end()) {
      report(node, Issue::Kind::kInvalid,
             strCat("its body does not define '", output.name, "'; export the model again"));
      return std::nullopt;
    }
    if (found->second.poisoned) return std::nullopt;
    results.push_back(found->second);
  }
  return issues_.size() == before ? std::optional(std::move(results)) : std::nullopt;
}

void OnnxImporter::mapSequence(const NodeDef& node, const std::vector<ImportedValue*>& inputs) {
  const std::shared_ptr<const GraphDef> body = graphOf(node, "body");
  auto refuse = [&](Issue::Kind kind, std::string reason) {
    report(node, kind, std::move(reason));
    poison(node);
  };
  if (!body || inputs.empty() || !inputs[0] || !inputs[0]->sequence || body->inputs.size() != inputs.size() ||
      body->outputs.size() < node.outputs.size())
    return refuse(Issue::Kind::kInvalid, "its body does not fit its operands; export the model again");
  std::vector<ImportedValue> given;  // Copies: the body's values may move the table.
  for (const ImportedValue* each : inputs) given.push_back(each ? *each : ImportedValue());
  const size_t length = given[0].sequence->size();
  std::vector<std::vector<ImportedValue>> results(node.outputs.size());
  for (size_t k = 0; k < length; ++k) {
    std::vector<ImportedValue> arguments;
    for (const ImportedValue& each : given) {
      if (each.sequence && each.sequence->size() != length)
        return refuse(Issue::Kind::kInvalid, "its sequences have different numbers of elements");
      arguments.push_back(each.sequence ? (*each.sequence)[k] : each);
    }
    const std::optional<std::vector<ImportedValue>> done = runBody(node, *body, arguments);
    if (!done) return poison(node);
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back((*done)[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    ImportedValue value;
    value.name = node.outputs[i];
    value.sequence = std::make_shared<const std::vector<ImportedValue>>(std::move(results[i]));
    values_[node.outputs[i]] = std::move(value);
  }
}

void OnnxImporter::unrollLoop(const NodeDef& node, const std::vector<ImportedValue*>& inputs) {
  const std::shared_ptr<const GraphDef> body = graphOf(node, "body");
  auto refuse = [&](Issue::Kind kind, std::string reason) {
    report(node, kind, std::move(reason));
    poison(node);
  };
  if (!body || inputs.size() < 2 || body->inputs.size() != inputs.size() || body->outputs.size() + 1 < inputs.size() ||
      node.outputs.size() + 1 != body->outputs.size())
    return refuse(Issue::Kind::kInvalid, "its body does not fit its operands; export the model again");
  if (node.outputs.size() != inputs.size() - 2)
    return refuse(Issue::Kind::kUnsupported, "a loop with sequences that collects results of its iterations, too");
  auto known = [](const ImportedValue& value) -> std::optional<int64_t> {
    if (!value.constant || value.constant->count() != 1) return std::nullopt;
    return value.constant->integer(0);
  };
  constexpr const char* kUnknown = "a loop with sequences whose number of iterations is not known at import";
  int64_t trips = kMostIterations;
  if (inputs[0]) {
    const std::optional<int64_t> given = known(*inputs[0]);
    if (!given) return refuse(Issue::Kind::kUnsupported, kUnknown);
    trips = *given;
  }
  ImportedValue condition = inputs[1] ? *inputs[1] : ImportedValue();
  if (!inputs[1]) {
    condition.constant = Tensor::zeros({ElementType::kBool, {}});
    condition.constant->writable()[0] = 1;
  }
  std::vector<ImportedValue> carried;
  for (size_t i = 2; i < inputs.size(); ++i) carried.push_back(inputs[i] ? *inputs[i] : ImportedValue());
  for (int64_t k = 0; k < trips; ++k) {
    const std::optional<int64_t> goesOn = known(condition);
    if (!goesOn) return refuse(Issue::Kind::kUnsupported, kUnknown);
    if (*goesOn == 0) break;
    if (k >= kMostIterations || isTooLarge())
      return refuse(Issue::Kind::kUnsupported, strCat("a loop with sequences that is too long to be unrolled"));
    std::vector<ImportedValue> arguments(2);
    arguments[0].constant = Tensor::of<int64_t>(ElementType::kI64, {}, {k});
    arguments[1] = condition;
    arguments.insert(arguments.end(), carried.begin(), carried.end());
    const std::optional<std::vector<ImportedValue>> done = runBody(node, *body, arguments);
    if (!done) return poison(node);
    condition = done->front();
    carried.assign(done->begin() + 1, done->end());
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    values_[node.outputs[i]] = carried[i];
    values_[node.outputs[i]].name = node.outputs[i];
  }
}

// ---- outputs -----------------------------------------------------------------------------------

std::vector<std::pair<ValueInfo, ImportedValue*>> OnnxImporter::tensorOutputs() {
  std::vector<std::pair<ValueInfo, ImportedValue*>> outputs;
  for (const ValueInfo& output : model_.graph.outputs) {
    auto found = values_.find(output.name);
    if (found == values_.end() || found->second.poisoned) continue;  // Reported already.
    ImportedValue& value = found->second;
    if (value.isAbsent) {
      issues_.push_back({Issue::Kind::kUnsupported,
                         "",
                         "",
                         "",
                         strCat("the graph output '", output.name, "' is an optional without an element"),
                         {}});
      continue;
    }
    if (!value.sequence) {
      outputs.emplace_back(output, &value);
      continue;
    }
    // The table keeps its own copy; outputs make their elements values of the module.
    auto& elements = outputElements_.emplace_back(std::make_unique<std::vector<ImportedValue>>(*value.sequence));
    for (size_t k = 0; k < elements->size(); ++k) {
      ValueInfo element;  // Elements may have other sizes than the sequence declares.
      element.name = elementName(output.name, k);
      element.dataType = output.dataType;
      outputs.emplace_back(std::move(element), &(*elements)[k]);
      if ((*elements)[k].name.empty()) (*elements)[k].name = outputs.back().first.name;
    }
  }
  if (outputs.empty() && issues_.empty())
    issues_.push_back({Issue::Kind::kUnsupported, "", "", "", "its outputs are sequences without elements", {}});
  return outputs;
}

llvm::ArrayRef<OpRow> sequenceRows() {
  return kRows;
}

}  // namespace hpu::importer
