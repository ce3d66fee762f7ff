// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/Environment.h"

#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "hpu/trace.h"
#include "runtime/trace/Session.h"

namespace hpu::trace {
namespace {

struct State {
  std::mutex mutex;      ///< Guards the others.
  bool started = false;  ///< This process has a recording, or had one.
  std::string setting;   ///< That it was started with, here or in the process that this was forked from.
};
State& state();

void prepareFork() {
  state().mutex.lock();
}
void parentAfterFork() {
  state().mutex.unlock();
}
void childAfterFork() {
  state().started = false;
  state().mutex.unlock();
}

State& state() {
  static State* instance = [] {
    static constexpr base::ForkHandlers kHandlers = {prepareFork, parentAfterFork, childAfterFork};
    base::atFork(base::ForkRank::kTraceSetting, kHandlers);
    return new State;  // Never destroyed: devices may be opened while the process ends.
  }();
  return *instance;
}

bool endsWith(const std::string& text, std::string_view ending) {
  return text.size() >= ending.size() && std::string_view(text).substr(text.size() - ending.size()) == ending;
}

/// `text` with "%p" replaced by the process's id.
std::string withPid(std::string text) {
  const std::string pid = std::to_string(getpid());
  for (size_t at = 0; (at = text.find("%p", at)) != std::string::npos; at += pid.size()) text.replace(at, 2, pid);
  return text;
}

/// "run.1234.hputrace" for "run.hputrace": where a process records whose file is another one's.
std::string besideOf(const std::string& path) {
  size_t name = path.rfind('/') + 1, dot = path.rfind('.');
  if (dot == std::string::npos || dot <= name) dot = path.size();
  return base::strCat(path.substr(0, dot), ".", getpid(), path.substr(dot));
}

/// At the end of the process: completes the file. A forked child that never opened a device has no
/// recording of its own.
void finish() {
  std::lock_guard lock(state().mutex);
  if (!state().started || !recording()) return;
  if (Status status = stop(""); !status.ok()) HPU_LOG(kError, "HPU_TRACE: " + status.message());
}

/// Without "%p" all processes mean one file, which is the first one's.
Status startBesideOthers(const std::string& path, bool inherited, Options& options) {
  const bool shared = path.find("%p") == std::string::npos;
  options.streamTo = shared && inherited ? besideOf(path) : withPid(path);
  Status status = start(options);
  if (shared && status.code() == StatusCode::kAlreadyExists && options.streamTo == path) {
    options.streamTo = besideOf(path);
    status = start(options);
  }
  if (status.ok() && shared && options.streamTo != path)
    HPU_LOG(kWarning, "HPU_TRACE=" + path + " is the recording of another process; this one records to '" +
                          options.streamTo + "' (%p in the name gives each process its own)");
  return status;
}

}  // namespace

Status startFromEnvironment() {
  if (!settings::isSet(Setting::HPU_TRACE)) return okStatus();
  HPU_ASSIGN(std::string path, settings::getString(Setting::HPU_TRACE));
  State& own = state();
  std::lock_guard lock(own.mutex);
  if (own.started) return okStatus();
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
  if (options.maxEvents < 1) return invalidArgument("HPU_TRACE_EVENTS=0 is not valid: a trace needs room for an event");
  options.eachLaunch = true;
  // Whatever the reason is, it is not one of those that opening a device has.
  if (Status status = startBesideOthers(path, own.setting == path, options); !status.ok())
    return invalidArgument("HPU_TRACE=" + path + ": " + status.message());
  // Once for a process and its forked children.
  static const int registered = std::atexit(finish);
  if (registered != 0) HPU_LOG(kWarning, "HPU_TRACE: the file will lack its end");
  own.started = true;
  own.setting = std::move(path);
  return okStatus();
}

}  // namespace hpu::trace
