// SPDX-License-Identifier: Apache-2.0
// hpu-trace summary: one screen that says where the time went and what to do about it; and
// hpu-trace top.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/StatusMacros.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

using trace::TracedDevice;
using trace::Track;

std::string count(int64_t n, const char* one) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

void printSummary(Tool& tool, const TraceData& trace, const Analysis& a, const std::vector<TopRow>& top, size_t most,
                  const std::vector<std::string>& advice) {
  std::string target;
  for (const TracedDevice& d : trace.devices) {
    std::string one =
        std::string(targetName(d.target)) + (d.clockProfile ? " (" + printable(trace.text(d.clockProfile)) + ")" : "");
    if (target.find(one) == std::string::npos) target += (target.empty() ? "" : ", ") + one;
  }
  constexpr const char* levels[] = {"api", "node", "slice"};
  tool.print(printable(trace.producer) + (target.empty() ? "" : ", " + target) + ", level " +
             levels[static_cast<size_t>(trace.level)] + ", " + count(trace.numEvents(), "event"));
  tool.print("host    " + formatHostTime(a.hostNs) + " on " + count(static_cast<int64_t>(a.hostThreads), "thread") +
             "; the wall clock of the machine that ran it");
  tool.print("device  " + formatTime(a.deviceTime) + " on " + count(static_cast<int64_t>(a.devices), "device") + ", " +
             std::to_string(a.launches) + (a.launches == 1 ? " launch" : " launches") + "; the device clock");
  tool.print("");
  Table table({Column::word("engine"), Column::number("busy"), Column::number(""), Column::number("waiting"),
               Column::number("alone"), Column::number("slices").leaveOut(2), Column::word("bound by").leaveOut(1),
               Column::text("main loss")});
  for (int t = 0; t < kNumTracks; ++t) {
    auto i = static_cast<size_t>(t);
    if (!a.present[i]) continue;
    const WorkSum& e = a.engines[i];
    if (!recorded(a, t)) {
      table.row({std::string(trackName(static_cast<Track>(t))), "-", "-", "-", "-", "-", "not recorded", "-"});
      continue;
    }
    perfmodel::Term loss = e.mainLoss();
    table.row({std::string(trackName(static_cast<Track>(t))), formatTime(e.busy), formatShare(e.busy, a.deviceTimeSum),
               formatTime(e.sync), formatShare(a.exposed(static_cast<Track>(t)), a.deviceTimeSum),
               std::to_string(e.count), e.count ? std::string(e.boundBy()) : "-",
               loss == perfmodel::Term::kIdeal ? "-"
                                               : std::string(perfmodel::termName(loss)) + " " +
                                                     formatShare(e.terms[static_cast<size_t>(loss)], e.busy + e.sync)});
  }
  tool.print(table);
  const std::string dropped = (trace.stopped || trace.dropped == 0 ? "" : "at least ") + count(trace.dropped, "event") +
                              " dropped" + (trace.stopped ? "" : ", and what was in memory when the recording ended");
  if (!a.notRecorded.empty()) {
    tool.print("overlap, idle time and losses are not known: the trace was " + a.notRecorded);
    tool.print(dropped);
  } else {
    tool.print("overlap  mme||tpc " + formatShare(a.overlap(Track::kMme, Track::kTpc), a.deviceTimeSum) +
               ", mme||dma " + formatShare(a.overlap(Track::kMme, Track::kDma), a.deviceTimeSum) + ", tpc||dma " +
               formatShare(a.overlap(Track::kTpc, Track::kDma), a.deviceTimeSum) +
               (a.present[static_cast<size_t>(Track::kNic)]
                    ? ", mme||nic " + formatShare(a.overlap(Track::kMme, Track::kNic), a.deviceTimeSum) +
                          ", tpc||nic " + formatShare(a.overlap(Track::kTpc, Track::kNic), a.deviceTimeSum)
                    : ""));
    tool.print("idle     " + formatShare(a.idleInLaunch + a.idleOutside, a.deviceTimeSum) + ": waiting for signals " +
               formatShare(a.idleInLaunch, a.deviceTimeSum) + ", nothing launched " +
               formatShare(a.idleOutside, a.deviceTimeSum));
    std::string why;
    for (int t = 0; t < perfmodel::kNumTerms; ++t)
      if (Picoseconds value = a.all.terms[static_cast<size_t>(t)])
        why += (why.empty() ? "" : ", ") + std::string(perfmodel::termName(static_cast<perfmodel::Term>(t))) + " " +
               formatShare(value, a.all.busy + a.all.sync);
    tool.print("where engine time goes: " + (why.empty() ? "-" : why));
    char attributed[64];
    std::snprintf(attributed, sizeof attributed, "%.2f %%", 100 * a.attributedFraction());
    tool.print(std::string(attributed) + " of busy time is attributed to the model's nodes or a named cause; " +
               dropped);
  }
  if (!top.empty()) {
    tool.print("");
    tool.print(topTable(top, most, a.all.busy));
  }
  if (!a.host.empty()) {
    tool.print("");
    Table host({Column::number("host self time"), Column::number("count"), Column::name("call")});
    for (size_t i = 0; i < std::min<size_t>(a.host.size(), 5); ++i)
      host.row({formatHostTime(a.host[i].selfNs), std::to_string(a.host[i].count), printable(a.host[i].name)});
    tool.print(host);
  }
  if (!advice.empty()) tool.print("");
  for (const std::string& sentence : advice) tool.print("advice: " + sentence);
}

struct Options {
  TraceFile file;
  std::string groupBy = "operation";
  int64_t device = -1, limit = 5;
};

}  // namespace

void addSummaryCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command =
      tool.addCommand("summary", "Where the time went, on one screen", [&tool, options]() -> StatusOr<ExitCode> {
        HPU_ASSIGN(TraceData trace, options->file.read(tool));
        HPU_RETURN_IF_ERROR(checkDevice(trace, options->device));
        Analysis analysis = analyse(trace, options->device);
        std::vector<TopRow> top = topRows(trace, GroupBy::kOperation, options->device);
        std::vector<std::string> advice = advise(trace, analysis);
        auto most = static_cast<size_t>(std::max<int64_t>(options->limit, 0));
        if (tool.jsonMode())
          summaryJson(tool.json(), trace, analysis, top, most, advice);
        else
          printSummary(tool, trace, analysis, top, most, advice);
        return ExitCode::kOk;
      });
  options->file.addTo(command);
  command.addOption("--device", options->device, "Only this device (-1: all)");
  command.addOption("-n,--top", options->limit, "Operations to list");
}

void addTopCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  options->limit = 20;
  CommandLine& command =
      tool.addCommand("top", "What took the most device time", [&tool, options]() -> StatusOr<ExitCode> {
        HPU_ASSIGN(TraceData trace, options->file.read(tool));
        HPU_RETURN_IF_ERROR(checkDevice(trace, options->device));
        const GroupBy groupBy = parseGroupBy(options->groupBy);
        const std::string missing = workNotRecorded(trace, options->device);
        if (!missing.empty()) tool.note("'" + options->file.path + "' was " + missing);
        if (groupBy == GroupBy::kBundle && trace.level == trace::Level::kNode)
          tool.note("'" + options->file.path +
                    "' was recorded at level node, which has no bundles: rows are operations");
        std::vector<TopRow> rows = topRows(trace, groupBy, options->device);
        Picoseconds whole = 0;
        for (const TopRow& row : rows) whole += row.work.busy;
        auto most = static_cast<size_t>(std::max<int64_t>(options->limit, 0));
        if (tool.jsonMode()) {
          tool.json().set("group_by", options->groupBy).set("rows", static_cast<int64_t>(rows.size()));
          tool.json().set("busy_us", microseconds(whole)).set("dropped_events", trace.dropped);
          tool.json().set("not_recorded", missing.empty() ? Json() : Json(missing));
          tool.json().set("top", topJson(rows, most, whole));
        } else {
          tool.print(topTable(rows, most, whole));
          const auto shown = static_cast<std::ptrdiff_t>(std::min(most, rows.size()));
          auto fused = std::find_if(rows.begin(), rows.begin() + shown, [](const TopRow& row) { return row.fused; });
          if ((groupBy == GroupBy::kNode || groupBy == GroupBy::kKind) && fused != rows.begin() + shown)
            tool.print("names with '+' are fused units: a unit has one time, which no trace divides among its nodes");
          if (rows.size() > most) tool.print("... and " + std::to_string(rows.size() - most) + " more (-n)");
        }
        return ExitCode::kOk;
      });
  options->file.addTo(command);
  command.addOption("--device", options->device, "Only this device (-1: all)");
  command.addOption("-n,--limit", options->limit, "Rows to list");
  command.addChoice("--group-by", options->groupBy, groupByNames(), "What makes a row");
}

}  // namespace hpu::tools
