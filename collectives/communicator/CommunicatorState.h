// SPDX-License-Identifier: Apache-2.0
// CommunicatorState: what Communicator handles and the enqueued operations of one rank share.
// The one thing to know: it lives as long as operations are enqueued; dropping the last handle
// ends nothing.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/Deadline.h"
#include "base/ProcessOwned.h"
#include "collectives/bootstrap/Bootstrap.h"
#include "collectives/communicator/Gate.h"
#include "collectives/communicator/Order.h"
#include "collectives/communicator/Ports.h"
#include "collectives/communicator/Problems.h"
#include "collectives/executor/Executor.h"
#include "collectives/scaleout/PlanClock.h"
#include "collectives/transport/Transport.h"
#include "collectives/transport/shm/Process.h"
#include "collectives/tuner/Tuner.h"
#include "hpu/collectives.h"
#include "hpu/external_work.h"

namespace hpu::collectives {

class CollectiveWork;

/// Ranks that are to be a communicator.
struct Creation {
  int rank = 0, ranks = 1;
  std::string identity;  ///< The same on every rank, and of no other communicator.
  std::function<StatusOr<std::shared_ptr<Bootstrap>>(int64_t timeoutMs)> meet;
  /// In place of meet(): this rank cannot take part. Null: who creates it tells the others.
  std::function<void(const Status& why)> decline;
  std::string members;  ///< Names of the ranks of a part of another communicator: the same on every rank.
  std::shared_ptr<Interrupt> interrupt;  ///< Ends meet(); null: the communicator makes one.
};

/// Memory of a communicator's own, for a schedule.
struct Scratch {
  Buffer buffer;
  uint64_t scratch = 0, partial = 0;  ///< Addresses; 0 when the schedule has none.
};

/// Any thread may call anything.
class CommunicatorState : public std::enable_shared_from_this<CommunicatorState> {
 public:
  /// Errors: as Communicator::create.
  static StatusOr<std::shared_ptr<CommunicatorState>> create(Creation creation, const Device& device,
                                                             const CommunicatorOptions& options);
  CommunicatorState(Creation creation, const Device& device, const CommunicatorOptions& options);
  ~CommunicatorState();
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  int rank() const { return creation_.rank; }
  int ranks() const { return creation_.ranks; }
  const Device& device() const { return device_; }
  /// The device that counts what its links carry (hpu/ports.h); -1: it counts nothing.
  int countingDevice() const { return countingDevice_; }
  const std::string& name() const { return name_; }
  /// "'comm 1' (rank 2 of 8)"
  std::string title() const;
  int64_t timeoutMs() const { return timeoutMs_; }
  int64_t deadlineMs() const { return deadlineMs_; }
  /// The same on every rank of the communicator, and of no other.
  uint64_t number() const { return number_; }

  /// Errors: kFailedPrecondition in a forked child of the process that made it, where its locks may be held by threads
  /// that are not there. First of all in every call of a program.
  Status checkProcess() const;
  Status ready() const;
  bool pending() const;
  Status asyncError() const;
  /// Whether an operation may be enqueued. Errors: kFailedPrecondition, its failure.
  Status usable() const;

  // What follows needs usable().
  Executor& executor() { return *executor_; }
  Tuner& tuner() { return *tuner_; }
  /// Of a node.
  const LinkModel& links() const { return tuner_->links(); }
  const std::shared_ptr<const Placement>& placement() const { return placement_; }
  Gate& gate() { return gate_; }
  /// Collectives are run by SharedWork (CollectiveOperation::direct).
  bool direct() const { return direct_; }
  /// HABANA_WEAK_ORDER.
  bool weakOrder() const { return weakOrder_; }

  /// Guards the order of enqueuing, and what follows.
  std::mutex enqueueMutex;
  uint64_t nextOrder = 0;     ///< Of all operations.
  uint64_t lastSequence = 0;  ///< Of the collectives.
  /// The operations that the next one comes after: one, or those of a group.
  std::vector<std::shared_ptr<Enqueued>> last;
  std::vector<std::shared_ptr<Enqueued>> beforeLast;  ///< Those that `last` came after.
  /// The last operation, when Stream::extend may add more of the same, and what its first one uses.
  std::shared_ptr<CollectiveWork> growing;
  std::array<Access, 2> growingAccesses;
  /// What the tuner has chosen for a problem, and what that takes of this rank's ports.
  struct Chosen {
    Problem problem;
    std::shared_ptr<const Choice> choice;
    std::shared_ptr<const OperationPorts> ports;
  };
  /// The call of the last operation, while there is `growing`, and what was found out about it.
  struct Repeated {
    CollectiveArguments arguments;
    const void* stream = nullptr;  ///< Its state.
    Chosen chosen;
    std::array<std::weak_ptr<BufferState>, 2> operands;  ///< As long as they live, the arguments are right.
    std::array<Access, 2> accesses;
  };
  Repeated repeated;
  /// Errors: as Tuner::choose. The last few are at hand.
  StatusOr<Chosen> choose(const Problem& problem);
  std::vector<int64_t> portsReadyPs;  ///< Of the operation that is being added.
  StatusOr<Scratch> scratchFor(const Schedule& schedule);
  AddressOrder& addressOrder() { return *addressOrder_; }

  void began() { outstanding_.fetch_add(1); }
  void ended();
  /// Operations that have begun and not ended.
  int64_t outstanding() const { return outstanding_.load(); }
  /// Ends everything; the first reason stays.
  void fail(const Status& why);
  /// Remembers a failure for asyncError(). Without locks: the device's health hook is told.
  void note(const Status& why);

  Status finalize(int64_t deadlineMs);
  Status abort(const std::string& why);
  /// Null for a negative colour.
  StatusOr<std::shared_ptr<CommunicatorState>> split(int color, int key, const CommunicatorOptions& options);
  StatusOr<std::shared_ptr<CommunicatorState>> shrink(const std::vector<int>& excluded,
                                                      const CommunicatorOptions& options);

 private:
  /// What this rank itself has found.
  Status ownFailure() const;
  void tellOnce(const Status& why) const;
  Status readOptions();
  Status connect();
  Status meetRanks(const base::Deadline& deadline);
  StatusOr<std::shared_ptr<const Cluster>> makeCluster() const;
  StatusOr<std::shared_ptr<Transport>> makeTransport(const base::Deadline& deadline);
  /// Options of a communicator of this one's ranks.
  CommunicatorOptions derivedOptions(const CommunicatorOptions& options, const std::string& what) const;
  /// A communicator of `members`, ranks of this one, with the options' defaults from this one.
  StatusOr<std::shared_ptr<CommunicatorState>> derive(const std::string& what, const std::vector<int>& members,
                                                      const CommunicatorOptions& options);

  /// Another rank of this communicator: where it is met when others are gone.
  struct Peer {
    CoordinatorId hall;
    shm::ProcessCard process;
    bool ended() const;
  };

  const base::Birthplace birthplace_;
  Creation creation_;  ///< What it calls is let go when it has been called.
  const Device device_;
  const int countingDevice_;
  bool usesRail_ = false;  ///< It has said so to the device. From connect() on.
  const CommunicatorOptions options_;
  const std::string name_;
  const uint64_t number_;
  int64_t initTimeoutMs_ = 0, timeoutMs_ = 0, deadlineMs_ = 0;

  // Written before ready_, and not changed then. The bootstrap is written under the mutex: abort()
  // may come earlier.
  std::shared_ptr<Bootstrap> bootstrap_;
  std::shared_ptr<Hall> hall_;
  std::vector<Peer> peers_;  ///< By rank.
  std::shared_ptr<const Placement> placement_;
  IpOrder ipOrder_ = IpOrder::kV4First;  ///< Of the addresses that carry data to other nodes.
  int rails_ = 1;                        ///< Interfaces that carry data to other nodes, of the rank that has most.
  TunerTable table_;
  std::shared_ptr<Tuner> tuner_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<AddressOrder> addressOrder_;
  bool direct_ = false, weakOrder_ = false;

  Gate gate_;
  // Guarded by enqueueMutex.
  Buffer scratch_;
  std::array<Chosen, 8> chosen_;
  size_t nextChosen_ = 0;
  std::atomic<int64_t> outstanding_{0};
  std::atomic<int> splits_{0}, shrinks_{0};

  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable idle_;
  bool ready_ = false, finalized_ = false;
  /// Ready, not finalized, no failure: each call asks, without the lock.
  std::atomic<bool> open_{false};
  Status failure_;                         ///< Of the creation, or the first one since.
  mutable std::atomic<bool> told_{false};  ///< The health hook has heard of a failure.
};

}  // namespace hpu::collectives
