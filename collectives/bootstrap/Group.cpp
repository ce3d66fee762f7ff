// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Group.h"

#include <algorithm>
#include <iterator>

#include "base/Format.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/ThisProcess.h"

namespace hpu::collectives {

using wire::MessageType;

namespace {

/// All that is gathered goes from a process to so many others at most.
constexpr int kFanOut = 2;

}  // namespace

Group::Group(std::shared_ptr<Client> client, std::string name, std::vector<int> members)
    : client_(std::move(client)),
      members_(std::move(members)),
      hash_(base::hash64(members_.data(), members_.size() * sizeof(int), base::hash64(name))),
      name_(base::strCat(name, "#", base::formatHex(hash_))) {
  auto self = std::find(members_.begin(), members_.end(), client_->rank());
  place_ = static_cast<int>(self - members_.begin());
}

void Group::abandon(const Status& why) {
  const std::string name = "abandoned";
  Phase phase;
  phase.name = &name;
  {
    std::lock_guard lock(client_->mutex);
    phase.number = busy_ ? phase_ : phase_ + 1;
  }
  spread(phase, why);
  std::lock_guard lock(client_->mutex);
  client_->changed.notify_all();
}

void Group::close() {
  // In a child a thread that is not there may hold the mutex for ever, and the others are its parent's.
  if (!birthplace_.isHere()) return;
  std::shared_ptr<Listener> listener;
  std::vector<std::shared_ptr<Connection>> links;
  {
    std::lock_guard lock(client_->mutex);
    listener = std::move(listener_);
    if (parent_) links.push_back(std::move(parent_));
    for (auto& [place, link] : childLinks_) links.push_back(std::move(link));
    childLinks_.clear();
    parent_ = nullptr;
    client_->ended.erase(name_);
  }
  for (auto& link : links) link->close();
  for (auto& local : localNeighbours()) local->lose(place_);
  client_->station().close(hash_, place_, this);
}

std::vector<std::shared_ptr<Group>> Group::localNeighbours() const {
  std::vector<std::shared_ptr<Group>> found;
  std::vector<int> places;
  {
    std::lock_guard lock(client_->mutex);
    if (!opened_) return found;
    places.assign(localLinks_.begin(), localLinks_.end());
    if (leader_ != place_) places.push_back(leader_);
  }
  for (int place : places)
    if (auto member = client_->station().member(hash_, place)) found.push_back(std::move(member));
  return found;
}

std::string Group::rankText(int place) const {
  int rank = members_[static_cast<size_t>(place)];
  auto gone = client_->gone.find(rank);
  if (gone == client_->gone.end()) return rankName(rank, client_->processOf(rank));
  return missingText({gone->second});
}

Status Group::givenUp() const {
  std::lock_guard lock(client_->mutex);
  return client_->givenUp(name_, phase_);
}

Status Group::during(const Phase& phase, const Status& why) const {
  return why.withContext(base::strCat("'", *phase.name, "' of ", members_.size(), " ranks"));
}

// ---- Failing ------------------------------------------------------------------------------------

void Group::spread(const Phase& phase, const Status& why) {
  std::shared_ptr<Connection> parent;
  std::vector<std::shared_ptr<Connection>> children;
  bool tell;
  {
    std::lock_guard lock(client_->mutex);
    if (failure_.ok()) failure_ = why;
    if (parentProven_) parent = parent_;
    for (const auto& [place, link] : childLinks_) children.push_back(link);
    tell = client_->failure.ok() && client_->givenUp(name_, UINT64_MAX).ok();
  }
  // First of all: whoever sees a link end asks the coordinator before he blames it.
  if (tell) client_->giveUp(name_, phase.number, why, members_);
  const Part failed{.status = why, .values = {}, .processes = {}};
  const std::string down = encodePart(failed);
  if (parent) client_->send(*parent, MessageType::kUp, phase.number, upward(*phase.name, failed)).ignore();
  for (auto& child : children) client_->send(*child, MessageType::kDown, phase.number, down).ignore();
  auto shared = std::make_shared<const Down>(Down{.status = why, .values = {}, .processes = {}});
  for (auto& local : localNeighbours()) {
    if (local->place() == leader_)
      local->takeUp(phase.number, shared_from_this(), {*phase.name, failed});
    else
      local->takeDown(phase.number, shared);
  }
}

// ---- A phase ------------------------------------------------------------------------------------

StatusOr<std::vector<std::string>> Group::allGather(const std::string& phaseName, const std::string& mine,
                                                    const base::Deadline& deadline, const Patience* patience) {
  if (mine.size() > wire::kMaxValueBytes || phaseName.size() > wire::kMaxNameBytes)
    return invalidArgument(base::strCat("the value for '", phaseName.substr(0, 64), "' has ", mine.size(), " bytes; ",
                                        wire::kMaxValueBytes, " are the most"));
  Phase phase;
  phase.name = &phaseName;
  phase.deadline = &deadline;
  phase.patience = patience;
  phase.complete = Clock::time_point::max();
  if (!patience) phase.nextLook = Clock::time_point::max();
  {
    std::unique_lock lock(client_->mutex);
    if (!client_->changed.wait_until(lock, deadline.time(), [&] { return !busy_; }))
      return deadlineExceeded(
          base::strCat("'", phaseName, "' waited ", deadline.totalMs(), " ms for another phase of this rank"));
    if (!failure_.ok()) return failure_;
    if (Status given = client_->givenUp(name_, phase_ + 1); !given.ok()) return given;
    if (!client_->failure.ok()) return during(phase, client_->failure);
    busy_ = true;
    phase.number = ++phase_;
    // What came too late for a phase that is over.
    std::erase_if(up_, [&](const auto& one) { return one.first.first < phase_; });
    std::erase_if(down_, [&](const auto& one) { return one.first < phase_; });
  }
  client_->enter(name_, phase.number);
  StatusOr<std::vector<std::string>> result = members_.size() == 1 ? std::vector<std::string>{mine} : run(phase, mine);
  if (!result.ok()) {
    // The first reason is that of all; what else goes wrong then follows from it.
    if (Status given = givenUp(); !given.ok()) result = given;
    spread(phase, result.status());
    // This process may end at once, and be the coordinator's.
    client_->awaitEnd(name_);
  }
  std::lock_guard lock(client_->mutex);
  busy_ = false;
  client_->changed.notify_all();
  return result;
}

void Group::findPlace(const Roster& roster) {
  // The first member of each process stands for it.
  std::map<int32_t, int> numbers;
  std::vector<int> leaders;
  std::vector<int> processOf;
  for (size_t i = 0; i < members_.size(); ++i) {
    const int32_t process = roster.processOf[static_cast<size_t>(members_[i])];
    auto [it, first] = numbers.try_emplace(process, static_cast<int>(leaders.size()));
    if (first) leaders.push_back(static_cast<int>(i));
    processOf.push_back(it->second);
  }
  const int own = processOf[static_cast<size_t>(place_)];
  leader_ = leaders[static_cast<size_t>(own)];
  parentPlace_ = leader_;
  if (place_ != leader_) return;
  parentPlace_ = own > 0 ? leaders[static_cast<size_t>((own - 1) / kFanOut)] : -1;
  for (int i = 0; i < static_cast<int>(members_.size()); ++i)
    if (i != place_ && processOf[static_cast<size_t>(i)] == own) children_.push_back(i);
  for (int child = kFanOut * own + 1; child <= kFanOut * own + kFanOut && child < static_cast<int>(leaders.size());
       ++child) {
    remoteChildren_.insert(leaders[static_cast<size_t>(child)]);
    children_.push_back(leaders[static_cast<size_t>(child)]);
  }
}

Status Group::link(Phase& phase) {
  if (linked_) return okStatus();  // Written by phases only, one at a time.
  {
    std::unique_lock lock(client_->mutex);
    HPU_RETURN_IF_ERROR(await(lock, phase, [&] { return client_->roster != nullptr; }));
    findPlace(*client_->roster);
    opened_ = true;
  }
  client_->station().open(hash_, place_, shared_from_this());
  std::string prefix = base::strCat("address ", name_, " ");
  if (!remoteChildren_.empty()) {
    HPU_ASSIGN(auto listener, client_->reactor()->listen(client_->local(), shared_from_this()));
    {
      std::lock_guard lock(client_->mutex);
      listener_ = listener;
    }
    wire::Writer out;
    UniqueId id = encodeId({.address = listener->address(), .nonce = 1});
    phase.awaited = children_.front();
    const Status put = client_->put(base::strCat(prefix, place_),
                                    std::string(reinterpret_cast<const char*>(id.bytes), sizeof id.bytes));
    if (!put.ok()) {
      std::lock_guard lock(client_->mutex);
      return during(phase, whileWaiting(phase, put));
    }
  }
  if (place_ == leader_ && parentPlace_ >= 0) HPU_RETURN_IF_ERROR(connectToParent(phase, prefix));
  linked_ = true;
  return okStatus();
}

Status Group::connectToParent(Phase& phase, const std::string& prefix) {
  phase.awaited = parentPlace_;
  auto text =
      client_->get(base::strCat(prefix, parentPlace_), *phase.deadline, [&](std::unique_lock<std::mutex>& lock) {
        Status status = trouble(lock, phase);
        // Its address would have come before the answer to who().
        if (status.ok()) status = goneStatus(phase, parentPlace_);
        return status;
      });
  if (text.status().code() == StatusCode::kDeadlineExceeded) return late(phase);
  if (!text.ok()) {
    std::lock_guard lock(client_->mutex);
    const bool plain = text.status().message() == client_->failure.message();
    return plain ? during(phase, whileWaiting(phase, text.status())) : text.status();
  }
  UniqueId bytes;
  if (text->size() != sizeof bytes.bytes) return internalError("the address of a rank is malformed");
  std::copy(text->begin(), text->end(), bytes.bytes);
  HPU_ASSIGN(CoordinatorId where, decodeId(bytes));
  // The parent told it with the scope of its own machine.
  const Address parent = scopedLike(where.address, client_->local());
  auto fd = connectTo(parent, *phase.deadline, [this] { return givenUp(); });
  if (!fd.ok()) {
    // It may have left because it gave up, or another one did or died. What the coordinator said
    // before its answer has come.
    auto missing = client_->who(name_, phase.number, members_);
    HPU_RETURN_IF_ERROR(givenUp());
    if (missing.ok()) {
      std::erase_if(*missing, [](const MissingRank& one) { return one.state != MemberState::kDied; });
      if (!missing->empty()) return during(phase, unavailable(missingText(*missing)));
    }
    std::lock_guard lock(client_->mutex);
    if (fd.status().code() == StatusCode::kResourceExhausted)
      return during(phase, fd.status().withContext(rankName(client_->rank(), processText())));
    return during(phase, fd.status().withContext(rankText(parentPlace_)));
  }
  HPU_ASSIGN(const Challenge own, randomChallenge());
  std::unique_lock lock(client_->mutex);
  // Its end is heard of when it is known as the parent's.
  HPU_ASSIGN(parent_, client_->reactor()->adopt(*fd, shared_from_this()));
  greeting_ = {client_->id().nonce, hash_, place_, own};
  client_->sendLocked(*parent_, MessageType::kPeerHello, 0, wire::encodePeerHello(greeting_)).ignore();
  HPU_RETURN_IF_ERROR(await(lock, phase, [&] { return parentProven_ || !parentWrong_.ok(); }));
  if (!parentWrong_.ok()) return during(phase, parentWrong_.withContext(rankText(parentPlace_)));
  return okStatus();
}

std::string Group::upward(const std::string& phase, const Part& part) {
  wire::Writer out;
  out.text(phase);
  out.raw(encodePart(part));
  return out.take();
}

StatusOr<LocalPart> Group::decodeUp(std::string_view payload, uint64_t most) const {
  wire::Reader in(payload);
  LocalPart up;
  up.phase = in.text(wire::kMaxNameBytes);
  if (!in.ok()) return internalError("a malformed gathering message");
  HPU_ASSIGN(up.part, decodePart(in.rest(), members_.size(), most));
  return up;
}

Status Group::tooMuch() const {
  return resourceExhausted(
      base::strCat("the values have more than ", wire::kMaxGatheredBytes, " bytes together, which are the most"));
}

StatusOr<Part> Group::gather(Phase& phase, const std::string& mine) {
  Part all;
  uint64_t bytes = mine.size();
  all.values.emplace_back(place_, mine);
  if (phase.number == 1 && place_ == leader_)
    all.processes.emplace_back(place_, processText().substr(0, kMaxProcessBytes));
  for (int child : children_) {
    Up up;
    {
      std::unique_lock lock(client_->mutex);
      std::pair key(phase.number, child);
      phase.awaited = child;
      HPU_RETURN_IF_ERROR(await(lock, phase, [&] { return up_.contains(key); }));
      up = std::move(up_[key]);
      up_.erase(key);
    }
    if (!up.payload.empty()) {
      auto decoded = decodeUp(up.payload, wire::kMaxGatheredBytes - bytes);
      if (decoded.status().code() == StatusCode::kResourceExhausted) return during(phase, tooMuch());
      HPU_ASSIGN(up.local, std::move(decoded));
      up.payload = {};
    }
    auto& [name, part] = up.local;
    if (!part.status.ok()) return part.status;
    if (name != *phase.name)
      return invalidArgument(base::strCat("the ranks have come to different phases: rank ",
                                          members_[static_cast<size_t>(child)], " to '", name, "' and rank ",
                                          client_->rank(), " to '", *phase.name, "'"));
    for (const auto& [place, value] : part.values) bytes += value.size();
    if (bytes > wire::kMaxGatheredBytes) return during(phase, tooMuch());
    if (all.values.size() + part.values.size() > members_.size() ||
        all.processes.size() + part.processes.size() > members_.size())
      return internalError("a gathering has values twice");
    std::move(part.values.begin(), part.values.end(), std::back_inserter(all.values));
    std::move(part.processes.begin(), part.processes.end(), std::back_inserter(all.processes));
  }
  return all;
}

StatusOr<std::shared_ptr<const Group::Down>> Group::complete(Part part) const {
  auto down = std::make_shared<Down>();
  down->values.resize(members_.size());
  std::vector<bool> seen(members_.size());
  for (auto& [place, value] : part.values) {
    if (seen[static_cast<size_t>(place)]) return internalError("a gathering has values twice");
    seen[static_cast<size_t>(place)] = true;
    down->values[static_cast<size_t>(place)] = std::move(value);
  }
  if (part.values.size() != members_.size()) return internalError("a gathering has lost values");
  down->processes = std::move(part.processes);
  return std::shared_ptr<const Down>(std::move(down));
}

StatusOr<std::shared_ptr<const Group::Down>> Group::fromParent(Phase& phase, std::string& payload) {
  std::shared_ptr<const Down> down;
  {
    std::unique_lock lock(client_->mutex);
    phase.awaited = parentPlace_;
    HPU_RETURN_IF_ERROR(await(lock, phase, [&] { return down_.contains(phase.number); }));
    auto it = down_.find(phase.number);
    payload = std::move(it->second.payload);
    down = std::move(it->second.local);
    down_.erase(it);
  }
  if (down) {
    HPU_RETURN_IF_ERROR(down->status);
    return down;
  }
  HPU_ASSIGN(Part part, decodePart(payload, members_.size()));
  HPU_RETURN_IF_ERROR(part.status);
  return complete(std::move(part));
}

StatusOr<std::vector<std::string>> Group::run(Phase& phase, const std::string& mine) {
  HPU_RETURN_IF_ERROR(link(phase));
  HPU_ASSIGN(Part part, gather(phase, mine));
  std::string payload;
  std::shared_ptr<const Down> down;
  if (parentPlace_ < 0) {
    payload = remoteChildren_.empty() ? std::string() : encodePart(part);
    HPU_ASSIGN(down, complete(std::move(part)));
  } else {
    if (place_ == leader_) {
      std::shared_ptr<Connection> parent;
      {
        std::lock_guard lock(client_->mutex);
        parent = parent_;
      }
      client_->send(*parent, MessageType::kUp, phase.number, upward(*phase.name, part)).ignore();
    } else {
      client_->station().give(hash_, leader_, phase.number, shared_from_this(), {*phase.name, std::move(part)});
    }
    HPU_ASSIGN(down, fromParent(phase, payload));
  }
  std::vector<std::shared_ptr<Connection>> children;
  {
    std::lock_guard lock(client_->mutex);
    for (const auto& [place, link] : childLinks_) children.push_back(link);
    for (const auto& [place, process] : down->processes)
      client_->processes[client_->roster->processOf[static_cast<size_t>(members_[static_cast<size_t>(place)])]] =
          process;
  }
  for (auto& child : children) client_->send(*child, MessageType::kDown, phase.number, payload).ignore();
  if (place_ == leader_)
    for (auto& local : localNeighbours()) local->takeDown(phase.number, down);
  return down->values;
}

// ---- On threads of other ranks of the process ---------------------------------------------------

void Group::takeUp(uint64_t phase, const std::shared_ptr<Group>& from, LocalPart part) {
  auto failed = std::make_shared<Down>();
  {
    std::lock_guard lock(client_->mutex);
    localLinks_.insert(from->place());
    up_[{phase, from->place()}] = {{}, std::move(part)};
    failed->status = failure_;
    client_->changed.notify_all();
  }
  // One that comes late to what has failed hears of it.
  if (!failed->status.ok()) from->takeDown(phase, failed);
}

void Group::takeDown(uint64_t phase, std::shared_ptr<const Down> down) {
  std::lock_guard lock(client_->mutex);
  down_[phase] = {{}, std::move(down)};
  client_->changed.notify_all();
}

void Group::lose(int place) {
  std::lock_guard lock(client_->mutex);
  lost_.insert(place);
  client_->changed.notify_all();
}

// ---- On the reactor's thread --------------------------------------------------------------------

void Group::onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) {
  Status answer;
  {
    std::lock_guard lock(client_->mutex);
    int child = -1;
    for (const auto& [place, link] : childLinks_)
      if (link == connection) child = place;
    // Neighbours are in the same phase, or one of them in the next: there is nothing else to keep.
    const bool fits = frame.id == phase_ || frame.id == phase_ + 1;
    if (connection == parent_) {
      if (!parentProven_) return onParent(frame);
      if (frame.type == MessageType::kDown && fits) down_[frame.id] = {std::move(frame.payload), nullptr};
      client_->changed.notify_all();
      return;
    }
    if (child < 0) {
      answer = onStranger(connection, frame);
      if (answer.ok()) return;
    } else if (frame.type == MessageType::kUp) {
      if (fits) up_[{frame.id, child}] = {std::move(frame.payload), {}};
      // One that comes late to what has failed hears of it.
      if (failure_.ok()) {
        client_->changed.notify_all();
        return;
      }
      answer = failure_;
    }
    if (child < 0) connection->close();
  }
  if (answer.ok()) return;
  const Part failed{.status = answer, .values = {}, .processes = {}};
  client_->send(*connection, MessageType::kDown, frame.id, encodePart(failed)).ignore();
}

void Group::onParent(const wire::Frame& frame) {
  if (frame.type == MessageType::kError) {
    // It has no descriptor for this rank.
    wire::Reader in(frame.payload);
    const Status why = in.status();
    parentWrong_ = why.ok() ? unavailable("it refuses without a reason") : why;
    client_->changed.notify_all();
    return;
  }
  const auto bytes = wire::decode32(frame.payload);
  const std::string said = wire::encodePeerHello(greeting_);
  Meeting meeting = wire::meetingOf(MessageType::kPeerHello, said, greeting_.challenge, parentChallenge_);
  const Secret& secret = client_->id().secret;
  if (bytes.ok() && frame.type == MessageType::kChallenge && parentChallenge_ == Challenge{}) {
    parentChallenge_ = meeting.listener = *bytes;
    const Proof proof = prove(secret, Side::kDialler, meeting);
    client_->sendLocked(*parent_, MessageType::kProof, 0, wire::encode32(proof)).ignore();
    return;
  }
  if (bytes.ok() && frame.type == MessageType::kProven && isProof(*bytes, secret, Side::kListener, meeting)) {
    parentProven_ = true;
    parent_->trust(mostPartBytes(members_.size()));
  } else {
    parentWrong_ = unavailable("who answers there does not know the communicator's secret");
  }
  client_->changed.notify_all();
}

Status Group::onStranger(const std::shared_ptr<Connection>& connection, const wire::Frame& frame) {
  const Status none = invalidArgument("not a rank of this group");
  auto free = [&](int place) { return remoteChildren_.contains(place) && !childLinks_.contains(place); };
  auto known = greeted_.find(connection->key());
  if (known == greeted_.end()) {
    auto hello = wire::decodePeerHello(frame.payload);
    if (frame.type != MessageType::kPeerHello || !hello.ok() || hello->nonce != client_->id().nonce ||
        hello->group != hash_ || !free(hello->place))
      return none;
    HPU_ASSIGN(const Challenge own, randomChallenge());
    greeted_[connection->key()] = {*hello, own};
    client_->sendLocked(*connection, MessageType::kChallenge, 0, wire::encode32(own)).ignore();
    return okStatus();
  }
  const Greeted greeted = known->second;
  greeted_.erase(known);
  const std::string said = wire::encodePeerHello(greeted.hello);
  const Meeting meeting = wire::meetingOf(MessageType::kPeerHello, said, greeted.hello.challenge, greeted.own);
  const Secret& secret = client_->id().secret;
  const auto proof = wire::decode32(frame.payload);
  if (frame.type != MessageType::kProof || !proof.ok() || !free(greeted.hello.place) ||
      !isProof(*proof, secret, Side::kDialler, meeting))
    return none;
  // Before anything else goes there: the child hears nothing before it.
  client_->sendLocked(*connection, MessageType::kProven, 0, wire::encode32(prove(secret, Side::kListener, meeting)))
      .ignore();
  childLinks_[greeted.hello.place] = connection;
  connection->trust(mostPartBytes(members_.size()));
  return okStatus();
}

void Group::onClosed(const std::shared_ptr<Connection>& connection, const Status& why) {
  std::lock_guard lock(client_->mutex);
  greeted_.erase(connection->key());
  if (connection == parent_) lost_.insert(parentPlace_);
  for (const auto& [place, link] : childLinks_)
    if (link == connection) lost_.insert(place);
  client_->changed.notify_all();
}

/// The phase that waits for it ends, and tells the others.
void Group::onRefused(const Status& why) {
  std::lock_guard lock(client_->mutex);
  if (failure_.ok() && childLinks_.size() < remoteChildren_.size())
    failure_ = resourceExhausted(base::strCat(rankName(client_->rank(), processText()), " ", why.message()));
  client_->changed.notify_all();
}

}  // namespace hpu::collectives
