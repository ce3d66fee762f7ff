// SPDX-License-Identifier: Apache-2.0
// Reads a recipe container into a verified Program.
// The one thing to know: nothing in the bytes is trusted but the code of the kernel images; every checksum,
// constants' too, is checked before anything is used.
#pragma once

#include <memory>
#include <string>

#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// Reads the file into memory of its own, which constants and kernel images of the result point into: what was checked
/// is what is used, whatever becomes of the file. Errors as Recipe::load.
StatusOr<std::shared_ptr<const Program>> readRecipeFile(const std::string& path);
/// `owner` keeps the bytes alive as long as the program. `where` names the source in errors.
StatusOr<std::shared_ptr<const Program>> readRecipe(const uint8_t* data, uint64_t bytes,
                                                    std::shared_ptr<const void> owner, const std::string& where);
}  // namespace hpu::recipe
