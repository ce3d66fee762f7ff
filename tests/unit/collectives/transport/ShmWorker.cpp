// SPDX-License-Identifier: Apache-2.0
// A rank that is killed and stopped by ChaosTest: it makes a communicator each round, sends and
// checks messages of all sizes until some peer ends or stands still, and says what it saw.
//   shm_worker RANK RANKS, with a socket of packets at descriptor 3:
//   in  "round SEED MS" (stops by itself after MS when nobody ends), "texts", "gone", "holdings"
//   out "gather TEXT", "result TEXT", "holds DESCRIPTORS,THREADS,SEGMENTS"
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "collectives/transport/shm/ShmTransport.h"
#include "hpu/device.h"

namespace hpu {
namespace {

using namespace collectives;
using Clock = std::chrono::steady_clock;

constexpr int kSocket = 3;
constexpr int64_t kSlot = 64 << 10;
constexpr uint64_t kSlots = 16;
constexpr std::chrono::milliseconds kSilence{600};

void say(const std::string& text) {
  if (::send(kSocket, text.data(), text.size(), MSG_NOSIGNAL) < 0) std::_Exit(3);
}
std::string hear() {
  std::string text(64 << 10, '\0');
  ssize_t bytes = ::recv(kSocket, text.data(), text.size(), 0);
  if (bytes <= 0) std::_Exit(3);
  text.resize(static_cast<size_t>(bytes));
  return text;
}

StatusOr<std::vector<std::string>> gather(int ranks, const std::string& mine) {
  say("gather " + mine);
  std::vector<std::string> texts;
  if (std::string first = hear(); first != "texts") return unavailable("not all ranks came: " + first);
  for (int i = 0; i < ranks; ++i) texts.push_back(hear().substr(1));
  return texts;
}

std::byte patternAt(uint64_t seed, int64_t i) {
  return static_cast<std::byte>((seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(i / 64)) >> 29);
}

/// What the process holds, for the test to compare.
std::string holdings() {
  std::error_code error;
  auto count = [&](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder, error), {});
  };
  int segments = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) segments += line.find("hpu-communicator") != std::string::npos;
  return std::to_string(count("/proc/self/fd")) + "," + std::to_string(count("/proc/self/task")) + "," +
         std::to_string(segments);
}

/// Sends and receives until something ends; "" when the time is over first.
class Traffic {
 public:
  Traffic(Transport& transport, uint64_t seed) : t_(transport), random_(seed) {
    flows_.resize(static_cast<size_t>(t_.ranks()));
  }

  std::string run(Clock::time_point until) {
    std::vector<uint64_t> beats(flows_.size());
    std::vector<Clock::time_point> beaten(flows_.size(), Clock::now());
    while (Clock::now() < until) {
      uint32_t seen = t_.changes();
      bool moved = true;
      while (moved) {
        moved = false;
        for (int peer = 0; peer < t_.ranks(); ++peer) {
          if (peer == t_.rank()) continue;
          if (std::string wrong = receive(peer, moved); !wrong.empty()) return wrong;
          send(peer, moved);
        }
        for (int peer = 0; peer < t_.ranks(); ++peer)
          if (Status status = t_.peerStatus(peer); !status.ok()) return ended(status);
      }
      t_.waitForChange(seen, std::min(until, Clock::now() + std::chrono::milliseconds(50)));
      for (int peer = 0; peer < t_.ranks(); ++peer) {
        auto& last = beats[static_cast<size_t>(peer)];
        auto& at = beaten[static_cast<size_t>(peer)];
        if (uint64_t now = t_.heartbeat(peer); now != last || peer == t_.rank()) {
          last = now;
          at = Clock::now();
        } else if (Clock::now() - at > kSilence && t_.describe(peer).find("stopped") != std::string::npos) {
          return ended(deadlineExceeded(t_.describe(peer) + " does not answer"));
        }
      }
    }
    return "";
  }

 private:
  std::string ended(const Status& status) {
    t_.abort(status);
    return "end " + std::string(statusCodeName(status.code())) + " " + status.message();
  }
  std::string receive(int peer, bool& moved) {
    auto& flow = flows_[static_cast<size_t>(peer)];
    while (auto message = t_.arrived(peer, Lane::kCollective, flow.received)) {
      uint64_t seed = message->tag.sequence * 64 + static_cast<uint64_t>(peer * 8 + t_.rank());
      bool good = message->tag.sequence == flow.received && message->tag.count == message->bytes;
      // The ends, and a few in between: the machine has other things to do.
      for (int64_t i = 0; good && i < message->bytes; i += i < 64 ? 1 : 777)
        good = message->data[i] == patternAt(seed, i);
      if (!good) return "wrong message " + std::to_string(flow.received);
      t_.release(peer, Lane::kCollective);
      ++flow.received;
      moved = true;
    }
    return "";
  }
  void send(int peer, bool& moved) {
    auto& flow = flows_[static_cast<size_t>(peer)];
    // A slot of memory is used again when what was in it is released.
    while (flow.sent < t_.released(peer, Lane::kCollective) + kSlots) {
      int64_t bytes = static_cast<int64_t>(random_() % 4 ? random_() % 200 : random_() % kSlot);
      auto slot = static_cast<uint64_t>(peer) * kSlots + flow.sent % kSlots;
      std::byte* data = t_.local(kHbmBase + slot * kSlot, kSlot);
      uint64_t seed = flow.sent * 64 + static_cast<uint64_t>(t_.rank() * 8 + peer);
      for (int64_t i = 0; i < bytes; ++i) data[i] = patternAt(seed, i);
      MessageTag tag;
      tag.sequence = flow.sent;
      tag.count = bytes;
      auto offered = t_.offer(peer, Lane::kCollective, data, bytes, tag);
      if (!offered.ok() || *offered == Offered::kFull) return;
      ++flow.sent;
      moved = true;
      if (random_() % 4 == 0) return;
    }
  }

  struct Flow {
    uint64_t sent = 0, received = 0;
  };
  Transport& t_;
  std::mt19937_64 random_;
  std::vector<Flow> flows_;
};

std::string round(int rank, int ranks, int device, uint64_t seed, int64_t ms) {
  ShmOptions options;
  options.identity = "chaos";
  options.rank = rank;
  options.ranks = ranks;
  options.deviceIndex = device;
  options.timeoutMs = 3000;
  options.allGather = [&](const std::string&, const std::string& mine) { return gather(ranks, mine); };
  auto created = createShmTransport(options);
  if (!created.ok())
    return "create " + std::string(statusCodeName(created.status().code())) + " " + created.status().message();
  std::shared_ptr<Transport> transport = std::move(*created);
  uint64_t progress = 0;
  transport->setProgressSource([&progress] { return ++progress; });
  std::string result =
      Traffic(*transport, seed + static_cast<uint64_t>(rank)).run(Clock::now() + std::chrono::milliseconds(ms));
  if (result.empty()) {
    // No rank leaves while others may still expect something of it.
    result = gather(ranks, "").ok() ? "done" : "end at the barrier";
  }
  transport.reset();
  return result;
}

int run(int argc, char** argv) {
  if (argc != 3) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  DeviceOptions options;
  options.index = rank;
  options.hbmBytes = 16 << 20;
  auto device = Device::open(options);
  say(device.ok() ? "ready" : "cannot open: " + device.status().message());
  if (!device.ok()) return 1;
  while (true) {
    std::string command = hear();
    unsigned long long seed = 0;
    long long ms = 0;
    if (std::sscanf(command.c_str(), "round %llu %lld", &seed, &ms) == 2) {
      std::string result = round(rank, ranks, rank, seed, ms);
      say("result " + result);
    } else if (command == "holdings") {
      say("holds " + holdings());
    } else if (command == "quit") {
      return 0;
    }
    // Else: what came too late for a round.
  }
}

}  // namespace
}  // namespace hpu

int main(int argc, char** argv) {
  return hpu::run(argc, argv);
}
