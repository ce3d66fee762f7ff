// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/TcpLink.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/Connected.h"

namespace hpu::collectives::net::tcp {
namespace {

constexpr auto kClosePatience = std::chrono::seconds(2);
/// Of one link before the others have their turn: so much comes in, and goes out.
constexpr size_t kTurnBytes = size_t{1} << 20;
/// What a caller's thread sends itself before the progress thread goes on with it.
constexpr size_t kCallBytes = size_t{4} << 20;
constexpr size_t kAheadBytes = size_t{64} << 10;

/// What is read ahead; of the progress thread.
std::span<std::byte> aheadBuffer() {
  thread_local std::array<std::byte, kAheadBytes> buffer;
  return buffer;
}

Status ended(ssize_t got, int error) {
  if (got == 0) return unavailable("the other end has closed the connection");
  return unavailable("the connection broke: " + base::errnoText(error));
}
bool isLater(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

std::string addressText(int fd, int (*ask)(int, sockaddr*, socklen_t*) noexcept) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (ask(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return "?";
  auto address = fromSockaddr(storage);
  return address.ok() ? address->text() : "?";
}

}  // namespace

void setSocketOptions(int fd) {
  auto set = [&](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A peer whose machine is gone sends nothing: the system asks after it, and does not wait for it longer than this.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60000);
  // SO_SNDBUF and SO_RCVBUF stay as they are: the system lets both grow as the connection needs it, beyond what a
  // program may ask for, and no more once they are set.
}

// ---- Beginnings ---------------------------------------------------------------------------------

void TcpLink::dial(const Status& failed, const Dialling& whom, const Address& local, std::shared_ptr<LinkEvents> events,
                   const base::Deadline& deadline) {
  events_ = std::move(events);
  whom_ = whom;
  Address to = whom.place.address;
  to.scope = to.v6 ? local.scope : 0;
  key_ = progress_->add(shared_from_this());
  std::lock_guard lock(mutex_);
  to_ = to.text();
  from_ = local.text();
  if (key_ == 0) {
    state_ = State::kEnded;
    return;
  }
  until_ = deadline.time();
  progress_->wakeAt(key_, until_);
  if (!failed.ok()) return failLocked(failed);
  if (to.v6 != local.v6) return failLocked(invalidArgument("one of the addresses is IPv4 and the other one IPv6"));
  socket_ = Descriptor::open(
      [&] { return ::socket(to.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
  if (!socket_) return failLocked(resourceExhausted("cannot create a socket: " + base::errnoText(errno)));
  setSocketOptions(socket_.fd());
  int one = 1;
  ::setsockopt(socket_.fd(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
  sockaddr_storage storage;
  socklen_t size = toSockaddr(local, storage);
  if (::bind(socket_.fd(), reinterpret_cast<sockaddr*>(&storage), size) != 0)
    return failLocked(unavailable("cannot dial from there: " + base::errnoText(errno)));
  size = toSockaddr(to, storage);
  if (::connect(socket_.fd(), reinterpret_cast<sockaddr*>(&storage), size) != 0 && errno != EINPROGRESS)
    return failLocked(unavailable("cannot connect: " + base::errnoText(errno)));
  from_ = addressText(socket_.fd(), ::getsockname);
  watchLocked();
}

bool TcpLink::offer(Descriptor socket, const Proof& proof) {
  proof_ = proof;
  key_ = progress_->add(shared_from_this());
  std::lock_guard lock(mutex_);
  if (key_ == 0) return false;
  state_ = State::kOffered;
  socket_ = std::move(socket);
  from_ = addressText(socket_.fd(), ::getsockname);
  to_ = addressText(socket_.fd(), ::getpeername);
  return true;
}

void TcpLink::start(std::shared_ptr<LinkEvents> events) {
  {
    std::lock_guard lock(eventMutex_);
    if (!isSilent()) events_ = std::move(events);
  }
  std::lock_guard lock(mutex_);
  if (state_ != State::kOffered) return;
  state_ = State::kUp;
  output_.addBytes(encodeAnswer(Answer::kWelcome));
  output_.addBytes(std::as_bytes(std::span(proof_)));
  flushLocked(kCallBytes);
  watchLocked();
  progress_->poke(key_);  // For who was refused before it.
}

// ---- Out ----------------------------------------------------------------------------------------

void TcpLink::watchLocked() {
  if (!socket_) return;
  const uint32_t out = output_.empty() ? 0U : static_cast<uint32_t>(EPOLLOUT);
  uint32_t wanted = 0;
  if (state_ == State::kDialling) wanted = EPOLLOUT;
  if (state_ == State::kGreeting || state_ == State::kUp || state_ == State::kClosing) wanted = EPOLLIN | out;
  if (progress_->watch(key_, socket_.fd(), watched_, wanted))
    watched_ = wanted;
  else
    failLocked(resourceExhausted("cannot watch a socket: " + base::errnoText(errno)));
}

void TcpLink::failLocked(const Status& why) {
  if (failure_.ok()) failure_ = why;
  output_.clear();
  progress_->poke(key_);
}

bool TcpLink::flushLocked(size_t budget) {
  if (Status status = output_.flush(socket_.fd(), budget, written_); !status.ok()) failLocked(status);
  return !written_.empty();
}

bool TcpLink::send(std::span<const std::byte> frame) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kClosing || state_ == State::kEnded) return true;
  if (frame.size() > kMostFrameBytes) {
    failLocked(internalError(base::strCat("a frame of ", frame.size(), " bytes; at most ", kMostFrameBytes)));
    return true;
  }
  if (!failure_.ok()) return true;
  if (state_ != State::kUp || !output_.hasRoom(frame.size(), false)) {
    refused_ = true;
    return false;
  }
  if (!output_.empty()) {
    output_.addFrame(frame);
    return true;
  }
  if (Status status = output_.sendFrame(socket_.fd(), frame); !status.ok()) failLocked(status);
  if (!output_.empty()) watchLocked();
  return true;
}

bool TcpLink::write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
                    std::span<const std::byte> frame) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kClosing || state_ == State::kEnded) return true;
  if (frame.size() > kMostFrameBytes || bytes <= 0 || static_cast<uint64_t>(bytes) > kMostWriteBytes) {
    failLocked(internalError(base::strCat("a write of ", bytes, " bytes with a frame of ", frame.size())));
    return true;
  }
  if (!failure_.ok()) return true;
  if (state_ != State::kUp || !output_.hasRoom(frame.size(), true)) {
    refused_ = true;
    return false;
  }
  const bool first = output_.empty();
  output_.addWrite(id, data, bytes, to, frame);
  if (!first) return true;
  if (flushLocked(kCallBytes)) progress_->poke(key_);
  if (!output_.empty()) watchLocked();
  return true;
}

bool TcpLink::drained() {
  std::lock_guard lock(mutex_);
  if (state_ != State::kUp || !failure_.ok() || output_.empty()) return true;
  drainAsked_ = true;
  return false;
}

// ---- In -----------------------------------------------------------------------------------------

Window TcpLink::openWindow(std::byte* data, int64_t bytes) {
  std::lock_guard lock(windowMutex_);
  return isSilent() ? Window{} : windows_.open(data, bytes);
}

void TcpLink::closeWindow(const Window& window) {
  std::lock_guard lock(windowMutex_);
  windows_.close(window);
}

Status TcpLink::read() {
  const std::span<std::byte> ahead = aheadBuffer();
  for (size_t budget = kTurnBytes; budget > 0 && !isSilent();) {
    std::array<iovec, 2> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    size_t straight = 0, asked = 0;
    auto add = [&](std::byte* bytes, size_t size) {
      parts[message.msg_iovlen++] = {bytes, size};
      asked += size;
    };
    ssize_t got;
    {
      std::lock_guard lock(windowMutex_);
      const uint64_t left = reader_.dataLeft();
      if (left > 0 && windows_.target()) {
        straight = static_cast<size_t>(std::min<uint64_t>(left, budget));
        add(windows_.target(), straight);
      }
      if (straight == left || straight == 0) add(ahead.data(), ahead.size());
      got = ::recvmsg(socket_.fd(), &message, MSG_DONTWAIT);
      straight = std::min(straight, got > 0 ? static_cast<size_t>(got) : 0);
      windows_.took(straight);
    }
    if (got <= 0) {
      if (got == 0 || !isLater(errno)) return ended(got, errno);
      return okStatus();
    }
    if (straight > 0) reader_.tookData(straight);
    HPU_RETURN_IF_ERROR(onBytes(ahead.first(static_cast<size_t>(got) - straight)));
    if (static_cast<size_t>(got) < asked) break;  // That was all.
    budget -= std::min(budget, static_cast<size_t>(got));
  }
  return okStatus();
}

Status TcpLink::onBytes(std::span<const std::byte> bytes) {
  while (!isSilent()) {
    HPU_ASSIGN(const MessageReader::Item item, reader_.next(bytes));
    switch (item.kind) {
      case MessageReader::Kind::kNothing:
        return okStatus();
      case MessageReader::Kind::kWrite: {
        std::lock_guard lock(windowMutex_);
        if (!isSilent()) HPU_RETURN_IF_ERROR(windows_.begin(reader_.header()));
        break;
      }
      case MessageReader::Kind::kData: {
        std::lock_guard lock(windowMutex_);
        if (windows_.target()) std::memcpy(windows_.target(), item.bytes.data(), item.bytes.size());
        windows_.took(item.bytes.size());
        break;
      }
      case MessageReader::Kind::kGivenUp:
      case MessageReader::Kind::kFrame: {
        {
          std::lock_guard lock(windowMutex_);
          windows_.end();
        }
        if (item.kind == MessageReader::Kind::kFrame) eventsNow_->onFrame(item.bytes);
        break;
      }
    }
  }
  return okStatus();
}

// ---- The thread ---------------------------------------------------------------------------------

void TcpLink::serve(uint32_t ready) {
  turn([&] { serveState(ready); });
}

void TcpLink::endWith(const Status& why) {
  turn([&] { finish(why); });
}

void TcpLink::turn(base::FunctionRef<void()> body) {
  std::shared_ptr<LinkEvents> events;  // Kept for as long as one of its calls may run.
  {
    std::lock_guard lock(eventMutex_);
    if (!isSilent()) events = events_;
    telling_ = true;
  }
  eventsNow_ = events.get();
  body();
  eventsNow_ = nullptr;
  std::lock_guard lock(eventMutex_);
  telling_ = false;
  told_.notify_all();
}

void TcpLink::serveState(uint32_t ready) {
  State state;
  Status status;
  bool late;
  {
    std::lock_guard lock(mutex_);
    state = state_;
    if (state != State::kUp) status = failure_;
    late = Progress::Clock::now() >= until_;
  }
  if (status.ok() && (state == State::kDialling || state == State::kGreeting)) {
    if (state == State::kDialling && ready != 0) status = connected();
    if (state == State::kGreeting && ready != 0) status = readAnswer();
    if (status.ok() && late) status = deadlineExceeded("the other end has not answered in time");
  }
  if (!status.ok()) return finish(status);
  if (state == State::kClosing) return late ? finish(okStatus()) : serveClosing();
  {
    std::lock_guard lock(mutex_);
    state = state_;
  }
  if (state == State::kUp) serveUp(ready);
}

Status TcpLink::connected() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error == 0 && isConnectedWithItself(socket_.fd())) error = ECONNREFUSED;
  if (error != 0) return unavailable("cannot connect: " + base::errnoText(error));
  std::lock_guard lock(mutex_);
  if (state_ != State::kDialling) return okStatus();
  from_ = addressText(socket_.fd(), ::getsockname);
  state_ = State::kGreeting;
  const std::string greeting = encodeGreeting(whom_.place.door, whom_.challenge, whom_.hello);
  output_.addBytes(std::as_bytes(std::span(greeting)));
  flushLocked(kTurnBytes);
  watchLocked();
  return failure_;
}

Status TcpLink::readAnswer() {
  {
    std::lock_guard lock(mutex_);
    if (!output_.empty()) flushLocked(kTurnBytes);
    watchLocked();
  }
  const auto first = std::span(answer_).first<kAnswerBytes>();
  for (;;) {
    const ssize_t got = ::recv(socket_.fd(), &answer_[answered_], answerBytes_ - answered_, MSG_DONTWAIT);
    if (got < 0 && isLater(errno)) return okStatus();
    if (got <= 0)
      return ended(got, errno).withContext(proved_ ? "no answer (does it have the same secret?)" : "no answer");
    answered_ += static_cast<size_t>(got);
    // Who speaks another version may have another answer behind the prologue.
    if (answered_ >= kPrologueBytes) HPU_RETURN_IF_ERROR(checkPrologue(first));
    if (answered_ < answerBytes_) continue;
    if (answerBytes_ < answer_.size()) {
      HPU_RETURN_IF_ERROR(decodeAnswer(first, proved_ ? Answer::kWelcome : Answer::kProve));
      answerBytes_ = answer_.size();
      continue;
    }
    const bool last = proved_;
    HPU_RETURN_IF_ERROR(onAnswer());
    if (last) return okStatus();
  }
}

Status TcpLink::onAnswer() {
  std::array<uint8_t, 32> bytes;
  std::memcpy(bytes.data(), &answer_[kAnswerBytes], bytes.size());
  if (!proved_) theirs_ = bytes;
  std::string said;
  const Meeting meeting = meetingOf(whom_.place.door, whom_.hello, whom_.challenge, theirs_, said);
  if (proved_ && !isProof(bytes, whom_.secret, Side::kListener, meeting))
    return unavailable("who answers does not know the communicator's secret");
  std::lock_guard lock(mutex_);
  if (!std::exchange(proved_, true)) {
    answered_ = 0;
    answerBytes_ = kAnswerBytes;
    if (state_ != State::kGreeting) return okStatus();
    const Proof proof = prove(whom_.secret, Side::kDialler, meeting);
    output_.addBytes(std::as_bytes(std::span(proof)));
    flushLocked(kTurnBytes);
    watchLocked();
    return failure_;
  }
  if (state_ != State::kGreeting) return okStatus();
  state_ = State::kUp;
  until_ = Progress::Clock::time_point::max();
  progress_->wakeAt(key_, until_);
  refused_ = true;
  return okStatus();
}

void TcpLink::serveUp(uint32_t ready) {
  std::vector<uint64_t> written;
  bool room = false;
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kUp) return;
    if (ready & EPOLLOUT) {
      flushLocked(kTurnBytes);
      watchLocked();
    }
    written.swap(written_);
    if (refused_ && failure_.ok() && output_.hasPlenty()) room = std::exchange(refused_, false);
    if (drainAsked_ && output_.empty()) room |= std::exchange(drainAsked_, false);
  }
  for (uint64_t id : written)
    if (!isSilent()) eventsNow_->onWritten(id);
  if (room && !isSilent()) eventsNow_->onRoom();
  Status broken;
  {
    std::lock_guard lock(mutex_);
    broken = failure_;
  }
  // What had come before the end is told before it.
  Status status = okStatus();
  if (ready & ~static_cast<uint32_t>(EPOLLOUT) || !broken.ok()) status = read();
  if (status.ok() && !broken.ok()) {
    const ssize_t more = ::recv(socket_.fd(), answer_.data(), 1, MSG_DONTWAIT | MSG_PEEK);
    if (more > 0) return progress_->poke(key_);
    status = broken;
  }
  if (!status.ok() && !isSilent()) finish(status);
}

void TcpLink::serveClosing() {
  bool over = false;
  {
    std::lock_guard lock(mutex_);
    if (!output_.empty()) {
      flushLocked(kTurnBytes);
      watchLocked();
    }
    over = !failure_.ok();
    // The connection ends by itself, in order: closing a socket that has unread bytes would take back what was sent.
    if (!over && output_.empty() && !std::exchange(shutDown_, true)) over = ::shutdown(socket_.fd(), SHUT_WR) != 0;
  }
  for (size_t budget = kTurnBytes; budget > 0 && !over;) {
    const ssize_t got = ::recv(socket_.fd(), aheadBuffer().data(), kAheadBytes, MSG_DONTWAIT);
    if (got <= 0) {
      over = got == 0 || !isLater(errno);
      break;
    }
    budget -= std::min(budget, static_cast<size_t>(got));
  }
  if (over) finish(okStatus());
}

void TcpLink::finish(const Status& why) {
  std::string where = describe();
  {
    std::lock_guard lock(windowMutex_);
    windows_.closeAll();
  }
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    state_ = State::kEnded;
    output_.clear();
    written_.clear();
    if (socket_) progress_->watch(key_, socket_.fd(), std::exchange(watched_, 0), 0);
    socket_.close();
  }
  progress_->remove(key_);
  if (eventsNow_ && !isSilent()) eventsNow_->onClosed(why.withContext("the link of " + where));
  std::shared_ptr<LinkEvents> events;  // Goes outside of the lock.
  std::lock_guard lock(eventMutex_);
  silent_ = true;
  events.swap(events_);
}

// ---- The end ------------------------------------------------------------------------------------

void TcpLink::close() {
  std::shared_ptr<LinkEvents> events;  // Goes outside of the locks.
  {
    std::lock_guard lock(eventMutex_);
    silent_ = true;
  }
  {
    std::lock_guard lock(windowMutex_);
    windows_.closeAll();
  }
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kUp || state_ == State::kOffered) {
      if (state_ == State::kOffered) output_.addBytes(encodeAnswer(Answer::kNotWanted));
      state_ = State::kClosing;
      until_ = Progress::Clock::now() + kClosePatience;
      output_.giveUpWrites();
      flushLocked(kCallBytes);
      watchLocked();
    } else if (state_ == State::kDialling || state_ == State::kGreeting) {
      state_ = State::kClosing;
      until_ = Progress::Clock::now();
      output_.clear();
    }
    if (state_ == State::kClosing) {
      progress_->setLingering(key_);
      progress_->wakeAt(key_, until_);
      progress_->poke(key_);
    }
  }
  std::unique_lock lock(eventMutex_);
  if (!progress_->isHere()) told_.wait(lock, [&] { return !telling_; });
  events = std::move(events_);
  lock.unlock();
}

std::string TcpLink::describe() const {
  std::lock_guard lock(mutex_);
  return base::strCat(from_, " to ", to_);
}

}  // namespace hpu::collectives::net::tcp
