// SPDX-License-Identifier: Apache-2.0
#include "base/Log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

#include "base/AtFork.h"
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

std::atomic<LogLevel>& level() {
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

}  // namespace

bool logEnabled(LogLevel wanted) {
  return wanted != LogLevel::kOff && wanted >= level().load(std::memory_order_relaxed);
}

void setLogLevel(LogLevel wanted) {
  level().store(wanted, std::memory_order_relaxed);
}

void log(LogLevel severity, std::string_view message) {
  if (!logEnabled(severity)) return;
  try {
    std::lock_guard lock(lineMutex());
    logger().log(spdlogLevel(severity), spdlog::string_view_t(message.data(), message.size()));
  } catch (...) {
    // A message that cannot be written is lost; the work goes on.
  }
}

}  // namespace hpu::base
