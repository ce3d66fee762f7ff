// SPDX-License-Identifier: Apache-2.0
// TransferRun: all point-to-point transfers of this rank that are in progress.
// The one thing to know: the k-th send of rank a to rank b meets the k-th receive of b from a. The
// message carries what the sender knows (arrival, type, count); the receiver answers on the reply
// lane with the same, as soon as it has begun, so both find a mismatch and both know both arrivals.
// It never waits; used by one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "collectives/executor/Executor.h"
#include "collectives/executor/Peers.h"

namespace hpu::collectives {

/// Transfers that were begun together.
struct TransferBatch {
  TransferOperation operation;
  OperationDone done;
  Clock::time_point begun;
  size_t left = 0;  ///< Transfers that are not done.
  std::vector<OperationResult::Peer> results;
};

class TransferRun {
 public:
  explicit TransferRun(Peers& peers);
  /// Errors: kInvalidArgument (addresses, peers).
  Status begin(std::shared_ptr<TransferBatch> batch);
  /// As CollectiveRun::push; what is done is appended to `finished`.
  Status push(Pace& pace, bool& moved, bool& paused, std::vector<std::shared_ptr<TransferBatch>>& finished);
  /// As CollectiveRun::checkPeers.
  Status checkPeers() const;
  bool idle() const { return active_.empty(); }
  /// Forgets all, for failures.
  std::vector<std::shared_ptr<TransferBatch>> takeAll();

 private:
  struct Pending {
    std::shared_ptr<TransferBatch> batch;
    size_t index = 0;  ///< In the batch.
    std::byte* data = nullptr;
    bool offered = false, copied = false, replied = false;
    const Transfer& transfer() const { return batch->operation.transfers[index]; }
    int64_t bytes() const { return batch->results[index].bytes; }
    int64_t arrivalPs() const { return batch->results[index].ownArrivalPs; }
  };
  /// Of one peer. Messages are numbered from 0 for ever.
  struct Line {
    std::deque<Pending> sends, receives;       ///< Not done; those of this rank to itself too.
    size_t offered = 0, replied = 0;           ///< Of `sends`, of `receives`: from the front.
    uint64_t firstSend = 0, firstReceive = 0;  ///< The numbers of the fronts.
    int64_t copied = 0;                        ///< Bytes of the receive at the front.
  };
  using Finished = std::vector<std::shared_ptr<TransferBatch>>;

  Status pushSelf(Pace& pace, bool& moved, bool& paused, Finished& finished);
  Status pushSends(int peer, bool& moved, Finished& finished);
  Status pushReceives(int peer, Pace& pace, bool& moved, bool& paused, Finished& finished);
  void complete(Pending& pending, int64_t peerArrivalPs, Finished& finished);
  bool waitsFor(const Line& line, int peer) const;
  std::string waitText(const Line& line, int peer) const;
  static MessageTag tagOf(const Pending& pending, uint64_t number);

  Peers& peers_;
  std::vector<Line> lines_;                             // By peer.
  std::vector<std::shared_ptr<TransferBatch>> active_;  // Not done.
};

}  // namespace hpu::collectives
