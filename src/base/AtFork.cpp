// SPDX-License-Identifier: Apache-2.0
#include "base/AtFork.h"

#include <pthread.h>

#include <atomic>

namespace hpu::base {
namespace {

std::atomic<const ForkHandlers*> slots[kNumForkRanks];
// What this thread's fork has prepared: others may register meanwhile.
thread_local const ForkHandlers* prepared[kNumForkRanks];

void prepare() {
  for (int rank = 0; rank < kNumForkRanks; ++rank) {
    prepared[rank] = slots[rank].load(std::memory_order_acquire);
    if (prepared[rank] && prepared[rank]->prepare) prepared[rank]->prepare();
  }
}

void parent() {
  for (int rank = kNumForkRanks; rank-- > 0;)
    if (prepared[rank] && prepared[rank]->parent) prepared[rank]->parent();
}

void child() {
  for (int rank = kNumForkRanks; rank-- > 0;)
    if (prepared[rank] && prepared[rank]->child) prepared[rank]->child();
}

}  // namespace

bool atFork(ForkRank rank, const ForkHandlers& handlers) noexcept {
  static const bool hooked = ::pthread_atfork(prepare, parent, child) == 0;
  if (hooked) slots[static_cast<int>(rank)].store(&handlers, std::memory_order_release);
  return hooked;
}

uint64_t processGeneration() noexcept {
  static std::atomic<uint64_t> generation{1};
  // Without the hook (no host memory) a child takes its parent's objects for its own, as it did for ever.
  static const bool hooked =
      ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); }) == 0;
  (void)hooked;
  return generation.load(std::memory_order_relaxed);
}

std::mutex& processMutex() {
  static std::mutex* instance = [] {
    atFork(ForkRank::kProcess, forkHandlersOf<processMutex>());
    return new std::mutex;  // Never destroyed: what it guards may outlive statics.
  }();
  return *instance;
}

}  // namespace hpu::base
