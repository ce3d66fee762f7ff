// SPDX-License-Identifier: Apache-2.0
// The trace that a verb works on. The one thing to know: a file that is cut short is an error, since
// figures of its first part look like figures of the whole; --partial asks for them.
#pragma once

#include <string>

#include "runtime/trace/TraceData.h"
#include "tools/common/Cli.h"

namespace hpu::tools {

struct TraceFile {
  std::string path;
  bool partial = false;

  /// The positional TRACE and --partial.
  void addTo(CommandLine& command);
  StatusOr<trace::TraceData> read(Tool& tool) const;
};

/// Reads a trace for figures. Errors: those of trace::readTraceFile; kDataLoss when the file ends
/// within a chunk (unless `partial`, then a note says up to where it is read) or was not ended and
/// holds nothing. A recording whose process ended before it gets a note.
StatusOr<trace::TraceData> readForFigures(Tool& tool, const std::string& path, bool partial);

}  // namespace hpu::tools
