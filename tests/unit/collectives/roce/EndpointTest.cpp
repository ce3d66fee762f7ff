// SPDX-License-Identifier: Apache-2.0
// Endpoints over the kernel's loopback: every verb, sizes around the path MTU, faults, strangers, captures.
#include "collectives/roce/udp/Endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "collectives/roce/Icrc.h"
#include "tests/unit/collectives/roce/Lab.h"

namespace hpu::roce {
namespace {

using ::testing::HasSubstr;

constexpr TimeNs kSecond = 1'000'000'000;

/// With port 0: any.
Address addressOf(const std::string& ip) {
  Address address = collectives::parseAddress(ip + ":1", "the test").value();
  address.port = 0;
  return address;
}

/// Two endpoints with a connection between them.
struct Pair {
  struct Side {
    std::unique_ptr<Endpoint> endpoint;
    std::vector<std::byte> memory = std::vector<std::byte>(9 << 20);
    uint32_t key = 0, number = 0;
    std::vector<Completion> requests, receives;
    QueuePair& queuePair() { return *endpoint->find(number); }
  };
  Side sides[2];
  static constexpr uint64_t kAddress = 0x7000'0000'0000;

  explicit Pair(const std::string& local = "[::1]", FaultOptions faults = {}, uint32_t mtu = 4096,
                const std::string& capture = "") {
    for (int i = 0; i < 2; ++i) {
      EndpointOptions options;
      options.local = addressOf(local);
      options.faults = faults;
      options.faults.seed += static_cast<uint64_t>(i);
      if (i == 0) options.capture = capture;
      auto endpoint = Endpoint::open(options);
      EXPECT_TRUE(endpoint.ok()) << endpoint.status().message();
      sides[i].endpoint = std::move(*endpoint);
      sides[i].number = sides[i].endpoint->newNumber();
      sides[i].key = *sides[i].endpoint->memory().add(sides[i].memory.data(), kAddress, sides[i].memory.size(),
                                                      {true, true, true});
    }
    for (int i = 0; i < 2; ++i) {
      Side &own = sides[i], &peer = sides[1 - i];
      QueuePairOptions options;
      options.number = own.number;
      options.pathMtu = mtu;
      options.firstPsn = psnAdd(0xFFFFF0, 100 * i);
      options.window = std::min<uint32_t>(128, peer.endpoint->receiveWindow(mtu) / 2);
      options.timeoutNs = 20'000'000;
      Status status =
          own.endpoint->connect(options, {peer.number, psnAdd(0xFFFFF0, 100 * (1 - i))}, peer.endpoint->local());
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }

  bool run(size_t requests, size_t receives = 0, TimeNs most = 20 * kSecond) {
    const TimeNs until = Endpoint::now() + most;
    while (Endpoint::now() < until) {
      bool moved = false;
      for (Side& side : sides) {
        moved |= side.endpoint->progress();
        QueuePair* pair = side.endpoint->find(side.number);
        while (auto completion = pair ? pair->poll() : std::nullopt)
          (completion->isReceive ? side.receives : side.requests).push_back(*completion);
      }
      if (sides[0].requests.size() >= requests && sides[1].receives.size() >= receives) return true;
      if (!moved) sides[0].endpoint->wait(Endpoint::now() + 1'000'000);
    }
    return false;
  }

  Request request(Verb verb, std::span<std::byte> local, uint64_t offset = 0) {
    Request request;
    request.id = ++lastId;
    request.verb = verb;
    request.local = local;
    request.remoteAddress = kAddress + offset;
    request.remoteKey = sides[1].key;
    return request;
  }
  uint64_t lastId = 0;
};

class EndpointVerbs : public ::testing::TestWithParam<const char*> {};

TEST_P(EndpointVerbs, MoveEveryByteAtSizesAroundThePathMtu) {
  for (uint32_t mtu : {256u, 1024u, 4096u}) {
    Pair pair(GetParam(), {}, mtu);
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{3}, size_t{mtu} - 1, size_t{mtu}, size_t{mtu} + 1,
                         size_t{mtu} * 64 + 5, size_t{300'001}}) {
      SCOPED_TRACE(::testing::Message() << "MTU " << mtu << ", " << bytes << " bytes");
      std::vector<std::byte> data(bytes), read(bytes), place(bytes + 1);
      fill(data, static_cast<uint32_t>(bytes));
      pair.sides[0].requests.clear();
      pair.sides[1].receives.clear();
      ASSERT_TRUE(pair.sides[1].queuePair().post(Receive{1, place}).ok());
      ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kWrite, data, 64)).ok());
      ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kSend, data)).ok());
      ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kRead, read, 64)).ok());
      ASSERT_TRUE(pair.run(3, 1));
      for (const Completion& completion : pair.sides[0].requests) EXPECT_EQ(completion.outcome, Outcome::kSuccess);
      EXPECT_EQ(pair.sides[1].receives[0].bytes, bytes);
      if (bytes == 0) continue;
      EXPECT_EQ(memcmp(pair.sides[1].memory.data() + 64, data.data(), bytes), 0);
      EXPECT_EQ(memcmp(place.data(), data.data(), bytes), 0);
      EXPECT_EQ(read, data);
    }
  }
}

TEST_P(EndpointVerbs, DoAtomicOperationsOnce) {
  Pair pair(GetParam());
  uint64_t value = 40;
  memcpy(pair.sides[1].memory.data(), &value, 8);
  std::vector<std::byte> before(8);
  for (uint64_t i = 0; i < 10; ++i) {
    Request add = pair.request(Verb::kFetchAdd, before);
    add.swapOrAdd = 2;
    ASSERT_TRUE(pair.sides[0].queuePair().post(add).ok());
    ASSERT_TRUE(pair.run(i + 1));
    memcpy(&value, before.data(), 8);
    EXPECT_EQ(value, 40 + 2 * i);
  }
}

INSTANTIATE_TEST_SUITE_P(Loopback, EndpointVerbs, ::testing::Values("[::1]", "127.0.0.1"),
                         [](const auto& info) { return info.index == 0 ? "IPv6" : "IPv4"; });

TEST(Endpoint, MovesMegabytesInTrains) {
  Pair pair;
  std::vector<std::byte> data(8 << 20);
  fill(data, 5);
  ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kWrite, data)).ok());
  ASSERT_TRUE(pair.run(1));
  EXPECT_EQ(pair.sides[0].requests[0].outcome, Outcome::kSuccess);
  EXPECT_EQ(memcmp(pair.sides[1].memory.data(), data.data(), data.size()), 0);
}

TEST(Endpoint, SurvivesLossDuplicationAndCorruption) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Pair pair("[::1]", {.seed = seed, .drop = 0.02, .duplicate = 0.02, .corrupt = 0.02}, 1024);
    std::vector<std::byte> data(1 << 20), read(1 << 20);
    fill(data, 6);
    ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kWrite, data)).ok());
    ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kRead, read)).ok());
    ASSERT_TRUE(pair.run(2, 0, 60 * kSecond));
    EXPECT_EQ(pair.sides[0].requests[0].outcome, Outcome::kSuccess);
    EXPECT_EQ(pair.sides[0].requests[1].outcome, Outcome::kSuccess);
    EXPECT_EQ(read, data);
    EXPECT_GT(pair.sides[1].endpoint->counters().faults, 0u);
    EXPECT_GT(pair.sides[1].endpoint->counters().badIcrc + pair.sides[1].endpoint->counters().malformed +
                  pair.sides[1].endpoint->counters().noQueuePair,
              0u);
  }
}

TEST(Endpoint, RefusesWhatTheKeyDoesNotAllow) {
  for (int kind = 0; kind < 3; ++kind) {
    Pair pair;
    std::vector<std::byte> data(5000), before = pair.sides[1].memory;
    fill(data, 7);
    Request write = pair.request(Verb::kWrite, data);
    if (kind == 0) write.remoteKey ^= 1;
    if (kind == 1) write.remoteAddress = Pair::kAddress + pair.sides[1].memory.size() - 4999;
    if (kind == 2) pair.sides[1].endpoint->memory().remove(pair.sides[1].key);
    ASSERT_TRUE(pair.sides[0].queuePair().post(write).ok());
    ASSERT_TRUE(pair.run(1));
    EXPECT_EQ(pair.sides[0].requests[0].outcome, Outcome::kRemoteAccess);
    EXPECT_EQ(pair.sides[1].memory, before);
  }
}

TEST(Endpoint, APeerThatIsGoneEndsWithRetriesExceeded) {
  Pair pair;
  pair.sides[1].endpoint->remove(pair.sides[1].number);
  std::vector<std::byte> data(100);
  ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kWrite, data)).ok());
  ASSERT_TRUE(pair.run(1));
  EXPECT_EQ(pair.sides[0].requests[0].outcome, Outcome::kRetriesExceeded);
  EXPECT_GT(pair.sides[1].endpoint->counters().noQueuePair, 0u);
  EXPECT_EQ(pair.sides[0].queuePair().post(pair.request(Verb::kWrite, data)).code(), StatusCode::kFailedPrecondition);
}

TEST(Endpoint, ConnectionsWithoutWorkNeitherSendNorWake) {
  Pair pair;
  constexpr uint32_t kIdle = 300;
  for (uint32_t i = 0; i < kIdle; ++i) {
    QueuePairOptions options;
    options.number = pair.sides[0].endpoint->newNumber();
    ASSERT_TRUE(pair.sides[0].endpoint->connect(options, {77, 0}, pair.sides[1].endpoint->local()).ok());
  }
  EXPECT_FALSE(pair.sides[0].endpoint->nextTime());
  std::vector<std::byte> data(100'000);
  ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kWrite, data)).ok());
  EXPECT_EQ(pair.sides[0].endpoint->nextTime(), 0);  // Something was posted.
  ASSERT_TRUE(pair.run(1));
  // A timer that was set for the answer may come once, for nothing.
  int looks = 0;
  while (const auto next = pair.sides[0].endpoint->nextTime()) {
    pair.sides[0].endpoint->wait(*next);
    (void)pair.sides[0].endpoint->progress();
    ASSERT_LT(++looks, 10);
  }
  const uint64_t sent = pair.sides[0].endpoint->counters().sent;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(pair.sides[0].endpoint->progress());
  EXPECT_EQ(pair.sides[0].endpoint->counters().sent, sent);
}

TEST(Endpoint, TellsWhichQueuePairsHaveCompletions) {
  Pair pair;
  std::vector<std::byte> data(10), place(10);
  Endpoint& sender = *pair.sides[0].endpoint;
  ASSERT_TRUE(pair.sides[1].queuePair().post(Receive{1, place}).ok());
  ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kSend, data)).ok());
  EXPECT_FALSE(sender.hasCompleted());
  sender.send();  // Out at once, without a look at what comes.
  EXPECT_EQ(sender.counters().sent, 1u);
  const TimeNs until = Endpoint::now() + 10 * kSecond;
  while (!sender.hasCompleted() && Endpoint::now() < until)
    for (Pair::Side& side : pair.sides) (void)side.endpoint->progress();
  EXPECT_EQ(sender.takeCompleted(), pair.sides[0].number);
  EXPECT_EQ(sender.takeCompleted(), 0u);
  EXPECT_EQ(pair.sides[1].endpoint->takeCompleted(), pair.sides[1].number);
  // One that is gone has none.
  ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kSend, data)).ok());
  pair.sides[0].queuePair().close();
  sender.send();
  EXPECT_TRUE(sender.hasCompleted());
  sender.remove(pair.sides[0].number);
  EXPECT_EQ(sender.takeCompleted(), 0u);
}

TEST(Endpoint, ACaptureHasOneWriter) {
  const std::string path =
      std::filesystem::temp_directory_path().string() + "/hpu-one-writer-" + std::to_string(::getpid()) + ".pcap";
  EndpointOptions options;
  options.local = addressOf("[::1]");
  options.capture = path;
  {
    auto first = Endpoint::open(options).value();
    const Status second = Endpoint::open(options).status();
    EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
    EXPECT_THAT(second.message(), HasSubstr(path));
  }
  EXPECT_TRUE(Endpoint::open(options).ok());
  std::filesystem::remove(path);
}

/// A socket of somebody who knows the numbers of a connection.
struct Stranger {
  int fd = -1;
  Address address;
  Stranger(const std::string& at, bool marked) {
    address = addressOf(at);
    fd = ::socket(address.v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage storage{};
    socklen_t bytes = collectives::toSockaddr(address, storage);
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&storage), bytes), 0);
    bytes = sizeof storage;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &bytes);
    address = collectives::fromSockaddr(storage).value();
    const int dontFragment = IP_PMTUDISC_DO, tos = 3;
    ::setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dontFragment, sizeof dontFragment);
    if (marked) ::setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
    if (marked) ::setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof tos);
  }
  ~Stranger() { ::close(fd); }
  void send(const Packet& packet, const Address& to) const {
    std::vector<uint8_t> datagram(datagramBytes(packet));
    encode(packet, datagram);
    Route route;
    route.isV6 = to.v6;
    std::copy_n(address.ip, 16, route.source.begin());
    std::copy_n(to.ip, 16, route.destination.begin());
    route.sourcePort = address.port;
    route.destinationPort = to.port;
    sealIcrc(route, datagram);
    sockaddr_storage storage{};
    const socklen_t bytes = collectives::toSockaddr(to, storage);
    EXPECT_GT(::sendto(fd, datagram.data(), datagram.size(), 0, reinterpret_cast<sockaddr*>(&storage), bytes), 0);
  }
};

TEST(Endpoint, HearsNobodyButThePeer) {
  Pair pair("127.0.0.1");
  Packet packet;
  packet.opcode = Opcode::kWriteOnly;
  packet.queuePair = pair.sides[1].number;
  packet.psn = 0xFFFFF0;
  packet.address = Pair::kAddress;
  packet.key = pair.sides[1].key;
  const std::vector<uint8_t> payload(8, 0xEE);
  packet.payload = payload;
  packet.length = 8;
  const std::vector<std::byte> before = pair.sides[1].memory;
  Stranger stranger("127.0.0.2", false);
  stranger.send(packet, pair.sides[1].endpoint->local());
  pair.sides[1].endpoint->wait(Endpoint::now() + kSecond);
  pair.sides[1].endpoint->progress();
  EXPECT_EQ(pair.sides[1].endpoint->counters().wrongPeer, 1u);
  EXPECT_EQ(pair.sides[1].memory, before);
}

TEST(Endpoint, TellsOfCongestionAndHoldsBackWhenTold) {
  for (const char* local : {"127.0.0.1", "[::1]"}) {
    Pair pair(local);
    Packet packet;  // Of a number that is over: it does nothing but be marked.
    packet.opcode = Opcode::kWriteOnly;
    packet.queuePair = pair.sides[1].number;
    packet.psn = 0xFFFFE0;
    packet.key = pair.sides[1].key;
    packet.address = Pair::kAddress;
    Stranger stranger(local, true);
    stranger.send(packet, pair.sides[1].endpoint->local());
    const TimeNs until = Endpoint::now() + 10 * kSecond;
    while (pair.sides[0].queuePair().sender().congestion().notifications() == 0 && Endpoint::now() < until)
      (void)pair.run(1, 0, 1'000'000);
    EXPECT_EQ(pair.sides[1].endpoint->counters().congestionSeen, 1u) << local;
    EXPECT_EQ(pair.sides[1].endpoint->counters().congestionTold, 1u) << local;
    EXPECT_EQ(pair.sides[0].queuePair().sender().congestion().notifications(), 1u) << local;
  }
}

TEST(Endpoint, SaysWhyItCannotOpen) {
  EndpointOptions options;
  options.local = addressOf("[::]");
  EXPECT_THAT(Endpoint::open(options).status().message(), HasSubstr("it needs one address"));
  options.local = addressOf("[::1]");
  auto first = Endpoint::open(options).value();
  options.local = first->local();
  EXPECT_THAT(Endpoint::open(options).status().message(), HasSubstr("another process has the port"));
  options.local = addressOf("192.0.2.1");
  EXPECT_THAT(Endpoint::open(options).status().message(), HasSubstr("no interface of this machine has the address"));
  options.local = addressOf("[::1]");
  options.capture = "/nowhere/x.pcap";
  EXPECT_THAT(Endpoint::open(options).status().message(), HasSubstr("/nowhere/x.pcap"));
  QueuePairOptions pair;
  pair.number = 20;
  EXPECT_THAT(first->connect(pair, {21, 0}, addressOf("127.0.0.1")).message(), HasSubstr("both ends are IPv4"));
}

/// Every verb, a refusal and a lost packet. HPU_TEST_CAPTURE keeps the file, for checks by other programs.
TEST(Endpoint, CapturesWhatGoesAndComes) {
  const char* keep = std::getenv("HPU_TEST_CAPTURE");
  for (const char* local : {"[::1]", "127.0.0.1"}) {
    const std::string name = std::string(local[0] == '[' ? "v6" : "v4") + ".pcap";
    const std::string path = keep ? std::string(keep) + "." + name
                                  : std::filesystem::temp_directory_path().string() + "/" + "hpu-endpoint-" +
                                        std::to_string(::getpid()) + "." + name;
    uint64_t datagrams = 0;
    {
      Pair pair(local, {.seed = 4, .drop = 0.05}, 1024, path);
      std::vector<std::byte> data(10'001), read(5'000), place(20'000), old(8);
      fill(data, 12);
      for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(pair.sides[1].queuePair().post(Receive{id, place}).ok());
      Request write = pair.request(Verb::kWrite, data);
      write.hasImmediate = true;
      for (const Request& request : {write, pair.request(Verb::kSend, data), pair.request(Verb::kRead, read),
                                     pair.request(Verb::kFetchAdd, old), pair.request(Verb::kCompareSwap, old)})
        ASSERT_TRUE(pair.sides[0].queuePair().post(request).ok());
      ASSERT_TRUE(pair.run(5, 2));
      Request wrong = pair.request(Verb::kWrite, data);
      wrong.remoteKey ^= 1;
      ASSERT_TRUE(pair.sides[0].queuePair().post(wrong).ok());
      ASSERT_TRUE(pair.run(6, 2));
      EXPECT_EQ(pair.sides[0].requests[5].outcome, Outcome::kRemoteAccess);
      datagrams = pair.sides[0].endpoint->counters().sent + pair.sides[0].endpoint->counters().received;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    if (!keep) std::filesystem::remove(path);
    uint64_t records = 0;
    size_t at = 24;
    while (at + 16 <= bytes.size()) {
      uint32_t length = 0;
      memcpy(&length, bytes.data() + at + 8, 4);
      EXPECT_EQ(bytes[at + 16], local[0] == '[' ? 0x60 : 0x45);
      at += 16 + length;
      ++records;
    }
    EXPECT_EQ(at, bytes.size());
    EXPECT_EQ(records, datagrams);
    EXPECT_GE(records, 30u);
  }
}

/// Whoever drives it as the header says need not end it to have its packets in the file.
TEST(Endpoint, ACaptureHasThePacketsOfAProcessThatIsKilled) {
  const std::string path =
      std::filesystem::temp_directory_path().string() + "/hpu-endpoint-" + std::to_string(::getpid()) + ".killed.pcap";
  Pair pair("127.0.0.1", {}, 1024, path);
  Endpoint& endpoint = *pair.sides[0].endpoint;
  const auto before = std::filesystem::file_size(path);
  EXPECT_FALSE(endpoint.nextTime());
  std::vector<std::byte> data(3000);
  for (int round = 1; round <= 2; ++round) {
    ASSERT_TRUE(pair.sides[0].queuePair().post(pair.request(Verb::kWrite, data)).ok());
    ASSERT_TRUE(pair.run(static_cast<size_t>(round)));
    // As the thread of a network does it, until there is nothing more to do.
    while (const auto next = endpoint.nextTime()) {
      endpoint.wait(*next);
      (void)endpoint.progress();
    }
    // Three packets and an answer at least, with what stands before them.
    constexpr size_t kHeads = 16 + 20 + 8 + 12 + 4;
    EXPECT_GE(std::filesystem::file_size(path), before + static_cast<size_t>(round) * (data.size() + 4 * kHeads));
  }
  std::filesystem::remove(path);
}

TEST(Faults, AreThoseOfTheirSeedAndRefuseNonsense) {
  auto fates = [](uint64_t seed) {
    Faults faults({.seed = seed, .drop = 0.3, .duplicate = 0.3, .corrupt = 0.3});
    std::vector<int> all;
    for (int i = 0; i < 1000; ++i) {
      const Faults::Fate fate = faults.next();
      all.push_back(fate.drop + 2 * fate.duplicate + 4 * fate.corrupt);
    }
    return all;
  };
  EXPECT_EQ(fates(1), fates(1));
  EXPECT_NE(fates(1), fates(2));
  const std::vector<int> some = fates(3);
  EXPECT_NEAR(static_cast<double>(std::count_if(some.begin(), some.end(), [](int f) { return f & 1; })), 300, 60);
  EXPECT_EQ(parseFaults("drop=0.25,seed=9")->seed, 9u);
  EXPECT_EQ(parseFaults("drop=0.25,seed=9")->drop, 0.25);
  for (const char* wrong : {"drop", "drop=", "drop=2", "drop=-1", "drop=nan", "loss=0.1", "seed=x", ",", "drop=0.1x"})
    EXPECT_EQ(parseFaults(wrong).status().code(), StatusCode::kInvalidArgument) << wrong;
}

}  // namespace
}  // namespace hpu::roce
