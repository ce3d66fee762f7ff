// SPDX-License-Identifier: Apache-2.0
// hpu-trace record: runs a command with HPU_TRACE set and puts what its processes recorded into one
// trace.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/File.h"
#include "base/StatusMacros.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/Merge.h"
#include "runtime/trace/Reader.h"
#include "tools/common/Interrupt.h"
#include "tools/common/OutputCheck.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/RunTraced.h"

namespace hpu::tools {
namespace {

/// As timeout(1).
constexpr int kTimedOut = 124;

struct Options {
  std::vector<std::string> command;
  std::string output = "run.hputrace", level = "slice";
  int64_t maxEvents = 1 << 22;
  double timeout = 0;
};

/// A folder beside the trace in which every process of the command writes a file; removed at the
/// end.
class PartsFolder {
 public:
  static StatusOr<PartsFolder> create(const std::string& beside) {
    std::string name = beside + ".parts.XXXXXX";
    if (!mkdtemp(name.data())) return base::errnoStatus(errno, "make a folder for the trace", name);
    return PartsFolder(std::move(name));
  }
  PartsFolder(PartsFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  PartsFolder& operator=(PartsFolder&&) = delete;
  ~PartsFolder() {
    if (path_.empty()) return;
    for (const std::string& file : files()) unlink(file.c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }
  std::vector<std::string> files() const {
    std::vector<std::string> list;
    if (DIR* folder = opendir(path_.c_str())) {
      while (const dirent* entry = readdir(folder))
        if (entry->d_name[0] != '.') list.push_back(path_ + "/" + entry->d_name);
      closedir(folder);
    }
    std::sort(list.begin(), list.end());
    return list;
  }

 private:
  explicit PartsFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string temporaryFolder() {
  const char* folder = secure_getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

/// The parts as one trace at options.output; the number of events.
StatusOr<int64_t> collect(Tool& tool, const Options& options, const PartsFolder& folder) {
  std::vector<std::string> paths;
  std::vector<TraceData> traces;
  for (const std::string& path : folder.files()) {
    StatusOr<TraceData> trace = trace::readTraceFile(path);
    // A process that was killed before it wrote anything.
    if (!trace.ok()) {
      tool.note("left out: " + trace.status().message());
      continue;
    }
    paths.push_back(path);
    traces.push_back(std::move(*trace));
  }
  if (traces.empty()) return notFound("nothing was recorded: no process of the command opened an OpenHPU device");
  int64_t events = 0, dropped = 0;
  bool whole = true, stopped = true;
  for (const TraceData& trace : traces) {
    events += trace.numEvents();
    dropped += trace.dropped;
    stopped &= trace.stopped;
    whole &= trace.stopped && trace.truncatedBytes == 0;
    if (!trace.stopped)
      tool.note("process " + std::to_string(trace.pid) +
                " ended before its recording did; the trace has what it had written");
  }
  if (dropped > 0)
    tool.note(std::string(stopped ? "" : "at least ") + std::to_string(dropped) +
              " events found no room and were dropped (--max-events, or the disk is full)");
  std::vector<uint8_t> bytes;
  if (traces.size() == 1 && whole) {
    bytes.assign(traces[0].bytes, traces[0].bytes + traces[0].fileBytes);
  } else {
    std::vector<trace::MergeInput> inputs;
    for (size_t i = 0; i < traces.size(); ++i) inputs.push_back({paths[i], &traces[i]});
    HPU_ASSIGN(trace::Merged merged, trace::mergeTraces(inputs, trace::Align::kClock));
    bytes = std::move(merged.bytes);
  }
  HPU_RETURN_IF_ERROR(trace::exportBytes(std::move(bytes), options.output));
  tool.json()
      .set("path", options.output)
      .set("processes", static_cast<int64_t>(traces.size()))
      .set("events", events)
      .set("dropped_events", dropped);
  return events;
}

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  if (options.command.empty() || options.command[0].empty())
    return invalidArgument("record needs a command: hpu-trace record -o FILE -- COMMAND");
  if (options.maxEvents < 1) return invalidArgument("--max-events must be at least 1");
  if (!(options.timeout >= 0 && options.timeout < 1e9))
    return invalidArgument("--timeout is a number of seconds, or 0 for none");
  HPU_RETURN_IF_ERROR(tool.writes(options.output));
  HPU_RETURN_IF_ERROR(checkWritableFile("--output", options.output));
  const bool toStdout = options.output == "/dev/stdout";
  HPU_ASSIGN(PartsFolder folder, PartsFolder::create(toStdout ? temporaryFolder() + "/hpu-trace" : options.output));
  CommandRun command;
  command.command = options.command;
  command.timeoutSeconds = options.timeout;
  command.outputToStderr = tool.jsonMode() || toStdout;
  // Absolute: the command may change its folder.
  std::unique_ptr<char, void (*)(void*)> absolute(realpath(folder.path().c_str(), nullptr), std::free);
  if (!absolute) return base::errnoStatus(errno, "find", folder.path());
  command.environment = {{"HPU_TRACE", std::string(absolute.get()) + "/%p.hputrace"},
                         {"HPU_TRACE_LEVEL", options.level},
                         {"HPU_TRACE_EVENTS", std::to_string(options.maxEvents)}};
  // The command's are passed on; one that comes while this process writes does not lose the recording.
  Interrupt interrupt("writing what was recorded", tool.quiet());
  HPU_ASSIGN(CommandEnd end, runCommand(command));
  int code = end.timedOut ? kTimedOut : end.exitCode;
  tool.json()
      .set("exit_code", static_cast<int64_t>(code))
      .set("signal", static_cast<int64_t>(end.signal))
      .set("timed_out", end.timedOut);
  if (end.timedOut) {
    tool.note("the command was ended at its deadline");
  } else if (end.signal) {
    tool.note("the command was ended by signal " + std::to_string(end.signal) + " (" + strsignal(end.signal) + ")");
  }
  // Ctrl-C that ended the command ends this process, too, when it has written what there is.
  auto ended = [&] {
    return end.signal && end.signal == end.received ? endBySignal(end.signal) : static_cast<ExitCode>(code);
  };
  StatusOr<int64_t> events = collect(tool, options, folder);
  if (!events.ok()) {
    // The command's own failure says more than that it left no trace.
    if (code == 0) return events.status();
    tool.note(events.status().message());
    return ended();
  }
  tool.note("recorded " + std::to_string(*events) + " events" +
            (toStdout ? "" : " to " + options.output + " (" + trace::readerOf(options.output) + ")"));
  return ended();
}

}  // namespace

void addRecordCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command = tool.addCommand("record", "Run a command and record what it does on OpenHPU devices",
                                         [&tool, options] { return run(tool, *options); });
  command.addPositional("COMMAND", options->command, "Behind '--': the program and its arguments");
  command.readsFiles("COMMAND");
  command.addOption(
      "-o,--output", options->output,
      "Trace to write (.json: Chrome, .pftrace: Perfetto, .csv: slices; - for stdout: the command's goes to stderr)");
  command.writesFile("--output", options->output);
  command.addChoice("--level", options->level, {"slice", "node", "api"},
                    "Device work to record: slices of operations, operations, or launches");
  command.addOption("--max-events", options->maxEvents, "Events a process may record; more are dropped and counted");
  command.addOption("--timeout", options->timeout,
                    "Seconds until the command and what it started are ended (exit code 124); 0: never");
  command.setFooter(
      "The exit code is the command's, or 128 + n when signal n ended it. Ctrl-C goes to the command; what "
      "it had recorded is kept. Every process of the "
      "command that opens a device is in the trace.\n"
      "Example: hpu-trace record -o run.hputrace -- hpu-run model.onnx --iters 10");
}

}  // namespace hpu::tools
