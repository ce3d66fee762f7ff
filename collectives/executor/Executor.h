// SPDX-License-Identifier: Apache-2.0
// Executor: runs this rank's part of collectives and point-to-point transfers on a transport.
// The one thing to know: it is a state machine that any thread may push; `begin` does what can be
// done at once, a progress thread of the process sleeps on the transport's changes and does the
// rest, and a waiting host thread may lend itself.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/FunctionRef.h"
#include "collectives/executor/PortTimes.h"
#include "collectives/reduction/Reduction.h"
#include "collectives/schedule/Schedule.h"
#include "collectives/schedule/Timing.h"
#include "collectives/topology/Placement.h"
#include "collectives/transport/Transport.h"
#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu::collectives {

/// Memory that an operation uses, of as many owners.
using KeptMemory = std::array<std::shared_ptr<const void>, 3>;

/// What all operations have.
struct OperationCommon {
  ElementType type = ElementType::kF32;
  int64_t arrivalPs = 0;  ///< Device time.
  /// Time without progress of an awaited peer after which the operation fails; 0: none; < 0:
  /// HPU_COMM_TIMEOUT_MS.
  int64_t timeoutMs = -1;
  /// Time after which it fails whatever the peers do, from when it has its turn; 0: none; < 0:
  /// HPU_COMM_DEADLINE_MS.
  int64_t deadlineMs = -1;
  KeptMemory keepAlive;  ///< Released before `done` is called.
};

struct CollectiveOperation : OperationCommon {
  /// Where the transport has SharedWork, the ranks compute the result together, in rank order: the
  /// schedule says what is to be done and is not run, and needs no scratch. The same on all ranks.
  bool direct = false;
  /// This rank arrives when its collective before this one is over, but not before arrivalPs. It may
  /// be begun ahead then. The one before it has a timer.
  bool follows = false;
  uint64_t sequence = 0;  ///< Of the communicator's collectives, from 1; begun in this order.
  /// With the steps of all ranks, or of this one alone.
  std::shared_ptr<const Schedule> schedule;
  /// Says when the ranks are done, by their arrivals; null when nobody wants to know.
  std::shared_ptr<const OperationTimer> timer;
  /// Where the ranks are. Null: not known, and no device has other work.
  std::shared_ptr<const Placement> placement;
  /// Of CallRecord; 0: free.
  PortTimes portsPs = {};
  bool portsBusy = false;  ///< Some of them is not 0.
  ReduceOp op = ReduceOp::kSum;
  double scale = 1;
  uint64_t tableHash = 0;
  uint64_t input = 0, output = 0;  ///< Device addresses.
  uint64_t scratch = 0,
           partial = 0;  ///< Of this rank's scratch buffers; 0 when the schedule has none.
};

struct Transfer {
  bool send = false;
  int peer = 0;  ///< May be this rank: a local copy, matched in order.
  uint64_t address = 0;
  int64_t count = 0;
  ElementType type = ElementType::kF32;
  /// When this rank's end of the link is free for it, less the links' start; at least the operation's arrival.
  int64_t arrivalPs = 0;
};
struct TransferOperation : OperationCommon {
  std::vector<Transfer> transfers;  ///< Together: none waits for another one of them.
};

/// What is known at the end: the arrivals of everybody who took part, for the device clock.
struct OperationResult {
  Status status;
  /// Of a collective: by rank. When each is over is known of one that has a timer.
  std::vector<int64_t> arrivalPs, endPs;
  LinkState links;  ///< What else the links carried, as far as it mattered.
  /// Of transfers: by transfer, the peer's arrival and the bytes.
  struct Peer {
    int peer = 0;
    bool send = false;
    int64_t arrivalPs = 0, bytes = 0;
    int64_t ownArrivalPs = 0;  ///< Transfer::arrivalPs.
  };
  std::vector<Peer> peers;
};
/// Sets all fields of an operation, which has those of an earlier one; throws nothing. In place, and what both share
/// (the schedule and its timer) is not taken and let go of again.
using DescribeOperation = base::FunctionRef<void(CollectiveOperation&)>;
/// The result is the callee's until it returns. Calls of several operations may come at the same time.
using OperationDone = std::function<void(OperationResult&)>;

/// One rank of one communicator. Any thread may call anything.
class Executor {
 public:
  /// `label` names the communicator and rank in errors.
  static std::shared_ptr<Executor> create(std::shared_ptr<Transport> transport, std::string label);
  virtual ~Executor() = default;

  /// Starts an operation, does not wait. `done` is called once, by this thread or another one,
  /// outside of locks. Failures: kInvalidArgument (a rank called something else: names the rank,
  /// the operation's number and what differs), kDeadlineExceeded (a rank did not come or stopped:
  /// names it, and its last call), kUnavailable (its process died), kAborted. After a failure of a
  /// collective all later operations fail with its reason.
  virtual void begin(CollectiveOperation operation, OperationDone done) = 0;
  virtual void begin(TransferOperation operation, OperationDone done) = 0;
  /// begin() of a collective in two steps. add() gives it its place and no more: it may be called under locks, and
  /// needs no memory when as many were in progress before. drive() follows, without locks. `describe` is called once,
  /// under a lock, before add() returns.
  virtual void add(DescribeOperation describe, OperationDone done) = 0;
  virtual void drive() = 0;
  /// The calling thread works on whatever can go on, until `stop` says so (asked after each step)
  /// or `until`.
  virtual void help(std::chrono::steady_clock::time_point until, const std::function<bool()>& stop) = 0;
  /// Ends everything that is in progress with `why` (kAborted when ok), tells the peers, and fails
  /// what comes later. Returns without waiting for peers.
  virtual void abort(const Status& why) = 0;
  /// Ok, or the reason why operations fail now.
  virtual Status health() const = 0;
  /// Steps done so far: for waits that count only time without progress.
  virtual uint64_t progress() const = 0;
};

}  // namespace hpu::collectives
