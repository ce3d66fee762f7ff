// SPDX-License-Identifier: Apache-2.0
// The verbs of hpu-trace. Each adds itself to the tool, with its options.
#pragma once

#include "tools/common/Cli.h"

namespace hpu::tools {

void addSummaryCommand(Tool& tool);
void addTopCommand(Tool& tool);
void addRooflineCommand(Tool& tool);
void addOverlapCommand(Tool& tool);
void addCriticalPathCommand(Tool& tool);
void addMemoryCommand(Tool& tool);
void addDiffCommand(Tool& tool);
void addInfoCommand(Tool& tool);
void addValidateCommand(Tool& tool);
void addExportCommand(Tool& tool);
void addTimelineCommand(Tool& tool);
void addMergeCommand(Tool& tool);
void addRecordCommand(Tool& tool);

}  // namespace hpu::tools
