// SPDX-License-Identifier: Apache-2.0
// hpu-trace critical-path: the chain of slices that device time consists of, by engine and reason, by operation,
// and slice by slice.
#include <algorithm>
#include <map>
#include <memory>

#include "base/StatusMacros.h"
#include "perfmodel/CriticalPath.h"
#include "runtime/trace/ExportTracks.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

using perfmodel::Term;
using trace::EngineSlice;
using trace::TracedDevice;
using trace::Track;

struct Path {
  std::vector<EngineSlice> slices;
  Picoseconds start = 0, end = 0, gaps = 0;
};

Path pathOf(const TracedDevice& device) {
  std::vector<EngineSlice> all;
  std::vector<perfmodel::PathSlice> times;
  Path path;
  forEachSlice(device, [&](const EngineSlice& s) {
    if (all.empty()) path.start = s.start;
    path.start = std::min(path.start, s.start);
    path.end = std::max(path.end, s.end);
    all.push_back(s);
    times.push_back({static_cast<uint32_t>(s.track), s.start, s.end});
  });
  path.gaps = path.end - path.start;
  for (uint32_t i : perfmodel::criticalPath(times)) {
    path.gaps -= all[i].end - all[i].start;
    path.slices.push_back(all[i]);
  }
  return path;
}

struct PathRow {
  std::string name, nodes;
  Track track = Track::kMme;
  int64_t slices = 0;
  Picoseconds time = 0;
};

std::vector<PathRow> rowsOf(const TraceData& trace, const Path& path) {
  std::map<std::pair<Track, trace::StringId>, PathRow> groups;
  for (const EngineSlice& s : path.slices) {
    PathRow& row = groups[{s.track, s.name}];
    if (row.slices++ == 0) {
      row.name = std::string(trace.text(s.name));
      row.nodes = trace::nodeNames(trace, s.nodes);
      row.track = s.track;
    }
    row.time += s.end - s.start;
  }
  std::vector<PathRow> rows;
  for (auto& [key, row] : groups) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const PathRow& a, const PathRow& b) { return a.time > b.time; });
  return rows;
}

struct Options {
  TraceFile file;
  int64_t device = -1, limit = 20;
  bool chain = false;
};

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  HPU_ASSIGN(TraceData trace, options.file.read(tool));
  HPU_RETURN_IF_ERROR(checkDevice(trace, options.device));
  HPU_RETURN_IF_ERROR(requireWork(trace, options.device));
  // Each device has a path of its own; without --device the longest is shown.
  Path path;
  uint32_t index = 0;
  for (const TracedDevice& d : trace.devices) {
    if (options.device >= 0 && d.index != static_cast<uint64_t>(options.device)) continue;
    Path one = pathOf(d);
    if (!path.slices.empty() && one.end - one.start <= path.end - path.start) continue;
    path = std::move(one);
    index = d.index;
  }
  Picoseconds whole = path.end - path.start;
  tool.json().set("device", static_cast<int64_t>(index)).set("device_time_us", microseconds(whole));
  tool.json().set("gaps_us", microseconds(path.gaps)).set("slices", static_cast<int64_t>(path.slices.size()));
  tool.print("device " + std::to_string(index) + ": " + formatTime(whole) + " along " +
             std::to_string(path.slices.size()) + " slices" +
             (path.gaps > 0 ? ", " + formatShare(path.gaps, whole) + " with nothing launched" : ""));

  // By engine and reason: what a slice waited for is earlier on the path, so its own sync term does not count.
  std::array<Terms, kNumTracks> terms{};
  for (const EngineSlice& s : path.slices)
    for (size_t t = 0; t < s.terms.size(); ++t)
      if (t != static_cast<size_t>(Term::kSync)) terms[static_cast<size_t>(s.track)][t] += s.terms[t];
  struct Reason {
    Track track;
    size_t term;
    Picoseconds time;
  };
  std::vector<Reason> reasons;
  Json engines = Json::object();
  for (size_t e = 0; e < terms.size(); ++e) {
    Picoseconds sum = 0;
    for (size_t t = 0; t < terms[e].size(); ++t) {
      sum += terms[e][t];
      if (terms[e][t] > 0) reasons.push_back({static_cast<Track>(e), t, terms[e][t]});
    }
    if (sum > 0)
      engines.set(trackName(static_cast<Track>(e)),
                  Json::object().set("time_us", microseconds(sum)).set("terms_us", termsJson(terms[e])));
  }
  std::stable_sort(reasons.begin(), reasons.end(), [](const Reason& a, const Reason& b) { return a.time > b.time; });
  Table table({Column::number("share"), Column::number("time"), Column::word("engine"), Column::text("reason")});
  for (const Reason& r : reasons)
    table.row({formatShare(r.time, whole), formatTime(r.time), std::string(trackName(r.track)),
               r.term == 0 ? "work at its peak" : std::string(perfmodel::termName(static_cast<Term>(r.term)))});
  tool.print("");
  tool.print(table);
  tool.json().set("engines", std::move(engines));

  auto most = static_cast<size_t>(std::max<int64_t>(options.limit, 0));
  std::vector<PathRow> rows = rowsOf(trace, path);
  table =
      Table({Column::number("share"), Column::number("time"), Column::number("slices"), Column::word("engine"),
             Column::name("operation").key().least(kLeastName), Column::name("nodes").leaveOut(1).least(kLeastName)});
  Json top = Json::array();
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const PathRow& row = rows[i];
    table.row({formatShare(row.time, whole), formatTime(row.time), std::to_string(row.slices),
               std::string(trackName(row.track)), printable(row.name), printable(row.nodes)});
    top.append(Json::object()
                   .set("name", row.name)
                   .set("nodes", row.nodes)
                   .set("engine", trackName(row.track))
                   .set("slices", row.slices)
                   .set("time_us", microseconds(row.time)));
  }
  tool.print("");
  tool.print(table);
  tool.json().set("top", std::move(top)).set("dropped_events", trace.dropped);
  if (!options.chain) return ExitCode::kOk;

  table = Table({Column::number("start"), Column::number("time"), Column::word("engine"), Column::number("slice"),
                 Column::name("operation")});
  Json chain = Json::array();
  for (const EngineSlice& s : path.slices) {
    table.row({formatTime(s.start - path.start), formatTime(s.end - s.start), std::string(trackName(s.track)),
               std::to_string(s.slice), printable(trace.text(s.name))});
    chain.append(Json::object()
                     .set("start_us", microseconds(s.start - path.start))
                     .set("time_us", microseconds(s.end - s.start))
                     .set("engine", trackName(s.track))
                     .set("slice", static_cast<int64_t>(s.slice))
                     .set("name", trace.text(s.name)));
  }
  tool.print("");
  tool.print(table);
  tool.json().set("chain", std::move(chain));
  return ExitCode::kOk;
}

}  // namespace

void addCriticalPathCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command =
      tool.addCommand("critical-path", "The slices that device time consists of, and why they take that long",
                      [&tool, options] { return run(tool, *options); });
  options->file.addTo(command);
  command.addOption("--device", options->device, "This device (-1: the one that took longest)");
  command.addOption("-n,--limit", options->limit, "Operations to list");
  command.addFlag("--chain", options->chain, "List every slice of the path too");
}

}  // namespace hpu::tools
