// SPDX-License-Identifier: Apache-2.0
// Runs the suite on every transport. A new one registers at the end of this file.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "NetRanks.h"
#include "ShmRanks.h"
#include "Suite.h"
#include "Threads.h"
#include "collectives/transport/local/LocalTransport.h"

namespace hpu::testing {
namespace {
using namespace collectives;

struct Kind {
  std::string name;
  /// Runs the case on its ranks and returns when all are done.
  void (*run)(const Case& which);
  bool canStop = true;  ///< Has Rank::stop.
  int leastRanks = 2;
};

void runLocal(const Case& which) {
  std::vector<std::vector<std::byte>> bytes(static_cast<size_t>(which.ranks), std::vector<std::byte>(kMemoryBytes));
  std::vector<LocalMemory> memories;
  for (auto& memory : bytes) memories.push_back({memory.data(), 0x1000, kMemoryBytes});
  auto group = LocalGroup::create(memories);
  ThreadGather gather(which.ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < which.ranks; ++r)
    threads.emplace_back([&, r] {
      Rank rank;
      rank.transport = group->transport(r);
      rank.address = 0x1000;
      rank.bytes = kMemoryBytes;
      rank.gather = [&, r](const std::string& mine) { return gather(r, mine); };
      rank.die = [&, r] { group->kill(r); };
      rank.stop = [&](int peer, bool stopped) { group->stop(peer, stopped); };
      which.run(rank);
    });
  for (std::thread& thread : threads) thread.join();
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"local", runLocal},
      {"shmThreads", runShmThreads, false},
      {"shmProcesses", runShmProcesses},
      {"netMemory1", [](const Case& which) { runNetMemory(which, Layout::kOneANode); }, false},
      {"netMemory2", [](const Case& which) { runNetMemory(which, Layout::kTwoANode); }, false, 3},
      {"netMemory31", [](const Case& which) { runNetMemory(which, Layout::kOneApart); }, false, 3},
      {"netRails2", [](const Case& which) { runNetMemory(which, Layout::kTwoANode, 2); }, false, 3},
      {"netTcpRails1", [](const Case& which) { runNetThreads(which, Layout::kOneANode, Wire::kTcpRails); }, false},
      {"netTcp1", [](const Case& which) { runNetThreads(which, Layout::kOneANode, Wire::kTcp); }, false},
      {"netTcp2", [](const Case& which) { runNetThreads(which, Layout::kTwoANode, Wire::kTcp); }, false, 3},
      {"netTcp31", [](const Case& which) { runNetThreads(which, Layout::kOneApart, Wire::kTcp); }, false, 3},
      {"netProcessesTcp1", [](const Case& which) { runNetProcesses(which, Layout::kOneANode, Wire::kTcp); }, false},
      {"netProcessesTcp2", [](const Case& which) { runNetProcesses(which, Layout::kTwoANode, Wire::kTcp); }, false, 3},
      {"netProcessesTcp31", [](const Case& which) { runNetProcesses(which, Layout::kOneApart, Wire::kTcp); }, false, 3},
      {"netProcessesRoce1", [](const Case& which) { runNetProcesses(which, Layout::kOneANode, Wire::kRoce); }, false},
      {"netProcessesRoce2", [](const Case& which) { runNetProcesses(which, Layout::kTwoANode, Wire::kRoce); }, false,
       3},
      {"netLossyRoce2", [](const Case& which) { runNetThreads(which, Layout::kTwoANode, Wire::kLossyRoce); }, false, 3},
  };
  return all;
}

struct Run {
  Kind kind;
  Case which;
};
void PrintTo(const Run& run, std::ostream* out) {
  *out << run.which.name << " on " << run.kind.name;
}
std::vector<Run> allRuns() {
  std::vector<Run> runs;
  for (const Kind& kind : kinds())
    for (const Case& which : allCases())
      if ((!which.stopsRanks || kind.canStop) && which.ranks >= kind.leastRanks) runs.push_back({kind, which});
  return runs;
}

class TransportConformance : public ::testing::TestWithParam<Run> {};

TEST_P(TransportConformance, Passes) {
  GetParam().kind.run(GetParam().which);
}

INSTANTIATE_TEST_SUITE_P(All, TransportConformance, ::testing::ValuesIn(allRuns()),
                         [](const auto& info) { return info.param.kind.name + "_" + info.param.which.name; });

}  // namespace
}  // namespace hpu::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (int code = hpu::testing::runAsRank(argc, argv); code >= 0) return code;
  return RUN_ALL_TESTS();
}
