// SPDX-License-Identifier: Apache-2.0
// The log of OpenHPU's libraries: lines on standard error, unless the program takes them.
// The one thing to know: there is one hook in a process, for all of the libraries; an error that a call returns is not
// logged as well.
//
//   hpu::setLogHook([](hpu::LogLevel level, const std::string& message) { LOG(INFO) << message; });
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hpu/status.h"

namespace hpu {

enum class LogLevel : uint8_t { kTrace = 0, kDebug, kInfo, kWarning, kError, kOff };

/// From now on the hook gets every message of the level in force or above, in place of standard error; an empty one
/// gives them back to it. Called on the thread that says it, perhaps several at a time and with locks of the libraries:
/// it must not call them. Where it throws, the message goes to standard error. A call of the hook before may still go
/// on.
HPU_API void setLogHook(std::function<void(LogLevel level, const std::string& message)> hook);
/// In place of HPU_LOG_LEVEL. A number beyond kOff is kOff.
HPU_API void setLogLevel(LogLevel level);
HPU_API LogLevel logLevel();

}  // namespace hpu
