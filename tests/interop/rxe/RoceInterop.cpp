// SPDX-License-Identifier: Apache-2.0
// Our side of the lab: an endpoint against Linux' rdma_rxe, in both directions.
//
//   roce_interop verbs OWN-IPV6 PEER-IPV6 PORT MTU [FAULTS] [CAPTURE]     with verbs_peer
//   roce_interop pingpong-client|pingpong-server OWN-IPV6 PEER-IPV6 PORT MTU [CONTROL-IP]     with ibv_rc_pingpong
//
// Prints what was done, a line each, and ends with 1 at the first thing that is wrong.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/Format.h"
#include "collectives/roce/udp/Endpoint.h"

namespace hpu::roce {
namespace {

using base::strCat;

constexpr uint64_t kAddress = 0x5'0000'0000;
constexpr size_t kBytes = 2 << 20;
constexpr TimeNs kSecond = 1'000'000'000;

[[noreturn]] void fail(const std::string& text) {
  std::printf("WRONG: %s\n", text.c_str());
  std::exit(1);
}
void check(bool right, const std::string& text) {
  if (!right) fail(text);
}

int connectTo(const char* ip, int port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET6, ip, &address.sin6_addr);
  for (int i = 0; i < 100; ++i) {
    const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    ::usleep(100'000);
  }
  fail(strCat("nobody listens at ", ip, " port ", port));
}

int listenAt(int port) {
  const int listener = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  check(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(listener, 1) == 0,
        "cannot listen");
  return ::accept(listener, nullptr, nullptr);
}

/// Of the pattern that verbs_peer fills its memory with.
std::byte patternAt(uint64_t seed, uint64_t i) {
  return static_cast<std::byte>((seed + i) * 2654435761u >> 16);
}
uint32_t sumOf(std::span<const std::byte> bytes) {
  uint32_t sum = 2166136261u;
  for (std::byte byte : bytes) sum = (sum ^ static_cast<uint8_t>(byte)) * 16777619u;
  return sum;
}

struct Side {
  std::unique_ptr<Endpoint> endpoint;
  std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
  uint32_t key = 0, number = 0;
  static constexpr uint32_t kFirstPsn = 0xFFFFF0;
  std::vector<Completion> requests, receives;
  uint64_t lastId = 0;

  void open(const std::string& own, FaultOptions faults, const std::string& capture) {
    EndpointOptions options;
    options.local = collectives::parseAddress("[" + own + "]:4791", "the command line").value();
    options.faults = faults;
    options.capture = capture;
    auto opened = Endpoint::open(options);
    check(opened.ok(), opened.status().message());
    endpoint = std::move(*opened);
    number = endpoint->newNumber();
    key = *endpoint->memory().add(memory.data(), kAddress, memory.size(), {true, true, true});
  }
  void connect(uint32_t mtu, uint32_t peerNumber, uint32_t peerPsn, const std::string& peer) {
    QueuePairOptions options;
    options.number = number;
    options.pathMtu = mtu;
    options.firstPsn = kFirstPsn;
    options.window = 64;
    const Status status = endpoint->connect(
        options, {peerNumber, peerPsn}, collectives::parseAddress("[" + peer + "]:4791", "the command line").value());
    check(status.ok(), status.message());
  }
  QueuePair& queuePair() { return *endpoint->find(number); }
  void step(TimeNs most) {
    if (!endpoint->progress()) endpoint->wait(Endpoint::now() + most);
    while (auto completion = queuePair().poll()) (completion->isReceive ? receives : requests).push_back(*completion);
  }
  void until(const std::function<bool()>& done, const std::string& what) {
    const TimeNs end = Endpoint::now() + 60 * kSecond;
    while (!done()) {
      check(Endpoint::now() < end, strCat(what, " does not end"));
      step(1'000'000);
    }
  }
  Completion run(Request request, const std::string& what) {
    request.id = ++lastId;
    const size_t before = requests.size();
    check(queuePair().post(request).ok(), strCat(what, " cannot be posted"));
    until([&] { return requests.size() > before; }, what);
    return requests.back();
  }
};

/// verbs_peer, while our side goes on.
struct VerbsPeer {
  Side& side;
  int fd;
  std::string buffer;
  std::string ask(const std::string& line) {
    const std::string text = line + "\n";
    check(::send(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()),
          "the control connection is gone");
    std::string answer;
    const auto whole = [&] {
      char part[512];
      const ssize_t bytes = ::recv(fd, part, sizeof part, MSG_DONTWAIT);
      check(bytes != 0, "verbs_peer has ended");
      if (bytes > 0) buffer.append(part, static_cast<size_t>(bytes));
      const size_t end = buffer.find('\n');
      if (end == std::string::npos) return false;
      answer = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      return true;
    };
    if (side.endpoint->find(side.number))
      side.until(whole, strCat("'", line, "'"));
    else
      while (!whole()) ::usleep(1000);
    return answer;
  }
};

int runVerbs(const std::string& own, const std::string& peerIp, int port, uint32_t mtu, FaultOptions faults,
             const std::string& capture) {
  Side side;
  side.open(own, faults, capture);
  VerbsPeer peer{side, connectTo(peerIp.c_str(), port), {}};
  const std::string hello = peer.ask(strCat("connect ", side.number, " ", Side::kFirstPsn, " ", own));
  unsigned number = 0, psn = 0, key = 0;
  uint64_t address = 0, bytes = 0;
  check(std::sscanf(hello.c_str(), "%u %u %u %" SCNu64 " %" SCNu64, &number, &psn, &key, &address, &bytes) == 5, hello);
  side.connect(mtu, number, psn, peerIp);
  int theirReceives = 0;
  peer.ask("receive 100");
  std::vector<uint64_t> sizes;
  for (uint64_t packets : {1, 2, 3, 7, 64})
    for (int64_t more : {-1, 0, 1}) sizes.push_back(packets * mtu + static_cast<uint64_t>(more));
  for (uint64_t size : {1, 2, 3, 4, 5, 200'001}) sizes.push_back(size);
  sizes.push_back(0);
  auto fillOwn = [&](uint64_t seed, uint64_t from, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) side.memory[from + i] = patternAt(seed, i);
  };
  for (uint64_t size : sizes) {
    const std::string what = strCat("of ", size, " bytes");
    const std::span<std::byte> data = std::span(side.memory).first(size);
    // We write, and read it back; they sum it up.
    fillOwn(size, 0, size);
    const uint32_t sum = sumOf(data);
    Request request;
    request.verb = Verb::kWrite;
    request.local = data;
    request.remoteAddress = address;
    request.remoteKey = key;
    check(side.run(request, "our WRITE " + what).outcome == Outcome::kSuccess, "our WRITE " + what);
    check(peer.ask(strCat("sum 0 ", size)) == std::to_string(sum), "their memory after our WRITE " + what);
    std::vector<std::byte> back(size);
    request.verb = Verb::kRead;
    request.local = back;
    check(side.run(request, "our READ " + what).outcome == Outcome::kSuccess, "our READ " + what);
    check(sumOf(back) == sum, "what our READ brought " + what);
    // We send, and write with an immediate.
    if (size <= (64 << 10)) {
      unsigned length = 0, immediate = 0;
      int count = 0;
      request.verb = Verb::kSend;
      request.local = data;
      check(side.run(request, "our SEND " + what).outcome == Outcome::kSuccess, "our SEND " + what);
      ++theirReceives;
      std::sscanf(peer.ask("received").c_str(), "%d %u %u", &count, &length, &immediate);
      check(count == theirReceives && length == size,
            strCat("their receive ", what, ": ", count, " of ", theirReceives, ", ", length));
      check(peer.ask(strCat("sum ", bytes / 2, " ", size)) == std::to_string(sum), "what they received " + what);
    }
    request.verb = Verb::kWrite;
    request.local = data;
    request.hasImmediate = true;
    request.immediate = 0xCAFE0000 + static_cast<uint32_t>(size & 0xFFFF);
    check(side.run(request, "our WRITE with immediate " + what).outcome == Outcome::kSuccess,
          "our WRITE with immediate " + what);
    ++theirReceives;
    unsigned length = 0, immediate = 0;
    int count = 0;
    std::sscanf(peer.ask("received").c_str(), "%d %u %u", &count, &length, &immediate);
    check(count == theirReceives && immediate == request.immediate, strCat("their immediate ", what, ": ", immediate));
    // They do the same to us.
    peer.ask(strCat("fill ", size + 77, " 0 ", size));
    uint32_t theirs = 2166136261u;
    for (uint64_t i = 0; i < size; ++i) theirs = (theirs ^ static_cast<uint8_t>(patternAt(size + 77, i))) * 16777619u;
    const uint64_t own64 = kAddress + kBytes / 2;
    std::string answer = peer.ask(strCat("write 0 ", size, " ", own64, " ", side.key));
    check(answer == "0 success", "their WRITE " + what + ": " + answer);
    check(sumOf(std::span(side.memory).subspan(kBytes / 2, size)) == theirs, "our memory after their WRITE " + what);
    answer = peer.ask(strCat("read ", 0, " ", size, " ", own64, " ", side.key));
    check(answer == "0 success" && peer.ask(strCat("sum 0 ", size)) == std::to_string(theirs),
          "their READ " + what + ": " + answer);
    const size_t received = side.receives.size();
    std::vector<std::byte> place(size + 8);
    check(side.queuePair().post(Receive{1, place}).ok() && side.queuePair().post(Receive{2, {}}).ok(), "our receives");
    answer = peer.ask(strCat("send 0 ", size));
    check(answer == "0 success", "their SEND " + what + ": " + answer);
    answer = peer.ask(strCat("writeimm 0 ", size, " ", own64, " ", side.key));
    check(answer == "0 success", "their WRITE with immediate " + what + ": " + answer);
    check(side.receives.size() == received + 2, "our receives " + what);
    check(side.receives[received].bytes == size && sumOf(std::span(place).first(size)) == theirs,
          "what we received " + what);
    check(side.receives[received + 1].hasImmediate && side.receives[received + 1].immediate == 0x1234ABCD,
          "our immediate " + what);
  }
  std::printf("WRITE, WRITE with immediate, READ, SEND of %zu sizes, both ways\n", sizes.size());

  // Atomic operations, both ways.
  uint64_t value = 40, old = 0;
  memcpy(side.memory.data(), &value, 8);
  std::vector<std::byte> before(8);
  Request request;
  request.verb = Verb::kWrite;
  request.local = std::span(side.memory).first(8);
  request.remoteAddress = address + 64;
  request.remoteKey = key;
  check(side.run(request, "WRITE").outcome == Outcome::kSuccess, "WRITE");
  for (uint64_t i = 0; i < 20; ++i) {
    request.verb = i % 2 ? Verb::kCompareSwap : Verb::kFetchAdd;
    request.local = before;
    request.compare = value;
    request.swapOrAdd = 1000 + i;
    check(side.run(request, "our atomic").outcome == Outcome::kSuccess, "our atomic operation");
    memcpy(&old, before.data(), 8);
    check(old == value, strCat("our atomic operation found ", old, ", not ", value));
    value = i % 2 ? 1000 + i : value + 1000 + i;
  }
  value = 7;
  memcpy(side.memory.data() + 128, &value, 8);
  for (uint64_t i = 0; i < 20; ++i) {
    int status = 0;
    const std::string answer =
        peer.ask(strCat(i % 2 ? "swap " : "add ", 500 + i, " ", value, " ", kAddress + 128, " ", side.key));
    check(std::sscanf(answer.c_str(), "%d %*s %" SCNu64, &status, &old) == 2 && status == 0 && old == value,
          "their atomic operation: " + answer);
    value = i % 2 ? 500 + i : value + 500 + i;
  }
  memcpy(&old, side.memory.data() + 128, 8);
  check(old == value, "our memory after their atomic operations");
  std::printf("40 atomic operations, both ways\n");

  // What is not allowed: theirs first, since it ends the connection.
  const std::string answer = peer.ask(strCat("write 0 16 ", kAddress + kBytes - 15, " ", side.key));
  check(answer.rfind("10 ", 0) == 0, "their WRITE beyond our memory: " + answer);  // IBV_WC_REM_ACCESS_ERR
  std::printf("beyond the bounds: refused\n");
  const Endpoint::Counters& counters = side.endpoint->counters();
  const Requester::Counters& sent = side.queuePair().sent();
  std::printf(
      "datagrams: %llu out, %llu in; wrong ICRC %llu; faults %llu; sent again %llu, timeouts %llu, sequence errors "
      "%llu\n",
      static_cast<unsigned long long>(counters.sent), static_cast<unsigned long long>(counters.received),
      static_cast<unsigned long long>(counters.badIcrc), static_cast<unsigned long long>(counters.faults),
      static_cast<unsigned long long>(sent.again), static_cast<unsigned long long>(sent.timeouts),
      static_cast<unsigned long long>(sent.sequenceErrors));
  check(faults.corrupt > 0 || counters.badIcrc == 0, "datagrams with a wrong ICRC");
  return 0;
}

/// The exchange of ibv_rc_pingpong: "LID:QPN:PSN:GID", and "done".
int runPingpong(bool client, const std::string& own, const std::string& peerIp, const std::string& control, int port,
                uint32_t mtu) {
  constexpr int kIterations = 1000;
  constexpr size_t kSize = 4096, kMessage = sizeof "0000:000000:000000:00000000000000000000000000000000";
  Side side;
  side.open(own, {}, "");
  const int fd = client ? connectTo(control.c_str(), port) : listenAt(port);
  in6_addr gid;
  inet_pton(AF_INET6, own.c_str(), &gid);
  char message[kMessage], theirs[kMessage] = "";
  int at = std::snprintf(message, sizeof message, "%04x:%06x:%06x:", 0, side.number, Side::kFirstPsn);
  for (int i = 0; i < 16; ++i)
    at += std::snprintf(message + at, sizeof message - static_cast<size_t>(at), "%02x", gid.s6_addr[i]);
  unsigned lid = 0, number = 0, psn = 0;
  auto readTheirs = [&] {
    check(::recv(fd, theirs, sizeof theirs, MSG_WAITALL) == static_cast<ssize_t>(sizeof theirs) &&
              std::sscanf(theirs, "%x:%x:%x", &lid, &number, &psn) == 3,
          "the exchange of ibv_rc_pingpong");
  };
  if (!client) readTheirs();
  if (client) {
    check(::send(fd, message, sizeof message, 0) == static_cast<ssize_t>(sizeof message), "the exchange");
    readTheirs();
  }
  side.connect(mtu, number, psn, peerIp);
  std::vector<std::byte> room(kSize);
  for (uint64_t i = 0; i < 2 * kIterations; ++i) check(side.queuePair().post(Receive{i, room}).ok(), "our receives");
  if (!client) check(::send(fd, message, sizeof message, 0) == static_cast<ssize_t>(sizeof message), "the exchange");
  char done[5] = "done";
  if (client)
    check(::send(fd, done, sizeof done, 0) == sizeof done, "done");
  else
    check(::recv(fd, done, sizeof done, MSG_WAITALL) == sizeof done, "done");
  Request request;
  request.verb = Verb::kSend;
  request.local = std::span(side.memory).first(kSize);
  for (int i = 0; i < kIterations; ++i) {
    const auto want = static_cast<size_t>(i + 1);
    if (client) check(side.run(request, "SEND").outcome == Outcome::kSuccess, "our SEND");
    side.until([&] { return side.receives.size() >= want; }, "their SEND");
    check(side.receives.back().outcome == Outcome::kSuccess && side.receives.back().bytes == kSize, "what we received");
    if (!client) check(side.run(request, "SEND").outcome == Outcome::kSuccess, "our SEND");
  }
  std::printf("%d messages each way with ibv_rc_pingpong, we are the %s\n", kIterations, client ? "client" : "server");
  // Answers to what comes last.
  const TimeNs end = Endpoint::now() + kSecond / 2;
  while (Endpoint::now() < end) side.step(10'000'000);
  return 0;
}

}  // namespace
}  // namespace hpu::roce

int main(int argc, char** argv) {
  using namespace hpu::roce;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc < 6) fail("usage: roce_interop verbs|pingpong-client|pingpong-server OWN PEER PORT MTU [FAULTS] [CAPTURE]");
  const std::string mode = argv[1];
  const auto mtu = static_cast<uint32_t>(std::atoi(argv[5]));
  if (mode != "verbs")
    return runPingpong(mode == "pingpong-client", argv[2], argv[3], argc > 6 ? argv[6] : argv[3], std::atoi(argv[4]),
                       mtu);
  FaultOptions faults;
  if (argc > 6) {
    auto parsed = parseFaults(argv[6]);
    check(parsed.ok(), parsed.status().message());
    faults = *parsed;
  }
  return runVerbs(argv[2], argv[3], std::atoi(argv[4]), mtu, faults, argc > 7 ? argv[7] : "");
}
