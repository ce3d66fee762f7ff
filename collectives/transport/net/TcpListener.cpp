// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/TcpListener.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/Format.h"
#include "base/Log.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/Reactor.h"
#include "collectives/transport/net/TcpHandles.h"
#include "collectives/transport/net/TcpLink.h"

namespace hpu::collectives::net::tcp {
namespace {

constexpr int kBacklog = 4096;
constexpr int kMostAccepted = 64;  ///< At a time.
constexpr auto kStrangerPatience = std::chrono::seconds(10);
constexpr auto kSilence = std::chrono::seconds(1);  ///< Of a stranger, where others have no descriptor.
constexpr auto kFarewellPatience = std::chrono::seconds(2);
constexpr size_t kMostFarewellBytes = 4096;
constexpr auto kDescriptorPause = std::chrono::milliseconds(50);

}  // namespace

// ---- Strangers ----------------------------------------------------------------------------------

/// A connection that has not proven a door's secret yet. Of the thread alone.
class TcpListener::Stranger : public Served {
 public:
  Stranger(std::shared_ptr<TcpListener> listener, Descriptor socket)
      : listener_(std::move(listener)), socket_(std::move(socket)) {}

  bool begin(uint64_t key) {
    key_ = key;
    until_ = Progress::Clock::now() + kStrangerPatience;
    listener_->progress_->wakeAt(key, until_);
    return listener_->progress_->watch(key, socket_.fd(), 0, EPOLLIN);
  }

  void serve(uint32_t ready) override {
    if (!socket_) return;
    Status status = Progress::Clock::now() < until_ ? read() : deadlineExceeded("it has not said who it is");
    if (!status.ok()) return end();
    if (farewell_ || !challenged_ || proven_ < proof_.size()) return;
    const auto listener = listener_;
    const std::string hello(reader_.hello());
    std::string said;
    const Meeting meeting = meetingOf(reader_.door(), hello, reader_.challenge(), own_, said);
    const auto door = listener->doorOf(reader_.door());
    // Not known here: it is not told why.
    if (!door || !isProof(proof_, door->secret, Side::kDialler, meeting)) return end();
    const Proof answer = prove(door->secret, Side::kListener, meeting);
    listener->progress_->watch(key_, socket_.fd(), EPOLLIN, 0);
    Descriptor socket = std::move(socket_);
    end();
    listener->greeted(std::move(socket), *door, hello, answer);
  }
  void endWith(const Status& why) override { end(); }
  /// Another one needs its place.
  void end() {
    if (socket_) listener_->progress_->watch(key_, socket_.fd(), EPOLLIN, 0);
    socket_.close();
    listener_->gone(key_);
  }

 private:
  /// Errors: its end.
  Status read() {
    std::array<std::byte, kMostHelloBytes> bytes;
    for (;;) {
      if (!farewell_ && !challenged_ && reader_.wanted() == 0) HPU_RETURN_IF_ERROR(challenge());
      size_t wanted = std::min(reader_.wanted(), bytes.size());
      if (farewell_) wanted = bytes.size();
      if (challenged_) wanted = proof_.size() - proven_;
      if (wanted == 0) return okStatus();
      const ssize_t got = ::recv(socket_.fd(), bytes.data(), wanted, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return okStatus();
      if (got <= 0) return unavailable("it is gone");
      if (farewell_) {
        after_ += static_cast<size_t>(got);
        if (after_ > kMostFarewellBytes) return invalidArgument("it says too much");
        continue;
      }
      if (challenged_) {
        std::memcpy(&proof_[proven_], bytes.data(), static_cast<size_t>(got));
        proven_ += static_cast<size_t>(got);
        continue;
      }
      Status status = reader_.add(std::span(bytes).first(static_cast<size_t>(got)));
      if (status.code() != StatusCode::kUnimplemented) {
        HPU_RETURN_IF_ERROR(status);
        continue;
      }
      // Another version is told; the connection ends when it has heard it: closed with unread bytes, a socket takes
      // back what it has sent.
      listener_->warnOfVersion(status);
      const auto answer = encodeAnswer(Answer::kOtherVersion);
      (void)!::send(socket_.fd(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      ::shutdown(socket_.fd(), SHUT_WR);
      farewell_ = true;
      until_ = Progress::Clock::now() + kFarewellPatience;
      listener_->progress_->wakeAt(key_, until_);
    }
  }

  /// The greeting is there. Errors: its end.
  Status challenge() {
    if (!listener_->doorOf(reader_.door())) return notFound("no such door");
    HPU_ASSIGN(own_, randomChallenge());
    std::array<std::byte, kAnswerBytes + sizeof(Challenge)> out;
    const auto answer = encodeAnswer(Answer::kProve);
    std::copy(answer.begin(), answer.end(), out.begin());
    std::memcpy(&out[kAnswerBytes], own_.data(), own_.size());
    // The first bytes that go there: the socket has room.
    if (::send(socket_.fd(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(out.size()))
      return unavailable("it is gone");
    challenged_ = true;
    return okStatus();
  }

  const std::shared_ptr<TcpListener> listener_;
  Descriptor socket_;
  uint64_t key_ = 0;
  GreetingReader reader_;
  bool challenged_ = false;
  Challenge own_{};
  Proof proof_{};
  size_t proven_ = 0;  ///< Bytes of it that have come.
  Progress::Clock::time_point until_;
  bool farewell_ = false;
  size_t after_ = 0;  ///< Bytes since the farewell.
};

// ---- Doors --------------------------------------------------------------------------------------

void DoorState::call(std::shared_ptr<Link> link, const std::string& hello) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    calling_ = true;
  }
  dialled_(std::move(link), hello);
  std::lock_guard lock(mutex_);
  calling_ = false;
  returned_.notify_all();
}

void DoorState::close(bool onThread) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  if (!onThread) returned_.wait(lock, [&] { return !calling_; });
}

void TcpListener::addDoor(std::shared_ptr<DoorState> door) {
  std::lock_guard lock(mutex_);
  doors_.push_back(std::move(door));
}

void TcpListener::removeDoor(const std::shared_ptr<DoorState>& door) {
  {
    std::lock_guard lock(mutex_);
    std::erase(doors_, door);
  }
  door->close(progress_->isHere());
}

// ---- The socket ---------------------------------------------------------------------------------

StatusOr<std::shared_ptr<TcpListener>> TcpListener::open(const std::shared_ptr<ProgressThread>& thread,
                                                         const Address& local) {
  auto listener = base::makeProcessOwned<TcpListener>(thread, local);
  HPU_RETURN_IF_ERROR(listener->listen());
  return listener;
}

Status TcpListener::listen() {
  std::lock_guard lock(mutex_);
  address_.port = 0;
  if (std::all_of(std::begin(address_.ip), std::end(address_.ip), [](uint8_t byte) { return byte == 0; }))
    return notFound("cannot listen on " + address_.text() + ": name one address of this machine");
  socket_ = Descriptor::open(
      [&] { return ::socket(address_.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
  if (!socket_) return resourceExhausted("cannot create a socket: " + base::errnoText(errno));
  setSocketOptions(socket_.fd());
  sockaddr_storage storage;
  socklen_t size = toSockaddr(address_, storage);
  if (::bind(socket_.fd(), reinterpret_cast<sockaddr*>(&storage), size) != 0 || ::listen(socket_.fd(), kBacklog) != 0) {
    const int error = errno;
    std::string text = base::strCat("cannot listen on ", address_.text(), ": ", base::errnoText(error));
    return error == EADDRNOTAVAIL ? notFound(text) : unavailable(text);
  }
  size = sizeof storage;
  ::getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&storage), &size);
  HPU_ASSIGN(address_, fromSockaddr(storage));
  key_ = progress_->add(shared_from_this());
  if (key_ == 0) return failedPrecondition("this program is ending: no network can be used any more");
  watched_ = EPOLLIN;
  if (progress_->watch(key_, socket_.fd(), 0, watched_)) return okStatus();
  progress_->remove(key_);
  return resourceExhausted("cannot watch a socket: " + base::errnoText(errno));
}

void TcpListener::close() {
  std::deque<Waiting> strangers;
  {
    std::lock_guard lock(mutex_);
    if (!socket_) return;
    progress_->watch(key_, socket_.fd(), watched_, 0);
    socket_.close();
    strangers.swap(strangers_);
  }
  progress_->remove(key_);
  for (const Waiting& one : strangers) progress_->remove(one.key);
}

void TcpListener::serve(uint32_t ready) {
  for (int count = 0; count < kMostAccepted; ++count) {
    Descriptor one;
    int error = 0;
    {
      std::lock_guard lock(mutex_);
      if (!socket_) return;
      if (ready == 0) {  // After a pause.
        if (progress_->watch(key_, socket_.fd(), watched_, EPOLLIN)) watched_ = EPOLLIN;
        ready = EPOLLIN;
      }
      one = Descriptor::open([&] { return ::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
      if (!one) error = errno;
      // A descriptor is asked for before it is known whether anybody waits.
      pollfd entry{socket_.fd(), POLLIN, 0};
      if (error != 0 && ::poll(&entry, 1, 0) == 0) return;
    }
    if (error == EINTR || error == ECONNABORTED) continue;
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    if (error != 0) {
      const bool full = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
      if (full && dropSilent()) continue;
      return pause(error);
    }
    setSocketOptions(one.fd());
    auto stranger = base::makeProcessOwned<Stranger>(shared_from_this(), std::move(one));
    const uint64_t key = progress_->add(stranger);
    if (key == 0) return;
    uint64_t oldest = 0;
    {
      std::lock_guard lock(mutex_);
      if (!socket_) return progress_->remove(key);  // Closed meanwhile.
      strangers_.push_back({key, Progress::Clock::now()});
      if (strangers_.size() > mostStrangers()) {
        oldest = strangers_.front().key;
        strangers_.pop_front();
      }
    }
    if (oldest != 0) progress_->remove(oldest);
    if (stranger->begin(key))
      stranger->serve(EPOLLIN);  // Most have said all by now.
    else
      stranger->end();
  }
}

void TcpListener::gone(uint64_t key) {
  progress_->remove(key);
  std::lock_guard lock(mutex_);
  std::erase_if(strangers_, [&](const Waiting& one) { return one.key == key; });
}

bool TcpListener::dropSilent() {
  uint64_t oldest = 0;
  {
    std::lock_guard lock(mutex_);
    if (strangers_.empty() || Progress::Clock::now() - strangers_.front().since < kSilence) return false;
    oldest = strangers_.front().key;
    strangers_.pop_front();
  }
  progress_->remove(oldest);  // Its socket goes with it.
  return true;
}

/// Without descriptors the socket stays readable: no reason to run in circles.
void TcpListener::pause(int error) {
  std::lock_guard lock(mutex_);
  if (!socket_) return;
  if (!std::exchange(warnedOfDescriptors_, true))
    HPU_LOG(kWarning, base::strCat("cannot accept links on ", address_.text(),
                                   " until descriptors or memory are free: ", base::errnoText(error)));
  if (progress_->watch(key_, socket_.fd(), watched_, 0)) watched_ = 0;
  progress_->wakeAt(key_, Progress::Clock::now() + kDescriptorPause);
}

std::shared_ptr<DoorState> TcpListener::doorOf(const DoorNumber& number) {
  std::lock_guard lock(mutex_);
  for (const auto& one : doors_)
    if (one->number == number) return one;
  return nullptr;
}

void TcpListener::greeted(Descriptor socket, DoorState& door, const std::string& hello, const Proof& proof) {
  auto handle = handle_.lock();
  if (!handle) return;
  auto link = base::makeProcessOwned<TcpLink>(progress_);
  if (!link->offer(std::move(socket), proof)) return;
  door.call(makeLinkHandle(std::move(handle), std::move(link)), hello);
}

void TcpListener::warnOfVersion(const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(warnedOfVersion_, true)) return;
  }
  HPU_LOG(kWarning, base::strCat("a process that wanted a link on ", address_.text(), " was refused: ", why.message()));
}

}  // namespace hpu::collectives::net::tcp
