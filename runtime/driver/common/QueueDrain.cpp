// SPDX-License-Identifier: Apache-2.0
// The end of QueueExecutor::Core: what is left is run or waited for, then the workers stop.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/Abandon.h"
#include "base/Format.h"
#include "base/Log.h"
#include "runtime/driver/Callback.h"
#include "runtime/driver/WorkCalls.h"
#include "runtime/driver/common/QueueCore.h"

namespace hpu::driver {
namespace {

// How long a device that closes waits for external work that it has cancelled.
constexpr std::chrono::seconds kCancelPatience(1);

}  // namespace

/// Tells external work that is in progress when the time of a drain is over, and waits a moment
/// longer for it: it may use the device's memory.
void QueueExecutor::Core::cancelAtEnd() {
  std::vector<std::shared_ptr<ExternalWork>> inProgress;
  {
    Section section(*this);
    for (const auto& [id, queue] : queues)
      if (queue->external && !queue->external->starting)
        inProgress.push_back(std::get<External>(queue->external->item.work).work);
  }
  if (inProgress.empty()) return;
  const Status why = cancelled(closedText());
  {
    CallbackScope scope(Callback::kWork);
    for (const auto& work : inProgress) cancelWork(*work, why);
    inProgress.clear();
  }
  const auto until = base::Deadline::Clock::now() + kCancelPatience;
  Section section(*this);
  auto ended = [&] {
    return std::none_of(queues.begin(), queues.end(),
                        [](const auto& entry) { return entry.second->external != nullptr; });
  };
  while (!ended() && section.wait(drained, until) == std::cv_status::no_timeout) {
  }
}

/// Runs or waits for what is left, then stops the workers.
void QueueExecutor::Core::drain() {
  if (process != ::getpid()) {
    // A forked child lets go of what is its parent's: neither the threads nor the work are here.
    base::abandon(workers);
    return;
  }
  auto deadline = base::Deadline::fromMs(-1);
  base::Deadline until = deadline.ok() ? *deadline : base::Deadline::afterMs(600000);
  seal();
  Section section(*this);
  draining = true;
  for (auto& [id, queue] : queues)
    if (queue->held()) makeReady(queue);
  drainTarget = 0;
  Callbacks callbacks;
  for (const InsideItem& item : inside()) {
    if (item.core != this) continue;
    if (!item.bodyDone) {
      ++drainTarget;
      continue;
    }
    if (Outstanding* entry = outstanding.find(item.ticket)) {
      std::move(entry->callbacks.begin(), entry->callbacks.end(), std::back_inserter(callbacks));
      outstanding.erase(item.ticket);
    }
    // What is queued behind it, which did not hold the device (markers, say), waits for this
    // thread.
    for (auto& [id, queue] : queues)
      if (queue.get() == item.queue && queue->state == QueueState::kRunning && !queue->items.empty()) {
        settle(queue);
        break;
      }
  }
  section.unlock();
  {
    CallbackScope scope(Callback::kWork);
    for (auto& callback : callbacks) callback();
    callbacks.clear();
  }
  section.lock();
  while (outstanding.size() > drainTarget && !until.expired()) {
    // Help: this may be the only worker thread there is.
    if (!unsealed.empty()) {
      section.unlock();
      seal();
      section.lock();
      continue;
    }
    if (exiting && base::isExitThread()) {
      // What it waits for may be work of another device.
      section.unlock();
      (void)base::workAtExit();
      section.lock();
    } else if (!ready.empty() && mayTakeTurns()) {
      Turn turn = begin(takeReady());
      section.unlock();
      perform(std::move(turn));
      section.lock();
      continue;
    }
    auto next = std::min(until.time(), base::Deadline::Clock::now() + std::chrono::milliseconds(20));
    for (const auto& [id, queue] : queues) {
      if (!helpable(*queue)) continue;
      Loan loan = borrow(queue);
      section.unlock();
      lend(std::move(loan), next);
      section.lock();
      break;
    }
    if (ready.empty() && unsealed.empty() && outstanding.size() > drainTarget) section.wait(drained, next);
  }
  section.unlock();
  cancelAtEnd();
  section.lock();
  size_t dropped = outstanding.size() - std::min(outstanding.size(), drainTarget);
  stopping = true;
  while (!ready.empty()) takeReady();
  anyReady.store(true, std::memory_order_relaxed);
  std::vector<std::shared_ptr<Queue>> rest;
  std::vector<Item> unbegun;
  std::vector<std::unique_ptr<InProgress>> lost;
  const Open last = std::exchange(open, {});
  const std::vector<std::shared_ptr<ExternalWork>> untold = std::move(unsealed);
  for (auto& entry : queues) {
    Queue& queue = *entry.second;
    if (queue.external) lost.push_back(std::move(queue.external));
    queue.items.forEach([&](Item& item) {
      if (std::holds_alternative<External>(item.work)) unbegun.push_back(std::move(item));
    });
    rest.push_back(entry.second);
  }
  queues.clear();
  std::vector<std::thread> threads = std::move(workers);
  workers.clear();
  workAvailable.notify_all();
  section.unlock();
  if (dropped > 0)
    HPU_LOG(kError, base::strCat(deviceName, " was closed with ", dropped, " pieces of work that were not done after ",
                                 until.totalMs(), " ms"));
  {
    CallbackScope scope(Callback::kWork);
    for (const Item& item : unbegun) external.skip(std::get<External>(item.work), item.ticket, cancelled(closedText()));
    unbegun.clear();
    lost.clear();
  }
  for (std::thread& thread : threads) {
    // The thread's own copy of the core keeps it valid until it has left its loop.
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();
    else
      thread.join();
  }
}

}  // namespace hpu::driver
