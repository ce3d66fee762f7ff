// SPDX-License-Identifier: Apache-2.0
// The parts of QueueExecutor::Core for the exit of the process (base/ExitGate.h): its workers end, and the thread that
// exits does what it waits for.
#include <algorithm>
#include <array>
#include <thread>

#include "runtime/driver/common/QueueCore.h"

namespace hpu::driver {
namespace {

// How long the thread that exits helps external work at a time, and how often it looks whether turns are over.
constexpr std::chrono::milliseconds kLend{2};
constexpr std::chrono::microseconds kLook{200};

/// The turns that this thread is inside of, of the first few cores: the exit does not wait for itself.
struct Own {
  const void* core;
  int turns;
};
thread_local std::array<Own, 8> tOwn;

int* ownTurns(const void* core) {
  Own* unused = nullptr;
  for (Own& entry : tOwn) {
    if (entry.core == core && entry.turns > 0) return &entry.turns;
    if (entry.turns == 0 && !unused) unused = &entry;
  }
  if (unused) *unused = {core, 0};
  return unused ? &unused->turns : nullptr;
}

}  // namespace

void QueueExecutor::Core::count(int change) noexcept {
  if (int* own = ownTurns(this)) *own += change;
  taken.fetch_add(change, std::memory_order_release);
}

void QueueExecutor::Core::beginExit() noexcept {
  {
    Section section(*this);
    exiting = true;
    anyReady.store(true, std::memory_order_relaxed);
    for (const auto& [id, queue] : queues)
      if (queue->waiters > 0) queue->progress.notify_all();
  }
  workAvailable.notify_all();
  hurried.notify_all();
}

bool QueueExecutor::Core::awaitExit(std::chrono::steady_clock::time_point until) noexcept {
  const int* own = ownTurns(this);
  const int mine = own ? *own : 0;
  while (taken.load(std::memory_order_acquire) > mine) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kLook);
  }
  // Without turns they are on their way out.
  std::vector<std::thread> threads;
  {
    Section section(*this);
    threads.swap(workers);
  }
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();
    else
      thread.join();
  }
  return true;
}

bool QueueExecutor::Core::workAtExit() {
  seal();
  Section section(*this);
  if (stopping) return false;
  if (!ready.empty()) {
    Turn turn = begin(takeReady());
    section.unlock();
    perform(std::move(turn));
    return true;
  }
  for (const auto& [id, queue] : queues) {
    if (!helpable(*queue)) continue;
    Loan loan = borrow(queue);
    section.unlock();
    lend(std::move(loan), base::Deadline::Clock::now() + kLend);
    return false;
  }
  return false;
}

}  // namespace hpu::driver
