// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/CollectiveQueue.h"

#include <algorithm>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/executor/DirectRun.h"
#include "collectives/schedule/Timing.h"
#include "collectives/transport/SharedWork.h"

namespace hpu::collectives {
namespace {

// Published before their turn; who only enqueues does not look for more beyond the second number.
// With more ranks than CPUs the others are told of what is finished when there is nothing to go on
// with, or after the third number: soon enough to publish more before this rank has done what it has.
constexpr size_t kAhead = 32, kEnoughAhead = 24;
constexpr size_t kMostUntold = 16;
// Nor are they told while others are at the last parts of the next one, for so long.
constexpr std::chrono::microseconds kHoldBack{2000};

}  // namespace

OperationSlot::OperationSlot() = default;
OperationSlot::~OperationSlot() = default;

CollectiveQueue::CollectiveQueue(Peers& peers) : peers_(peers) {
  counts_.sent.resize(static_cast<size_t>(peers.ranks()));
  counts_.received = counts_.sent;
}

bool CollectiveQueue::direct(const CollectiveOperation& operation) const {
  return operation.direct && peers_.transport().sharedWork();
}

bool CollectiveQueue::full() const {
  // A rank alone publishes for nobody.
  return begun_.size() >= (peers_.ranks() > 1 ? kEnoughAhead : 1);
}

void CollectiveQueue::beginNext() {
  std::unique_ptr<OperationSlot> next = waiting_.pop();
  const CollectiveOperation& operation = next->operation;
  next->started = okStatus();
  next->published = false;
  if (operation.sequence != ++sequence_) {
    next->started = internalError(base::strCat("collective #", operation.sequence, " was begun as number ", sequence_));
  }
  const std::shared_ptr<const Schedule> schedule = operation.schedule;
  if (direct(operation)) {
    auto plan =
        directPlans_.get(schedule, [&] { return std::make_shared<const DirectPlan>(directPlan(schedule->problem)); });
    if (!next->direct) next->direct = std::make_unique<DirectRun>(peers_, next->operation);
    next->direct->prepare(std::move(plan));
    next->run = next->direct.get();
  } else {
    auto plan =
        plans_.get(schedule, [&] { return lowerSchedule(schedule, peers_.rank(), peers_.transport().smallBytes()); });
    next->steps = std::make_unique<ScheduleRun>(peers_, counts_, next->operation, std::move(plan));
    next->run = next->steps.get();
  }
  if (next->started.ok()) next->started = next->run->start();
  if (begun_.empty()) next->run->haveTurn(/*endedHere=*/false);
  begun_.push(std::move(next));
}

void CollectiveQueue::publishAhead(bool& moved) {
  while (!waiting_.empty() && begun_.size() < kAhead &&
         (begun_.empty() || (direct(waiting_.front()->operation) && begun_.back()->published))) {
    beginNext();
    moved = true;
    OperationSlot& last = *begun_.back();
    last.published = last.started.ok() && last.run->publish();
  }
  // One that was refused.
  if (!begun_.empty() && !begun_.back()->published && begun_.back()->started.ok()) {
    begun_.back()->published = begun_.back()->run->publish();
    moved |= begun_.back()->published;
  }
}

Status CollectiveQueue::push(Pace& pace, bool& moved, bool& paused, FinishedOperations& finished) {
  Status status;
  while (!paused) {
    publishAhead(moved);
    if (begun_.empty()) break;
    OperationSlot& first = *begun_.front();
    status = first.started;
    if (status.ok()) status = first.run->push(pace, moved, paused);
    if (!status.ok() || !first.run->done()) break;
    const bool small = first.run->wasSmall();
    finishFirst(finished);
    // In step with the others each does its own share, which is in its caches; small ones have no shares. Some are
    // enough: somebody may wait for the first of them.
    if (!(crowded() || small) || finished.size() >= kMostUntold) break;
  }
  if (!status.ok() || paused || !holdBack()) tell();
  return status;
}

void CollectiveQueue::finishFirst(FinishedOperations& finished) {
  std::unique_ptr<OperationSlot> first = begun_.pop();
  CollectiveRun& run = *first->run;
  const bool here = run.endedHere();
  if (here && peers_.ranks() > 1) {
    if (untold_++ == 0) untoldSince_ = Clock::now();
    // Ranks that each have a CPU to themselves look for it without being told, or are told at once.
    if (untold_ >= kMostUntold || !crowded()) tell();
  }
  run.finish();
  OperationResult& result = first->result;
  result.status = okStatus();
  run.arrivals(endsPs_, result.arrivalPs);
  endsPs_.clear();
  result.endPs.clear();
  if (const OperationTimer* timer = run.operation().timer.get()) {
    run.linkState(result.arrivalPs, timer->startPs(), result.links);
    timer->endPs(result.arrivalPs, result.links, endsPs_);
    for (size_t rank = 0; rank < endsPs_.size(); ++rank) {
      endsPs_[rank] = std::max(endsPs_[rank], result.arrivalPs[rank]);
    }
    result.endPs = endsPs_;
  }
  for (auto& memory : run.operation().keepAlive) memory.reset();
  first->steps.reset();
  finished.push_back(std::move(first));
  if (!begun_.empty()) begun_.front()->run->haveTurn(here);
}

/// There are more ranks than CPUs for them.
bool CollectiveQueue::crowded() const {
  const SharedWork* work = peers_.transport().sharedWork();
  return work && peers_.ranks() > work->cpus();
}

/// The rank that does the last of the work goes on with the next, or tells the others.
bool CollectiveQueue::holdBack() const {
  return untold_ > 0 && crowded() && !begun_.empty() && begun_.front()->run->allTaken() &&
         Clock::now() - untoldSince_ < kHoldBack;
}

ChangesNeeded CollectiveQueue::changesNeeded() {
  if (begun_.empty()) return {};
  ChangesNeeded needed = begun_.front()->run->changesNeeded();
  if (untold_ > 0 && needed.patience.count() == 0) {
    needed.patience = restOf(kHoldBack, untoldSince_);
  }
  return needed;
}

void CollectiveQueue::tell() {
  if (untold_ == 0) return;
  untold_ = 0;
  peers_.transport().sharedWork()->ringFirst(peers_.ranks());
}

void CollectiveQueue::failAll(const Status& why, FinishedOperations& finished) {
  auto fail = [&](std::unique_ptr<OperationSlot> slot) {
    slot->steps.reset();
    slot->result = {why, {}, {}, {}, {}};
    finished.push_back(std::move(slot));
  };
  while (!begun_.empty()) {
    begun_.front()->run->abandon();
    fail(begun_.pop());
  }
  while (!waiting_.empty()) {
    waiting_.front()->operation.keepAlive = {};
    fail(waiting_.pop());
  }
}

}  // namespace hpu::collectives
