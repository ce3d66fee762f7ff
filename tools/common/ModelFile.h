// SPDX-License-Identifier: Apache-2.0
// Compiling a model file for the tools: sizes of free dimensions from data, progress on the
// terminal.
#pragma once

#include <string>
#include <vector>

#include "hpu/compiler.h"
#include "tools/common/Cli.h"
#include "tools/common/Inputs.h"

namespace hpu::tools {

/// When no --shape or --dim was given, free dimensions take their sizes from the first data set, or
/// from the files among `inputs` ("--input" texts). Errors: those of importing; inputs that do not
/// fit.
Status takeShapesFrom(const std::string& model, const std::vector<DataSet>& data,
                      const std::vector<std::string>& inputs, CompileOptions& options);

/// compileFile with a line a phase on a terminal or with --verbose; unsupported nodes as one table
/// in the error's message and in json()["unsupported"].
StatusOr<CompileResult> compileWithProgress(Tool& tool, const std::string& model, CompileOptions options);

}  // namespace hpu::tools
