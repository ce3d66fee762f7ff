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

/// Tells the tool of the model's file and of those with its external data: no output may be one of them.
Status protectModel(Tool& tool, const std::string& model);

/// Free dimensions take their sizes from the first data set, or from the files among `inputs` ("--input" texts); those
/// that --shape and --dim name must be the same there. Only what the file declares is read, so shapes that the model
/// computes from these sizes are no matter. Errors: inputs that are not there, cannot be read, or do not fit the
/// declared ones or the options; of models without free dimensions, too, so that nobody waits for a compilation in
/// vain.
Status takeShapesFrom(const std::string& model, const std::vector<DataSet>& data,
                      const std::vector<std::string>& inputs, CompileOptions& options);

/// compileFile with a line a phase on a terminal or with --verbose; unsupported nodes as one table
/// in the error's message and in json()["unsupported"].
StatusOr<CompileResult> compileWithProgress(Tool& tool, const std::string& model, CompileOptions options);

}  // namespace hpu::tools
