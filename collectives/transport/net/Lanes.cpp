// SPDX-License-Identifier: Apache-2.0
// The link, and the end, of messages. LanesIn.cpp has what comes in, LanesOut.cpp what goes out.
#include "collectives/transport/net/Lanes.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"

namespace hpu::collectives::net {

using base::strCat;

class Lanes::Events : public LinkEvents {
 public:
  Events(std::shared_ptr<LanesOwner> owner, Lanes& lanes, uint64_t attempt)
      : owner_(std::move(owner)), lanes_(lanes), attempt_(attempt) {}
  void onFrame(std::span<const std::byte> frame) override { lanes_.onFrame(attempt_, frame); }
  void onWritten(uint64_t id) override { lanes_.onWritten(attempt_, id); }
  void onRoom() override { lanes_.onRoom(attempt_); }
  void onClosed(const Status& why) override { lanes_.onClosed(attempt_, why); }

 private:
  const std::shared_ptr<LanesOwner> owner_;  // Whose part the lanes are.
  Lanes& lanes_;
  const uint64_t attempt_;
};

// ---- The link ----

void Lanes::needLink() {
  if (state_ != State::kNone) return;
  state_ = State::kDialling;
  ++attempt_;
  link_ = owner_.dialPeer(peer_, std::make_shared<Events>(owner_.self(), *this, attempt_));
}

void Lanes::take(std::shared_ptr<Link> link) {
  ++attempt_;
  link_ = std::move(link);
  link_->start(std::make_shared<Events>(owner_.self(), *this, attempt_));
  isUp();
}

void Lanes::isUp() {
  state_ = State::kUp;
  heardAt_ = std::chrono::steady_clock::now();
  for (size_t l = 0; l < in_.size(); ++l) {
    InLane& lane = in_[l];
    const uint64_t end = lane.released + std::min<uint64_t>(lane.messages.size(), kLaneMessages);
    for (uint64_t index = lane.released; index < end; ++index) {
      const Incoming& message = *find(lane, index);
      if (message.state == Incoming::State::kNone && message.expected && message.wantedBytes > smallBytes_)
        openWindow(static_cast<Lane>(l), index);
    }
  }
  pump();
}

void Lanes::dialled(std::shared_ptr<Link> link) {
  Lock lock(mutex_);
  switch (state_) {
    case State::kDialling: {
      // Both do: what the lower rank dialled stays.
      if (rank_ < peer_) break;
      std::shared_ptr<Link> mine = std::move(link_);
      take(std::move(link));
      drop(lock, std::move(mine));
      break;
    }
    case State::kNone:
    case State::kExpecting:
      take(std::move(link));
      break;
    case State::kUp:
    case State::kLost:
    case State::kClosed:
      break;
  }
  // A link that takes all at once has no event for that.
  const bool news = becameDelivered();
  lock.unlock();
  link.reset();
  if (news) owner_.wake();
}

void Lanes::lose(const Status& why) {
  state_ = State::kLost;
  lostAt_ = std::chrono::steady_clock::now();
  why_ = why;
  ids_.clear();
  writes_.clear();
  changed_.notify_all();
}

void Lanes::drop(Lock& lock, std::shared_ptr<Link> link) {
  if (!link) return;
  ++closing_;
  lock.unlock();
  link->close();
  link.reset();
  lock.lock();
  --closing_;
  changed_.notify_all();
}

Status Lanes::lostBefore(std::chrono::steady_clock::time_point since) {
  Lock lock(mutex_);
  if (state_ == State::kExpecting && lostAt_ < since)
    lose(unavailable("it does not want the link that this rank dialled, and dials none"));
  return state_ == State::kLost && lostAt_ < since ? why_ : okStatus();
}

void Lanes::onRoom(uint64_t attempt) {
  Lock lock(mutex_);
  if (attempt != attempt_) return;
  if (state_ == State::kDialling) {
    isUp();
  } else {
    pump();
  }
  const bool news = becameDelivered();
  lock.unlock();
  if (news) owner_.wake();
}

bool Lanes::isDelivered() const {
  const bool sent = std::all_of(out_.begin(), out_.end(), [](const OutLane& lane) { return lane.toSend == lane.next; });
  if (state_ == State::kLost || state_ == State::kClosed) return true;
  return sent && frame_.empty() && (state_ != State::kUp || link_->drained());
}

bool Lanes::becameDelivered() {
  if (!tellDelivered_ || !isDelivered()) return false;
  tellDelivered_ = false;
  return true;
}

bool Lanes::delivered() {
  Lock lock(mutex_);
  const bool delivered = isDelivered();
  tellDelivered_ |= !delivered;
  return delivered;
}

bool Lanes::over() {
  Lock lock(mutex_);
  return peerEnded_ || state_ == State::kNone || state_ == State::kLost || state_ == State::kClosed;
}

std::optional<std::chrono::steady_clock::time_point> Lanes::heardAt() {
  Lock lock(mutex_);
  if (state_ != State::kUp) return std::nullopt;
  return heardAt_;
}

void Lanes::peerLeft() {
  Lock lock(mutex_);
  if (state_ != State::kLost && state_ != State::kClosed) return;
  for (OutLane& lane : out_) {
    for (Outgoing& message : lane.messages) message.state = Outgoing::State::kDone;
    lane.toSend = lane.next;
    advance(lane);
  }
  changed_.notify_all();
}

void Lanes::onClosed(uint64_t attempt, const Status& why) {
  Lock lock(mutex_);
  if (attempt != attempt_ || state_ == State::kClosed) return;
  const std::shared_ptr<Link> gone = std::move(link_);
  if (state_ == State::kDialling && why.code() == StatusCode::kAborted) {
    state_ = State::kExpecting;
    lostAt_ = owner_.dialDeadline().time();
  } else {
    lose(why);
  }
  lock.unlock();
  owner_.wake();
}

void Lanes::onWritten(uint64_t attempt, uint64_t id) {
  Lock lock(mutex_);
  auto it = ids_.find(id);
  if (attempt != attempt_ || it == ids_.end()) return;
  OutLane& lane = outOf(it->second.first);
  if (Outgoing* message = find(lane, it->second.second)) message->state = Outgoing::State::kDone;
  ids_.erase(it);
  const bool news = advance(lane);
  changed_.notify_all();
  lock.unlock();
  if (news) owner_.wake();
}

void Lanes::onFrame(uint64_t attempt, std::span<const std::byte> frame) {
  Lock lock(mutex_);
  if (attempt != attempt_) return;
  if (state_ == State::kDialling) isUp();
  if (state_ != State::kUp) return;
  heardAt_ = std::chrono::steady_clock::now();
  FrameReader in(frame, owner_.limits());
  bool news = false;
  std::optional<EndItem> end;
  Status status;
  while (status.ok()) {
    auto item = in.next();
    status = item.status();
    if (!item.ok() || !item->has_value()) break;
    if (auto* ended = std::get_if<EndItem>(&**item); ended && ended->rank == peer_) {
      end = std::move(*ended);
      peerEnded_ = true;
    } else {
      status = take(lock, **item, news);
    }
  }
  if (!status.ok() && state_ == State::kUp) {
    lose(status);
    drop(lock, std::move(link_));
  } else {
    pump();
  }
  news |= becameDelivered();
  lock.unlock();
  if (end) owner_.peerEnded(peer_, *end);
  if (!status.ok()) owner_.peerBroken(peer_, status);
  if (news) owner_.wake();
}

// ---- What comes in ----

Status Lanes::take(Lock& lock, const Item& item, bool& news) {
  if (const auto* message = std::get_if<MessageItem>(&item)) {
    news = true;
    return takeMessage(lock, *message);
  }
  if (const auto* announce = std::get_if<AnnounceItem>(&item)) return takeAnnounce(lock, *announce, news);
  if (const auto* data = std::get_if<DataItem>(&item)) return takeData(*data, news);
  if (const auto* ready = std::get_if<ReadyItem>(&item)) return takeReady(*ready, news);
  if (const auto* released = std::get_if<ReleasedItem>(&item)) return takeReleased(*released, news);
  if (const auto* want = std::get_if<WantItem>(&item)) {
    InLane& lane = inOf(want->lane);
    lane.wanted = std::max(lane.wanted, want->index);
    lane.tell |= lane.told < lane.released;
    return okStatus();
  }
  if (std::holds_alternative<LeavingItem>(item)) {
    peerLeaving_ = true;
    for (size_t l = 0; l < in_.size(); ++l)
      for (uint64_t i = 0; i < in_[l].messages.size(); ++i)
        if (in_[l].messages[i].state == Incoming::State::kAnnounced)
          openWindow(static_cast<Lane>(l), in_[l].released + i);
    return okStatus();
  }
  return invalidArgument("an item that is not of messages");
}

Status Lanes::nonsense(const char* what, uint64_t index) {
  return invalidArgument(strCat(what, " of message ", index, ", which cannot be"));
}

// ---- The end ----

void Lanes::stop(const EndItem& end, const base::Deadline& deadline) {
  Lock lock(mutex_);
  if (stopped_) return;
  stopped_ = true;
  std::vector<Window> windows;
  for (InLane& lane : in_)
    for (Incoming& message : lane.messages)
      if (message.state == Incoming::State::kWindow) windows.push_back(message.window);
  for (OutLane& lane : out_) {
    for (Outgoing& message : lane.messages)
      if (!message.small && message.state != Outgoing::State::kWriting) message.state = Outgoing::State::kDone;
    advance(lane);
  }
  writes_.clear();
  readies_.clear();
  tellEnd_ = end;
  pump();
  for (const Window& window : windows) closeWindow(lock, window);
  changed_.wait_until(lock, deadline.time(), [&] { return ids_.empty(); });
  if (!ids_.empty()) {
    lose(aborted("this rank gave up while data was on its way"));
    drop(lock, std::move(link_));
  }
  // What others of its threads close is closed soon.
  changed_.wait(lock, [&] { return closing_ == 0; });
}

void Lanes::prepareToLeave() {
  Lock lock(mutex_);
  for (const OutLane& lane : out_)
    tellLeaving_ |= std::any_of(lane.messages.begin(), lane.messages.end(), [](const Outgoing& m) { return !m.small; });
  pump();
}

bool Lanes::idle() const {
  return state_ == State::kNone || state_ == State::kLost || state_ == State::kClosed ||
         (frame_.empty() && std::all_of(out_.begin(), out_.end(), [](const OutLane& l) { return l.messages.empty(); }));
}

void Lanes::finish(const EndItem& end, const base::Deadline& deadline) {
  Lock lock(mutex_);
  changed_.wait_until(lock, deadline.time(), [&] { return idle(); });
  tellEnd_ = end;
  pump();
  changed_.wait_until(lock, deadline.time(), [&] { return state_ != State::kUp || frame_.empty(); });
  state_ = State::kClosed;
  stopped_ = true;
  std::shared_ptr<Link> link = std::move(link_);
  drop(lock, std::move(link));
  changed_.wait(lock, [&] { return closing_ == 0; });
}

}  // namespace hpu::collectives::net
