// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/LocalFunctions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::importer {
namespace {

using base::strCat;

/// Functions that call each other twice grow as powers of two; no importer takes so many nodes.
constexpr size_t kMostNodes = 1 << 16;

using Key = std::pair<std::string, std::string>;

std::string textOf(const FunctionDef& function) {
  return function.domain.empty() ? function.name : function.domain + "." + function.name;
}

/// The body of a function at one call.
class Instance {
 public:
  Instance(const OnnxModel& model, const FunctionDef& function, const NodeDef& call, std::set<std::string>& taken,
           std::set<std::string>& nodeNames)
      : model_(model), function_(function), call_(call), taken_(taken), nodeNames_(nodeNames) {}

  StatusOr<std::vector<NodeDef>> nodes() {
    HPU_RETURN_IF_ERROR(checkCall());
    for (size_t i = 0; i < function_.inputs.size(); ++i)
      names_[function_.inputs[i]] = i < call_.inputs.size() ? call_.inputs[i] : std::string();
    std::vector<NodeDef> copies;  // Outputs that are an input, or another output.
    for (size_t i = 0; i < std::min(function_.outputs.size(), call_.outputs.size()); ++i) {
      const std::string &formal = function_.outputs[i], &actual = call_.outputs[i];
      if (actual.empty() || names_.try_emplace(formal, actual).second) continue;
      NodeDef copy;
      copy.op = "Identity";
      copy.name = strCat(call_.name, "/output_", i);
      copy.inputs = {names_[formal]};
      copy.outputs = {actual};
      copies.push_back(std::move(copy));
    }
    std::vector<NodeDef> nodes = function_.nodes;
    rename(nodes);
    nodes.insert(nodes.end(), copies.begin(), copies.end());
    return nodes;
  }

 private:
  Status checkCall() const {
    auto check = [&](const char* what, size_t given, size_t most) {
      if (given <= most) return okStatus();
      return invalidArgument(strCat("node '", call_.name, "' calls the function '", textOf(function_), "' with ", given,
                                    " ", what, ", and it has ", most, "; export the model again"));
    };
    HPU_RETURN_IF_ERROR(check("inputs", call_.inputs.size(), function_.inputs.size()));
    return check("outputs", call_.outputs.size(), function_.outputs.size());
  }

  std::string named(const std::string& name) {
    if (name.empty()) return name;
    auto [it, isNew] = names_.try_emplace(name);
    if (isNew) {
      it->second = strCat(call_.name, "/", name);
      for (int i = 2; !taken_.insert(it->second).second; ++i) it->second = strCat(call_.name, "/", name, "_", i);
    }
    return it->second;
  }

  void rename(std::vector<NodeDef>& nodes) {
    for (NodeDef& node : nodes) {
      // Calls may share a name; what is said of a node names one.
      const std::string name = strCat(call_.name, "/", node.name);
      node.name = name;
      for (int i = 2; !nodeNames_.insert(node.name).second; ++i) node.name = strCat(name, "_", i);
      for (std::string& input : node.inputs) input = named(input);
      for (std::string& output : node.outputs) output = named(output);
      setOpset(node);
      setAttributes(node.attributes);
    }
  }

  void rename(GraphDef& graph) {
    for (auto* values : {&graph.inputs, &graph.outputs, &graph.values})
      for (ValueInfo& value : *values) value.name = named(value.name);
    for (TensorData& tensor : graph.initializers) tensor.name = named(tensor.name);
    rename(graph.nodes);
  }

  void setOpset(NodeDef& node) const {
    auto own = function_.opsets.find(node.domain);
    if (own == function_.opsets.end()) return;
    auto models = model_.opsets.find(node.domain);
    if (models == model_.opsets.end() || models->second != own->second) node.opset = own->second;
  }

  /// An attribute that refers to one which the call leaves out is left out as well.
  void setAttributes(std::vector<NodeAttribute>& attributes) {
    std::erase_if(attributes, [&](NodeAttribute& attribute) {
      if (!attribute.reference.empty()) {
        auto given = std::find_if(call_.attributes.begin(), call_.attributes.end(),
                                  [&](const NodeAttribute& other) { return other.name == attribute.reference; });
        if (given == call_.attributes.end()) return true;
        std::string name = std::move(attribute.name);
        attribute = *given;  // Names in its graph are those of the caller.
        attribute.name = std::move(name);
        return false;
      }
      if (attribute.graph) {
        auto graph = std::make_shared<GraphDef>(*attribute.graph);
        rename(*graph);
        attribute.graph = std::move(graph);
      }
      return false;
    });
  }

  const OnnxModel& model_;
  const FunctionDef& function_;
  const NodeDef& call_;
  std::set<std::string>&taken_, &nodeNames_;
  std::map<std::string, std::string> names_;  ///< Of the body: what they are outside.
};

class Inliner {
 public:
  using IsTaken = base::FunctionRef<bool(const std::string&, const std::string&)>;
  Inliner(OnnxModel& model, IsTaken isTaken) : model_(model), isTaken_(isTaken) {}

  Status run() {
    for (const FunctionDef& function : model_.functions)
      if (!functions_.emplace(Key(function.domain, function.name), &function).second)
        return invalidArgument(strCat("there are two functions '", textOf(function),
                                      "' (overloads are not supported); export the model again"));
    noteNames(model_.graph);
    return expand(model_.graph);
  }

 private:
  void noteNames(const GraphDef& graph) {
    for (const auto* values : {&graph.inputs, &graph.outputs, &graph.values})
      for (const ValueInfo& value : *values) taken_.insert(value.name);
    for (const TensorData& tensor : graph.initializers) taken_.insert(tensor.name);
    for (const NodeDef& node : graph.nodes) {
      nodeNames_.insert(node.name);
      taken_.insert(node.outputs.begin(), node.outputs.end());
      for (const NodeAttribute& attribute : node.attributes)
        if (attribute.graph) noteNames(*attribute.graph);
    }
  }

  bool callsAny(const GraphDef& graph) const {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const NodeDef& node) {
      return calledBy(node) || std::any_of(node.attributes.begin(), node.attributes.end(), [&](const auto& attribute) {
               return attribute.graph && callsAny(*attribute.graph);
             });
    });
  }

  const FunctionDef* calledBy(const NodeDef& node) const {
    auto found = functions_.find({node.domain, node.op});
    return found == functions_.end() || isTaken_(node.domain, node.op) ? nullptr : found->second;
  }

  Status expand(GraphDef& graph) {
    if (!callsAny(graph)) return okStatus();
    std::vector<NodeDef> nodes;
    HPU_RETURN_IF_ERROR(append(std::move(graph.nodes), nodes));
    graph.nodes = std::move(nodes);
    return okStatus();
  }

  Status append(std::vector<NodeDef> from, std::vector<NodeDef>& to) {
    for (NodeDef& node : from) {
      for (NodeAttribute& attribute : node.attributes) {
        if (!attribute.graph || !callsAny(*attribute.graph)) continue;
        auto graph = std::make_shared<GraphDef>(*attribute.graph);
        HPU_RETURN_IF_ERROR(expand(*graph));
        attribute.graph = std::move(graph);
      }
      const FunctionDef* function = calledBy(node);
      if (function)
        HPU_RETURN_IF_ERROR(appendCall(*function, node, to));
      else
        to.push_back(std::move(node));
    }
    return okStatus();
  }

  Status appendCall(const FunctionDef& function, const NodeDef& call, std::vector<NodeDef>& to) {
    auto again = std::find(calls_.begin(), calls_.end(), &function);
    if (again != calls_.end()) {
      std::string circle;
      for (; again != calls_.end(); ++again) circle += textOf(**again) + " -> ";
      return invalidArgument(strCat("the function '", textOf(function), "' calls itself (", circle, textOf(function),
                                    "); export the model again"));
    }
    nodes_ += function.nodes.size();
    if (nodes_ > kMostNodes)
      return unimplemented(strCat("calls of functions (the last: node '", call.name, "') make more than ", kMostNodes,
                                  " nodes of the model"));
    HPU_ASSIGN(std::vector<NodeDef> body, Instance(model_, function, call, taken_, nodeNames_).nodes());
    calls_.push_back(&function);
    HPU_RETURN_IF_ERROR(append(std::move(body), to));
    calls_.pop_back();
    return okStatus();
  }

  OnnxModel& model_;
  const IsTaken isTaken_;
  std::map<Key, const FunctionDef*> functions_;
  std::set<std::string> taken_, nodeNames_;  ///< Of values, and of nodes.
  std::vector<const FunctionDef*> calls_;    ///< That are being replaced, the outermost first.
  size_t nodes_ = 0;
};

}  // namespace

Status inlineFunctions(OnnxModel& model, base::FunctionRef<bool(const std::string&, const std::string&)> isTaken) {
  if (model.functions.empty()) return okStatus();
  return Inliner(model, isTaken).run().withContext(strCat("'", model.path, "'"));
}

}  // namespace hpu::importer
