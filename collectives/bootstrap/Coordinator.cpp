// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Coordinator.h"

#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Hash.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/ThisProcess.h"
#include "collectives/bootstrap/Values.h"

namespace hpu::collectives {

using wire::MessageType;

namespace {

constexpr size_t kMaxStoreBytes = size_t{256} << 20;
constexpr size_t kEntryBytes = 128;  ///< Of the store, beside key and value.
constexpr size_t kMostWaits = 1024;  ///< Of one rank at a time.
/// Of one rank: those that it has entered last. A program may make more, one after the other.
constexpr size_t kMostGroups = 4096;
constexpr size_t kMaxEnded = 16;
constexpr int64_t kLateMs = 120000;  ///< When the setting makes no sense.
/// Ranks leave, and die, at about the same time: a message for each one to each other would be N².
constexpr std::chrono::milliseconds kNoticeDelay{20};

StatusOr<uint64_t> randomNonce() {
  uint64_t nonce = 0;
  while (nonce == 0) {
    ssize_t got = ::getrandom(&nonce, sizeof nonce, 0);
    if (got < 0 && errno != EINTR) return unavailable("no random numbers: " + base::errnoText(errno));
  }
  return nonce;
}

}  // namespace

// ---- Rooms --------------------------------------------------------------------------------------

namespace {
std::shared_ptr<Coordinator>& coordinatorSlot() {
  static auto* slot = new std::shared_ptr<Coordinator>;  // Its thread may outlive statics.
  return *slot;
}
}  // namespace

const std::shared_ptr<Coordinator>& Coordinator::instance() {
  std::lock_guard lock(base::processMutex());
  std::shared_ptr<Coordinator>& slot = coordinatorSlot();
  if (slot && slot->pid_ != ::getpid()) base::abandon(slot);
  if (!slot) {
    slot.reset(new Coordinator);
    slot->pid_ = ::getpid();
  }
  return slot;
}

Status Coordinator::openRoom(const CoordinatorId& id, Address* bound) {
  const uint64_t nonce = id.nonce;
  HPU_ASSIGN(auto reactor, Reactor::acquire());
  std::lock_guard lock(mutex_);
  if (rooms_.contains(nonce)) return okStatus();
  HPU_ASSIGN(auto listener, listenAt(*reactor, id.address));
  if (bound) *bound = listener->address();
  Room& room = rooms_[nonce];
  room.nonce = nonce;
  room.secret = id.secret;
  room.guessable = id.fromEnvironment && isKnown(id.secret);
  room.reactor = std::move(reactor);
  room.listener = std::move(listener);
  std::erase_if(ended_, [&](const Ended& one) { return one.nonce == nonce; });
  return okStatus();
}

StatusOr<std::shared_ptr<Listener>> Coordinator::listenAt(Reactor& reactor, const Address& address) {
  std::weak_ptr<Listener>& known = listeners_[address.text()];
  std::shared_ptr<Listener> listener = known.lock();
  if (listener) return listener;
  HPU_ASSIGN(listener, reactor.listen(address, shared_from_this()));
  known = listener;
  std::erase_if(listeners_, [](const auto& entry) { return entry.second.expired(); });
  return listener;
}

StatusOr<CoordinatorId> Coordinator::open() {
  HPU_ASSIGN(std::string prefixes, settings::getString(Setting::HCCL_SOCKET_IFNAME));
  CoordinatorId id;
  HPU_ASSIGN(id.address, chooseInterface(prefixes));
  HPU_ASSIGN(id.nonce, randomNonce());
  HPU_ASSIGN(id.label, randomNonce());
  HPU_ASSIGN(id.secret, randomSecret());
  Address bound;
  HPU_RETURN_IF_ERROR(openRoom(id, &bound));
  id.address = bound;
  return id;
}

Status Coordinator::openAt(const CoordinatorId& id) {
  Status opened = openRoom(id, nullptr);
  if (opened.code() == StatusCode::kAlreadyExists)
    return alreadyExists(opened.message() + " (HCCL_COMM_ID: another job uses this port; choose another one)");
  if (opened.code() == StatusCode::kNotFound)
    return notFound(opened.message() + " (HCCL_COMM_ID must be an address of the machine that rank 0 runs on)");
  return opened;
}

// ---- Halls --------------------------------------------------------------------------------------

Hall::~Hall() {
  Coordinator::instance()->closeHall(id_.nonce);
}

CoordinatorId Hall::room(const CoordinatorId& hall, uint64_t key) {
  CoordinatorId room = hall;
  const uint64_t number[] = {hall.nonce, key};
  room.hall = hall.nonce;
  room.nonce = base::hash64(number, sizeof number);
  return room;
}

StatusOr<std::shared_ptr<Hall>> Coordinator::openHall(const Address& address, const Secret& secret) {
  HPU_ASSIGN(auto reactor, Reactor::acquire());
  CoordinatorId id;
  HPU_ASSIGN(id.nonce, randomNonce());
  id.secret = Hall::secretOf(secret, id.nonce);
  {
    std::lock_guard lock(mutex_);
    HPU_ASSIGN(auto listener, listenAt(*reactor, address));
    id.address = listener->address();
    halls_[id.nonce] = {std::move(reactor), std::move(listener), id.secret};
  }
  return std::make_shared<Hall>(id);
}

void Coordinator::closeHall(uint64_t nonce) {
  OpenHall closed;  // Goes after the lock, as what is released.
  std::vector<std::shared_ptr<const void>> released;
  std::lock_guard lock(mutex_);
  auto it = halls_.find(nonce);
  if (it == halls_.end()) return;
  closed = std::move(it->second);
  halls_.erase(it);
  std::vector<uint64_t> waiting;
  for (auto& [number, room] : rooms_) {
    if (room.hall != nonce || room.complete) continue;
    failRoom(room, unavailable(base::strCat("the communicator of the process ", ::getpid(),
                                            ", where the ranks were to meet, has ended")));
    waiting.push_back(number);
  }
  for (uint64_t number : waiting)
    for (auto& one : sweep(number)) released.push_back(std::move(one));
}

std::optional<Traffic> Coordinator::traffic(uint64_t nonce) const {
  std::lock_guard lock(mutex_);
  auto it = rooms_.find(nonce);
  if (it == rooms_.end()) return std::nullopt;
  return it->second.sent;
}

size_t Coordinator::rooms() const {
  std::lock_guard lock(mutex_);
  return rooms_.size();
}

void Coordinator::send(Room& room, int32_t rank, MessageType type, uint64_t id, std::string_view payload) {
  Member& member = room.members[static_cast<size_t>(rank)];
  if (!member.connection) return;
  // A failure closes the connection, which is heard of.
  member.connection->send(type, id, payload).ignore();
  room.sent.messages += 1;
  room.sent.bytes += wire::kHeaderBytes + payload.size();
}

void Coordinator::failRoom(Room& room, const Status& why, int32_t last) {
  if (!room.failure.ok()) return;
  room.failure = why;
  std::string payload = wire::encodeStatus(why);
  auto tell = [&](int32_t rank) {
    Member& member = room.members[static_cast<size_t>(rank)];
    if (!member.connection) return;
    send(room, rank, MessageType::kError, 0, payload);
    seats_.erase(member.connection->key());
    member.connection->close();
    member.connection = nullptr;
  };
  for (size_t rank = 0; rank < room.members.size(); ++rank)
    if (static_cast<int32_t>(rank) != last) tell(static_cast<int32_t>(rank));
  if (last >= 0) tell(last);
  room.alive = 0;
}

std::vector<std::shared_ptr<const void>> Coordinator::sweep(uint64_t nonce) {
  std::vector<std::shared_ptr<const void>> released;
  auto it = rooms_.find(nonce);
  if (it == rooms_.end() || it->second.alive > 0 || it->second.members.empty()) return released;
  Room& room = it->second;
  Ended ended{nonce, room.secret, room.failure, nullptr, nullptr};
  if (room.failure.ok()) {
    ended.why = unavailable("the communicator of this id has ended");
    released = {room.listener, room.reactor};
  } else {
    ended.reactor = room.reactor;
    ended.listener = room.listener;
    auto patience = settings::getInt(Setting::HPU_COMM_INIT_TIMEOUT_MS);
    room.reactor->after(std::chrono::milliseconds(patience.ok() ? *patience : kLateMs),
                        [nonce] { instance()->forget(nonce); });
  }
  ended_.push_back(std::move(ended));
  if (ended_.size() > kMaxEnded) {
    released.push_back(ended_.front().listener);
    released.push_back(ended_.front().reactor);
    ended_.pop_front();
  }
  rooms_.erase(it);
  return released;
}

void Coordinator::forget(uint64_t nonce) {
  Ended forgotten;  // Goes after the lock.
  std::lock_guard lock(mutex_);
  auto it = std::find_if(ended_.begin(), ended_.end(), [&](const Ended& one) { return one.nonce == nonce; });
  if (it == ended_.end()) return;
  forgotten = std::move(*it);
  ended_.erase(it);
}

// ---- Hearing ------------------------------------------------------------------------------------

void Coordinator::onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) {
  std::vector<std::shared_ptr<const void>> released;  // Goes after the lock.
  std::lock_guard lock(mutex_);
  auto seat = seats_.find(connection->key());
  if (seat == seats_.end()) {
    if (const auto nonce = stranger(connection, std::move(frame))) released = sweep(*nonce);
    return;
  }
  uint64_t nonce = seat->second.nonce;
  Room& room = rooms_.at(nonce);
  if (!serve(room, seat->second.rank, frame)) {
    HPU_LOG(kWarning,
            base::strCat("rank ", seat->second.rank, " sent a malformed message, or keeps more here than a rank may"));
    int32_t rank = seat->second.rank;
    seats_.erase(seat);
    connection->close();
    gone(room, rank, MemberState::kDied);
  }
  released = sweep(nonce);
}

void Coordinator::onClosed(const std::shared_ptr<Connection>& connection, const Status& why) {
  std::vector<std::shared_ptr<const void>> released;
  std::lock_guard lock(mutex_);
  auto seat = seats_.find(connection->key());
  if (seat == seats_.end()) {
    greeted_.erase(connection->key());
    HPU_LOG(kDebug, "a stranger left the coordinator: " + why.message());
    return;
  }
  uint64_t nonce = seat->second.nonce;
  int32_t rank = seat->second.rank;
  seats_.erase(seat);
  gone(rooms_.at(nonce), rank, MemberState::kDied);
  released = sweep(nonce);
}

/// Those who are there need not wait for one that cannot come in.
void Coordinator::onRefused(const Status& why) {
  std::vector<std::shared_ptr<const void>> released;
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> failed;
  for (auto& [nonce, room] : rooms_) {
    if (room.complete || room.alive == 0) continue;
    failRoom(room, resourceExhausted(base::strCat("the coordinator (process ", ::getpid(), ") ", why.message())));
    failed.push_back(nonce);
  }
  for (uint64_t nonce : failed)
    for (auto& one : sweep(nonce)) released.push_back(std::move(one));
}

void Coordinator::gone(Room& room, int32_t rank, MemberState how) {
  Member& member = room.members[static_cast<size_t>(rank)];
  member.connection = nullptr;
  member.state = how;
  --room.alive;
  for (auto it = room.waiting.begin(); it != room.waiting.end() && member.waits > 0;) {
    member.waits -= std::erase_if(it->second, [&](const Waiting& one) { return one.rank == rank; });
    it = it->second.empty() ? room.waiting.erase(it) : std::next(it);
  }
  if (!room.complete) {
    --room.came;
    // One that gave up in order may be late for nobody; one that died will not come again.
    if (how == MemberState::kDied)
      failRoom(room, unavailable(rankName(rank, member.description) + " died before all ranks had come"));
    else if (room.alive == 0)
      room.failure = deadlineExceeded("all ranks that had come gave up waiting for the others");
    return;
  }
  room.gone.push_back({rank, how, member.description});
  // Of the first one at once: its error may end this process next.
  if (room.noticeDue || room.alive == 0) return;
  tellGone(room);
  room.noticeDue = true;
  room.reactor->after(kNoticeDelay, [nonce = room.nonce] { instance()->notice(nonce); });
}

void Coordinator::tellGone(Room& room, int32_t rank) {
  Member& member = room.members[static_cast<size_t>(rank)];
  if (!member.connection || member.told == room.gone.size()) return;
  const auto first = room.gone.begin() + static_cast<std::ptrdiff_t>(member.told);
  member.told = room.gone.size();
  send(room, rank, MessageType::kMemberGone, 0, encodeMissing({first, room.gone.end()}));
}

void Coordinator::tellGone(Room& room) {
  for (size_t rank = 0; rank < room.members.size(); ++rank) tellGone(room, static_cast<int32_t>(rank));
}

void Coordinator::notice(uint64_t nonce) {
  std::lock_guard lock(mutex_);
  auto it = rooms_.find(nonce);
  if (it == rooms_.end()) return;
  it->second.noticeDue = false;
  tellGone(it->second);
}

// ---- Being there --------------------------------------------------------------------------------

bool Coordinator::serve(Room& room, int32_t rank, const wire::Frame& frame) {
  Member& member = room.members[static_cast<size_t>(rank)];
  switch (frame.type) {
    case MessageType::kPut:
      return put(room, frame);
    case MessageType::kGet:
      return get(room, rank, frame);
    case MessageType::kCancel:
      cancel(room, rank, frame.id);
      return true;
    case MessageType::kEnter:
      return enter(member, frame);
    case MessageType::kWho:
      return who(room, rank, frame);
    case MessageType::kGiveUp:
      return giveUp(room, rank, frame);
    case MessageType::kBye: {
      auto connection = member.connection;
      seats_.erase(connection->key());
      connection->close();
      gone(room, rank, MemberState::kLeft);
      return true;
    }
    default:
      return false;
  }
}

bool Coordinator::put(Room& room, const wire::Frame& frame) {
  wire::Reader in(frame.payload);
  std::string key = in.text(wire::kMaxNameBytes);
  std::string value = in.text(wire::kMaxValueBytes);
  if (!in.done()) return false;
  const auto before = room.store.find(key);
  const size_t freed = before == room.store.end() ? 0 : kEntryBytes + key.size() + before->second.size();
  const size_t bytes = room.storeBytes - freed + kEntryBytes + key.size() + value.size();
  if (bytes > kMaxStoreBytes) return false;
  room.storeBytes = bytes;
  if (auto it = room.waiting.find(key); it != room.waiting.end()) {
    for (const Waiting& one : it->second) {
      --room.members[static_cast<size_t>(one.rank)].waits;
      send(room, one.rank, MessageType::kValue, one.id, value);
    }
    room.waiting.erase(it);
  }
  room.store[std::move(key)] = std::move(value);
  return true;
}

bool Coordinator::get(Room& room, int32_t rank, const wire::Frame& frame) {
  wire::Reader in(frame.payload);
  std::string key = in.text(wire::kMaxNameBytes);
  if (!in.done()) return false;
  if (const auto it = room.store.find(key); it != room.store.end()) {
    send(room, rank, MessageType::kValue, frame.id, it->second);
    return true;
  }
  Member& member = room.members[static_cast<size_t>(rank)];
  if (member.waits == kMostWaits) return false;
  ++member.waits;
  room.waiting[std::move(key)].push_back({rank, frame.id});
  return true;
}

void Coordinator::cancel(Room& room, int32_t rank, uint64_t id) {
  Member& member = room.members[static_cast<size_t>(rank)];
  for (auto it = room.waiting.begin(); it != room.waiting.end() && member.waits > 0;) {
    member.waits -= std::erase_if(it->second, [&](const Waiting& one) { return one.rank == rank && one.id == id; });
    it = it->second.empty() ? room.waiting.erase(it) : std::next(it);
  }
}

bool Coordinator::enter(Member& member, const wire::Frame& frame) {
  wire::Reader in(frame.payload);
  std::string group = in.text(wire::kMaxNameBytes);
  const uint64_t phase = in.u64();
  if (!in.done()) return false;
  member.reached[std::move(group)] = {phase, ++member.entered};
  if (member.reached.size() <= kMostGroups) return true;
  // The older half goes: its phases are over as a rule, and a member that still waits there is only said to be late.
  std::vector<uint64_t> ages;
  ages.reserve(member.reached.size());
  for (const auto& [name, reached] : member.reached) ages.push_back(reached.at);
  const auto middle = ages.begin() + static_cast<std::ptrdiff_t>(ages.size() / 2);
  std::nth_element(ages.begin(), middle, ages.end());
  std::erase_if(member.reached, [&](const auto& one) { return one.second.at < *middle; });
  return true;
}

/// All that wait for the same hear it here: the ways among the ranks may not be there yet, or end
/// with the rank. It hears it last: its process, maybe this one, may end as soon as it has.
bool Coordinator::giveUp(Room& room, int32_t rank, const wire::Frame& frame) {
  wire::Reader in(frame.payload);
  std::string group = in.text(wire::kMaxNameBytes);
  Status why = in.status();
  uint32_t count = in.u32();
  if (!in.ok() || why.ok() || count > room.members.size() || in.left() != size_t{count} * 4) return false;
  // They have come meanwhile; one that was only late goes on with them.
  if (group.empty() && room.complete && why.code() == StatusCode::kDeadlineExceeded) return true;
  if (group.empty() && !room.complete) {
    if (why.code() == StatusCode::kDeadlineExceeded) {
      std::vector<MissingRank> missing;
      for (size_t other = 0; other < room.members.size(); ++other) {
        const Member& member = room.members[other];
        if (member.state != MemberState::kPresent)
          missing.push_back({static_cast<int32_t>(other), member.state, member.description});
      }
      std::string unproven;
      if (room.unproven == 1)
        unproven = base::strCat("; a connection from ", room.unprovenFrom, " did not know the secret");
      else if (room.unproven > 1)
        unproven = base::strCat("; ", room.unproven, " connections, the last from ", room.unprovenFrom,
                                ", did not know the secret");
      if (!unproven.empty()) unproven += " (HPU_COMM_SECRET, or another id: the same on all ranks)";
      why = deadlineExceeded(base::strCat(why.message(), ", and ", missing.size(), " did not: ", missingText(missing),
                                          unproven, room.otherRelease.empty() ? "" : "; ", room.otherRelease));
    }
    failRoom(room, why, rank);
    return true;
  }
  if (room.endedGroups.size() == kMostGroups) room.endedGroups.clear();
  if (!room.endedGroups.insert(group).second) return true;
  wire::Writer out;
  out.text(group);
  out.status(why);
  std::string payload = out.take();
  const auto ranks = static_cast<int32_t>(room.members.size());
  auto tell = [&](int32_t member) {
    if (member >= 0 && member < ranks && member != rank)
      send(room, member, MessageType::kGroupEnded, frame.id, payload);
  };
  for (int32_t member = 0; member < ranks && group.empty(); ++member) tell(member);
  for (uint32_t i = 0; i < count; ++i) tell(in.i32());
  send(room, rank, MessageType::kGroupEnded, frame.id, payload);
  return true;
}

bool Coordinator::who(Room& room, int32_t rank, const wire::Frame& frame) {
  wire::Reader in(frame.payload);
  std::string group = in.text(wire::kMaxNameBytes);
  uint64_t phase = in.u64();
  uint32_t count = in.u32();
  if (!in.ok() || count > room.members.size() || in.left() != size_t{count} * 4) return false;
  std::vector<MissingRank> missing;
  auto look = [&](int32_t other) {
    if (other < 0 || other >= static_cast<int32_t>(room.members.size())) return;
    const Member& member = room.members[static_cast<size_t>(other)];
    auto reached = member.reached.find(group);
    bool there = phase == 0 ? member.state == MemberState::kPresent
                            : reached != member.reached.end() && reached->second.phase >= phase;
    if (!there) missing.push_back({other, member.state, member.description});
  };
  // None: all of them.
  if (count == 0)
    for (size_t other = 0; other < room.members.size(); ++other) look(static_cast<int32_t>(other));
  for (uint32_t i = 0; i < count; ++i) look(in.i32());
  // The asking rank hears of those that have gone before it gets the answer.
  tellGone(room, rank);
  send(room, rank, MessageType::kMissing, frame.id, encodeMissing(missing));
  return true;
}

}  // namespace hpu::collectives
