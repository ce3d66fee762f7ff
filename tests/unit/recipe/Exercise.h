// SPDX-License-Identifier: Apache-2.0
// Uses a program that the reader accepted the way the runtime does, trusting every field, and
// checks with arithmetic of its own that nothing leaves its place.
#pragma once

#include <string>

#include "recipe/Recipe.h"

namespace hpu::recipe::testing {

/// "" when every operand of every command stays in its section, every id is in range and every
/// constant and image byte is readable; else what does not. Reads all bytes, so that a sanitizer
/// sees bad ones.
std::string exerciseProgram(const Program& program);

}  // namespace hpu::recipe::testing
