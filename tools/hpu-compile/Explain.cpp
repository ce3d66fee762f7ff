// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-compile/Explain.h"

#include <algorithm>
#include <cstdio>

#include "base/Format.h"
#include "perfmodel/Timeline.h"
#include "recipe/Recipe.h"

namespace hpu::tools {
namespace {

/// Commands and modelled time of one op.
struct OpCost {
  int64_t commands = 0;
  double us = 0;
  std::string bound;
};

OpCost costOf(const recipe::Program& program, uint32_t op) {
  const arch::TargetDesc& target = arch::targetDesc(program.target);
  OpCost total;
  for (const recipe::Queue& queue : program.queues)
    for (const recipe::Command& command : queue.commands) {
      if (command.op != op) continue;
      perfmodel::Cost cost = perfmodel::commandCost(program, command, target, target.clock());
      ++total.commands;
      total.us += static_cast<double>(cost.alone) / 1e6;
      total.bound = cost.bound;
    }
  return total;
}

std::string bundleOf(const recipe::Program& program, uint32_t op) {
  for (const recipe::Bundle& bundle : program.bundles)
    if (std::find(bundle.ops.begin(), bundle.ops.end(), op) != bundle.ops.end() &&
        bundle.ops.size() > 1)
      return base::strCat("bundle of ", bundle.ops.size(), " ops in ", bundle.slices, " slices");
  return "alone";
}

}  // namespace

StatusOr<ExitCode> explainNode(Tool& tool, const Recipe& recipe, const std::string& node) {
  const recipe::Program& program = *recipe.program();
  auto matches = [&](bool exact) {
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < program.sourceNodes.size(); ++i) {
      const std::string& name = program.sourceNodes[i].name;
      if (exact ? name == node : name.find(node) != std::string::npos) found.push_back(i);
    }
    return found;
  };
  std::vector<uint32_t> sources = matches(true);
  if (sources.empty()) sources = matches(false);
  std::vector<std::vector<std::string>> rows = {
      {"op", "engine", "unit", "space", "commands", "us", "bound", "nodes"}};
  Json& list = tool.json()["explain"] = Json::array();
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    const recipe::Op& op = program.ops[i];
    bool touches = std::any_of(op.provenance.begin(), op.provenance.end(), [&](uint32_t source) {
      return std::find(sources.begin(), sources.end(), source) != sources.end();
    });
    if (!touches) continue;
    OpCost cost = costOf(program, i);
    std::string nodes;
    Json nodeList = Json::array();
    for (uint32_t source : op.provenance) {
      const recipe::SourceNode& origin = program.sourceNodes[source];
      nodes += (nodes.empty() ? "" : ", ") + origin.op + " " + origin.name;
      nodeList.append(Json().set("name", origin.name).set("op", origin.op));
    }
    char us[32];
    snprintf(us, sizeof us, "%.2f", cost.us);
    rows.push_back({shortened(op.name), std::string(engineName(op.engine)), bundleOf(program, i),
                    shapeToString(op.space), std::to_string(cost.commands), us, cost.bound, nodes});
    list.append(Json()
                    .set("op", op.name)
                    .set("engine", engineName(op.engine))
                    .set("unit", bundleOf(program, i))
                    .set("commands", cost.commands)
                    .set("device_us", cost.us)
                    .set("bound", cost.bound)
                    .set("nodes", nodeList));
  }
  if (rows.size() == 1)
    return notFound("no device operation comes from a node named '" + node +
                    "': it is a view, was folded into a constant, or is not in the model");
  tool.printAlways(formatTable(rows));
  return ExitCode::kOk;
}

}  // namespace hpu::tools
