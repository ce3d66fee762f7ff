// SPDX-License-Identifier: Apache-2.0
// hpu-trace diff: what became slower or faster between two traces, matched by the model's nodes and not by time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

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
  bool inA = false, inB = false;
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

/// Busy time by node, each slice's shared evenly among its nodes; slices without nodes by their name.
void addRows(const TraceData& trace, double per, bool isB, std::map<std::string, Row>& rows) {
  auto add = [&](const std::string& name, std::string_view kind, double us) {
    Row& row = rows[name];
    row.name = name;
    if (row.kind.empty()) row.kind = std::string(kind);
    (isB ? row.b : row.a) += us / per;
    (isB ? row.inB : row.inA) = true;
  };
  for (const trace::TracedDevice& d : trace.devices)
    forEachSlice(d, [&](const trace::EngineSlice& s) {
      double us = microseconds(s.end - s.start);
      if (!s.nodes || s.nodes->empty()) return add(std::string(trace.text(s.name)), trace.text(s.category), us);
      for (const trace::TracedNode& node : *s.nodes)
        add(std::string(trace.text(node.name ? node.name : s.name)), trace.text(node.op),
            us / static_cast<double>(s.nodes->size()));
    });
}

std::string us(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}
std::string change(double a, double b) {
  if (!(a > 0)) return b > 0 ? "new" : "-";
  if (!(b > 0)) return "gone";
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", 100 * (b / a - 1));
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
  bool partial = false;
};

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  double limit = -1;
  if (!options.failAbove.empty()) {
    HPU_ASSIGN(limit, parsePercent(options.failAbove));
  }
  HPU_ASSIGN(TraceData a, readForFigures(tool, options.a, options.partial));
  HPU_ASSIGN(TraceData b, readForFigures(tool, options.b, options.partial));
  auto launches = [](const TraceData& trace) {
    size_t n = 0;
    for (const trace::TracedDevice& d : trace.devices) n += d.launches.size();
    return static_cast<double>(std::max<size_t>(n, 1));
  };
  double perA = launches(a), perB = launches(b);
  Side before = sideOf(a, perA), after = sideOf(b, perB);
  std::map<std::string, Row> byName;
  addRows(a, perA, false, byName);
  addRows(b, perB, true, byName);
  std::vector<Row> rows;
  for (auto& [name, row] : byName) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& x, const Row& y) { return std::abs(x.change()) > std::abs(y.change()); });

  auto pair = [](double x, double y) {
    return Json::object().set("a_us", x).set("b_us", y).set("change", x > 0 ? Json(y / x - 1) : Json());
  };
  std::vector<std::vector<std::string>> table = {{"per launch", "A us", "B us", "change"}};
  table.push_back({"device time", us(before.deviceUs), us(after.deviceUs), change(before.deviceUs, after.deviceUs)});
  tool.json().set("device_time", pair(before.deviceUs, after.deviceUs));
  tool.json().set("launches_a", before.launches).set("launches_b", after.launches);
  Json engines = Json::object(), terms = Json::object();
  for (int t = 0; t < kNumTracks; ++t) {
    if (before.busyUs[t] == 0 && after.busyUs[t] == 0) continue;
    std::string name(trackName(static_cast<trace::Track>(t)));
    table.push_back(
        {name + " busy", us(before.busyUs[t]), us(after.busyUs[t]), change(before.busyUs[t], after.busyUs[t])});
    engines.set(name, pair(before.busyUs[t], after.busyUs[t]));
  }
  for (int t = 0; t < perfmodel::kNumTerms; ++t) {
    if (before.termsUs[t] == 0 && after.termsUs[t] == 0) continue;
    std::string name(perfmodel::termName(static_cast<perfmodel::Term>(t)));
    table.push_back(
        {"term " + name, us(before.termsUs[t]), us(after.termsUs[t]), change(before.termsUs[t], after.termsUs[t])});
    terms.set(name, pair(before.termsUs[t], after.termsUs[t]));
  }
  tool.print(formatTable(table));
  tool.json().set("engines", std::move(engines)).set("terms", std::move(terms));

  auto most = static_cast<size_t>(std::max<int64_t>(options.limit, 0));
  table = {{"change us", "", "A us", "B us", "node", "op"}};
  Json list = Json::array();
  size_t changed = 0;
  for (const Row& row : rows) {
    if (std::abs(row.change()) < 1e-9) continue;
    if (changed++ >= most) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%+.3f", row.change());
    table.push_back({text, change(row.inA ? row.a : 0, row.inB ? row.b : 0), us(row.a), us(row.b), printable(row.name),
                     printable(row.kind)});
    list.append(Json::object()
                    .set("name", row.name)
                    .set("op", row.kind)
                    .set("a_us", row.inA ? Json(row.a) : Json())
                    .set("b_us", row.inB ? Json(row.b) : Json())
                    .set("change_us", row.change()));
  }
  tool.print("");
  tool.print(changed ? formatTable(table) : "every node takes as long as before");
  if (changed > most) tool.print("... and " + std::to_string(changed - most) + " more (-n)");
  tool.json().set("nodes", std::move(list)).set("changed", static_cast<int64_t>(changed));
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
  command.addFlag("--partial", options->partial, "Work on what is whole of a file that is cut short");
}

}  // namespace hpu::tools
