// SPDX-License-Identifier: Apache-2.0
// hpu-trace: reads the recordings of hpu::trace.
#include "tools/hpu-trace/Commands.h"

int main(int argc, char** argv) {
  hpu::tools::Tool tool("hpu-trace", "Reads traces of the host and the device (.hputrace files).");
  tool.setFooter(
      "Record a trace with 'hpu-trace record -o run.hputrace -- COMMAND', 'hpu-run MODEL --trace "
      "run.hputrace', HPU_TRACE=run.hputrace in a program's environment, or hpu::trace::start and "
      "stop.\n"
      "Host and device time are two clocks and are never mixed.");
  hpu::tools::addSummaryCommand(tool);
  hpu::tools::addTopCommand(tool);
  hpu::tools::addTimelineCommand(tool);
  hpu::tools::addRooflineCommand(tool);
  hpu::tools::addOverlapCommand(tool);
  hpu::tools::addCriticalPathCommand(tool);
  hpu::tools::addMemoryCommand(tool);
  hpu::tools::addDiffCommand(tool);
  hpu::tools::addInfoCommand(tool);
  hpu::tools::addValidateCommand(tool);
  hpu::tools::addExportCommand(tool);
  hpu::tools::addMergeCommand(tool);
  hpu::tools::addRecordCommand(tool);
  return tool.run(argc, argv);
}
