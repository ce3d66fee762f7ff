// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Group.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/Format.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/Bootstrap.h"

namespace hpu::collectives {

using wire::MessageType;

namespace {

constexpr int kFanOut = 8;
/// What is on its way from ranks that have left may still come.
constexpr auto kGrace = std::chrono::milliseconds(1000);

constexpr std::chrono::milliseconds kShortestLook{10}, kLongestLook{250};

constexpr uint32_t kAllEmpty = UINT32_MAX;

std::string encodeValues(const std::vector<std::string>& values) {
  wire::Writer out;
  out.status(okStatus());
  if (std::all_of(values.begin(), values.end(), [](const auto& one) { return one.empty(); })) {
    out.u32(kAllEmpty);
    return out.take();
  }
  out.u32(static_cast<uint32_t>(values.size()));
  for (const std::string& value : values) out.text(value);
  return out.take();
}

}  // namespace

Group::Group(std::shared_ptr<Client> client, std::string name, std::vector<int> members)
    : client_(std::move(client)),
      members_(std::move(members)),
      hash_(base::hash64(members_.data(), members_.size() * sizeof(int), base::hash64(name))),
      name_(base::strCat(name, "#", base::formatHex(hash_))) {
  auto self = std::find(members_.begin(), members_.end(), client_->rank());
  place_ = static_cast<int>(self - members_.begin());
  for (int child = kFanOut * place_ + 1;
       child <= kFanOut * place_ + kFanOut && child < static_cast<int>(members_.size()); ++child)
    children_.push_back(child);
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
}

std::string Group::rankText(int place) const {
  int rank = members_[static_cast<size_t>(place)];
  auto gone = client_->gone.find(rank);
  if (gone == client_->gone.end()) return base::strCat("rank ", rank);
  return missingText({gone->second});
}

Status Group::givenUp() const {
  std::lock_guard lock(client_->mutex);
  return client_->givenUp(name_);
}

Status Group::during(const Phase& phase, const Status& why) const {
  return why.withContext(base::strCat("'", *phase.name, "' of ", members_.size(), " ranks"));
}

// ---- Waiting ------------------------------------------------------------------------------------

Status Group::trouble(std::unique_lock<std::mutex>& lock, Phase& phase) {
  // What came while this rank asked is looked at, too: nobody says it again.
  for (;;) {
    if (!failure_.ok()) return failure_;
    if (Status given = client_->givenUp(name_); !given.ok()) return given;
    if (phase.heard == client_->gone.size()) return okStatus();
    phase.heard = client_->gone.size();
    std::vector<int> fresh;
    for (const auto& [rank, who] : client_->gone)
      if (!phase.asked.contains(rank) && std::find(members_.begin(), members_.end(), rank) != members_.end())
        fresh.push_back(rank);
    if (fresh.empty()) return okStatus();
    lock.unlock();
    auto missing = client_->who(name_, phase.number, fresh);
    lock.lock();
    if (!missing.ok()) continue;  // Asked again when more are gone.
    phase.asked.insert(fresh.begin(), fresh.end());
    if (missing->empty()) continue;
    // A rank that died is the reason why others have left.
    auto died = std::find_if(missing->begin(), missing->end(),
                             [](const MissingRank& one) { return one.state == MemberState::kDied; });
    return during(phase, unavailable(missingText({died != missing->end() ? *died : missing->front()})));
  }
}

Status Group::goneStatus(const Phase& phase, int place) const {
  auto gone = client_->gone.find(members_[static_cast<size_t>(place)]);
  if (gone == client_->gone.end()) return okStatus();
  return during(phase, unavailable(missingText({gone->second})));
}

Status Group::goneChild(const Phase& phase) const {
  for (int child : children_) {
    if (childLinks_.contains(child)) continue;
    HPU_RETURN_IF_ERROR(goneStatus(phase, child));
  }
  return okStatus();
}

Status Group::late(Phase& phase) {
  auto missing = client_->who(name_, phase.number, members_);
  std::string text;
  if (!missing.ok()) {
    text = missing.status().message();
  } else if (!missing->empty()) {
    text = missingText(*missing);
  } else {
    text = "all ranks came, but not all were done in time";
    if (phase.awaited >= 0)
      text += base::strCat(": rank ", members_[static_cast<size_t>(phase.awaited)], " stands still");
  }
  return during(phase, deadlineExceeded(base::strCat("rank ", client_->rank(), " waited ", phase.deadline->totalMs(),
                                                     " ms: ", text)));
}

Status Group::impatient(Phase& phase) {
  const Patience& patience = *phase.patience;
  const auto now = Clock::now();
  const std::chrono::milliseconds timeout(patience.timeoutMs);
  phase.nextLook = now + std::clamp(timeout / 8, kShortestLook, kLongestLook);
  std::vector<int> stand;  // Places.
  const bool first = phase.standing.empty();
  phase.standing.resize(members_.size());
  for (int place = 0; place < static_cast<int>(members_.size()); ++place) {
    if (place == place_) continue;
    Phase::Standing& standing = phase.standing[static_cast<size_t>(place)];
    uint64_t progress = patience.progress(place);
    if (first || progress != standing.progress) standing = {progress, now};
    if (now - standing.since >= timeout) stand.push_back(place);
  }
  // Ranks that have come have nothing to do but wait, too.
  if (stand.empty() || now < phase.nextQuestion) return okStatus();
  phase.nextQuestion = now + timeout / 4;
  auto missing = client_->who(name_, phase.number, members_);
  if (missing.ok() && missing->empty()) {
    phase.complete = std::min(phase.complete, now);
    return now - phase.complete < timeout ? okStatus() : late(phase);
  }
  std::string text;
  for (int place : stand) {
    int32_t rank = members_[static_cast<size_t>(place)];
    if (!missing.ok() ||
        std::any_of(missing->begin(), missing->end(), [&](const MissingRank& one) { return one.rank == rank; }))
      text += (text.empty() ? "" : ", ") + patience.describe(place);
  }
  if (text.empty()) return okStatus();
  if (!missing.ok()) text += "; " + missing.status().message();
  return during(phase, deadlineExceeded(base::strCat("rank ", place_, " waited ", patience.timeoutMs,
                                                     " ms without progress of ", text)));
}

template <typename Ready>
Status Group::await(std::unique_lock<std::mutex>& lock, Phase& phase, Ready ready) {
  Clock::time_point grace = Clock::time_point::max(), end = phase.deadline->time();
  // The parent's deadline is about the same, and it knows better whom it waits for.
  if (place_ > 0 && phase.awaited == (place_ - 1) / kFanOut) end += kGrace;
  for (;;) {
    if (ready()) return okStatus();
    HPU_RETURN_IF_ERROR(trouble(lock, phase));
    if (ready()) return okStatus();
    // The end of a neighbour or of the coordinator may only be ahead of what it sent.
    const Status gone = goneChild(phase);
    bool ends = !client_->failure.ok() || !lost_.empty() || !gone.ok();
    auto now = Clock::now();
    if (ends && grace == Clock::time_point::max()) grace = now + kGrace;
    if (ends && now >= grace && !phase.askedLast) {
      // A rank that gave up told the coordinator before its links ended: that comes first.
      phase.askedLast = true;
      lock.unlock();
      client_->who(name_, phase.number, members_).status().ignore();
      lock.lock();
      continue;
    }
    if (ends && now >= grace) {
      if (!gone.ok()) return gone;
      if (!lost_.empty())
        return during(phase, unavailable(base::strCat("the connection to ", rankText(*lost_.begin()), " has ended")));
      return during(phase, client_->failure);
    }
    if (now >= end) {
      lock.unlock();
      Status status = late(phase);
      lock.lock();
      return ready() ? okStatus() : status;
    }
    if (phase.patience && now >= phase.nextLook) {
      lock.unlock();
      Status status = impatient(phase);
      lock.lock();
      if (!status.ok()) return ready() ? okStatus() : status;
      continue;
    }
    client_->changed.wait_until(lock, std::min({grace, end, phase.nextLook}));
  }
}

void Group::spread(const Phase& phase, const Status& why) {
  std::shared_ptr<Connection> parent;
  std::vector<std::shared_ptr<Connection>> children;
  bool tell;
  {
    std::lock_guard lock(client_->mutex);
    if (failure_.ok()) failure_ = why;
    parent = parent_;
    for (const auto& [place, link] : childLinks_) children.push_back(link);
    tell = client_->failure.ok() && client_->givenUp(name_).ok();
  }
  // First of all: whoever sees a link end asks the coordinator before he blames it.
  if (tell) client_->giveUp(name_, why, members_);
  wire::Writer up, down;
  up.text(*phase.name);
  up.status(why);
  down.status(why);
  std::string upward = up.take(), downward = down.take();
  if (parent) client_->send(*parent, MessageType::kUp, phase.number, upward).ignore();
  for (auto& child : children) client_->send(*child, MessageType::kDown, phase.number, downward).ignore();
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
    if (Status given = client_->givenUp(name_); !given.ok()) return given;
    if (!client_->failure.ok()) return during(phase, client_->failure);
    busy_ = true;
    phase.number = ++phase_;
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

Status Group::link(Phase& phase) {
  if (linked_) return okStatus();  // Written by phases only, one at a time.
  std::string prefix = base::strCat("address ", name_, " ");
  if (!children_.empty()) {
    HPU_ASSIGN(auto listener, client_->reactor()->listen(client_->local(), shared_from_this()));
    {
      std::lock_guard lock(client_->mutex);
      listener_ = listener;
    }
    wire::Writer out;
    UniqueId id = encodeId({listener->address(), 1, false});
    HPU_RETURN_IF_ERROR(client_->put(base::strCat(prefix, place_),
                                     std::string(reinterpret_cast<const char*>(id.bytes), sizeof id.bytes)));
  }
  if (place_ > 0) {
    int parentPlace = (place_ - 1) / kFanOut;
    auto text =
        client_->get(base::strCat(prefix, parentPlace), *phase.deadline, [&](std::unique_lock<std::mutex>& lock) {
          Status status = trouble(lock, phase);
          // Its address would have come before the answer to who().
          if (status.ok()) status = goneStatus(phase, parentPlace);
          return status;
        });
    if (text.status().code() == StatusCode::kDeadlineExceeded) return late(phase);
    if (!text.ok()) return text.status();
    UniqueId bytes;
    if (text->size() != sizeof bytes.bytes) return internalError("the address of a rank is malformed");
    std::copy(text->begin(), text->end(), bytes.bytes);
    HPU_ASSIGN(CoordinatorId where, decodeId(bytes));
    auto fd = connectTo(where.address, *phase.deadline, [this] { return givenUp(); });
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
        return during(phase, fd.status().withContext(base::strCat("rank ", client_->rank())));
      return during(phase, fd.status().withContext(rankText(parentPlace)));
    }
    std::shared_ptr<Connection> connection;
    {
      // Its end is heard of when it is known as the parent's.
      std::lock_guard lock(client_->mutex);
      HPU_ASSIGN(connection, client_->reactor()->adopt(*fd, shared_from_this()));
      parent_ = connection;
    }
    connection->trust();
    client_->send(*connection, MessageType::kPeerHello, 0, wire::encodePeerHello({client_->id().nonce, hash_, place_}))
        .ignore();
  }
  linked_ = true;
  return okStatus();
}

StatusOr<Group::Part> Group::gather(Phase& phase, const std::string& mine) {
  Part part;
  part.values.emplace_back(place_, mine);
  for (int child : children_) {
    std::string payload;
    {
      std::unique_lock lock(client_->mutex);
      std::pair key(phase.number, child);
      phase.awaited = child;
      HPU_RETURN_IF_ERROR(await(lock, phase, [&] { return up_.contains(key); }));
      payload = std::move(up_[key]);
      up_.erase(key);
    }
    wire::Reader in(payload);
    std::string name = in.text(wire::kMaxNameBytes);
    Status status = in.status();
    if (in.ok() && !status.ok()) return status;
    if (in.ok() && name != *phase.name)
      return invalidArgument(base::strCat("the ranks have come to different phases: rank ",
                                          members_[static_cast<size_t>(child)], " to '", name, "' and rank ",
                                          client_->rank(), " to '", *phase.name, "'"));
    uint32_t count = in.u32();
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      int place = in.i32();
      std::string value = in.text(wire::kMaxValueBytes);
      if (place <= place_ || place >= static_cast<int>(members_.size()))
        return internalError("a malformed gathering message");
      part.values.emplace_back(place, std::move(value));
    }
    if (!in.done()) return internalError("a malformed gathering message");
  }
  return part;
}

StatusOr<std::vector<std::string>> Group::run(Phase& phase, const std::string& mine) {
  HPU_RETURN_IF_ERROR(link(phase));
  HPU_ASSIGN(Part part, gather(phase, mine));
  std::string payload;
  std::vector<std::string> values(members_.size());
  if (place_ == 0) {
    if (part.values.size() != members_.size()) return internalError("a gathering has lost values");
    for (auto& [place, value] : part.values) values[static_cast<size_t>(place)] = std::move(value);
    payload = encodeValues(values);
  } else {
    wire::Writer out;
    out.text(*phase.name);
    out.status(okStatus());
    out.u32(static_cast<uint32_t>(part.values.size()));
    for (const auto& [place, value] : part.values) {
      out.i32(place);
      out.text(value);
    }
    std::shared_ptr<Connection> parent;
    {
      std::lock_guard lock(client_->mutex);
      parent = parent_;
    }
    client_->send(*parent, MessageType::kUp, phase.number, out.take()).ignore();
    std::unique_lock lock(client_->mutex);
    phase.awaited = (place_ - 1) / kFanOut;
    HPU_RETURN_IF_ERROR(await(lock, phase, [&] { return down_.contains(phase.number); }));
    payload = std::move(down_[phase.number]);
    down_.erase(phase.number);
  }
  if (place_ > 0) {
    wire::Reader in(payload);
    HPU_RETURN_IF_ERROR(in.status());
    uint32_t count = in.u32();
    if (count != kAllEmpty) {
      if (count != members_.size()) return internalError("a malformed gathering message");
      for (std::string& value : values) value = in.text(wire::kMaxValueBytes);
    }
    if (!in.done()) return internalError("a malformed gathering message");
  }
  std::vector<std::shared_ptr<Connection>> children;
  {
    std::lock_guard lock(client_->mutex);
    for (const auto& [place, link] : childLinks_) children.push_back(link);
  }
  for (auto& child : children) client_->send(*child, MessageType::kDown, phase.number, payload).ignore();
  return values;
}

// ---- On the reactor's thread --------------------------------------------------------------------

void Group::onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) {
  Status answer;
  {
    std::lock_guard lock(client_->mutex);
    int child = -1;
    for (const auto& [place, link] : childLinks_)
      if (link == connection) child = place;
    if (connection == parent_) {
      if (frame.type == MessageType::kDown) down_[frame.id] = std::move(frame.payload);
      client_->changed.notify_all();
      return;
    }
    if (child < 0) {
      auto hello = wire::decodePeerHello(frame.payload);
      bool known = frame.type == MessageType::kPeerHello && hello.ok() && hello->nonce == client_->id().nonce &&
                   hello->group == hash_ &&
                   std::find(children_.begin(), children_.end(), hello->place) != children_.end() &&
                   !childLinks_.contains(hello->place);
      if (known) {
        childLinks_[hello->place] = connection;
        connection->trust();
        return;
      }
      answer = invalidArgument("not a rank of this group");
    } else if (frame.type == MessageType::kUp) {
      up_[{frame.id, child}] = std::move(frame.payload);
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
  wire::Writer out;
  out.status(answer);
  client_->send(*connection, MessageType::kDown, frame.id, out.take()).ignore();
}

void Group::onClosed(const std::shared_ptr<Connection>& connection, const Status& why) {
  std::lock_guard lock(client_->mutex);
  if (connection == parent_) lost_.insert((place_ - 1) / kFanOut);
  for (const auto& [place, link] : childLinks_)
    if (link == connection) lost_.insert(place);
  client_->changed.notify_all();
}

/// The phase that waits for it ends, and tells the others.
void Group::onRefused(const Status& why) {
  std::lock_guard lock(client_->mutex);
  if (failure_.ok() && childLinks_.size() < children_.size())
    failure_ = resourceExhausted(base::strCat("rank ", client_->rank(), " (process ", ::getpid(), ") ", why.message()));
  client_->changed.notify_all();
}

}  // namespace hpu::collectives
