// SPDX-License-Identifier: Apache-2.0
// CollectiveRun: one collective in progress on this rank: publishes the call, compares the others',
// does this rank's part. How that is done is the derived class's: DirectRun, ScheduleRun.
// The one thing to know: it never waits; `push` does what can be done now. Used by one thread at a
// time, and for one operation after the other.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/executor/Executor.h"
#include "collectives/executor/Peers.h"
#include "collectives/executor/PortTimes.h"

namespace hpu::collectives {

/// Changes of peers that must come before anything can go on, and those that had better come
/// together when there are more ranks than cores.
struct ChangesNeeded {
  uint32_t least = 1, together = 1;
  std::chrono::microseconds patience{0};  ///< After it there is something to do anyway; 0: not.
};
inline constexpr uint32_t kMostChanges = 1000;

/// What is left of a time that began then; more than 0.
inline std::chrono::microseconds restOf(std::chrono::microseconds time, Clock::time_point began) {
  using std::chrono::microseconds;
  return std::max(std::chrono::duration_cast<microseconds>(began + time - Clock::now()), microseconds(1));
}

class CollectiveRun {
 public:
  virtual ~CollectiveRun() = default;
  /// Checks the operands, and that the call makes sense. Errors: kInvalidArgument.
  virtual Status start() = 0;
  /// Tells the others of the call before its turn; what it needs of earlier ones is not there yet.
  /// False: it cannot be told yet, and push() will.
  virtual bool publish() { return false; }
  /// There is none before it, or that is over, `endedHere` on this rank. push() comes after this.
  virtual void haveTurn(bool endedHere) { turn_ = begun_ = Clock::now(); }
  /// Does what can be done. Sets `moved` when anything was done, `paused` when `pace` said so and
  /// there is more to do at once. Errors: the operation's failure.
  virtual Status push(Pace& pace, bool& moved, bool& paused) = 0;
  virtual bool done() const = 0;
  /// Done, and the others have not been told: this rank did the last of the work.
  virtual bool endedHere() const { return false; }
  /// All of the work is taken: others are at the last of it.
  virtual bool allTaken() const { return false; }
  /// Done, by one rank in one step: so little that the next one may follow before the end of this one is told.
  virtual bool wasSmall() const { return false; }
  /// Once, when done: retires the record.
  virtual void finish() = 0;
  /// After a push that moved nothing.
  virtual ChangesNeeded changesNeeded() = 0;
  /// Once, when it will not be done: what it kept alive is let go as soon as nobody uses it.
  virtual void abandon() = 0;

  /// After a push that moved nothing: whether an awaited peer is gone or stands still for too long.
  /// Some may be gone, and a push after this one must not find anything more. Errors:
  /// kUnavailable, kAborted, kDeadlineExceeded.
  Status checkPeers() const;

  CollectiveOperation& operation() { return operation_; }
  const CallRecord& call() const { return mine_; }
  /// Fills in when the ranks arrived; `before`: when the collective before it was over, by rank (empty: not
  /// known).
  void arrivals(const std::vector<int64_t>& before, std::vector<int64_t>& result) const;
  /// What else the ranks' devices have on their links, by what all of them have published: what of it matters for ranks
  /// that arrive then, and whose first message comes `startPs` later.
  void linkState(const std::vector<int64_t>& arrivalPs, int64_t startPs, LinkState& state) const;

 protected:
  /// `operation`: where the operations are, one after the other; it lives longer than this.
  CollectiveRun(Peers& peers, CollectiveOperation& operation) : peers_(peers), operation_(operation) {}
  /// There is the next one. `direct`: as in CallRecord. True: its schedule, type and reduction are those of the one
  /// before it.
  bool prepare(bool direct);
  const Problem& problem() const { return operation_.schedule->problem; }
  /// Whether the type fits. Errors: kInternal, kInvalidArgument.
  Status checkProblem() const;
  /// Host address of so many elements of a buffer of this rank; null for none. Errors:
  /// kInvalidArgument (not in this device's memory).
  StatusOr<std::byte*> resolve(BufferKind kind, uint64_t address, int64_t elements) const;
  int64_t elementBytes(BufferKind buffer) const;

  /// Takes in the peers' records that have come. Errors: kInvalidArgument (they differ).
  Status readRecords(bool& moved);
  virtual bool waitsFor(int peer) const = 0;
  /// How far a peer is that has published the call: " has sent 3 of its 4 messages in ...".
  virtual std::string waitText(int peer) const = 0;

  Peers& peers_;
  CollectiveOperation& operation_;
  CallRecord mine_;
  Clock::time_point begun_;  ///< Its turn, or when others were last seen to get on with it.
  Clock::time_point turn_;   ///< Its turn: the absolute deadline counts from here.
  struct Caller {
    bool known = false, follows = false;
    int64_t arrivalPs = 0;
    double scale = 1;
    uint64_t input = 0, output = 0;  ///< Its device addresses.
    bool portsBusy = false;          ///< As in CallRecord.
    PortTimes portsPs = {};
    void hear(const CallRecord& record);
  };
  std::vector<Caller> callers_;  ///< By rank.
  int recordsLeft_ = 0;

 private:
  std::string missingText(int peer) const;

  std::shared_ptr<const Schedule> recorded_;  ///< Of the operation that mine_ was made for.
};

}  // namespace hpu::collectives
