// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/RailLink.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::net::rails {
namespace {

using base::strCat;

/// Kept for the case that a connection breaks.
constexpr size_t kMostEntries = 256, kMostEntryBytes = size_t{1} << 20;
/// Taken from the owner, and not by the connection.
constexpr size_t kMostWaiting = 4;
/// Of a write, over one connection at a time: one goes while the next one waits.
constexpr size_t kMostReading = 2;
constexpr int64_t kPartBytes = int64_t{4} << 20;
constexpr int kFramesPerAck = 16;
/// More than a peer that heeds kMostEntries can make.
constexpr size_t kMostEvents = 4 * kMostEntries, kMostMaps = 1 << 16;
constexpr auto kCloseTime = std::chrono::seconds(2);

}  // namespace

RailLink::RailLink(std::shared_ptr<Rails> rails, const Session& session, bool dialler)
    : rails_(std::move(rails)), session_(session), dialler_(dialler), rail_(rails_->size()) {
  startedAt_ = tickedAt_ = lostAt_ = Clock::now();
}

// ---- Out ----------------------------------------------------------------------------------------

bool RailLink::hasRoom() const {
  return state_ == State::kUp && out_ && granted_ && !switching_ && entries_.size() < kMostEntries &&
         entries_.size() - handed_ < kMostWaiting && bytes_ < kMostEntryBytes;
}

void RailLink::tellRoom() {
  if (refused_ && hasRoom()) {
    refused_ = false;
    push({});
  }
}

void RailLink::add(Entry entry) {
  bytes_ += entry.bytes.size();
  entries_.push_back(std::move(entry));
}

/// With the frame; what is in front of one takes room in a connection's, so a large one goes in two.
void RailLink::addFrame(Entry entry, std::span<const std::byte> frame) {
  constexpr size_t kMost = kMostFrameBytes - kMostHeadBytes;
  if (frame.size() > kMost) {
    Entry part;
    part.kind = Frame::Kind::kPart;
    part.bytes.assign(frame.begin(), frame.begin() + kMost);
    add(std::move(part));
    frame = frame.subspan(kMost);
  }
  entry.bytes.assign(frame.begin(), frame.end());
  add(std::move(entry));
}

bool RailLink::send(std::span<const std::byte> frame) {
  std::lock_guard lock(mutex_);
  if (state_ >= State::kClosing) return true;
  if (frame.size() > kMostFrameBytes) {
    die(internalError(strCat("a frame of ", frame.size(), " bytes; at most ", kMostFrameBytes)));
    return true;
  }
  if (!hasRoom()) {
    refused_ = true;
    return false;
  }
  Entry entry;
  addFrame(std::move(entry), frame);
  pump();
  return true;
}

bool RailLink::write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
                     std::span<const std::byte> frame) {
  std::lock_guard lock(mutex_);
  if (state_ >= State::kClosing) return true;
  if (frame.size() > kMostFrameBytes || bytes <= 0) {
    die(internalError(strCat("a write of ", bytes, " bytes with a frame of ", frame.size())));
    return true;
  }
  if (!hasRoom()) {
    refused_ = true;
    return false;
  }
  Entry entry;
  entry.kind = Frame::Kind::kData;
  entry.serial = ++lastSerial_;
  entry.data = data;
  entry.total = bytes;
  entry.window = to.key;
  readings_[entry.serial].id = id;
  addFrame(std::move(entry), frame);
  pump();
  return true;
}

bool RailLink::drained() {
  std::lock_guard lock(mutex_);
  if (state_ >= State::kClosing || entries_.empty()) return true;
  if (!std::exchange(drainAsked_, true)) ask();
  return false;
}

/// Of its own, before anything else that goes over it.
void RailLink::say(Path& path, const Frame& frame) {
  path.control.push_back(encode(frame));
  flush(path);
}

/// False: the connection takes nothing now.
bool RailLink::flush(Path& path) {
  if (!path.up) return false;
  for (; !path.control.empty(); path.control.pop_front())
    if (!path.link->send(path.control.front())) return false;
  if (!path.beat) return true;
  Frame frame;
  frame.ack = toldTo_;
  frame.wantsAck = path.asks;
  if (!path.link->send(encode(frame))) return false;
  path.beat = path.asks = false;
  path.said = Clock::now();
  sinceAck_ = 0;
  return true;
}

void RailLink::beat(Path& path) {
  path.beat = true;
  flush(path);
}

/// Once, and once is enough: the answer comes when the peer's owner was told of all that was handed over, and the last
/// of what is handed over from now on asks for itself. Over another connection the peer says where it stands, and both
/// hold there.
void RailLink::ask() {
  if (!out_) return;
  out_->asks = true;
  beat(*out_);
}

/// Now, or when the owner was told of what has come until now: nobody asks again.
void RailLink::answer(Path& path) {
  if (toldTo_ + 1 == expected_)
    beat(path);
  else
    askedAt_ = expected_ - 1;
}

void RailLink::pump() {
  if (!out_ || !flush(*out_)) return;
  while (granted_ && handed_ < entries_.size() && hand(*out_, entries_[handed_], first_ + handed_)) {
    ++handed_;
    handedMost_ = std::max(handedMost_, first_ + handed_ - 1);
    out_->said = Clock::now();
    sinceAck_ = 0;
  }
}

bool RailLink::hand(Path& path, Entry& entry, uint64_t sequence) {
  Frame frame;
  frame.kind = entry.kind;
  frame.sequence = sequence;
  frame.ack = toldTo_;
  frame.wantsAck = ((drainAsked_ || switching_) && &entry == &entries_.back()) || entries_.size() > kMostEntries / 2 ||
                   bytes_ > kMostEntryBytes / 2;
  if (entry.kind == Frame::Kind::kData) return handWrite(path, entry, std::move(frame));
  frame.body = entry.bytes;
  return path.link->send(encode(frame));
}

bool RailLink::handWrite(Path& path, Entry& entry, Frame frame) {
  auto it = path.maps.find(entry.window);
  frame.window = entry.window;
  frame.total = static_cast<uint64_t>(entry.total);
  frame.body = entry.bytes;
  if (it == path.maps.end() || entry.total > it->second.bytes) {
    // Told of later, or closed: then only the frame goes.
    if (it == path.maps.end() && entry.window > path.lastMap) return false;
    return path.link->send(encode(frame));
  }
  const Map& map = it->second;
  for (;;) {
    if (path.reading.size() >= kMostReading) return false;
    const int64_t bytes = std::min(map.part, entry.total - entry.at);
    const bool isLast = entry.at + bytes == entry.total;
    frame.kind = isLast ? Frame::Kind::kData : Frame::Kind::kPiece;
    frame.body = isLast ? std::span<const std::byte>(entry.bytes) : std::span<const std::byte>();
    frame.offset = static_cast<uint64_t>(entry.at);
    frame.bytes = static_cast<uint64_t>(bytes);
    const Window& to = map.windows[static_cast<size_t>(entry.at / map.part)];
    if (!path.link->write(path.lastWrite + 1, entry.data + entry.at, bytes, to, encode(frame))) return false;
    path.reading[++path.lastWrite] = entry.serial;
    ++readings_[entry.serial].count;
    entry.at += bytes;
    handedMost_ = std::max(handedMost_, frame.sequence);
    if (!isLast) continue;
    path.maps.erase(it);
    return true;
  }
}

/// A connection does not read the write's data any more.
void RailLink::released(uint64_t serial) {
  auto it = readings_.find(serial);
  if (it == readings_.end() || --it->second.count > 0 || !it->second.acked) return;
  Event event;
  event.kind = Event::Kind::kWritten;
  event.id = it->second.id;
  readings_.erase(it);
  push(std::move(event));
}

Status RailLink::takeAck(uint64_t ack) {
  if (ack > handedMost_) return invalidArgument("it acknowledges what was not sent");
  for (; first_ <= ack && !entries_.empty(); ++first_) {
    Entry& entry = entries_.front();
    bytes_ -= entry.bytes.size();
    if (auto it = readings_.find(entry.serial); entry.serial != 0 && it != readings_.end()) {
      it->second.acked = true;
      ++it->second.count;
      released(entry.serial);
    }
    entries_.pop_front();
    if (handed_ > 0) --handed_;
  }
  if (!entries_.empty()) return okStatus();
  if (std::exchange(drainAsked_, false)) push({});
  return okStatus();
}

// ---- In -----------------------------------------------------------------------------------------

void RailLink::push(Event event) {
  if (state_ >= State::kClosing && event.kind != Event::Kind::kClosed) return;
  events_.push_back(std::move(event));
  list();
}

/// Tells the peer where the window is reached over that connection.
void RailLink::map(uint32_t window, Open& open, const PathPtr& path) {
  const int64_t part =
      std::max(kPartBytes, (open.bytes + static_cast<int64_t>(kMostParts) - 1) / static_cast<int64_t>(kMostParts));
  open.path = path;
  open.windows.clear();
  for (int64_t at = 0; at < open.bytes; at += part)
    open.windows.push_back(path->link->openWindow(open.data + at, std::min(part, open.bytes - at)));
  Frame frame;
  frame.kind = Frame::Kind::kMap;
  frame.window = window;
  frame.bytes = static_cast<uint64_t>(open.bytes);
  frame.offset = static_cast<uint64_t>(part);
  frame.windows = open.windows;
  say(*path, frame);
}

Window RailLink::openWindow(std::byte* data, int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (state_ >= State::kClosing || bytes <= 0) return {};
  const uint32_t window = ++lastWindow_;
  Open& open = windows_[window];
  open.data = data;
  open.bytes = bytes;
  if (in_ && switchAsked_ == 0) map(window, open, in_);
  return {0, window};
}

void RailLink::closeWindow(const Window& window) {
  Lock lock(mutex_);
  if (!rails_->isHere()) told_.wait(lock, [&] { return closingWindow_ != window.key; });
  auto it = windows_.find(window.key);
  if (it == windows_.end()) return;
  const Open open = std::move(it->second);
  windows_.erase(it);
  if (!open.path) return;
  // Of a connection that was lost: its own thread may be at it yet.
  std::shared_ptr<Link> link = open.path->link;
  if (open.path == in_) {
    Frame frame;
    frame.kind = Frame::Kind::kUnmap;
    frame.window = window.key;
    say(*in_, frame);
  }
  lock.unlock();
  if (!link) return;
  for (const Window& one : open.windows) link->closeWindow(one);
}

Status RailLink::take(Path& path, const Frame& frame) {
  HPU_RETURN_IF_ERROR(takeAck(frame.ack));
  switch (frame.kind) {
    case Frame::Kind::kHere:
      // Doors that are open as long as the peer's network is; the one that was dialled first may have been closed.
      doors_ = frame.doors;
      secret_ = rails_->secret();
      doors_.resize(std::min(doors_.size(), rail_.size()));
      return okStatus();
    case Frame::Kind::kBeat:
      if (frame.wantsAck) answer(path);
      return okStatus();
    case Frame::Kind::kSwitch:
      // A connection that was given up meanwhile may be slower than the next one.
      if (frame.turn <= peerTurn_) return okStatus();
      peerTurn_ = frame.turn;
      switchAsked_ = path.number;
      list();
      return okStatus();
    case Frame::Kind::kAt:
      return takeAt(path, frame);
    case Frame::Kind::kMap: {
      if (path.maps.size() >= kMostMaps) return invalidArgument("it opens more windows than any end does");
      Map& map = path.maps[frame.window];
      map.bytes = static_cast<int64_t>(frame.bytes);
      map.part = static_cast<int64_t>(frame.offset);
      map.windows = frame.windows;
      path.lastMap = std::max(path.lastMap, frame.window);
      return okStatus();
    }
    case Frame::Kind::kUnmap: {
      // Not while a write is on its way to it: what is behind it is dropped by the connection.
      const bool isNow = handed_ < entries_.size() && entries_[handed_].window == frame.window &&
                         entries_[handed_].at > 0 && out_.get() == &path;
      if (!isNow) path.maps.erase(frame.window);
      return okStatus();
    }
    default:
      return takeSequenced(path, frame);
  }
}

Status RailLink::takeAt(Path& path, const Frame& frame) {
  if (&path != out_.get() || granted_ || frame.turn != turn_) return okStatus();
  if (frame.sequence < first_ || frame.sequence > handedMost_ + 1)
    return invalidArgument("it goes on with what was not sent, or is not there any more");
  HPU_RETURN_IF_ERROR(takeAck(frame.sequence - 1));
  path.lastMap = std::max(path.lastMap, frame.window);
  granted_ = true;
  if (state_ == State::kStarting) {
    state_ = State::kUp;
    everUp_ = true;
    if (dialler_) push({});
  }
  return okStatus();
}

Status RailLink::takeSequenced(Path& path, const Frame& frame) {
  if (&path != in_.get() || state_ == State::kClosing)
    return okStatus();  // What it says has come, or will, by another one.
  if (frame.sequence != expected_) return invalidArgument("it leaves something out, or says it twice");
  if (events_.size() > kMostEvents) return invalidArgument("it sends more than was acknowledged");
  if (frame.kind == Frame::Kind::kPiece) return takeData(frame);
  Event event;
  event.sequence = expected_;
  event.ackNow = frame.wantsAck || frame.kind == Frame::Kind::kData;
  event.kind = Event::Kind::kFrame;
  if (frame.kind == Frame::Kind::kData) {
    HPU_RETURN_IF_ERROR(takeData(frame));
    if (auto it = windows_.find(frame.window); it != windows_.end()) {
      if (dataAt_ != frame.total) return invalidArgument("a write that is not all there");
      // What the write did not need is closed with it.
      event.path = it->second.path;
      event.windows = std::move(it->second.windows);
      windows_.erase(it);
    }
  }
  dataAt_ = 0;
  ++expected_;
  switch (frame.kind) {
    case Frame::Kind::kBye:
      die(unavailable("the other end has closed the link"));
      return okStatus();
    case Frame::Kind::kPart:
      if (part_.size() + frame.body.size() > kMostFrameBytes) return invalidArgument("a frame of too many bytes");
      part_.insert(part_.end(), frame.body.begin(), frame.body.end());
      event.kind = Event::Kind::kNothing;
      break;
    case Frame::Kind::kSkip:
      part_.clear();
      event.kind = Event::Kind::kNothing;
      break;
    default:
      if (part_.size() + frame.body.size() > kMostFrameBytes) return invalidArgument("a frame of too many bytes");
      part_.insert(part_.end(), frame.body.begin(), frame.body.end());
      event.bytes.swap(part_);
      break;
  }
  push(std::move(event));
  return okStatus();
}

Status RailLink::takeData(const Frame& frame) {
  if (frame.window == 0 || frame.window > lastWindow_)
    return invalidArgument("a write to a window that was never open");
  auto it = windows_.find(frame.window);
  if (it == windows_.end()) return okStatus();
  const auto most = static_cast<uint64_t>(it->second.bytes);
  if (frame.offset != dataAt_ || frame.bytes > most - dataAt_ || frame.total > most)
    return invalidArgument("a write that is larger than its window, or in pieces that do not fit");
  dataAt_ += frame.bytes;
  return okStatus();
}

// ---- The thread ---------------------------------------------------------------------------------

void RailLink::run() {
  Lock lock(mutex_);
  telling_ = true;
  while (closeOne(lock) || adoptSwitch(lock) || tellOne(lock)) {
  }
  if (in_ && sinceAck_ >= kFramesPerAck) beat(*in_);
  pump();
  tellRoom();
  while (tellOne(lock)) {
  }
  if (switching_ && entries_.empty()) {
    switching_ = false;
    if (PathPtr path = onRail(preferred_)) choose(path);
    tellRoom();
  }
  if (state_ == State::kClosing && (handed_ == entries_.size() || Clock::now() > closedAt_ + kCloseTime)) {
    state_ = State::kOver;
    rails_->remove(session_, dialler_);
    for (const auto& [number, path] : paths_) dying_.push_back(path);
    paths_.clear();
    in_ = out_ = nullptr;
    while (closeOne(lock)) {
    }
  }
  telling_ = false;
  told_.notify_all();
}

bool RailLink::closeOne(Lock& lock) {
  if (dying_.empty()) return false;
  const PathPtr path = dying_.front();
  std::shared_ptr<Link> link = path->link;
  lock.unlock();
  link->close();
  lock.lock();
  letGo(*path);
  std::erase(dying_, path);
  path->link = nullptr;
  lock.unlock();
  link = nullptr;
  lock.lock();
  return true;
}

/// The peer's sequence goes on over another connection, once nothing can be written over the one before it.
bool RailLink::adoptSwitch(Lock& lock) {
  if (switchAsked_ == 0) return false;
  auto it = paths_.find(switchAsked_);
  if (it == paths_.end() || state_ == State::kClosing) {
    switchAsked_ = 0;
    return true;
  }
  const PathPtr path = it->second;
  for (auto& [number, open] : windows_) {
    if (!open.path) continue;
    const PathPtr old = std::exchange(open.path, nullptr);
    const std::vector<Window> windows = std::exchange(open.windows, {});
    std::shared_ptr<Link> link = old->link;
    closingWindow_ = number;
    lock.unlock();
    if (link)
      for (const Window& window : windows) link->closeWindow(window);
    link = nullptr;
    lock.lock();
    closingWindow_ = 0;
    told_.notify_all();
    return true;
  }
  switchAsked_ = 0;
  in_ = path;
  dataAt_ = 0;
  for (auto& [number, open] : windows_) map(number, open, path);
  Frame frame;
  frame.kind = Frame::Kind::kAt;
  frame.ack = toldTo_;
  frame.sequence = expected_;
  frame.turn = peerTurn_;
  frame.window = lastWindow_;
  say(*path, frame);
  return true;
}

bool RailLink::tellOne(Lock& lock) {
  if (events_.empty() || !dying_.empty()) return false;
  Event event = std::move(events_.front());
  events_.pop_front();
  std::shared_ptr<LinkEvents> owner = owner_;
  std::shared_ptr<Link> link = event.path ? event.path->link : nullptr;
  const bool isClosed = event.kind == Event::Kind::kClosed;
  if (isClosed) owner_ = nullptr;
  lock.unlock();
  if (link)
    for (const Window& window : event.windows) link->closeWindow(window);
  if (owner) {
    switch (event.kind) {
      case Event::Kind::kNothing:
        break;
      case Event::Kind::kFrame:
        owner->onFrame(event.bytes);
        break;
      case Event::Kind::kWritten:
        owner->onWritten(event.id);
        break;
      case Event::Kind::kRoom:
        owner->onRoom();
        break;
      case Event::Kind::kClosed:
        owner->onClosed(event.why);
        break;
    }
  }
  owner = nullptr;
  link = nullptr;
  lock.lock();
  if (event.sequence == 0) return true;
  toldTo_ = event.sequence;
  ++sinceAck_;
  if ((event.ackNow || toldTo_ == askedAt_) && in_) beat(*in_);
  return true;
}

// ---- The end ------------------------------------------------------------------------------------

void RailLink::close() {
  std::shared_ptr<LinkEvents> owner;  // Goes outside of the lock.
  std::vector<PathPtr> gone;
  std::vector<std::shared_ptr<Link>> links;
  std::vector<std::pair<std::shared_ptr<Link>, Window>> windows;
  Lock lock(mutex_);
  if (state_ < State::kClosing) {
    owner = std::move(owner_);
    events_.clear();
    for (auto& [number, open] : windows_)
      for (const Window& window : open.windows)
        if (open.path && open.path->link) windows.emplace_back(open.path->link, window);
    windows_.clear();
    const bool wasUp = state_ == State::kUp;
    state_ = State::kClosing;
    closedAt_ = Clock::now();
    // Nobody's memory is read from now on.
    for (Entry& entry : entries_) {
      if (entry.kind != Frame::Kind::kData) continue;
      entry.kind = Frame::Kind::kSkip;
      entry.bytes.clear();
    }
    if (wasUp) {
      Entry bye;
      bye.kind = Frame::Kind::kBye;
      add(std::move(bye));
      pump();
    }
    bool over = !wasUp || handed_ == entries_.size();
    for (const auto& [number, path] : paths_)
      if (over || !path->reading.empty()) gone.push_back(path);
    over |= gone.size() == paths_.size();
    for (const PathPtr& path : gone) {
      paths_.erase(path->number);
      if (in_ == path) in_ = nullptr;
      if (out_ == path) out_ = nullptr, granted_ = false, handed_ = 0;
    }
    if (over) {
      state_ = State::kOver;
      rails_->remove(session_, dialler_);
    } else {
      rails_->keep(shared_from_this());
      list();
    }
  }
  for (const PathPtr& path : gone)
    if (path->link) links.push_back(std::move(path->link));
  for (const PathPtr& path : dying_)
    if (path->link) links.push_back(path->link);
  lock.unlock();
  for (const auto& [link, window] : windows) link->closeWindow(window);
  for (const auto& link : links) link->close();
  links.clear();
  windows.clear();
  lock.lock();
  if (!rails_->isHere()) told_.wait(lock, [&] { return !telling_; });
}

}  // namespace hpu::collectives::net::rails
