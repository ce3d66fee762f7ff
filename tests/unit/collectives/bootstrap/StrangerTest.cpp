// SPDX-License-Identifier: Apache-2.0
// Port scanners, other protocols and ranks that speak nonsense do no harm to those who wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "collectives/bootstrap/Bootstrap.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

class Stranger {
 public:
  explicit Stranger(const CoordinatorId& id) : fd_(connectTo(id.address, soon()).value()) {}
  ~Stranger() { ::close(fd_); }
  void say(std::string_view bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// What came until the other side closed, or nothing came for a while.
  std::string hear() {
    std::string heard;
    char buffer[4096];
    for (;;) {
      pollfd entry{fd_, POLLIN, 0};
      if (::poll(&entry, 1, 5000) <= 0) return heard + " (silence)";
      ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
      if (got <= 0) return heard;
      heard.append(buffer, static_cast<size_t>(got));
    }
  }

 private:
  int fd_;
};

TEST(Stranger, DoesNoHarm) {
  UniqueId id = createUniqueId().value();
  CoordinatorId where = decodeId(id).value();
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(std::make_unique<Stranger>(where));
  auto results = onRanks<Status>(3, [&](int rank) {
    if (rank == 2) {
      Stranger curious(where);
      curious.say("GET / HTTP/1.1\r\n\r\n");
      EXPECT_EQ(curious.hear(), "");
      Stranger greedy(where);
      greedy.say(wire::encodeFrame(wire::MessageType::kHello, 0, std::string(5000, 'x')));
      EXPECT_EQ(greedy.hear(), "");
      Stranger guessing(where);
      guessing.say(wire::encodeFrame(wire::MessageType::kHello, 0,
                                     wire::encodeHello({where.nonce + 1, 0, 3, 1, "h"})));
      EXPECT_THAT(guessing.hear(), HasSubstr("another run"));
      Stranger pushy(where);
      pushy.say(wire::encodeFrame(wire::MessageType::kPut, 0, "x"));
      EXPECT_THAT(pushy.hear(), HasSubstr("did not say who it is"));
    }
    auto joined = Bootstrap::join(id, rank, 3, {.timeoutMs = 20000});
    if (!joined.ok()) return joined.status();
    return (*joined)->barrier("b", soon());
  });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
}

TEST(Stranger, ARankThatSpeaksNonsenseCountsAsDead) {
  for (auto [type, payload] : std::vector<std::pair<wire::MessageType, std::string>>{
           {wire::MessageType::kPut, "nonsense"},
           {wire::MessageType::kWho, std::string(20, '\xff')},
           {wire::MessageType::kWelcome, ""}}) {
    UniqueId own = createUniqueId().value();
    CoordinatorId room = decodeId(own).value();
    Stranger rank(room);
    rank.say(wire::encodeFrame(wire::MessageType::kHello, 0,
                               wire::encodeHello({room.nonce, 1, 2, 1, "h"})));
    auto joined = Bootstrap::join(own, 0, 2, {.timeoutMs = 20000});
    ASSERT_TRUE(joined.ok()) << joined.status().toString();
    rank.say(wire::encodeFrame(type, 0, payload));
    Status status = (*joined)->barrier("b", soon());
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("rank 1 (process 1 on h) has died"));
  }
}

TEST(Stranger, AnotherReleaseIsTold) {
  UniqueId id = createUniqueId().value();
  CoordinatorId where = decodeId(id).value();
  Stranger old(where);
  std::string hello = wire::encodeFrame(wire::MessageType::kHello, 0,
                                        wire::encodeHello({where.nonce, 0, 2, 1, "h"}));
  hello[4] = 7;
  old.say(hello);
  std::string answer = old.hear();
  // Its own parser would say the same of the answer's header.
  ASSERT_GT(answer.size(), 5u);
  EXPECT_EQ(answer[4], wire::kVersion);
  EXPECT_THAT(answer, HasSubstr("version 7"));
}

TEST(Stranger, MutatedMessagesNeverStopTheCoordinator) {
  UniqueId id = createUniqueId().value();
  CoordinatorId where = decodeId(id).value();
  std::mt19937_64 random(7);
  wire::Writer put;
  put.text("key");
  put.text("value");
  std::string conversation = wire::encodeFrame(wire::MessageType::kHello, 0,
                                               wire::encodeHello({where.nonce ^ 5, 1, 2, 1, "h"})) +
                             wire::encodeFrame(wire::MessageType::kPut, 1, put.take()) +
                             wire::encodeFrame(wire::MessageType::kWho, 2, std::string(16, '\0'));
  for (int i = 0; i < 300; ++i) {
    std::string bytes = conversation;
    for (int edits = 0; edits < 3; ++edits)
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
    Stranger(where).say(std::string_view(bytes).substr(0, random() % bytes.size()));
  }
  auto joined = Bootstrap::join(id, 0, 1, {.timeoutMs = 20000});
  EXPECT_TRUE(joined.ok()) << joined.status().toString();
}

}  // namespace
}  // namespace hpu::collectives
