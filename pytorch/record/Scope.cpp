// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Scope.h"

#include <map>
#include <mutex>
#include <vector>

namespace hpu_torch {
namespace {

struct Names {
  std::mutex mutex;
  std::map<std::string, int64_t> numbers;
  std::vector<std::string> names{""};
};
Names& names() {
  static Names& instance = *new Names;
  return instance;
}
thread_local int64_t t_scope = 0;

}  // namespace

void setScope(const std::string& name) {
  if (name.empty()) {
    t_scope = 0;
    return;
  }
  std::lock_guard<std::mutex> lock(names().mutex);
  auto [found, isNew] = names().numbers.emplace(name, static_cast<int64_t>(names().names.size()));
  if (isNew) names().names.push_back(name);
  t_scope = found->second;
}

int64_t currentScope() {
  return t_scope;
}

std::string scopeName(int64_t scope) {
  std::lock_guard<std::mutex> lock(names().mutex);
  return names().names[static_cast<size_t>(scope)];
}

}  // namespace hpu_torch
