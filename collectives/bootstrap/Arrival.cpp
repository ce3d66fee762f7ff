// SPDX-License-Identifier: Apache-2.0
// How ranks come to the coordinator: strangers prove that they know a room's secret, and take a seat in it.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/Log.h"
#include "collectives/bootstrap/Coordinator.h"
#include "collectives/bootstrap/ThisProcess.h"
#include "collectives/bootstrap/Values.h"

namespace hpu::collectives {

using wire::MessageType;

namespace {

Status nobodyWaits() {
  return unavailable("nobody here waits for a communicator with this id: it has ended, or the id is of another run");
}

}  // namespace

// ---- Strangers ----------------------------------------------------------------------------------

void Coordinator::refuse(const std::shared_ptr<Connection>& connection, const Status& why) {
  HPU_LOG(kDebug, "a connection to the coordinator was refused: " + why.message());
  connection->send(MessageType::kError, 0, wire::encodeStatus(why)).ignore();
  connection->close();
}

std::optional<Secret> Coordinator::secretOf(uint64_t nonce, uint64_t hall) const {
  if (auto room = rooms_.find(nonce); room != rooms_.end()) return room->second.secret;
  for (const Ended& one : ended_)
    if (one.nonce == nonce) return one.secret;
  if (auto open = halls_.find(hall); open != halls_.end()) return open->second.secret;
  return std::nullopt;
}

/// First he says who he is and whom he wants, then he proves it; who does not is told no more than that.
std::optional<uint64_t> Coordinator::stranger(const std::shared_ptr<Connection>& connection, wire::Frame frame) {
  auto known = greeted_.find(connection->key());
  if (known == greeted_.end()) {
    if (frame.version != wire::kVersion) return refuseRelease(connection, frame);
    greet(connection, std::move(frame));
    return std::nullopt;
  }
  const Greeted greeted = std::move(known->second);
  greeted_.erase(known);
  const auto proof = wire::decode32(frame.payload);
  const auto secret = secretOf(greeted.nonce, greeted.hall);
  if (!secret) {
    refuse(connection, nobodyWaits());
    return std::nullopt;
  }
  const Meeting meeting = wire::meetingOf(greeted.greeting.type, greeted.greeting.payload, greeted.theirs, greeted.own);
  if (frame.type != MessageType::kProof || !proof.ok() || !isProof(*proof, *secret, Side::kDialler, meeting)) {
    // It may be a rank that the others wait for; they hear of it when they have waited in vain.
    if (auto room = rooms_.find(greeted.nonce); room != rooms_.end()) {
      ++room->second.unproven;
      room->second.unprovenFrom = connection->peerText();
    }
    refuse(connection, unavailable("this rank does not know the communicator's secret: the id was changed on its way, "
                                   "or, with HCCL_COMM_ID, its HPU_COMM_SECRET is not rank 0's"));
    return std::nullopt;
  }
  connection->trust(wire::kMaxRequestBytes);
  connection->send(MessageType::kProven, 0, wire::encode32(prove(*secret, Side::kListener, meeting))).ignore();
  // Each may have failed the room.
  return greeted.greeting.type == MessageType::kDecline ? decline(connection, greeted.greeting)
                                                        : join(connection, greeted.greeting);
}

void Coordinator::greet(const std::shared_ptr<Connection>& connection, wire::Frame frame) {
  Greeted greeted;
  Status wrong;
  if (frame.type == MessageType::kDecline) {
    const auto refusal = wire::decodeDecline(frame.payload);
    wrong = refusal.status();
    if (refusal.ok()) greeted = {{}, refusal->nonce, refusal->hall, refusal->challenge, {}};
  } else if (frame.type == MessageType::kHello) {
    const auto hello = wire::decodeHello(frame.payload);
    wrong = hello.status();
    if (hello.ok()) greeted = {{}, hello->nonce, hello->hall, hello->challenge, {}};
  } else {
    wrong = invalidArgument("it did not say who it is");
  }
  if (wrong.ok() && !secretOf(greeted.nonce, greeted.hall)) wrong = nobodyWaits();
  if (wrong.ok()) {
    auto own = randomChallenge();
    wrong = own.status();
    if (own.ok()) greeted.own = *own;
  }
  if (!wrong.ok()) return refuse(connection, wrong);
  greeted.greeting = std::move(frame);
  connection->send(MessageType::kChallenge, 0, wire::encode32(greeted.own)).ignore();
  greeted_[connection->key()] = std::move(greeted);
}

// ---- Seats --------------------------------------------------------------------------------------

Coordinator::Room* Coordinator::roomOf(const wire::Hello& hello) {
  if (auto it = rooms_.find(hello.nonce); it != rooms_.end()) return &it->second;
  auto hall = halls_.find(hello.hall);
  bool over = std::any_of(ended_.begin(), ended_.end(), [&](const Ended& one) { return one.nonce == hello.nonce; });
  if (hall == halls_.end() || over) return nullptr;
  Room& room = rooms_[hello.nonce];
  room.nonce = hello.nonce;
  room.hall = hello.hall;
  room.secret = hall->second.secret;
  room.reactor = hall->second.reactor;
  room.listener = hall->second.listener;
  return &room;
}

/// Of somebody who has no seat in the room: those who are there, or come, need not wait for the one that is left empty.
std::optional<uint64_t> Coordinator::decline(const std::shared_ptr<Connection>& connection, const wire::Frame& frame) {
  auto refusal = wire::decodeDecline(frame.payload);
  Room* room = refusal.ok() ? roomOf({.nonce = refusal->nonce, .hall = refusal->hall}) : nullptr;
  if (room && !room->complete) {
    if (room->members.empty()) room->members.resize(1);  // Those who come hear it.
    failRoom(*room, refusal->why.withContext(processText(refusal->pid, refusal->host, {})));
  }
  connection
      ->send(MessageType::kError, 0,
             wire::encodeStatus(room ? refusal->why : unavailable("nobody here waits for that communicator")))
      .ignore();
  connection->close();
  if (!room) return std::nullopt;
  return refusal->nonce;
}

/// Who knows the room's number belongs to it as a rule, and it is of two releases: all in it hear whose is the other
/// one. Where the number can be guessed a word of a stranger ends nothing; those who wait in vain hear of it.
std::optional<uint64_t> Coordinator::refuseRelease(const std::shared_ptr<Connection>& connection,
                                                   const wire::Frame& frame) {
  auto known = wire::decodeIntroduction(frame);
  auto found = known.ok() ? rooms_.find(known->nonce) : rooms_.end();
  const bool member = found != rooms_.end();
  std::string who = "the other side";
  if (member) {
    const std::string process = processText(known->pid, known->host, {});
    who = known->rank < 0 ? process : rankName(known->rank, process);
  }
  const Status why =
      unimplemented(base::strCat(who, " speaks version ", frame.version, " of the bootstrap, the coordinator (",
                                 processText(), ") version ", wire::kVersion, "; use the same release everywhere"));
  HPU_LOG(kDebug, "a connection to the coordinator was refused: " + why.message());
  if (member && found->second.guessable) {
    found->second.otherRelease = why.message();
  } else if (member && !found->second.complete) {
    if (found->second.members.empty()) found->second.members.resize(1);  // Those who come hear it.
    failRoom(found->second, why);
  }
  connection->send(MessageType::kError, 0, wire::encodeStatus(why), frame.version).ignore();
  connection->close();
  if (!member) return std::nullopt;
  return known->nonce;
}

std::optional<uint64_t> Coordinator::join(const std::shared_ptr<Connection>& connection, const wire::Frame& frame) {
  auto hello = wire::decodeHello(frame.payload);
  const uint64_t nonce = hello.ok() ? hello->nonce : 0;
  auto deny = [&](const Status& why) -> std::optional<uint64_t> {
    refuse(connection, why);
    return nonce;
  };
  if (!hello.ok()) return deny(hello.status());
  Room* found = roomOf(*hello);
  if (!found) {
    auto ended =
        std::find_if(ended_.begin(), ended_.end(), [&](const Ended& one) { return one.nonce == hello->nonce; });
    return deny(ended != ended_.end() ? ended->why : nobodyWaits());
  }
  Room& room = *found;
  std::string description = processText(hello->pid, hello->host, hello->node);
  if (room.members.empty()) room.members.resize(static_cast<size_t>(hello->ranks));
  if (room.members.size() != static_cast<size_t>(hello->ranks)) {
    Status why = invalidArgument(base::strCat(rankName(hello->rank, description), " says that the communicator has ",
                                              hello->ranks, " ranks, those before it said ", room.members.size()));
    if (!room.complete) failRoom(room, why);
    return deny(why);
  }
  Member& member = room.members[static_cast<size_t>(hello->rank)];
  if (member.state == MemberState::kPresent || (room.complete && member.state != MemberState::kAbsent)) {
    Status why = invalidArgument(
        base::strCat("rank ", hello->rank, " was given twice: to ", member.description, " and to ", description));
    if (!room.complete) failRoom(room, why);
    return deny(why);
  }
  member.connection = connection;
  member.state = MemberState::kPresent;
  member.description = description;
  member.process = hello->process;
  seats_[connection->key()] = {hello->nonce, hello->rank};
  // The challenge and the proof.
  room.sent.messages += 2;
  room.sent.bytes += 2 * (wire::kHeaderBytes + sizeof(Proof));
  ++room.came;
  ++room.alive;
  if (room.came < static_cast<int32_t>(room.members.size())) return nonce;
  room.complete = true;
  welcome(room);
  return nonce;
}

void Coordinator::welcome(Room& room) {
  Roster roster;
  std::unordered_map<uint64_t, int32_t> numbers;
  std::vector<int32_t> first;  // By process: its first rank.
  for (int32_t rank = 0; rank < room.came; ++rank) {
    const uint64_t process = room.members[static_cast<size_t>(rank)].process;
    int32_t number = static_cast<int32_t>(first.size());
    if (process != 0) number = numbers.try_emplace(process, number).first->second;
    if (number == static_cast<int32_t>(first.size())) first.push_back(rank);
    roster.processOf.push_back(number);
  }
  const std::string payload = encodeRoster(roster);
  for (int32_t rank = 0; rank < room.came; ++rank) {
    const int32_t process = roster.processOf[static_cast<size_t>(rank)];
    send(room, rank, MessageType::kWelcome, 0,
         first[static_cast<size_t>(process)] == rank ? std::string_view(payload) : std::string_view());
  }
}

}  // namespace hpu::collectives
