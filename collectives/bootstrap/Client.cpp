// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Client.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/ThisProcess.h"

namespace hpu::collectives {

using wire::MessageType;

namespace {

constexpr int64_t kAnswerMs = 2000;  ///< The coordinator answers questions at once or never.
constexpr int64_t kLookMs = 20;
constexpr int64_t kRetryMs = 20, kLongestRetryMs = 500;
constexpr size_t kMostEnded = 4096;  ///< Groups whose end is remembered.
constexpr int kMostAttempts = 6;     ///< Of a coordinator that hangs up: a second.

}  // namespace

Client::Client(const CoordinatorId& id, int rank, int ranks, uint64_t process)
    : id_(id),
      process_(process ? process : processToken()),
      station_(Station::of(id.nonce, process_)),
      rank_(rank),
      ranks_(ranks) {}

Status Client::connect(const std::shared_ptr<Client>& self, const base::Deadline& deadline) {
  HPU_ASSIGN(reactor_, Reactor::acquire());
  // The scope in the id is of the machine that made it; HCCL_COMM_ID was read on this one.
  Address address = id_.address;
  if (!id_.fromEnvironment && isLinkLocal(address)) address = scopedHere(address, linkLocalAddresses());
  int64_t pause = kRetryMs;
  for (;;) {
    auto fd = connectTo(address, deadline, [this] {
      std::lock_guard lock(mutex);
      return failure;
    });
    if (fd.ok()) {
      auto local = localAddress(*fd);
      HPU_ASSIGN(connection_, reactor_->adopt(*fd, self));
      HPU_ASSIGN(local_, std::move(local));
      return okStatus();
    }
    // Of an id that was created, the coordinator was there before the id.
    bool mayCome = id_.fromEnvironment && fd.status().code() == StatusCode::kUnavailable;
    if (!mayCome && fd.status().code() == StatusCode::kUnavailable)
      return unavailable(fd.status().message() + " (the coordinator: " + process() +
                         " has ended, or cannot be reached from here)");
    if (!mayCome && fd.status().code() != StatusCode::kDeadlineExceeded) return fd.status();
    if (!mayCome || deadline.remainingMs() <= pause)
      return deadlineExceeded(base::strCat(
          "rank ", rank_, " of ", ranks_, " found no coordinator within ", deadline.totalMs(), " ms: ",
          fd.status().message(), id_.fromEnvironment ? " (HCCL_COMM_ID; rank 0 starts it and has not come)" : ""));
    {
      std::unique_lock lock(mutex);
      if (changed.wait_for(lock, std::chrono::milliseconds(pause), [&] { return !failure.ok(); })) return failure;
    }
    pause = std::min(pause * 2, kLongestRetryMs);
  }
}

std::string Client::processOf(int rank) const {
  if (!roster) return {};
  auto known = processes.find(roster->processOf[static_cast<size_t>(rank)]);
  return known == processes.end() ? std::string() : known->second;
}

std::string Client::process() const {
  return id_.process.empty() ? "the process that created the communicator's id" : id_.process;
}

Status Client::otherRelease(std::string_view versions) const {
  return unimplemented(base::strCat(rankName(rank_, processText()), " and the coordinator at ", id_.address.text(),
                                    ", in ", process(), ", are of different releases: ", versions));
}

std::string Client::noAnswer() const {
  return base::strCat("the coordinator at ", id_.address.text(), ", in ", process(),
                      id_.process.empty() ? " (rank 0's as a rule)" : "", ", does not answer");
}

Status Client::greetWith(MessageType type, const std::function<std::string(const Challenge&)>& encode) {
  HPU_ASSIGN(const Challenge own, randomChallenge());
  std::lock_guard lock(mutex);
  standing_ = Standing::kGreeted;
  own_ = own;
  greetingType_ = type;
  greeting_ = encode(own);
  // When it cannot be sent, the reason comes with the end of the connection.
  sendLocked(*connection_, type, 0, greeting_).ignore();
  return okStatus();
}

Status Client::greet() {
  return greetWith(MessageType::kHello, [this](const Challenge& own) {
    return wire::encodeHello({id_.nonce, rank_, ranks_, ::getpid(), hostName(), id_.hall, process_, nodeName(), own});
  });
}

bool Client::awaitProven() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, std::chrono::milliseconds(kAnswerMs),
                   [&] { return standing_ == Standing::kProven || over_ || !dropped_.ok(); });
  return standing_ == Standing::kProven;
}

bool Client::awaitOthers(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until,
                         const std::function<Status()>& look) {
  auto decided = [&] { return welcome_ || !failure.ok() || !dropped_.ok(); };
  while (look && !decided() && std::chrono::steady_clock::now() < until) {
    lock.unlock();
    Status seen = look();
    lock.lock();
    if (!seen.ok() && !decided()) {
      failure = seen;
      interrupted_ = true;
    }
    auto next = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLookMs);
    changed.wait_until(lock, std::min(until, next), decided);
  }
  return changed.wait_until(lock, until, decided);
}

Status Client::decline(const std::shared_ptr<Client>& self, const Status& why, const base::Deadline& deadline) {
  HPU_RETURN_IF_ERROR(connect(self, deadline));
  if (ranks_ >= 1 && ranks_ <= wire::kMaxRanks && rank_ >= 0 && rank_ < ranks_) {
    HPU_RETURN_IF_ERROR(greet());
    giveUp({}, 0, why, {});
  } else {
    // There is no such seat to take and leave.
    HPU_RETURN_IF_ERROR(greetWith(MessageType::kDecline, [&](const Challenge& own) {
      return wire::encodeDecline({id_.nonce, id_.hall, ::getpid(), hostName(), why, own});
    }));
  }
  awaitEnd({});
  return okStatus();
}

Status Client::join(const std::shared_ptr<Client>& self, const base::Deadline& deadline,
                    const std::function<Status()>& look) {
  station_->enter(self);
  bool came = false;
  for (int attempt = 1; !came; ++attempt) {
    HPU_RETURN_IF_ERROR(connect(self, deadline));
    HPU_RETURN_IF_ERROR(greet());
    std::unique_lock lock(mutex);
    if (!awaitOthers(lock, deadline.time(), look)) break;
    came = welcome_ || !failure.ok();
    if (came) break;
    // A coordinator that many strangers call ends the connection that says nothing for longest.
    if (attempt == kMostAttempts || deadline.remainingMs() <= kRetryMs << attempt) {
      over_ = true;
      return failure = lost(dropped_);
    }
    changed.wait_for(lock, std::chrono::milliseconds(kRetryMs << attempt), [&] { return !failure.ok(); });
    if (!failure.ok()) return failure;
    dropped_ = okStatus();
  }
  Status why;
  bool tell = false;
  {
    std::unique_lock lock(mutex);
    if (!came) {
      // The coordinator knows who is missing, and tells all who wait.
      lock.unlock();
      Status late = deadlineExceeded(
          base::strCat("rank ", rank_, " of ", ranks_, " waited ", deadline.totalMs(), " ms for all ranks to come"));
      giveUp({}, 0, late, {});
      lock.lock();
      auto answered = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMs);
      if (!awaitOthers(lock, answered, nullptr) || (!welcome_ && failure.ok()))
        return deadlineExceeded(base::strCat(late.message(), ": ", noAnswer()));
    }
    // One that was interrupted goes, even if all have come meanwhile: they hear why.
    if (welcome_ && !interrupted_) return okStatus();
    why = failure;
    tell = interrupted_;
  }
  if (tell) {
    giveUp({}, 0, why, {});
    awaitEnd({});
  }
  return why;
}

void Client::interrupt(const Status& why) {
  std::lock_guard lock(mutex);
  if (welcome_ || !failure.ok()) return;
  failure = why;
  interrupted_ = true;
  changed.notify_all();
}

void Client::leave() {
  // In a child a thread that is not there may hold the mutex for ever, and the connection is the parent's.
  if (!birthplace_.isHere() || !connection_) return;
  {
    std::lock_guard lock(mutex);
    if (standing_ == Standing::kProven) sendLocked(*connection_, MessageType::kBye, 0, {}).ignore();
  }
  connection_->close();
}

Status Client::send(Connection& connection, MessageType type, uint64_t id, std::string_view payload) {
  {
    std::lock_guard lock(mutex);
    sent_.messages += 1;
    sent_.bytes += wire::kHeaderBytes + payload.size();
  }
  return connection.send(type, id, payload);
}

Status Client::sendLocked(Connection& connection, MessageType type, uint64_t id, std::string_view payload) {
  sent_.messages += 1;
  sent_.bytes += wire::kHeaderBytes + payload.size();
  return connection.send(type, id, payload);
}

Traffic Client::traffic() const {
  std::lock_guard lock(mutex);
  return sent_;
}

// ---- Requests -----------------------------------------------------------------------------------

Status Client::put(const std::string& key, const std::string& value) {
  if (value.size() > wire::kMaxValueBytes || key.size() > wire::kMaxNameBytes)
    return invalidArgument(base::strCat("the value of '", key.substr(0, 64), "' has ", value.size(), " bytes; ",
                                        wire::kMaxValueBytes, " are the most"));
  {
    std::lock_guard lock(mutex);
    if (!failure.ok()) return failure;
  }
  wire::Writer out;
  out.text(key);
  out.text(value);
  const Status sent = send(*connection_, MessageType::kPut, 0, out.take());
  return sent.code() == StatusCode::kUnavailable ? lost(sent) : sent;
}

StatusOr<wire::Frame> Client::request(MessageType type, std::string_view payload, const base::Deadline& deadline,
                                      const std::function<Status(std::unique_lock<std::mutex>&)>& interrupted) {
  uint64_t id;
  {
    std::lock_guard lock(mutex);
    if (!failure.ok()) return failure;
    id = nextRequest_++;
    replies_[id] = std::nullopt;
  }
  send(*connection_, type, id, payload).ignore();
  Status result;
  std::unique_lock lock(mutex);
  for (;;) {
    if (replies_[id]) break;
    if (interrupted) {
      result = interrupted(lock);
      if (replies_[id]) break;
    }
    if (result.ok()) result = failure;
    if (result.ok() && deadline.expired()) result = deadlineExceeded(noAnswer());
    if (!result.ok()) {
      replies_.erase(id);
      lock.unlock();
      send(*connection_, MessageType::kCancel, id, {}).ignore();
      return result;
    }
    changed.wait_until(lock, deadline.time());
  }
  wire::Frame frame = std::move(*replies_[id]);
  replies_.erase(id);
  return frame;
}

StatusOr<std::string> Client::get(const std::string& key, const base::Deadline& deadline,
                                  const std::function<Status(std::unique_lock<std::mutex>&)>& interrupted) {
  if (key.size() > wire::kMaxNameBytes)
    return invalidArgument(base::strCat("a key of ", key.size(), " bytes; ", wire::kMaxNameBytes, " are the most"));
  wire::Writer out;
  out.text(key);
  auto frame = request(MessageType::kGet, out.take(), deadline, interrupted);
  if (frame.status().code() == StatusCode::kDeadlineExceeded)
    return deadlineExceeded(
        base::strCat("rank ", rank_, " waited ", deadline.totalMs(), " ms for '", key, "', which no rank has put"));
  if (!frame.ok()) return frame.status();
  return std::move(frame->payload);
}

void Client::giveUp(const std::string& group, uint64_t phase, const Status& why, const std::vector<int>& members) {
  if (!awaitProven()) return;
  wire::Writer out;
  out.text(group);
  out.status(why);
  out.u32(static_cast<uint32_t>(members.size()));
  for (int member : members) out.i32(member);
  send(*connection_, MessageType::kGiveUp, phase, out.take()).ignore();
}

void Client::awaitEnd(const std::string& group) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, std::chrono::milliseconds(kAnswerMs),
                   [&] { return over_ || !dropped_.ok() || !givenUp(group, UINT64_MAX).ok(); });
}

Status Client::givenUp(const std::string& group, uint64_t phase) const {
  for (const std::string& name : {std::string(), group})
    if (auto end = ended.find(name); end != ended.end() && end->second.phase <= phase) return end->second.why;
  return okStatus();
}

void Client::enter(const std::string& group, uint64_t phase) {
  wire::Writer out;
  out.text(group);
  out.u64(phase);
  send(*connection_, MessageType::kEnter, 0, out.take()).ignore();
}

StatusOr<std::vector<MissingRank>> Client::who(const std::string& group, uint64_t phase,
                                               const std::vector<int>& members) {
  wire::Writer out;
  out.text(group);
  out.u64(phase);
  out.u32(static_cast<uint32_t>(members.size()));
  for (int member : members) out.i32(member);
  HPU_ASSIGN(wire::Frame frame, request(MessageType::kWho, out.take(), base::Deadline::afterMs(kAnswerMs), nullptr));
  return decodeMissing(frame.payload);
}

// ---- On the reactor's thread --------------------------------------------------------------------

void Client::learn(const std::shared_ptr<const Roster>& known) {
  std::lock_guard lock(mutex);
  roster = known;
  changed.notify_all();
}

void Client::onStranger(Connection& connection, const wire::Frame& frame) {
  auto refuse = [&](std::string_view what) {
    if (!failure.ok()) return;
    over_ = true;
    failure = unavailable(base::strCat(
        "rank ", rank_, " of ", ranks_, ": who answers at ", id_.address.text(), " ", what,
        id_.fromEnvironment ? ": this rank's HPU_COMM_SECRET is not rank 0's, or it is no coordinator of this program"
                            : ": it is not the coordinator of this id"));
    changed.notify_all();
  };
  auto bytes = wire::decode32(frame.payload);
  if (!bytes.ok()) return refuse("speaks nonsense");
  if (frame.type == MessageType::kChallenge && standing_ == Standing::kGreeted) {
    standing_ = Standing::kChallenged;
    theirs_ = *bytes;
    const Proof proof = prove(id_.secret, Side::kDialler, wire::meetingOf(greetingType_, greeting_, own_, theirs_));
    sendLocked(connection, MessageType::kProof, 0, wire::encode32(proof)).ignore();
    return;
  }
  if (frame.type != MessageType::kProven || standing_ != Standing::kChallenged)
    return refuse("does not prove that it knows the communicator's secret");
  if (!isProof(*bytes, id_.secret, Side::kListener, wire::meetingOf(greetingType_, greeting_, own_, theirs_)))
    return refuse("does not know the communicator's secret");
  standing_ = Standing::kProven;
  connection.trust(wire::kMaxReplyBytes);
  changed.notify_all();
}

void Client::onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) {
  {
    std::lock_guard lock(mutex);
    if (standing_ != Standing::kProven && frame.type != MessageType::kError) return onStranger(*connection, frame);
  }
  Status malformed;
  if (frame.type == MessageType::kWelcome && !frame.payload.empty()) {
    auto known = decodeRoster(frame.payload, static_cast<size_t>(ranks_));
    malformed = known.status();
    if (known.ok()) station_->tell(std::make_shared<const Roster>(std::move(*known)));
  }
  std::lock_guard lock(mutex);
  switch (frame.type) {
    case MessageType::kWelcome:
      welcome_ = true;
      if (failure.ok() && !malformed.ok()) failure = malformed;
      break;
    case MessageType::kError: {
      wire::Reader in(frame.payload);
      Status status = in.status();
      over_ = true;
      // One that knows this version answers in it, and says more.
      if (failure.ok() && frame.version != wire::kVersion)
        failure =
            otherRelease(base::strCat("it speaks version ", frame.version, " of the bootstrap, this rank version ",
                                      wire::kVersion, "; use the same release everywhere"));
      if (failure.ok()) failure = status.ok() ? internalError("the coordinator refused without a reason") : status;
      break;
    }
    case MessageType::kValue:
    case MessageType::kMissing:
      if (auto it = replies_.find(frame.id); it != replies_.end()) it->second = std::move(frame);
      break;
    case MessageType::kGroupEnded: {
      wire::Reader in(frame.payload);
      std::string group = in.text(wire::kMaxNameBytes);
      Status why = in.status();
      if (!in.done() || why.ok() || !ended.try_emplace(group, End{frame.id, std::move(why)}).second) break;
      if (group.empty()) break;  // All of them: not forgotten.
      endedOrder_.push_back(std::move(group));
      if (endedOrder_.size() > kMostEnded) {
        ended.erase(endedOrder_.front());
        endedOrder_.pop_front();
      }
      break;
    }
    case MessageType::kMemberGone:
      if (auto missing = decodeMissing(frame.payload); missing.ok())
        for (MissingRank& one : *missing)
          if (one.rank >= 0 && one.rank < ranks_) gone[one.rank] = std::move(one);
      break;
    default:
      break;  // Of a coordinator that knows more.
  }
  changed.notify_all();
}

Status Client::lost(const Status& why) const {
  return unavailable(base::strCat("rank ", rank_, " of ", ranks_, " lost the coordinator at ", id_.address.text(), ": ",
                                  why.message(), " (", process(), " has ended)"));
}

void Client::onClosed(const std::shared_ptr<Connection>& connection, const Status& why) {
  std::lock_guard lock(mutex);
  if (failure.ok() && standing_ != Standing::kProven && why.code() == StatusCode::kUnavailable) {
    dropped_ = why;
  } else {
    over_ = true;
    if (failure.ok() && why.code() == StatusCode::kUnimplemented) failure = otherRelease(why.message());
    if (failure.ok()) failure = lost(why);
  }
  changed.notify_all();
}

}  // namespace hpu::collectives
