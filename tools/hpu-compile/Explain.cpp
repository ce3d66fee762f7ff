// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-compile/Explain.h"

#include <algorithm>
#include <cstdio>

#include "base/Format.h"
#include "perfmodel/Timeline.h"
#include "recipe/Recipe.h"

namespace hpu::tools {
namespace {

/// Commands of one op and the modelled time of each when it has the memories to itself, added up.
struct OpCost {
  int64_t commands = 0;
  perfmodel::Picoseconds time = 0;
  std::array<perfmodel::Picoseconds, perfmodel::kNumTerms> terms{};
  perfmodel::Bytes bytes;
  std::string bound;
};

OpCost costOf(const recipe::Program& program, uint32_t op) {
  const arch::TargetDesc& target = arch::targetDesc(program.target);
  const perfmodel::SramUse use(program);
  OpCost total;
  for (const recipe::Queue& queue : program.queues)
    for (const recipe::Command& command : queue.commands) {
      if (command.op != op) continue;
      perfmodel::Cost cost = perfmodel::commandCost(program, command, target, target.clock(), &use);
      ++total.commands;
      total.time += cost.alone;
      for (int i = 0; i < perfmodel::kNumTerms; ++i) total.terms[i] += cost.terms[i];
      total.bytes.hbm += cost.bytes.hbm;
      total.bytes.sram += cost.bytes.sram;
      total.bound = cost.bound;
    }
  return total;
}

/// "61 % ideal, 22 % memory, 17 % overhead": the largest first.
std::string termsText(const OpCost& cost) {
  std::vector<std::pair<double, std::string_view>> parts;
  for (int i = 0; i < perfmodel::kNumTerms; ++i) {
    double percent = cost.time ? 100.0 * static_cast<double>(cost.terms[i]) / static_cast<double>(cost.time) : 0;
    if (percent >= 0.5) parts.emplace_back(percent, perfmodel::termName(static_cast<perfmodel::Term>(i)));
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [percent, name] : parts) {
    char item[64];
    snprintf(item, sizeof item, "%s%.0f %% %.*s", text.empty() ? "" : ", ", percent, static_cast<int>(name.size()),
             name.data());
    text += item;
  }
  return text;
}

std::string bundleOf(const recipe::Program& program, uint32_t op) {
  for (const recipe::Bundle& bundle : program.bundles)
    if (std::find(bundle.ops.begin(), bundle.ops.end(), op) != bundle.ops.end() && bundle.ops.size() > 1)
      return base::strCat("bundle of ", bundle.ops.size(), " ops in ", bundle.slices, " slices");
  return "alone";
}

bool comesFrom(const recipe::Program& program, const recipe::Op& op, const std::string& node) {
  return std::any_of(op.provenance.begin(), op.provenance.end(),
                     [&](uint32_t source) { return program.sourceNodes[source].name == node; });
}

void printPhases(Tool& tool, const CompileResult& result, const std::string& node) {
  Json& phases = tool.json()["explain_phases"] = Json::array();
  tool.printAlways(base::strCat("node '", node, "'"));
  std::string last;
  for (const NodeNote& note : result.explanation) {
    phases.append(Json().set("phase", note.phase).set("text", note.text));
    char label[32];
    snprintf(label, sizeof label, "  %-10s ", note.phase == last ? "" : note.phase.c_str());
    tool.printAlways(label + note.text);
    last = note.phase;
  }
}

/// The ops of the program, and of its parts, that come from the node.
void explainOps(const recipe::Program& program, const std::string& node, Table& table, Json& list) {
  for (const recipe::Part& part : program.parts) explainOps(*part.program, node, table, list);
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    const recipe::Op& op = program.ops[i];
    if (!comesFrom(program, op, node)) continue;
    OpCost cost = costOf(program, i);
    Json nodes = Json::array();
    for (uint32_t source : op.provenance)
      nodes.append(Json().set("name", program.sourceNodes[source].name).set("op", program.sourceNodes[source].op));
    double us = static_cast<double>(cost.time) / 1e6;
    char text[32];
    snprintf(text, sizeof text, "%.2f", us);
    table.row({op.name, std::string(engineName(op.engine)), bundleOf(program, i), shapeToString(op.space),
               std::to_string(cost.commands), text, cost.bound, termsText(cost)});
    Json terms;
    for (int t = 0; t < perfmodel::kNumTerms; ++t)
      terms.set(std::string(perfmodel::termName(static_cast<perfmodel::Term>(t))),
                static_cast<double>(cost.terms[t]) / 1e6);
    list.append(Json()
                    .set("op", op.name)
                    .set("engine", engineName(op.engine))
                    .set("unit", bundleOf(program, i))
                    .set("commands", cost.commands)
                    .set("device_us", us)
                    .set("bound", cost.bound)
                    .set("hbm_bytes", cost.bytes.hbm)
                    .set("sram_bytes", cost.bytes.sram)
                    .set("terms_us", terms)
                    .set("nodes", nodes));
  }
}

}  // namespace

void explainNode(Tool& tool, const CompileResult& result) {
  const std::string& node = result.explainedNode;
  printPhases(tool, result, node);
  Json& list = tool.json()["explain"] = Json::array();
  if (!result.recipe.valid()) return;
  Table table({Column::name("op"), Column::word("engine"), Column::text("unit"), Column::word("space").leaveOut(1),
               Column::number("commands").leaveOut(2), Column::number("us"), Column::word("bound"),
               Column::text("why not at the peak")});
  explainOps(*result.recipe.program(), node, table, list);
  if (table.empty()) {
    tool.printAlways("  device     no operation of its own: see the last phase above");
    return;
  }
  tool.printAlways("");
  tool.printAlways(table);
}

}  // namespace hpu::tools
