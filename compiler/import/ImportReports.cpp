// SPDX-License-Identifier: Apache-2.0
// What cannot be imported, and what would help: issues of nodes and of the whole model, and the Status of all of them.
#include <algorithm>
#include <limits>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/OptionNames.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/OnnxImporter.h"
#include "llvm/ADT/StringRef.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using shape::DimExpr;

namespace {

bool isControlFlow(const NodeDef& node) {
  return node.domain.empty() && (node.op == "If" || node.op == "Loop" || node.op == "Scan");
}

bool isText(const NodeDef& node) {
  const llvm::StringRef op = node.op;
  return op.contains("String") || op == "RegexFullMatch" || op == "LabelEncoder" || op.contains("Tokenizer");
}

/// "2x?xseqxSTRING" as a file declares it; empty where it says neither type nor shape.
std::string declaredText(const ValueInfo& info) {
  std::string text;
  if (info.hasShape)
    for (const DimSpec& dim : info.shape)
      text += (dim.size != kDynamic ? std::to_string(dim.size)
               : dim.symbol.empty() ? "?"
                                    : base::clipped(dim.symbol)) +
              "x";
  const ElementType element = elementOfOnnxType(info.dataType);
  if (info.dataType != 0)
    text += element == ElementType::kInvalid ? onnxTypeName(info.dataType) : std::string(elementTypeName(element));
  if (info.isSequence) text = "sequence of " + text;
  if (info.isOptional) text = "optional " + text;
  return text;
}

/// The op of the table whose name differs least, when it is probably meant.
const OpRow* nearest(const NodeDef& node) {
  const OpRow* best = nullptr;
  unsigned least = std::min<unsigned>(3, static_cast<unsigned>(node.op.size() / 3) + 1);
  for (const OpRow* row : allRows()) {
    // The same name in another domain is nearer than any other name.
    const unsigned distance = llvm::StringRef(node.op).edit_distance_insensitive(row->op, true, least);
    if (distance < least) best = row, least = distance;
  }
  return best;
}

std::string fullName(const OpRow& row) {
  return strCat(row.domain, *row.domain ? "." : "", row.op);
}

/// Another type of the operands may help, by the reason.
bool isOfTypes(llvm::StringRef reason) {
  return llvm::any_of(
      llvm::ArrayRef<llvm::StringRef>({"integer", "float", "elements that", "type", "f16", "bf16", "f64", "bool"}),
      [&](llvm::StringRef word) { return reason.contains(word); });
}

std::string helpFor(const NodeDef& node, int64_t opset, llvm::StringRef reason) {
  if (const OpRow* row = findRow(node.op, node.domain)) {
    if (node.domain.empty() && opset < row->minOpset)
      return strCat("export the model with an opset of ", row->minOpset, " to ", row->maxOpset);
    if (node.domain.empty() && opset > row->maxOpset)
      return strCat("export the model with opset_version=", row->maxOpset);
    const std::string cast = isOfTypes(reason) ? " (a Cast before the node gives its operands another type)" : "";
    if (*row->limits) return strCat(node.op, " compiles with these limits: ", row->limits, cast);
    return strCat("other forms of ", node.op, " compile: change what the reason names", cast,
                  ", or write the node with other ops");
  }
  if (isText(node)) return "devices have no strings: do this on the host, and give the model numbers";
  const std::string custom =
      strCat(base::optionName("plugins"), " gives the op as a function in MLIR (docs/custom-ops.md)");
  if (const OpRow* row = nearest(node)) return strCat("if ", fullName(*row), " is meant, write it so; else ", custom);
  return strCat("write the node with other ops (", base::supportedOpsCall(), " names them), or ", custom);
}

}  // namespace

void OnnxImporter::report(const NodeDef& node, Issue::Kind kind, std::string reason) {
  std::string details = strCat("opset ", opsetOf(node));
  for (const std::string& input : node.inputs) {
    auto value = values_.find(input);
    if (value == values_.end()) continue;
    if (value->second.value)
      details += ", " + ir::typeToString(NodeContext::typeOf(value->second.value));
    else if (value->second.constant)
      details += ", " + value->second.constant->type().toString();
    else
      continue;
    break;
  }
  std::vector<std::string> names;
  auto add = [&](const std::optional<shape::DimExpr>& size) {
    if (size)
      for (const std::string& name : size->symbols()) names.push_back(name);
  };
  for (const std::string& input : node.inputs) {
    auto value = values_.find(input);
    if (value == values_.end() || kind != Issue::Kind::kFreeDimension) continue;
    if (value->second.elements) llvm::for_each(value->second.elements->values, add);
    if (value->second.value) llvm::for_each(NodeContext::dims(NodeContext::typeOf(value->second.value)), add);
  }
  // No option gives a size to these.
  for (const std::string& name : names)
    if (hasDataSize(DimExpr::symbol(name)) && kind == Issue::Kind::kFreeDimension) {
      kind = Issue::Kind::kUnsupported;
      reason += strCat(" that depends on data (", name, ")");
    }
  Issue issue{kind, node.name, node.op, std::move(details), std::move(reason), std::move(names)};
  if (kind == Issue::Kind::kUnsupported) {
    describeNode(issue, node);
    issue.help = helpFor(node, opsetOf(node), issue.reason);
  }
  issues_.push_back(std::move(issue));
  if (kind == Issue::Kind::kUnsupported) lookIntoBodies(node);
}

std::map<std::string, NodeOrigin> OnnxImporter::origins() const {
  std::map<std::string, NodeOrigin> found;
  for (const NodeDef& node : model_.graph.nodes) found.try_emplace(node.name, NodeOrigin{node.domain, versionOf(node)});
  return found;
}

int64_t OnnxImporter::versionOf(const NodeDef& node) const {
  if (node.opset > 0) return node.opset;
  const auto version = model_.opsets.find(node.domain);
  return version != model_.opsets.end() ? version->second : node.domain.empty() ? opset_ : 0;
}

void OnnxImporter::describeNode(Issue& issue, const NodeDef& node) const {
  issue.domain = node.domain;
  issue.opset = versionOf(node);
  for (const std::string& name : node.inputs)
    if (!name.empty()) issue.inputs.push_back({base::clipped(name), base::clipped(typeText(name))});
  for (const std::string& name : node.outputs)
    if (!name.empty()) issue.outputs.push_back({base::clipped(name), base::clipped(typeText(name))});
}

void OnnxImporter::describePart(Issue& issue, const std::string& part, const ValueInfo& info) const {
  issue.part = part, issue.partName = info.name;
  issue.outputs.push_back({base::clipped(info.name), base::clipped(declaredText(info))});
  issue.help = info.isTensor
                   ? strCat("export the model with numbers of a type that devices have, in few dimensions, for this ",
                            part, "; convert the data before they are given")
                   : strCat("export the model with a tensor in place of this ", part);
}

std::string OnnxImporter::typeText(const std::string& name) const {
  if (auto found = values_.find(name); found != values_.end()) {
    const ImportedValue& value = found->second;
    if (value.value) return ir::typeToString(NodeContext::typeOf(value.value));
    if (value.constant) return value.constant->type().toString();
    if (value.elements)
      return strCat(value.elements->isScalar ? std::string() : strCat(value.elements->values.size(), "x"),
                    elementTypeName(value.elements->element));
  }
  for (const auto* declarations : {&declared_, &declaredOutputs_})
    if (auto found = declarations->find(name); found != declarations->end()) return declaredText(*found->second);
  for (const ValueInfo& input : model_.graph.inputs)
    if (input.name == name) return declaredText(input);
  return {};
}

void OnnxImporter::look(const NodeDef& node) {
  const OpRow* row = findRow(node.op, node.domain);
  if (row || !customOps_.has(node.domain, node.op))
    if (std::string reason = refusal(node, row); !reason.empty())
      return report(node, Issue::Kind::kUnsupported, std::move(reason));
  lookIntoBodies(node);
}

void OnnxImporter::lookIntoBodies(const NodeDef& node) {
  for (const NodeAttribute& attribute : node.attributes) {
    if (!attribute.graph || !walked_.insert(attribute.graph.get()).second) continue;
    for (const ValueInfo& value : attribute.graph->values) declared_.emplace(value.name, &value);
    for (const ValueInfo& value : attribute.graph->outputs) declaredOutputs_.emplace(value.name, &value);
    for (const RefusedInitializer& refused : attribute.graph->refused) reportInitializer(refused);
    for (const NodeDef& inner : attribute.graph->nodes) {
      // Control flow inside is part of what is reported already.
      if (isControlFlow(inner)) {
        lookIntoBodies(inner);
        continue;
      }
      NodeDef named = inner;
      named.name = strCat(node.name, "/", attribute.name, "/", inner.name);
      look(named);
    }
  }
}

std::string OnnxImporter::refusal(const NodeDef& node, const OpRow* row) const {
  if (!row) {
    if (!node.domain.empty() && node.domain != "com.microsoft")
      return strCat("ops of the domain '", node.domain, "' are not supported; ", base::optionName("plugins"),
                    " gives a file of custom ops");
    return "the op is not supported";
  }
  if (node.domain.empty() && (opsetOf(node) < row->minOpset || opsetOf(node) > row->maxOpset))
    return strCat("supported in opsets ", row->minOpset, " to ", row->maxOpset, "; export with opset_version=17");
  if (std::max(node.inputs.size(), node.outputs.size()) > kMostOperands)
    return strCat("it has ", node.inputs.size(), " inputs and ", node.outputs.size(), " outputs, at most ",
                  kMostOperands, " are possible");
  return {};
}

void OnnxImporter::reportInitializer(const RefusedInitializer& refused) {
  Issue issue{Issue::Kind::kUnsupported, "", "", "", refused.reason};
  issue.part = "initializer", issue.partName = refused.name;
  issue.help = "export the model with dense numbers in its place";
  issues_.push_back(std::move(issue));
}

void OnnxImporter::checkOpset() {
  if (opset_ >= 1 && opset_ <= kNewestOpset) return;
  Issue issue{
      Issue::Kind::kUnsupported, "", "", "",
      strCat("opset ", opset_, " is not supported (1 to ", kNewestOpset, " are); export with opset_version=17")};
  issue.part = "model", issue.partName = model_.graph.name, issue.opset = opset_;
  issue.help = "export the model with opset_version=17";
  issues_.push_back(std::move(issue));
  // The nodes are looked at by the nearest one that is known.
  opset_ = opset_ < 1 ? 1 : kNewestOpset;
  followsFromWhole_ = true;
}

void OnnxImporter::checkInterface() {
  auto refuse = [&](size_t count, const std::string& what) {
    Issue issue{Issue::Kind::kUnsupported, "", "", "",
                strCat("the number of the model's ", what, " is ", count, ", at most ", kMostOperands,
                       " are possible; export the model with fewer, larger tensors")};
    issue.part = "model", issue.partName = model_.graph.name;
    issue.help = strCat("export the model with fewer, larger ", what);
    issues_.push_back(std::move(issue));
    followsFromWhole_ = true;
  };
  if (const size_t inputs = realInputs().size(); inputs > kMostOperands) refuse(inputs, "inputs");
  if (model_.graph.outputs.size() > kMostOperands) refuse(model_.graph.outputs.size(), "outputs");
}

Status OnnxImporter::failure() const {
  constexpr size_t kMostIssues = 200;
  auto describe = [&](const Issue& issue) {
    std::string text;
    if (!issue.node.empty()) {
      text = strCat(issue.op, " '", issue.node, "'");
      if (!issue.details.empty()) text += strCat(" (", issue.details, ")");
      text += ": ";
    }
    text += issue.reason;
    text = base::clipped(std::move(text));  // Names in a damaged file may have any length.
    return text;
  };
  bool unsupported = false, free = false, isEach = false;
  std::vector<std::string> names;  // Only those that nodes ask for, where they are known.
  for (const Issue& issue : issues_) {
    unsupported |= issue.kind == Issue::Kind::kUnsupported;
    if (issue.kind != Issue::Kind::kFreeDimension) continue;
    free = true;
    isEach |= issue.names.empty();
    names.insert(names.end(), issue.names.begin(), issue.names.end());
  }
  std::vector<std::string> asked = freeNames_;
  if (!isEach) llvm::erase_if(asked, [&](const std::string& name) { return !llvm::is_contained(names, name); });
  if (asked.empty()) asked = freeNames_;
  const std::string sizes =
      !free ? ""
            : strCat(asked.size() == 1 ? "; give the free dimension a size: " : "; give the free dimensions sizes: ",
                     sizeOptions(asked));
  StatusCode code = unsupported ? StatusCode::kUnimplemented : StatusCode::kInvalidArgument;
  if (issues_.size() == 1) return Status(code, strCat("'", model_.path, "': ", describe(issues_[0]), sizes));
  std::string text = strCat(
      "'", model_.path, "': ", issues_.size(), " problems",
      unsupported ? strCat(" (", base::supportedOpsCall(), " shows what is supported)") : std::string(), sizes, ":");
  for (const Issue& issue : llvm::ArrayRef(issues_).take_front(kMostIssues)) text += "\n  " + describe(issue);
  if (issues_.size() > kMostIssues) text += strCat("\n  and ", issues_.size() - kMostIssues, " more");
  return Status(code, std::move(text));
}

}  // namespace hpu::importer
