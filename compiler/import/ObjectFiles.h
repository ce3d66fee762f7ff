// SPDX-License-Identifier: Apache-2.0
// Which object files a file of custom ops names, found without reading it as MLIR.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace hpu::importer {

inline bool isObjectNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}
inline bool isObjectName(std::string_view name) {
  if (name.size() < 3 || !name.ends_with(".o")) return false;
  for (char c : name)
    if (!isObjectNameCharacter(c)) return false;
  return true;
}

/// All words of the bytes that isObjectName() of: at least those that are read.
inline std::set<std::string> objectNames(std::string_view bytes) {
  std::set<std::string> names;
  for (size_t i = 0; i < bytes.size();) {
    size_t end = i;
    while (end < bytes.size() && isObjectNameCharacter(bytes[end])) ++end;
    if (isObjectName(bytes.substr(i, end - i))) names.emplace(bytes.substr(i, end - i));
    i = end + 1;
  }
  return names;
}

}  // namespace hpu::importer
