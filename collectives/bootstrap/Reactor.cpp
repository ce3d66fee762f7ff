// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Reactor.h"

#include <sys/socket.h>

#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/StatusMacros.h"
#include "base/Thread.h"
#include "collectives/bootstrap/ReactorState.h"

namespace hpu::collectives {

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
  }
  base::abandon(global().threads);
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
    if (global().ending) return programIsEnding();
    if (!global().hooked) {
      static constexpr base::ForkHandlers kHandlers = {prepareFork, parentAfterFork, childAfterFork};
      if (!base::atFork(base::ForkRank::kBootstrap, kHandlers))
        return resourceExhausted("cannot register a fork handler");
      global().hooked = true;
    }
    for (const auto& one : global().threads)
      if (one->left && !one->here()) left.push_back(one);
    auto running = std::make_shared<Running>();
    running->state = std::make_shared<ReactorState>();
    HPU_RETURN_IF_ERROR(running->state->open());
    try {
      running->thread = base::startThread("hpu-bootstrap", [state = running->state] { state->run(); });
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
StatusOr<std::shared_ptr<Connection>> Reactor::adopt(int fd, std::shared_ptr<ConnectionHandler> handler) {
  return state_->adopt(fd, std::move(handler));
}

void Reactor::after(std::chrono::milliseconds delay, std::function<void()> what) {
  state_->after(delay, std::move(what));
}

Listener::~Listener() {
  reactor_->removeListener(key_);
}

Status Connection::send(wire::MessageType type, uint64_t id, std::string_view payload, uint8_t version) {
  return reactor_->send(*this, type, id, payload, version);
}
void Connection::close() {
  reactor_->close(*this);
}
bool Connection::closed() const {
  std::lock_guard lock(reactor_->mutex_);
  return fd_ < 0 || closing_;
}
std::string Connection::peerText() const {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  std::lock_guard lock(reactor_->mutex_);
  if (fd_ >= 0 && ::getpeername(fd_, reinterpret_cast<sockaddr*>(&storage), &size) == 0)
    if (auto address = fromSockaddr(storage); address.ok()) {
      const std::string text = address->text();
      return text.substr(0, text.rfind(':'));
    }
  return "an unknown address";
}
void Connection::trust(size_t most) {
  std::lock_guard lock(reactor_->mutex_);
  until_ = {};
  reactor_->strangers_.erase(key_);
  parser_.setLimit(most);
}

}  // namespace hpu::collectives
