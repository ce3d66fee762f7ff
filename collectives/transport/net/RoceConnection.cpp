// SPDX-License-Identifier: Apache-2.0
// The queue pair of a link: frames, writes, credits, events. RoceMeeting.cpp has its beginning and its end.
#include "collectives/transport/net/RoceConnection.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/roce/Psn.h"

namespace hpu::collectives::net {

using base::strCat;
using roce_wire::Head;

// ---- The queue pair -----------------------------------------------------------------------------

Status RoceConnection::prepare() {
  HPU_ASSIGN(pair_, driver_->makePair(this, options_));
  if (options_.firstPsn >= 0)
    firstPsn_ = static_cast<uint32_t>(options_.firstPsn);
  else if (::getrandom(&firstPsn_, sizeof firstPsn_, 0) != sizeof firstPsn_)
    firstPsn_ = pair_->number();
  firstPsn_ &= roce::kPsnMask;
  return okStatus();
}

roce_wire::End RoceConnection::ownEnd() const {
  roce_wire::End end = driver_->engine().end();
  end.queuePair = pair_->number();
  end.firstPsn = firstPsn_;
  end.receives = kFrames;
  return end;
}

Status RoceConnection::makeQueuePair(const roce_wire::End& peer) {
  const roce_wire::End own = ownEnd();
  peer_ = peer;
  // A link-local address is of the interface by which this end reaches it.
  peer_.address.scope = own.address.scope;
  HPU_ASSIGN(slots_, pair_->buffers(2 * kBuffers * kBufferBytes));
  HPU_RETURN_IF_ERROR(pair_->connect(own, peer_, std::min(own.pathMtu, peer.pathMtu)));
  isPair_ = true;
  mostFrames_ = std::min(kFrames, peer.receives);
  for (uint16_t i = 0; i < kBuffers; ++i) freeSlots_.push_back(static_cast<uint16_t>(kBuffers - 1 - i));
  for (uint64_t i = 0; i < kBuffers; ++i) postReceive(i);
  return okStatus();
}

void RoceConnection::postReceive(uint64_t index) {
  if (!isPair_) return;
  // Of one that has failed collect() hears.
  pair_->post(roce::Receive{index, {buffer(index), kBufferBytes}}).ignore();
}

// ---- Out ----------------------------------------------------------------------------------------

bool RoceConnection::hasRoom() const {
  return state_ == State::kUp && freeSlots_.size() > kCredits &&
         static_cast<uint32_t>(sent_) - peerTaken_ < mostFrames_;
}

void RoceConnection::postFrame(Head head, std::span<const std::byte> frame) {
  const uint16_t index = freeSlots_.back();
  head.taken = toldTaken_ = taken_;
  encodeHead(head, slot(index));
  if (!frame.empty()) memcpy(slot(index) + roce_wire::kHeadBytes, frame.data(), frame.size());
  roce::Request request;
  request.verb = roce::Verb::kSend;
  request.local = {slot(index), roce_wire::kHeadBytes + frame.size()};
  if (!pair_->post(request).ok()) return;  // collect() hears why.
  freeSlots_.pop_back();
  Posted posted;
  posted.slot = index;
  posted.bytes = static_cast<uint32_t>(request.local.size());
  posted.isFrame = head.kind == Head::Kind::kFrame;
  if (posted.isFrame) posted.id = sent_++;
  posted_.push_back(posted);
}

bool RoceConnection::send(std::span<const std::byte> frame) {
  auto lock = driver_->enter();
  if (state_ == State::kOver) return true;
  if (frame.size() > kMostFrameBytes) {
    end(invalidArgument(strCat("a frame of ", frame.size(), " bytes; ", kMostFrameBytes, " are the most")));
    return true;
  }
  if (!hasRoom()) {
    roomWanted_ = true;
    return false;
  }
  postFrame(Head{}, frame);
  driver_->flush();
  return true;
}

bool RoceConnection::write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
                           std::span<const std::byte> frame) {
  auto lock = driver_->enter();
  if (state_ == State::kOver) return true;
  if (frame.size() > kMostFrameBytes || bytes <= 0) {
    end(invalidArgument(strCat("a write of ", bytes, " bytes with a frame of ", frame.size(), " bytes; 1 and ",
                               kMostFrameBytes, " are the least and the most")));
    return true;
  }
  if (!hasRoom()) {
    roomWanted_ = true;
    return false;
  }
  const auto all = static_cast<uint64_t>(bytes);
  for (uint64_t at = 0; at < all;) {
    const uint64_t part = std::min(all - at, pair_->mostWriteBytes());
    roce::Request request;
    request.verb = roce::Verb::kWrite;
    request.local = {const_cast<std::byte*>(data) + at, part};  // It is only read.
    request.remoteAddress = to.address + at;
    request.remoteKey = to.key;
    if (!pair_->post(request).ok()) break;
    at += part;
    Posted posted;
    posted.isWrite = true;
    posted.lastOfWrite = at == all;
    posted.id = id;
    posted_.push_back(posted);
  }
  Head head;
  head.window = to.key;
  postFrame(head, frame);
  driver_->flush();
  return true;
}

void RoceConnection::takeCompletion(const roce::Completion& completion) {
  if (posted_.empty()) return end(Status(StatusCode::kInternal, "a completion of nothing"));
  const Posted posted = posted_.front();
  posted_.pop_front();
  if (!posted.isWrite) {
    freeSlots_.push_back(posted.slot);
    giveCredits();
    tellRoom();
  } else if (posted.lastOfWrite) {
    Event event;
    event.kind = Event::Kind::kWritten;
    event.id = posted.id;
    push(std::move(event));
  }
  if (drainWanted_ && isDrained()) {
    drainWanted_ = false;
    push(Event{});
  }
}

/// The peer has acknowledged all but credits.
bool RoceConnection::isDrained() const {
  return std::none_of(posted_.begin(), posted_.end(), [](const Posted& one) { return one.isFrame || one.isWrite; });
}

bool RoceConnection::drained() {
  auto lock = driver_->enter();
  if (state_ != State::kUp || isDrained()) return true;
  drainWanted_ = true;
  return false;
}

void RoceConnection::tellRoom() {
  if (!roomWanted_ || !hasRoom()) return;
  roomWanted_ = false;
  push(Event{});
}

/// Half of the frames may have been taken without a word: then the peer is told, though nothing is said to it.
void RoceConnection::giveCredits() {
  if (!isPair_ || state_ != State::kUp || taken_ - toldTaken_ < kFrames / 2 || freeSlots_.empty()) return;
  Head head;
  head.kind = Head::Kind::kCredit;
  postFrame(head, {});
}

// ---- In -----------------------------------------------------------------------------------------

void RoceConnection::collect() {
  if (!isPair_) return;
  auto first = roce::Outcome::kFlushed;
  while (const auto completion = pair_->poll()) {
    if (completion->outcome == roce::Outcome::kSuccess) {
      if (completion->isReceive)
        takeFrame(completion->id, static_cast<uint32_t>(completion->bytes));
      else
        takeCompletion(*completion);
      if (state_ == State::kOver) return;
    } else if (!completion->isReceive && first == roce::Outcome::kFlushed) {
      first = completion->outcome;
    }
  }
  if (pair_->failed()) end(pair_->explain(first).withContext(strCat("RoCE link ", names())));
}

StatusOr<Head> RoceConnection::takeHead(std::span<const std::byte> bytes) {
  HPU_ASSIGN(const Head head, roce_wire::parseHead(bytes));
  if (head.taken - peerTaken_ > static_cast<uint32_t>(sent_) - peerTaken_)
    return invalidArgument("it has taken frames that were not sent");
  peerTaken_ = head.taken;
  if (head.window != 0 && !pair_->takeWritten(head.window))
    return invalidArgument("it has written to a window that it was not given");
  return head;
}

void RoceConnection::takeFrame(uint64_t index, uint32_t bytes) {
  if (isLate_) return;
  if (state_ == State::kStarted) up();  // Its word over TCP comes later.
  const auto head = takeHead({buffer(index), bytes});
  if (!head.ok()) return end(head.status().withContext(strCat("RoCE link ", names())));
  tellRoom();
  if (head->kind == Head::Kind::kCredit) return postReceive(index);
  ++received_;
  Event event;
  event.kind = Event::Kind::kFrame;
  event.id = index;
  event.bytes = bytes;
  push(std::move(event));
}

Window RoceConnection::openWindow(std::byte* data, int64_t bytes) {
  auto lock = driver_->enter();
  if (state_ == State::kOver || !pair_) return {};
  const auto window = pair_->openWindow(data, bytes);
  if (window.ok()) return *window;
  end(window.status().withContext(strCat("RoCE link ", names())));
  return {};
}

void RoceConnection::closeWindow(const Window& window) {
  auto lock = driver_->enter();
  if (pair_) pair_->closeWindow(window.key);
}

// ---- Events -------------------------------------------------------------------------------------

void RoceConnection::push(Event event) {
  if (silent_) return;
  events_.push_back(std::move(event));
  if (!std::exchange(isListed_, true)) driver_->list(shared_from_this());
}

void RoceConnection::tell(std::unique_lock<std::mutex>& lock) {
  isListed_ = false;
  std::deque<Event> events;
  if (owner_) {
    events.swap(events_);
  } else if (!events_.empty() && events_.front().kind == Event::Kind::kDialled) {
    events.push_back(std::move(events_.front()));
    events_.pop_front();
    if (door_->closed) return shut(unavailable("nobody is there any more"));
  }
  if (events.empty()) return;
  std::shared_ptr<LinkEvents> owner = owner_;
  const auto door = door_;
  lock.unlock();
  bool isClosed = false;
  for (const Event& event : events) {
    if (silent_) break;
    switch (event.kind) {
      case Event::Kind::kDialled:
        door->dialled(shared_from_this(), event.hello);
        break;
      case Event::Kind::kFrame: {
        const std::span<const std::byte> bytes =
            event.isLate ? std::span<const std::byte>(event.late) : std::span(buffer(event.id), event.bytes);
        owner->onFrame(bytes.subspan(roce_wire::kHeadBytes));
        break;
      }
      case Event::Kind::kWritten:
        owner->onWritten(event.id);
        break;
      case Event::Kind::kRoom:
        owner->onRoom();
        break;
      case Event::Kind::kClosed:
        isClosed = true;
        owner->onClosed(event.why);
        break;
    }
  }
  owner.reset();
  lock.lock();
  for (const Event& event : events) {
    if (event.kind != Event::Kind::kFrame || event.isLate) continue;
    ++taken_;
    postReceive(event.id);
  }
  giveCredits();
  if (!isClosed) return;
  silent_ = true;
  owner.swap(owner_);
  lock.unlock();
  owner.reset();
  lock.lock();
}

}  // namespace hpu::collectives::net
