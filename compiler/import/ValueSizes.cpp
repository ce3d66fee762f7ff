// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/ValueSizes.h"

#include <map>
#include <set>

#include "base/Format.h"
#include "hpu/types.h"
#include "llvm/ADT/STLExtras.h"
#include "shape/DimExpr.h"

namespace hpu::importer {

using base::strCat;

namespace {

constexpr int64_t kMostSizes = 8;

/// Operands that say shapes, limits or numbers of elements.
const std::map<std::string, std::vector<size_t>>& sizeOperands() {
  // Never destroyed, as the next: compilations may go on while the process exits.
  static const auto& operands = *new std::map<std::string, std::vector<size_t>>{
      {"ConstantOfShape", {0}}, {"Expand", {1}},   {"OneHot", {1}}, {"Pad", {1}},  {"Range", {0, 1}}, {"Reshape", {1}},
      {"Resize", {3}},          {"Slice", {1, 2}}, {"Split", {1}},  {"Tile", {1}}, {"TopK", {1}}};
  return operands;
}

/// Operands whose elements those of the result are computed from (SymbolicShapes.cpp); nothing: all of them.
const std::map<std::string, std::vector<size_t>>& arithmetic() {
  static const auto& ops = *[] {
    auto* table = new std::map<std::string, std::vector<size_t>>;
    for (const char* op : {"Abs", "Add", "Cast", "Ceil", "Concat", "Div", "Floor", "Identity", "Max", "Min", "Mod",
                           "Mul", "Neg", "Sub", "Where"})
      (*table)[op] = {};
    for (const char* op : {"Gather", "ReduceMax", "ReduceMin", "Reshape", "Slice", "Squeeze", "Unsqueeze"})
      (*table)[op] = {0};
    (*table)["ScatterElements"] = {0, 2};
    return table;
  }();
  return ops;
}

bool isSmall(const ValueInfo& info) {
  const ElementType element = elementOfOnnxType(info.dataType);
  if (!info.isTensor || !info.hasShape || info.shape.size() > 1) return false;
  if (element != ElementType::kI64 && element != ElementType::kI32) return false;
  return info.shape.empty() || (info.shape[0].size >= 1 && info.shape[0].size <= kMostSizes);
}

}  // namespace

std::vector<ValueSize> findValueSizes(const GraphDef& graph, const std::vector<const ValueInfo*>& inputs) {
  std::set<std::string> asked;  // Names whose elements are sizes.
  for (const NodeDef& node : llvm::reverse(graph.nodes)) {
    auto ask = [&](const std::vector<size_t>& operands) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if ((operands.empty() || llvm::is_contained(operands, i)) && !node.inputs[i].empty())
          asked.insert(node.inputs[i]);
    };
    if (!node.domain.empty()) continue;
    if (auto own = sizeOperands().find(node.op); own != sizeOperands().end()) ask(own->second);
    // How often a loop runs, if an input says it as it is: what arithmetic limits may be left to the device.
    if (node.op == "Loop" && !node.inputs.empty() &&
        llvm::any_of(inputs, [&](const ValueInfo* input) { return input->name == node.inputs[0]; }))
      asked.insert(node.inputs[0]);
    auto computed = arithmetic().find(node.op);
    const bool isAsked = llvm::any_of(node.outputs, [&](const std::string& name) { return asked.count(name) != 0; });
    if (computed != arithmetic().end() && isAsked) ask(computed->second);
  }
  std::set<std::string> taken;
  for (const ValueInfo* input : inputs)
    for (const DimSpec& dim : input->shape)
      if (!dim.symbol.empty())
        for (const std::string& name : shape::DimExpr::parse(dim.symbol).symbols()) taken.insert(name);
  std::vector<ValueSize> sizes;
  for (const ValueInfo* input : inputs) {
    if (!asked.count(input->name) || !isSmall(*input)) continue;
    const int64_t count = input->shape.empty() ? 1 : input->shape[0].size;
    for (int64_t i = 0; i < count; ++i) {
      std::string name = count == 1 ? input->name : strCat(input->name, "_", i);
      while (!taken.insert(name).second) name += "_value";
      sizes.push_back({input->name, static_cast<uint32_t>(i), name});
    }
  }
  return sizes;
}

}  // namespace hpu::importer
