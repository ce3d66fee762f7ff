// SPDX-License-Identifier: Apache-2.0
// CollectiveQueue: a rank's collectives, one after another, and what each of them ends with.
// The one thing to know: those that are run by SharedWork are published ahead of their turn, so that
// a rank that computes goes on with the next one without anybody being woken in between.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/executor/CollectiveRun.h"
#include "collectives/executor/DirectPlan.h"
#include "collectives/executor/Lowering.h"
#include "collectives/executor/PlanCache.h"
#include "collectives/executor/ScheduleRun.h"

namespace hpu::collectives {

struct FinishedOperation {
  OperationDone done;
  OperationResult result;
};

/// Used by one thread at a time.
class CollectiveQueue {
 public:
  explicit CollectiveQueue(Peers& peers);

  void add(CollectiveOperation operation, OperationDone done) {
    waiting_.emplace_back(std::move(operation), std::move(done));
  }
  bool empty() const { return begun_.empty() && waiting_.empty(); }
  /// So many are begun ahead that the next one has time.
  bool full() const;
  /// Does what can be done, as CollectiveRun::push. Errors: the failure of the one whose turn it is.
  Status push(Pace& pace, bool& moved, bool& paused, std::vector<FinishedOperation>& finished);
  /// Of the one whose turn it is; see CollectiveRun.
  Status checkPeers() const { return begun_.empty() ? okStatus() : begun_.front().run->checkPeers(); }
  ChangesNeeded changesNeeded();
  void failAll(const Status& why, std::vector<FinishedOperation>& finished);

 private:
  struct Begun {
    std::unique_ptr<CollectiveRun> run;
    OperationDone done;
    Status started;  ///< Looked at when it has its turn.
    bool published = false;
  };
  void beginNext();
  void publishAhead(bool& moved);
  void finishFirst(std::vector<FinishedOperation>& finished);
  bool crowded() const;
  bool holdBack() const;
  void tell();
  bool direct(const CollectiveOperation& operation) const;

  Peers& peers_;
  std::deque<std::pair<CollectiveOperation, OperationDone>> waiting_;
  std::deque<Begun> begun_;  ///< The first one has its turn.
  LaneCounts counts_;
  PlanCache<Plan> plans_;
  PlanCache<DirectPlan> directPlans_;
  uint64_t sequence_ = 0;  ///< Of the last one that was begun.
  /// When the one before the first was over, by rank; empty when that is not known.
  std::vector<int64_t> endsPs_;
  size_t untold_ = 0;              ///< Of those that ended here: the others may sleep and not know.
  Clock::time_point untoldSince_;  ///< The first of them.
};

}  // namespace hpu::collectives
