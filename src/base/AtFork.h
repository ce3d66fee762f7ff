// SPDX-License-Identifier: Apache-2.0
// atFork: what the process's own locks do around fork(), so that a child finds them free and what
// they guard whole, whatever other threads were doing.
// The one thing to know: handlers run by rank and not by the order of their registration, because a
// fork has to take the locks in the order in which everybody else does.
//
//   base::atFork(ForkRank::kDeviceClocks, base::forkHandlersOf<domain>());
#pragma once

#include <cstdint>
#include <mutex>

namespace hpu::base {

/// Locks of the whole process, the one that is taken before the others first.
enum class ForkRank : uint8_t {
  kGraphCompiler,
  kPrograms,
  kProgramCache,
  kProfiler,
  kRankWatch,
  kBootstrap,
  kNetwork,
  kSockets,
  kTraceSetting,
  kTraceSession,
  kMonitorEvents,
  kMonitor,
  kOpenDevices,
  kDeviceService,
  kDeviceClocks,
  kNodeAnswers,
  kKeptMemory,
  kMatrixKernels,
  kOtherSettings,
  kSettings,
  kProcess,
  kLog
};
inline constexpr int kNumForkRanks = static_cast<int>(ForkRank::kLog) + 1;

/// Each may be null.
struct ForkHandlers {
  void (*prepare)() = nullptr;  ///< Before the fork: takes the locks.
  void (*parent)() = nullptr;   ///< After it, on the same thread: gives them back.
  void (*child)() = nullptr;
};

/// `handlers` stays valid for ever. A rank has one owner; registering again changes nothing. False:
/// the host has no memory for it. Any thread may call.
bool atFork(ForkRank rank, const ForkHandlers& handlers) noexcept;

/// Of a mutex that is never destroyed.
template <std::mutex& (*Get)()>
const ForkHandlers& forkHandlersOf() {
  static constexpr ForkHandlers handlers = {[] { Get().lock(); }, [] { Get().unlock(); }, [] { Get().unlock(); }};
  return handlers;
}

/// For maps and the like that a process has once and looks at for a moment: nothing else is locked
/// and nothing waits while it is held, and a forked child finds it free. What such a map gives may be
/// in use by a thread of the parent: entries belong to the process that made them.
std::mutex& processMutex();

/// Counts the forks that this process descends by, as far as anybody asked before them: what was made in another
/// generation is a parent's. A load; any thread may call.
uint64_t processGeneration() noexcept;

}  // namespace hpu::base
