// SPDX-License-Identifier: Apache-2.0
// RoceConnection: a RoCE link: how its ends meet over TCP, its queue pair (of whatever engine), and how it parts.
// The one thing to know: everything is guarded by the driver's lock. Frames take buffers of both ends by credits, so
// that no SEND finds none; a frame that a write is for closes the window that it was written to.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/Deadline.h"
#include "collectives/transport/net/Network.h"
#include "collectives/transport/net/PairEngine.h"
#include "collectives/transport/net/RoceDriver.h"
#include "collectives/transport/net/RoceWire.h"

namespace hpu::collectives::net {

class RoceConnection;

/// What a door does with who dials it. `closed` is guarded by the driver's lock.
struct RoceDoorway {
  std::function<void(const std::shared_ptr<RoceConnection>& connection, const std::string& hello)> dialled;
  bool closed = false;
};

class RoceConnection final : public LinkEvents, public std::enable_shared_from_this<RoceConnection> {
 public:
  /// `options`: with a path MTU.
  RoceConnection(std::shared_ptr<RoceDriver> driver, const PairOptions& options)
      : driver_(std::move(driver)), options_(options) {}

  /// Either of these three comes first. To somebody's door, over `tcp`:
  void dial(Network& tcp, const std::string& address, const std::string& hello, std::shared_ptr<LinkEvents> owner,
            const base::Deadline& deadline, const Secret& secret);
  /// Without anybody: `why` is told.
  void dialNobody(const Status& why, std::shared_ptr<LinkEvents> owner);
  /// From somebody who has come over TCP.
  void offer(std::shared_ptr<Link> tcp, std::shared_ptr<RoceDoorway> door);

  // As Link's.
  void start(std::shared_ptr<LinkEvents> owner);
  bool send(std::span<const std::byte> frame);
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to, std::span<const std::byte> frame);
  bool drained();
  Window openWindow(std::byte* data, int64_t bytes);
  void closeWindow(const Window& window);
  void close();
  std::string describe() const;

  // Of the connection over TCP, on the thread.
  void onFrame(std::span<const std::byte> message) override;
  void onWritten(uint64_t) override {}
  void onRoom() override;
  void onClosed(const Status& why) override;

  // The driver's, under its lock, on the thread.
  /// Completions of the queue pair have come.
  void collect();
  /// Tells the owner, without the lock.
  void tell(std::unique_lock<std::mutex>& lock);
  /// True: nothing is left to be said over TCP. `tcp` is to be closed without the lock.
  bool hasParted(std::shared_ptr<Link>& tcp);
  void passed(roce::TimeNs now);
  /// The network ends.
  void fail(const Status& why);
  const RoceDoorway* door() const { return door_.get(); }

 private:
  enum class State : uint8_t {
    kDialling,  ///< The answer over TCP is awaited. To kUp, kOver.
    kOffered,   ///< The peer's offer, then start(), is awaited. To kStarted, kOver.
    kStarted,   ///< The queue pair is there, the peer's is awaited. To kUp, kOver.
    kUp,        ///< To kOver.
    kOver,      ///< The queue pair is gone; what is left may still go out over TCP.
  };
  struct Event {
    enum class Kind : uint8_t { kDialled, kFrame, kWritten, kRoom, kClosed } kind = Kind::kRoom;
    uint64_t id = 0;  ///< Of kWritten; of kFrame the receive buffer.
    uint32_t bytes = 0;
    bool isLate = false;
    std::vector<std::byte> late;  ///< A frame that came over TCP.
    Status why;
    std::string hello;
  };
  /// What was posted and is not complete, in its order.
  struct Posted {
    bool isWrite = false;
    bool lastOfWrite = false;
    uint64_t id = 0;  ///< Of a write; of a frame its number.
    uint16_t slot = 0;
    bool isFrame = false;  ///< Not a credit.
    uint32_t bytes = 0;
  };

  /// A queue pair of this end, of which the peer can be told.
  Status prepare();
  Status makeQueuePair(const roce_wire::End& peer);
  roce_wire::End ownEnd() const;
  void onMessage(const roce_wire::Message& message);
  void onLate(const roce_wire::Message& message);
  void takeFrame(uint64_t buffer, uint32_t bytes);
  /// Its window is closed, and what the peer has taken is heard of. Errors: kInvalidArgument.
  StatusOr<roce_wire::Head> takeHead(std::span<const std::byte> bytes);
  void takeCompletion(const roce::Completion& completion);
  void postReceive(uint64_t buffer);
  void postFrame(roce_wire::Head head, std::span<const std::byte> frame);
  void giveCredits();
  bool hasRoom() const;
  bool isDrained() const;
  void tellRoom();
  void push(Event event);
  void up();
  void arm(roce::TimeNs nanoseconds);
  /// Tells the owner and the peer.
  void end(const Status& why);
  /// No packet any more; `bye` is the last that the peer hears.
  void shut(const Status& bye);
  void keepLate();
  void say(std::string message);
  void pump();
  std::string names() const;
  std::byte* slot(uint64_t index) { return slots_.get() + index * kBufferBytes; }
  std::byte* buffer(uint64_t index) { return slot(kBuffers + index); }

  static constexpr uint32_t kFrames = 32;  ///< Of each direction, on their way or not taken by the owner.
  /// Two ends that give credits for half of the frames have at most two such messages on their way.
  static constexpr uint32_t kCredits = 2;
  static constexpr uint32_t kBuffers = kFrames + kCredits;
  static_assert(kBuffers == kPairFrames);
  static constexpr size_t kBufferBytes = roce_wire::kHeadBytes + kMostFrameBytes;

  const std::shared_ptr<RoceDriver> driver_;
  const PairOptions options_;

  State state_ = State::kDialling;
  std::shared_ptr<RoceDoorway> door_;  ///< Null: this end dialled.
  std::shared_ptr<LinkEvents> owner_;
  std::atomic<bool> silent_{false};  ///< The owner hears nothing any more.
  bool isListed_ = false;
  std::deque<Event> events_;

  // Over TCP.
  std::shared_ptr<Link> tcp_;
  bool tcpUp_ = false, tcpOver_ = false;
  std::string hello_;
  std::deque<std::string> messages_;  ///< That TCP did not take yet.
  roce::TimeNs deadline_ = 0, partBy_ = 0;
  bool isLate_ = false;          ///< What comes, comes over TCP.
  std::vector<std::byte> late_;  ///< The beginning of a frame.

  // The queue pair.
  std::unique_ptr<Pair> pair_;  ///< From prepare() to shut().
  uint32_t firstPsn_ = 0;
  roce_wire::End peer_;
  bool isPair_ = false;  ///< It is connected.
  /// What is sent, and behind that what is received into. Events read it after the pair has gone.
  std::shared_ptr<std::byte> slots_;
  std::vector<uint16_t> freeSlots_;
  std::deque<Posted> posted_;
  uint64_t sent_ = 0, received_ = 0;         ///< Frames.
  uint32_t taken_ = 0, toldTaken_ = 0;       ///< Of received ones.
  uint32_t peerTaken_ = 0, mostFrames_ = 0;  ///< Of sent ones.
  bool roomWanted_ = false, drainWanted_ = false;
};

}  // namespace hpu::collectives::net
