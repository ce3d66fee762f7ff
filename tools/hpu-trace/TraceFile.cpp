// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-trace/TraceFile.h"

#include "base/StatusMacros.h"
#include "runtime/trace/ExportTracks.h"
#include "runtime/trace/Reader.h"
#include "tools/hpu-trace/Report.h"

namespace hpu::tools {

StatusOr<trace::TraceData> readForFigures(Tool& tool, const std::string& path, bool partial) {
  HPU_ASSIGN(trace::TraceData trace, trace::readTraceFile(path));
  std::string events = std::to_string(trace.numEvents()) + " events";
  uint64_t whole = trace.fileBytes - trace.truncatedBytes;
  std::string cut = "'" + path + "' is cut short: it ends at byte " + std::to_string(trace.fileBytes) +
                    ", within the chunk that begins at byte " + std::to_string(whole);
  if (trace.truncatedBytes > 0 && (!partial || trace.numEvents() == 0))
    return dataLoss(cut + (trace.numEvents() == 0 ? "; no events are before it"
                                                  : "; --partial works on the " + events + " before it"));
  if (!trace.stopped && trace.numEvents() == 0)
    return dataLoss("'" + path +
                    "' holds no events and its recording was not ended: the file ends "
                    "at byte " +
                    std::to_string(trace.fileBytes));
  if (trace.truncatedBytes > 0) {
    tool.note(cut + "; the figures are those of the " + events + " before it");
  } else if (!trace.stopped) {
    std::string who;
    for (const trace::TracedProcess& p : trace.processes)
      if (!p.stopped) who += (who.empty() ? "" : ", ") + printable(trace::processTitle(p));
    tool.note("'" + path + "': " + who + " ended before its recording did; the figures are those of " + "the " +
              events + " that were written");
  }
  return trace;
}

void TraceFile::addTo(CommandLine& command) {
  command.addPositional("TRACE", path, "A .hputrace file");
  command.addFlag("--partial", partial, "Work on what is whole of a file that is cut short");
}

StatusOr<trace::TraceData> TraceFile::read(Tool& tool) const {
  return readForFigures(tool, path, partial);
}

}  // namespace hpu::tools
