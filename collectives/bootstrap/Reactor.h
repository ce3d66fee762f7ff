// SPDX-License-Identifier: Apache-2.0
// Reactor: the one thread of a process that reads and writes all sockets of the bootstrap.
// The one thing to know: handlers are called on that thread and must not wait; everything else may
// be called by any thread. The thread ends with the last Reactor handle, at the latest with the
// program.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/Deadline.h"
#include "collectives/bootstrap/Address.h"
#include "collectives/bootstrap/Wire.h"
#include "hpu/status.h"

namespace hpu::collectives {

class Connection;
class ReactorState;

/// So many connections of strangers a listening socket has at most: whoever they are, they leave this process most of
/// its descriptors.
size_t mostStrangers();

/// Of what a peer does not take.
inline constexpr size_t kMaxOutputBytes = size_t{32} << 20;

class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) = 0;
  /// Once, when the other side ended it or spoke nonsense; not after close().
  virtual void onClosed(const std::shared_ptr<Connection>& connection, const Status& why) = 0;
  /// Somebody came, and this process has no descriptor for him: he has been sent away, or waits.
  virtual void onRefused(const Status& why) {}
};

/// A socket that speaks frames. It lives in the reactor until it is closed.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  uint64_t key() const { return key_; }
  /// Takes a copy and does not wait; what a slow peer does not take is kept, up to kMaxOutputBytes and one message
  /// more, however long: at what is above that the connection ends, and the handler hears of it. Errors: kUnavailable,
  /// kResourceExhausted. `version`: for what another release is to understand.
  Status send(wire::MessageType type, uint64_t id, std::string_view payload, uint8_t version = wire::kVersion);
  /// After what was sent (for a few seconds at most); the handler hears nothing any more.
  void close();
  /// Proven now (Proof.h): messages of up to so many bytes may come, and silence is fine.
  void trust(size_t most);
  bool closed() const;
  /// "10.0.0.2", "[fe80::1%2]": where the other end is, without its port; "an unknown address" of a closed one.
  std::string peerText() const;

 private:
  friend class ReactorState;
  Connection(std::shared_ptr<ReactorState> reactor, uint64_t key, int fd, std::shared_ptr<ConnectionHandler> handler)
      : reactor_(std::move(reactor)), key_(key), fd_(fd), handler_(std::move(handler)) {}

  const std::shared_ptr<ReactorState> reactor_;
  const uint64_t key_;
  wire::Parser parser_;  // Of the reactor's thread.
  // Guarded by the reactor's mutex:
  int fd_;
  std::shared_ptr<ConnectionHandler> handler_;
  std::string output_;
  size_t written_ = 0;  ///< Of output_.
  size_t longest_ = 0;  ///< The longest message since the output was empty.
  Status broken_;       ///< Why this end has ended it; the handler hears it soon.
  bool closing_ = false, wantsOutput_ = false;
  std::chrono::steady_clock::time_point since_{};  ///< A stranger's,
  std::chrono::steady_clock::time_point until_{};  ///< and the end of his time, or of a close.
};

/// Accepts connections until it is destroyed.
class Listener {
 public:
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  const Address& address() const { return address_; }  ///< With the port.

 private:
  friend class ReactorState;
  Listener(std::shared_ptr<ReactorState> reactor, uint64_t key, const Address& address)
      : reactor_(std::move(reactor)), key_(key), address_(address) {}
  const std::shared_ptr<ReactorState> reactor_;
  const uint64_t key_;
  const Address address_;
};

class Reactor {
 public:
  /// The process's; its thread is started when nobody has one. Errors: kResourceExhausted.
  static StatusOr<std::shared_ptr<Reactor>> acquire();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Port 0: any. Who comes is a stranger until the handler trusts him: he has small messages, ten seconds, and a place
  /// among so many others; the one who came first gives it up for the next. Errors: kAlreadyExists (the port is taken),
  /// kNotFound (not an address of this machine), kUnavailable.
  StatusOr<std::shared_ptr<Listener>> listen(const Address& address, std::shared_ptr<ConnectionHandler> handler);
  /// Takes over a connected socket. Until it is trusted only small messages come.
  StatusOr<std::shared_ptr<Connection>> adopt(int fd, std::shared_ptr<ConnectionHandler> handler);
  /// Calls it once on the thread, at the thread's end at the latest.
  void after(std::chrono::milliseconds delay, std::function<void()> what);

 private:
  Reactor() = default;
  std::shared_ptr<ReactorState> state_;
};

/// A connected socket; waits in the calling thread. Errors: kUnavailable (refused, unreachable),
/// kDeadlineExceeded, kResourceExhausted (no descriptors), what `stop` says: it is asked meanwhile.
StatusOr<int> connectTo(const Address& address, const base::Deadline& deadline,
                        const std::function<Status()>& stop = nullptr);
/// Where a connected socket is on this machine, port 0.
StatusOr<Address> localAddress(int fd);

}  // namespace hpu::collectives
