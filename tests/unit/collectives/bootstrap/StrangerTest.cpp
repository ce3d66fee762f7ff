// SPDX-License-Identifier: Apache-2.0
// Port scanners, other protocols and ranks that speak nonsense do no harm to those who wait; ranks
// that end halfway are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/Format.h"
#include "base/Hash.h"
#include "collectives/bootstrap/Bootstrap.h"
#include "collectives/bootstrap/Client.h"
#include "collectives/bootstrap/Group.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"
#include "tests/unit/collectives/bootstrap/RawRank.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

/// A listening socket that is no coordinator.
class Door {
 public:
  Door() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(fd_, 1), 0);
  }
  ~Door() { ::close(fd_); }
  Address address() const {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &size);
    return fromSockaddr(bound).value();
  }
  void slamOnFirst() const {
    pollfd entry{fd_, POLLIN, 0};
    if (::poll(&entry, 1, 20000) <= 0) return;
    const int guest = ::accept(fd_, nullptr, nullptr);
    const linger now{1, 0};
    ::setsockopt(guest, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(guest);
  }
  /// Says it and waits until the guest has gone.
  void sayToFirst(std::string_view bytes) const {
    pollfd entry{fd_, POLLIN, 0};
    if (::poll(&entry, 1, 20000) <= 0) return;
    const int guest = ::accept(fd_, nullptr, nullptr);
    (void)!::send(guest, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char buffer[4096];
    while (::recv(guest, buffer, sizeof buffer, 0) > 0) {
    }
    ::close(guest);
  }

 private:
  const int fd_;
};

TEST(Stranger, DoesNoHarm) {
  UniqueId id = createUniqueId().value();
  CoordinatorId where = decodeId(id).value();
  std::vector<std::unique_ptr<RawRank>> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(std::make_unique<RawRank>(where));
  auto results = onRanks<Status>(3, [&](int rank) {
    if (rank == 2) {
      RawRank curious(where);
      curious.say("GET / HTTP/1.1\r\n\r\n");
      EXPECT_EQ(curious.hear(), "");
      RawRank greedy(where);
      greedy.say(wire::encodeFrame(wire::MessageType::kHello, 0, std::string(5000, 'x')));
      EXPECT_EQ(greedy.hear(), "");
      RawRank guessing(where);
      guessing.say(wire::encodeFrame(wire::MessageType::kHello, 0, wire::encodeHello({where.nonce + 1, 0, 3, 1, "h"})));
      EXPECT_THAT(guessing.hear(), HasSubstr("another run"));
      RawRank pushy(where);
      pushy.say(wire::encodeFrame(wire::MessageType::kPut, 0, "x"));
      EXPECT_THAT(pushy.hear(), HasSubstr("did not say who it is"));
    }
    auto joined = Bootstrap::join(id, rank, 3, {.timeoutMs = 20000});
    if (!joined.ok()) return joined.status();
    return (*joined)->barrier("b", soon());
  });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
}

/// So many times rank 0, of two.
std::string manyMembers(uint32_t count, bool withStatus) {
  wire::Writer out;
  out.text("group");
  if (withStatus) {
    out.status(aborted("enough"));
  } else {
    out.u64(1);
  }
  out.u32(count);
  for (uint32_t i = 0; i < count; ++i) out.i32(0);
  return out.take();
}

TEST(Stranger, ARankThatSpeaksNonsenseCountsAsDead) {
  for (const auto& [type, payload] : std::vector<std::pair<wire::MessageType, std::string>>{
           {wire::MessageType::kPut, "nonsense"},
           {wire::MessageType::kWho, std::string(20, '\xff')},
           {wire::MessageType::kWelcome, ""},
           // More than there are ranks: each would be answered.
           {wire::MessageType::kWho, manyMembers(3, false)},
           {wire::MessageType::kGiveUp, manyMembers(3, true)},
           {wire::MessageType::kPut, std::string(wire::kMaxRequestBytes + 1, 'x')}}) {
    UniqueId own = createUniqueId().value();
    CoordinatorId room = decodeId(own).value();
    RawRank rank(room);
    ASSERT_TRUE(rank.join({room.nonce, 1, 2, 1, "h"}));
    auto joined = Bootstrap::join(own, 0, 2, {.timeoutMs = 20000});
    ASSERT_TRUE(joined.ok()) << joined.status().toString();
    rank.say(wire::encodeFrame(type, 0, payload));
    Status status = (*joined)->barrier("b", soon());
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("rank 1 (process 1 on h) has died"));
  }
}

/// A rank as bytes on a socket, which says that it comes to the first phase of all.
std::unique_ptr<RawRank> halfARank(const CoordinatorId& room, int rank, const Group& group) {
  const auto ranks = static_cast<int32_t>(group.members().size());
  auto half = std::make_unique<RawRank>(room);
  EXPECT_TRUE(half->join({room.nonce, rank, ranks, 1, "h"}));
  wire::Writer enter;
  enter.text(group.name());
  enter.u64(1);
  half->say(wire::encodeFrame(wire::MessageType::kEnter, 0, enter.take()));
  return half;
}

TEST(Stranger, ARankThatEndsWithinItsFirstPhaseIsNamed) {
  // The parent before it told its address, the child before it came there.
  for (int ends : {0, 1}) {
    UniqueId own = createUniqueId().value();
    CoordinatorId room = decodeId(own).value();
    Group group(std::make_shared<Client>(room, ends, 2), "all", {0, 1});
    auto half = halfARank(room, ends, group);
    auto joined = Bootstrap::join(own, 1 - ends, 2, {.timeoutMs = 20000});
    ASSERT_TRUE(joined.ok()) << joined.status().toString();
    half = nullptr;
    Status status = (*joined)->barrier("b", soon());
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(ends) + " (process 1 on h) has died"));
  }
}

TEST(Stranger, AChildThatEndsIsNamedWhileAnotherOneIsAwaited) {
  UniqueId own = createUniqueId().value();
  CoordinatorId room = decodeId(own).value();
  Group group(std::make_shared<Client>(room, 2, 3), "all", {0, 1, 2});
  auto half = halfARank(room, 2, group);
  auto joined = onRanks<std::shared_ptr<Bootstrap>>(2, [&](int rank) {
    auto one = Bootstrap::join(own, rank, 3, {.timeoutMs = 20000});
    return one.ok() ? *one : nullptr;
  });
  ASSERT_TRUE(joined[0] && joined[1]);
  half = nullptr;
  // Rank 1, for which rank 0 waits first, does not come.
  Status status = joined[0]->barrier("b", soon());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
  EXPECT_THAT(status.message(), HasSubstr("rank 2 (process 1 on h) has died"));
}

TEST(Stranger, AParentThatShutsItsDoorAsItsChildComesIsNamed) {
  // The child's connection ends before, while and after the child makes it its own.
  auto ended = onRanks<Status>(32, [](int) -> Status {
    UniqueId own = createUniqueId().value();
    CoordinatorId room = decodeId(own).value();
    Group group(std::make_shared<Client>(room, 0, 2), "all", {0, 1});
    auto half = halfARank(room, 0, group);
    Door door;
    UniqueId where = encodeId({.address = door.address(), .nonce = 1});
    wire::Writer put;
    put.text("address " + group.name() + " 0");
    put.text(std::string(reinterpret_cast<const char*>(where.bytes), sizeof where.bytes));
    half->say(wire::encodeFrame(wire::MessageType::kPut, 0, put.take()));
    std::thread parent([&] { door.slamOnFirst(); });
    auto joined = Bootstrap::join(own, 1, 2, {.timeoutMs = 20000});
    Status status = joined.ok() ? (*joined)->barrier("b", soon()) : joined.status();
    parent.join();
    return status;
  });
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("rank 0"));
  }
}

TEST(Stranger, AnotherReleaseIsTold) {
  UniqueId id = createUniqueId().value();
  CoordinatorId where = decodeId(id).value();
  // One that does not know the id hears the versions and harms nobody.
  RawRank guessing(where);
  guessing.say(wire::encodeFrame(wire::MessageType::kHello, 0, wire::encodeHello({where.nonce ^ 1, 0, 2, 1, "h"}), 7));
  std::string answer = guessing.hear();
  ASSERT_GT(answer.size(), 5u);
  EXPECT_EQ(answer[4], 7);  // It reads no other.
  EXPECT_THAT(answer, HasSubstr("the other side speaks version 7"));
  // One that does is named to all, on both ends.
  const std::string versions = base::strCat(
      "rank 1 (process 4711 on far) speaks version 7 of the bootstrap, the "
      "coordinator (process ",
      ::getpid(), " on ");
  Status told;
  std::thread waiting([&] { told = Bootstrap::join(id, 0, 2, {.timeoutMs = 60000}).status(); });
  RawRank old(where);
  old.say(wire::encodeFrame(wire::MessageType::kHello, 0, wire::encodeHello({where.nonce, 1, 2, 4711, "far"}), 7));
  answer = old.hear();
  waiting.join();
  EXPECT_THAT(answer, HasSubstr(versions));
  EXPECT_THAT(answer, HasSubstr(base::strCat("version ", wire::kVersion, "; use the same release")));
  EXPECT_EQ(told.code(), StatusCode::kUnimplemented) << told.toString();
  EXPECT_THAT(told.message(), HasSubstr(versions));
}

TEST(Stranger, ACoordinatorOfAnotherReleaseIsTold) {
  // One that knows no more than its own version, and one that does not even look.
  wire::Writer refusal;
  refusal.status(unimplemented("the other side speaks a version that I do not"));
  for (const std::string& said : {wire::encodeFrame(wire::MessageType::kError, 0, refusal.take(), 2),
                                  wire::encodeFrame(wire::MessageType::kWelcome, 0, "", 2)}) {
    Door door;
    CoordinatorId where{.address = door.address(), .nonce = 5};
    std::thread coordinator([&] { door.sayToFirst(said); });
    const Status status = Bootstrap::joinAt(where, 1, 2, {.timeoutMs = 60000}).status();
    coordinator.join();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr(base::strCat("rank 1 (process ", ::getpid(), " on ")));
    EXPECT_THAT(status.message(), HasSubstr("the process that created the communicator's id"));
    EXPECT_THAT(status.message(), HasSubstr("version 2 of the bootstrap"));
    EXPECT_THAT(status.message(), HasSubstr(base::strCat("version ", wire::kVersion)));
  }
}

TEST(Stranger, ARanksNodeIsNamed) {
  UniqueId own = createUniqueId().value();
  CoordinatorId room = decodeId(own).value();
  RawRank rank(room);
  ASSERT_TRUE(rank.join({room.nonce, 1, 2, 12, "far", 0, 9, "b"}));
  auto joined = Bootstrap::join(own, 0, 2, {.timeoutMs = 20000});
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  Status status = (*joined)->barrier("b", soon(200));
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (process 12 on far, node b) has not got there"));
}

TEST(Stranger, ARankThatWaitsForTooMuchAtATimeCountsAsDead) {
  UniqueId own = createUniqueId().value();
  CoordinatorId room = decodeId(own).value();
  RawRank rank(room);
  ASSERT_TRUE(rank.join({room.nonce, 1, 2, 1, "h"}));
  auto joined = Bootstrap::join(own, 0, 2, {.timeoutMs = 20000});
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  auto ask = [&](int number) {
    wire::Writer get;
    get.text("value of nobody " + std::to_string(number));
    rank.say(wire::MessageType::kGet, get.take());
  };
  // What is not waited for any more does not count, nor what has come. (All have the number 0.)
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i) ask(i);
    rank.say(wire::MessageType::kCancel, {});
  }
  ask(0);
  wire::Writer put;
  put.text("value of nobody 0");
  put.text("it");
  rank.say(wire::MessageType::kPut, put.take());
  for (bool came = false; !came;) {
    const auto frame = rank.hearFrame(30000);
    ASSERT_TRUE(frame);
    came = frame->type == wire::MessageType::kValue && frame->payload == "it";
  }
  for (int i = 0; i < 1100; ++i) ask(i + 1);
  Status status = (*joined)->barrier("b", soon());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (process 1 on h) has died"));
}

TEST(Stranger, OfARanksGroupsWithoutEndTheLatestAreKnown) {
  UniqueId own = createUniqueId().value();
  CoordinatorId room = decodeId(own).value();
  RawRank rank(room);
  ASSERT_TRUE(rank.join({room.nonce, 0, 1, 1, "h"}));
  constexpr int kGroups = 10000;
  for (int i = 0; i < kGroups; ++i) {
    wire::Writer enter;
    enter.text("group " + std::to_string(i));
    enter.u64(1);
    rank.say(wire::MessageType::kEnter, enter.take());
  }
  auto missing = [&](int group) -> size_t {
    wire::Writer who;
    who.text("group " + std::to_string(group));
    who.u64(1);
    who.u32(0);
    rank.say(wire::MessageType::kWho, who.take());
    for (;;) {
      const auto frame = rank.hearFrame(30000);
      if (!frame) return 99;
      if (frame->type == wire::MessageType::kMissing) return decodeMissing(frame->payload).value().size();
    }
  };
  EXPECT_EQ(missing(kGroups - 1), 0u);
  EXPECT_EQ(missing(kGroups - 1000), 0u);
  EXPECT_EQ(missing(0), 1u);
}

TEST(Stranger, WhatAChildSaysOfPhasesThatAreFarAwayIsNotKept) {
  UniqueId own = createUniqueId().value();
  CoordinatorId room = decodeId(own).value();
  Group group(std::make_shared<Client>(room, 1, 2), "all", {0, 1});
  auto half = halfARank(room, 1, group);
  auto joined = Bootstrap::join(own, 0, 2, {.timeoutMs = 20000});
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  std::array<Status, 3> phases;
  std::thread root([&] {
    for (size_t i = 0; i < 3; ++i) phases[i] = (*joined)->barrier("b", soon(i < 2 ? 20000 : 500));
  });
  wire::Writer get;
  get.text("address " + group.name() + " 0");
  half->say(wire::MessageType::kGet, get.take());
  std::optional<wire::Frame> told;
  do told = half->hearFrame(30000);
  while (told && told->type != wire::MessageType::kValue);
  UniqueId bytes;
  if (told && told->payload.size() == sizeof bytes.bytes) {
    std::copy(told->payload.begin(), told->payload.end(), bytes.bytes);
    CoordinatorId door = decodeId(bytes).value();
    door.secret = room.secret;
    RawRank child(door);
    EXPECT_TRUE(child.greet(
        wire::MessageType::kPeerHello,
        wire::encodePeerHello({room.nonce, base::hash64(group.members().data(), 2 * sizeof(int), base::hash64("all")),
                               1, child.challenge()})));
    wire::Writer up;
    up.text("b");
    up.raw(encodePart({.status = {}, .values = {{1, ""}}, .processes = {}}));
    const std::string payload = up.take();
    for (uint64_t phase : {9, 3, 2, 1}) child.say(wire::encodeFrame(wire::MessageType::kUp, phase, payload));
    root.join();
  } else {
    ADD_FAILURE() << "no address of rank 0";
    root.join();
  }
  EXPECT_TRUE(phases[0].ok()) << phases[0].toString();
  EXPECT_TRUE(phases[1].ok()) << phases[1].toString();
  EXPECT_EQ(phases[2].code(), StatusCode::kDeadlineExceeded) << phases[2].toString();
}

TEST(Stranger, MutatedMessagesNeverStopTheCoordinator) {
  UniqueId id = createUniqueId().value();
  CoordinatorId where = decodeId(id).value();
  std::mt19937_64 random(7);
  wire::Writer put;
  put.text("key");
  put.text("value");
  std::string conversation =
      wire::encodeFrame(wire::MessageType::kHello, 0, wire::encodeHello({where.nonce ^ 5, 1, 2, 1, "h"})) +
      wire::encodeFrame(wire::MessageType::kPut, 1, put.take()) +
      wire::encodeFrame(wire::MessageType::kWho, 2, std::string(16, '\0'));
  for (int i = 0; i < 300; ++i) {
    std::string bytes = conversation;
    for (int edits = 0; edits < 3; ++edits) bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
    RawRank(where).say(std::string_view(bytes).substr(0, random() % bytes.size()));
  }
  auto joined = Bootstrap::join(id, 0, 1, {.timeoutMs = 20000});
  EXPECT_TRUE(joined.ok()) << joined.status().toString();
}

}  // namespace
}  // namespace hpu::collectives
