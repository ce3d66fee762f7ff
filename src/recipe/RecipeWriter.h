// SPDX-License-Identifier: Apache-2.0
// Writes a Program as a recipe container: equal programs give equal bytes.
#pragma once

#include <string>
#include <vector>

#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

StatusOr<std::vector<uint8_t>> writeRecipe(const Program& program);
/// Writes a temporary beside `path`, syncs it and renames it.
Status writeRecipeFile(const Program& program, const std::string& path);

}  // namespace hpu::recipe
