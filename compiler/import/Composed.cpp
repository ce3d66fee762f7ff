// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Composed.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/import/GraphImpl.h"
#include "hpu/size_examples.h"
#include "mlir/IR/IRMapping.h"

namespace hpu::importer {
namespace {

using shape::DimExpr;

/// The operands of a formula, and the names that their sizes are made of.
class Operands {
 public:
  explicit Operands(const std::vector<Value>& inputs) : inputs_(inputs) {
    std::set<std::string> names;
    for (Value input : inputs) {
      std::vector<DimExpr> sizes;
      if (input)
        for (const auto& size : NodeContext::dims(NodeContext::typeOf(input))) {
          isAnonymous_ = isAnonymous_ || !size;
          sizes.push_back(size.value_or(DimExpr()));
          for (const std::string& name : sizes.back().symbols()) names.insert(name);
        }
      sizes_.push_back(std::move(sizes));
    }
    names_.assign(names.begin(), names.end());
    chooseSamples();
  }

  /// Sizes that are far from each other and from usual numbers, and of which none follows from another one in a simple
  /// way.
  void chooseSamples() {
    constexpr int64_t kSamples[3][2] = {{101, 12}, {211, 26}, {67, 18}};
    samples_.resize(names_.empty() ? 1 : 3);
    for (size_t k = 0; k < samples_.size(); ++k)
      for (size_t n = 0; n < names_.size(); ++n)
        samples_[k][names_[n]] = kSamples[k][0] + kSamples[k][1] * static_cast<int64_t>(n);
  }
  /// The same within the bounds of the model's sizes, for a formula that has no meaning beyond. False: they are too
  /// narrow.
  bool chooseWithinBounds(const NodeContext& node) {
    constexpr int64_t kBelow[3][2] = {{0, 1}, {3, 3}, {4, 6}};
    for (size_t k = 0; k < samples_.size(); ++k)
      for (size_t n = 0; n < names_.size(); ++n) {
        int64_t& size = samples_[k][names_[n]];
        size = std::min(size,
                        node.most(DimExpr::symbol(names_[n])) - kBelow[k][0] - kBelow[k][1] * static_cast<int64_t>(n));
        if (size < 1) return false;
      }
    return true;
  }

  bool isAnonymous() const { return isAnonymous_; }  ///< A size has no name.
  bool isFree() const { return !names_.empty(); }
  const std::vector<shape::SymbolBindings>& samples() const { return samples_; }
  const std::vector<Value>& inputs() const { return inputs_; }

  /// The inputs as ones of a graph of sample `k`; behind them one for each name, so that every name is a size.
  StatusOr<std::vector<hpu::Value>> addTo(Graph& graph, size_t k) const {
    std::vector<hpu::Value> values;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      values.emplace_back();
      if (!inputs_[i]) continue;
      TensorType type{ir::elementType(NodeContext::typeOf(inputs_[i]).getElementType()), {}};
      for (const DimExpr& size : sizes_[i]) {
        const std::optional<int64_t> number = size.evaluate(samples_[k]);
        if (!number) return invalidArgument("the size " + size.text() + " is too large");
        type.shape.push_back(*number);
      }
      HPU_ASSIGN(values.back(), graph.input("input " + std::to_string(i), type));
    }
    for (const std::string& name : names_)
      HPU_RETURN_IF_ERROR(graph.input("size " + name, {ElementType::kBool, {samples_[k].at(name)}}).status());
    return values;
  }

  SizeExamples examples() const {
    SizeExamples examples;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i]) continue;
      std::vector<std::string>& dims = examples.inputs.emplace_back();
      for (const DimExpr& size : sizes_[i]) dims.push_back(size.isConstant() ? std::string() : size.text());
    }
    for (const std::string& name : names_) examples.inputs.push_back({name});
    examples.sizes = samples_;
    return examples;
  }

 private:
  const std::vector<Value>& inputs_;
  std::vector<std::vector<DimExpr>> sizes_;  ///< By input.
  std::vector<std::string> names_;
  std::vector<shape::SymbolBindings> samples_;
  bool isAnonymous_ = false;
};

struct Built {
  Graph graph;
  std::vector<bool> isSet;  ///< By result.
};

StatusOr<Built> build(NodeContext& node, const Operands& operands, size_t k, const Formula& formula) {
  Built built{GraphAccess::empty({node.context(), [](mlir::MLIRContext*) {}}, node.def().name), {}};
  HPU_ASSIGN(std::vector<hpu::Value> inputs, operands.addTo(built.graph, k));
  compose::Emitter emitter(built.graph, node.def().name);
  const std::vector<hpu::Value> results = formula(emitter, inputs);
  HPU_RETURN_IF_ERROR(emitter.status());
  for (const hpu::Value& result : results) {
    built.isSet.push_back(result.handle != nullptr);
    if (result.handle) HPU_RETURN_IF_ERROR(built.graph.output("result " + std::to_string(built.isSet.size()), result));
  }
  return built;
}

StatusOr<Built> buildForAllSizes(NodeContext& node, const Operands& operands, const Formula& formula) {
  HPU_ASSIGN(Built first, build(node, operands, 0, formula));
  if (!operands.isFree()) return first;
  std::vector<Built> others;
  for (size_t k = 1; k < operands.samples().size(); ++k) {
    HPU_ASSIGN(Built other, build(node, operands, k, formula));
    others.push_back(std::move(other));
  }
  std::vector<Graph*> graphs = {&first.graph};
  for (Built& other : others) graphs.push_back(&other.graph);
  HPU_RETURN_IF_ERROR(freeSizes(graphs, operands.examples()));
  return first;
}

/// Ops of the graph at the node's place; what its outputs are.
std::vector<Value> insert(NodeContext& node, const Operands& operands, const Built& built) {
  mlir::func::FuncOp main = GraphAccess::impl(built.graph).main();
  mlir::IRMapping mapping;
  unsigned argument = 0;
  for (Value input : operands.inputs())
    if (input) mapping.map(main.getArgument(argument++), input);
  std::vector<Value> results;
  for (mlir::Operation& op : main.getBody().front()) {
    if (op.hasTrait<mlir::OpTrait::IsTerminator>()) {
      unsigned next = 0;
      for (bool isSet : built.isSet)
        results.push_back(isSet ? mapping.lookupOrDefault(op.getOperand(next++)) : Value());
      break;
    }
    mlir::Operation* copy = node.builder().clone(op, mapping);
    copy->setLoc(node.location());
  }
  return results;
}

}  // namespace

std::vector<Value> composedValues(NodeContext& node, const std::vector<Value>& inputs, const Formula& formula) {
  if (node.failed()) return {};
  Operands operands(inputs);
  if (operands.isAnonymous()) return node.needsSize("a size that has no name"), std::vector<Value>();
  StatusOr<Built> built = buildForAllSizes(node, operands, formula);
  if (!built.ok() && operands.isFree() && operands.chooseWithinBounds(node))
    built = buildForAllSizes(node, operands, formula);
  if (!built.ok()) {
    const std::string reason(built.status().message());
    if (built.status().code() == StatusCode::kInvalidArgument)
      node.invalid(reason);
    else if (operands.isFree())
      node.needsSize(reason);
    else
      node.unsupported(reason);
    return {};
  }
  return insert(node, operands, *built);
}

void composed(NodeContext& node, const std::vector<Value>& inputs, const Formula& formula) {
  const std::vector<Value> results = composedValues(node, inputs, formula);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i]) node.setOutput(i, results[i]);
}

}  // namespace hpu::importer
