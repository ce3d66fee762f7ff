// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Reactor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/Format.h"
#include "base/Log.h"
#include "base/StatusMacros.h"

namespace hpu::collectives {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr uint64_t kWakeKey = 0;
constexpr auto kStrangerPatience = std::chrono::seconds(10);
constexpr auto kClosePatience = std::chrono::seconds(3);
constexpr size_t kMaxOutputBytes = size_t{2} << 30;  ///< A peer that takes nothing is given up.
constexpr int kBacklog = 4096;

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

Status ending() {
  return failedPrecondition("this program is ending: no rank can join any more");
}

}  // namespace

class ReactorState : public std::enable_shared_from_this<ReactorState> {
 public:
  ~ReactorState() {
    for (auto& [key, listener] : listeners_) ::close(listener.fd);
    if (epoll_ >= 0) ::close(epoll_);
    if (wake_ >= 0) ::close(wake_);
  }

  Status open() {
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_ < 0 || wake_ < 0)
      return resourceExhausted("cannot create the bootstrap's descriptors: " +
                               base::errnoText(errno));
    return watch(wake_, kWakeKey);
  }

  void run();
  void stop() {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wakeLocked();
  }

  StatusOr<std::shared_ptr<Listener>> listen(const Address& address,
                                             std::shared_ptr<ConnectionHandler> handler);
  StatusOr<std::shared_ptr<Connection>> adopt(int fd, std::shared_ptr<ConnectionHandler> handler);
  void removeListener(uint64_t key);

  Status send(Connection& connection, wire::MessageType type, uint64_t id,
              std::string_view payload);
  void close(Connection& connection);

  mutable std::mutex mutex_;  // Guards everything, and what connections say it does.
  bool forked_ = false;       ///< This is a child: the thread is its parent's.

  void abandonInChild();

 private:
  struct Accepting {
    int fd = -1;
    std::shared_ptr<ConnectionHandler> handler;
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
  void acceptAll(uint64_t key);
  void readAll(const std::shared_ptr<Connection>& connection);
  void fail(const std::shared_ptr<Connection>& connection, const Status& why);
  /// Ends what is over; milliseconds until the next look, -1 for none.
  int expire();

  int epoll_ = -1, wake_ = -1;
  bool stopping_ = false;
  uint64_t nextKey_ = 1;
  std::unordered_map<uint64_t, std::shared_ptr<Connection>> connections_;
  std::unordered_map<uint64_t, Accepting> listeners_;
  std::unordered_map<uint64_t, std::shared_ptr<Connection>> timed_;  ///< Those with an `until_`.
};

// ---- The process's reactor ----------------------------------------------------------------------

namespace {

/// A reactor's thread.
struct Running {
  std::shared_ptr<ReactorState> state;
  std::thread thread;
  std::thread::id id;  ///< Of the thread, for others to read while one joins it.
  bool left = false;   ///< The last owner was on this very thread, so nobody has joined it.
  std::mutex joining;  // One joins, others wait for it.

  bool here() const { return id == std::this_thread::get_id(); }
  void join() {
    std::lock_guard lock(joining);
    if (thread.joinable()) thread.join();
  }
};

struct Global {
  std::mutex mutex;  // Guards all; taken before a state's.
  std::weak_ptr<Reactor> current;
  std::vector<std::shared_ptr<Running>> threads;  ///< Each from its start until it is joined.
  std::vector<std::shared_ptr<Running>> parents;  ///< In a child: never to be joined.
  bool hooked = false;
  bool ending = false;

  void forget(const std::shared_ptr<Running>& one) {
    std::lock_guard lock(mutex);
    std::erase(threads, one);
  }
};
Global& global() {
  static Global* instance = new Global;  // Threads may outlive statics.
  return *instance;
}

void prepareFork() {
  global().mutex.lock();
  for (auto& one : global().threads) one->state->mutex_.lock();
}
void parentAfterFork() {
  for (auto& one : global().threads) one->state->mutex_.unlock();
  global().mutex.unlock();
}
/// The child keeps none of its parent's sockets, or their peers would not see the parent's end.
void childAfterFork() {
  for (auto& one : global().threads) {
    one->state->abandonInChild();
    one->state->mutex_.unlock();
    global().parents.push_back(std::move(one));
  }
  global().threads.clear();
  global().current.reset();
  global().mutex.unlock();
}

/// No thread outlives the program, or the library when it is unloaded. A static of the library and
/// not an exit handler made when the first reactor is: a program's own statics may hold
/// communicators and still end them in order.
struct JoinAtExit {
  ~JoinAtExit() {
    std::vector<std::shared_ptr<Running>> threads;
    {
      std::lock_guard lock(global().mutex);
      global().ending = true;
      threads = global().threads;
    }
    for (auto& one : threads) one->state->stop();
    for (auto& one : threads) {
      if (one->here()) continue;
      one->join();
      global().forget(one);
    }
  }
} joinAtExit;

}  // namespace

StatusOr<std::shared_ptr<Reactor>> Reactor::acquire() {
  std::vector<std::shared_ptr<Running>> left;
  std::shared_ptr<Reactor> reactor;
  {
    std::lock_guard lock(global().mutex);
    if (auto current = global().current.lock()) return current;
    if (global().ending) return ending();
    if (!global().hooked) {
      if (::pthread_atfork(prepareFork, parentAfterFork, childAfterFork) != 0)
        return resourceExhausted("cannot register a fork handler");
      global().hooked = true;
    }
    for (const auto& one : global().threads)
      if (one->left && !one->here()) left.push_back(one);
    auto running = std::make_shared<Running>();
    running->state = std::make_shared<ReactorState>();
    HPU_RETURN_IF_ERROR(running->state->open());
    try {
      running->thread = std::thread([state = running->state] { state->run(); });
    } catch (const std::system_error&) {
      return resourceExhausted("cannot start the bootstrap's thread");
    }
    running->id = running->thread.get_id();
    reactor.reset(new Reactor);
    reactor->state_ = running->state;
    global().threads.push_back(std::move(running));
    global().current = reactor;
  }
  for (const auto& one : left) {
    one->join();
    global().forget(one);
  }
  return reactor;
}

Reactor::~Reactor() {
  std::shared_ptr<Running> running;
  {
    std::lock_guard lock(global().mutex);
    // Not there: joined at exit, or a parent's.
    for (const auto& one : global().threads)
      if (one->state == state_) running = one;
    if (!running) return;
    running->left = running->here();
  }
  state_->stop();
  if (running->left) return;
  running->join();
  global().forget(running);
}

StatusOr<std::shared_ptr<Listener>> Reactor::listen(const Address& address,
                                                    std::shared_ptr<ConnectionHandler> handler) {
  return state_->listen(address, std::move(handler));
}
StatusOr<std::shared_ptr<Connection>> Reactor::adopt(int fd,
                                                     std::shared_ptr<ConnectionHandler> handler) {
  return state_->adopt(fd, std::move(handler));
}

Listener::~Listener() {
  reactor_->removeListener(key_);
}

Status Connection::send(wire::MessageType type, uint64_t id, std::string_view payload) {
  return reactor_->send(*this, type, id, payload);
}
void Connection::close() {
  reactor_->close(*this);
}
bool Connection::closed() const {
  std::lock_guard lock(reactor_->mutex_);
  return fd_ < 0 || closing_;
}
void Connection::trust() {
  std::lock_guard lock(reactor_->mutex_);
  trusted_ = true;
  until_ = {};
  parser_.setLimit(wire::kMaxPayloadBytes);
}

// ---- Sockets ------------------------------------------------------------------------------------

StatusOr<std::shared_ptr<Listener>> ReactorState::listen(
    const Address& address, std::shared_ptr<ConnectionHandler> handler) {
  int fd = ::socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return unavailable("cannot create a socket: " + base::errnoText(errno));
  int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_storage storage;
  socklen_t size = toSockaddr(address, storage);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&storage), size) != 0 || ::listen(fd, kBacklog) != 0) {
    int error = errno;
    ::close(fd);
    std::string text =
        base::strCat("cannot listen on ", address.text(), ": ", base::errnoText(error));
    if (error == EADDRINUSE) return alreadyExists(text);
    if (error == EADDRNOTAVAIL) return notFound(text);
    return unavailable(text);
  }
  size = sizeof storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  auto bound = fromSockaddr(storage);
  std::lock_guard lock(mutex_);
  uint64_t key = nextKey_++;
  Status watched = !bound.ok() ? bound.status() : stopping_ ? ending() : watch(fd, key);
  if (!watched.ok()) {
    ::close(fd);
    return watched;
  }
  listeners_[key] = {fd, std::move(handler)};
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

std::shared_ptr<Connection> ReactorState::addLocked(int fd,
                                                    std::shared_ptr<ConnectionHandler> handler) {
  uint64_t key = nextKey_++;
  if (!watch(fd, key).ok()) return nullptr;
  std::shared_ptr<Connection> connection(
      new Connection(shared_from_this(), key, fd, std::move(handler)));
  connections_[key] = connection;
  return connection;
}

StatusOr<std::shared_ptr<Connection>> ReactorState::adopt(
    int fd, std::shared_ptr<ConnectionHandler> handler) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  setNoDelay(fd);
  std::lock_guard lock(mutex_);
  auto connection = stopping_ ? nullptr : addLocked(fd, std::move(handler));
  if (connection) return connection;
  ::close(fd);
  return stopping_ ? ending() : resourceExhausted("cannot watch a socket");
}

void ReactorState::dropLocked(Connection& connection) {
  if (connection.fd_ < 0) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.fd_, nullptr);
  ::close(std::exchange(connection.fd_, -1));
  connection.output_.clear();
  connections_.erase(connection.key_);
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
    connection.written_ = 0;
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

Status ReactorState::send(Connection& connection, wire::MessageType type, uint64_t id,
                          std::string_view payload) {
  std::lock_guard lock(mutex_);
  if (forked_) return failedPrecondition("a communicator does not survive a fork");
  if (connection.fd_ < 0 || connection.closing_) return unavailable("the connection is closed");
  if (connection.output_.size() + payload.size() > kMaxOutputBytes)
    return resourceExhausted("the other side takes no messages");
  connection.output_ += wire::encodeFrame(type, id, payload);
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
    connection->handler_ = nullptr;
  }
  connections_.clear();
  timed_.clear();
  for (auto& [key, listener] : listeners_) ::close(listener.fd);
  listeners_.clear();
  ::close(std::exchange(epoll_, -1));
  ::close(std::exchange(wake_, -1));
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
  // Nobody has a handle and what is left are strangers, or the program is ending. All connections
  // end before the first handler hears of it: one that spreads the word would blame the others.
  std::vector<std::pair<std::shared_ptr<Connection>, std::shared_ptr<ConnectionHandler>>> left;
  {
    std::lock_guard lock(mutex_);
    for (auto& [key, connection] : connections_)
      left.emplace_back(connection, std::exchange(connection->handler_, nullptr));
    for (auto& [connection, handler] : left) dropLocked(*connection);
    // Now: who joins this thread may come late.
    ::close(std::exchange(epoll_, -1));
    ::close(std::exchange(wake_, -1));
  }
  for (auto& [connection, handler] : left)
    if (handler) handler->onClosed(connection, unavailable("this program is ending"));
}

int ReactorState::expire() {
  std::vector<std::shared_ptr<Connection>> over;
  int timeout = -1;
  {
    std::lock_guard lock(mutex_);
    auto now = Clock::now();
    std::erase_if(timed_, [&](auto& entry) {
      Connection& connection = *entry.second;
      if (connection.until_ == Clock::time_point{}) return true;  // It is trusted now.
      // Nobody is left to wait for a stranger.
      if (connection.until_ <= now || (stopping_ && !connection.closing_)) {
        over.push_back(entry.second);
        return true;
      }
      auto left = std::chrono::ceil<milliseconds>(connection.until_ - now).count();
      timeout = timeout < 0 ? static_cast<int>(left) : std::min(timeout, static_cast<int>(left));
      return false;
    });
  }
  for (auto& connection : over)
    fail(connection, deadlineExceeded("the other side did not say who it is"));
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
  if (!connection) return acceptAll(key);
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) readAll(connection);
}

void ReactorState::acceptAll(uint64_t key) {
  for (;;) {
    std::lock_guard lock(mutex_);
    auto it = listeners_.find(key);
    if (it == listeners_.end()) return;
    int fd = ::accept4(it->second.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Without descriptors the socket stays readable: no reason to run in circles.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        HPU_LOG(kWarning, "cannot accept a rank: " + base::errnoText(errno));
        ::usleep(20000);
      }
      return;
    }
    setNoDelay(fd);
    auto connection = addLocked(fd, it->second.handler);
    if (!connection) {
      ::close(fd);
      continue;
    }
    connection->until_ = Clock::now() + kStrangerPatience;
    timed_[connection->key_] = connection;
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
      fail(connection, unavailable(got == 0 ? "the connection was closed by the other side"
                                            : base::errnoText(errno)));
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
