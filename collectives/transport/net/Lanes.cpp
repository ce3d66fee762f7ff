// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Lanes.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/Crc32c.h"
#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

/// Beyond what a user who knows what he is going to receive says in advance.
constexpr uint64_t kMostExpected = 1 << 20;

Status nonsense(const char* what, uint64_t index) {
  return invalidArgument(strCat(what, " of message ", index, ", which cannot be"));
}

}  // namespace

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

Lanes::Incoming* Lanes::place(Lane lane, uint64_t index) {
  InLane& in = inOf(lane);
  if (index < in.released || index - in.released >= kLaneMessages) return nullptr;
  if (in.messages.size() <= index - in.released) in.messages.resize(index - in.released + 1);
  Incoming* message = find(in, index);
  return message->announced || message->state == Incoming::State::kArrived ? nullptr : message;
}

/// What the caller knows of messages is not true any more when it returns.
void Lanes::closeWindow(Lock& lock, const Window& window) {
  std::shared_ptr<Link> link = link_;
  if (!link) return;
  ++closing_;
  lock.unlock();
  link->closeWindow(window);
  link.reset();
  lock.lock();
  --closing_;
  changed_.notify_all();
}

void Lanes::openWindow(Lane lane, uint64_t index) {
  if (state_ != State::kUp || stopped_) return;
  Incoming& message = *find(inOf(lane), index);
  if (message.expected) message.bytes = message.wantedBytes;
  std::byte* data = message.wanted;
  if (!message.expected) {
    // Only what comes is ever touched.
    message.store.reset(new (std::nothrow) std::byte[static_cast<size_t>(message.bytes)]);
    data = message.store.get();
  }
  if (!data) return notWanted(lane, index);
  message.inPlace = message.expected;
  message.window = link_->openWindow(data, message.bytes);
  message.state = Incoming::State::kWindow;
  readies_.push_back({lane, index, message.bytes, message.window});
}

/// The message cannot be taken: the sender need not keep it.
void Lanes::notWanted(Lane lane, uint64_t index) {
  Incoming& message = *find(inOf(lane), index);
  message.state = Incoming::State::kArrived;
  message.bad = true;
  readies_.push_back({lane, index, 0, {}});
}

Status Lanes::takeMessage(Lock& lock, const MessageItem& item) {
  Incoming* message = place(item.lane, item.index);
  if (!message) return nonsense("bytes", item.index);
  if (message->state == Incoming::State::kWindow) {
    closeWindow(lock, message->window);
    message = place(item.lane, item.index);
    if (!message) return okStatus();
  }
  message->bytes = static_cast<int64_t>(item.data.size());
  message->inPlace = false;
  message->store = std::make_unique_for_overwrite<std::byte[]>(item.data.size());
  std::copy(item.data.begin(), item.data.end(), message->store.get());
  message->tag = item.tag;
  message->check = item.check;
  message->state = Incoming::State::kArrived;
  return okStatus();
}

Status Lanes::takeAnnounce(Lock& lock, const AnnounceItem& item, bool& news) {
  Incoming* message = place(item.lane, item.index);
  if (!message || item.bytes <= 0) return nonsense("an announcement", item.index);
  const bool differs = message->expected && message->wantedBytes != item.bytes;
  const bool open = message->state == Incoming::State::kWindow;
  if (differs && open) {
    closeWindow(lock, message->window);
    message = place(item.lane, item.index);
    if (!message) return okStatus();
  }
  message->announced = true;
  message->tag = item.tag;
  message->bytes = item.bytes;
  if (differs) {
    if (open) {  // The sender has been told the size, and sees that it is another one.
      message->state = Incoming::State::kArrived;
      message->bad = true;
    } else {
      notWanted(item.lane, item.index);
    }
    news = true;
  } else if (!open) {
    message->state = Incoming::State::kAnnounced;
    if (message->expected || peerLeaving_) openWindow(item.lane, item.index);
    news = true;
  }
  return okStatus();
}

Status Lanes::takeData(const DataItem& item, bool& news) {
  Incoming* message = find(inOf(item.lane), item.index);
  if (!message || stopped_) return okStatus();
  if (message->state != Incoming::State::kWindow) return nonsense("data", item.index);
  message->tag = item.tag;
  message->check = item.check;
  message->announced = true;
  message->state = Incoming::State::kArrived;
  news = true;
  return okStatus();
}

Arrived Lanes::give(Incoming& message) {
  const bool differs = message.expected && message.wantedBytes != message.bytes;
  if (message.bad || differs || message.bytes == 0) return {nullptr, message.bytes, message.tag};
  // Where they lie before anything else is done with them, once.
  if (const auto check = std::exchange(message.check, std::nullopt); check && !(message.inPlace && stopped_)) {
    const std::byte* data = message.inPlace ? message.wanted : message.store.get();
    message.damaged = base::crc32c(0, data, static_cast<size_t>(message.bytes)) != *check;
  }
  if (message.damaged) return {nullptr, message.bytes, message.tag, true};
  if (message.expected && !message.inPlace && !stopped_) {
    std::memcpy(message.wanted, message.store.get(), static_cast<size_t>(message.bytes));
    message.inPlace = true;
  }
  return {message.inPlace ? message.wanted : message.store.get(), message.bytes, message.tag};
}

std::optional<Arrived> Lanes::arrived(Lane lane, uint64_t index) {
  Lock lock(mutex_);
  Incoming* message = find(inOf(lane), index);
  if (!message) return std::nullopt;
  if (message->state == Incoming::State::kAnnounced) {
    openWindow(lane, index);
    pump();
  }
  if (message->state != Incoming::State::kArrived) return std::nullopt;
  return give(*message);
}

void Lanes::expect(Lane lane, uint64_t index, std::byte* data, int64_t bytes) {
  Lock lock(mutex_);
  InLane& in = inOf(lane);
  if (stopped_ || bytes < 0 || (bytes > 0 && !data) || index < in.released || index - in.released >= kMostExpected)
    return;
  if (in.messages.size() <= index - in.released) in.messages.resize(index - in.released + 1);
  Incoming& message = *find(in, index);
  message.expected = true;
  message.wanted = data;
  message.wantedBytes = bytes;
  needLink();
  if (message.state == Incoming::State::kNone) {
    if (bytes > smallBytes_ && index - in.released < kLaneMessages) openWindow(lane, index);
  } else if (message.state == Incoming::State::kAnnounced) {
    if (message.bytes == bytes) {
      openWindow(lane, index);
    } else {
      notWanted(lane, index);
    }
  }
  pump();
}

void Lanes::release(Lane lane) {
  Lock lock(mutex_);
  InLane& in = inOf(lane);
  if (in.messages.empty()) return;
  Incoming& front = in.messages.front();
  // It has not come.
  if (!front.announced && front.state != Incoming::State::kArrived) return;
  std::optional<Window> open;
  if (front.state == Incoming::State::kWindow && !stopped_) open = front.window;
  in.messages.pop_front();
  ++in.released;
  if (const Incoming* next = find(in, in.released + kLaneMessages - 1);
      next && next->state == Incoming::State::kNone && next->expected && next->wantedBytes > smallBytes_)
    openWindow(lane, in.released + kLaneMessages - 1);
  if (in.released - in.told >= kLaneMessages / 2 || in.told + kLaneMessages <= in.wanted) in.tell = true;
  if (open) closeWindow(lock, *open);
  pump();
}

// ---- What goes out ----

Offered Lanes::offer(Lane lane, const std::byte* data, int64_t bytes, const MessageTag& tag) {
  std::optional<uint32_t> check;
  if (check_ && bytes > 0) check = base::crc32c(0, data, static_cast<size_t>(bytes));
  Lock lock(mutex_);
  needLink();
  OutLane& out = outOf(lane);
  if (out.next - out.released >= kLaneMessages) {
    out.tellWant |= !out.wasFull;
    out.wasFull = true;
    pump();
    return Offered::kFull;
  }
  const bool small = bytes <= smallBytes_;
  Outgoing& message = out.messages.emplace_back();
  ++out.next;
  message.small = small;
  message.bytes = bytes;
  message.tag = tag;
  message.check = check;
  if (small) {
    if (bytes > 0) message.copy.assign(data, data + bytes);
  } else if (stopped_) {
    message.state = Outgoing::State::kDone;
  } else {
    message.data = data;
  }
  advance(out);
  pump();
  return small ? Offered::kCopied : Offered::kShared;
}

uint64_t Lanes::released(Lane lane) {
  Lock lock(mutex_);
  return outOf(lane).finished;
}

bool Lanes::advance(OutLane& lane) {
  bool large = false;
  for (Outgoing* message = find(lane, lane.finished);
       message && (message->small || message->state == Outgoing::State::kDone); message = find(lane, lane.finished)) {
    large |= !message->small;
    ++lane.finished;
  }
  while (lane.first < lane.finished && lane.messages.front().state == Outgoing::State::kDone &&
         (lane.first < lane.toSend || !lane.messages.front().small)) {
    lane.messages.pop_front();
    ++lane.first;
  }
  lane.toSend = std::max(lane.toSend, lane.first);
  return large;
}

Status Lanes::takeReady(const ReadyItem& item, bool& news) {
  OutLane& lane = outOf(item.lane);
  Outgoing* message = find(lane, item.index);
  if (item.index >= lane.toSend) {
    if (item.index - lane.released >= 4 * kLaneMessages) return nonsense("a place", item.index);
    lane.ready[item.index] = item;
  } else if (message && message->state == Outgoing::State::kAnnounced) {
    if (message->bytes == item.bytes) {
      message->window = item.window;
      message->state = Outgoing::State::kReady;
      writes_.emplace_back(item.lane, item.index);
    } else {
      message->state = Outgoing::State::kDone;
      news |= advance(lane);
    }
  }
  return okStatus();
}

Status Lanes::takeReleased(const ReleasedItem& item, bool& news) {
  OutLane& lane = outOf(item.lane);
  if (item.count > lane.toSend) return nonsense("the release", item.count);
  if (item.count <= lane.released) return okStatus();
  for (uint64_t index = std::max(lane.first, lane.released); index < item.count; ++index) {
    Outgoing* message = find(lane, index);
    if (message->state == Outgoing::State::kAnnounced || message->state == Outgoing::State::kReady)
      message->state = Outgoing::State::kDone;
  }
  lane.released = item.count;
  news |= advance(lane) || lane.wasFull;
  lane.wasFull = false;
  changed_.notify_all();
  return okStatus();
}

bool Lanes::flush() {
  if (frame_.empty()) return true;
  if (!link_->send(frame_.bytes())) return false;
  frame_.clear();
  changed_.notify_all();
  return true;
}

bool Lanes::put(const Item& item) {
  return frame_.add(item) || (flush() && frame_.add(item));
}

/// False: the link takes no more.
bool Lanes::pumpOut(Lane lane) {
  OutLane& out = outOf(lane);
  InLane& in = inOf(lane);
  if (in.tell) {
    if (!put(ReleasedItem{lane, in.released})) return false;
    in.told = in.released;
    in.tell = false;
  }
  if (out.tellWant) {
    if (!put(WantItem{lane, out.next})) return false;
    out.tellWant = false;
  }
  while (out.toSend < out.next) {
    Outgoing& message = *find(out, out.toSend);
    const auto ready = out.ready.find(out.toSend);
    const bool fits = ready != out.ready.end() && ready->second.bytes == message.bytes;
    if (message.small) {
      if (!put(MessageItem{lane, out.toSend, message.tag, message.copy, message.check})) return false;
      message.state = Outgoing::State::kDone;
    } else if (message.state == Outgoing::State::kQueued && fits) {
      message.window = ready->second.window;
      message.state = Outgoing::State::kReady;
      writes_.emplace_back(lane, out.toSend);
    } else if (message.state == Outgoing::State::kQueued) {
      if (!put(AnnounceItem{lane, out.toSend, message.tag, message.bytes})) return false;
      // The peer expects another one, and sees that.
      message.state = ready != out.ready.end() ? Outgoing::State::kDone : Outgoing::State::kAnnounced;
    }
    if (ready != out.ready.end()) out.ready.erase(ready);
    ++out.toSend;
    advance(out);
  }
  return true;
}

bool Lanes::pumpWrites() {
  while (!writes_.empty()) {
    const auto [lane, index] = writes_.front();
    Outgoing* message = find(outOf(lane), index);
    if (message && message->state == Outgoing::State::kReady) {
      FrameWriter behind;
      behind.add(DataItem{lane, index, message->tag, message->check});
      if (!flush() || !link_->write(nextId_, message->data, message->bytes, message->window, behind.bytes()))
        return false;
      message->state = Outgoing::State::kWriting;
      ids_[nextId_++] = {lane, index};
    }
    writes_.pop_front();
  }
  return true;
}

void Lanes::pump() {
  if (state_ != State::kUp) return;
  while (!readies_.empty()) {
    if (!put(readies_.front())) return;
    readies_.pop_front();
  }
  for (int lane = 0; lane < kNumLanes; ++lane)
    if (!pumpOut(static_cast<Lane>(lane))) return;
  if (tellLeaving_) {
    if (!put(LeavingItem{})) return;
    tellLeaving_ = false;
  }
  if (!pumpWrites()) return;
  if (tellEnd_) {
    if (!put(*tellEnd_)) return;
    tellEnd_.reset();
  }
  flush();
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
