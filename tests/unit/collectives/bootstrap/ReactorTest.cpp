// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Reactor.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace hpu::collectives {
namespace {

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

}  // namespace
}  // namespace hpu::collectives
