// SPDX-License-Identifier: Apache-2.0
// ReactorState: the sockets of a Reactor and what its thread does with them.
// The one thing to know: connections, listeners and the thread share it; it lives until the last of
// them is gone.
#pragma once

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/Format.h"
#include "base/Log.h"
#include "collectives/bootstrap/Reactor.h"

namespace hpu::collectives {

/// What those hear who come after the last thread has been stopped.
Status programIsEnding();

class ReactorState : public std::enable_shared_from_this<ReactorState> {
 public:
  ~ReactorState() {
    for (auto& [key, listener] : listeners_) ::close(listener.fd);
    closeOwn();
  }

  Status open() {
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_ < 0 || wake_ < 0)
      return resourceExhausted("cannot create the bootstrap's descriptors: " + base::errnoText(errno));
    takeReserve();
    return watch(wake_, kWakeKey);
  }

  void run();
  void stop() {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wakeLocked();
  }

  StatusOr<std::shared_ptr<Listener>> listen(const Address& address, std::shared_ptr<ConnectionHandler> handler);
  StatusOr<std::shared_ptr<Connection>> adopt(int fd, std::shared_ptr<ConnectionHandler> handler);
  void removeListener(uint64_t key);
  void after(std::chrono::milliseconds delay, std::function<void()> what);

  Status send(Connection& connection, wire::MessageType type, uint64_t id, std::string_view payload, uint8_t version);
  void close(Connection& connection);

  mutable std::mutex mutex_;      // Guards everything, and what connections say it does.
  std::set<uint64_t> strangers_;  ///< Keys of those that were accepted and are not trusted; the first one came first.
  bool forked_ = false;           ///< This is a child: the thread is its parent's.

  /// In a forked child, under the locks: closes everything. Handlers are never let go: their
  /// destructors would take locks that are held, or that threads held which are not here.
  void abandonInChild();

 private:
  static constexpr uint64_t kWakeKey = 0;  ///< Of no connection.
  struct Accepting {
    int fd = -1;
    std::shared_ptr<ConnectionHandler> handler;
    bool refused = false;  ///< The log says that there are no descriptors.
  };

  Status watch(int fd, uint64_t key) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u64 = key;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) return okStatus();
    return resourceExhausted("cannot watch a socket: " + base::errnoText(errno));
  }
  void wakeLocked() {
    if (wake_ < 0) return;  // The thread has ended, or is a parent's.
    uint64_t one = 1;
    if (::write(wake_, &one, sizeof one) < 0 && errno != EAGAIN)
      HPU_LOG(kError, "cannot wake the bootstrap's thread: " + base::errnoText(errno));
  }
  std::shared_ptr<Connection> addLocked(int fd, std::shared_ptr<ConnectionHandler> handler);
  void dropLocked(Connection& connection);
  /// Errors: the peer is gone.
  Status flushLocked(Connection& connection);
  void onEvent(uint64_t key, uint32_t events);
  void acceptSome(uint64_t key);
  /// Nobody can be accepted (`error`). False: there is nothing more to do for now.
  bool withoutDescriptors(uint64_t key, int error);
  /// Looks at a listening socket, or does not.
  void heedLocked(uint64_t key, bool heed);
  /// A descriptor to give up when there is no other one, so that who comes can be sent away.
  void takeReserve() { reserve_ = ::fcntl(wake_, F_DUPFD_CLOEXEC, 0); }
  void closeOwn() {
    for (int* fd : {&epoll_, &wake_, &reserve_})
      if (*fd >= 0) ::close(std::exchange(*fd, -1));
  }
  /// Ends the connection of the stranger who came first, if that was so long ago at least.
  bool dropStranger(std::chrono::milliseconds age);
  void readAll(const std::shared_ptr<Connection>& connection);
  void fail(const std::shared_ptr<Connection>& connection, const Status& why);
  /// Ends what is over, calls what is due; milliseconds until the next look, -1 for none.
  int expire();

  int epoll_ = -1, wake_ = -1, reserve_ = -1;
  bool stopping_ = false;
  uint64_t nextKey_ = 1;
  std::unordered_map<uint64_t, std::shared_ptr<Connection>> connections_;
  std::unordered_map<uint64_t, Accepting> listeners_;
  std::unordered_map<uint64_t, std::shared_ptr<Connection>> timed_;  ///< Those with an `until_`.
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> timers_;
};

}  // namespace hpu::collectives
