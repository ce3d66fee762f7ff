// SPDX-License-Identifier: Apache-2.0
// LogTarget: where a library's log goes. Each shared library has src/base in it, and with it a log of its own; those
// that stand on libhpu_runtime give theirs up for the runtime's when they are loaded, so that a process has one. The
// one thing to know: programs of this repository have everything once, and nothing to share.
//
//   SOURCES Version.cpp ${PROJECT_SOURCE_DIR}/src/base/JoinRuntimeLog.cpp   # Of such a library.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "hpu/log.h"

namespace hpu::base {

struct LogTarget {
  std::atomic<LogLevel>* level;
  void (*log)(LogLevel level, std::string_view message);
  void (*setHook)(std::function<void(LogLevel, const std::string&)> hook);
};

/// Of the library that this is in; valid for ever.
const LogTarget& ownLogTarget();
/// From now on the messages of this library go there, which is valid for ever.
void shareLog(const LogTarget& shared);

}  // namespace hpu::base
