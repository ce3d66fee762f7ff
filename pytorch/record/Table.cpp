// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Table.h"

#include <map>

#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

/// Calls visit for each word.
template <typename Visit>
void forEachWord(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const size_t end = text.find(' ');
    if (end != 0) visit(text.substr(0, end));
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
}

const std::map<std::string_view, const Row*>& rows() {
  static const auto& all = *[] {
    auto* made = new std::map<std::string_view, const Row*>;
    for (const std::vector<Row>* family : opFamilies())
      for (const Row& row : *family) forEachWord(row.names, [&](std::string_view name) { (*made)[name] = &row; });
    return made;
  }();
  return all;
}

}  // namespace

bool Row::writes(size_t argument) const {
  bool found = false;
  forEachWord(written, [&](std::string_view word) { found |= word == std::to_string(argument); });
  return found;
}

const Row* findRow(std::string_view name) {
  auto found = rows().find(name);
  return found == rows().end() ? nullptr : found->second;
}

std::vector<std::string> tableNames() {
  std::vector<std::string> names;
  for (const auto& [name, row] : rows()) names.emplace_back(name);
  return names;
}

const std::vector<Limit>& tableLimits() {
  return opLimits();
}

}  // namespace hpu_torch
