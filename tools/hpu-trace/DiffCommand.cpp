// SPDX-License-Identifier: Apache-2.0
// hpu-trace diff: what became slower or faster between two traces, matched by the model's nodes and not by time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/StatusMacros.h"
#include "runtime/trace/ExportTracks.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

/// Per launch, so that traces of 5 and of 50 iterations can be compared.
struct Side {
  double deviceUs = 0, busyUs[kNumTracks] = {};
  double termsUs[perfmodel::kNumTerms] = {};
  int64_t launches = 0;
};

struct Row {
  std::string name, kind;
  double a = 0, b = 0;
  int64_t unitsA = 0, unitsB = 0;  ///< 0: not there.
  double change() const { return b - a; }
};

Side sideOf(const TraceData& trace, double per) {
  Analysis a = analyse(trace);
  Side side;
  side.launches = a.launches;
  for (int t = 0; t < kNumTracks; ++t) side.busyUs[t] = microseconds(a.engines[static_cast<size_t>(t)].busy) / per;
  for (int t = 0; t < perfmodel::kNumTerms; ++t)
    side.termsUs[t] = microseconds(a.all.terms[static_cast<size_t>(t)]) / per;
  // Launches back to back or apart: only the time in which one runs.
  double launched = 0;
  for (const trace::TracedDevice& d : trace.devices)
    for (const trace::LaunchEvent& launch : d.launches) launched += microseconds(launch.end - launch.start);
  side.deviceUs = (a.launches > 0 ? launched : microseconds(a.deviceTimeSum)) / per;
  return side;
}

/// A unit of fused nodes (or a runtime cause without any), with its busy time in both traces.
struct Unit {
  std::set<std::string> nodes;  ///< Empty: `name` is all.
  std::string name, kind;
  double us[2] = {};
  bool in[2] = {};
};

void addUnits(const TraceData& trace, double per, int side, std::map<std::string, Unit>& units) {
  std::unordered_map<const std::vector<trace::TracedNode>*, Unit*> known;
  for (const trace::TracedDevice& d : trace.devices)
    forEachSlice(d, [&](const trace::EngineSlice& s) {
      const bool hasNodes = s.nodes && !s.nodes->empty();
      Unit*& unit = known[hasNodes ? s.nodes : nullptr];
      if (!hasNodes) {
        unit = &units["\n" + std::string(trace.text(s.name))];
        unit->name = trace.text(s.name);
        unit->kind = trace.text(s.category);
      } else if (!unit) {
        std::set<std::string> nodes;
        for (const trace::TracedNode& node : *s.nodes) nodes.emplace(trace.text(node.name ? node.name : s.name));
        // By its nodes, whatever their order: bytes that names do not have keep them apart.
        std::string key;
        for (const std::string& node : nodes) key += node + '\0';
        unit = &units[key];
        if (unit->name.empty()) unit->name = unitName(trace, *s.nodes), unit->kind = unitKind(trace, *s.nodes);
        unit->nodes = std::move(nodes);
      }
      unit->us[side] += microseconds(s.end - s.start) / per;
      unit->in[side] = true;
    });
}

/// A row for each unit that both traces have. What is fused differently in the two is compared in the smallest groups
/// of whole units that hold the same nodes: no unit's time is divided among its nodes.
std::vector<Row> rowsOf(const std::map<std::string, Unit>& units) {
  std::vector<Row> rows;
  std::vector<const Unit*> open;
  for (const auto& [key, unit] : units) {
    if (unit.nodes.empty() || (unit.in[0] && unit.in[1]))
      rows.push_back({unit.name, unit.kind, unit.us[0], unit.us[1], unit.in[0], unit.in[1]});
    else
      open.push_back(&unit);
  }
  // Units that share a node are of one group.
  std::vector<size_t> group(open.size());
  std::iota(group.begin(), group.end(), size_t{0});
  auto find = [&](size_t i) {
    while (group[i] != i) i = group[i] = group[group[i]];
    return i;
  };
  std::unordered_map<std::string_view, size_t> owner;
  for (size_t i = 0; i < open.size(); ++i)
    for (const std::string& node : open[i]->nodes) {
      size_t first = find(owner.try_emplace(node, i).first->second), mine = find(i);
      group[std::max(first, mine)] = std::min(first, mine);
    }
  std::map<size_t, std::vector<const Unit*>> members;
  for (size_t i = 0; i < open.size(); ++i) members[find(i)].push_back(open[i]);
  for (const auto& [first, list] : members) {
    Row& row = rows.emplace_back();
    // The unit with the most nodes gives the name.
    const Unit* largest = *std::max_element(
        list.begin(), list.end(), [](const Unit* x, const Unit* y) { return x->nodes.size() < y->nodes.size(); });
    row.name = largest->name;
    row.kind = largest->kind;
    for (const Unit* unit : list) {
      row.a += unit->us[0], row.b += unit->us[1];
      row.unitsA += unit->in[0], row.unitsB += unit->in[1];
    }
  }
  return rows;
}

/// What was run: the nodes of the programs, and what they are called.
struct Model {
  std::set<std::pair<std::string, std::string>> nodes;  ///< Name and kind.
  std::set<std::string> programs, targets;
};

Model modelOf(const TraceData& trace) {
  Model model;
  for (const trace::TracedDevice& d : trace.devices) {
    model.targets.emplace(targetName(d.target));
    for (const trace::TracedProgram& program : d.programs) {
      model.programs.insert(printable(trace.text(program.name)));
      for (const trace::TracedOp& op : program.ops)
        for (const trace::TracedNode& node : op.nodes) model.nodes.emplace(trace.text(node.name), trace.text(node.op));
    }
  }
  return model;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text.empty() ? "no program" : text;
}

/// Whether two traces are of one model: builds of one share most of its nodes.
struct Likeness {
  size_t shared = 0, onlyA = 0, onlyB = 0;
  bool same() const { return shared + onlyA + onlyB == 0 || 2 * shared >= std::max(shared + onlyA, shared + onlyB); }
};

Likeness likenessOf(const Model& a, const Model& b) {
  Likeness likeness;
  for (const auto& node : a.nodes) likeness.shared += b.nodes.count(node);
  likeness.onlyA = a.nodes.size() - likeness.shared;
  likeness.onlyB = b.nodes.size() - likeness.shared;
  return likeness;
}

std::string us(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}
std::string change(double a, double b) {
  if (!(a > 0)) return b > 0 ? "new" : "-";
  if (!(b > 0)) return "gone";
  const double percent = 100 * (b / a - 1);
  if (std::abs(percent) < 0.05) return "0.0 %";  // What is too little to be shown has no sign.
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", percent);
  return text;
}

/// "3%" or "3" is 0.03.
StatusOr<double> parsePercent(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string rest(end);
  if (end == text.c_str() || (!rest.empty() && rest != "%") || !std::isfinite(value) || value < 0)
    return invalidArgument("--fail-above " + text + " is not a percentage such as 3%");
  return value / 100;
}

struct Options {
  std::string a, b, failAbove;
  int64_t limit = 20;
  bool partial = false, force = false;
};

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  double limit = -1;
  if (!options.failAbove.empty()) {
    HPU_ASSIGN(limit, parsePercent(options.failAbove));
  }
  HPU_ASSIGN(TraceData a, readForFigures(tool, options.a, options.partial));
  HPU_ASSIGN(TraceData b, readForFigures(tool, options.b, options.partial));
  const Model modelA = modelOf(a), modelB = modelOf(b);
  const Likeness likeness = likenessOf(modelA, modelB);
  tool.json()
      .set("same_model", likeness.same())
      .set("shared_nodes", static_cast<int64_t>(likeness.shared))
      .set("nodes_only_in_a", static_cast<int64_t>(likeness.onlyA))
      .set("nodes_only_in_b", static_cast<int64_t>(likeness.onlyB))
      .set("dropped_events", a.dropped + b.dropped);
  const std::string nodes = std::to_string(likeness.shared) + " nodes are in both, " + std::to_string(likeness.onlyA) +
                            " only in A, " + std::to_string(likeness.onlyB) + " only in B";
  if (!likeness.same()) {
    const std::string text = "A ran " + listed(modelA.programs) + ", B " + listed(modelB.programs) +
                             ", which are different models: " + nodes;
    if (!options.force) return failedPrecondition(text + "; --force compares them all the same");
    tool.note(text);
  } else if (likeness.onlyA + likeness.onlyB > 0) {
    tool.note("the models differ: " + nodes);
  }
  if (modelA.targets != modelB.targets)
    tool.note("A ran on " + listed(modelA.targets) + ", B on " + listed(modelB.targets));
  std::string missing;
  for (const auto& [trace, name] : {std::pair(&a, "A"), std::pair(&b, "B")})
    if (std::string why = workNotRecorded(*trace); !why.empty())
      missing += (missing.empty() ? "" : "; ") + (std::string(name) + " was " + why);
  tool.json().set("not_recorded", missing.empty() ? Json() : Json(missing));
  auto launches = [](const TraceData& trace) {
    size_t n = 0;
    for (const trace::TracedDevice& d : trace.devices) n += d.launches.size();
    return static_cast<double>(std::max<size_t>(n, 1));
  };
  double perA = launches(a), perB = launches(b);
  Side before = sideOf(a, perA), after = sideOf(b, perB);
  std::map<std::string, Unit> units;
  addUnits(a, perA, 0, units);
  addUnits(b, perB, 1, units);
  std::vector<Row> rows;
  if (missing.empty()) rows = rowsOf(units);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& x, const Row& y) { return std::abs(x.change()) > std::abs(y.change()); });

  auto pair = [](double x, double y) {
    return Json::object().set("a_us", x).set("b_us", y).set("change", x > 0 ? Json(y / x - 1) : Json());
  };
  Table table({Column::word("per launch"), Column::number("A us"), Column::number("B us"), Column::number("change")});
  table.row({"device time", us(before.deviceUs), us(after.deviceUs), change(before.deviceUs, after.deviceUs)});
  tool.json().set("device_time", pair(before.deviceUs, after.deviceUs));
  tool.json().set("launches_a", before.launches).set("launches_b", after.launches);
  Json engines = Json::object(), terms = Json::object();
  for (int t = 0; missing.empty() && t < kNumTracks; ++t) {
    if (before.busyUs[t] == 0 && after.busyUs[t] == 0) continue;
    std::string name(trackName(static_cast<trace::Track>(t)));
    table.row({name + " busy", us(before.busyUs[t]), us(after.busyUs[t]), change(before.busyUs[t], after.busyUs[t])});
    engines.set(name, pair(before.busyUs[t], after.busyUs[t]));
  }
  for (int t = 0; missing.empty() && t < perfmodel::kNumTerms; ++t) {
    if (before.termsUs[t] == 0 && after.termsUs[t] == 0) continue;
    std::string name(perfmodel::termName(static_cast<perfmodel::Term>(t)));
    table.row(
        {"term " + name, us(before.termsUs[t]), us(after.termsUs[t]), change(before.termsUs[t], after.termsUs[t])});
    terms.set(name, pair(before.termsUs[t], after.termsUs[t]));
  }
  tool.print(table);
  tool.json().set("engines", missing.empty() ? std::move(engines) : Json());
  tool.json().set("terms", missing.empty() ? std::move(terms) : Json());

  auto most = static_cast<size_t>(std::max<int64_t>(options.limit, 0));
  auto unitsOf = [](const Row& row) {
    const bool differ = row.unitsA + row.unitsB > 2 || (row.unitsA > 0 && row.unitsB > 0 && row.unitsA != row.unitsB);
    return differ ? std::to_string(row.unitsA) + " in A, " + std::to_string(row.unitsB) + " in B" : std::string();
  };
  std::vector<Column> columns = {Column::number("change us"), Column::number(""),
                                 Column::number("A us"),      Column::number("B us"),
                                 Column::name("nodes").key(), Column::name("ops").leaveOut(1)};
  const bool regrouped = std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return !unitsOf(row).empty(); });
  if (regrouped) columns.push_back(Column::text("units"));
  table = Table(columns);
  Json list = Json::array();
  size_t changed = 0;
  for (const Row& row : rows) {
    if (std::abs(row.change()) < 1e-9) continue;
    if (changed++ >= most) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%+.3f", row.change());
    table.row(
        {text, change(row.a, row.b), us(row.a), us(row.b), printable(row.name), printable(row.kind), unitsOf(row)});
    list.append(Json::object()
                    .set("name", row.name)
                    .set("op", row.kind)
                    .set("a_us", row.unitsA ? Json(row.a) : Json())
                    .set("b_us", row.unitsB ? Json(row.b) : Json())
                    .set("units_a", row.unitsA)
                    .set("units_b", row.unitsB)
                    .set("change_us", row.change()));
  }
  tool.print("");
  if (!missing.empty())
    tool.print("the nodes cannot be compared: " + missing);
  else if (changed == 0)
    tool.print("every node takes as long as before");
  else
    tool.print(table);
  if (regrouped)
    tool.print(
        "what is fused differently in A and B is compared in groups of whole units: a unit's time is not divided "
        "among its nodes");
  if (changed > most) tool.print("... and " + std::to_string(changed - most) + " more (-n)");
  tool.json().set("nodes", missing.empty() ? std::move(list) : Json()).set("changed", static_cast<int64_t>(changed));
  bool slower = limit >= 0 && after.deviceUs > before.deviceUs * (1 + limit);
  tool.json().set("passed", !slower);
  if (slower)
    tool.printAlways("device time is " + change(before.deviceUs, after.deviceUs) + " of A's, above " +
                     options.failAbove);
  return slower ? ExitCode::kMismatch : ExitCode::kOk;
}

}  // namespace

void addDiffCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command = tool.addCommand("diff", "What is slower or faster in B than in A, by the model's nodes",
                                         [&tool, options] { return run(tool, *options); });
  command.addPositional("A", options->a, "The .hputrace file to compare with");
  command.addPositional("B", options->b, "The newer .hputrace file");
  command.addOption("-n,--limit", options->limit, "Nodes to list");
  command.addOption("--fail-above", options->failAbove, "Exit code 2 when device time grew by more than this (3%)");
  command.addFlag("--force", options->force, "Compare traces of different models, too");
  command.addFlag("--partial", options->partial, "Work on what is whole of a file that is cut short");
}

}  // namespace hpu::tools
