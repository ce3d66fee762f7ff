// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxImporter.h"

#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/GraphCheck.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/support/Cancellation.h"
#include "compiler/support/CreateOp.h"
#include "compiler/support/DiagnosticCapture.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using interp::Tensor;
using shape::DimExpr;

namespace {

constexpr int64_t kFoldElements = 1 << 20;         // Of all inputs, and of each result, of a folded node.
constexpr int64_t kFoldScratchElements = 4 << 20;  // Of each tensor between them.

/// What the nodes of one model may add to the constants of its file. Folded results beyond it are left to the phases,
/// which free what they have used; constants that only the importer can write are refused.
constexpr int64_t kFoldBytes = int64_t{256} << 20;
constexpr int64_t kGeneratedBytes = int64_t{512} << 20;

/// Of one program: phases take time in proportion to its operations and to the product of operands, so both have a
/// limit. Language models of a hundred layers have some 5000.
constexpr int64_t kMostOps = 8192;

/// Elements that folding may compute, beside a number in proportion to the file's constants (see interp::foldingWork).
constexpr int64_t kFoldWork = int64_t{1} << 25, kFoldWorkPerElement = 16;

/// Work of these grows faster than their elements, and no exporter computes with them on constants.
bool isCheap(StringRef op) {
  return op != "Conv" && op != "ConvTranspose" && op != "MaxPool" && op != "AveragePool";
}

Tensor tensorOfData(const TensorData& data) {
  return Tensor::borrow(data.type, data.data, data.owner);
}

}  // namespace

OnnxImporter::OnnxImporter(MLIRContext& context, OnnxModel model, const ImportOptions& options,
                           const CustomOps& customOps)
    : context_(context), model_(std::move(model)), options_(options), customOps_(customOps), builder_(&context) {}

StatusOr<OwningModule> OnnxImporter::run() {
  auto opset = model_.opsets.find("");
  // A model of other domains only: its nodes are reported one by one.
  opset_ = opset == model_.opsets.end() ? kNewestOpset : opset->second;
  GraphFaults faults = checkGraph(model_);
  issues_ = std::move(faults.issues);
  lost_ = std::move(faults.lost);
  // What is wrong with the model as a whole is told with what is unsupported of its nodes; other faults of these may
  // follow from it.
  checkOpset();
  checkInterface();
  size_t wholeFaults = issues_.size();

  const StringAttr name = builder_.getStringAttr(programName(model_.graph.name, model_.path));
  Location location = NameLoc::get(name);
  module_ = ModuleOp::create(location);
  (*module_)->setAttr("hpu.model", name);
  builder_.setInsertionPointToEnd(module_->getBody());
  function_ = func::FuncOp::create(builder_, location, "main", builder_.getFunctionType({}, {}));
  builder_.setInsertionPointToStart(function_.addEntryBlock());

  fixInputs();
  expandSequences();
  valueSizes_ = findValueSizes(model_.graph, realInputs());
  if (Status bound = bindOptions(); !bound.ok()) {
    issues_.push_back({Issue::Kind::kInvalid, "", "", "", bound.message()});
    wholeFaults = issues_.size();
    followsFromWhole_ = true;
  }
  addInputs();
  joinSequences();
  addInitializers(model_.graph);
  for (const std::string& name : lost_) {
    values_[name] = {};
    values_[name].poisoned = true;
  }
  collectUses(model_.graph);
  for (const ValueInfo& value : model_.graph.values) declared_[value.name] = &value;
  for (const ValueInfo& value : model_.graph.outputs) declaredOutputs_[value.name] = &value;
  for (const ValueInfo& output : model_.graph.outputs) usedNames_.insert(output.name);
  foldWork_ = kFoldWork;
  for (const TensorData& data : model_.graph.initializers)
    foldWork_ += kFoldWorkPerElement * tensorOfData(data).count();
  convertNodes(model_.graph.nodes);
  if (support::isCancelled()) return support::cancelledStatus();
  if (Status size = checkSize(); !size.ok() && issues_.empty()) return size;
  addOutputs();
  if (followsFromWhole_) {
    auto rest = std::remove_if(issues_.begin() + static_cast<ptrdiff_t>(wholeFaults), issues_.end(),
                               [](const Issue& issue) { return issue.kind != Issue::Kind::kUnsupported; });
    issues_.erase(rest, issues_.end());
  }
  if (!issues_.empty()) return failure();
  HPU_RETURN_IF_ERROR(resolveDataSizes(*module_).withContext(strCat("'", model_.path, "'")));
  removeDeadOps();
  if (!options_.fixed.empty()) {
    SmallVector<NamedAttribute> fixed;
    for (const auto& [name, size] : options_.fixed)
      fixed.push_back(builder_.getNamedAttr(name, builder_.getI64IntegerAttr(size)));
    (*module_)->setAttr(kFixedSizesAttr, builder_.getDictionaryAttr(fixed));
  }
  if (!options_.joined.empty()) {
    SmallVector<NamedAttribute> joined;
    for (const auto& [name, one] : options_.joined)
      joined.push_back(builder_.getNamedAttr(name, builder_.getStringAttr(one)));
    (*module_)->setAttr(kJoinedSizesAttr, builder_.getDictionaryAttr(joined));
  }
  return std::move(module_);
}

// ---- nodes -------------------------------------------------------------------------------------

void OnnxImporter::addInitializers(const GraphDef& graph) {
  for (const TensorData& data : graph.initializers) {
    if (&graph == &model_.graph && isGivenLate(data.name)) continue;
    ImportedValue& value = values_[data.name];
    value = {};
    value.name = data.name;
    value.constant = tensorOfData(data);
    value.isFourBits = data.isFourBits;
  }
  for (const RefusedInitializer& refused : graph.refused) {
    reportInitializer(refused);
    ImportedValue& value = values_[refused.name];
    value = {};
    value.name = refused.name;
    value.poisoned = true;
  }
}

void OnnxImporter::collectUses(const GraphDef& graph) {
  for (const NodeDef& node : graph.nodes) {
    usedNames_.insert(node.inputs.begin(), node.inputs.end());
    for (const NodeAttribute& attribute : node.attributes) {
      if (!attribute.graph) continue;
      collectUses(*attribute.graph);
      for (const ValueInfo& output : attribute.graph->outputs) usedNames_.insert(output.name);
    }
  }
}

void OnnxImporter::convertNodes(const std::vector<NodeDef>& nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    // What has too many is refused, with the problems up to here; now and then is enough to see it in time.
    if (i % 1024 == 1023 && isTooLarge()) {
      for (; i < nodes.size(); ++i) look(nodes[i]);
      return;
    }
    if (support::isCancelled()) return;
    convertNode(nodes[i]);
  }
}

bool OnnxImporter::isTooLarge() {
  int64_t made = 0;
  // What a Concat joins is copied piece by piece, as a Sum is added.
  for (Operation& op : function_.getBody().front())
    made += isa<ir::ConcatOp>(op) ? std::max<int64_t>(1, op.getNumOperands() - 1) : !isa<ir::ConstantOp>(op);
  return made > kMostOps;
}

Status OnnxImporter::checkSize() {
  if (!isTooLarge()) return okStatus();
  return unimplemented(
      strCat("'", model_.path, "': the model has more than ", kMostOps,
             " operations (a Concat counts as one for each further input); one program has at most that many: cut the "
             "model into parts"));
}

bool OnnxImporter::readsData(const NodeDef& node) const {
  if (node.op == "Shape" || node.op == "Size") return false;
  return llvm::any_of(node.inputs, [&](const std::string& name) {
    auto found = values_.find(name);
    if (name.empty() || found == values_.end()) return false;
    const ImportedValue& value = found->second;
    return value.poisoned ? value.computed : value.value && !value.constant && !value.elements;
  });
}

RankedTensorType OnnxImporter::declaredType(const std::string& name) {
  auto found = declared_.find(name);
  if (found == declared_.end()) return {};
  const ValueInfo& info = *found->second;
  const ElementType element = elementOfOnnxType(info.dataType);
  if (!info.isTensor || !info.hasShape || element == ElementType::kInvalid ||
      info.shape.size() > static_cast<size_t>(ir::kMostDims))
    return {};
  ir::SymShape shape;
  for (const DimSpec& dim : info.shape) {
    if (dim.size != kDynamic)
      shape.push_back({dim.size});
    else if (auto bound = bindings_.find(dim.symbol); bound != bindings_.end())
      shape.push_back({bound->second});
    else if (dim.symbol.empty())
      return {};
    else
      shape.push_back({ShapedType::kDynamic, builder_.getStringAttr(dim.symbol)});
  }
  RankedTensorType type = ir::tensorType(shape, ir::mlirElementType(&context_, element));
  return type && ir::fitsMemory(type) ? type : RankedTensorType();
}

void OnnxImporter::poison(const NodeDef& node) {
  const bool computed = readsData(node);
  for (const std::string& output : node.outputs) {
    if (output.empty()) continue;
    ImportedValue value;
    value.name = output;
    RankedTensorType type = computed ? declaredType(output) : RankedTensorType();
    if (type)
      value.value = function_.getBody().front().addArgument(type, ir::nodeLocation(&context_, node.name, node.op));
    value.standsIn = type != nullptr;
    value.poisoned = !type;
    value.computed = computed;
    values_[output] = value;
  }
}

void OnnxImporter::probe(const NodeDef& node, const OpRow& row, const std::vector<ImportedValue*>& inputs) {
  // Copies: a converter may give its operands values of the scratch block.
  std::vector<ImportedValue> copies(inputs.size());
  std::vector<ImportedValue*> pointers(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    // It may yet turn out to be a constant.
    if (inputs[i]->poisoned && !inputs[i]->computed) return;
    copies[i] = *inputs[i];
    pointers[i] = &copies[i];
  }
  Block scratch;
  OpBuilder builder(&context_);
  builder.setInsertionPointToEnd(&scratch);
  std::vector<bool> wanted;
  for (const std::string& output : node.outputs) wanted.push_back(!output.empty() && usedNames_.count(output));
  NodeContext context(builder, node, opsetOf(node), pointers, wanted, /*folding=*/false);
  context.mnemonic_ = row.mnemonic;
  row.convert(context);
  if (context.issue_ && context.issue_->kind == Issue::Kind::kUnsupported)
    report(node, context.issue_->kind, context.issue_->reason);
}

void OnnxImporter::convertNode(const NodeDef& node) {
  std::vector<ImportedValue*> inputs;
  bool isPoisoned = false, allConstant = !node.inputs.empty(), anySymbolic = false, standsIn = false;
  int64_t elements = 0;
  for (const std::string& name : node.inputs) {
    auto found = values_.find(name);
    if (name.empty() || found == values_.end()) {
      // Undefined names are possible in subgraphs only; checkGraph has seen the others.
      if (!name.empty()) {
        report(node, Issue::Kind::kInvalid,
               strCat("reads '", name, "', which nothing defines; export the model again"));
        return poison(node);
      }
      inputs.push_back(nullptr);
      continue;
    }
    ImportedValue& value = found->second;
    isPoisoned |= value.poisoned;
    standsIn |= value.standsIn;
    allConstant &= value.constant.has_value();
    anySymbolic |= value.elements.has_value();
    if (value.constant) elements += value.constant->count();
    inputs.push_back(&value);
  }
  if (convertControlFlow(node, inputs) || convertSequence(node, inputs)) return;
  const OpRow* row = findRow(node.op, node.domain);
  if (!row && customOps_.has(node.domain, node.op))
    return isPoisoned ? poison(node) : convertCustom(node, inputs, standsIn);
  if (std::string reason = refusal(node, row); !reason.empty()) {
    report(node, Issue::Kind::kUnsupported, std::move(reason));
    return poison(node);
  }
  if (generatedBytes_ > kGeneratedBytes) return poison(node);  // Reported already.
  if (isPoisoned) {
    probe(node, *row, inputs);
    return poison(node);
  }
  bool folds = allConstant && elements <= kFoldElements && isCheap(node.op) && foldedBytes_ < kFoldBytes;
  if (folds && !standsIn && fold(node, *row, inputs)) return;

  std::vector<bool> wanted;
  for (const std::string& output : node.outputs) wanted.push_back(!output.empty() && usedNames_.count(output));
  NodeContext context(builder_, node, opsetOf(node), inputs, wanted, /*folding=*/false);
  context.mnemonic_ = row->mnemonic;
  inform(node, context);
  if (!anySymbolic || !convertSymbolically(context)) row->convert(context);
  generatedBytes_ += context.generatedBytes_;
  if (generatedBytes_ > kGeneratedBytes)
    context.unsupported(strCat("the constants that the nodes up to here ask for have more than ",
                               base::formatBytes(kGeneratedBytes), "; give them to the model as initializers"));
  define(node, context, standsIn);
}

void OnnxImporter::convertCustom(const NodeDef& node, const std::vector<ImportedValue*>& inputs, bool standsIn) {
  std::vector<bool> wanted;
  for (const std::string& output : node.outputs) wanted.push_back(!output.empty() && usedNames_.count(output));
  NodeContext context(builder_, node, opsetOf(node), inputs, wanted, /*folding=*/false);
  context.bounds_ = options_.bounds;
  customOps_.convert(context);
  generatedBytes_ += context.generatedBytes_;
  define(node, context, standsIn);
}

void OnnxImporter::inform(const NodeDef& node, NodeContext& context) const {
  context.bounds_ = options_.bounds;
  for (const std::string& output : node.outputs) {
    auto inside = declared_.find(output), result = declaredOutputs_.find(output);
    const ValueInfo* info = inside != declared_.end()          ? inside->second
                            : result != declaredOutputs_.end() ? result->second
                                                               : nullptr;
    context.declaredRanks_.push_back(info && info->isTensor && info->hasShape
                                         ? std::optional<int64_t>(static_cast<int64_t>(info->shape.size()))
                                         : std::nullopt);
  }
}

void OnnxImporter::define(const NodeDef& node, NodeContext& done, bool standsIn) {
  fixed_.insert(done.fixed_.begin(), done.fixed_.end());
  joined_.insert(done.joined_.begin(), done.joined_.end());
  if (done.issue_) {
    // What the file declares may be wrong or say little: nothing else is concluded from it.
    if (!standsIn || done.issue_->kind == Issue::Kind::kUnsupported)
      report(node, done.issue_->kind, done.issue_->reason);
    return poison(node);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!done.wants(i) || lost_.count(node.outputs[i])) continue;
    ImportedValue& value = done.outputs_[i];
    if (!value.value && !value.constant && !value.elements) {
      report(node, Issue::Kind::kUnsupported, strCat("output ", i, " is not supported"));
      return poison(node);
    }
    value.name = node.outputs[i];
    value.standsIn = standsIn;
    values_[node.outputs[i]] = value;
  }
}

bool OnnxImporter::fold(const NodeDef& node, const OpRow& row, const std::vector<ImportedValue*>& inputs) {
  Block scratch;
  OpBuilder builder(&context_);
  builder.setInsertionPointToEnd(&scratch);
  std::vector<bool> wanted;
  for (const std::string& output : node.outputs) wanted.push_back(!output.empty() && usedNames_.count(output));
  NodeContext context(builder, node, opsetOf(node), inputs, wanted, /*folding=*/true);
  context.mnemonic_ = row.mnemonic;
  row.convert(context);
  if (!context.issue_) {
    auto isSmall = [](Value value, int64_t limit) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type || !type.hasStaticShape()) return false;
      StatusOr<TensorType> concrete = interp::concreteType(type);
      return concrete.ok() && interp::checkSize(*concrete).ok() && type.getNumElements() <= limit;
    };
    int64_t work = 0;
    for (Operation& op : scratch) {
      if (!isSmall(op.getResult(0), kFoldScratchElements)) return false;
      work += interp::foldingWork(&op);
    }
    if (work > foldWork_) return false;
    foldWork_ -= work;
    for (const ImportedValue& output : context.outputs_)
      if (output.value && !isSmall(output.value, kFoldElements)) return false;
    ir::DiagnosticCapture capture(&context_);
    if (failed(interp::evaluateRange(scratch.begin(), scratch.end(), context.folded_))) {
      std::string reason = capture.entries().empty() ? "cannot be evaluated" : capture.entries().front().text;
      context.invalid(reason);
    }
    for (ImportedValue& output : context.outputs_) {
      if (!output.value || context.issue_) continue;
      // A forwarded constant keeps its value of the module.
      if (auto folded = context.folded_.find(output.value); folded != context.folded_.end()) {
        const Tensor constant = folded->second;
        output = ImportedValue();
        output.constant = constant;
      }
      if (output.constant) foldedBytes_ += output.constant->type().bytes();
    }
  }
  define(node, context);
  return true;
}

// ---- results -----------------------------------------------------------------------------------

void OnnxImporter::checkDeclared(const ValueInfo& output, RankedTensorType type) {
  // With sizes from the options the declared ones may be those of the exporter's example.
  if (!options_.shapes.empty() || !options_.dims.empty()) return;
  bool fits = output.dataType == 0 || elementOfOnnxType(output.dataType) == ir::elementType(type.getElementType());
  if (output.hasShape) {
    fits &= static_cast<int64_t>(output.shape.size()) == type.getRank();
    for (size_t i = 0; fits && i < output.shape.size(); ++i)
      fits &= output.shape[i].size == kDynamic || type.isDynamicDim(i) || output.shape[i].size == type.getDimSize(i);
  }
  if (fits) return;
  std::string declared;
  for (const DimSpec& dim : output.shape)
    declared += (dim.size == kDynamic ? std::string("?") : std::to_string(dim.size)) + "x";
  issues_.push_back({Issue::Kind::kInvalid, "", "", "",
                     strCat("the graph output '", output.name, "' is declared as ",
                            output.hasShape ? declared : std::string(), onnxTypeName(output.dataType),
                            ", but computed as ", ir::typeToString(type), "; export the model again")});
}

void OnnxImporter::addOutputs() {
  SmallVector<Value> results;
  const std::vector<std::pair<ValueInfo, ImportedValue*>> outputs = tensorOutputs();
  for (const auto& [output, imported] : outputs) {
    // An output is read as a node would read it, so that errors are the same.
    NodeDef reader;
    reader.name = output.name;
    reader.op = "graph output";
    reader.inputs = {output.name};
    NodeContext context(builder_, reader, opset_, {imported}, {}, /*folding=*/false);
    Value value = context.input(0);
    if (context.issue_) {
      report(reader, context.issue_->kind, context.issue_->reason);
      continue;
    }
    if (!imported->standsIn) checkDeclared(output, NodeContext::typeOf(value));
    results.push_back(value);
  }
  if (!issues_.empty()) return;
  func::ReturnOp::create(builder_, function_.getLoc(), results);
  SmallVector<Type> inputTypes(function_.getArgumentTypes()), resultTypes;
  for (Value value : results) resultTypes.push_back(value.getType());
  function_.setType(builder_.getFunctionType(inputTypes, resultTypes));
  SmallVector<DictionaryAttr> names;  // All at once: each change copies the whole list.
  for (const auto& [output, imported] : outputs)
    names.push_back(builder_.getDictionaryAttr(builder_.getNamedAttr("hpu.name", builder_.getStringAttr(output.name))));
  function_.setAllResultAttrs(names);
}

void OnnxImporter::removeDeadOps() {
  for (Operation& op : llvm::make_early_inc_range(llvm::reverse(function_.getBody().front())))
    if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>()) op.erase();
}

OwningModule OnnxImporter::takePartial() {
  if (!module_ || !function_) return {};
  Block& block = function_.getBody().front();
  if (!block.empty() && block.back().hasTrait<OpTrait::IsTerminator>()) return {};
  SmallVector<Value> results;
  SmallVector<Type> types;
  for (Operation& op : block)
    for (Value result : op.getResults())
      if (result.use_empty() && !isa<ir::ConstantOp>(op)) results.push_back(result), types.push_back(result.getType());
  if (results.empty()) return {};
  builder_.setInsertionPointToEnd(&block);
  func::ReturnOp::create(builder_, function_.getLoc(), results);
  function_->removeAttr(function_.getArgAttrsAttrName());
  function_.setType(builder_.getFunctionType(block.getArgumentTypes(), types));
  return std::move(module_);
}

}  // namespace hpu::importer
