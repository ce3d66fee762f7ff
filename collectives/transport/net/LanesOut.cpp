// SPDX-License-Identifier: Apache-2.0
// What goes to the peer: messages that are offered, in which order the link gets them, and what the peer says of them.
#include <algorithm>

#include "base/Crc32c.h"
#include "collectives/transport/net/Lanes.h"

namespace hpu::collectives::net {

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

}  // namespace hpu::collectives::net
