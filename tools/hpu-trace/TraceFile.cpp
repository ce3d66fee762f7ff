// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-trace/TraceFile.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/StatusMacros.h"
#include "runtime/trace/ExportTracks.h"
#include "runtime/trace/Reader.h"
#include "tools/hpu-trace/Report.h"

namespace hpu::tools {

namespace {

/// A process holds the lock of the file that it records to.
bool isBeingRecorded(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

}  // namespace

StatusOr<trace::TraceData> readForFigures(Tool& tool, const std::string& path, bool partial) {
  HPU_ASSIGN(trace::TraceData trace, trace::readTraceFile(path));
  const bool live = !trace.stopped && isBeingRecorded(path);
  std::string events = std::to_string(trace.numEvents()) + " events";
  uint64_t whole = trace.fileBytes - trace.truncatedBytes;
  std::string cut = "'" + path + "' is " + (live ? "still being recorded" : "cut short") + ": it ends at byte " +
                    std::to_string(trace.fileBytes) + ", within the chunk that begins at byte " + std::to_string(whole);
  if (trace.truncatedBytes > 0 && (!partial || trace.numEvents() == 0))
    return dataLoss(cut + (trace.numEvents() == 0 ? "; no events are before it"
                                                  : "; --partial works on the " + events + " before it"));
  if (!trace.stopped && trace.numEvents() == 0)
    return dataLoss("'" + path + "' holds no events " + (live ? "yet" : "and its recording was not ended") +
                    ": the file ends at byte " + std::to_string(trace.fileBytes) +
                    (trace.dropped > 0 ? "; " + std::to_string(trace.dropped) + " events found no room" : ""));
  if (trace.truncatedBytes > 0) {
    tool.note(cut + "; the figures are those of the " + events + " before it");
  } else if (live) {
    tool.note("'" + path + "' is still being recorded; the figures are those of the " + events +
              " that were written so far");
  } else if (!trace.stopped) {
    std::string who;
    for (const trace::TracedProcess& p : trace.processes)
      if (!p.stopped) who += (who.empty() ? "" : ", ") + printable(trace::processTitle(p));
    tool.note("'" + path + "': " + who + " ended before its recording did; the figures are those of " + "the " +
              events + " that were written");
  }
  if (trace.dropped > 0)
    tool.note("'" + path + "': " + (trace.stopped ? "" : "at least ") + std::to_string(trace.dropped) +
              " events are missing, since they found no room (--max-events, HPU_TRACE_EVENTS, or the disk): sums are "
              "too low");
  return trace;
}

void TraceFile::addTo(CommandLine& command) {
  command.addPositional("TRACE", path, "A .hputrace file (a pipe: /dev/stdin)");
  command.readsFiles("TRACE");
  command.addFlag("--partial", partial, "Work on what is whole of a file that is cut short");
}

StatusOr<trace::TraceData> TraceFile::read(Tool& tool) const {
  return readForFigures(tool, path, partial);
}

}  // namespace hpu::tools
