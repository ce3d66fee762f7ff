// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/ReactorState.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/Abandon.h"

namespace hpu::collectives {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr auto kStrangerPatience = std::chrono::seconds(10);
constexpr auto kClosePatience = std::chrono::seconds(3);
constexpr size_t kKeptBytes = size_t{1} << 20;  ///< Of a buffer that is empty.
constexpr int kBacklog = 4096;
constexpr int kLastRounds = 64;
constexpr int kMostAccepted = 64;  ///< At a time: those who are there speak meanwhile.
/// A stranger who has said nothing for so long is no rank.
constexpr auto kSilence = milliseconds(1000);
constexpr auto kDescriptorPause = milliseconds(50);  ///< Without descriptors.

void setNoDelay(int fd) {
  int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  // A peer whose machine is gone sends nothing; the system asks after it.
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  int idle = 15, interval = 5, count = 4;
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

}  // namespace

Status programIsEnding() {
  return failedPrecondition("this program is ending: no rank can join any more");
}

size_t mostStrangers() {
  constexpr size_t kMost = 1024, kLeast = 16;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return std::clamp<size_t>(limit.rlim_cur / 4, kLeast, kMost);
}

// ---- Sockets ------------------------------------------------------------------------------------

StatusOr<std::shared_ptr<Listener>> ReactorState::listen(const Address& address,
                                                         std::shared_ptr<ConnectionHandler> handler) {
  int fd = ::socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return resourceExhausted("cannot create a socket: " + base::errnoText(errno));
  int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_storage storage;
  socklen_t size = toSockaddr(address, storage);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&storage), size) != 0 || ::listen(fd, kBacklog) != 0) {
    int error = errno;
    ::close(fd);
    std::string text = base::strCat("cannot listen on ", address.text(), ": ", base::errnoText(error));
    if (error == EADDRINUSE) return alreadyExists(text);
    if (error == EADDRNOTAVAIL) return notFound(text);
    return unavailable(text);
  }
  size = sizeof storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  auto bound = fromSockaddr(storage);
  std::lock_guard lock(mutex_);
  uint64_t key = nextKey_++;
  Status watched = !bound.ok() ? bound.status() : stopping_ ? programIsEnding() : watch(fd, key);
  if (!watched.ok()) {
    ::close(fd);
    return watched;
  }
  listeners_[key] = {fd, std::move(handler), false};
  return std::shared_ptr<Listener>(new Listener(shared_from_this(), key, *bound));
}

void ReactorState::removeListener(uint64_t key) {
  std::shared_ptr<ConnectionHandler> handler;  // Goes outside of the lock.
  std::lock_guard lock(mutex_);
  auto it = listeners_.find(key);
  if (it == listeners_.end()) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, it->second.fd, nullptr);
  ::close(it->second.fd);
  handler = std::move(it->second.handler);
  listeners_.erase(it);
}

std::shared_ptr<Connection> ReactorState::addLocked(int fd, std::shared_ptr<ConnectionHandler> handler) {
  uint64_t key = nextKey_++;
  if (!watch(fd, key).ok()) return nullptr;
  std::shared_ptr<Connection> connection(new Connection(shared_from_this(), key, fd, std::move(handler)));
  connections_[key] = connection;
  return connection;
}

StatusOr<std::shared_ptr<Connection>> ReactorState::adopt(int fd, std::shared_ptr<ConnectionHandler> handler) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  setNoDelay(fd);
  std::lock_guard lock(mutex_);
  auto connection = stopping_ ? nullptr : addLocked(fd, std::move(handler));
  if (connection) {
    connection->parser_.setLimit(wire::kMaxAnswerBytes);
    return connection;
  }
  ::close(fd);
  return stopping_ ? programIsEnding() : resourceExhausted("cannot watch a socket");
}

void ReactorState::dropLocked(Connection& connection) {
  if (connection.fd_ < 0) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.fd_, nullptr);
  ::close(std::exchange(connection.fd_, -1));
  connection.output_.clear();
  connections_.erase(connection.key_);
  strangers_.erase(connection.key_);
  timed_.erase(connection.key_);
}

Status ReactorState::flushLocked(Connection& connection) {
  while (connection.written_ < connection.output_.size()) {
    ssize_t sent = ::send(connection.fd_, connection.output_.data() + connection.written_,
                          connection.output_.size() - connection.written_, MSG_NOSIGNAL);
    if (sent >= 0) {
      connection.written_ += static_cast<size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return unavailable(base::errnoText(errno));
    break;
  }
  bool all = connection.written_ == connection.output_.size();
  if (all) {
    connection.output_.clear();
    if (connection.output_.capacity() > kKeptBytes) connection.output_.shrink_to_fit();
    connection.written_ = connection.longest_ = 0;
  }
  if (connection.wantsOutput_ == all) {
    connection.wantsOutput_ = !all;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | (all ? 0u : static_cast<uint32_t>(EPOLLOUT));
    event.data.u64 = connection.key_;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd_, &event);
  }
  return okStatus();
}

Status ReactorState::send(Connection& connection, wire::MessageType type, uint64_t id, std::string_view payload,
                          uint8_t version) {
  std::lock_guard lock(mutex_);
  if (forked_) return failedPrecondition("a communicator does not survive a fork");
  if (connection.fd_ < 0 || connection.closing_) return unavailable("the connection is closed");
  if (!connection.broken_.ok()) return connection.broken_;
  // What has been taken is not kept until all has.
  if (connection.written_ > connection.output_.size() / 2)
    connection.output_.erase(0, std::exchange(connection.written_, 0));
  const size_t bytes = wire::kHeaderBytes + payload.size();
  connection.longest_ = std::max(connection.longest_, bytes);
  if (connection.output_.size() - connection.written_ + bytes > kMaxOutputBytes + connection.longest_) {
    connection.broken_ = resourceExhausted("the other side takes no messages");
    connection.output_ = {};
    connection.written_ = 0;
    // The thread finds its end, and tells the handler.
    ::shutdown(connection.fd_, SHUT_RDWR);
    return connection.broken_;
  }
  connection.output_ += wire::encodeFrame(type, id, payload, version);
  // A failure is found by the reactor's thread too, which tells the handler.
  return flushLocked(connection);
}

void ReactorState::close(Connection& connection) {
  std::shared_ptr<ConnectionHandler> handler;  // Goes outside of the lock.
  std::lock_guard lock(mutex_);
  handler = std::move(connection.handler_);
  connection.handler_ = nullptr;
  if (connection.fd_ < 0 || connection.closing_) return;
  connection.closing_ = true;
  if (forked_ || !flushLocked(connection).ok() || connection.output_.empty()) {
    dropLocked(connection);
    return;
  }
  connection.until_ = Clock::now() + kClosePatience;
  timed_[connection.key_] = connection.shared_from_this();
  wakeLocked();
}

void ReactorState::abandonInChild() {
  forked_ = true;
  for (auto& [key, connection] : connections_) {
    ::close(std::exchange(connection->fd_, -1));
    base::abandon(connection->handler_);
  }
  base::abandon(connections_);
  base::abandon(timed_);
  for (auto& [key, listener] : listeners_) ::close(listener.fd);
  base::abandon(listeners_);
  closeOwn();
}

void ReactorState::after(milliseconds delay, std::function<void()> what) {
  std::lock_guard lock(mutex_);
  timers_.emplace(Clock::now() + delay, std::move(what));
  wakeLocked();
}

// ---- The thread ---------------------------------------------------------------------------------

void ReactorState::run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    int timeout = expire();
    {
      std::lock_guard lock(mutex_);
      if (stopping_ && timed_.empty()) break;
    }
    int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout);
    for (int i = 0; i < count; ++i) onEvent(events[i].data.u64, events[i].events);
  }
  // What has come is still served: a rank of this very process may have given up, with a reason
  // that its coordinator passes on.
  for (int round = 0; round < kLastRounds; ++round) {
    int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    if (count <= 0) break;
    for (int i = 0; i < count; ++i) onEvent(events[i].data.u64, events[i].events);
  }
  // What was to be done later is done now: others wait for what the coordinator would say.
  std::multimap<Clock::time_point, std::function<void()>> timers;
  {
    std::lock_guard lock(mutex_);
    timers.swap(timers_);
  }
  for (auto& [when, call] : timers) call();
  // There is no handle any more and what is left are strangers, or the program is ending. All connections
  // end before the first handler hears of it: one that spreads the word would blame the others.
  std::vector<std::pair<std::shared_ptr<Connection>, std::shared_ptr<ConnectionHandler>>> left;
  {
    std::lock_guard lock(mutex_);
    for (auto& [key, connection] : connections_)
      left.emplace_back(connection, std::exchange(connection->handler_, nullptr));
    for (auto& [connection, handler] : left) dropLocked(*connection);
    // Now: who joins this thread may come late.
    closeOwn();
  }
  for (auto& [connection, handler] : left)
    if (handler) handler->onClosed(connection, unavailable("this program is ending"));
}

int ReactorState::expire() {
  std::vector<std::shared_ptr<Connection>> over;
  std::vector<std::function<void()>> due;
  int timeout = -1;
  {
    std::lock_guard lock(mutex_);
    auto now = Clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
      due.push_back(std::move(timers_.begin()->second));
      timers_.erase(timers_.begin());
    }
    if (!timers_.empty())
      timeout = static_cast<int>(
          std::min<int64_t>(std::chrono::ceil<milliseconds>(timers_.begin()->first - now).count(), INT32_MAX));
    std::erase_if(timed_, [&](auto& entry) {
      Connection& connection = *entry.second;
      if (connection.until_ == Clock::time_point{}) return true;  // It is trusted now.
      // At the end no stranger is waited for.
      if (connection.until_ <= now || (stopping_ && !connection.closing_)) {
        over.push_back(entry.second);
        return true;
      }
      auto left = std::chrono::ceil<milliseconds>(connection.until_ - now).count();
      timeout = timeout < 0 ? static_cast<int>(left) : std::min(timeout, static_cast<int>(left));
      return false;
    });
  }
  for (auto& connection : over) fail(connection, deadlineExceeded("the other side did not say who it is"));
  for (auto& call : due) call();
  return timeout;
}

void ReactorState::onEvent(uint64_t key, uint32_t events) {
  if (key == kWakeKey) {
    uint64_t count;
    while (::read(wake_, &count, sizeof count) > 0) {
    }
    return;
  }
  std::shared_ptr<Connection> connection;
  bool broken = false;
  {
    std::lock_guard lock(mutex_);
    auto it = connections_.find(key);
    if (it != connections_.end()) connection = it->second;
    if (connection && (events & EPOLLOUT)) {
      broken = !flushLocked(*connection).ok();
      if (connection->closing_ && (broken || connection->output_.empty())) {
        dropLocked(*connection);
        return;
      }
    }
  }
  if (!connection) return acceptSome(key);
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) readAll(connection);
}

bool ReactorState::dropStranger(milliseconds age) {
  std::shared_ptr<Connection> oldest;
  {
    std::lock_guard lock(mutex_);
    if (strangers_.empty()) return false;
    auto it = connections_.find(*strangers_.begin());
    if (it == connections_.end() || Clock::now() - it->second->since_ < age) return false;
    oldest = it->second;
  }
  fail(oldest, resourceExhausted("it has not said who it is, and others wait"));
  return true;
}

void ReactorState::heedLocked(uint64_t key, bool heed) {
  auto it = listeners_.find(key);
  if (it == listeners_.end() || epoll_ < 0) return;
  epoll_event event{};
  event.events = heed ? EPOLLIN | EPOLLRDHUP : 0u;
  event.data.u64 = key;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, it->second.fd, &event);
}

namespace {

/// Tells who has just been accepted why he cannot stay, in words that all versions understand, and closes.
void sendAway(int fd, const Status& why) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
  const auto here = fromSockaddr(own);
  const Status told(why.code(),
                    base::strCat("the process at ", here.ok() ? here->text() : "that address", " ", why.message()));
  const std::string frame = wire::encodeFrame(wire::MessageType::kError, 0, wire::encodeStatus(told));
  (void)!::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // Closed with unread bytes, a socket takes back what it has sent.
  std::array<char, wire::kMaxHelloBytes + wire::kHeaderBytes> unheard;
  (void)!::recv(fd, unheard.data(), unheard.size(), MSG_DONTWAIT);
  ::close(fd);
}

}  // namespace

bool ReactorState::withoutDescriptors(uint64_t key, int error) {
  // Ranks say at once who they are.
  if (dropStranger(kSilence)) return true;
  const Status why = resourceExhausted("cannot accept a rank: " + base::errnoText(error));
  std::shared_ptr<ConnectionHandler> handler;
  bool sentAway = false, warned = false;
  {
    std::lock_guard lock(mutex_);
    auto it = listeners_.find(key);
    if (it == listeners_.end()) return false;
    const bool mayBeFree = !strangers_.empty();  // They prove themselves, or make room.
    if (!mayBeFree && reserve_ >= 0) {
      ::close(std::exchange(reserve_, -1));
      const int fd = ::accept4(it->second.fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) sendAway(fd, why);
      sentAway = fd >= 0;
      takeReserve();
    }
    if (!sentAway) {
      // The socket stays readable: no reason to run in circles, nor to hold up those who are here.
      heedLocked(key, false);
      timers_.emplace(Clock::now() + kDescriptorPause, [this, key] {
        std::lock_guard again(mutex_);
        heedLocked(key, true);
        if (reserve_ < 0 && wake_ >= 0) takeReserve();
      });
    }
    if (mayBeFree) return false;
    warned = std::exchange(it->second.refused, true);
    handler = it->second.handler;
  }
  if (!warned) HPU_LOG(kWarning, why.message());
  if (handler) handler->onRefused(why);
  return sentAway;
}

void ReactorState::acceptSome(uint64_t key) {
  for (int count = 0; count < kMostAccepted; ++count) {
    std::unique_lock lock(mutex_);
    auto it = listeners_.find(key);
    if (it == listeners_.end()) return;
    int fd = ::accept4(it->second.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      const int error = errno;
      // A descriptor is asked for before it is known whether anybody waits.
      pollfd entry{it->second.fd, POLLIN, 0};
      if (::poll(&entry, 1, 0) == 0) return;
      lock.unlock();
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
        if (withoutDescriptors(key, error)) continue;
      return;
    }
    setNoDelay(fd);
    auto connection = addLocked(fd, it->second.handler);
    if (!connection) {
      ::close(fd);
      continue;
    }
    connection->since_ = Clock::now();
    connection->until_ = connection->since_ + kStrangerPatience;
    timed_[connection->key_] = connection;
    strangers_.insert(connection->key_);
    const bool tooMany = strangers_.size() > mostStrangers();
    lock.unlock();
    if (tooMany) dropStranger(milliseconds(0));
  }
}

void ReactorState::readAll(const std::shared_ptr<Connection>& connection) {
  thread_local std::array<char, 65536> buffer;
  // Some at a time: others have something to say too.
  for (int round = 0; round < 16; ++round) {
    ssize_t got;
    bool drain;
    std::shared_ptr<ConnectionHandler> handler;
    {
      std::lock_guard lock(mutex_);
      if (connection->fd_ < 0) return;
      got = ::recv(connection->fd_, buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      handler = connection->handler_;
      drain = connection->closing_;
      if (got <= 0 && drain) {
        dropLocked(*connection);
        return;
      }
      if (got > 0 && !drain) connection->parser_.append(buffer.data(), static_cast<size_t>(got));
    }
    if (got <= 0) {
      const int error = errno;
      Status why = unavailable(got == 0 ? "the connection was closed by the other side" : base::errnoText(error));
      {
        std::lock_guard lock(mutex_);
        if (!connection->broken_.ok()) why = connection->broken_;
      }
      fail(connection, why);
      return;
    }
    if (drain) continue;
    for (;;) {
      StatusOr<std::optional<wire::Frame>> frame = [&] {
        std::lock_guard lock(mutex_);
        return connection->parser_.next();
      }();
      if (!frame.ok()) {
        // Another release is told; who speaks something else is not answered.
        if (frame.status().code() == StatusCode::kUnimplemented) {
          wire::Writer out;
          out.status(frame.status());
          connection->send(wire::MessageType::kError, 0, out.take()).ignore();
        }
        fail(connection, frame.status());
        return;
      }
      if (!frame->has_value()) break;
      handler.reset();  // It may be the last one and end a reactor: not under the lock.
      {
        std::lock_guard lock(mutex_);
        handler = connection->handler_;
      }
      if (!handler) return;  // Closed by the handler meanwhile.
      handler->onFrame(connection, std::move(**frame));
    }
  }
}

void ReactorState::fail(const std::shared_ptr<Connection>& connection, const Status& why) {
  std::shared_ptr<ConnectionHandler> handler;
  {
    std::lock_guard lock(mutex_);
    if (connection->fd_ < 0) return;
    handler = std::move(connection->handler_);
    connection->handler_ = nullptr;
    dropLocked(*connection);
  }
  if (handler) handler->onClosed(connection, why);
}

}  // namespace hpu::collectives
