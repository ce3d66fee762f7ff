// SPDX-License-Identifier: Apache-2.0
// Who knows the secret has a part in a communicator, and nobody else, whatever he has heard and repeats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/Hash.h"
#include "base/Settings.h"
#include "collectives/bootstrap/Bootstrap.h"
#include "collectives/bootstrap/Client.h"
#include "collectives/bootstrap/Group.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"
#include "tests/unit/collectives/bootstrap/RawRank.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;
using testing::Not;

Secret secretOf(const char* text) {
  return secretOfText(text, "here");
}

/// Null: it could not.
std::shared_ptr<Bootstrap> joined(const UniqueId& id, int rank, int ranks) {
  auto one = Bootstrap::join(id, rank, ranks, {.timeoutMs = 20000});
  EXPECT_TRUE(one.ok()) << one.status().toString();
  return one.ok() ? *one : nullptr;
}

TEST(Proof, IsOfOneSecretSideMeetingAndPlaceOnly) {
  const Secret secret = secretOf("correct horse");
  const Meeting meeting{"protocol", 4, "said", randomChallenge().value(), randomChallenge().value()};
  const Proof proof = prove(secret, Side::kDialler, meeting);
  EXPECT_TRUE(isProof(proof, secret, Side::kDialler, meeting));
  EXPECT_FALSE(isProof(proof, secret, Side::kListener, meeting));
  EXPECT_FALSE(isProof(proof, secretOf("correct horsf"), Side::kDialler, meeting));
  EXPECT_FALSE(isProof(proof, secretOfText("correct horse", "elsewhere"), Side::kDialler, meeting));
  Meeting others[] = {meeting, meeting, meeting, meeting, meeting};
  others[0].protocol = "protocols";
  others[1].version = 5;
  others[2].said = "sai";
  others[3].dialler[31] ^= 1;
  others[4].listener[0] ^= 1;
  for (const Meeting& other : others) EXPECT_FALSE(isProof(proof, secret, Side::kDialler, other));
  // Fields do not run into each other.
  Meeting moved = meeting;
  moved.protocol = "protocolsaid";
  moved.said = "";
  EXPECT_FALSE(isProof(proof, secret, Side::kDialler, moved));
  for (size_t i = 0; i < proof.size(); ++i) {
    Proof changed = proof;
    changed[i] ^= 0x80;
    EXPECT_FALSE(isProof(changed, secret, Side::kDialler, meeting));
  }
}

TEST(Proof, NumbersAreNeverTwiceTheSame) {
  std::set<Challenge> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(randomChallenge().value()).second);
}

TEST(Proof, ASecretForAnotherPurposeIsAnotherOne) {
  const Secret secret = secretOf("correct horse");
  const std::set<Secret> all = {secret, derivedSecret(secret, "hall", 1), derivedSecret(secret, "hall", 2),
                                derivedSecret(secret, "links", 1), derivedSecret(secretOf("other"), "hall", 1)};
  EXPECT_EQ(all.size(), 5u);
  EXPECT_FALSE(isKnown(derivedSecret({}, "hall", 1)));
  EXPECT_EQ(secretOf("correct horse"), secret);
}

TEST(Proving, AReplayedTranscriptIsRefused) {
  UniqueId id = createUniqueId().value();
  const CoordinatorId where = decodeId(id).value();
  RawRank root(where);
  ASSERT_TRUE(root.join({where.nonce, 0, 3, 1, "h"}));
  std::string heard;
  {
    RawRank honest(where);
    ASSERT_TRUE(honest.join({where.nonce, 1, 3, 1, "h"}));
    // It gives its place up, in order: who takes it next is not refused for that.
    honest.say(wire::MessageType::kBye, "");
    honest.hear();
    heard = honest.said();
  }
  RawRank replay(where);
  replay.say(heard);
  const std::string answer = replay.hear();
  EXPECT_THAT(answer, HasSubstr("does not know the communicator's secret"));
  EXPECT_THAT(answer, HasSubstr("HPU_COMM_SECRET"));
  // The ranks themselves come in.
  auto results =
      onRanks<Status>(2, [&](int rank) { return Bootstrap::join(id, rank + 1, 3, {.timeoutMs = 20000}).status(); });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
}

TEST(Proving, NothingThatFollowsFromTheSecretAloneCrossesTheNetwork) {
  // Two meetings with the same secret have nothing in common but what is no secret.
  CoordinatorId where = decodeId(createUniqueId().value()).value();
  RawRank root(where);
  ASSERT_TRUE(root.join({where.nonce, 0, 3, 1, "h"}));
  std::string said[2];
  for (std::string& one : said) {
    RawRank rank(where);
    ASSERT_TRUE(rank.join({where.nonce, 1, 3, 1, "h"}));
    rank.say(wire::MessageType::kBye, "");
    rank.hear();
    one = rank.said();
  }
  const std::string secret(reinterpret_cast<const char*>(where.secret.data()), where.secret.size());
  const uint64_t hash = base::hash64(secret);
  for (const std::string& one : said) {
    EXPECT_THAT(one, Not(HasSubstr(secret.substr(0, 8))));
    EXPECT_THAT(one, Not(HasSubstr(std::string(reinterpret_cast<const char*>(&hash), sizeof hash))));
  }
  // kHello, whose end is the challenge, then kProof, then kBye.
  const size_t hello = said[0].size() - 2 * wire::kHeaderBytes - 32;
  EXPECT_EQ(said[0].substr(0, hello - 32), said[1].substr(0, hello - 32));
  EXPECT_NE(said[0].substr(hello - 32, 32), said[1].substr(hello - 32, 32));
  const size_t proof = hello + wire::kHeaderBytes;
  EXPECT_NE(said[0].substr(proof, 32), said[1].substr(proof, 32));
}

TEST(Proving, WhoDoesNotKnowTheSecretCanNeitherTakeAPlaceNorEndIt) {
  UniqueId id = createUniqueId().value();
  const CoordinatorId where = decodeId(id).value();
  CoordinatorId other = where;
  other.secret[31] ^= 1;
  std::thread first([&] { Bootstrap::join(id, 0, 2, {.timeoutMs = 20000}).status().ignore(); });
  RawRank taker(other);
  EXPECT_FALSE(taker.join({where.nonce, 1, 2, 1, "h"}));
  // Another number of ranks, a place that is taken, and a refusal to come would each end the communicator.
  RawRank miscounting(other);
  EXPECT_FALSE(miscounting.join({where.nonce, 1, 3, 1, "h"}));
  RawRank twice(other);
  EXPECT_FALSE(twice.join({where.nonce, 0, 2, 1, "h"}));
  RawRank declining(other);
  EXPECT_FALSE(
      declining.greet(wire::MessageType::kDecline,
                      wire::encodeDecline({where.nonce, 0, 1, "h", invalidArgument("no"), declining.challenge()})));
  EXPECT_TRUE(Bootstrap::join(id, 1, 2, {.timeoutMs = 20000}).ok());
  first.join();
}

TEST(Proving, NothingIsHeardOfWhoHasNotProvenHimself) {
  UniqueId id = createUniqueId().value();
  const CoordinatorId where = decodeId(id).value();
  RawRank hasty(where);
  hasty.say(wire::MessageType::kHello, wire::encodeHello({where.nonce, 1, 2, 1, "h", 0, 0, "", hasty.challenge()}));
  wire::Writer giveUp;
  giveUp.text("");
  giveUp.status(invalidArgument("not me"));
  giveUp.u32(0);
  hasty.say(wire::MessageType::kGiveUp, giveUp.take());
  EXPECT_THAT(hasty.hear(), HasSubstr("does not know the communicator's secret"));
  auto results =
      onRanks<Status>(2, [&](int rank) { return Bootstrap::join(id, rank, 2, {.timeoutMs = 20000}).status(); });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
}

TEST(Proving, OneThatStaysSilentIsDroppedAndOthersGetIn) {
  UniqueId id = createUniqueId().value();
  const CoordinatorId where = decodeId(id).value();
  // One says nothing, one stops after its greeting, one within it.
  RawRank silent(where), half(where), stopping(where);
  const std::string hello = wire::encodeHello({where.nonce, 1, 2, 1, "h", 0, 0, "", stopping.challenge()});
  stopping.say(wire::MessageType::kHello, hello);
  half.say(wire::encodeFrame(wire::MessageType::kHello, 0, hello).substr(0, 40));
  const auto begin = std::chrono::steady_clock::now();
  // The ranks stay: the coordinator goes on.
  auto ranks = onRanks<std::shared_ptr<Bootstrap>>(2, [&](int rank) { return joined(id, rank, 2); });
  EXPECT_TRUE(ranks[0] && ranks[1]);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(silent.hear(20000), "");
  EXPECT_EQ(half.hear(20000), "");
  EXPECT_THAT(stopping.hear(20000), Not(HasSubstr("silence")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Proving, StrangersWithoutEndLeaveRoomForRanks) {
  UniqueId id = createUniqueId().value();
  const CoordinatorId where = decodeId(id).value();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit more = before;
  more.rlim_cur = std::min<rlim_t>(before.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &more);
  if (more.rlim_cur < 4000) GTEST_SKIP() << "not enough descriptors";
  // Both ends of each are this process's.
  const size_t most = mostStrangers();
  ASSERT_LE(most, 1024u);
  std::vector<std::unique_ptr<RawRank>> silent;
  for (size_t i = 0; i < most + 50; ++i) silent.push_back(std::make_unique<RawRank>(where));
  auto ranks = onRanks<std::shared_ptr<Bootstrap>>(3, [&](int rank) { return joined(id, rank, 3); });
  EXPECT_TRUE(ranks[0] && ranks[1] && ranks[2]);
  // The first ones had to go, before their time was over.
  EXPECT_EQ(silent.front()->hear(3000), "");
  silent.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
}

/// A listening socket whose guests hear what the test says.
class FalseCoordinator {
 public:
  FalseCoordinator() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
  }
  ~FalseCoordinator() { ::close(fd_); }
  Address address() const {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &size);
    return fromSockaddr(bound).value();
  }
  std::unique_ptr<RawRank> next(const Secret& secret) const {
    pollfd entry{fd_, POLLIN, 0};
    if (::poll(&entry, 1, 20000) <= 0) return nullptr;
    return std::make_unique<RawRank>(::accept(fd_, nullptr, nullptr), secret);
  }

 private:
  const int fd_;
};

TEST(Proving, ACoordinatorThatDoesNotKnowTheSecretIsNotBelieved) {
  const Secret right = secretOf("correct horse");
  // It asks for the rank's proof and sends it back, sends its own with another secret, or does without.
  for (int kind : {0, 1, 2, 3}) {
    FalseCoordinator door;
    const CoordinatorId where{.address = door.address(), .nonce = 5, .fromEnvironment = true, .secret = right};
    Status status;
    std::thread rank([&] { status = Bootstrap::joinAt(where, 1, 2, {.timeoutMs = 20000}).status(); });
    auto guest = door.next({});
    ASSERT_NE(guest, nullptr);
    const auto hello = guest->hearFrame();
    ASSERT_TRUE(hello && hello->type == wire::MessageType::kHello);
    const Challenge own = randomChallenge().value(), theirs = wire::decodeHello(hello->payload)->challenge;
    if (kind < 2) {
      guest->say(wire::MessageType::kChallenge, wire::encode32(own));
      const auto proof = guest->hearFrame();
      ASSERT_TRUE(proof && proof->type == wire::MessageType::kProof);
      const Meeting meeting = wire::meetingOf(wire::MessageType::kHello, hello->payload, theirs, own);
      guest->say(
          wire::MessageType::kProven,
          kind == 0 ? proof->payload : wire::encode32(prove(secretOf("battery staple"), Side::kListener, meeting)));
    } else {
      guest->say(kind == 2 ? wire::MessageType::kWelcome : wire::MessageType::kProven, std::string(32, 'x'));
    }
    rank.join();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << kind << ": " << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("the communicator's secret")) << kind;
    EXPECT_THAT(status.message(), HasSubstr("HPU_COMM_SECRET")) << kind;
  }
}

TEST(Proving, ACoordinatorThatHangsUpIsAskedAgain) {
  FalseCoordinator door;
  const CoordinatorId where{.address = door.address(), .nonce = 5, .secret = secretOf("correct horse")};
  Status status;
  std::thread rank([&] { status = Bootstrap::joinAt(where, 1, 2, {.timeoutMs = 20000}).status(); });
  int came = 0;
  for (; came < 6; ++came) {
    auto guest = door.next({});
    ASSERT_NE(guest, nullptr);
    guest->hearFrame();
  }
  rank.join();
  EXPECT_EQ(came, 6);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
  EXPECT_THAT(status.message(), HasSubstr("lost the coordinator"));
}

/// Rank 0 of two, as bytes, whose door is `door`: what rank 1 hears at its first gathering.
Status atParent(const FalseCoordinator& door, const std::function<void(RawRank&, const Secret&)>& behave) {
  UniqueId id = createUniqueId().value();
  const CoordinatorId room = decodeId(id).value();
  Group group(std::make_shared<Client>(room, 0, 2), "all", {0, 1});
  RawRank root(room);
  EXPECT_TRUE(root.join({room.nonce, 0, 2, 1, "h"}));
  UniqueId where = encodeId({.address = door.address(), .nonce = 1});
  wire::Writer put;
  put.text("address " + group.name() + " 0");
  put.text(std::string(reinterpret_cast<const char*>(where.bytes), sizeof where.bytes));
  root.say(wire::MessageType::kPut, put.take());
  Status status;
  std::thread child([&] {
    auto joined = Bootstrap::join(id, 1, 2, {.timeoutMs = 20000});
    status = joined.ok() ? (*joined)->barrier("b", soon()) : joined.status();
  });
  if (auto guest = door.next({})) behave(*guest, room.secret);
  child.join();
  return status;
}

TEST(Proving, AParentThatDoesNotKnowTheSecretIsNotBelieved) {
  FalseCoordinator door;
  const Status status = atParent(door, [](RawRank& guest, const Secret& secret) {
    const auto hello = guest.hearFrame();
    ASSERT_TRUE(hello && hello->type == wire::MessageType::kPeerHello);
    guest.say(wire::MessageType::kChallenge, wire::encode32(randomChallenge().value()));
    const auto proof = guest.hearFrame();
    ASSERT_TRUE(proof && proof->type == wire::MessageType::kProof);
    guest.say(wire::MessageType::kProven, proof->payload);
  });
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
  EXPECT_THAT(status.message(), HasSubstr("rank 0"));
  EXPECT_THAT(status.message(), HasSubstr("does not know the communicator's secret"));
}

TEST(Proving, WhereTheNumberCanBeGuessedAWordOfAnotherReleaseEndsNothing) {
  Address address = parseAddress("127.0.0.1:1", "it").value();
  address.port = 0;
  address.port = Reactor::acquire().value()->listen(address, nullptr).value()->address().port;
  ASSERT_TRUE(settings::set(Setting::HCCL_COMM_ID, address.text()).ok());
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_SECRET, "a secret of twenty-six chars").ok());
  const CoordinatorId where = environmentId().value();
  Status told;
  std::thread waiting([&] { told = Bootstrap::join({}, 0, 2, {.timeoutMs = 5000}).status(); });
  const base::Deadline opened = soon();
  while (!Coordinator::instance()->traffic(where.nonce) && !opened.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  RawRank old(where);
  old.say(wire::encodeFrame(wire::MessageType::kHello, 0, wire::encodeHello({where.nonce, 1, 2, 4711, "far"}), 3));
  EXPECT_THAT(old.hear(), HasSubstr("speaks version 3"));
  waiting.join();
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_SECRET, "").ok());
  ASSERT_TRUE(settings::set(Setting::HCCL_COMM_ID, "").ok());
  // The other rank was waited for, and is named.
  EXPECT_EQ(told.code(), StatusCode::kDeadlineExceeded) << told.toString();
  EXPECT_THAT(told.message(), HasSubstr("rank 1 has not come"));
  EXPECT_THAT(told.message(), HasSubstr("rank 1 (process 4711 on far) speaks version 3 of the bootstrap"));
}

TEST(Proving, AHallIsForWhoKnowsItsCommunicatorsSecret) {
  const Secret secret = secretOf("correct horse");
  const Address here = parseAddress("127.0.0.1:1", "it").value();
  Address any = here;
  any.port = 0;
  auto hall = Coordinator::instance()->openHall(any, secret).value();
  CoordinatorId told = hall->id();
  told.secret = Hall::secretOf(secret, told.nonce);
  CoordinatorId guessed = hall->id();
  guessed.secret = Hall::secretOf(secretOf("battery staple"), told.nonce);
  const CoordinatorId room = Hall::room(told, 3);
  const Status refused = Bootstrap::joinAt(Hall::room(guessed, 3), 0, 2, {.timeoutMs = 20000}).status();
  EXPECT_THAT(refused.message(), HasSubstr("does not know the communicator's secret"));
  auto results =
      onRanks<Status>(2, [&](int rank) { return Bootstrap::joinAt(room, rank, 2, {.timeoutMs = 20000}).status(); });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
}

}  // namespace
}  // namespace hpu::collectives
