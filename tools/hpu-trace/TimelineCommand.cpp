// SPDX-License-Identifier: Apache-2.0
// hpu-trace timeline: what each engine did when, as text that fits a terminal.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/File.h"
#include "base/StatusMacros.h"
#include "runtime/trace/ExportTracks.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/Timeline.h"
#include "tools/hpu-trace/TimelineDrawing.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

using trace::EngineSlice;
using trace::LaunchEvent;
using trace::TracedDevice;

struct Options {
  TraceFile file;
  std::string from, to, draw;
  int64_t device = -1, launch = -1, limit = 12, slices = 0;
  int width = 0;
};

/// "1.5ms", "20us", "300ns"; a plain number is microseconds.
StatusOr<Picoseconds> parseTime(const char* option, const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit(end);
  double scale = unit.empty() || unit == "us" ? 1e6
                 : unit == "ps"               ? 1
                 : unit == "ns"               ? 1e3
                 : unit == "ms"               ? 1e9
                 : unit == "s"                ? 1e12
                                              : 0;
  constexpr double kMost = 2e18;  // Device times of traces stay below.
  if (end == text.c_str() || scale == 0 || !std::isfinite(value) || std::abs(value * scale) > kMost)
    return invalidArgument(std::string(option) + " " + text +
                           " is not a time of the device clock such as 250us or 1.5ms");
  return static_cast<Picoseconds>(std::llround(value * scale));
}

/// Of a device: --launch, else --from and --to, else everything. `width` is that of the lines (0: any).
StatusOr<TimelineWindow> windowOf(const TracedDevice& device, const Options& options, int width) {
  TimelineWindow window = wholeDevice(device);
  // Without --width a row is as wide as the terminal, with the shares behind it.
  constexpr int kWidest = 100, kLeast = 20, kBeside = 8 + 32;
  const int room = width > 0 ? std::clamp(width - kBeside, kLeast, kWidest) : kWidest;
  window.columns = options.width > 0 ? options.width : room;
  std::string name = "device " + std::to_string(device.index);
  if (options.launch >= 0) {
    auto index = static_cast<size_t>(options.launch);
    if (index >= device.launches.size())
      return invalidArgument("--launch " + std::to_string(index) + ": " + name + " has " +
                             std::to_string(device.launches.size()) + " launches, counted from 0");
    window.from = device.launches[index].start;
    window.to = device.launches[index].end;
  }
  Picoseconds first = window.from, last = window.to;
  if (!options.from.empty()) {
    HPU_ASSIGN(window.from, parseTime("--from", options.from));
  }
  if (!options.to.empty()) {
    HPU_ASSIGN(window.to, parseTime("--to", options.to));
  }
  bool cut = !options.from.empty() || !options.to.empty();
  if (cut && first < last && (window.from >= window.to || window.from >= last || window.to <= first))
    return invalidArgument("nothing of " + name + " lies between --from and --to: it worked from " + formatTime(first) +
                           " to " + formatTime(last));
  return window;
}

/// `time` in microseconds with the digits that a column's length makes meaningful.
std::string axisTime(Picoseconds time, Picoseconds column) {
  int digits = 0;
  for (Picoseconds grain = 1'000'000; grain > column && digits < 6; grain /= 10) ++digits;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f us", digits, microseconds(time));
  return text;
}

/// "|0 us       |25 us      ...": the time at which the column of each bar begins.
std::string axis(const Timeline& t) {
  size_t columns = t.launches.size();
  std::string out(columns, ' ');
  size_t parts = columns >= 80 ? 4 : columns >= 40 ? 2 : 1;
  for (size_t i = 0; i < parts; ++i) {
    size_t at = columns * i / parts, room = columns * (i + 1) / parts - at;
    std::string label = "|" + axisTime(t.window.from + static_cast<Picoseconds>(at) * t.column, t.column);
    if (label.size() < room) out.replace(at, label.size(), label);
  }
  return out;
}

struct SliceList {
  Json json = Json::array();
  Table table{{Column::number("start"), Column::number("time"), Column::number("waited").leaveOut(2),
               Column::word("engine"), Column::number("slice").leaveOut(1), Column::name("operation").least(kLeastName),
               Column::name("nodes").leaveOut(3).least(kLeastName)}};
  int64_t count = 0;
};

SliceList slicesOf(const TraceData& trace, const TracedDevice& device, const Timeline& t, int64_t most) {
  SliceList list;
  forEachSlice(device, [&](const EngineSlice& s) {
    if (s.start >= t.window.to || s.end <= t.window.from) return;
    if (list.count++ >= most) return;
    std::string nodes = nodeNames(trace, s.nodes);
    list.json.append(Json::object()
                         .set("engine", trackName(s.track))
                         .set("name", trace.text(s.name))
                         .set("nodes", nodes)
                         .set("launch", static_cast<int64_t>(s.launch))
                         .set("bundle", trace.text(s.bundle))
                         .set("slice", static_cast<int64_t>(s.slice))
                         .set("ready_us", microseconds(s.ready))
                         .set("start_us", microseconds(s.start))
                         .set("end_us", microseconds(s.end)));
    list.table.row({axisTime(s.start, 1000), formatTime(s.end - s.start), formatTime(s.start - s.ready),
                    std::string(trackName(s.track)), std::to_string(s.slice), printable(trace.text(s.name)),
                    printable(nodes)});
  });
  return list;
}

std::string letterOf(size_t op, int64_t letters) {
  return op < static_cast<size_t>(std::clamp<int64_t>(letters, 0, 26)) ? std::string(1, static_cast<char>('A' + op))
                                                                       : std::string("#");
}

/// An engine without a slice in a trace that lacks the engines' work says nothing.
bool laneRecorded(const TraceData& trace, const TracedDevice& device, const TimelineLane& lane) {
  return lane.slices > 0 || workNotRecorded(trace, device.index).empty();
}

Json toJson(const TraceData& trace, const TracedDevice& device, const Timeline& t, const Options& options) {
  Json json = Json::object();
  json.set("index", static_cast<int64_t>(device.index))
      .set("target", targetName(device.target))
      .set("process", printable(trace::processTitle(trace.processes[device.process])));
  json.set("from_us", microseconds(t.window.from)).set("to_us", microseconds(t.window.to));
  json.set("column_us", microseconds(t.column));
  Json engines = Json::object();
  for (const TimelineLane& lane : t.lanes) {
    if (!laneRecorded(trace, device, lane)) {
      Json none = Json::object();
      for (const char* key : {"busy_us", "waiting_us", "slices", "columns_busy_us", "columns_waiting_us"})
        none.set(key, Json());
      engines.set(trackName(lane.track), std::move(none));
      continue;
    }
    Json busy = Json::array(), waiting = Json::array();
    for (const TimelineCell& cell : lane.cells) {
      busy.append(microseconds(cell.busy));
      waiting.append(microseconds(cell.waiting));
    }
    engines.set(trackName(lane.track), Json::object()
                                           .set("busy_us", microseconds(lane.busy))
                                           .set("waiting_us", microseconds(lane.waiting))
                                           .set("slices", lane.slices)
                                           .set("columns_busy_us", std::move(busy))
                                           .set("columns_waiting_us", std::move(waiting)));
  }
  json.set("engines", std::move(engines));
  Json launches = Json::array();
  for (const LaunchEvent& l : device.launches) {
    if (l.start >= t.window.to || l.end <= t.window.from) continue;
    launches.append(Json::object()
                        .set("launch", static_cast<int64_t>(l.launch))
                        .set("label", trace.text(l.label))
                        .set("queue", trace.text(l.queueName))
                        .set("start_us", microseconds(l.start))
                        .set("end_us", microseconds(l.end)));
  }
  json.set("launches", std::move(launches));
  Json operations = Json::array();
  auto most = static_cast<size_t>(std::max<int64_t>(options.limit, 0));
  for (size_t i = 0; i < std::min(most, t.ops.size()); ++i)
    operations.append(Json::object()
                          .set("letter", letterOf(i, options.limit))
                          .set("name", trace.text(t.ops[i].name))
                          .set("engine", trackName(t.ops[i].track))
                          .set("nodes", nodeNames(trace, t.ops[i].nodes))
                          .set("busy_us", microseconds(t.ops[i].busy))
                          .set("slices", t.ops[i].slices));
  json.set("operations", std::move(operations));
  SliceList slices = slicesOf(trace, device, t, options.slices);
  json.set("slices_in_window", slices.count).set("slices", std::move(slices.json));
  return json;
}

void print(Tool& tool, const TraceData& trace, const TracedDevice& device, const Timeline& t, const Options& options) {
  Picoseconds span = t.window.to - t.window.from;
  auto letters = static_cast<int>(std::clamp<int64_t>(options.limit, 0, 26));
  tool.print(printable(trace::deviceTitle(trace, device)) + ": " + axisTime(t.window.from, t.column) + " to " +
             axisTime(t.window.to, t.column) + " of the device clock, " + formatTime(t.column) + " a column");
  tool.printAsIs("        " + axis(t));
  if (!device.launches.empty()) tool.printAsIs("launch  " + drawLaunches(t));
  for (const TimelineLane& lane : t.lanes) {
    std::string name(trackName(lane.track));
    name.resize(8, ' ');
    if (!laneRecorded(trace, device, lane)) {
      tool.print(name + "not recorded");
      continue;
    }
    const std::string bar = name + drawLane(t, lane, letters);
    const std::string shares = "busy " + formatShare(lane.busy, span) + ", waiting " + formatShare(lane.waiting, span);
    const bool below = tool.width() > 0 && bar.size() + 2 + shares.size() > static_cast<size_t>(tool.width());
    tool.printAsIs(bar + (below ? "\n        " : "  ") + shares);
  }
  if (!t.ops.empty() && options.limit > 0) {
    Table table({Column::word(""), Column::number("busy"), Column::number("slices"), Column::word("engine"),
                 Column::name("operation").least(kLeastName), Column::name("nodes").leaveOut(1).least(kLeastName)});
    auto most = static_cast<size_t>(options.limit);
    for (size_t i = 0; i < std::min(most, t.ops.size()); ++i)
      table.row({letterOf(i, options.limit), formatTime(t.ops[i].busy), std::to_string(t.ops[i].slices),
                 std::string(trackName(t.ops[i].track)), printable(trace.text(t.ops[i].name)),
                 printable(nodeNames(trace, t.ops[i].nodes))});
    tool.print("");
    tool.print(table);
    if (t.ops.size() > most) tool.print("... and " + std::to_string(t.ops.size() - most) + " more, drawn as # (-n)");
  }
  if (options.slices > 0) {
    SliceList slices = slicesOf(trace, device, t, options.slices);
    tool.print("");
    tool.print(slices.table);
    if (slices.count > options.slices)
      tool.print("... and " + std::to_string(slices.count - options.slices) + " more (--slices)");
  }
}

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  if (options.width != 0 && (options.width < 10 || options.width > 10000))
    return invalidArgument("--width must be 10 to 10000, or 0 for what the terminal has");
  if (options.launch >= 0 && !(options.from.empty() && options.to.empty()))
    return invalidArgument("--launch and --from/--to exclude each other");
  HPU_ASSIGN(TraceData trace, options.file.read(tool));
  HPU_RETURN_IF_ERROR(checkDevice(trace, options.device));
  const std::string missing = workNotRecorded(trace, options.device);
  tool.json().set("not_recorded", missing.empty() ? Json() : Json(missing));
  if (!missing.empty()) tool.note("'" + options.file.path + "' was " + missing);
  Json devices = Json::array();
  bool first = true;
  std::vector<DeviceTimeline> drawn;
  for (const TracedDevice& device : trace.devices) {
    if (options.device >= 0 && device.index != static_cast<uint64_t>(options.device)) continue;
    HPU_ASSIGN(TimelineWindow window, windowOf(device, options, tool.width()));
    if (window.from >= window.to) {
      tool.print(printable(trace::deviceTitle(trace, device)) + ": no work was recorded");
      continue;
    }
    Timeline timeline = timelineOf(device, window);
    if (!options.draw.empty()) drawn.push_back({&device, timeline});
    if (tool.jsonMode()) {
      devices.append(toJson(trace, device, timeline, options));
      continue;
    }
    if (!first) tool.print("");
    first = false;
    print(tool, trace, device, timeline, options);
  }
  if (trace.devices.empty()) tool.print("no device work was recorded");
  if (!first)
    tool.print(
        "A-Z at least half of the column busy, a-z less; # and + other operations; - waiting for a signal or memory; "
        ". nothing to do");
  if (!options.draw.empty()) {
    if (drawn.empty()) return failedPrecondition("'" + options.file.path + "' has no device work that could be drawn");
    HPU_RETURN_IF_ERROR(base::writeFileAtomic(options.draw, timelineSvg(trace, drawn, options.limit)));
    if (options.draw != "/dev/stdout") tool.print("wrote " + options.draw);
    tool.json().set("path", options.draw);
  }
  tool.json().set("devices", std::move(devices)).set("dropped_events", trace.dropped);
  return ExitCode::kOk;
}

}  // namespace

void addTimelineCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command = tool.addCommand("timeline", "What each engine did when, drawn as text",
                                         [&tool, options] { return run(tool, *options); });
  options->file.addTo(command);
  command.addOption("--from", options->from, "Start on the device clock (250us, 1.5ms; plain: us)");
  command.addOption("--to", options->to, "End on the device clock");
  command.addOption("--launch", options->launch, "Only the launch of this number, counted from 0");
  command.addOption("--width", options->width,
                    "Columns that time is cut into; 0: what the terminal has room for, at most 100");
  command.addOption("--device", options->device, "Only this device (-1: all)");
  command.addOption("-n,--limit", options->limit, "Operations with a letter (at most 26) and a row");
  command.addOption("--slices", options->slices, "List so many slices of the window one by one");
  command.addOption("--draw", options->draw, "Also draw every slice to this .svg file (-: stdout)");
  command.writesFile("--draw", options->draw, [] { return true; });
}

}  // namespace hpu::tools
