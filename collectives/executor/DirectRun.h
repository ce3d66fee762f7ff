// SPDX-License-Identifier: Apache-2.0
// DirectRun: one collective where ranks reach each other's memory: once all have published the
// call, those that have time compute its result, from the inputs of all right into the outputs of
// all. The device clock still times the schedule.
// The one thing to know: a rank that waits sleeps until the result is there; it is woken once, by
// whoever does the last part, or earlier to take parts when there are several. Each does its own
// share first: then it is the same memory that a process has mapped and cached.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/executor/CollectiveRun.h"
#include "collectives/executor/DirectPlan.h"
#include "collectives/transport/SharedWork.h"

namespace hpu::collectives {

class DirectRun final : public CollectiveRun {
 public:
  DirectRun(Peers& peers, CollectiveOperation& operation);
  /// There is the next operation.
  void prepare(std::shared_ptr<const DirectPlan> plan);
  Status start() override;
  bool publish() override;
  void haveTurn(bool endedHere) override;
  Status push(Pace& pace, bool& moved, bool& paused) override;
  bool done() const override { return stage_ == Stage::kFinished; }
  bool endedHere() const override { return endedHere_; }
  bool allTaken() const override { return stage_ == Stage::kOpen && visited_ == peers_.ranks(); }
  bool wasSmall() const override { return plan_->parts() <= 1; }
  void finish() override;
  ChangesNeeded changesNeeded() override;
  void abandon() override;

 private:
  /// Finds everybody's memory. Errors: kDataLoss.
  Status open();
  Status takeParts(Pace& pace, bool& moved, bool& paused);
  bool leaveToOthers();
  void finishedBy(bool thisRank);
  void runPart(const DirectPlan::Part& part);
  void runFlow(const Flow& flow, int64_t offset, int64_t count);
  int64_t finishedParts() const;
  bool allFinished() const;
  bool waitsFor(int peer) const override;
  std::string waitText(int peer) const override;

  enum class Stage : uint8_t {
    kStarted,
    kPublished,  ///< The others can see the call.
    kOpen,       ///< All have published: parts are taken.
    kFinished,   ///< All parts are done.
  };

  SharedWork& work_;
  std::shared_ptr<const DirectPlan> plan_;
  Stage stage_ = Stage::kStarted;
  bool fits_ = false;    ///< The operation before it, found right, had the same schedule, type and operands.
  bool stream_ = false;  ///< The output is written around the caches.
  bool first_ = false;   ///< The others may sleep and not know that it can be begun.
  bool endedHere_ = false;
  struct Memory {
    bool found = false;
    uint64_t inputAddress = 0, outputAddress = 0;  ///< The device's, that `input` and `output` were found for.
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  std::vector<Memory> memories_;  ///< By rank.
  std::vector<Source> sources_;
  std::vector<std::byte*> targets_;
  /// With more ranks than CPUs only as many ranks as CPUs have shares of their own to begin with. 0: not known yet.
  int workers_ = 0, firstShare_ = 0, ownShares_ = 0;
  int visited_ = 0;  ///< Shares of which nothing is left to take, beginning with the own ones.
  /// Since when the shares of others are left to them with so many parts done.
  std::optional<Clock::time_point> leftSince_;
  int64_t leftAt_ = 0;
  bool outOfPatience_ = false;  ///< They do not get on: it takes what it can from now on.
};

}  // namespace hpu::collectives
