// SPDX-License-Identifier: Apache-2.0
// Group: ranks that gather from each other along a tree of connections among them.
// The one thing to know: the connections are made at the first gathering; member i's parent is
// (i-1)/8, values go up and all of them come down. A failure anywhere goes the same ways and through
// the coordinator, which has it before the links of who failed end: nobody blames those.
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
#include "collectives/bootstrap/Client.h"

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
  void close();

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
  /// A rank's part of an upward message.
  struct Part {
    Status status;
    std::vector<std::pair<int, std::string>> values;  ///< By place.
  };

  StatusOr<std::vector<std::string>> run(Phase& phase, const std::string& mine);
  Status link(Phase& phase);
  StatusOr<Part> gather(Phase& phase, const std::string& mine);
  /// Waits for `ready`, which is asked under the lock. Errors: as allGather.
  template <typename Ready>
  Status await(std::unique_lock<std::mutex>& lock, Phase& phase, Ready ready);
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

  const std::shared_ptr<Client> client_;
  const std::vector<int> members_;
  const uint64_t hash_;
  const std::string name_;
  int place_ = -1;
  std::vector<int> children_;  ///< Places.

  // Guarded by the client's mutex:
  bool busy_ = false, linked_ = false;
  uint64_t phase_ = 0;
  Status failure_;
  std::shared_ptr<Listener> listener_;
  std::shared_ptr<Connection> parent_;
  std::map<int, std::shared_ptr<Connection>> childLinks_;  ///< By place.
  std::map<std::pair<uint64_t, int>, std::string> up_;     ///< By phase and place.
  std::map<uint64_t, std::string> down_;                   ///< By phase.
  std::set<int> lost_;                                     ///< Places whose link has ended.
};

}  // namespace hpu::collectives
