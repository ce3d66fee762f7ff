// SPDX-License-Identifier: Apache-2.0
// hpu-trace merge: the traces of several processes as one.
#include <memory>

#include "base/File.h"
#include "base/StatusMacros.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/ExportTracks.h"
#include "runtime/trace/Merge.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

struct Options {
  std::vector<std::string> paths;
  std::string output, align = "clock";
  bool partial = false;
};

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  if (options.output.empty()) return invalidArgument("merge needs a file to write: -o FILE");
  std::vector<TraceData> traces;
  for (const std::string& path : options.paths) {
    if (path == options.output)
      return invalidArgument("the merged trace would replace '" + path +
                             "', one of its inputs; give another path with -o");
    HPU_ASSIGN(TraceData trace, readForFigures(tool, path, options.partial));
    traces.push_back(std::move(trace));
  }
  std::vector<trace::MergeInput> inputs;
  for (size_t i = 0; i < traces.size(); ++i) inputs.push_back({options.paths[i], &traces[i]});
  trace::Align align = options.align == "wall"    ? trace::Align::kWall
                       : options.align == "start" ? trace::Align::kStart
                                                  : trace::Align::kClock;
  HPU_ASSIGN(trace::Merged merged, trace::mergeTraces(inputs, align));
  Json processes = Json::array(), renumbered = Json::array();
  Table table({Column::number("begins at"), Column::name("process"), Column::name("file")});
  for (const trace::Merged::Process& p : merged.processes) {
    const std::string& path = options.paths[p.input];
    processes.append(Json::object()
                         .set("path", path)
                         .set("pid", static_cast<int64_t>(p.pid))
                         .set("name", p.name)
                         .set("offset_us", static_cast<double>(p.offsetNs) / 1e3)
                         .set("exact", p.exact));
    table.row({formatHostTime(p.offsetNs) + (p.exact ? "" : " (not exact)"),
               printable((p.name.empty() ? "process" : p.name) + " " + std::to_string(p.pid)), path});
  }
  tool.print(table);
  for (const trace::Merged::Renumbered& r : merged.renumbered) {
    const std::string& path = options.paths[r.input];
    renumbered.append(Json::object()
                          .set("path", path)
                          .set("device", static_cast<int64_t>(r.before))
                          .set("becomes", static_cast<int64_t>(r.after)));
    tool.note("device " + std::to_string(r.before) + " of '" + path + "' becomes device " + std::to_string(r.after) +
              ": another trace has a device " + std::to_string(r.before));
  }
  auto bytes = static_cast<int64_t>(merged.bytes.size());
  HPU_RETURN_IF_ERROR(trace::exportBytes(std::move(merged.bytes), options.output));
  tool.print("wrote " + options.output + " (" + trace::readerOf(options.output) + ")");
  tool.json().set("path", options.output).set("bytes", bytes).set("align", options.align);
  tool.json().set("processes", std::move(processes)).set("renumbered", std::move(renumbered));
  return ExitCode::kOk;
}

}  // namespace

void addMergeCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command = tool.addCommand("merge", "Make one trace of several processes' traces",
                                         [&tool, options] { return run(tool, *options); });
  command.addPositional("TRACES", options->paths, "The .hputrace files");
  command.readsFiles("TRACES");
  command.addOption("-o,--output", options->output,
                    "File to write (.json: Chrome, .pftrace: Perfetto, .csv: slices; - for stdout)");
  command.writesFile("--output", options->output);
  command.addChoice("--align", options->align, {"clock", "wall", "start"},
                    "Host clocks: the one that processes of a machine share (others are refused), "
                    "machines' wall clocks, or all begin at 0");
  command.addFlag("--partial", options->partial, "Take what is whole of files that are cut short");
}

}  // namespace hpu::tools
