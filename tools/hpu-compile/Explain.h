// SPDX-License-Identifier: Apache-2.0
// hpu-compile --explain: what became of one node of the model.
#pragma once

#include <string>

#include "hpu/recipe.h"
#include "tools/common/Cli.h"

namespace hpu::tools {

/// Prints every device operation that a node (by exact name, else by a part of it) went into:
/// engine, unit, index space, slices and modelled time. Errors: kNotFound when no operation has
/// such a node.
StatusOr<ExitCode> explainNode(Tool& tool, const Recipe& recipe, const std::string& node);

}  // namespace hpu::tools
