// SPDX-License-Identifier: Apache-2.0
// fixed: a number with so many digits behind the point, for tables and messages.
// The one thing to know: base::strCat writes the shortest form that reads back equal; this is for columns.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

namespace hpu::tools {

inline std::string fixed(double value, int digits) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%.*f", digits, value);
  return std::string(text, length < 0 ? 0 : std::min<size_t>(static_cast<size_t>(length), sizeof text - 1));
}

}  // namespace hpu::tools
