// SPDX-License-Identifier: Apache-2.0
// How the ends of a RoCE link meet and part, over TCP. RoceConnection.cpp has the rest of the class.
#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "collectives/transport/net/RoceConnection.h"

namespace hpu::collectives::net {

using base::strCat;
using roce_wire::Kind;

namespace {

// Of what a peer that has come over TCP says next.
constexpr roce::TimeNs kMeetingNs = 30'000'000'000;
constexpr roce::TimeNs kLaterNs = 100'000'000;
// As Link::close() has it.
constexpr roce::TimeNs kPartingNs = 2'000'000'000;

std::span<const std::byte> asBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

// ---- Meeting ------------------------------------------------------------------------------------

void RoceConnection::dial(Network& tcp, const std::string& address, const std::string& hello,
                          std::shared_ptr<LinkEvents> owner, const base::Deadline& deadline, const Secret& secret) {
  auto lock = driver_->enter();
  owner_ = std::move(owner);
  hello_ = hello;
  deadline_ = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time().time_since_epoch()).count();
  driver_->keep(shared_from_this());
  driver_->setDeadline(shared_from_this(), deadline_);
  tcp_ = tcp.dial(address, roce_wire::tcpHello(driver_->engine().name()), shared_from_this(), deadline, secret);
}

void RoceConnection::dialNobody(const Status& why, std::shared_ptr<LinkEvents> owner) {
  auto lock = driver_->enter();
  owner_ = std::move(owner);
  end(why);
}

void RoceConnection::offer(std::shared_ptr<Link> tcp, std::shared_ptr<RoceDoorway> door) {
  auto lock = driver_->enter();
  state_ = State::kOffered;
  door_ = std::move(door);
  tcpUp_ = true;
  tcp_ = std::move(tcp);
  driver_->keep(shared_from_this());
  arm(kMeetingNs);
  tcp_->start(shared_from_this());
}

void RoceConnection::start(std::shared_ptr<LinkEvents> owner) {
  auto lock = driver_->enter();
  if (silent_ || owner_) return;
  owner_ = std::move(owner);
  if (state_ == State::kOffered) {
    Status status = prepare();
    if (status.ok()) status = makeQueuePair(peer_);
    if (!status.ok()) return end(status.withContext(strCat("RoCE link ", names())));
    state_ = State::kStarted;
    arm(kMeetingNs);
    say(encodeAnswer(ownEnd()));
  }
  if (!events_.empty() && !std::exchange(isListed_, true)) driver_->list(shared_from_this());
}

void RoceConnection::arm(roce::TimeNs nanoseconds) {
  deadline_ = RoceDriver::now() + nanoseconds;
  driver_->setDeadline(shared_from_this(), deadline_);
}

void RoceConnection::up() {
  state_ = State::kUp;
  deadline_ = 0;
  if (!door_) roomWanted_ = true;  // Who dialled hears of it in any case.
  tellRoom();
}

void RoceConnection::passed(roce::TimeNs now) {
  if (state_ == State::kOver) return driver_->part(shared_from_this());
  if (deadline_ == 0 || now < deadline_) return;
  // Before TCP is up it tells of its own deadline, which is the same.
  if (!tcpUp_) return driver_->setDeadline(shared_from_this(), now + kLaterNs);
  end(unavailable(
      strCat("RoCE link ", names(), ": the peer has come over TCP, but has not told its queue pair in time")));
}

void RoceConnection::onRoom() {
  auto lock = driver_->enter();
  if (!std::exchange(tcpUp_, true) && state_ == State::kDialling) {
    if (const Status status = prepare(); status.ok())
      say(encodeOffer(ownEnd(), hello_));
    else
      end(status.withContext(strCat("RoCE link ", names())));
  }
  pump();
  if (state_ == State::kOver) driver_->part(shared_from_this());
}

void RoceConnection::onFrame(std::span<const std::byte> bytes) {
  auto lock = driver_->enter();
  if (state_ == State::kOver) return;
  const auto message = roce_wire::parse(bytes);
  if (message.ok())
    onMessage(*message);
  else
    end(message.status().withContext(strCat("RoCE link ", names())));
  driver_->tellAll(lock);
  driver_->flush();
}

void RoceConnection::onMessage(const roce_wire::Message& message) {
  const bool isUp = state_ == State::kUp || state_ == State::kStarted;
  if (message.kind == Kind::kOffer && state_ == State::kOffered && deadline_ != 0) {
    peer_ = message.end;
    deadline_ = 0;  // From here on the door's owner has it.
    Event event;
    event.kind = Event::Kind::kDialled;
    event.hello = message.hello;
    return push(std::move(event));
  }
  if (message.kind == Kind::kAnswer && state_ == State::kDialling) {
    const Status status = makeQueuePair(message.end);
    if (!status.ok()) return end(status.withContext(strCat("RoCE link ", names())));
    say(roce_wire::encodeReady());
    return up();
  }
  if (message.kind == Kind::kReady && isUp) {
    if (state_ == State::kStarted) up();
    return;
  }
  if (message.kind == Kind::kLate && isUp) return onLate(message);
  if (message.kind == Kind::kEnd) {
    driver_->drain();  // What came before.
    return end(message.why);
  }
  end(invalidArgument(strCat("RoCE link ", names(), ": the peer says over TCP what does not belong there")));
}

// ---- Parting ------------------------------------------------------------------------------------

void RoceConnection::onLate(const roce_wire::Message& message) {
  driver_->drain();  // What was acknowledged comes before it.
  if (state_ == State::kOver) return;
  isLate_ = true;
  late_.insert(late_.end(), message.bytes.begin(), message.bytes.end());
  if (message.more && late_.size() <= kBufferBytes) return;
  std::vector<std::byte> frame = std::exchange(late_, {});
  // It had come, and its head says what is not true any more.
  if (message.number < received_) return;
  const auto head = takeHead(frame);
  if (!head.ok()) return end(head.status().withContext(strCat("RoCE link ", names())));
  Event event;
  event.kind = Event::Kind::kFrame;
  event.isLate = true;
  event.late = std::move(frame);
  received_ = message.number + 1;
  push(std::move(event));
}

void RoceConnection::onClosed(const Status& why) {
  auto lock = driver_->enter();
  tcpOver_ = true;
  if (state_ != State::kOver) {
    driver_->drain();  // What it had sent before.
    end(why);
  }
  driver_->part(shared_from_this());
  driver_->tellAll(lock);
}

void RoceConnection::fail(const Status& why) {
  end(why);
}

void RoceConnection::end(const Status& why) {
  if (state_ == State::kOver) return;
  const bool isMine = why.code() == StatusCode::kInvalidArgument || why.code() == StatusCode::kUnimplemented;
  shut(Status(isMine ? why.code() : StatusCode::kUnavailable, "the peer has ended the link: " + why.message()));
  Event event;
  event.kind = Event::Kind::kClosed;
  event.why = why;
  push(std::move(event));
}

void RoceConnection::shut(const Status& bye) {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  isPair_ = false;
  driver_->releasePair(std::move(pair_));
  posted_.clear();
  if (tcpUp_) say(roce_wire::encodeEnd(bye));
  partBy_ = RoceDriver::now() + kPartingNs;
  if (!messages_.empty()) driver_->setDeadline(shared_from_this(), partBy_);
  driver_->part(shared_from_this());
}

/// Frames that were taken and may not have arrived go over TCP, which needs nobody to send them again. Those of writes
/// that are not over are gone with them.
void RoceConnection::keepLate() {
  constexpr size_t kPiece = kMostFrameBytes - 16;
  bool broken = false;
  for (const Posted& posted : posted_) {
    if (posted.isWrite) {
      broken = true;
    } else if (std::exchange(broken, false) || !posted.isFrame) {
      continue;
    } else {
      std::span<const std::byte> rest(slot(posted.slot), posted.bytes);
      while (rest.size() > kPiece) {
        say(roce_wire::encodeLate(posted.id, true, rest.first(kPiece)));
        rest = rest.subspan(kPiece);
      }
      say(roce_wire::encodeLate(posted.id, false, rest));
    }
  }
}

void RoceConnection::close() {
  auto lock = driver_->enter();
  silent_ = true;
  if (state_ != State::kOver) {
    if (isPair_) {
      driver_->drain();  // Acknowledgements that are here already.
      if (state_ == State::kUp || state_ == State::kStarted) keepLate();
    }
    shut(state_ == State::kOffered ? Status(StatusCode::kAborted, "the peer does not want the link")
                                   : unavailable("the peer has closed the link"));
  }
  std::deque<Event> events;
  events.swap(events_);
  std::shared_ptr<LinkEvents> owner;
  owner.swap(owner_);
  driver_->waitUntilTold(lock, this);
  lock.unlock();  // The owner goes without it.
}

bool RoceConnection::hasParted(std::shared_ptr<Link>& tcp) {
  if (state_ != State::kOver) return false;
  if (!tcpOver_ && !messages_.empty() && RoceDriver::now() < partBy_) return false;
  messages_.clear();
  tcp = std::move(tcp_);
  return true;
}

void RoceConnection::say(std::string message) {
  messages_.push_back(std::move(message));
  pump();
}

void RoceConnection::pump() {
  if (!tcpUp_ || !tcp_) return;
  while (!messages_.empty() && tcp_->send(asBytes(messages_.front()))) messages_.pop_front();
}

std::string RoceConnection::names() const {
  if (peer_.queuePair != 0) return strCat(driver_->engine().end().address.text(), " to ", peer_.address.text());
  return tcp_ ? tcp_->describe() : driver_->engine().end().address.text();
}

std::string RoceConnection::describe() const {
  auto lock = driver_->enter();
  return names();
}

}  // namespace hpu::collectives::net
