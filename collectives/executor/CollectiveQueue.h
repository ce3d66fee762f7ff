// SPDX-License-Identifier: Apache-2.0
// CollectiveQueue: a rank's collectives, one after another, and what each of them ends with.
// The one thing to know: those that are run by SharedWork are published ahead of their turn, so that
// a rank that computes goes on with the next one without anybody being woken in between.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/executor/CollectiveRun.h"
#include "collectives/executor/DirectPlan.h"
#include "collectives/executor/Lowering.h"
#include "collectives/executor/PlanCache.h"
#include "collectives/executor/Ring.h"
#include "collectives/executor/ScheduleRun.h"

namespace hpu::collectives {

class DirectRun;

/// An operation from when it is begun until its end is told. Used for one after the other, so that an operation needs
/// no memory that those before it did not need.
struct OperationSlot {
  OperationSlot();
  ~OperationSlot();
  OperationDone done;
  OperationResult result;

  // Of a collective.
  CollectiveOperation operation;
  std::unique_ptr<DirectRun> direct;
  std::unique_ptr<ScheduleRun> steps;
  CollectiveRun* run = nullptr;  ///< One of both.
  Status started;                ///< Looked at when it has its turn.
  bool published = false;
};
using FinishedOperations = std::vector<std::unique_ptr<OperationSlot>>;

/// Used by one thread at a time.
class CollectiveQueue {
 public:
  explicit CollectiveQueue(Peers& peers);

  void add(std::unique_ptr<OperationSlot> slot) { waiting_.push(std::move(slot)); }
  bool empty() const { return begun_.empty() && waiting_.empty(); }
  /// So many are begun ahead that the next one has time.
  bool full() const;
  /// Does what can be done, as CollectiveRun::push. Errors: the failure of the one whose turn it is.
  Status push(Pace& pace, bool& moved, bool& paused, FinishedOperations& finished);
  /// Of the one whose turn it is; see CollectiveRun.
  Status checkPeers() const { return begun_.empty() ? okStatus() : begun_.front()->run->checkPeers(); }
  ChangesNeeded changesNeeded();
  void failAll(const Status& why, FinishedOperations& finished);

 private:
  void beginNext();
  void publishAhead(bool& moved);
  void finishFirst(FinishedOperations& finished);
  bool crowded() const;
  bool holdBack() const;
  void tell();
  bool direct(const CollectiveOperation& operation) const;

  Peers& peers_;
  Ring<std::unique_ptr<OperationSlot>> waiting_;
  Ring<std::unique_ptr<OperationSlot>> begun_;  ///< The first one has its turn.
  LaneCounts counts_;
  PlanCache<RankPlan> plans_;
  PlanCache<DirectPlan> directPlans_;
  uint64_t sequence_ = 0;  ///< Of the last one that was begun.
  /// When the one before the first was over, by rank; empty when that is not known.
  std::vector<int64_t> endsPs_;
  size_t untold_ = 0;              ///< Of those that ended here: the others may sleep and not know.
  Clock::time_point untoldSince_;  ///< The first of them.
};

}  // namespace hpu::collectives
