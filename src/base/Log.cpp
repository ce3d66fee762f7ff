// SPDX-License-Identifier: Apache-2.0
#include "base/Log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/AtFork.h"
#include "base/LogTarget.h"
#include "base/Settings.h"

namespace hpu::base {
namespace {

constexpr std::string_view kNames[] = {"trace", "debug", "info", "warning", "error", "off"};

LogLevel levelFromEnvironment() {
  auto text = settings::getString(Setting::HPU_LOG_LEVEL);
  if (!text.ok()) {
    std::fprintf(stderr, "[hpu] [warning] %s; using warning\n", text.status().message().c_str());
    return LogLevel::kWarning;
  }
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (*text == kNames[i]) return static_cast<LogLevel>(i);
  return LogLevel::kWarning;
}

std::atomic<LogLevel>& ownLevel() {
  static std::atomic<LogLevel> value{levelFromEnvironment()};
  return value;
}

/// One line at a time. Ours and not the sink's, so that a forked child finds it free.
std::mutex& lineMutex();
std::mutex& lineMutex() {
  static std::mutex* instance = [] {
    atFork(ForkRank::kLog, forkHandlersOf<lineMutex>());
    return new std::mutex;
  }();
  return *instance;
}

/// Never destroyed: threads may log while the process exits.
spdlog::logger& logger() {
  static spdlog::logger* instance = [] {
    auto* created = new spdlog::logger("hpu", std::make_shared<spdlog::sinks::stderr_sink_st>());
    created->set_pattern("[hpu] [%l] %v");
    created->set_level(spdlog::level::trace);
    created->flush_on(spdlog::level::trace);
    return created;
  }();
  return *instance;
}

spdlog::level::level_enum spdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::err;
}

using Hook = std::function<void(LogLevel, const std::string&)>;

/// Guarded by lineMutex(). Never destroyed.
std::shared_ptr<const Hook>& hookSlot() {
  static auto* instance = new std::shared_ptr<const Hook>;
  return *instance;
}

thread_local bool inHook = false;

/// False: there is no hook, or it did not take the message.
bool tellHook(LogLevel severity, std::string_view message) {
  if (inHook) return false;
  std::shared_ptr<const Hook> hook;
  {
    std::lock_guard lock(lineMutex());
    hook = hookSlot();
  }
  if (!hook) return false;
  inHook = true;
  bool taken = true;
  try {
    (*hook)(severity, std::string(message));
  } catch (...) {
    taken = false;
  }
  hook.reset();  // What it has kept may log when it goes.
  inHook = false;
  return taken;
}

void ownLog(LogLevel severity, std::string_view message) {
  try {
    if (tellHook(severity, message)) return;
    std::lock_guard lock(lineMutex());
    logger().log(spdlogLevel(severity), spdlog::string_view_t(message.data(), message.size()));
  } catch (...) {
    // A message that cannot be written is lost; the work goes on.
  }
}

void setOwnHook(Hook hook) {
  auto now = hook ? std::make_shared<const Hook>(std::move(hook)) : nullptr;
  std::lock_guard lock(lineMutex());
  hookSlot().swap(now);  // The one before is destroyed after the lock.
}

/// Null: the messages of this library are its own.
std::atomic<const LogTarget*> target{nullptr};

std::atomic<LogLevel>& level() {
  const LogTarget* shared = target.load(std::memory_order_acquire);
  return shared ? *shared->level : ownLevel();
}

}  // namespace

const LogTarget& ownLogTarget() {
  static const auto* instance = new LogTarget{&ownLevel(), ownLog, setOwnHook};
  return *instance;
}

void shareLog(const LogTarget& shared) {
  target.store(&shared, std::memory_order_release);
}

bool logEnabled(LogLevel wanted) {
  return wanted != LogLevel::kOff && wanted >= level().load(std::memory_order_relaxed);
}

void setLogLevel(LogLevel wanted) {
  level().store(std::min(wanted, LogLevel::kOff), std::memory_order_relaxed);
}

void log(LogLevel severity, std::string_view message) {
  if (!logEnabled(severity)) return;
  const LogTarget* shared = target.load(std::memory_order_acquire);
  (shared ? shared->log : ownLog)(severity, message);
}

}  // namespace hpu::base

namespace hpu {

void setLogHook(std::function<void(LogLevel level, const std::string& message)> hook) {
  const base::LogTarget* shared = base::target.load(std::memory_order_acquire);
  (shared ? shared->setHook : base::setOwnHook)(std::move(hook));
}

void setLogLevel(LogLevel level) {
  base::setLogLevel(level);
}

LogLevel logLevel() {
  return base::level().load(std::memory_order_relaxed);
}

}  // namespace hpu
