// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/ProcessStart.h"

#include <cstdlib>
#include <string>

#include "base/File.h"
#include "base/Format.h"

namespace hpu::node {

uint64_t startTimeOf(int64_t pid, char* state) {
  auto text = base::readTextFile(base::strCat("/proc/", pid, "/stat"), 4096);
  if (!text.ok()) return 0;
  // "pid (name) state ppid ...": the name may hold anything; the start time is the 22nd field.
  size_t at = text->rfind(") ");
  if (at == std::string::npos || at + 2 >= text->size()) return 0;
  if (state) *state = (*text)[at + 2];
  at += 2;
  for (int field = 3; field < 22; ++field) {
    at = text->find(' ', at);
    if (at == std::string::npos) return 0;
    ++at;
  }
  return std::strtoull(text->c_str() + at, nullptr, 10);
}

}  // namespace hpu::node
