// SPDX-License-Identifier: Apache-2.0
// Client: a rank's connection to the coordinator.
// The one thing to know: one mutex and one condition of a rank serve its connection and those of
// all its groups; frames come in on the reactor's thread, callers wait on the condition.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/Deadline.h"
#include "base/ProcessOwned.h"
#include "collectives/bootstrap/Coordinator.h"
#include "collectives/bootstrap/Reactor.h"
#include "collectives/bootstrap/Station.h"
#include "collectives/bootstrap/Values.h"

namespace hpu::collectives {

class Client final : public ConnectionHandler {
 public:
  /// `process`: what tells the ranks of a process from others; 0: this one's.
  Client(const CoordinatorId& id, int rank, int ranks, uint64_t process = 0);
  const CoordinatorId& id() const { return id_; }
  /// "process 123 on host-a" of a rank, empty when it is not known; under the mutex.
  std::string processOf(int rank) const;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const std::shared_ptr<Reactor>& reactor() const { return reactor_; }
  /// Where this machine is reached by those who reach the coordinator; port 0.
  const Address& local() const { return local_; }

  /// Connects, says who it is, proves that it knows the id's secret, waits for all others. Errors: as Bootstrap::join.
  /// `look` is asked now and then; what it says ends the wait of all.
  Status join(const std::shared_ptr<Client>& self, const base::Deadline& deadline,
              const std::function<Status()>& look = nullptr);
  /// Connects, says who it is, and that it will not come.
  Status decline(const std::shared_ptr<Client>& self, const Status& why, const base::Deadline& deadline);
  /// Says good-bye and closes. In a forked child of the process that joined nothing happens.
  void leave();

  Status put(const std::string& key, const std::string& value);
  /// `interrupted` is asked under the mutex whenever something has changed.
  StatusOr<std::string> get(const std::string& key, const base::Deadline& deadline,
                            const std::function<Status(std::unique_lock<std::mutex>&)>& interrupted);
  void enter(const std::string& group, uint64_t phase);
  /// Tells all `members`, through the coordinator, that the group's phases end with `why`; no
  /// group: those who join, that they wait in vain.
  void giveUp(const std::string& group, uint64_t phase, const Status& why, const std::vector<int>& members);
  /// After giveUp: waits, for a moment only, until the coordinator has told all the others.
  void awaitEnd(const std::string& group);
  /// Why somebody gave the group up, or all of them; under the mutex.
  /// For one who is in that phase: those before the phase that was given up have all they need to end well.
  Status givenUp(const std::string& group, uint64_t phase) const;
  /// Ends a join with `why`, here and for the others.
  void interrupt(const Status& why);
  /// The ranks of `members` (none: of all) that have not got to the phase; phase 0: have not come. Waits for a
  /// moment only. Errors: kUnavailable.
  StatusOr<std::vector<MissingRank>> who(const std::string& group, uint64_t phase, const std::vector<int>& members);
  /// From the station, as soon as one rank of the process has heard it.
  void learn(const std::shared_ptr<const Roster>& roster);
  Station& station() const { return *station_; }
  /// Counts what is sent.
  Status send(Connection& connection, wire::MessageType type, uint64_t id, std::string_view payload);
  /// The same under the mutex.
  Status sendLocked(Connection& connection, wire::MessageType type, uint64_t id, std::string_view payload);
  Traffic traffic() const;

  void onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) override;
  void onClosed(const std::shared_ptr<Connection>& connection, const Status& why) override;

  mutable std::mutex mutex;  // Guards all that follows, and the groups' state.
  std::condition_variable changed;
  Status failure;                            ///< The coordinator is gone, or refused.
  std::map<int32_t, MissingRank> gone;       ///< Ranks that left or died since all had come.
  std::shared_ptr<const Roster> roster;      ///< Null until it is known; then all ranks have come.
  std::map<int32_t, std::string> processes;  ///< What is known of them, by their number in the roster.
  struct End {
    uint64_t phase = 0;  ///< The first that fails.
    Status why;
  };
  std::map<std::string, End> ended;  ///< Groups that a member has given up, by name; empty: all. The latest ones.

 private:
  Status connect(const std::shared_ptr<Client>& self, const base::Deadline& deadline);
  /// Errors: kUnavailable (no random numbers).
  Status greet();
  Status greetWith(wire::MessageType type, const std::function<std::string(const Challenge&)>& encode);
  /// What comes before the coordinator has proven that it is one; under the mutex.
  void onStranger(Connection& connection, const wire::Frame& frame);
  /// Waits for a moment only.
  bool awaitProven();
  /// Whether it is decided before `until` whether all come, or that nothing comes of this connection.
  bool awaitOthers(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until,
                   const std::function<Status()>& look);
  /// Where the coordinator is, for errors.
  std::string process() const;
  std::string noAnswer() const;
  Status lost(const Status& why) const;
  Status otherRelease(std::string_view versions) const;
  StatusOr<wire::Frame> request(wire::MessageType type, std::string_view payload, const base::Deadline& deadline,
                                const std::function<Status(std::unique_lock<std::mutex>&)>& interrupted);

  const base::Birthplace birthplace_;
  const CoordinatorId id_;
  const uint64_t process_;
  const std::shared_ptr<Station> station_;
  const int rank_, ranks_;
  std::shared_ptr<Reactor> reactor_;
  std::shared_ptr<Connection> connection_;
  Address local_;
  // Guarded by mutex:
  enum class Standing : uint8_t {
    kGreeted,     ///< The coordinator's challenge is awaited. To kChallenged.
    kChallenged,  ///< This rank has proven itself, and awaits the coordinator's proof. To kProven.
    kProven,      ///< Both have.
  };
  Standing standing_ = Standing::kGreeted;
  wire::MessageType greetingType_ = wire::MessageType::kHello;
  std::string greeting_;
  Challenge own_{}, theirs_{};
  Status dropped_;  ///< The connection ended before both were proven: there may be another one.
  bool welcome_ = false, interrupted_ = false;
  bool over_ = false;  ///< The coordinator has ended it or is gone, whatever `failure` says.
  uint64_t nextRequest_ = 1;
  std::map<uint64_t, std::optional<wire::Frame>> replies_;
  std::deque<std::string> endedOrder_;  ///< Names of `ended`, also those that are not there any more.
  Traffic sent_;
};

}  // namespace hpu::collectives
