// SPDX-License-Identifier: Apache-2.0
// A rank as a process of its own, started as torchrun starts it: `rank_program SCENARIO [VICTIM[,VICTIM...]]`.
// It prints "ok" or the code and message of its first failure.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/node.h"
#include "hpu/stream.h"
#include "hpu/telemetry.h"

namespace {

using namespace hpu;
using namespace hpu::collectives;

#define TRY(expr)                                         \
  do {                                                    \
    if (Status tried = (expr); !tried.ok()) return tried; \
  } while (false)

constexpr int64_t kCount = 200000;

struct Rank {
  LauncherEnvironment launch;
  Communicator comm;
  Stream stream;
  Buffer in, out;
  int rank = 0, ranks = 0;
  std::string scenario;
  int victim = -1;           ///< The first of them.
  std::vector<int> victims;  ///< Ascending.

  bool isVictim(const char* name) const { return scenario == name && rank == victim; }
  Status run();
  Status round(int number);
  Status shrinks();
  Status survives();
  Status counts();
};

int64_t entriesOf(const char* folder) {
  int64_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}
struct Held {
  int64_t descriptors = entriesOf("/proc/self/fd"), threads = entriesOf("/proc/self/task");
};

/// Works until somebody kills the victims; says when it heard of it, goes on without them, and leaves nothing behind.
Status Rank::survives() {
  std::printf("ready\n");
  std::fflush(stdout);
  Status heard;
  for (int number = 0; heard.ok(); ++number) heard = round(number);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("heard %lld %s\n", static_cast<long long>(now.tv_sec * 1000 + now.tv_nsec / 1000000),
              heard.toString().c_str());
  std::fflush(stdout);
  auto smaller = comm.shrink(victims);
  TRY(smaller.status());
  comm = *smaller;
  rank = comm.rank();
  ranks = comm.ranks();
  for (int number = 0; number < 3; ++number) TRY(round(number));
  return comm.finalize(60000);
}

/// What its own device has counted so far.
StatusOr<node::DeviceStatus> counted(int index) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const int64_t since = static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
  for (int i = 0; i < 300; ++i) {
    auto status = node::query(index);
    if (!status.ok() || status->updatedAtNs >= since) return status;
  }
  return internalError("the device does not answer");
}

/// A message to the second next rank and an all-gather; says what its device's links have counted after each.
Status Rank::counts() {
  const int index = launch.localRank;
  auto say = [&](const char* what) -> Status {
    auto status = counted(index);
    TRY(status.status());
    for (int link = 0; link < node::kLinks; ++link) {
      for (bool sent : {true, false}) {
        const node::PortTraffic& t = sent ? status->links[link].sent : status->links[link].received;
        if (t.messages == 0) continue;
        std::printf("%s %s %d %lld %lld %lld %lld %lld\n", what, sent ? "tx" : "rx", link,
                    static_cast<long long>(t.messages), static_cast<long long>(t.packets),
                    static_cast<long long>(t.payloadBytes), static_cast<long long>(t.bytes),
                    static_cast<long long>(t.busyPs));
      }
    }
    std::printf("%s rail %d\n", what, status->railUsers);
    for (int i = 0; i < node::kNumNetworkCounters; ++i)
      std::printf("%s network %s %llu\n", what,
                  std::string(telemetry::networkCounterName(static_cast<node::NetworkCounter>(i))).c_str(),
                  static_cast<unsigned long long>(status->network[i]));
    std::fflush(stdout);
    return okStatus();
  };
  TRY(groupStart());
  TRY(comm.send(in.address(), kCount + 1, ElementType::kU8, (rank + 2) % ranks, stream));
  TRY(comm.receive(out.address(), kCount + 1, ElementType::kU8, (rank + 2) % ranks, stream));
  TRY(groupEnd());
  TRY(stream.synchronize());
  TRY(say("send"));
  for (int i = 0; i < 3; ++i)
    TRY(comm.allGather(in.address(), out.address(), kCount / ranks, ElementType::kI32, stream));
  TRY(stream.synchronize());
  TRY(say("all"));
  return comm.finalize(60000);
}

/// Ranks that die, the first one among them, and shrinks without them until two are left.
Status Rank::shrinks() {
  const int before[] = {1, 3};  // Of the second communicator 0 and 2.
  auto fails = [&](const std::vector<int>& excluded, const std::string& named) -> Status {
    auto begin = std::chrono::steady_clock::now();
    Status status = comm.shrink(excluded).status();
    if (status.code() != StatusCode::kUnavailable || status.message().find(named) == std::string::npos)
      return internalError("not " + named + ": " + status.toString());
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(30))
      return internalError("late: " + status.toString());
    return okStatus();
  };
  auto goOn = [&](const std::vector<int>& excluded) -> Status {
    if (round(100).ok()) return internalError("a dead rank has taken part");
    auto smaller = comm.shrink(excluded);
    TRY(smaller.status());
    comm = *smaller;
    rank = comm.rank();
    ranks = comm.ranks();
    for (int number = 0; number < 3; ++number) TRY(round(number));
    return okStatus();
  };
  if (launch.rank == victim) raise(SIGKILL);
  if (round(100).ok()) return internalError("a dead rank has taken part");
  // Its coordinator is dead, and so is where they would meet.
  TRY(fails({}, "rank 0 (process"));
  TRY(goOn({0}));
  if (launch.rank == before[0] || launch.rank == before[1]) {
    // Others may be at the last messages of the round yet, which the death of any rank would fail.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    raise(SIGKILL);
  }
  if (round(100).ok()) return internalError("a dead rank has taken part");
  TRY(fails({0}, "rank 2 (process"));
  TRY(fails({2}, "rank 0 (process"));
  TRY(goOn({0, 2}));
  if (ranks != 2) return internalError("not two ranks");
  return comm.finalize(60000);
}

Status Rank::round(int number) {
  std::vector<int32_t> values(kCount), sums(kCount);
  // Copies that a failure leaves behind use them.
  struct Rest {
    Stream& stream;
    ~Rest() { stream.synchronize().ignore(); }
  } rest{stream};
  for (int64_t i = 0; i < kCount; ++i)
    values[static_cast<size_t>(i)] = static_cast<int32_t>(i % 1000 + rank * 1000 + number);
  TRY(stream.copyToDevice(in, values.data(), kCount * 4));
  TRY(comm.allReduce(in.address(), out.address(), kCount, ElementType::kI32, ReduceOp::kSum, stream));
  TRY(stream.copyToHost(sums.data(), out, kCount * 4));
  TRY(stream.synchronize());
  int32_t ofRanks = ranks * (ranks - 1) / 2 * 1000 + ranks * number;
  for (int64_t i = 0; i < kCount; ++i)
    if (sums[static_cast<size_t>(i)] != ranks * static_cast<int32_t>(i % 1000) + ofRanks)
      return internalError("wrong sum in round " + std::to_string(number));
  // From the left, to the right.
  TRY(groupStart());
  TRY(comm.send(in.address(), kCount, ElementType::kI32, (rank + 1) % ranks, stream));
  TRY(comm.receive(out.address(), kCount, ElementType::kI32, (rank + ranks - 1) % ranks, stream));
  TRY(groupEnd());
  TRY(stream.copyToHost(sums.data(), out, kCount * 4));
  TRY(stream.synchronize());
  if (sums[0] != (rank + ranks - 1) % ranks * 1000 + number) return internalError("wrong neighbour");
  return okStatus();
}

Status Rank::run() {
  auto found = launcherEnvironment();
  TRY(found.status());
  launch = *found;
  rank = launch.rank;
  ranks = launch.ranks;
  DeviceOptions options;
  options.index = launch.localRank;
  options.hbmBytes = 64 << 20;
  options.threads = 1;
  auto device = Device::open(options);
  TRY(device.status());
  if (isVictim("kill-before-create")) raise(SIGKILL);
  {
    // The device's threads start with its first work.
    auto warm = Stream::create(*device);
    auto memory = device->allocate(64);
    TRY(warm.status());
    TRY(memory.status());
    TRY(warm->fill(*memory, 0, 64));
    TRY(warm->synchronize());
  }
  const Held before;
  // Zeros: HCCL_COMM_ID says where.
  auto made = Communicator::create(UniqueId{}, rank, ranks, *device);
  TRY(made.status());
  comm = *made;
  auto opened = Stream::create(*device);
  TRY(opened.status());
  stream = *opened;
  auto first = device->allocate(kCount * 4), second = device->allocate(kCount * 4);
  TRY(first.status());
  TRY(second.status());
  in = *first;
  out = *second;
  if (scenario == "end-at-once") {
    // The first collective: links are not there yet. The victim is its root, and goes as soon as it is done here.
    TRY(comm.broadcast(in.address(), out.address(), 14, ElementType::kI32, victim, stream));
    TRY(stream.synchronize());
    if (rank == victim) {
      std::printf("ok\n");
      std::fflush(stdout);
      ::_exit(0);
    }
    return okStatus();
  }
  if (scenario == "count") return counts();
  for (int number = 0; number < 5; ++number) TRY(round(number));
  if (scenario == "shrink") return shrinks();
  if (scenario == "survive") {
    TRY(survives());
    made = comm = Communicator();
    opened = stream = Stream();
    first = second = in = out = Buffer();
    // Threads end on their own time.
    Held after;
    for (int i = 0; i < 500 && (after.descriptors > before.descriptors || after.threads > before.threads); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      after = Held();
    }
    if (after.descriptors > before.descriptors || after.threads > before.threads)
      return internalError("left behind: " + std::to_string(after.descriptors - before.descriptors) +
                           " descriptors and " + std::to_string(after.threads - before.threads) + " threads");
    return okStatus();
  }
  if (isVictim("kill")) raise(SIGKILL);
  if (isVictim("stop")) raise(SIGSTOP);
  if (isVictim("silent")) {
    std::printf("silent\n");
    std::fflush(stdout);
    for (;;) ::pause();
  }
  if (isVictim("busy")) {
    // Its device always has something to do.
    std::printf("busy\n");
    std::fflush(stdout);
    for (;;) {
      TRY(stream.fill(out, 1, kCount * 4));
      TRY(stream.synchronize());
    }
  }
  if (scenario == "kill-in-flight") {
    // Many operations are queued when it goes.
    std::thread killer;
    if (rank == victim)
      killer = std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        raise(SIGKILL);
      });
    for (int i = 0; i < 100000; ++i) {
      TRY(comm.allReduce(in.address(), out.address(), kCount, ElementType::kI32, ReduceOp::kSum, stream));
      if (i % 500 == 499) TRY(stream.synchronize());
    }
    return internalError("the victim lives");
  }
  if (isVictim("mismatch")) {
    TRY(comm.allGather(in.address(), out.address(), kCount / ranks, ElementType::kI32, stream));
    TRY(stream.synchronize());
  }
  if (scenario == "kill-idle") {
    if (rank == victim) raise(SIGKILL);
    // Nothing is in progress: who asks is told.
    for (int i = 0; i < 4000; ++i) {
      TRY(comm.asyncError());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return internalError("nothing was told");
  }
  for (int number = 5; number < 8; ++number) TRY(round(number));
  if (isVictim("stop-before-finalize")) raise(SIGSTOP);
  return comm.finalize(60000);
}

}  // namespace

int main(int argc, char** argv) {
  Rank rank;
  rank.scenario = argc > 1 ? argv[1] : "work";
  for (char* at = argc > 2 ? argv[2] : nullptr; at; at = std::strchr(at, ',') ? std::strchr(at, ',') + 1 : nullptr)
    rank.victims.push_back(std::atoi(at));
  if (!rank.victims.empty()) rank.victim = rank.victims.front();
  Status status = rank.run();
  std::printf("%s\n", status.ok() ? "ok" : status.toString().c_str());
  std::fflush(stdout);  // Whatever the end of the process brings, sanitizers' findings for one.
  return status.ok() ? 0 : 1;
}
