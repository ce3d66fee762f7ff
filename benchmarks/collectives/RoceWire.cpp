// SPDX-License-Identifier: Apache-2.0
// How fast RoCE v2 in user space is beside plain UDP: a process writes messages into another one's memory.
//
//   roce_wire MODE BYTES MESSAGES MTU ADDRESS_A ADDRESS_B [NAMESPACE_OF_B]
//
// MODE: roce: RDMA writes, one after another. udp: the same bytes in the same trains with a window, each datagram
// copied and summed (CRC-32) at both ends as RoCE has to. bare: udp without copies and sums. One line: seconds of all
// messages. benchmarks/collectives/roce_wire.py makes the network, runs them in turn and prints ratios.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "collectives/roce/Icrc.h"
#include "collectives/roce/udp/Endpoint.h"

namespace hpu::roce {
namespace {

constexpr uint64_t kRemote = 0x10'0000'0000;
constexpr TimeNs kTimeoutNs = TimeNs{120} * 1'000'000'000;

struct Shared {
  std::atomic<int> ready{0};
  std::atomic<bool> done{false};
  Address addresses[2];
  uint32_t numbers[2] = {}, key = 0;
};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "roce_wire: %s\n", text.c_str());
  std::exit(1);
}

struct Setup {
  std::string mode;
  size_t bytes = 0, messages = 0;
  uint32_t mtu = 4096;
  Address local[2];
};

void meet(Shared& shared) {
  ++shared.ready;
  const TimeNs until = Endpoint::now() + kTimeoutNs;
  while (shared.ready < 2)
    if (Endpoint::now() > until) fail("the other process does not come");
}

// ---- RDMA ----------------------------------------------------------------------------------------

void runRoce(const Setup& setup, Shared& shared, int side, std::span<std::byte> memory) {
  EndpointOptions options;
  options.local = setup.local[side];
  auto endpoint = Endpoint::open(options);
  if (!endpoint.ok()) fail(endpoint.status().message());
  Endpoint& own = **endpoint;
  shared.addresses[side] = own.local();
  shared.numbers[side] = own.newNumber();
  if (side == 1) shared.key = own.memory().add(memory.data(), kRemote, memory.size(), {.write = true}).value();
  meet(shared);
  QueuePairOptions pair;
  pair.number = shared.numbers[side];
  pair.pathMtu = setup.mtu;
  pair.window = std::min<uint32_t>(256, own.receiveWindow(setup.mtu) / 2);
  const Status status = own.connect(pair, {shared.numbers[1 - side], 0}, shared.addresses[1 - side]);
  if (!status.ok()) fail(status.message());
  const TimeNs until = Endpoint::now() + kTimeoutNs;
  if (side == 1) {
    while (!shared.done && Endpoint::now() < until)
      if (!own.progress()) own.wait(Endpoint::now() + 10'000'000);
    return;
  }
  QueuePair& queue = *own.find(pair.number);
  auto message = [&] {
    Request request;
    request.verb = Verb::kWrite;
    request.local = memory.first(setup.bytes);
    request.remoteAddress = kRemote;
    request.remoteKey = shared.key;
    if (!queue.post(request).ok()) fail("post");
    for (;;) {
      const bool moved = own.progress();
      if (auto done = queue.poll()) {
        if (done->outcome != Outcome::kSuccess) fail(std::string(outcomeName(done->outcome)));
        return;
      }
      if (Endpoint::now() > until) fail("no completion");
      if (!moved) own.wait(Endpoint::now() + 10'000'000);
    }
  };
  message();
  const TimeNs begin = Endpoint::now();
  for (size_t i = 0; i < setup.messages; ++i) message();
  const Requester::Counters& sent = queue.sent();
  std::printf("%.6f packets=%llu again=%llu timeouts=%llu\n", static_cast<double>(Endpoint::now() - begin) * 1e-9,
              static_cast<unsigned long long>(sent.packets), static_cast<unsigned long long>(sent.again),
              static_cast<unsigned long long>(sent.timeouts));
  shared.done = true;
}

// ---- Plain UDP -----------------------------------------------------------------------------------

void waitFor(const UdpSocket& socket) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(socket.descriptor(), &set);
  timeval timeout{0, 10'000};
  ::select(socket.descriptor() + 1, &set, nullptr, nullptr, &timeout);
}

// The datagrams of RoCE: 16 bytes of headers, of which the first 8 are the number, the payload, and a sum.
void runUdp(const Setup& setup, Shared& shared, int side, std::span<std::byte> memory) {
  const bool bare = setup.mode == "bare";
  UdpOptions options;
  options.local = setup.local[side];
  auto opened = UdpSocket::open(options);
  if (!opened.ok()) fail(opened.status().message());
  UdpSocket& socket = *opened;
  shared.addresses[side] = socket.local();
  meet(shared);
  const Address peer = shared.addresses[1 - side];
  constexpr size_t kHead = 16, kSum = 4, kAckEvery = 32;
  const size_t packets = (setup.bytes + setup.mtu - 1) / setup.mtu, datagram = kHead + setup.mtu + kSum;
  const uint64_t all = packets * (setup.messages + 1), window = 256;
  const TimeNs until = Endpoint::now() + kTimeoutNs;
  uint64_t received = 0;
  if (side == 1) {
    uint64_t told = 0;
    while (!shared.done && Endpoint::now() < until) {
      const bool came = socket.receive([&](const Arrival& arrival) {
        uint64_t number = 0;
        memcpy(&number, arrival.datagram.data(), sizeof number);
        if (number != received) return;
        if (!bare) {
          const auto payload = arrival.datagram.subspan(kHead, arrival.datagram.size() - kHead - kSum);
          uint32_t sum = 0;
          memcpy(&sum, payload.data() + payload.size(), sizeof sum);
          if (crc32(0, arrival.datagram.data(), kHead + payload.size()) != sum) return;
          memcpy(memory.data() + number % packets * setup.mtu, payload.data(), payload.size());
        }
        ++received;
      });
      if (received - told >= kAckEvery || (received == all && told < all) ||
          (received % packets == 0 && told < received)) {
        told = received;
        socket.send(std::array{Train{&peer, {reinterpret_cast<const uint8_t*>(&told), sizeof told}, sizeof told}});
      }
      if (!came) waitFor(socket);
    }
    return;
  }
  std::vector<uint8_t> room(UdpSocket::kMostTrainBytes * 8 + datagram);
  uint64_t sent = 0, acknowledged = 0;
  TimeNs begin = 0;
  for (size_t message = 0; message <= setup.messages; ++message) {
    if (message == 1) begin = Endpoint::now();
    const uint64_t end = packets * (message + 1);
    while (acknowledged < end) {
      if (Endpoint::now() > until) fail("no acknowledgement (a datagram was lost: plain UDP does not send it again)");
      std::vector<Train> trains;
      size_t used = 0;
      while (sent < end && sent - acknowledged < window && used + datagram <= room.size()) {
        const size_t begun = used;
        size_t segments = 0;
        while (sent < end && sent - acknowledged < window && segments < UdpSocket::kMostSegments &&
               used - begun + datagram <= UdpSocket::kMostTrainBytes && used + datagram <= room.size()) {
          uint8_t* at = room.data() + used;
          memcpy(at, &sent, sizeof sent);
          if (!bare) {
            memcpy(at + kHead, memory.data() + sent % packets * setup.mtu, setup.mtu);
            const uint32_t sum = crc32(0, at, kHead + setup.mtu);
            memcpy(at + kHead + setup.mtu, &sum, sizeof sum);
          }
          used += datagram;
          ++sent;
          ++segments;
          if (!socket.trains()) break;
        }
        trains.push_back({&peer, {room.data() + begun, used - begun}, static_cast<uint32_t>(datagram)});
      }
      for (size_t taken = 0; taken < trains.size();) {
        taken += socket.send(std::span(trains).subspan(taken));
        if (taken < trains.size()) ::usleep(10);
      }
      if (!socket.receive([&](const Arrival& arrival) {
            uint64_t told = 0;
            memcpy(&told, arrival.datagram.data(), sizeof told);
            acknowledged = std::max(acknowledged, told);
          }) &&
          trains.empty())
        waitFor(socket);
    }
  }
  std::printf("%.6f\n", static_cast<double>(Endpoint::now() - begin) * 1e-9);
  shared.done = true;
}

}  // namespace
}  // namespace hpu::roce

int main(int argc, char** argv) {
  using namespace hpu::roce;
  if (argc != 7 && argc != 8) {
    std::fprintf(stderr, "usage: roce_wire roce|udp|bare BYTES MESSAGES MTU ADDRESS_A ADDRESS_B [NAMESPACE_OF_B]\n");
    return 1;
  }
  Setup setup;
  setup.mode = argv[1];
  setup.bytes = std::strtoull(argv[2], nullptr, 10);
  setup.messages = std::strtoull(argv[3], nullptr, 10);
  setup.mtu = static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10));
  for (int side = 0; side < 2; ++side) {
    const std::string text = argv[5 + side];
    auto address = hpu::collectives::parseAddress(
        (text.find(':') == std::string::npos ? text : "[" + text + "]") + ":4791", "the command line");
    if (!address.ok()) fail(address.status().message());
    setup.local[side] = *address;
  }
  if (std::memcmp(&setup.local[0].ip, &setup.local[1].ip, 16) == 0) setup.local[0].port = setup.local[1].port = 0;
  void* mapped = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail("no memory");
  auto* shared = new (mapped) Shared;
  const pid_t child = ::fork();
  const int side = child == 0 ? 1 : 0;
  if (child == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (side == 1 && argc == 8) {
    const int fd = ::open((std::string("/run/netns/") + argv[7]).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) fail(std::string("no network namespace ") + argv[7]);
  }
  std::vector<std::byte> memory(setup.bytes + setup.mtu, std::byte{1});
  if (setup.mode == "roce")
    runRoce(setup, *shared, side, memory);
  else
    runUdp(setup, *shared, side, memory);
  if (child > 0) ::waitpid(child, nullptr, 0);
  return 0;
}
