// SPDX-License-Identifier: Apache-2.0
// Group: ranks that gather from each other along a tree of their processes: values go up, and all of them come down.
// The one thing to know: the first member of a process stands for it, has the connections and shares what came with the
// process's others (Station); process i's parent is (i-1)/2. The connections are made at the first gathering. A failure
// anywhere goes the same ways and through the coordinator, which has it before the links of who failed end: nobody
// blames those.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/Deadline.h"
#include "base/FunctionRef.h"
#include "base/ProcessOwned.h"
#include "collectives/bootstrap/Client.h"
#include "collectives/bootstrap/Station.h"
#include "collectives/bootstrap/Values.h"

namespace hpu::collectives {

struct Patience;

class Group final : public ConnectionHandler, public std::enable_shared_from_this<Group> {
 public:
  /// `members`: ranks of the client's communicator, with its own.
  Group(std::shared_ptr<Client> client, std::string name, std::vector<int> members);
  int place() const { return place_; }
  /// Its name, and a number of its members: groups of one name may be told apart by them.
  const std::string& name() const { return name_; }
  const std::vector<int>& members() const { return members_; }

  StatusOr<std::vector<std::string>> allGather(const std::string& phase, const std::string& mine,
                                               const base::Deadline& deadline, const Patience* patience = nullptr);
  void abandon(const Status& why);
  /// In a forked child of the process that made it nothing happens.
  void close();

  /// What a gathering brought.
  struct Down {
    Status status;
    std::vector<std::string> values;  ///< By place.
    PlacedValues processes;
  };
  // By other members of this process, none of whose locks is held:
  void takeUp(uint64_t phase, const std::shared_ptr<Group>& from, LocalPart part);
  void takeDown(uint64_t phase, std::shared_ptr<const Down> down);
  /// That member is not there any more.
  void lose(int place);

  void onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) override;
  void onClosed(const std::shared_ptr<Connection>& connection, const Status& why) override;
  void onRefused(const Status& why) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Phase {
    uint64_t number = 0;
    const std::string* name = nullptr;
    const base::Deadline* deadline = nullptr;
    size_t heard = 0;         ///< Of those that are gone.
    std::set<int32_t> asked;  ///< Ranks that are gone but had got here.
    int awaited = -1;         ///< The place that this rank waits for.
    const Patience* patience = nullptr;
    struct Standing {
      uint64_t progress = 0;
      Clock::time_point since;
    };
    std::vector<Standing> standing;                      ///< By place, when there is patience to lose.
    bool askedLast = false;                              ///< The coordinator, before a link's end is blamed.
    Clock::time_point nextLook, nextQuestion, complete;  ///< complete: all have come; or never.
  };
  /// What has come: the bytes of another process, or the values of this one.
  struct Up {
    std::string payload;
    LocalPart local;
  };
  struct Came {
    std::string payload;
    std::shared_ptr<const Down> local;
  };

  StatusOr<std::vector<std::string>> run(Phase& phase, const std::string& mine);
  Status link(Phase& phase);
  Status connectToParent(Phase& phase, const std::string& prefix);
  // On the reactor's thread, under the lock:
  /// From the parent, before it has proven itself.
  void onParent(const wire::Frame& frame);
  /// From somebody who may be a child. Errors: he is none.
  Status onStranger(const std::shared_ptr<Connection>& connection, const wire::Frame& frame);
  /// Where this member is in the tree; under the lock.
  void findPlace(const Roster& roster);
  static std::string upward(const std::string& phase, const Part& part);
  /// `most`: so many bytes may its values have. Errors: kInternal, kResourceExhausted.
  StatusOr<LocalPart> decodeUp(std::string_view payload, uint64_t most) const;
  Status tooMuch() const;
  StatusOr<std::shared_ptr<const Down>> complete(Part part) const;
  /// `payload`: what came from another process, for others.
  StatusOr<std::shared_ptr<const Down>> fromParent(Phase& phase, std::string& payload);
  /// Those of this process that this member has to do with, as far as they are there.
  std::vector<std::shared_ptr<Group>> localNeighbours() const;
  StatusOr<Part> gather(Phase& phase, const std::string& mine);
  /// Waits for `ready`, which is asked under the lock. Errors: as allGather.
  Status await(std::unique_lock<std::mutex>& lock, Phase& phase, base::FunctionRef<bool()> ready);
  /// Something has gone wrong that will keep the phase from its end.
  Status trouble(std::unique_lock<std::mutex>& lock, Phase& phase);
  /// Not ok when that place's rank has died or left.
  Status goneStatus(const Phase& phase, int place) const;
  /// Of a child that has not come here and will not. The ends of links tell of the others, after
  /// what they have sent.
  Status goneChild(const Phase& phase) const;
  Status late(Phase& phase);
  /// Whether somebody who has not come stands still for too long. Sets when to look again.
  Status impatient(Phase& phase);
  /// The reason of who gave up first, if anybody has.
  Status givenUp() const;
  Status during(const Phase& phase, const Status& why) const;
  void spread(const Phase& phase, const Status& why);
  std::string rankText(int place) const;
  /// `why` of a wait's end, with the ranks that this one still waited for itself; under the lock.
  Status whileWaiting(const Phase& phase, const Status& why) const;

  const std::shared_ptr<Client> client_;
  const std::vector<int> members_;
  const uint64_t hash_;
  const std::string name_;
  const base::Birthplace birthplace_;
  int place_ = -1;

  // Written once, by the first phase, under the client's mutex. Places:
  int leader_ = -1;            ///< Of this process.
  int parentPlace_ = -1;       ///< -1: this is the root.
  std::vector<int> children_;  ///< Of this process, then of others.
  std::set<int> remoteChildren_;

  // Guarded by the client's mutex:
  bool busy_ = false, linked_ = false;
  bool opened_ = false;  ///< What is written once is.
  uint64_t phase_ = 0;
  Status failure_;
  std::shared_ptr<Listener> listener_;
  std::shared_ptr<Connection> parent_;
  bool parentProven_ = false;
  Status parentWrong_;           ///< It is not the parent.
  wire::PeerHello greeting_;     ///< What the parent was told,
  Challenge parentChallenge_{};  ///< and answered.
  struct Greeted {
    wire::PeerHello hello;
    Challenge own{};
  };
  std::map<uint64_t, Greeted> greeted_;  ///< By connection: those who are to prove that they are children.
  std::map<int, std::shared_ptr<Connection>> childLinks_;  ///< By place.
  std::set<int> localLinks_;                               ///< Children of this process that have come.
  std::map<std::pair<uint64_t, int>, Up> up_;              ///< By phase and place.
  std::map<uint64_t, Came> down_;                          ///< By phase.
  std::set<int> lost_;                                     ///< Places whose link has ended.
};

}  // namespace hpu::collectives
