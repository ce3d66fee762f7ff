// SPDX-License-Identifier: Apache-2.0
// A rank as a process of its own, started as torchrun starts it: `rank_program SCENARIO [VICTIM]`.
// It prints "ok" or the code and message of its first failure.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/stream.h"

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
  int victim = -1;

  bool isVictim(const char* name) const { return scenario == name && rank == victim; }
  Status run();
  Status round(int number);
  Status shrinks();
};

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
  if (launch.rank == before[0] || launch.rank == before[1]) raise(SIGKILL);
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
  for (int number = 0; number < 5; ++number) TRY(round(number));
  if (scenario == "shrink") return shrinks();
  if (isVictim("kill")) raise(SIGKILL);
  if (isVictim("stop")) raise(SIGSTOP);
  if (isVictim("silent")) {
    std::printf("silent\n");
    std::fflush(stdout);
    for (;;) ::pause();
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
  rank.victim = argc > 2 ? std::atoi(argv[2]) : -1;
  Status status = rank.run();
  std::printf("%s\n", status.ok() ? "ok" : status.toString().c_str());
  std::fflush(stdout);  // Whatever the end of the process brings, sanitizers' findings for one.
  return status.ok() ? 0 : 1;
}
