// SPDX-License-Identifier: Apache-2.0
// What comes from the peer: where its messages go, and when the rank has them.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/Crc32c.h"
#include "collectives/transport/net/Lanes.h"

namespace hpu::collectives::net {
namespace {

/// Beyond what a user who knows what he is going to receive says in advance.
constexpr uint64_t kMostExpected = 1 << 20;

}  // namespace

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

}  // namespace hpu::collectives::net
