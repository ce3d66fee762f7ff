// SPDX-License-Identifier: Apache-2.0
// Network: links to ranks of other nodes: what brings frames and writes into memory from one rank to another one, in
// order and without loss. Implementations: TcpNetwork.h, RoceNetwork.h; over several of them RailNetwork.h.
// The one thing to know: one progress thread a process serves all links of a network, and calls their owners back on
// it; a link never buffers a caller's data: what it cannot take now it refuses, and says when there is room.
//
//   HPU_ASSIGN(std::shared_ptr<Network> network, tcpNetwork(local));
//   HPU_ASSIGN(std::unique_ptr<Door> door, network->open([&](std::shared_ptr<Link> link, std::string hello) {...}));
//   // door->address() reaches the peers, by allGather
//   std::shared_ptr<Link> link = network->dial(addressOfPeer, hello, events, deadline);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/Deadline.h"
#include "collectives/bootstrap/Address.h"
#include "collectives/bootstrap/Proof.h"
#include "hpu/status.h"

namespace hpu::collectives::net {

inline constexpr size_t kMostFrameBytes = 16 << 10;
inline constexpr size_t kMostHelloBytes = 256;

/// A piece of memory that the peer of a link may write, once. Plain bytes, told in a frame.
struct Window {
  uint64_t address = 0;  ///< What the network makes of it.
  uint32_t key = 0;
};

/// Who owns a link. Calls come on the network's progress thread, one at a time for a link, without any lock of the
/// network; they must not wait. The network keeps the object alive until the link is closed.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  /// In the order in which the peer sent them. What the peer wrote before the frame is in the windows, and they are
  /// closed. The bytes are the network's when it returns.
  virtual void onFrame(std::span<const std::byte> frame) = 0;
  /// The data of that write is not read any more.
  virtual void onWritten(uint64_t id) = 0;
  /// After a refusal: something can be sent again; after drained() was false: it is true. Also once when a link that
  /// was dialled is up.
  virtual void onRoom() = 0;
  /// Once, and nothing after it: the link is gone. kAborted: the peer does not want it (it has another one);
  /// kUnavailable: its process has ended, or it cannot be reached; kInvalidArgument: it speaks nonsense;
  /// kUnimplemented: it is of another wire version (names both). Not after close().
  virtual void onClosed(const Status& why) = 0;
};

/// Any thread may call.
class Link {
 public:
  /// As close().
  virtual ~Link() = default;
  /// Of a link that was handed to a door's owner, once: takes it. A link that is destroyed without was not wanted.
  virtual void start(std::shared_ptr<LinkEvents> events) = 0;

  /// Up to kMostFrameBytes, copied. False: no room, or not up yet: onRoom() comes. After the end: true, and nothing
  /// happens.
  virtual bool send(std::span<const std::byte> frame) = 0;
  /// `data` to the start of the peer's window, and `frame` behind it, which comes after the data. `data` is read until
  /// onWritten(id), the end of the link or close(). False: as send(). `bytes` more than 0.
  virtual bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
                     std::span<const std::byte> frame) = 0;
  /// Whether all that was taken would reach the peer though this process ended now: it is the kernel's, or the peer has
  /// it. False: onRoom() comes when it is so.
  virtual bool drained() = 0;
  /// Lets the peer write up to so many bytes there, once.
  virtual Window openWindow(std::byte* data, int64_t bytes) = 0;
  /// When it returns nothing is written there any more. Of one that was written: nothing happens.
  virtual void closeWindow(const Window& window) = 0;
  /// When it returns no event is being told (unless this is called from one) nor will be, and nobody's memory is
  /// read or written. Frames that were taken still go out, for two seconds at most. Not under a lock that an event
  /// takes.
  virtual void close() = 0;

  /// "10.0.0.1:4000 to 10.0.0.2:4711": for logs and errors.
  virtual std::string describe() const = 0;
};

/// Where a rank can be dialled, until it is destroyed (then no call of its owner runs any more).
class Door {
 public:
  virtual ~Door() = default;
  /// Plain bytes: how to reach it. Without the secret that it was opened with it is worth nothing. At most 128 bytes a
  /// rail (RailNetwork.h).
  virtual const std::string& address() const = 0;
};

class Network {
 public:
  virtual ~Network() = default;
  virtual std::string_view name() const = 0;  ///< "tcp", "roce"
  /// Of this machine, where data goes out and comes in; port 0.
  virtual const Address& local() const = 0;
  using Dialled = std::function<void(std::shared_ptr<Link> link, const std::string& hello)>;
  /// `dialled` gets each link that somebody with the door's address has dialled who has proven that he knows `secret`
  /// (Proof.h; zeros: everybody does), and what he said, on the progress thread. Errors: kUnavailable,
  /// kResourceExhausted.
  virtual StatusOr<std::unique_ptr<Door>> open(Dialled dialled, const Secret& secret = {}) = 0;
  /// Does not wait: the link is up when onRoom() comes, that is when the peer has started its end and has proven that
  /// it knows `secret`, or onClosed() by the deadline. Errors of a bad address are told in the same way.
  virtual std::shared_ptr<Link> dial(const std::string& address, const std::string& hello,
                                     std::shared_ptr<LinkEvents> events, const base::Deadline& deadline,
                                     const Secret& secret = {}) = 0;
};

}  // namespace hpu::collectives::net
