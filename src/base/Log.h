// SPDX-License-Identifier: Apache-2.0
// Log messages to stderr, or to the hook of hpu/log.h; spdlog is behind it and in no header.
// The one thing to know: what a Status already says is not logged as well; the level is
// HPU_LOG_LEVEL (default warning).
//
//   HPU_LOG(kInfo, hpu::base::strCat("loaded ", path, " in ", ms, " ms"));
#pragma once

#include <cstdint>
#include <string_view>

#include "hpu/log.h"

namespace hpu::base {

using hpu::LogLevel;

bool logEnabled(LogLevel level);
/// Writes one line "[hpu] [level] message"; any thread may call; never throws.
void log(LogLevel level, std::string_view message);
/// Replaces the level of HPU_LOG_LEVEL (for --quiet and --verbose).
void setLogLevel(LogLevel level);

}  // namespace hpu::base

/// The message expression is evaluated only when the level is enabled.
#define HPU_LOG(level, message)                                  \
  do {                                                           \
    if (::hpu::base::logEnabled(::hpu::base::LogLevel::level))   \
      ::hpu::base::log(::hpu::base::LogLevel::level, (message)); \
  } while (false)
