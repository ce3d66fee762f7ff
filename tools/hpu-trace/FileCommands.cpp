// SPDX-License-Identifier: Apache-2.0
// hpu-trace info, validate and export: the file itself, whether it is sound, and other programs'
// formats.
#include <algorithm>
#include <memory>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/ExportTracks.h"
#include "runtime/trace/Reader.h"
#include "tools/common/OutputCheck.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

using trace::HostEvent;
using trace::TracedDevice;
using trace::Track;

/// What is wrong with a trace that could be read, one sentence each.
std::vector<std::string> findings(const TraceData& trace, bool strict) {
  std::vector<std::string> out;
  if (trace.truncatedBytes > 0)
    out.push_back("the file ends with " + std::to_string(trace.truncatedBytes) + " bytes of an incomplete chunk");
  for (const trace::TracedProcess& p : trace.processes)
    if (!p.stopped) out.push_back("the recording was not stopped: " + trace::processTitle(p) + " ended before");
  if (strict && trace.dropped > 0)
    out.push_back((trace.stopped ? "" : "at least ") + std::to_string(trace.dropped) + " events were dropped");
  for (const TracedDevice& d : trace.devices) {
    std::string where = "device " + std::to_string(d.index) + ": ";
    Picoseconds last[trace::kNumTracks];
    std::fill(std::begin(last), std::end(last), INT64_MIN);
    int64_t overlaps = 0, shorter = 0, outside = 0;
    forEachSlice(d, [&](const trace::EngineSlice& s) {
      auto track = static_cast<size_t>(s.track);
      if (s.start < last[track] && s.track != trace::Track::kNic) ++overlaps;
      last[track] = std::max(last[track], s.end);
    });
    for (const trace::CommandEvent& e : d.commands) {
      if (e.end - e.start < d.commandOf(e).alone) ++shorter;
      const trace::LaunchEvent& launch = d.launches[e.launch];
      if (e.start < launch.start || e.end > launch.end) ++outside;
    }
    if (overlaps) out.push_back(where + std::to_string(overlaps) + " slices overlap another one of their engine");
    if (shorter) out.push_back(where + std::to_string(shorter) + " commands took less time than they cost alone");
    if (outside) out.push_back(where + std::to_string(outside) + " commands lie outside of their launch");
  }
  for (const trace::HostThread& t : trace.threads) {
    std::vector<const HostEvent*> order;
    for (const HostEvent& e : t.events) order.push_back(&e);
    std::stable_sort(order.begin(), order.end(), [](const HostEvent* a, const HostEvent* b) {
      return a->start != b->start ? a->start < b->start : a->end > b->end;
    });
    std::vector<int64_t> open;
    int64_t crossing = 0;
    for (const HostEvent* e : order) {
      while (!open.empty() && open.back() <= e->start) open.pop_back();
      if (!open.empty() && e->end > open.back()) ++crossing;
      open.push_back(e->end);
    }
    if (crossing)
      out.push_back("thread " + std::to_string(t.tid) + ": " + std::to_string(crossing) + " events do not nest");
  }
  return out;
}

std::string withEnding(const std::string& path, const char* ending) {
  size_t slash = path.find_last_of('/'), dot = path.find_last_of('.');
  bool hasEnding = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1) && dot > 0;
  return (hasEnding ? path.substr(0, dot) : path) + ending;
}

}  // namespace

void addInfoCommand(Tool& tool) {
  auto path = std::make_shared<std::string>();
  CommandLine& command = tool.addCommand("info", "What a trace file holds", [&tool, path]() -> StatusOr<ExitCode> {
    HPU_ASSIGN(TraceData trace, trace::readTraceFile(*path));
    constexpr const char* levels[] = {"api", "node", "slice"};
    Json& json = tool.json();
    int64_t events = trace.numEvents();
    double each = events ? static_cast<double>(trace.fileBytes) / static_cast<double>(events) : 0;
    json.set("producer", trace.producer).set("pid", static_cast<int64_t>(trace.pid));
    json.set("level", levels[static_cast<size_t>(trace.level)]).set("max_events", trace.maxEvents);
    json.set("file_bytes", static_cast<int64_t>(trace.fileBytes)).set("chunks", static_cast<int64_t>(trace.chunks));
    json.set("events", events).set("bytes_per_event", each).set("dropped_events", trace.dropped);
    json.set("stopped", trace.stopped).set("truncated_bytes", static_cast<int64_t>(trace.truncatedBytes));
    Json processes = Json::array();
    for (const trace::TracedProcess& p : trace.processes) {
      processes.append(Json::object()
                           .set("pid", static_cast<int64_t>(p.pid))
                           .set("name", p.name)
                           .set("host", p.host)
                           .set("start_us", static_cast<double>(p.startNs) / 1e3)
                           .set("stopped", p.stopped)
                           .set("dropped_events", p.dropped));
      tool.print("process       " + printable(trace::processTitle(p)) + ", " + printable(p.producer) +
                 (trace.processes.size() > 1 ? ", begins at " + formatHostTime(p.startNs) : std::string()));
    }
    json.set("processes", std::move(processes));
    tool.print("recorded      level " + std::string(levels[static_cast<size_t>(trace.level)]) + ", at most " +
               std::to_string(trace.maxEvents) + " events, " +
               (trace.stopped ? std::to_string(trace.dropped) + " dropped"
                              : "at least " + std::to_string(trace.dropped) + " dropped: it was not ended"));
    tool.print("file          " + base::formatBytes(static_cast<int64_t>(trace.fileBytes)) + ", " +
               std::to_string(trace.chunks) + " chunks, " + std::to_string(events) + " events");
    Json devices = Json::array(), threads = Json::array();
    for (const TracedDevice& d : trace.devices) {
      size_t samples = d.counters.size();
      devices.append(Json::object()
                         .set("index", static_cast<int64_t>(d.index))
                         .set("process", static_cast<int64_t>(d.process))
                         .set("index_in_process", static_cast<int64_t>(d.indexThere))
                         .set("target", targetName(d.target))
                         .set("name", trace.text(d.name))
                         .set("clock_profile", trace.text(d.clockProfile))
                         .set("programs", static_cast<int64_t>(d.programs.size()))
                         .set("launches", static_cast<int64_t>(d.launches.size()))
                         .set("commands", static_cast<int64_t>(d.commands.size()))
                         .set("spans", static_cast<int64_t>(d.spans.size()))
                         .set("counter_samples", static_cast<int64_t>(samples)));
      tool.print("device " + std::to_string(d.index) + "      " + std::string(targetName(d.target)) + " " +
                 printable(trace.text(d.name)) + ": " + std::to_string(d.programs.size()) + " programs, " +
                 std::to_string(d.launches.size()) + " launches, " + std::to_string(d.commands.size()) + " commands, " +
                 std::to_string(d.spans.size()) + " other spans, " + std::to_string(samples) + " samples");
    }
    for (const trace::HostThread& t : trace.threads) {
      threads.append(Json::object()
                         .set("tid", t.tid)
                         .set("process", static_cast<int64_t>(t.process))
                         .set("name", trace.text(t.name))
                         .set("events", static_cast<int64_t>(t.events.size()))
                         .set("clock_edges", static_cast<int64_t>(t.edges.size()))
                         .set("counter_samples", static_cast<int64_t>(t.counters.size())));
      tool.print("thread " + std::to_string(t.tid) + "  " + printable(trace.text(t.name)) + ": " +
                 std::to_string(t.events.size()) + " events, " + std::to_string(t.edges.size()) + " clock edges");
    }
    json.set("devices", std::move(devices)).set("threads", std::move(threads));
    return ExitCode::kOk;
  });
  command.addPositional("TRACE", *path, "A .hputrace file");
}

void addValidateCommand(Tool& tool) {
  struct Options {
    std::string path;
    bool strict = false;
  };
  auto options = std::make_shared<Options>();
  CommandLine& command = tool.addCommand(
      "validate", "Check a trace file; exit code 2 when something is wrong", [&tool, options]() -> StatusOr<ExitCode> {
        HPU_ASSIGN(TraceData trace, trace::readTraceFile(options->path));
        std::vector<std::string> problems = findings(trace, options->strict);
        Json list = Json::array();
        for (const std::string& problem : problems) {
          tool.printAlways(problem);
          list.append(problem);
        }
        if (problems.empty()) tool.print("sound: " + std::to_string(trace.numEvents()) + " events");
        tool.json().set("valid", problems.empty()).set("events", trace.numEvents());
        tool.json().set("dropped_events", trace.dropped).set("problems", std::move(list));
        return problems.empty() ? ExitCode::kOk : ExitCode::kMismatch;
      });
  command.addPositional("TRACE", options->path, "A .hputrace file");
  command.addFlag("--strict", options->strict, "Dropped events are a problem too");
}

void addExportCommand(Tool& tool) {
  struct Options {
    TraceFile file;
    std::string output, format = "perfetto";
    const CommandLine* command = nullptr;

    /// That of --output's name, unless one is asked for.
    std::string formatOf() const {
      if (command->given("--format")) return format;
      return output.ends_with(".json") ? "chrome" : output.ends_with(".csv") ? "csv" : "perfetto";
    }
  };
  auto options = std::make_shared<Options>();
  CommandLine& command =
      tool.addCommand("export", "Write the trace for another program", [&tool, options]() -> StatusOr<ExitCode> {
        const std::string format = options->formatOf();
        bool chrome = format == "chrome", csv = format == "csv";
        std::string output = !options->output.empty() ? options->output
                                                      : withEnding(options->file.path, chrome ? ".json"
                                                                                       : csv  ? ".csv"
                                                                                              : ".pftrace");
        if (options->output.empty()) {
          HPU_RETURN_IF_ERROR(tool.writes(output));
          HPU_RETURN_IF_ERROR(checkWritableFile("--output", output));
        }
        HPU_ASSIGN(TraceData trace, options->file.read(tool));
        HPU_RETURN_IF_ERROR(writeExport(trace,
                                        chrome ? trace::writeChrome
                                        : csv  ? trace::writeCsv
                                               : trace::writePerfetto,
                                        output));
        tool.print("wrote " + output + " (" + trace::readerOf(chrome ? ".json" : csv ? ".csv" : ".pftrace") + ")");
        tool.json().set("path", output).set("format", format).set("events", trace.numEvents());
        return ExitCode::kOk;
      });
  options->command = &command;
  options->file.addTo(command);
  command.addOption("-o,--output", options->output, "File to write, - for stdout (default: beside the trace)");
  command.writesFile("--output", options->output, [options] { return options->formatOf() != "perfetto"; });
  command.addChoice(
      "--format", options->format, {"perfetto", "chrome", "csv"},
      "Perfetto protobuf, Chrome JSON, or one line a slice; an --output that ends in .json or .csv is that");
}

}  // namespace hpu::tools
