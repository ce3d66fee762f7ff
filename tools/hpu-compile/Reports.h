// SPDX-License-Identifier: Apache-2.0
// Reports on a terminal: at most a screen each; --verbose and --json have every line.
#pragma once

#include <string>

namespace hpu::tools {

/// The text when it has at most `mostLines`; else the first lines of each kind (a line's first word is its kind), in
/// the text's order, and how many of that kind are left out.
std::string condensed(const std::string& report, size_t mostLines = 40);

}  // namespace hpu::tools
