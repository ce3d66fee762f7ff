// SPDX-License-Identifier: Apache-2.0
// Where the modelled device time of a recipe goes, as JSON: by engine, along the critical path, by op.
#pragma once

#include "hpu/recipe.h"
#include "tools/common/Json.h"

namespace hpu::tools {

/// Adds `engines{}`, `critical_path_us{}` and `slowest_ops[]` (docs/cli.md). The clock profile is the target's
/// first one, as for the recipe's own estimate.
Status addDeviceTime(Json& json, const Recipe& recipe);

}  // namespace hpu::tools
