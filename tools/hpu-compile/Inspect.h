// SPDX-License-Identifier: Apache-2.0
// --inspect: what a model is, what of it does not compile, and what it costs.
// The one thing to know: that a model does not compile is a finding here, not an error; only a file that cannot be read
// is one.
#pragma once

#include <string>

#include "hpu/compiler.h"
#include "tools/common/Cli.h"

namespace hpu::tools {

/// Reads and compiles the model (without the recipe cache, and nothing is written), and prints what was found. Errors:
/// those of reading the file, and kCancelled.
StatusOr<ExitCode> inspectModel(Tool& tool, const std::string& path, CompileOptions options);

}  // namespace hpu::tools
