// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Reactor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/collectives/bootstrap/NoDescriptors.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

/// Owns a reactor, as a rank does, and is let go by its connection's first frame.
class Rank : public ConnectionHandler {
 public:
  Rank(std::shared_ptr<Reactor> reactor, std::promise<void>& gone) : reactor_(std::move(reactor)), gone_(gone) {}
  ~Rank() override {
    reactor_.reset();
    gone_.set_value();
  }
  void onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) override { connection->close(); }
  void onClosed(const std::shared_ptr<Connection>& connection, const Status& why) override {}

 private:
  std::shared_ptr<Reactor> reactor_;
  std::promise<void>& gone_;
};

/// The other end of a connection which alone owns a rank, and that a new reactor; -1: it failed.
int connectedRank(std::promise<void>& gone) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return -1;
  auto reactor = Reactor::acquire().value();
  Reactor& known = *reactor;
  const bool adopted = known.adopt(ends[0], std::make_shared<Rank>(std::move(reactor), gone)).ok();
  return adopted ? ends[1] : -1;
}

TEST(Reactor, EndsWithTheHandlerThatWasItsLastOwner) {
  // Two frames at once: the second finds that the first has closed the connection.
  const std::string frames =
      wire::encodeFrame(wire::MessageType::kBye, 0, {}) + wire::encodeFrame(wire::MessageType::kBye, 0, {});
  for (int round = 0; round < 20; ++round) {
    std::promise<void> gone;
    const int end = connectedRank(gone);
    ASSERT_GE(end, 0);
    ASSERT_EQ(::write(end, frames.data(), frames.size()), static_cast<ssize_t>(frames.size()));
    ASSERT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    ::close(end);
  }
}

TEST(Reactor, AForkedChildIsNotHeldUpByAHandlerThatWasItsLastOwner) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support a child of a program with threads";
#endif
  std::promise<void> gone;
  const int end = connectedRank(gone);
  ASSERT_GE(end, 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Reactor::acquire().ok() ? 0 : 1);
  int status = -1;
  pid_t ended = 0;
  for (int i = 0; i < 2000 && ended == 0; ++i) {
    ended = ::waitpid(child, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (ended == 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(ended, child) << "the child does not return from its fork";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  // The parent goes on.
  const std::string frame = wire::encodeFrame(wire::MessageType::kBye, 0, {});
  ASSERT_EQ(::write(end, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  ::close(end);
}

/// What comes, for a test to look at.
class Ear : public ConnectionHandler {
 public:
  void onFrame(const std::shared_ptr<Connection>& connection, wire::Frame frame) override {
    std::lock_guard lock(mutex_);
    frames_.push_back(frame.id);
    changed_.notify_all();
  }
  void onClosed(const std::shared_ptr<Connection>& connection, const Status& why) override {
    std::lock_guard lock(mutex_);
    closed_.push_back(why);
    changed_.notify_all();
  }
  void onRefused(const Status& why) override {
    std::lock_guard lock(mutex_);
    refused_.push_back(why);
    changed_.notify_all();
  }
  template <typename Ready>
  bool wait(Ready ready) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return ready(*this); });
  }
  /// The frame of that number has come.
  bool heard(uint64_t id) {
    return wait([&](Ear& ear) { return std::find(ear.frames_.begin(), ear.frames_.end(), id) != ear.frames_.end(); });
  }
  std::vector<Status> closed() {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  size_t refused() {
    std::lock_guard lock(mutex_);
    return refused_.size();
  }

  std::vector<uint64_t> frames_;
  std::vector<Status> closed_, refused_;

 private:
  std::mutex mutex_;  // Guards all.
  std::condition_variable changed_;
};

std::array<int, 2> socketPair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return ends;
}

TEST(Reactor, APeerThatTakesNothingIsGivenUpAndTheHandlerHearsIt) {
  auto reactor = Reactor::acquire().value();
  auto ear = std::make_shared<Ear>();
  const auto ends = socketPair();
  auto connection = reactor->adopt(ends[0], ear).value();
  const std::string message(size_t{1} << 20, 'm');
  Status status;
  size_t sent = 0;
  for (; sent < 100 && status.ok(); ++sent) status = connection->send(wire::MessageType::kValue, sent, message);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << sent << " MiB were kept";
  ASSERT_TRUE(ear->wait([](Ear& one) { return !one.closed_.empty(); }));
  EXPECT_EQ(ear->closed()[0].toString(), resourceExhausted("the other side takes no messages").toString());
  EXPECT_FALSE(connection->send(wire::MessageType::kValue, 0, {}).ok());
  ::close(ends[1]);
}

TEST(Reactor, APeerThatIsBehindButTakesWhatComesIsNot) {
  auto reactor = Reactor::acquire().value();
  auto ear = std::make_shared<Ear>();
  const auto ends = socketPair();
  auto connection = reactor->adopt(ends[0], ear).value();
  const size_t bytes = size_t{1} << 20;
  const std::string message(bytes - wire::kHeaderBytes, 'm');
  std::string buffer(bytes, '\0');
  auto read = [&] { return ::recv(ends[1], buffer.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes); };
  constexpr size_t kBehind = 16, kMessages = 100;
  for (size_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(connection->send(wire::MessageType::kValue, i, message).ok()) << i;
    if (i >= kBehind) {
      ASSERT_TRUE(read()) << i;
    }
  }
  for (size_t i = 0; i < kBehind; ++i) ASSERT_TRUE(read()) << i;
  // One that is longer than all that may wait.
  const std::string longest(kMaxOutputBytes * 2, 'l');
  ASSERT_TRUE(connection->send(wire::MessageType::kValue, 0, longest).ok());
  ASSERT_TRUE(connection->send(wire::MessageType::kValue, 1, "and a short one").ok());
  for (size_t left = longest.size() + 2 * wire::kHeaderBytes + 15; left > 0;) {
    const ssize_t got = ::recv(ends[1], buffer.data(), std::min(bytes, left), 0);
    ASSERT_GT(got, 0);
    left -= static_cast<size_t>(got);
  }
  EXPECT_TRUE(ear->closed().empty());
  connection->close();
  ::close(ends[1]);
}

/// A socket that is connected later, and needs no descriptor then.
class Guest {
 public:
  Guest() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Guest() { ::close(fd_); }
  bool come(const Address& to) const {
    sockaddr_storage address;
    const socklen_t size = toSockaddr(to, address);
    return ::connect(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0;
  }
  void say(uint64_t id) const {
    const std::string frame = wire::encodeFrame(wire::MessageType::kBye, id, {});
    (void)!::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL);
  }
  /// What is said to it before the end; nothing: there is no end.
  std::optional<std::string> hearToTheEnd() const {
    std::string heard;
    for (;;) {
      pollfd entry{fd_, POLLIN, 0};
      std::array<char, 1024> bytes;
      if (::poll(&entry, 1, 30000) <= 0) return std::nullopt;
      const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
      if (got <= 0) return heard;
      heard.append(bytes.data(), static_cast<size_t>(got));
    }
  }

 private:
  const int fd_;
};

TEST(Reactor, WithoutDescriptorsWhoComesIsSentAwayAndOthersAreServed) {
  auto reactor = Reactor::acquire().value();
  auto ear = std::make_shared<Ear>();
  const auto ends = socketPair();
  auto connection = reactor->adopt(ends[0], ear).value();
  Address any = parseAddress("127.0.0.1:1", "it").value();
  any.port = 0;
  auto listener = reactor->listen(any, ear).value();
  std::array<Guest, 5> guests;
  Guest later;
  testing::internal::CaptureStderr();
  {
    NoDescriptors none;
    uint64_t said = 100;
    for (const Guest& guest : guests) {
      ASSERT_TRUE(guest.come(listener->address()));
      EXPECT_THAT(guest.hearToTheEnd().value_or("nothing"),
                  HasSubstr(listener->address().text() + " cannot accept a rank: Too many open files"));
      const std::string frame = wire::encodeFrame(wire::MessageType::kValue, ++said, {});
      ASSERT_EQ(::write(ends[1], frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
      EXPECT_TRUE(ear->heard(said));
    }
    // Of each it is heard once.
    EXPECT_TRUE(ear->wait([&](Ear& one) { return one.refused_.size() >= guests.size(); }));
    EXPECT_EQ(ear->refused(), guests.size());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t first = log.find("cannot accept a rank");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("cannot accept a rank", first + 1), std::string::npos) << log;
  ASSERT_TRUE(later.come(listener->address()));
  later.say(1);
  EXPECT_TRUE(ear->heard(1));
  connection->close();
  ::close(ends[1]);
}

TEST(Reactor, WhoTakesTheLastDescriptorIsNobodyWhoWasRefused) {
  auto reactor = Reactor::acquire().value();
  auto ear = std::make_shared<Ear>();
  Address any = parseAddress("127.0.0.1:1", "it").value();
  any.port = 0;
  auto listener = reactor->listen(any, ear).value();
  Guest silent, last;
  ASSERT_TRUE(silent.come(listener->address()));
  silent.say(1);
  ASSERT_TRUE(ear->heard(1));
  // Long enough there to make room if anybody needed it.
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  NoDescriptors one(1);
  ASSERT_TRUE(last.come(listener->address()));
  last.say(2);
  ASSERT_TRUE(ear->heard(2));
  silent.say(3);
  EXPECT_TRUE(ear->heard(3));
  EXPECT_EQ(ear->refused(), 0u);
}

TEST(Reactor, WithoutDescriptorsASilentStrangerMakesRoom) {
  auto reactor = Reactor::acquire().value();
  auto ear = std::make_shared<Ear>();
  Address any = parseAddress("127.0.0.1:1", "it").value();
  any.port = 0;
  auto listener = reactor->listen(any, ear).value();
  Guest silent, rank;
  ASSERT_TRUE(silent.come(listener->address()));
  silent.say(1);  // It has been accepted when this is heard, and proves nothing.
  ASSERT_TRUE(ear->heard(1));
  NoDescriptors none;
  ASSERT_TRUE(rank.come(listener->address()));
  rank.say(2);
  EXPECT_TRUE(ear->heard(2));
  EXPECT_EQ(silent.hearToTheEnd(), "");
  EXPECT_EQ(ear->refused(), 0u);
}

}  // namespace
}  // namespace hpu::collectives
