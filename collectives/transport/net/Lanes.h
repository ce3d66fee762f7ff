// SPDX-License-Identifier: Apache-2.0
// Lanes: the messages between this rank and one of another node, over a link that is dialled when it is first needed.
// The one thing to know: nothing waits but stop() and finish(). Small messages go out at once, as many as the receiver
// has room for; of a large one first its announcement goes out, or the receiver's word where it wants it comes, and
// then its bytes go from memory to memory. No lock is held while a link or a window is closed.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/Deadline.h"
#include "collectives/transport/Transport.h"
#include "collectives/transport/net/Frames.h"
#include "collectives/transport/net/Network.h"

namespace hpu::collectives::net {

/// Of a lane, that the receiver has not released.
inline constexpr uint64_t kLaneMessages = 64;

class Lanes;

/// Whose lanes they are. Called without any lock of the lanes.
class LanesOwner {
 public:
  virtual ~LanesOwner() = default;
  /// Keeps it while a link may tell something.
  virtual std::shared_ptr<LanesOwner> self() = 0;
  /// May be called under the lanes' lock.
  virtual std::shared_ptr<Link> dialPeer(int peer, std::shared_ptr<LinkEvents> events) = 0;
  virtual base::Deadline dialDeadline() const = 0;
  virtual FrameLimits limits() const = 0;
  /// Something that the rank may wait for.
  virtual void wake() = 0;
  /// The peer said that it gave up or leaves.
  virtual void peerEnded(int peer, const EndItem& end) = 0;
  /// The peer speaks nonsense.
  virtual void peerBroken(int peer, const Status& why) = 0;
};

/// Any thread may call.
class Lanes {
 public:
  /// `check`: messages go out with a checksum of their bytes.
  Lanes(LanesOwner& owner, int rank, int peer, int64_t smallBytes, bool check = false)
      : owner_(owner), rank_(rank), peer_(peer), smallBytes_(smallBytes), check_(check) {}

  // ---- As Transport's; messages up to smallBytes are copied ----
  Offered offer(Lane lane, const std::byte* data, int64_t bytes, const MessageTag& tag);
  void expect(Lane lane, uint64_t index, std::byte* data, int64_t bytes);
  uint64_t released(Lane lane);
  std::optional<Arrived> arrived(Lane lane, uint64_t index);
  void release(Lane lane);

  /// All that was offered and copied would reach the peer though this process ended now. False: wake() comes when it
  /// is so.
  bool delivered();
  /// Nothing will come from the peer any more that is not here.
  bool over();
  /// When the peer last said anything, or its link came; nothing comes any more over one that is not up.
  std::optional<std::chrono::steady_clock::time_point> heardAt();
  /// The peer has left, so it had all that it needed: once the link is gone what was offered is the callers' again.
  void peerLeft();

  // ---- The link ----
  /// The peer has dialled. The link is taken, or destroyed when another one stays.
  void dialled(std::shared_ptr<Link> link);
  /// Whether the link broke before `since`, and why.
  Status lostBefore(std::chrono::steady_clock::time_point since);

  // ---- The end ----
  /// This rank gives up: tells the peer; when it returns nobody's memory is touched. Data that is on its way is waited
  /// for until the deadline.
  void stop(const EndItem& end, const base::Deadline& deadline);
  /// This rank leaves: what it has offered goes out first. prepare() for all peers, then finish().
  void prepareToLeave();
  void finish(const EndItem& end, const base::Deadline& deadline);

 private:
  class Events;
  /// What goes out.
  struct Outgoing {
    enum class State : uint8_t { kQueued, kAnnounced, kReady, kWriting, kDone };
    State state = State::kQueued;
    bool small = false;
    std::vector<std::byte> copy;
    const std::byte* data = nullptr;
    int64_t bytes = 0;
    MessageTag tag;
    std::optional<uint32_t> check;
    Window window;  ///< From kReady on.
  };
  struct OutLane {
    std::deque<Outgoing> messages;  ///< From `first` on.
    uint64_t first = 0, next = 0;
    uint64_t toSend = 0;    ///< The first that is neither sent nor announced.
    uint64_t finished = 0;  ///< All before it are the caller's again.
    uint64_t released = 0;  ///< By the peer.
    bool wasFull = false, tellWant = false;
    std::map<uint64_t, ReadyItem> ready;  ///< Of messages that were not offered yet.
  };
  /// What comes in.
  struct Incoming {
    enum class State : uint8_t {
      kNone,       ///< At most expected.
      kAnnounced,  ///< There is no window yet.
      kWindow,     ///< The peer may write.
      kArrived
    };
    State state = State::kNone;
    bool announced = false, expected = false;
    bool inPlace = false;  ///< Its bytes are, or go to, where they are expected.
    bool bad = false;      ///< It has another size than expected, or there is no memory.
    std::byte* wanted = nullptr;
    int64_t wantedBytes = 0, bytes = 0;
    std::unique_ptr<std::byte[]> store;
    Window window;
    MessageTag tag;
    std::optional<uint32_t> check;  ///< Until the bytes have been looked at.
    bool damaged = false;
  };
  struct InLane {
    std::deque<Incoming> messages;  ///< From `released` on.
    uint64_t released = 0, told = 0;
    uint64_t wanted = 0;  ///< The message for which the peer has no room.
    bool tell = false;
  };
  enum class State : uint8_t {
    kNone,
    kDialling,
    kExpecting,  ///< The peer dials, too, and its link stays.
    kUp,
    kLost,
    kClosed,  ///< By this rank.
  };
  using Lock = std::unique_lock<std::mutex>;

  OutLane& outOf(Lane lane) { return out_[static_cast<size_t>(lane)]; }
  InLane& inOf(Lane lane) { return in_[static_cast<size_t>(lane)]; }
  static Outgoing* find(OutLane& lane, uint64_t index) {
    return index < lane.first || index >= lane.next ? nullptr : &lane.messages[index - lane.first];
  }
  static Incoming* find(InLane& lane, uint64_t index) {
    return index < lane.released || index - lane.released >= lane.messages.size()
               ? nullptr
               : &lane.messages[index - lane.released];
  }

  void needLink();
  void take(std::shared_ptr<Link> link);
  void isUp();
  void lose(const Status& why);
  /// Closes a link that this object does not use any more; the lock is not held meanwhile.
  void drop(Lock& lock, std::shared_ptr<Link> link);
  bool idle() const;
  bool isDelivered() const;
  bool becameDelivered();
  void onFrame(uint64_t attempt, std::span<const std::byte> frame);
  void onWritten(uint64_t attempt, uint64_t id);
  void onRoom(uint64_t attempt);
  void onClosed(uint64_t attempt, const Status& why);

  Status take(Lock& lock, const Item& item, bool& news);
  static Status nonsense(const char* what, uint64_t index);
  Status takeMessage(Lock& lock, const MessageItem& item);
  Status takeAnnounce(Lock& lock, const AnnounceItem& item, bool& news);
  Status takeData(const DataItem& item, bool& news);
  Status takeReady(const ReadyItem& item, bool& news);
  Status takeReleased(const ReleasedItem& item, bool& news);
  /// Where a message of the peer's goes; null: it is none that can come.
  Incoming* place(Lane lane, uint64_t index);
  void closeWindow(Lock& lock, const Window& window);
  void openWindow(Lane lane, uint64_t index);
  void notWanted(Lane lane, uint64_t index);
  Arrived give(Incoming& message);
  /// Takes the finished ones off the front; true: a large one was among them.
  bool advance(OutLane& lane);

  void pump();
  bool pumpOut(Lane lane);
  bool pumpWrites();
  bool put(const Item& item);
  bool flush();

  LanesOwner& owner_;
  const int rank_, peer_;
  const int64_t smallBytes_;
  const bool check_;

  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  State state_ = State::kNone;
  uint64_t attempt_ = 0;  // Links of earlier ones are not listened to.
  std::shared_ptr<Link> link_;
  std::chrono::steady_clock::time_point heardAt_;  // Of kUp.
  std::chrono::steady_clock::time_point lostAt_;   // Of kExpecting: when it will be.
  int closing_ = 0;                                // Links that drop() is at.
  Status why_;
  bool stopped_ = false;    // No caller's memory is used any more.
  bool peerEnded_ = false;  // It said so, behind all that it had sent.
  bool tellDelivered_ = false;
  bool peerLeaving_ = false;  // What it has announced is fetched.
  bool tellLeaving_ = false;
  std::optional<EndItem> tellEnd_;
  std::array<OutLane, kNumLanes> out_;
  std::array<InLane, kNumLanes> in_;
  std::deque<ReadyItem> readies_;                      // To be told.
  std::deque<std::pair<Lane, uint64_t>> writes_;       // Messages whose windows are there.
  std::map<uint64_t, std::pair<Lane, uint64_t>> ids_;  // Writes on their way.
  uint64_t nextId_ = 1;
  FrameWriter frame_;  // Not taken by the link yet.
};

}  // namespace hpu::collectives::net
