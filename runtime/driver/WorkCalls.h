// SPDX-License-Identifier: Apache-2.0
// WorkCalls: the calls of ExternalWork and RepeatableWork, which the program overrides and which may throw.
// The one thing to know: the runtime calls these functions in place of the work's own. What the work throws is the
// failure of the call, or of the work itself; where neither is there to have it (the work is over, or goes on without),
// it is logged.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ProgramCall.h"
#include "hpu/external_work.h"

namespace hpu::driver {

// ---- While it is enqueued: errors are the call's. ------------------------------------------------

inline StatusOr<std::string> nameOf(const ExternalWork& work) {
  std::string name;
  Status status = base::callProgram("ExternalWork::name", [&] { name = work.name(); });
  if (!status.ok()) return status;
  return name;
}
inline StatusOr<ExternalPorts> portsOf(const ExternalWork& work) {
  ExternalPorts ports;
  Status status = base::callProgram("ExternalWork::ports", [&] { ports = work.ports(); });
  if (!status.ok()) return status;
  return ports;
}
inline StatusOr<bool> isExtendable(const ExternalWork& work) {
  bool is = false;
  Status status = base::callProgram("ExternalWork::extendable", [&] { is = work.extendable(); });
  if (!status.ok()) return status;
  return is;
}
inline StatusOr<bool> startsInEnqueue(const ExternalWork& work) {
  bool starts = false;
  Status status = base::callProgram("ExternalWork::startsInEnqueue", [&] { starts = work.startsInEnqueue(); });
  if (!status.ok()) return status;
  return starts;
}
/// False where it throws: nothing was added.
inline bool extendWork(ExternalWork& work) noexcept {
  bool added = false;
  base::callProgramOrLog("ExternalWork::extended", [&] { added = work.extended(); });
  return added;
}
inline void tellPortsReserved(ExternalWork& work, std::vector<int64_t> readyPs) noexcept {
  base::callProgramOrLog("ExternalWork::portsReserved", [&] { work.portsReserved(std::move(readyPs)); });
}
inline void tellBehind(ExternalWork& work, const ExternalWork& before, int64_t earliestPs) noexcept {
  base::callProgramOrLog("ExternalWork::behind", [&] { work.behind(before, earliestPs); });
}

// ---- From its turn on. ---------------------------------------------------------------------------

/// What it throws ends it, unless it has completed.
inline void startWork(ExternalWork& work, std::shared_ptr<ExternalTurn> turn) {
  std::shared_ptr<ExternalTurn> kept = turn;
  Status status = base::callProgram("ExternalWork::start", [&] { work.start(std::move(turn)); });
  if (!status.ok()) kept->complete(std::move(status), 0);
}
inline void skipWork(ExternalWork& work, const Status& why) noexcept {
  base::callProgramOrLog("ExternalWork::skipped", [&] { work.skipped(why); });
}
inline void cancelWork(ExternalWork& work, const Status& why) noexcept {
  base::callProgramOrLog("ExternalWork::cancel", [&] { work.cancel(why); });
}
inline void sealWork(ExternalWork& work) noexcept {
  base::callProgramOrLog("ExternalWork::sealed", [&] { work.sealed(); });
}
inline void helpWork(ExternalWork& work, std::chrono::steady_clock::time_point until) noexcept {
  base::callProgramOrLog("ExternalWork::help", [&] { work.help(until); });
}
/// 0 where it throws, as of work that does not tell.
inline uint64_t progressOf(const ExternalWork& work) noexcept {
  uint64_t value = 0;
  base::callProgramOrLog("ExternalWork::progress", [&] { value = work.progress(); });
  return value;
}

// ---- Of repeatable work: errors are the call's, a capture's or a replay's. -----------------------

inline StatusOr<std::string> nameOf(const RepeatableWork& work) {
  std::string name;
  Status status = base::callProgram("RepeatableWork::name", [&] { name = work.name(); });
  if (!status.ok()) return status;
  return name;
}
inline StatusOr<std::vector<WorkMemory>> memoryOf(const RepeatableWork& work) {
  std::vector<WorkMemory> memory;
  Status status = base::callProgram("RepeatableWork::memory", [&] { memory = work.memory(); });
  if (!status.ok()) return status;
  return memory;
}
inline Status prepareWork(RepeatableWork& work, const Stream& stream) {
  return base::callProgram("RepeatableWork::prepare", [&] { return work.prepare(stream); });
}
inline Status enqueueWork(RepeatableWork& work, const Stream& stream, const std::vector<WorkMemory>& memory) {
  return base::callProgram("RepeatableWork::enqueue", [&] { return work.enqueue(stream, memory); });
}

}  // namespace hpu::driver
