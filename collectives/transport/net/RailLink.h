// SPDX-License-Identifier: Apache-2.0
// RailLink: a link over several rails: a sequence of frames and writes that takes one connection at a time, and is
// taken up by another one where the peer's end says that it stands.
// The one thing to know: what the peer has not acknowledged is kept, frames as copies and writes as (data, window).
// Only one connection (`in_`) is listened to at a time, and what was written over the one before it is closed before
// the new one is told where to write: so everything comes once. RailPaths.cpp has the connections' beginnings and ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/Deadline.h"
#include "collectives/transport/net/Network.h"
#include "collectives/transport/net/RailWire.h"
#include "collectives/transport/net/Rails.h"

namespace hpu::collectives::net::rails {

/// Any thread may call.
class RailLink : public std::enable_shared_from_this<RailLink> {
 public:
  RailLink(std::shared_ptr<Rails> rails, const Session& session, bool dialler);

  // ---- Beginnings: one of these two ----
  /// `first`: the rail that it is to take.
  void dial(const std::vector<std::string>& doors, int first, const std::string& hello,
            std::shared_ptr<LinkEvents> events, const base::Deadline& deadline, const Secret& secret);
  /// The peer has dialled on that rail. False: the link is over, and `link` is not taken.
  bool attach(int rail, std::shared_ptr<Link> link);

  // ---- As Link's ----
  void start(std::shared_ptr<LinkEvents> events);
  bool send(std::span<const std::byte> frame);
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to, std::span<const std::byte> frame);
  bool drained();
  Window openWindow(std::byte* data, int64_t bytes);
  void closeWindow(const Window& window);
  void close();
  std::string describe() const;

  // ---- On the rails' thread ----
  void run();
  void tick(Clock::time_point now);
  /// It is closed, and has nothing to say any more.
  bool isOver() const;

 private:
  class Events;
  enum class State : uint8_t {
    kOffered,   ///< start() is awaited.
    kStarting,  ///< No connection has carried anything yet.
    kUp,
    kClosing,  ///< close() was called, and the end is not said yet.
    kOver,
  };
  /// A window of the peer's, as it is reached over one connection.
  struct Map {
    int64_t bytes = 0, part = 0;
    std::vector<Window> windows;
  };
  /// A connection.
  struct Path {
    uint64_t number = 0;
    int rail = 0;
    bool dialled = false, up = false;
    bool beat = false;  ///< A word is owed,
    bool asks = false;  ///< which asks for an answer.
    std::shared_ptr<Link> link;
    Clock::time_point upAt, heard, said;
    std::deque<std::vector<std::byte>> control;  ///< Not taken yet; before anything else.
    std::map<uint32_t, Map> maps;
    uint32_t lastMap = 0;
    uint64_t lastWrite = 0;
    std::map<uint64_t, uint64_t> reading;  ///< Writes that it reads the data of, by their numbers there.
  };
  using PathPtr = std::shared_ptr<Path>;
  struct Rail {
    bool failed = false;  ///< Since a connection was up.
    bool down = false, logged = false;
    Clock::time_point downAt, again;
    std::chrono::milliseconds pause{0};
    std::string why;
  };
  struct Entry {
    Frame::Kind kind = Frame::Kind::kFrame;  ///< kData: a write.
    std::vector<std::byte> bytes;
    uint64_t serial = 0;  ///< Of a write.
    const std::byte* data = nullptr;
    int64_t total = 0, at = 0;  ///< `at`: so much was handed to the connection.
    uint32_t window = 0;
  };
  /// Of a write: who reads its data.
  struct Reading {
    uint64_t id = 0;
    int count = 0;
    bool acked = false;
  };
  struct Open {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    PathPtr path;  ///< Where the peer may write it.
    std::vector<Window> windows;
  };
  struct Event {
    enum class Kind : uint8_t { kNothing, kFrame, kWritten, kRoom, kClosed };
    Kind kind = Kind::kRoom;
    std::vector<std::byte> bytes;
    uint64_t id = 0;
    uint64_t sequence = 0;  ///< Acknowledged when it was told.
    bool ackNow = false;
    Status why;
    PathPtr path;  ///< Its windows are closed first.
    std::vector<Window> windows;
  };
  using Lock = std::unique_lock<std::mutex>;

  // What connections say.
  void onFrame(uint64_t number, std::span<const std::byte> bytes);
  void onWritten(uint64_t number, uint64_t id);
  void onRoom(uint64_t number);
  void onClosed(uint64_t number, const Status& why);

  // RailLink.cpp
  bool hasRoom() const;
  void tellRoom();
  void add(Entry entry);
  void addFrame(Entry entry, std::span<const std::byte> frame);
  void pump();
  bool flush(Path& path);
  bool hand(Path& path, Entry& entry, uint64_t sequence);
  bool handWrite(Path& path, Entry& entry, Frame frame);
  void push(Event event);
  Status take(Path& path, const Frame& frame);
  Status takeSequenced(Path& path, const Frame& frame);
  Status takeData(const Frame& frame);
  Status takeAck(uint64_t ack);
  Status takeAt(Path& path, const Frame& frame);
  void released(uint64_t serial);
  void map(uint32_t window, Open& open, const PathPtr& path);
  void say(Path& path, const Frame& frame);
  void beat(Path& path);
  void ask();
  void answer(Path& path);
  bool closeOne(Lock& lock);
  bool adoptSwitch(Lock& lock);
  bool tellOne(Lock& lock);
  void list() { rails_->list(shared_from_this()); }

  // RailPaths.cpp
  Path* find(uint64_t number);
  void dialRail(int rail);
  void dialAll(Clock::time_point now, bool patient);
  void pathUp(const PathPtr& path);
  void choose(const PathPtr& path);
  /// `isGone`: its owner was told of its end, so nothing of it is in use.
  void lose(const PathPtr& path, const Status& why, bool isGone);
  void checkDead(const Status& why);
  void die(const Status& why);
  void letGo(Path& path);
  void watchSilence(Clock::time_point now);
  void logRails(Clock::time_point now);
  void more();
  /// That is up, and was heard of last; null: there is none.
  PathPtr freshest(const Path* but) const;
  /// That is up on that rail.
  PathPtr onRail(int rail) const;

  const std::shared_ptr<Rails> rails_;
  const Session session_;
  const bool dialler_;

  mutable std::mutex mutex_;  // Guards all below. Connections are used under it, but not closed.
  std::condition_variable told_;
  State state_ = State::kOffered;
  bool telling_ = false;
  std::shared_ptr<LinkEvents> owner_;
  std::deque<Event> events_;
  Clock::time_point startedAt_, tickedAt_, lostAt_, closedAt_;
  std::string hello_;
  base::Deadline deadline_ = base::Deadline::afterMs(0);  // Of the first connection.
  std::vector<std::string> doors_;                        // Of the peer, by rail,
  Secret secret_{};                                       // and what is proven there.
  std::vector<Rail> rail_;
  std::map<uint64_t, PathPtr> paths_;
  std::vector<PathPtr> dying_;  // To be closed on the thread.
  uint64_t lastPath_ = 0;
  int preferred_ = 0;
  bool everUp_ = false;
  Status why_;  // What the first failure was.

  // Out.
  PathPtr out_;
  bool granted_ = false;    // The peer has said where it stands.
  bool switching_ = false;  // Nothing more goes out until all is acknowledged.
  bool refused_ = false, drainAsked_ = false;
  std::deque<Entry> entries_;  // Not acknowledged, from sequence first_ on.
  uint64_t first_ = 1, handedMost_ = 0;
  uint64_t turn_ = 0;  // How often a connection was chosen.
  size_t handed_ = 0, bytes_ = 0;
  uint64_t lastSerial_ = 0;
  std::map<uint64_t, Reading> readings_;

  // In.
  PathPtr in_;
  uint64_t switchAsked_ = 0, peerTurn_ = 0;  // A connection's number; when the peer chose it.
  uint64_t expected_ = 1, toldTo_ = 0;
  uint64_t askedAt_ = 0;  // What came last before the peer asked; acknowledged when it was told.
  int sinceAck_ = 0;
  std::vector<std::byte> part_;
  uint64_t dataAt_ = 0;  // Of the write that is coming.
  std::map<uint32_t, Open> windows_;
  uint32_t lastWindow_ = 0;
  uint32_t closingWindow_ = 0;  // The thread is at it, without the lock.
};

}  // namespace hpu::collectives::net::rails
