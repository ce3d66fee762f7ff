// SPDX-License-Identifier: Apache-2.0
// Bootstrap: how ranks that know only an id find each other, over TCP.
// The one thing to know: every call has a deadline, and its error names the ranks that did not
// come.
//
//   HPU_ASSIGN(UniqueId id, createUniqueId());   // one rank; the id reaches the others somehow
//   HPU_ASSIGN(auto bootstrap, Bootstrap::join(id, rank, ranks, options));
//   HPU_ASSIGN(auto cards, bootstrap->allGather("cards", mine, deadline));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/Deadline.h"
#include "collectives/bootstrap/Coordinator.h"
#include "hpu/collectives.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// Ends joins from another thread.
class Interrupt {
 public:
  /// The first reason counts.
  void raise(const Status& why);
  /// `heard` is called once: by raise(), or now when it was raised.
  void onRaise(std::function<void(const Status&)> heard);

 private:
  std::mutex mutex_;  // Guards both.
  Status why_;
  std::vector<std::function<void(const Status&)>> heard_;
};

struct BootstrapOptions {
  int64_t timeoutMs = -1;                ///< Of joining; < 0: HPU_COMM_INIT_TIMEOUT_MS.
  std::shared_ptr<Interrupt> interrupt;  ///< What it says is the error of all who wait.
  /// The same, asked now and then while this rank waits.
  std::function<Status()> look;
  /// Counts as the only rank of its process: it shares nothing with others there. For tests.
  bool alone = false;
};

/// How a phase tells a rank that stands still from one that is on its way.
struct Patience {
  int64_t timeoutMs = 0;                          ///< Without progress of a rank that has not come.
  std::function<uint64_t(int rank)> progress;     ///< Changes as long as the rank gets on.
  std::function<std::string(int rank)> describe;  ///< For errors.
};

/// Any thread may call; calls that concern all ranks come in the same order on each.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  /// Meets the other ranks at the id's coordinator. A deadline that expires ends it for all who
  /// wait. Errors: kDeadlineExceeded (names the ranks that are missing), kInvalidArgument (two callers with one rank;
  /// different numbers of ranks; not an id), kUnavailable (no coordinator at the address).
  static StatusOr<std::shared_ptr<Bootstrap>> join(const UniqueId& id, int rank, int ranks,
                                                   const BootstrapOptions& options = {});
  /// The same at a known place.
  static StatusOr<std::shared_ptr<Bootstrap>> joinAt(const CoordinatorId& where, int rank, int ranks,
                                                     const BootstrapOptions& options);
  /// In place of join: tells those who wait, or come, that this rank does not, and why. Waits for
  /// the coordinator for ten seconds at most. Errors: nobody was told.
  static Status decline(const UniqueId& id, int rank, int ranks, const Status& why);
  static Status declineAt(const CoordinatorId& where, int rank, int ranks, const Status& why);
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Where this machine is reached by those who reach the coordinator; port 0.
  virtual const Address& local() const = 0;
  /// What all ranks know and others do not; zeros when there is none (HCCL_COMM_ID without a secret). Nothing may show
  /// it: others are made of it by derivedSecret().
  virtual const Secret& secret() const = 0;

  /// A store of small values (up to 1 MiB) that all ranks share, for what only some need.
  virtual Status put(const std::string& key, const std::string& value, const base::Deadline& deadline) = 0;
  /// Waits for the key. Errors: kDeadlineExceeded, kUnavailable (the coordinator is gone).
  virtual StatusOr<std::string> get(const std::string& key, const base::Deadline& deadline) = 0;

  /// For errors: "rank 5 (process 123 on host-b)", once something has been gathered; before that "rank 5".
  virtual std::string describe(int rank) const = 0;

  /// Every rank's value (up to 1 MiB), by rank. `phase` is for errors and must be alike. Two messages for each
  /// process, along a tree of them, and one for each rank to the coordinator: no process sends more than three times
  /// all values, and values that are alike, or alike in most of their bytes, are sent once. Errors, on
  /// every rank that is still there, and for all later phases: kDeadlineExceeded (names those that
  /// have not got here), kUnavailable (names who died or left; or the coordinator's process did),
  /// kInvalidArgument (a rank is in another phase).
  virtual StatusOr<std::vector<std::string>> allGather(const std::string& phase, const std::string& mine,
                                                       const base::Deadline& deadline) = 0;
  /// Also kDeadlineExceeded when somebody loses patience with a rank that has not come.
  virtual Status barrier(const std::string& phase, const base::Deadline& deadline,
                         const Patience* patience = nullptr) = 0;

  /// The same for some of the ranks, numbered by their place in `members` (ranks of this, which
  /// contains this rank). `name` tells groups apart. Does not communicate.
  virtual StatusOr<std::shared_ptr<Bootstrap>> subgroup(const std::string& name, const std::vector<int>& members) = 0;
  /// This rank gathers no more with the others: the phase that they are in, or come to next, ends
  /// with `why` on every rank. Does not wait. Subgroups go on.
  virtual void abandon(const Status& why) = 0;
  /// What this rank has sent, with its subgroups.
  virtual Traffic traffic() const = 0;
};

}  // namespace hpu::collectives
