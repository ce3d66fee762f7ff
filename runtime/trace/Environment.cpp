// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/Environment.h"

#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "base/Log.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "hpu/trace.h"
#include "runtime/trace/Session.h"

namespace hpu::trace {
namespace {

std::mutex gMutex;
pid_t gStartedBy = 0;  ///< The process that the recording belongs to. Guarded by gMutex.

bool endsWith(const std::string& text, std::string_view ending) {
  return text.size() >= ending.size() &&
         std::string_view(text).substr(text.size() - ending.size()) == ending;
}

/// `text` with "%p" replaced by the process's id.
std::string withPid(std::string text) {
  const std::string pid = std::to_string(getpid());
  for (size_t at = 0; (at = text.find("%p", at)) != std::string::npos; at += pid.size())
    text.replace(at, 2, pid);
  return text;
}

/// At the end of the process: completes the file. A forked child that never opened a device has no
/// recording of its own.
void finish() {
  std::lock_guard lock(gMutex);
  if (gStartedBy != getpid() || !recording()) return;
  if (Status status = stop(""); !status.ok())
    HPU_LOG(kError, "HPU_TRACE: " + status.message());
}

}  // namespace

Status startFromEnvironment() {
  if (!settings::isSet(Setting::HPU_TRACE)) return okStatus();
  HPU_ASSIGN(std::string path, settings::getString(Setting::HPU_TRACE));
  std::lock_guard lock(gMutex);
  if (gStartedBy == getpid()) return okStatus();
  if (recording()) {
    HPU_LOG(kWarning, "HPU_TRACE is ignored: the program is recording a trace by itself");
    return okStatus();
  }
  for (std::string_view ending : {".json", ".pftrace", ".csv"})
    if (endsWith(path, ending))
      return invalidArgument("HPU_TRACE=" + path +
                             ": the file is written in the .hputrace format; end its name so and "
                             "convert it with 'hpu-trace export'");
  Options options;
  HPU_ASSIGN(std::string level, settings::getString(Setting::HPU_TRACE_LEVEL));
  options.level = level == "api" ? Level::kApi : level == "node" ? Level::kNode : Level::kSlice;
  HPU_ASSIGN(options.maxEvents, settings::getInt(Setting::HPU_TRACE_EVENTS));
  if (options.maxEvents < 1)
    return invalidArgument("HPU_TRACE_EVENTS=0 is not valid: a trace needs room for an event");
  options.streamTo = withPid(path);
  options.eachLaunch = true;
  if (Status status = start(options); !status.ok())
    return status.withContext("HPU_TRACE=" + path);
  // Once for a process and its forked children.
  static const int registered = std::atexit(finish);
  if (registered != 0) HPU_LOG(kWarning, "HPU_TRACE: the file will lack its end");
  gStartedBy = getpid();
  return okStatus();
}

}  // namespace hpu::trace
