// SPDX-License-Identifier: Apache-2.0
#include "base/ExitGate.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Log.h"

namespace hpu::base {
namespace {

using Clock = std::chrono::steady_clock;

// What runs at exit has so long to end by itself, and so long again after it was told to end soon.
constexpr std::chrono::seconds kGrace{2}, kPatience{10};

struct Stopped {
  std::vector<std::weak_ptr<StopsAtExit>> list;
  uint64_t generation = 0;  ///< Of the process that they belong to.
};
/// Guarded by processMutex(). Never destroyed.
Stopped& stopped() {
  static auto* instance = new Stopped;
  return *instance;
}

/// The generation of the process that exits; 0: none does. A child that is forked by then does not.
std::atomic<uint64_t> exiting{0};
std::atomic<bool> cutShort{false};
thread_local bool isExitingThread = false;

std::vector<std::shared_ptr<StopsAtExit>> all() {
  std::vector<std::shared_ptr<StopsAtExit>> result;
  std::lock_guard lock(processMutex());
  if (stopped().generation != processGeneration()) return result;
  for (const auto& entry : stopped().list)
    if (auto alive = entry.lock()) result.push_back(std::move(alive));
  return result;
}

void close() noexcept try {
  if (isExiting()) return;  // It was registered again later, and so closed before.
  isExitingThread = true;
  exiting.store(processGeneration(), std::memory_order_seq_cst);
  const auto stops = all();
  const auto inTime = Clock::now() + kGrace;
  for (const auto& entry : stops) entry->beginExit();
  for (const auto& entry : stops) {
    if (entry->awaitExit(inTime)) continue;
    cutShort.store(true, std::memory_order_relaxed);
    if (!entry->awaitExit(inTime + kPatience))
      HPU_LOG(kError, strCat("the process exits while ", entry->nameAtExit(), " runs that does not end"));
  }
  cutShort.store(false, std::memory_order_relaxed);
} catch (...) {
  // Without host memory for the list the process exits as it is.
}

}  // namespace

void stopAtExit(const std::shared_ptr<StopsAtExit>& stops) {
  static const bool closes = (renewExitGate(), true);
  (void)closes;
  std::lock_guard lock(processMutex());
  Stopped& known = stopped();
  if (known.generation != processGeneration()) {
    abandon(known.list);  // The parent's.
    known.generation = processGeneration();
  }
  std::erase_if(known.list, [](const auto& entry) { return entry.expired(); });
  known.list.push_back(stops);
}

void renewExitGate() noexcept {
  (void)std::atexit(close);
}

bool isExiting() noexcept {
  const uint64_t generation = exiting.load(std::memory_order_acquire);
  return generation != 0 && generation == processGeneration();
}

bool isExitThread() noexcept {
  return isExitingThread && isExiting();
}

bool isCutShortByExit() noexcept {
  return cutShort.load(std::memory_order_relaxed);
}

bool workAtExit() {
  bool worked = false;
  for (const auto& entry : all()) worked |= entry->workAtExit();
  return worked;
}

}  // namespace hpu::base
