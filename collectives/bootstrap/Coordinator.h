// SPDX-License-Identifier: Apache-2.0
// Coordinator: where the ranks of a communicator meet, in the process that created its id.
// The one thing to know: it knows who came, who left, who died and what each has reached, so it can
// say who is missing; what ranks gather goes from rank to rank and not through it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/bootstrap/Address.h"
#include "collectives/bootstrap/Missing.h"
#include "collectives/bootstrap/Reactor.h"
#include "collectives/bootstrap/Wire.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// What went over sockets.
struct Traffic {
  uint64_t messages = 0, bytes = 0;  ///< Sent.
};

/// A place of this process where some of a communicator's ranks may meet later, as often as they
/// like: who comes first opens the room. When it goes, rooms in which all have met stay.
class Hall {
 public:
  explicit Hall(const CoordinatorId& id) : id_(id) {}
  ~Hall();
  Hall(const Hall&) = delete;
  Hall& operator=(const Hall&) = delete;
  const CoordinatorId& id() const { return id_; }
  /// What the members of a communicator prove to each other in a hall that one of them has opened; `secret`: theirs.
  static Secret secretOf(const Secret& secret, uint64_t hall) { return derivedSecret(secret, "hall", hall); }
  /// One of the hall's rooms, as all who know its id and the key name it.
  static CoordinatorId room(const CoordinatorId& hall, uint64_t key);

 private:
  const CoordinatorId id_;
};

/// All rooms of this process. Any thread may call.
class Coordinator final : public ConnectionHandler, public std::enable_shared_from_this<Coordinator> {
 public:
  static const std::shared_ptr<Coordinator>& instance();

  /// Opens a room on the interface that HCCL_SOCKET_IFNAME allows; it ends when all its ranks have
  /// come and gone.
  StatusOr<CoordinatorId> open();
  /// The room of HCCL_COMM_ID, at its address. Errors: as Reactor::listen.
  Status openAt(const CoordinatorId& id);
  /// At an address of this machine, any port, for who knows `secret`: a communicator's, all of whose members make the
  /// hall's of it (Hall::secretOf).
  StatusOr<std::shared_ptr<Hall>> openHall(const Address& address, const Secret& secret);
  void closeHall(uint64_t nonce);
  /// What a room has sent; for tests of its budget.
  std::optional<Traffic> traffic(uint64_t nonce) const;
  size_t rooms() const;

  void onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) override;
  void onClosed(const std::shared_ptr<Connection>& connection, const Status& why) override;
  void onRefused(const Status& why) override;

 private:
  struct Member {
    std::shared_ptr<Connection> connection;
    MemberState state = MemberState::kAbsent;
    std::string description;
    uint64_t process = 0;  ///< 0: it is the only rank of its process.
    struct Reached {
      uint64_t phase = 0;
      uint64_t at = 0;  ///< Counted by the member: what it has said last is kept.
    };
    std::unordered_map<std::string, Reached> reached;  ///< By group: its last phase. At most kMostGroups.
    uint64_t entered = 0;
    size_t waits = 0;  ///< Of the room's waiting ones.
    size_t told = 0;   ///< Of the room's gone ranks.
  };
  struct Waiting {
    int32_t rank = 0;
    uint64_t id = 0;
  };
  struct Room {
    uint64_t nonce = 0, hall = 0;
    Secret secret{};
    bool guessable = false;    ///< Its number follows from its address: who knows it need not be a rank.
    size_t unproven = 0;       ///< Who came and did not know the secret,
    std::string unprovenFrom;  ///< and where the last of them was.
    std::string otherRelease;  ///< Who came and speaks another version, and so cannot prove what he is.
    std::shared_ptr<Reactor> reactor;
    std::shared_ptr<Listener> listener;
    std::vector<Member> members;  ///< By rank; empty until the first one said how many.
    int32_t came = 0, alive = 0;
    bool complete = false;
    Status failure;
    std::vector<MissingRank> gone;  ///< Since all had come, in the order they went.
    bool noticeDue = false;         ///< A timer will tell of them.
    std::map<std::string, std::string> store;
    size_t storeBytes = 0;
    std::map<std::string, std::vector<Waiting>> waiting;
    std::set<std::string> endedGroups;  ///< Whose members have been told; who is told twice takes no harm.
    Traffic sent;
  };
  /// Somebody who has greeted and is to prove that he knows the secret.
  struct Greeted {
    wire::Frame greeting;
    uint64_t nonce = 0, hall = 0;
    Challenge theirs{}, own{};
  };
  struct Seat {
    uint64_t nonce = 0;
    int32_t rank = 0;
  };

  Coordinator() = default;
  Status openRoom(const CoordinatorId& id, Address* bound);
  StatusOr<std::shared_ptr<Listener>> listenAt(Reactor& reactor, const Address& address);
  /// The room of a greeting, which may open it in its hall; null: there is none, or no more.
  Room* roomOf(const wire::Hello& hello);
  /// What is to be proven there; nothing: there is no such room, nor was there lately.
  std::optional<Secret> secretOf(uint64_t nonce, uint64_t hall) const;
  void refuse(const std::shared_ptr<Connection>& connection, const Status& why);
  /// The room that it may have failed, as of what follows.
  std::optional<uint64_t> stranger(const std::shared_ptr<Connection>& connection, wire::Frame frame);
  void greet(const std::shared_ptr<Connection>& connection, wire::Frame frame);
  std::optional<uint64_t> decline(const std::shared_ptr<Connection>& connection, const wire::Frame& frame);
  std::optional<uint64_t> join(const std::shared_ptr<Connection>& connection, const wire::Frame& frame);
  std::optional<uint64_t> refuseRelease(const std::shared_ptr<Connection>& connection, const wire::Frame& frame);
  /// False: the message makes no sense.
  bool serve(Room& room, int32_t rank, const wire::Frame& frame);
  void welcome(Room& room);
  bool put(Room& room, const wire::Frame& frame);
  bool get(Room& room, int32_t rank, const wire::Frame& frame);
  void cancel(Room& room, int32_t rank, uint64_t id);
  bool enter(Member& member, const wire::Frame& frame);
  bool who(Room& room, int32_t rank, const wire::Frame& frame);
  bool giveUp(Room& room, int32_t rank, const wire::Frame& frame);
  void send(Room& room, int32_t rank, wire::MessageType type, uint64_t id, std::string_view payload);
  /// `last`: who is told when all others have been, or -1.
  void failRoom(Room& room, const Status& why, int32_t last = -1);
  void gone(Room& room, int32_t rank, MemberState how);
  /// Tells one who is there of the ranks that have gone since it was told last.
  void tellGone(Room& room, int32_t rank);
  /// The same to all.
  void tellGone(Room& room);
  /// A moment after somebody has gone, of those that have gone since.
  void notice(uint64_t nonce);
  /// Ends a room that nobody is in any more; what is to be released outside of the lock.
  std::vector<std::shared_ptr<const void>> sweep(uint64_t nonce);
  /// Of a room that has failed: no rank can be as late.
  void forget(uint64_t nonce);

  mutable std::mutex mutex_;  // Guards all. Taken before the reactor's.
  std::unordered_map<uint64_t, Room> rooms_;
  struct OpenHall {
    std::shared_ptr<Reactor> reactor;
    std::shared_ptr<Listener> listener;
    Secret secret{};
  };
  std::unordered_map<uint64_t, OpenHall> halls_;
  std::unordered_map<uint64_t, Greeted> greeted_;  ///< By connection; no more than the reactor has strangers.
  std::unordered_map<uint64_t, Seat> seats_;       ///< By connection.
  std::map<std::string, std::weak_ptr<Listener>> listeners_;  ///< By address as asked for.
  /// Rooms that have ended. Of those that failed, the ranks that come late are still told why, for
  /// as long as a rank may be late.
  struct Ended {
    uint64_t nonce = 0;
    Secret secret{};
    Status why;
    std::shared_ptr<Reactor> reactor;
    std::shared_ptr<Listener> listener;
  };
  std::deque<Ended> ended_;  ///< The latest ones.
  int64_t pid_ = 0;
};

}  // namespace hpu::collectives
