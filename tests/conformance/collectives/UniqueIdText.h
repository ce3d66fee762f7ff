// SPDX-License-Identifier: Apache-2.0
// A unique id as a line of text, for programs that speak in lines.
#pragma once

#include <cstdio>
#include <string>

#include "hpu/collectives.h"

namespace hpu::collectives::testing {

inline std::string idText(const UniqueId& id) {
  std::string text;
  for (uint8_t byte : id.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

inline bool idFromText(const std::string& text, UniqueId& id) {
  if (text.size() != 2 * sizeof(id.bytes)) return false;
  for (size_t i = 0; i < sizeof(id.bytes); ++i) {
    unsigned value = 0;
    if (std::sscanf(text.c_str() + 2 * i, "%2x", &value) != 1) return false;
    id.bytes[i] = static_cast<uint8_t>(value);
  }
  return true;
}

}  // namespace hpu::collectives::testing
