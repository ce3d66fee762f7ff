// SPDX-License-Identifier: Apache-2.0
// The handover of a communicator's memory between processes, one of which has no descriptors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "collectives/transport/shm/Handover.h"
#include "tests/unit/collectives/bootstrap/NoDescriptors.h"

namespace hpu::collectives::shm {
namespace {

using testing::HasSubstr;

#ifndef __SANITIZE_THREAD__  // A program with threads does not fork under TSan.
/// Rank 1: a child that sends its card and, with rank 0's, takes the segment; it replies with its
/// status. It is there before the segment: it must not inherit it.
struct Child {
  int link = -1;
  pid_t pid = -1;
  RankCard card;

  explicit Child(bool starved) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) abort();
    pid = ::fork();
    if (pid == 0) {
      RankCard mine;
      mine.process = myProcess();
      RankCard giver;
      if (::send(ends[1], &mine, sizeof mine, 0) != sizeof mine ||
          ::recv(ends[1], &giver, sizeof giver, 0) != sizeof giver)
        ::_exit(1);
      Status status = takeAs(giver, starved);
      std::string text = status.toString();
      ::_exit(::send(ends[1], text.data(), text.size(), 0) > 0 ? 0 : 1);
    }
    ::close(ends[1]);
    link = ends[0];
    EXPECT_EQ(::recv(link, &card, sizeof card, 0), static_cast<ssize_t>(sizeof card));
  }
  static Status takeAs(const RankCard& giver, bool starved) {
    if (!starved) return takeSegment(giver, 2, base::Deadline::afterMs(60000)).status();
    NoDescriptors few(1);  // For its socket.
    return takeSegment(giver, 2, base::Deadline::afterMs(60000)).status();
  }
  void take(const RankCard& giver) {
    EXPECT_EQ(::send(link, &giver, sizeof giver, 0), static_cast<ssize_t>(sizeof giver));
  }
  std::string said() {
    char text[4096];
    ssize_t got = ::recv(link, text, sizeof text, 0);
    return got > 0 ? std::string(text, static_cast<size_t>(got)) : "";
  }
  ~Child() {
    ::close(link);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

RankCard giversCard(const Giver& giver) {
  RankCard card;
  card.process = myProcess();
  std::memcpy(card.segment, giver.segment()->id().data(), sizeof card.segment);
  return card;
}

TEST(Handover, AGiverWithoutDescriptorsSaysSoAtOnce) {
  Child child(false);
  auto giver = Giver::create(2).value();
  RankCard mine = giversCard(*giver);
  child.take(mine);
  auto begin = std::chrono::steady_clock::now();
  Status status;
  {
    NoDescriptors few(1);  // For the watch of the other process.
    status = giver->give({mine, child.card}, base::Deadline::afterMs(60000));
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.toString();
  EXPECT_THAT(status.message(), HasSubstr("Too many open files"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  // The other one does not wait for what will not come.
  EXPECT_THAT(child.said(), HasSubstr("UNAVAILABLE"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Handover, ATakerWithoutDescriptorsSaysSo) {
  Child child(true);
  auto giver = Giver::create(2).value();
  RankCard mine = giversCard(*giver);
  child.take(mine);
  EXPECT_TRUE(giver->give({mine, child.card}, base::Deadline::afterMs(60000)).ok());
  EXPECT_THAT(child.said(), HasSubstr("RESOURCE_EXHAUSTED"));
}

TEST(Handover, StrangersWhoFillTheQueueStallNoRank) {
  Child child(false);
  auto giver = Giver::create(2).value();
  RankCard mine = giversCard(*giver);
  std::string name = "openhpu/communicator/" + std::to_string(::geteuid()) + "/";
  for (uint8_t byte : giver->segment()->id()) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  sockaddr_un address;
  const uint32_t bytes = node::socketAddress(name, address);
  std::vector<node::Fd> strangers;
  do {
    strangers.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (::connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&address), bytes) == 0);
  ASSERT_EQ(errno, EAGAIN);
  child.take(mine);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // It finds the queue full.
  EXPECT_TRUE(giver->give({mine, child.card}, base::Deadline::afterMs(60000)).ok());
  EXPECT_EQ(child.said(), okStatus().toString());
}
#endif

}  // namespace
}  // namespace hpu::collectives::shm
